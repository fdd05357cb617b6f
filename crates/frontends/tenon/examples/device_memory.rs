//! Tensors that stay in the memory of a device: `cargo run -p tenon --example device_memory`.
//!
//! The device is the simulated one of `examples/backend-async`, whose memory the host cannot access.

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::path::Path;
use std::sync::Arc;
use tenon::backends::{built_in, runtime};
use tenon::{BackendId, Compiler, LoadOptions, Model, Result, RunOptions, Tensor};
use tenon_async_backend::AsyncBackend;

/// The model on the device.
pub fn load(onnx: &Path, device: &AsyncBackend) -> Result<Model> {
    let mut registry = built_in();
    registry.register(Arc::new(device.clone()))?;
    let compiler = Compiler::new().backends(["SimAsync", "CpuRef"]);
    let package = compiler
        .registry(registry.clone())
        .compile_file(onnx)?
        .to_neff()?;
    Model::from_package(&package, &LoadOptions::new().runtime(runtime(registry)))
}

/// Writes the image to the device once, runs the model on it, and reads the classes.
pub fn classify(model: &Model, image: &Tensor) -> Result<Tensor> {
    let mut on_device = model.tensor_on(&BackendId::new("SimAsync"), image.ty())?;
    on_device.write(image)?;
    let (input, output) = (&model.inputs()[0].name, &model.outputs()[0].name);
    let mut bindings = model.bind()?;
    bindings.set_device_input(input, on_device)?;
    bindings.keep(output)?;
    for _ in 0..3 {
        bindings.run(RunOptions::new())?;
    }
    // A tensor on the device may be an input of another model, or go to another library (`into_dlpack`).
    match bindings.take_output(output)? {
        Some(classes) => classes.read(),
        None => Ok(bindings.outputs()?.tensor(output)?.clone()),
    }
}

fn main() -> Result<()> {
    let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/digits/digits.onnx");
    let device = AsyncBackend::default();
    let model = load(&digits, &device)?;
    let image = Tensor::from_slice([1, 1, 8, 8], &[0.5f32; 64])?;
    let classes = classify(&model, &image)?;
    println!("{}: {:?}", classes.ty(), classes.as_slice::<f32>());
    println!(
        "{} bytes were copied to and from the device: constants, the image, the classes, and data movement of the host",
        device.work().copied_bytes
    );
    Ok(())
}
