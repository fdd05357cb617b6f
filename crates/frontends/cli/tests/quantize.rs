//! `tenon quantize`.

mod common;

use common::{done, folder, repository, tenon};
use serde_json::Value;
use tenon::Tensor;
use tenon::tensor::npy;

#[test]
fn models_are_quantised() {
    let folder = folder();
    let digits = repository("models/digits/digits.onnx");
    let pixels: Vec<f32> = (0..20 * 64).map(|at| (at * 5 % 17) as f32 / 16.0).collect();
    let images = Tensor::from_slice([20, 1, 8, 8], &pixels).unwrap();
    npy::write_npz(folder.path().join("x.npz"), &[("image", &images)]).unwrap();
    let labels = Tensor::from_slice([20], &[3i64; 20]).unwrap();
    npy::write_npy(folder.path().join("labels.npy"), &labels).unwrap();
    let common = ["quantize", &digits, "--calibrate", "x.npz"];
    let with = |flags: &[&'static str]| [&common[..], flags].concat();
    let text = done(
        folder.path(),
        &with(&["-o", "q.onnx", "--labels", "labels.npy", "--all"]),
    );
    assert!(
        text.contains("5 of 5 convolutions and matrix products quantised"),
        "{text}"
    );
    assert!(
        text.contains("accuracy") && text.contains("from 20 samples\n"),
        "{text}"
    );
    assert!(text.contains("q.onnx: "), "{text}");
    done(folder.path(), &["run", "q.onnx", "--random", "1"]);
    let flags = [
        "-o",
        "q.neff",
        "--json",
        "--samples",
        "4",
        "--exclude",
        "conv*",
        "--method",
        "entropy",
    ];
    let report: Value = serde_json::from_str(&done(folder.path(), &with(&flags))).unwrap();
    assert_eq!(report["samples"], 4);
    assert_eq!(report["few_samples"], true);
    assert_eq!(report["nodes"][0]["kept"], "excluded by name");
    assert_eq!(report["nodes"][3]["kept"], Value::Null);
    assert!(done(folder.path(), &["info", "q.neff"]).contains("image"));
    // Without data there are no errors to report.
    let text = done(
        folder.path(),
        &["quantize", &digits, "--int4", "-o", "four.onnx"],
    );
    assert!(
        text.contains("2 of 5") && text.contains("errors are not known"),
        "{text}"
    );
}

#[test]
fn mistakes_leave_no_file() {
    let folder = folder();
    let digits = repository("models/digits/digits.onnx");
    let wrong = Tensor::from_slice([2, 3], &[0.0f32; 6]).unwrap();
    npy::write_npz(folder.path().join("wrong.npz"), &[("image", &wrong)]).unwrap();
    for (flags, status, text) in [
        (
            &["--calibrate", "wrong.npz"][..],
            1,
            "wrong.npz: input 'image': calibration data that does not fit",
        ),
        (&["--calibrate", "absent.npz"], 1, "absent.npz: cannot read"),
        (&[], 2, "--calibrate"),
        (
            &["--int4", "--block-size", "7"],
            2,
            "a power of two of 16 or more",
        ),
        (&["--int4", "--int8"], 2, "cannot be used with"),
        (&["--int4", "--exclude", "*"], 1, "no node to quantise"),
    ] {
        let arguments = [&["quantize", &digits, "-o", "q.onnx"], flags].concat();
        let answer = tenon(folder.path(), &arguments);
        assert_eq!(answer.status, Some(status), "{flags:?}: {}", answer.err);
        assert!(answer.err.contains(text), "{flags:?}: {}", answer.err);
        assert!(!folder.path().join("q.onnx").exists(), "{flags:?}");
    }
}
