//! Arbitrary bytes, and truncated and modified models: an error or a graph, never a panic.

use crate::data::cases;
use proptest::prelude::*;
use tenon_base::Control;
use tenon_litert::Model;
use tenon_onnx::ImportOptions;

/// Opens, converts and imports.
fn survives(bytes: &[u8]) {
    let control = Control::new();
    let Ok(model) = Model::from_bytes(bytes, &control) else {
        return;
    };
    let onnx = model.to_onnx(None, &control);
    let onnx = onnx.and_then(tenon_onnx::Model::from_proto);
    if let Ok(onnx) = onnx {
        let _ = onnx.graph(&ImportOptions::default(), &control);
    }
}

#[test]
fn no_truncation_panics() {
    for name in ["conv_2d_same", "while"] {
        let bytes = cases()[name].model.clone();
        (0..bytes.len()).for_each(|length| survives(&bytes[..length]));
    }
}

#[test]
fn no_modified_byte_panics() {
    for name in [
        "add_i8_relu6",
        "if_true",
        "strided_slice_masks",
        "densify_blocks_f32",
        "densify_volume_i8",
        "detection_regular",
        "dynamic_update_slice_inside",
        "signatures",
        "unpack",
    ] {
        let bytes = cases()[name].model.clone();
        for at in 0..bytes.len() {
            for change in [0x01, 0x7f, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] ^= change;
                survives(&bytes);
            }
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        let named = [&[16, 0, 0, 0], &b"TFL3"[..], &bytes].concat();
        survives(&bytes);
        survives(&named);
    }

    #[test]
    fn several_changes_are_survived(
        which in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..6),
    ) {
        let cases = cases();
        let names: Vec<&String> = cases.keys().collect();
        let mut bytes = cases[which.get(&names).as_str()].model.clone();
        for &(at, value) in &changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = value;
        }
        survives(&bytes);
    }
}
