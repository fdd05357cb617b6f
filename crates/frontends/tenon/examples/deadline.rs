//! Progress reports, a deadline, and cancellation:
//! `cargo run -p tenon --example deadline [MODEL.onnx]`.

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tenon::inputs::random_tensor;
use tenon::{Compiler, Control, ErrorKind, LoadOptions, Model, Result, RunOptions, Tensor};

/// Compiles within a minute; returns the model and the steps that were reported.
pub fn compile(onnx: &Path) -> Result<(Model, Vec<String>)> {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let reported = steps.clone();
    let deadline = Instant::now() + Duration::from_secs(60);
    let control = Control::with_deadline_and_listener(deadline, move |progress| {
        let mut steps = reported.lock().unwrap_or_else(|error| error.into_inner());
        if steps.last().is_none_or(|last| last != progress.step) {
            steps.push(progress.step.to_owned());
        }
    });
    let compiler = Compiler::new().control(control.clone());
    let package = compiler.compile_file(onnx)?;
    let model = package.load(&LoadOptions::new().control(control))?;
    let steps = steps.lock().unwrap_or_else(|error| error.into_inner());
    Ok((model, steps.clone()))
}

/// Runs a model on random inputs under a control.
pub fn run(model: &Model, control: Control) -> Result<()> {
    let inputs = model.inputs().iter();
    let inputs: Vec<(&str, Tensor)> = inputs
        .map(|input| Ok((input.name.as_str(), random_tensor(&input.ty, 1)?)))
        .collect::<Result<_>>()?;
    let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(name, x)| (*name, x)).collect();
    let options = RunOptions::new().control(control);
    model.run_with(&inputs, options).map(drop)
}

fn main() -> Result<()> {
    let small = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/small/resnet50.onnx");
    let onnx = std::env::args_os().nth(1).map_or(small, PathBuf::from);
    let (model, steps) = compile(&onnx)?;
    println!("steps: {}", steps.join(", "));

    let begun = Instant::now();
    run(&model, Control::new())?;
    println!("one execution: {:?}", begun.elapsed());

    let deadline = Control::with_deadline(Instant::now() + Duration::from_micros(50));
    match run(&model, deadline) {
        Err(error) if error.kind() == ErrorKind::DeadlineExceeded => println!("too late: {error}"),
        other => other?,
    }

    // Any thread may cancel through a clone of the control.
    let control = Control::new();
    let canceller = control.clone();
    let thread = std::thread::spawn(move || canceller.cancel());
    match run(&model, control) {
        Err(error) if error.kind() == ErrorKind::Cancelled => println!("cancelled: {error}"),
        other => other?,
    }
    let _ = thread.join();
    Ok(())
}
