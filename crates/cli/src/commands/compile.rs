//! `tenon compile`

use super::{load, placement};
use crate::flags::Compile;
use crate::output::say;
use crate::progress;
use crate::table::{bytes, duration};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tenon::{Error, ErrorKind, Location, Result, Source};

pub fn run(flags: &Compile) -> Result<()> {
    if super::netlist_run::is_netlist(&flags.model) {
        return netlist(flags);
    }
    let control = progress::control_within(flags.netlist.timeout);
    let start = Instant::now();
    let Source::Onnx(onnx) = Source::open(&flags.model, &control)? else {
        return Err(Error::new(ErrorKind::Usage, "this is a package already")
            .expected("an ONNX model")
            .at(Location::file(&flags.model)));
    };
    let registry = load::backends(&flags.compiling.loading)?;
    let compiled = load::compile(&onnx, &flags.compiling, None, &registry, &control)?;
    if flags.emit_graph {
        say!("{}", compiled.graph_text())?;
        return Ok(());
    }
    let output = output(flags)?;
    compiled.write(&output)?;
    let written = std::fs::metadata(&output).map_err(|error| Error::io(&output, "read", error))?;
    if flags.json {
        say!(
            "{}",
            json!({
                "package": output,
                "bytes": written.len(),
                "compile_ms": start.elapsed().as_secs_f64() * 1e3,
                "summary": compiled.placement_report().to_string(),
                "placement": compiled.placement_report(),
            })
        )?;
        return Ok(());
    }
    if flags.placement {
        placement::print(compiled.placement_report())?;
    }
    say!(
        "{}: {}, {}, compiled in {}",
        output.display(),
        bytes(written.len()),
        compiled.placement_report(),
        duration(start.elapsed())
    )?;
    Ok(())
}

/// A netlist: its programs run once.
fn netlist(flags: &Compile) -> Result<()> {
    let start = Instant::now();
    let source = tenon::netlist_source(&flags.model)?;
    let job = super::netlist_run::compile_job(&flags.netlist)?;
    let control = progress::control_within(flags.netlist.timeout);
    let compiled = tenon::compile_netlist(&source, &job, &control)?;
    let output = output(flags)?;
    compiled.write(&output)?;
    let written = std::fs::metadata(&output).map_err(|error| Error::io(&output, "read", error))?;
    let took = start.elapsed();
    let member = &compiled.contents().tenon;
    if flags.json {
        let (inputs, outputs) = (&member.inputs, &member.outputs);
        return say!(
            "{}",
            json!({
                "package": output, "bytes": written.len(), "compile_ms": took.as_secs_f64() * 1e3,
                "inputs": inputs, "outputs": outputs,
            })
        );
    }
    say!(
        "{}: {}, {} inputs, {} outputs, compiled in {}",
        output.display(),
        bytes(written.len()),
        member.inputs.len(),
        member.outputs.len(),
        duration(took)
    )
}

/// Where the package goes.
fn output(flags: &Compile) -> Result<PathBuf> {
    let default = || flags.model.with_extension("neff");
    let output = flags.output.clone().unwrap_or_else(default);
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
