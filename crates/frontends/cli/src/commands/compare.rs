//! `tenon compare`

use super::input_files::InputFiles;
use super::load::{self, Loaded};
use crate::flags::Compare;
use crate::output::{self, say, status};
use crate::progress;
use crate::table::Table;
use serde_json::json;
use std::process::ExitCode;
use tenon::compare::{
    CompareOptions, Comparison, Divergence, Reproduction, Tolerance, compare_backends,
};
use tenon::{
    BackendId, Compiler, Control, Error, ErrorKind, LoadOptions, Location, ModelFile, Result,
    Tensor,
};

pub fn run(flags: &Compare) -> Result<ExitCode> {
    let backends = backends(flags)?;
    output::folder(&flags.output)?;
    compare(flags, backends).map_err(|error| error.at(Location::file(&flags.file)))
}

fn compare(flags: &Compare, backends: [BackendId; 2]) -> Result<ExitCode> {
    let control = progress::control();
    let (loaded, mut given) = open(flags, &control)?;
    let Loaded {
        model,
        package,
        runtime,
        ..
    } = &loaded;
    let image = load::image_options(model.metadata(), &flags.inputs.pictures)?;
    let tensors = given.tensors(&load::signature(model), &flags.inputs, &image)?;
    let inputs: Vec<(&str, &Tensor)> = tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect();
    let tolerance = Tolerance {
        relative: flags.tolerance,
        absolute: flags.absolute,
        steps: flags.steps,
    };
    let load = LoadOptions::new()
        .control(control)
        .activity(loaded.activity.clone())
        .runtime(runtime.clone());
    let [first, second] = backends;
    let options = CompareOptions::new(first, second)
        .tolerance(tolerance)
        .fused_nodes(loaded.fused_nodes.clone())
        .load(load);
    let found = compare_backends(package, &inputs, &options)?;
    let written = match &found.divergence {
        Some(divergence) => Some(divergence.write(&flags.output, runtime.backends())?),
        None => None,
    };
    if flags.json {
        let mut text = found.json();
        if let Some(Reproduction { package, arrays }) = &written {
            text["reproduction"] = json!({"package": package, "arrays": arrays});
        }
        output::json(text)?;
    } else {
        print(&found, flags.all)?;
        if let (Some(divergence), Some(written)) = (&found.divergence, &written) {
            let loading = flags.model.compiling.loading.text();
            print_divergence(&found, divergence, written, &loading)?;
        }
    }
    Ok(status(found.divergence.is_none()))
}

/// The two backends of the flags, or the default ones.
fn backends(flags: &Compare) -> Result<[BackendId; 2]> {
    let given = &flags.model.compiling.backends;
    let ids: Vec<BackendId> = if given.is_empty() {
        Compiler::default_backends()
    } else {
        given.iter().cloned().map(BackendId::from).collect()
    };
    <[BackendId; 2]>::try_from(ids).map_err(|ids| {
        Error::new(ErrorKind::Usage, "two backends are compared")
            .expected("--backends A,B")
            .found(ids.len())
    })
}

/// Loads the file; of a package the backends choose what is compared, not what it is.
fn open(flags: &Compare, control: &Control) -> Result<(Loaded, InputFiles)> {
    let mut model = flags.model.clone();
    let file = load::open(&flags.file, &model, control)?;
    if let ModelFile::Package(package) = &file {
        if !package.header().is_tenon() {
            let text =
                "this package was made by another compiler: its operators are not known here";
            return Err(Error::new(ErrorKind::Unsupported, text).at(Location::file(&flags.file)));
        }
        model.compiling.backends.clear();
    }
    let source = load::ModelSource {
        file: &flags.file,
        inputs: &flags.inputs,
        flags: &model,
        any_size: false,
    };
    let options = LoadOptions::new().control(control.clone());
    load::load_file(file, &source, options)
}

fn print(found: &Comparison, all: bool) -> Result<()> {
    if all {
        let mut table = Table::new(&["relative", "absolute", "operator", "node"]);
        for node in &found.compared {
            table.row([
                format!("{:.3e}", node.difference.relative),
                format!("{:.3e}", node.difference.absolute),
                node.operator.to_owned(),
                node.node.clone(),
            ]);
        }
        say!("{table}\n")?;
    }
    for node in &found.skipped {
        say!(
            "not compared: {} ({}): {}",
            node.node,
            node.operator,
            node.reason
        )?;
    }
    let [first, second] = &found.backends;
    let rest = match found.other_kernels {
        0 => String::new(),
        1 => ", 1 kernel is of neither".to_owned(),
        others => format!(", {others} kernels are of neither"),
    };
    let agree = format!(
        "{} on {first} and {second}{rest}",
        match found.compared.len() {
            1 => "1 operator agrees".to_owned(),
            count => format!("{count} operators agree"),
        }
    );
    match found.largest() {
        Some(node) => say!(
            "{agree}; the largest difference is {:.3e} at {} ({})",
            node.difference.relative,
            node.node,
            node.operator
        ),
        None => say!("{agree}"),
    }
}

fn print_divergence(
    found: &Comparison,
    divergence: &Divergence,
    written: &Reproduction,
    loading: &str,
) -> Result<()> {
    let [first, second] = &found.backends;
    let [a, b] = &divergence.worst;
    say!(
        "{} ({}) differs: output '{}', relative {:.3e}, absolute {:.3e}; element {} is {a} on \
         {first} and {b} on {second}",
        divergence.node,
        divergence.operator,
        divergence.output,
        divergence.difference.relative,
        divergence.difference.absolute,
        divergence.difference.worst,
    )?;
    let (package, arrays) = (written.package.display(), written.arrays.display());
    say!(
        "written to {package}, its inputs and what {second} makes of them to {arrays}; see it with"
    )?;
    say!("  tenon run {package} --input {arrays} --compare {arrays}{loading}")
}
