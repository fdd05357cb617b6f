//! The programs of `examples/`, built into this test and run.

#![allow(dead_code, reason = "the main functions of the examples")]
#![allow(clippy::print_stderr, reason = "prints the reason of a skipped test")]

#[path = "../examples/classify.rs"]
mod classify;
#[path = "../examples/compare_backends.rs"]
mod compare_backends;
#[path = "../examples/deadline.rs"]
mod deadline;
#[path = "../examples/device_memory.rs"]
mod device_memory;
#[path = "../examples/embed_text.rs"]
mod embed_text;
#[path = "../examples/placement.rs"]
mod placement;
#[path = "../examples/threads.rs"]
mod threads;

use std::path::{Path, PathBuf};
use std::process::Command;
use tenon::{Control, ErrorKind};

fn models(path: &str) -> PathBuf {
    tenon_test_data::repository("models").join(path)
}

#[test]
fn a_picture_is_classified() {
    let classes = classify::classify(&models("digits/digits.onnx"), &models("digits/seven.png"));
    let classes = classes.unwrap();
    assert_eq!((classes.len(), classes[0].label.as_str()), (3, "seven"));
}

#[test]
fn tensors_stay_in_memory_of_a_device() {
    let device = tenon_async_backend::AsyncBackend::default();
    let model = device_memory::load(&models("digits/digits.onnx"), &device).unwrap();
    let image = tenon::Tensor::from_slice([1, 1, 8, 8], &[0.5f32; 64]).unwrap();
    model.run(&[("image", &image)]).unwrap();
    let copied = || device.work().copied_bytes;
    let before = copied();
    let expected = model.run(&[("image", &image)]).unwrap();
    let of_run = copied() - before;
    let before = copied();
    let classes = device_memory::classify(&model, &image).unwrap();
    let of_three = copied() - before;
    assert_eq!(
        expected.named().next().map(|(_, tensor)| tensor),
        Some(&classes)
    );
    // The image and the classes are copied once, not in each execution; data movement of the host copies in each.
    let ports = (image.bytes().len() + classes.bytes().len()) as u64;
    assert_eq!(of_three, 3 * (of_run - ports) + ports);
}

#[test]
fn texts_are_embedded() {
    let texts = ["one two three", "one two three", "four five six"];
    let found = embed_text::similarities(&models("small/bert.onnx"), &texts).unwrap();
    assert!((found[0] - 1.0).abs() < 1e-5 && (found[1] - 1.0).abs() < 1e-5);
    assert!(found[2] < 0.999, "{found:?}");
}

#[test]
fn an_execution_is_stopped_by_its_deadline_and_by_cancellation() {
    let (model, steps) = deadline::compile(&models("small/mlp.onnx")).unwrap();
    assert!(!steps.is_empty());
    deadline::run(&model, Control::new()).unwrap();
    let late = Control::with_deadline(std::time::Instant::now());
    let error = deadline::run(&model, late).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    let cancelled = Control::new();
    cancelled.cancel();
    let error = deadline::run(&model, cancelled).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn threads_and_futures_compute_the_same_outputs() {
    let package = tenon::Compiler::new()
        .compile_file(models("small/mlp.onnx"))
        .unwrap();
    let model = package.load(&tenon::LoadOptions::new()).unwrap();
    let on_threads = threads::on_threads(&model, 6).unwrap();
    let as_futures = threads::as_futures(&model, 6).unwrap();
    assert_eq!(on_threads.len(), 6);
    assert_eq!(on_threads, as_futures);
}

#[test]
fn two_backends_are_compared() {
    let onnx = models("small/mlp.onnx");
    let comparison = compare_backends::compare(&onnx, "CpuAcc", "CpuRef").unwrap();
    assert!(comparison.divergence.is_none());
    assert!(!comparison.compared.is_empty());
}

#[test]
fn placement_is_reported_for_every_node() {
    let lines = placement::report(&models("small/gpt2.onnx")).unwrap();
    assert!(lines.iter().any(|line| line.starts_with("CpuAcc: ")));
    assert!(lines.last().unwrap().starts_with("arena: "));
}

/// The lines that an example prints without arguments; `None` if it is not built, as by
/// `cargo test --test examples`.
fn printed(example: &str) -> Option<Vec<String>> {
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().and_then(Path::parent).unwrap();
    let program = folder.join("examples").join(example);
    if !program.is_file() {
        eprintln!("skipped: {} is not built", program.display());
        return None;
    }
    let output = Command::new(program).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {error}");
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(str::to_owned).collect())
}

#[test]
fn each_example_runs_without_arguments() {
    // The start of a line of each example.
    let expected = [
        ("classify", "seven "),
        ("compare_backends", "largest difference: "),
        ("deadline", "too late: "),
        ("embed_text", "1.000  the quick brown fox jumps"),
        ("placement", "arena: "),
        (
            "threads",
            "8 requests on threads, 8 as futures; equal outputs",
        ),
    ];
    for (example, start) in expected {
        let Some(lines) = printed(example) else {
            continue;
        };
        let is_printed = lines.iter().any(|line| line.starts_with(start));
        assert!(is_printed, "{example}: {lines:?}");
    }
}
