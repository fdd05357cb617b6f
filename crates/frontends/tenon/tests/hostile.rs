//! Truncated, flipped and random bytes: an error or a result, never a panic.

use proptest::prelude::*;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tenon::inputs::random_tensor;
use tenon::inspect::{PackageCheck, verify_package};
use tenon::neff::Package;
use tenon::neff::{Limits, VerifyOptions};
use tenon::{Compiler, Control, ErrorKind, LoadOptions, Model, OnnxModel, RunOptions};
use tenon_tensor::BufferMut;

fn onnx() -> &'static [u8] {
    include_bytes!("../../../../models/digits/digits.onnx")
}

fn package() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let model = OnnxModel::from_bytes(onnx(), &Control::new()).unwrap();
        let compiled = Compiler::new().compile_model(&model).unwrap();
        compiled.to_bytes().unwrap()
    })
}

/// A package with a symbolic dimension.
fn symbolic_package() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let onnx = include_bytes!("../../../../models/small/lstm-dynamic.onnx");
        let model = OnnxModel::from_bytes(onnx, &Control::new()).unwrap();
        let compiled = Compiler::new().compile_model(&model).unwrap();
        compiled.to_bytes().unwrap()
    })
}

/// A package with buckets and a padding.
fn bucket_package() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let onnx = include_bytes!("../../../../models/small/lstm-dynamic.onnx");
        let model = OnnxModel::from_bytes(onnx, &Control::new()).unwrap();
        let compiler = Compiler::new().bucket("time", [2, 8]).pad("x", 1);
        compiler.compile_model(&model).unwrap().to_bytes().unwrap()
    })
}

/// A package with host functions, and a loop that does not end.
fn hosted_package() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let onnx = include_bytes!("../../cli/tests/data/endless.onnx");
        let model = OnnxModel::from_bytes(onnx, &Control::new()).unwrap();
        let compiled = Compiler::new().compile_model(&model).unwrap();
        compiled.to_bytes().unwrap()
    })
}

/// The bytes of one of the four packages.
fn bytes_of(which: usize) -> Vec<u8> {
    let packages = [package, symbolic_package, hosted_package, bucket_package];
    packages[which % packages.len()]().to_vec()
}

/// Whether `verify` finds an error. Digests are not compared: they detect all damage, and this test is
/// about malicious packages.
fn is_reported(package: &Package) -> bool {
    static CHECK: OnceLock<PackageCheck> = OnceLock::new();
    let check = CHECK.get_or_init(|| {
        PackageCheck::new().rules(VerifyOptions {
            digests: false,
            ..VerifyOptions::default()
        })
    });
    !verify_package(package, check).unwrap().is_good()
}

/// Opens, loads and runs. The outcome is ignored, except that `verify` must report what loading refuses.
fn try_package(bytes: &[u8]) {
    let control = Control::new();
    let buffer = BufferMut::copy_of(bytes).unwrap().freeze();
    let limits = Limits::of_bytes(1 << 24);
    let Ok(package) = Package::from_buffer(buffer, &limits, &control) else {
        return;
    };
    let model = match Model::from_package(&package, &LoadOptions::default()) {
        Ok(model) => model,
        // `verify` ignores the memory of the machine; a package of another compiler may be valid.
        Err(error) if error.kind() == ErrorKind::OutOfMemory => return,
        Err(_) if !package.header().is_tenon() => return,
        Err(error) => {
            assert!(is_reported(&package), "load alone refuses: {error}");
            return;
        }
    };
    let sizes: Vec<(String, u64)> = model
        .symbols()
        .iter()
        .map(|(_, symbol)| (symbol.name.clone(), symbol.min.max(symbol.max.min(3))))
        .collect();
    let sizes: Vec<(&str, u64)> = sizes
        .iter()
        .map(|(name, size)| (name.as_str(), *size))
        .collect();
    let small = |ty: &tenon::TensorType| ty.bytes() < 1 << 24;
    let Ok(model) = model.at(&sizes) else {
        return;
    };
    if !model
        .inputs()
        .iter()
        .chain(model.outputs())
        .all(|port| small(&port.ty))
    {
        return;
    }
    let inputs: Vec<_> = model
        .inputs()
        .iter()
        .filter_map(|port| Some((port.name.as_str(), random_tensor(&port.ty, 1).ok()?)))
        .collect();
    let inputs: Vec<_> = inputs
        .iter()
        .map(|(name, tensor)| (*name, tensor))
        .collect();
    // Loops need not end.
    let control = Control::with_deadline(Instant::now() + Duration::from_millis(20));
    let _ = model.run_with(&inputs, RunOptions::new().control(control));
}

fn try_model(bytes: &[u8]) {
    let control = Control::new();
    let Ok(model) = OnnxModel::from_bytes(bytes, &control) else {
        return;
    };
    let _ = Compiler::new().control(control).compile_model(&model);
}

/// The bytes of the structure, before the constants.
const STRUCTURE: usize = 40 << 10;

#[test]
fn a_package_cut_anywhere_is_an_error() {
    let bytes = package();
    let control = Control::new();
    for cut in (0..bytes.len()).step_by(509).chain(0..1100) {
        let buffer = BufferMut::copy_of(&bytes[..cut]).unwrap().freeze();
        let opened = Package::from_buffer(buffer, &Limits::default(), &control);
        assert!(opened.is_err(), "cut at {cut}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(400), ..ProptestConfig::default() })]

    #[test]
    fn flipped_packages(
        which in 0..4usize,
        flips in prop::collection::vec((0..STRUCTURE, any::<u8>()), 1..4),
    ) {
        let mut bytes = bytes_of(which);
        for (at, value) in flips {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        try_package(&bytes);
    }

    #[test]
    fn digits_in_the_json_changed(
        which in 0..4usize,
        flips in prop::collection::vec((any::<prop::sample::Index>(), b'0'..=b'9'), 1..3),
    ) {
        // Values of the JSON members: offsets, sizes, ids, shapes.
        let mut bytes = bytes_of(which);
        let end = STRUCTURE.min(bytes.len());
        let digits: Vec<usize> = (1024..end)
            .filter(|&at| bytes[at].is_ascii_digit() && matches!(bytes[at - 1], b':' | b',' | b'[' | b'0'..=b'9' | b' '))
            .collect();
        for (at, value) in flips {
            bytes[*at.get(&digits)] = value;
        }
        try_package(&bytes);
    }

    #[test]
    fn flipped_models(flips in prop::collection::vec((0..onnx().len(), any::<u8>()), 1..4), from_end in any::<bool>()) {
        let mut bytes = onnx().to_vec();
        let length = bytes.len();
        for (at, value) in flips {
            // The structure is at both ends of the file, around the weights.
            let at = if from_end { length - 1 - at % 1200 } else { at % 1500 };
            bytes[at] = value;
        }
        try_model(&bytes);
    }

    #[test]
    fn cut_models(cut in 0..onnx().len()) {
        try_model(&onnx()[..cut]);
    }

    #[test]
    fn invented_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        try_package(&bytes);
        try_model(&bytes);
    }
}
