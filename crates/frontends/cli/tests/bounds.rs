//! Models whose sizes no machine holds, through every command that takes a model, in 4 GiB.

mod common;

use common::{folder, limited};

/// A field of a protobuf message: bytes, or a number.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    bytes.extend(varint(content.len() as u64));
    bytes.extend(content);
    bytes
}

fn number(number: u8, value: u64) -> Vec<u8> {
    [vec![number << 3], varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 128 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// An ONNX model of one node, from x of f32 to y, with an int64 constant where `constant` is one.
fn model(op: &str, shape: &[u64], constant: Option<(&[&str], &[u64])>) -> Vec<u8> {
    let (inputs, values) = constant.unwrap_or((&["x"], &[]));
    let names = inputs.iter().map(|name| field(1, name.as_bytes()));
    let node = [
        names.collect::<Vec<_>>().concat(),
        field(2, b"y"),
        field(4, op.as_bytes()),
    ]
    .concat();
    let dims = shape.iter().map(|&dim| field(1, &number(1, dim)));
    let tensor = [number(1, 1), field(2, &dims.collect::<Vec<_>>().concat())].concat();
    let x = [field(1, b"x"), field(2, &field(1, &tensor))].concat();
    let mut graph = [
        field(1, &node),
        field(2, b"g"),
        field(11, &x),
        field(12, &field(1, b"y")),
    ];
    if constant.is_some() {
        let values: Vec<u8> = values.iter().flat_map(|&value| varint(value)).collect();
        let count = constant.map_or(0, |(_, values)| values.len() as u64);
        let tensor = [
            number(1, count),
            number(2, 7),
            field(7, &values),
            field(8, b"c"),
        ];
        graph[1].extend(field(5, &tensor.concat()));
    }
    [
        number(1, 8),
        field(8, &number(2, 18)),
        field(7, &graph.concat()),
    ]
    .concat()
}

#[test]
fn models_of_any_size_end_in_a_result_or_a_sentence() {
    let folder = folder();
    let resize = |to| model("Resize", &[1, 1, 1, 2], Some((&["x", "", "", "c"], to)));
    let mut cases = vec![
        ("resize to 2^40", resize(&[1, 1, 1 << 40, 2][..])),
        ("resize to 2^31", resize(&[1, 1, 1 << 31, 2][..])),
        (
            "expand",
            model("Expand", &[1, 2], Some((&["x", "c"], &[1 << 40, 2]))),
        ),
        (
            "tile",
            model("Tile", &[1, 2], Some((&["x", "c"], &[1 << 40, 2]))),
        ),
    ];
    for size in [1u64 << 31, 1 << 40, 1 << 61] {
        for op in ["Relu", "Softmax", "Transpose"] {
            cases.push((op, model(op, &[size, 1], None)));
        }
        cases.push(("MaxPool", model("GlobalMaxPool", &[1, 1, size, 1], None)));
    }
    for (name, bytes) in cases {
        std::fs::write(folder.path().join("m.onnx"), bytes).unwrap();
        let compiled = limited(folder.path(), &["compile", "m.onnx", "-o", "m.neff"]);
        let file = match compiled.status {
            Some(0) => "m.neff",
            _ => "m.onnx",
        };
        let commands: [&[&str]; 5] = [
            &["compile", file, "-o", "again.neff"],
            &["run", file, "--random", "1", "--quiet"],
            &["bench", file, "--seconds", "0.01"],
            &["profile", file, "--runs", "1", "--random", "1"],
            &[
                "compare",
                file,
                "--random",
                "1",
                "--backends",
                "CpuRef,CpuAcc",
            ],
        ];
        for command in commands {
            let answer = limited(folder.path(), command);
            let said = format!("{name}: {command:?}: {answer:?}");
            assert!(matches!(answer.status, Some(0..=2)), "{said}");
            assert!(!answer.err.contains("panicked"), "{said}");
            assert!(
                answer.status == Some(0) || answer.err.contains("error"),
                "{said}"
            );
        }
    }
}

/// Ninety-five bytes.
#[test]
fn a_resize_that_no_memory_holds_is_refused_with_a_sentence() {
    let folder = folder();
    let resize = model(
        "Resize",
        &[1, 1, 1, 2],
        Some((&["x", "", "", "c"], &[1, 1, 1 << 40, 2])),
    );
    std::fs::write(folder.path().join("m.onnx"), resize).unwrap();
    let answer = limited(folder.path(), &["run", "m.onnx", "--random", "1"]);
    assert_eq!(answer.status, Some(1), "{answer:?}");
    let expected = ["too many elements to keep in memory", "cannot allocate"];
    assert!(
        expected.iter().any(|text| answer.err.contains(text)),
        "{}",
        answer.err
    );
}
