//! Every model of `models/` on the simulated asynchronous device, against onnxruntime's outputs. The device runs the
//! commands of concurrent streams in random order, and its memory cannot be read by the host.

mod common;

use common::{named, with_prefix};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tenon::backends::{Registry, built_in, runtime};
use tenon::compare::Difference;
use tenon::tensor::npy;
use tenon::{Compiler, DataType, LoadOptions, Model};
use tenon_async_backend::{AsyncBackend, Work};

fn models() -> PathBuf {
    tenon_test_data::repository("models")
}

/// A model on the device, and the device.
fn load(onnx: &Path) -> (Model, AsyncBackend) {
    let device = AsyncBackend::default().with_options([("Seed", 7)]);
    let mut registry: Registry = built_in();
    registry.register(Arc::new(device.clone())).unwrap();
    let compiler = Compiler::new().backends(["SimAsync", "CpuRef"]);
    let compiled = compiler.registry(registry.clone()).compile_file(onnx);
    let options = LoadOptions::new().runtime(runtime(registry));
    let model = Model::from_package(&compiled.unwrap().to_neff().unwrap(), &options).unwrap();
    (model, device)
}

/// Runs the samples of a model: `NAME.npz`, or `NAME.1.npz` and so on.
fn check(name: &str, tolerance: f64) {
    let (model, device) = load(&models().join("small").join(format!("{name}.onnx")));
    let report = model.placement();
    assert_eq!(report.count("CpuRef"), 0, "{name}: {report}");
    let file = |sample: String| models().join("small").join(format!("{name}{sample}.npz"));
    let numbered = (1..).map(|sample| file(format!(".{sample}")));
    let samples = std::iter::once(file(String::new())).filter(|file| file.exists());
    let samples = samples.chain(numbered.take_while(|file| file.exists()));
    let mut count = 0;
    for sample in samples {
        count += 1;
        let arrays = npy::read_npz(&sample).unwrap();
        let inputs = with_prefix(&arrays, "in.");
        let inputs = named(&inputs);
        // Twice: the second execution uses the stream and the memory of the first.
        for _ in 0..2 {
            let outputs = model.run(&inputs).unwrap();
            for (output, expected) in with_prefix(&arrays, "out.") {
                let found = outputs.tensor(&output).unwrap();
                let difference = Difference::between(found, &expected).unwrap();
                let tolerance = match found.dtype() {
                    DataType::F32 | DataType::F16 => tolerance,
                    _ => 0.0,
                };
                assert!(
                    difference.relative <= tolerance,
                    "{}: {output}: {difference:?}",
                    sample.display()
                );
            }
        }
    }
    assert!(count > 0, "{name} has no sample");
    let Work {
        workloads,
        finishes,
        ..
    } = device.work();
    assert!(workloads > 0 && finishes >= 2 * count, "{name}");
}

macro_rules! models {
    ($($(#[$attribute:meta])* $test:ident: $file:literal, $tolerance:literal;)*) => {
        $(
            $(#[$attribute])*
            #[test]
            fn $test() {
                check($file, $tolerance);
            }
        )*

        #[test]
        fn every_model_has_a_test() {
            let tested = [$($file),*];
            for entry in std::fs::read_dir(models().join("small")).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_stem().unwrap().to_str().unwrap();
                let is_model = path.extension().is_some_and(|it| it == "onnx");
                assert!(!is_model || tested.contains(&name), "{name}");
            }
        }
    };
}

models! {
    resnet50: "resnet50", 1e-3;
    // A step of an int8 value may round either way.
    // One step of the quantised logits, by which onnxruntime's products of integers differ from those in f32, too.
    resnet50_int8: "resnet50-int8", 3.2e-2;
    bert_int8: "bert-int8", 1e-3;
    gpt2_int4: "gpt2-int4", 1e-3;
    bert_f16: "bert-f16", 1e-2;
    mobilenetv2_f16: "mobilenetv2-f16", 5e-2;
    mobilenetv2: "mobilenetv2", 1e-3;
    efficientnet_b0: "efficientnet-b0", 1e-3;
    detector: "detector", 1e-3;
    bert: "bert", 1e-3;
    gpt2: "gpt2", 1e-3;
    lstm: "lstm", 1e-3;
    mlp: "mlp", 1e-3;
    bert_dynamic: "bert-dynamic", 1e-3;
    detector_dynamic: "detector-dynamic", 1e-3;
    gpt2_dynamic: "gpt2-dynamic", 1e-3;
    gpt2_cache: "gpt2-cache", 1e-3;
    lstm_dynamic: "lstm-dynamic", 1e-3;
    speech_encoder: "speech-encoder", 1e-3;
    speech_decoder: "speech-decoder", 1e-3;
    vad: "vad", 1e-3;
    ssd: "ssd", 1e-3;
    retinanet: "retinanet", 1e-3;
    faster_rcnn: "faster-rcnn", 1e-3;
    mask_rcnn: "mask-rcnn", 1e-3;
}

#[test]
fn digits() {
    let (model, _) = load(&models().join("digits/digits.onnx"));
    let ty = &model.inputs()[0].ty;
    let image = tenon::inputs::random_tensor(ty, 3).unwrap();
    let name = model.inputs()[0].name.clone();
    let found = model.run(&[(name.as_str(), &image)]).unwrap();
    let reference = Compiler::new().backends(["CpuRef"]);
    let reference = reference.compile_file(models().join("digits/digits.onnx"));
    let reference = reference.unwrap().load(&LoadOptions::new()).unwrap();
    let expected = reference.run(&[(name.as_str(), &image)]).unwrap();
    let difference = Difference::between(&found[0], &expected[0]).unwrap();
    assert!(difference.relative <= 1e-5, "{difference:?}");
}
