//! Operators of `com.microsoft` that compute attention or prepare it, as Attention and other operators of ONNX.

use crate::build::*;
use tenon_onnx::proto::*;

/// A node of com.microsoft on f32 of `[2, 3, 8]`; `m1`, `m2` and `m3` are masks of that many dimensions.
fn fused(op: &str, inputs: &[&str], outputs: &[&str], attributes: &[AttributeProto]) -> Build {
    let mut build = model(17).opset("com.microsoft", 1);
    for name in inputs.iter().filter(|name| !name.is_empty()) {
        build = match name.strip_prefix('m') {
            Some(rank) => {
                let dims = &["2", "3", "3", "3"][..rank.parse().unwrap()];
                build.typed_input(name, data_type::INT32, dims)
            }
            None => build.input(name, &["2", "3", "8"]),
        };
    }
    for name in outputs.iter().filter(|name| !name.is_empty()) {
        build = build.output(name);
    }
    let node = within("com.microsoft", node(op, inputs, outputs, attributes));
    build.node(named("n", node))
}

fn heads(count: i64) -> AttributeProto {
    int("num_heads", count)
}

#[test]
fn attention_of_several_heads_is_that_of_onnx() {
    let attributes = [heads(2), int("unidirectional", 1), float("scale", 0.5)];
    assert_eq!(
        fused("MultiHeadAttention", &["q", "k", "v"], &["y"], &attributes).text(),
        "%y = Attention(%q, %k, %v) {is_causal = 1, kv_num_heads = 2, q_num_heads = 2, scale = 0.5} @n"
    );
    let inputs = ["q", "k", "v", "", "m2", "b"];
    let text = fused("MultiHeadAttention", &inputs, &["y"], &[heads(2)]).text();
    for part in [
        "%n/Greater = Greater(%m2, %n/zero)",
        "%n/Where = Where(%n/Unsqueeze, %n/none, %n/filter)",
        "%n/Add = Add(%n/CastLike, %b)",
        "%y = Attention(%q, %k, %v, %n/Add)",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn the_projections_of_attention_are_a_product() {
    let text = fused("Attention", &["x", "w", "b"], &["y"], &[heads(2)]).text();
    assert_eq!(
        text,
        "%n/MatMul = MatMul(%x, %w) @n/MatMul\n\
         %n/Add = Add(%n/MatMul, %b) @n/Add\n\
         %n/Split, %n/Split.1, %n/Split.2 = Split(%n/Add) {axis = -1, num_outputs = 3} @n/Split\n\
         %y = Attention(%n/Split, %n/Split.1, %n/Split.2) {kv_num_heads = 2, q_num_heads = 2} @n"
    );
}

#[test]
fn what_attention_cannot_be_is_refused_by_name() {
    let error = |op: &str, inputs: &[&str], outputs: &[&str], attributes: &[AttributeProto]| {
        fused(op, inputs, outputs, attributes).error()
    };
    let multi_head = "MultiHeadAttention";
    for (found, expected) in [
        (
            error(multi_head, &["q"], &["y"], &[heads(2)]),
            "packed queries, keys and values do not have five dimensions: expected 5, found 3",
        ),
        (
            error(
                multi_head,
                &["q", "k", "v"],
                &["y"],
                &[heads(2), int("window", 7)],
            ),
            "unsupported value of attribute 'window': 7",
        ),
        (
            error(
                "GroupQueryAttention",
                &["q", "k", "v"],
                &["y"],
                &[heads(2), int("smooth_softmax", 1)],
            ),
            "unsupported value of attribute 'smooth_softmax': 1",
        ),
        (
            error("PackedAttention", &["q", "k", "v"], &["y"], &[heads(2)]),
            "attention over batches without padding",
        ),
        (
            error(multi_head, &["q", "k", "v"], &["y"], &[]),
            "attribute 'num_heads' is not positive: found 0",
        ),
        (
            error(
                multi_head,
                &["q", "k", "v"],
                &["y", "", "", "p"],
                &[heads(2)],
            ),
            "output 'qk'",
        ),
        (
            error(multi_head, &["q", "k", "v", "", "m4"], &["y"], &[heads(2)]),
            "a mask of 4 dimensions",
        ),
        (
            error(
                "Attention",
                &["x", "w"],
                &["y"],
                &[heads(2), int("do_rotary", 1)],
            ),
            "unsupported value of attribute 'do_rotary': 1",
        ),
        (
            error(
                "Attention",
                &["x", "w"],
                &["y"],
                &[heads(2), ints("qkv_hidden_sizes", &[8, 8])],
            ),
            "attribute 'qkv_hidden_sizes' does not have three sizes: found 2",
        ),
        (
            error("GreedySearch", &["x"], &["y"], &[]),
            "compile the decoder (attribute 'decoder') as a separate model",
        ),
    ] {
        assert!(found.contains(expected), "{expected}: {found}");
    }
}

#[test]
fn images_with_the_channels_last_are_transposed() {
    let attributes = [ints("kernel_shape", &[2])];
    assert_eq!(
        fused("NhwcMaxPool", &["x"], &["y"], &attributes).text(),
        "%n/Transpose = Transpose(%x) {perm = [0, 3, 1, 2]} @n/Transpose\n\
         %n/MaxPool = MaxPool(%n/Transpose) {kernel_shape = [2]} @n/MaxPool\n\
         %y = Transpose(%n/MaxPool) {perm = [0, 2, 3, 1]} @n"
    );
}

#[test]
fn other_operators_are_those_of_onnx() {
    assert_eq!(
        fused("BiasSplitGelu", &["x", "b"], &["y"], &[]).text(),
        "%n/Add = Add(%x, %b) @n/Add\n\
         %n/Split, %n/Split.1 = Split(%n/Add) {axis = -1, num_outputs = 2} @n/Split\n\
         %n/Gelu = Gelu(%n/Split.1) @n/Gelu\n\
         %y = Mul(%n/Split, %n/Gelu) @n"
    );
    let inputs = ["m2", "", "w", "p", "", "g", "b"];
    let text = fused("EmbedLayerNormalization", &inputs, &["y", "", "sum"], &[]).text();
    for part in [
        "%n/Gather = Gather(%w, %m2)",
        "%n/Slice = Slice(%p, %n/first, %n/Shape, %n/first)",
        "%sum = Add(%n/Gather, %n/Slice)",
        "%y = LayerNormalization(%sum, %g, %b) {axis = -1, epsilon = 1e-12}",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn grouped_queries_are_attention_of_onnx() {
    let attributes = [
        heads(4),
        int("kv_num_heads", 2),
        int("do_rotary", 1),
        int("local_window_size", 3),
    ];
    let inputs = ["q", "k", "v", "pk", "pv", "lengths", "total", "cos", "sin"];
    let text = fused(
        "GroupQueryAttention",
        &inputs,
        &["y", "nk", "nv"],
        &attributes,
    )
    .text();
    for part in [
        "%n/RotaryEmbedding = RotaryEmbedding(%q, %cos, %sin, %n/Expand) {num_heads = 4}",
        "%n/RotaryEmbedding.1 = RotaryEmbedding(%k, %cos, %sin, %n/Expand) {num_heads = 2}",
        "%y, %nk, %nv = Attention(%n/RotaryEmbedding, %n/RotaryEmbedding.1, %v, _, %pk, %pv) \
         {is_causal = 1, kv_num_heads = 2, left_window_size = 2, q_num_heads = 4}",
    ] {
        assert!(text.contains(part), "{text}");
    }
}
