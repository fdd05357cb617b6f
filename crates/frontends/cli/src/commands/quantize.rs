//! `tenon quantize`

use super::load;
use crate::output::{self, say};
use crate::progress;
use crate::quantize_flags::Quantize;
use crate::table::{Table, bytes};
use std::path::Path;
use tenon::quantize::{
    NodeReport, QuantizationReport, QuantizedModel, Quantizer, Sample, read_samples,
};
use tenon::{
    Compiler, Control, Error, ErrorKind, LoadOptions, Location, ModelFile, OnnxModel, Result,
};

pub fn run(flags: &Quantize) -> Result<()> {
    let control = progress::control();
    let here = |error: Error| error.at(Location::file(&flags.model));
    let opening = load::opening(&flags.compiling, &control)?;
    let ModelFile::Onnx(onnx) = load::open_with(opening, &flags.model)? else {
        let text = "a package is compiled already";
        return Err(here(
            Error::new(ErrorKind::Usage, text).expected("an ONNX model"),
        ));
    };
    output::reserve(&flags.output, flags.json)?;
    let registry = load::backends(&flags.compiling.loading)?;
    let compiler = load::compiler_with(
        Compiler::new(),
        &onnx,
        &flags.compiling,
        None,
        &registry,
        &control,
    )?;
    let samples = samples(flags, &onnx, &compiler, &control)?;
    let mut quantizer = Quantizer::new(flags.scheme())
        .calibration(flags.calibration())
        .max_node_error(flags.max_node_error)
        .compiler(compiler.clone())
        .control(control.clone());
    for pattern in &flags.exclude {
        quantizer = quantizer.exclude(pattern.clone());
    }
    if let Some(file) = &flags.labels {
        quantizer = quantizer.labels(labels(file)?);
    }
    let quantized = quantizer.quantize(&onnx, &samples).map_err(here)?;
    write(&quantized, &compiler, &flags.output)?;
    let report = quantized.report();
    if flags.json {
        let mut json = report.json();
        json["output"] = flags.output.display().to_string().into();
        return output::json(json);
    }
    if flags.all {
        nodes(report)?;
    }
    let [before, after] = report.bytes;
    say!("{report}")?;
    say!(
        "{}: {}, the ONNX model was {}",
        flags.output.display(),
        bytes(after),
        bytes(before)
    )
}

/// The calibration data; none without the flag.
fn samples(
    flags: &Quantize,
    onnx: &OnnxModel,
    compiler: &Compiler,
    control: &Control,
) -> Result<Vec<Sample>> {
    let Some(path) = &flags.calibrate else {
        return Ok(Vec::new());
    };
    let here = |error: Error| error.at(Location::file(&flags.model));
    let package = compiler.compile_model(onnx).map_err(here)?;
    let model = package.load(&LoadOptions::new().control(control.clone()));
    let image = load::image_options(&onnx.signature().metadata, &flags.pictures)?;
    let mut samples = read_samples(path, &model.map_err(here)?, &image)?;
    samples.truncate(flags.samples.unwrap_or(usize::MAX));
    Ok(samples)
}

fn labels(file: &Path) -> Result<Vec<i64>> {
    let array = tenon::inputs::read_array(file)?;
    let labels = array.as_ref().and_then(tenon::Tensor::to_i64s);
    labels.ok_or_else(|| {
        let error = Error::new(ErrorKind::InvalidArgument, "labels that are no integers");
        error
            .expected("an .npy of integers")
            .at(Location::file(file))
    })
}

fn write(quantized: &QuantizedModel, compiler: &Compiler, output: &Path) -> Result<()> {
    if output
        .extension()
        .is_some_and(|extension| extension == "neff")
    {
        return compiler.compile_model(&quantized.onnx()?)?.write(output);
    }
    quantized.write(output)
}

/// A line for every node.
fn nodes(report: &QuantizationReport) -> Result<()> {
    let mut table = Table::new(&["error", "operator", "node", "in f32 because"]);
    for NodeReport {
        name,
        operator,
        kept,
        error,
    } in &report.nodes
    {
        table.row([
            error.map_or_else(|| "-".to_owned(), |error| format!("{error:.4}")),
            operator.clone(),
            name.clone(),
            kept.clone().unwrap_or_default(),
        ]);
    }
    say!("{table}\n")
}
