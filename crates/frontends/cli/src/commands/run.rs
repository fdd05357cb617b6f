//! `tenon run`

use super::load::{self, Loaded, ModelSource};
use super::{placement, run_session};
use crate::flags::Run;
use crate::output::{self, say};
use crate::progress;
use crate::table::{Table, bytes, duration};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tenon::compare::Difference;
use tenon::files::write_through;
use tenon::outputs::{Class, Element, class_labels, is_classification, maps, top_classes};
use tenon::profile::{PartProfile, Profile};
use tenon::tap::{TappedPart, Taps};
use tenon::tensor::npy;
use tenon::{
    Error, ErrorKind, LoadOptions, Location, MapKey, MapKeys, Model, Pattern, Result, RunOptions,
    Signature, Tensor,
};

pub fn run(flags: &Run) -> Result<()> {
    if flags.session.steps.is_some() || flags.model.compiling.has_states() {
        return run_session::run(flags);
    }
    let control = progress::control();
    let options = LoadOptions::new()
        .threads(flags.threading.threads)
        .check_digests(flags.check_digests)
        .control(control.clone());
    if let Some(path) = &flags.output {
        output::reserve(path, flags.json)?;
    }
    output::folder(&flags.tap_dir)?;
    let model = ModelSource {
        file: &flags.file,
        inputs: &flags.inputs,
        flags: &flags.model,
        any_size: false,
    };
    let (loaded, mut given) = load::load_with(&model, options)?;
    let Loaded { model, .. } = &loaded;
    let here = |error: Error| error.at(Location::file(&flags.file));
    let image = load::image_options(model.metadata(), &flags.inputs.pictures).map_err(here)?;
    let tensors = given.tensors(&load::signature(model), &flags.inputs, &image)?;
    let inputs: Vec<_> = tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect();
    let start = Instant::now();
    let mut profile = flags.profile.then(|| model.profile());
    let taps = (!flags.tap.is_empty()).then(|| {
        let patterns = flags.tap.iter().map(|text| Pattern::new(text.as_str()));
        Taps::new(patterns.collect())
    });
    let mut options = RunOptions::new().control(control);
    options.profile = profile.as_mut();
    options.tap = taps.as_ref().map(|taps| taps as &dyn tenon::tap::Tap);
    let outputs = model.run_with(&inputs, options).map_err(here)?;
    let run_time = start.elapsed();
    let written = match &flags.output {
        Some(folder) => write_outputs(folder, model.outputs(), &outputs)?,
        None => Vec::new(),
    };
    let parts = taps.as_ref().map(Taps::parts).unwrap_or_default();
    let tapped = match taps {
        Some(taps) => taps.write(&flags.tap_dir).map_err(here)?,
        None => Vec::new(),
    };
    if flags.json {
        let results = RunResults {
            outputs: &outputs,
            files: &written,
            tapped: &tapped,
            parts: &parts,
            top: flags.top,
        };
        output::json(as_json(&loaded, &results, run_time, profile.as_ref())?)?;
    } else if !flags.quiet {
        print_outputs(model.metadata(), model.outputs(), &outputs, flags.top)?;
        print_files(model, &written)?;
        for (name, file) in &tapped {
            say!("{name} written to {}", file.display())?;
        }
        for TappedPart { node, part, time } in &parts {
            say!(
                "{node}: {} {}",
                part_name(&part.name, &part.nodes),
                duration(*time)
            )?;
        }
        if let Some(profile) = &profile {
            print_profile(profile)?;
        }
        print_summary(&loaded, run_time)?;
    }
    match &flags.compare {
        Some(file) => compare(
            model.outputs(),
            &outputs,
            file,
            flags.tolerance,
            flags.quiet,
        ),
        None => Ok(()),
    }
}

/// Each output as `DIR/NAME.npy`, or all as an `.npz` to standard output; resultss the files.
pub fn write_outputs(
    folder: &Path,
    signatures: &[Signature],
    outputs: &[Tensor],
) -> Result<Vec<PathBuf>> {
    if tenon::files::is_standard_stream(folder) {
        let names = signatures.iter().map(|output| output.name.as_str());
        let arrays: Vec<(&str, &Tensor)> = names.zip(outputs).collect();
        write_through(folder, |path| npy::write_npz(path, &arrays))?;
        return Ok(Vec::new());
    }
    std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, "create", error))?;
    let names = signatures.iter().map(|output| output.name.as_str());
    let mut files = Vec::new();
    for (name, output) in tenon::files::file_names(names).into_iter().zip(outputs) {
        let file = folder.join(format!("{name}.npy"));
        npy::write_npy(&file, output)?;
        files.push(file);
    }
    Ok(files)
}

/// Prints the files whose name differs from the name of their output.
fn print_files(model: &Model, files: &[PathBuf]) -> Result<()> {
    for (output, file) in model.outputs().iter().zip(files) {
        if file.file_stem().is_none_or(|stem| *stem != *output.name) {
            say!("{} written to {}", output.name, file.display())?;
        }
    }
    Ok(())
}

pub fn print_outputs(
    metadata: &BTreeMap<String, String>,
    signatures: &[Signature],
    outputs: &[Tensor],
    top: Option<usize>,
) -> Result<()> {
    let labels = class_labels(metadata);
    for (signature, output) in signatures.iter().zip(outputs) {
        if let Some(keys) = &signature.keys {
            print_maps(&signature.name, output, keys)?;
            continue;
        }
        match classes(output, labels.as_deref(), top)? {
            Some(classes) => {
                say!("{}:", signature.name)?;
                let mut table = Table::default();
                for class in classes {
                    table.row([class.value.to_string(), class.label]);
                }
                let mut lines = table.lines().into_iter();
                lines.try_for_each(|line| say!("  {line}"))?;
            }
            None => say!("{}: {} {}", signature.name, output.ty(), preview(output)?)?,
        }
    }
    Ok(())
}

/// Prints the first rows of an output that is a map, with the first keys.
fn print_maps(name: &str, output: &Tensor, keys: &MapKeys) -> Result<()> {
    const SHOWN: usize = 6;
    const SHOWN_KEYS: usize = 10;
    say!("{name}: {} by {} keys", output.ty(), keys.len())?;
    let all = output.ty().elements() / keys.len().max(1);
    for map in maps(output, keys, SHOWN * keys.len())? {
        let pairs = map.iter().take(SHOWN_KEYS);
        let mut pairs: Vec<String> = pairs
            .map(|(key, value)| format!("{key}: {value}"))
            .collect();
        if keys.len() > SHOWN_KEYS {
            pairs.push("...".into());
        }
        say!("  {{{}}}", pairs.join(", "))?;
    }
    match all > SHOWN {
        true => say!("  ... {all} in all"),
        false => Ok(()),
    }
}

/// The top classes of an output that scores classes, or of any vector when `--top` is given.
fn classes(
    output: &Tensor,
    labels: Option<&[String]>,
    top: Option<usize>,
) -> Result<Option<Vec<Class>>> {
    const SHOWN: usize = 5;
    if top.is_some() || is_classification(output, labels)? {
        top_classes(output, labels, top.unwrap_or(SHOWN))
    } else {
        Ok(None)
    }
}

/// The first elements in text.
fn preview(tensor: &Tensor) -> Result<String> {
    const SHOWN: usize = 6;
    let mut shown: Vec<String> = tenon::outputs::elements(tensor, SHOWN)?
        .iter()
        .map(Element::to_string)
        .collect();
    if tensor.ty().elements() > SHOWN {
        shown.push("...".into());
    }
    Ok(format!("[{}]", shown.join(", ")))
}

pub fn print_summary(loaded: &Loaded, run_time: Duration) -> Result<()> {
    let placement = placement::line(loaded.model.placement());
    say!("\n{}", placement.as_deref().unwrap_or("a netlist"))?;
    let compile = match loaded.compile_time {
        Some(time) => format!("compile {}, ", duration(time)),
        None => String::new(),
    };
    say!(
        "{compile}load {}, run {}",
        duration(loaded.load_time),
        duration(run_time)
    )
}

fn print_profile(profile: &Profile) -> Result<()> {
    let mut table = Table::new(&["time", "share", "bytes", "backend", "operator", "node"]);
    let total = profile.total().as_secs_f64().max(f64::MIN_POSITIVE);
    for kernel in &profile.kernels {
        table.row([
            duration(kernel.time),
            format!("{:.1} %", kernel.time.as_secs_f64() / total * 100.0),
            bytes(kernel.bytes),
            kernel.backend.clone(),
            kernel.operator.clone(),
            kernel.node.clone(),
        ]);
        for part in &kernel.parts {
            let empty = || String::new();
            table.row([
                duration(part.time),
                format!("{:.1} %", part.time.as_secs_f64() / total * 100.0),
                empty(),
                empty(),
                empty(),
                format!("  {}", part_name(&part.name, &part.nodes)),
            ]);
        }
    }
    say!("\n{table}")
}

/// The name of a part with the nodes that it computes.
pub fn part_name(name: &str, nodes: &[String]) -> String {
    match nodes {
        [] => name.to_owned(),
        nodes => format!("{name} ({})", nodes.join(", ")),
    }
}

/// The results of a run.
pub struct RunResults<'a> {
    pub outputs: &'a [Tensor],
    /// Where they were written, if they were.
    pub files: &'a [PathBuf],
    pub tapped: &'a [(String, PathBuf)],
    pub parts: &'a [TappedPart],
    /// The number of classes to show, if given.
    pub top: Option<usize>,
}

/// The outputs with their first elements.
pub fn outputs_as_json(
    metadata: &BTreeMap<String, String>,
    signatures: &[Signature],
    results: &RunResults<'_>,
) -> Result<Vec<Value>> {
    const MOST: usize = 1000;
    let labels = class_labels(metadata);
    let mut list = Vec::new();
    for (index, (signature, output)) in signatures.iter().zip(results.outputs).enumerate() {
        let classes = classes(output, labels.as_deref(), results.top)?.map(|classes| {
            let class =
                |c: &Class| json!({"index": c.index, "label": c.label, "value": c.value.json()});
            classes.iter().map(class).collect::<Vec<_>>()
        });
        let values = tenon::outputs::elements(output, MOST)?;
        let maps = signature
            .keys
            .as_ref()
            .map(|keys| maps_as_json(output, keys, MOST));
        list.push(json!({
            "name": signature.name,
            "dtype": output.dtype().name(),
            "shape": output.shape().to_vec(),
            "values": values.iter().map(Element::json).collect::<Vec<_>>(),
            "truncated": output.ty().elements() > MOST,
            "top": classes,
            "maps": maps.transpose()?,
            "file": results.files.get(index),
        }));
    }
    Ok(list)
}

/// The maps in the first `most` elements as objects, at least one; integer keys as text.
fn maps_as_json(output: &Tensor, keys: &MapKeys, most: usize) -> Result<Vec<Value>> {
    let object = |map: Vec<(MapKey<'_>, Element)>| {
        let pairs = map.into_iter().map(|(key, value)| match key {
            MapKey::String(text) => (text.to_owned(), value.json()),
            MapKey::Int(key) => (key.to_string(), value.json()),
        });
        Value::Object(pairs.collect())
    };
    let most = most.max(keys.len());
    Ok(maps(output, keys, most)?.into_iter().map(object).collect())
}

fn as_json(
    loaded: &Loaded,
    results: &RunResults<'_>,
    run_time: Duration,
    profile: Option<&Profile>,
) -> Result<String> {
    let model = &loaded.model;
    let list = outputs_as_json(model.metadata(), model.outputs(), results)?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let kernels = profile.map(|profile| {
        let kernel = |k: &tenon::profile::KernelProfile| {
            let part = |part: &PartProfile| {
                json!({"name": part.name, "nodes": part.nodes, "us": part.time.as_secs_f64() * 1e6})
            };
            json!({"node": k.node, "operator": k.operator, "backend": k.backend,
                   "us": k.time.as_secs_f64() * 1e6, "bytes": k.bytes,
                   "parts": k.parts.iter().map(part).collect::<Vec<_>>()})
        };
        profile.kernels.iter().map(kernel).collect::<Vec<_>>()
    });
    let text = json!({
        "outputs": list,
        "placement": placement::line(loaded.model.placement()),
        "compile_ms": loaded.compile_time.map(ms),
        "load_ms": ms(loaded.load_time),
        "run_ms": ms(run_time),
        "profile": kernels,
        "taps": results
            .tapped
            .iter()
            .map(|(name, file)| json!({"name": name, "file": file}))
            .collect::<Vec<_>>(),
        "parts": results
            .parts
            .iter()
            .map(|TappedPart { node, part, time }| {
                json!({"node": node, "name": part.name, "nodes": part.nodes,
                       "us": time.as_secs_f64() * 1e6})
            })
            .collect::<Vec<_>>(),
    });
    Ok(text.to_string())
}

pub fn compare(
    signatures: &[Signature],
    outputs: &[Tensor],
    file: &Path,
    tolerance: f64,
    quiet: bool,
) -> Result<()> {
    let expected = tenon::inputs::read_npz_outputs(file)?;
    let mut problems = Vec::new();
    let mut compared = 0;
    for (signature, output) in signatures.iter().zip(outputs) {
        let Some((_, reference)) = expected.iter().find(|(name, _)| *name == signature.name) else {
            continue;
        };
        compared += 1;
        let place = Location {
            field: Some(format!("output '{}'", signature.name)),
            ..Location::file(file)
        };
        let difference = match Difference::between(output, reference) {
            Ok(difference) => difference,
            Err(error) => {
                problems.push(error.at(place));
                continue;
            }
        };
        if !quiet {
            say!(
                "{}: largest difference {:.3e}, relative {:.3e} (at element {}), top {}",
                signature.name,
                difference.absolute,
                difference.relative,
                difference.worst,
                if difference.same_top {
                    "the same"
                } else {
                    "differs"
                },
            )?;
        }
        if difference.relative > tolerance || !difference.same_top {
            problems.push(
                Error::new(ErrorKind::ExecutionFailed, "the model's output differs")
                    .expected(format_args!(
                        "a relative difference of at most {tolerance:e}, and the same top"
                    ))
                    .found(format_args!("{:.3e}", difference.relative))
                    .at(place),
            );
        }
    }
    if compared == 0 {
        problems.push(
            Error::new(ErrorKind::Usage, "no array is named as an output").at(Location::file(file)),
        );
    }
    Error::from_all(problems).map_or(Ok(()), Err)
}
