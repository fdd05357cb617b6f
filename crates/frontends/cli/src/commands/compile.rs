//! `tenon compile`

use super::input_files::once;
use super::{load, placement};
use crate::flags::Compile;
use crate::output::{self, say};
use crate::progress;
use crate::table::{bytes, duration};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tenon::files::write_through;
use tenon::{Compiler, Error, ErrorKind, Location, ModelFile, Result};

pub fn run(flags: &Compile) -> Result<()> {
    if super::netlist_run::is_netlist(&flags.model) {
        return netlist(flags);
    }
    let control = progress::control_within(flags.netlist.timeout);
    let start = Instant::now();
    let opening = load::opening(&flags.compiling, &control)?;
    let ModelFile::Onnx(onnx) = load::open_with(opening, &flags.model)? else {
        return Err(Error::new(ErrorKind::Usage, "this is a package already")
            .expected("an ONNX model")
            .at(Location::file(&flags.model)));
    };
    let registry = load::backends(&flags.compiling.loading)?;
    let mut compiler = Compiler::new();
    for (name, sizes) in once("--bucket", &flags.buckets.buckets)? {
        compiler = compiler.bucket(name, sizes);
    }
    for (input, value) in once("--pad", &flags.buckets.paddings)? {
        compiler = compiler.pad(input, value);
    }
    let compiling = &flags.compiling;
    let compiled = load::compile_with(compiler, &onnx, compiling, None, &registry, &control);
    let compiled = compiled.map_err(|error| error.at(Location::file(&flags.model)))?;
    if flags.emit_graph {
        let graph = compiled.graph_text();
        return if flags.json {
            output::json(json!({ "graph": graph }))
        } else {
            output::text(&(graph + "\n"))
        };
    }
    let output = output(flags)?;
    let written = write_through(&output, |path| {
        compiled.write(path)?;
        size(path)
    })?;
    if flags.compiling.has_states() && compiled.states().is_empty() {
        output::complain(format_args!(
            "warning: the package declares no states: {}",
            match flags.compiling.auto_state {
                true => "none were found",
                false => "one with CPU nodes or a host function cannot",
            }
        ));
    }
    if let Some(time) = compiled.reference_time(&registry) {
        output::complain(format_args!("warning: {time}"));
    }
    if flags.json {
        output::json(json!({
            "package": output,
            "bytes": written,
            "compile_ms": start.elapsed().as_secs_f64() * 1e3,
            "states": compiled.states().iter().map(ToString::to_string).collect::<Vec<_>>(),
            "summary": compiled.placement_report().to_string(),
            "placement": compiled.placement_report(),
        }))?;
        return Ok(());
    }
    if flags.placement {
        placement::print(compiled.placement_report())?;
    }
    say!(
        "{}: {}, {}, compiled in {}",
        output.display(),
        bytes(written),
        compiled.placement_report(),
        duration(start.elapsed())
    )?;
    Ok(())
}

/// A netlist: its programs run once.
fn netlist(flags: &Compile) -> Result<()> {
    let start = Instant::now();
    let source = tenon::netlist::read_source(&flags.model)?;
    let control = progress::control_within(flags.netlist.timeout);
    let job = super::netlist_run::compile_job(&flags.netlist, control)?;
    let compiled = job.compile(&source)?;
    let output = output(flags)?;
    let written = write_through(&output, |path| {
        compiled.write(path)?;
        size(path)
    })?;
    let took = start.elapsed();
    let member = &compiled.contents().tenon;
    if flags.json {
        let (inputs, outputs) = (&member.inputs, &member.outputs);
        return output::json(json!({
            "package": output, "bytes": written, "compile_ms": took.as_secs_f64() * 1e3,
            "inputs": inputs, "outputs": outputs,
        }));
    }
    say!(
        "{}: {}, {}, {}, compiled in {}",
        output.display(),
        bytes(written),
        output::count(member.inputs.len(), "input"),
        output::count(member.outputs.len(), "output"),
        duration(took)
    )
}

/// Bytes of a file.
fn size(path: &Path) -> Result<u64> {
    let written = std::fs::metadata(path).map_err(|error| Error::io(path, "read", error))?;
    Ok(written.len())
}

/// Where the package goes.
fn output(flags: &Compile) -> Result<PathBuf> {
    let default = || flags.model.with_extension("neff");
    if flags.output.is_none() && tenon::files::is_standard_stream(&flags.model) {
        let text = "a model from standard input has no name for its package";
        return Err(Error::new(ErrorKind::Usage, text).help("give one with --output"));
    }
    let output = flags.output.clone().unwrap_or_else(default);
    output::reserve(&output, flags.json)?;
    if same_file(&output, &flags.model) {
        return Err(
            Error::new(ErrorKind::Usage, "the package would replace its own model")
                .help("give another file with --output")
                .at(Location::file(&output)),
        );
    }
    Ok(output)
}

/// Whether both paths are there and lead to one file.
fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
