//! `tenon run`

use super::load::{self, Loaded};
use crate::flags::Run;
use crate::output::say;
use crate::progress;
use crate::table::{Table, bytes, duration};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tenon::{
    Difference, Error, ErrorKind, ExecuteOptions, LoadOptions, Location, Model, Pattern, Profile,
    Result, Taps, Tensor, labels, npy, topmost,
};

pub fn run(flags: &Run) -> Result<()> {
    let control = progress::control();
    let options = LoadOptions {
        threads: flags.threads,
        check_digests: flags.check_digests,
        control: control.clone(),
        ..LoadOptions::default()
    };
    let (loaded, mut given) =
        load::load_with(&flags.file, &flags.compiling, &flags.inputs, &options)?;
    let Loaded { model, .. } = &loaded;
    let image = load::image_options(model.metadata(), &flags.inputs)?;
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
    let options = ExecuteOptions {
        control: Some(&control),
        profile: profile.as_mut(),
        tap: taps.as_ref().map(|taps| taps as &dyn tenon::Tap),
        ..ExecuteOptions::default()
    };
    let outputs = model.run_with(&inputs, options)?;
    let run_time = start.elapsed();
    if let Some(folder) = &flags.output {
        write_outputs(folder, model, &outputs)?;
    }
    let tapped = match taps {
        Some(taps) => taps.write(&flags.tap_dir)?,
        None => Vec::new(),
    };
    if flags.json {
        say!(
            "{}",
            as_json(&loaded, &outputs, run_time, profile.as_ref(), &tapped)?
        )?;
    } else if !flags.quiet {
        print_outputs(model, &outputs, flags.top)?;
        for (name, file) in &tapped {
            say!("{name} written to {}", file.display())?;
        }
        if let Some(profile) = &profile {
            print_profile(profile)?;
        }
        print_summary(&loaded, run_time)?;
    }
    match &flags.compare {
        Some(file) => compare(model, &outputs, file, flags.tolerance, flags.quiet),
        None => Ok(()),
    }
}

/// Each output as `DIR/NAME.npy`.
fn write_outputs(folder: &Path, model: &Model, outputs: &[Tensor]) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, "create", error))?;
    for (signature, output) in model.outputs().iter().zip(outputs) {
        let name = tenon::file_name(&signature.name);
        npy::write_npy(folder.join(format!("{name}.npy")), output)?;
    }
    Ok(())
}

fn print_outputs(model: &Model, outputs: &[Tensor], top: usize) -> Result<()> {
    let labels = labels(model.metadata());
    for (signature, output) in model.outputs().iter().zip(outputs) {
        match topmost(output, labels.as_deref(), top)? {
            Some(classes) => {
                say!("{}:", signature.name)?;
                for class in classes {
                    say!("  {:>10.6}  {}", class.value, class.label)?;
                }
            }
            None => say!("{}: {} {}", signature.name, output.ty(), preview(output)?)?,
        }
    }
    Ok(())
}

/// The first elements in text.
fn preview(tensor: &Tensor) -> Result<String> {
    const SHOWN: usize = 6;
    let numbers = tenon::numbers(tensor, SHOWN)?;
    let more = if tensor.ty().elements() > SHOWN {
        ", ..."
    } else {
        ""
    };
    let text: Vec<_> = numbers
        .iter()
        .map(|number| format!("{number:.6}"))
        .collect();
    Ok(format!("[{}{more}]", text.join(", ")))
}

fn print_summary(loaded: &Loaded, run_time: Duration) -> Result<()> {
    say!("\n{}", loaded.model.placement())?;
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
    }
    say!("\n{table}")
}

fn as_json(
    loaded: &Loaded,
    outputs: &[Tensor],
    run_time: Duration,
    profile: Option<&Profile>,
    tapped: &[(String, PathBuf)],
) -> Result<String> {
    const MOST: usize = 1000;
    let labels = labels(loaded.model.metadata());
    let mut list = Vec::new();
    for (signature, output) in loaded.model.outputs().iter().zip(outputs) {
        let classes = topmost(output, labels.as_deref(), 5)?.map(|classes| {
            let class =
                |c: &tenon::Class| json!({"index": c.index, "label": c.label, "value": c.value});
            classes.iter().map(class).collect::<Vec<_>>()
        });
        list.push(json!({
            "name": signature.name,
            "dtype": output.dtype().name(),
            "shape": output.shape().to_vec(),
            "values": tenon::numbers(output, MOST)?,
            "truncated": output.ty().elements() > MOST,
            "top": classes,
        }));
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let kernels = profile.map(|profile| {
        let kernel = |k: &tenon::KernelProfile| {
            json!({"node": k.node, "operator": k.operator, "backend": k.backend,
                   "us": k.time.as_secs_f64() * 1e6, "bytes": k.bytes})
        };
        profile.kernels.iter().map(kernel).collect::<Vec<_>>()
    });
    let text = json!({
        "outputs": list,
        "placement": loaded.model.placement().to_string(),
        "compile_ms": loaded.compile_time.map(ms),
        "load_ms": ms(loaded.load_time),
        "run_ms": ms(run_time),
        "profile": kernels,
        "taps": tapped
            .iter()
            .map(|(name, file)| json!({"name": name, "file": file}))
            .collect::<Vec<_>>(),
    });
    Ok(text.to_string())
}

fn compare(
    model: &Model,
    outputs: &[Tensor],
    file: &Path,
    tolerance: f64,
    quiet: bool,
) -> Result<()> {
    let expected = tenon::read_npz_outputs(file)?;
    let mut problems = Vec::new();
    let mut compared = 0;
    for (signature, output) in model.outputs().iter().zip(outputs) {
        let Some((_, wanted)) = expected.iter().find(|(name, _)| *name == signature.name) else {
            continue;
        };
        compared += 1;
        let difference = Difference::between(output, wanted)?;
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
                Error::new(
                    ErrorKind::ExecutionFailed,
                    format!("output '{}' differs", signature.name),
                )
                .expected(format_args!(
                    "a relative difference of at most {tolerance:e}, and the same top"
                ))
                .found(format_args!("{:.3e}", difference.relative)),
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
