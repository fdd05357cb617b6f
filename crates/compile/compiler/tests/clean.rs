//! Cleaning rules that replace operators by data movement, views or constants: the same values before and
//! after compiling, and the operators that remain.

mod common;

use tenon_compiler::{Options, compile};
use tenon_graph::Graph;

/// Compiles `body` with this signature, compares the results, and returns the operators that remain.
fn check(signature: &str, body: &str) -> Vec<&'static str> {
    let source = format!("graph \"clean\" {signature} {{\n{body}\n}}\n");
    let graph: Graph = source
        .parse()
        .unwrap_or_else(|error| panic!("{source}: {error}"));
    let registry = common::registry();
    let compiled = compile(graph.clone(), &Options::new(&registry))
        .unwrap_or_else(|error| panic!("{source}: {error}"));
    let inputs = common::inputs(&graph, 5);
    let expected = common::run(&graph, &inputs);
    let found = common::run(&compiled.graph, &inputs);
    assert_eq!(expected.len(), found.len());
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(expected.ty(), found.ty(), "{source}");
        assert_eq!(expected.bytes(), found.bytes(), "{source}");
    }
    // The package executes the same.
    let loaded = common::execute(&compiled, &registry, &inputs);
    for (expected, loaded) in expected.iter().zip(&loaded) {
        assert_eq!(expected.bytes(), loaded.bytes(), "{source}");
    }
    let nodes = compiled.graph.nodes.iter();
    nodes.map(|node| node.op.name).collect()
}

#[test]
fn cast_like_becomes_a_cast() {
    let operators = check(
        "(%x: f32[3, 5]) -> (%y: i32[3, 5])",
        "  const %like: i32[1] = [0]\n  %y: i32[3, 5] = CastLike(%x, %like)",
    );
    assert_eq!(operators, ["Cast"]);
    // Of the same type: no node.
    let operators = check(
        "(%x: f32[3, 5], %like: f32[1]) -> (%y: f32[3, 5])",
        "  %z: f32[3, 5] = CastLike(%x, %like)\n  %y: f32[3, 5] = Neg(%z)",
    );
    assert_eq!(operators, ["Neg"]);
}

#[test]
fn center_crop_pad_becomes_a_slice_and_a_pad() {
    for (extents, output, expected) in [
        ("[6, 10, 4]", "[6, 10, 4]", &["Slice", "Pad"][..]),
        ("[2, 7, 4]", "[2, 7, 4]", &["Slice"]),
        ("[6, 21, 9]", "[6, 21, 9]", &["Pad"]),
        ("[3, 20, 8]", "[3, 20, 8]", &["Slice", "Pad"]),
    ] {
        let operators = check(
            &format!("(%x: f32[4, 20, 7]) -> (%y: f32{output})"),
            &format!("  const %s: i64[3] = {extents}\n  %y: f32{output} = CenterCropPad(%x, %s)"),
        );
        assert_eq!(operators, expected, "{extents}");
    }
}

#[test]
fn a_bit_cast_is_a_view() {
    let operators = check(
        "(%x: f32[3, 4]) -> (%y: i32[3, 4], %z: u32[3, 4])",
        "  %n: f32[3, 4] = Neg(%x)\n  %y: i32[3, 4] = BitCast(%n) {to = \"i32\"}\n  \
         %b: u32[3, 4] = BitCast(%x) {to = \"u32\"}\n  %z: u32[3, 4] = BitwiseNot(%b)",
    );
    assert_eq!(operators.iter().filter(|op| **op == "BitCast").count(), 2);
    // A chain of views with a change of type stays correct.
    check(
        "(%x: f32[3, 4]) -> (%z: i32[12])",
        "  const %s: i64[1] = [12]\n  %r: f32[12] = Reshape(%x, %s)\n  \
         %z: i32[12] = BitCast(%r) {to = \"i32\"}",
    );
}

#[test]
fn operators_on_empty_tensors_are_constants() {
    let operators = check(
        "(%x: f32[2, 0, 4]) -> (%y: f32[2, 4])",
        "  const %a: i64[1] = [1]\n  %r: f32[2, 4] = ReduceProd(%x, %a) {keepdims = 0}\n  \
         %y: f32[2, 4] = Neg(%r)",
    );
    // The output is a copy of the constant.
    assert_eq!(operators, ["Identity"]);
    let operators = check(
        "(%x: f32[0, 4], %w: f32[4, 3]) -> (%y: f32[0, 3])",
        "  %y: f32[0, 3] = MatMul(%x, %w)",
    );
    // The output is a copy of the constant.
    assert_eq!(operators, ["Identity"]);
}
