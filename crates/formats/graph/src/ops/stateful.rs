//! Operators with a state between the parts of a sequence.

use super::rows::*;
use super::shapes::{
    Inferred, choice, expect_dtype, expect_optional_shape, expect_shape, invalid, positive,
    product, rank,
};
use crate::Inference;
use crate::operator::OperandDef;
use tenon_base::Result;
use tenon_tensor::TensorType;

const PAST: OperandDef = optional("past_state", FLOATS);
const PRESENT: OperandDef = required("present_state", FLOATS);

operators! { "stateful"
    /// Causal convolution of each channel: input [N, C, L], weight [C, 1, k],
    /// bias [C], past_state and present_state [N, C, k - 1]: the last elements before and after.
    Compute "CausalConvWithState"
        (required("input", FLOATS), required("weight", FLOATS), optional("bias", FLOATS), PAST)
        -> (required("output", FLOATS), PRESENT)
        [string("activation", "none, silu or swish (the same); default none")] causal_convolution;
    /// Attention by a state S [B, G, D, E] for each head of keys, step by step: S decays by
    /// exp(decay) (gated rules), then gains key' (value - S' key) beta (delta rules) or key' value;
    /// output scale query S. query [B, T, H D], key [B, T, G D], value [B, T, G E], decay
    /// [B, T, G D] or [B, T, G], beta [B, T, G] or [B, T, 1], output [B, T, H E].
    Compute "LinearAttention"
        (required("query", FLOATS), required("key", FLOATS), required("value", FLOATS), PAST,
         optional("decay", FLOATS), optional("beta", FLOATS))
        -> (required("output", FLOATS), PRESENT)
        [
            int("chunk_size", "a hint without effect; default 64"),
            must(int("kv_num_heads", "heads of keys and values: G")),
            must(int("q_num_heads", "heads of queries: H, a multiple of G")),
            float("scale", "factor of the output; 0: 1 / sqrt(D); default 0"),
            string("update_rule", "linear, gated, delta or gated_delta; default gated_delta"),
        ] linear_attention;
}

fn causal_convolution(node: &Inference<'_>) -> Inferred {
    let (input, weight) = (node.input(0)?, node.input(1)?);
    let dtype = input.dtype();
    for (index, name) in ["weight", "bias", "past_state"].into_iter().enumerate() {
        if let Some(ty) = node.optional(index + 1) {
            expect_dtype(ty, name, dtype)?;
        }
    }
    choice(node, "activation", "none", &["none", "silu", "swish"])?;
    rank(input, "input", 3..=3)?;
    rank(weight, "weight", 3..=3)?;
    let (batch, channels) = (input.shape()[0], input.shape()[1]);
    let kernel = weight.shape()[2];
    expect_shape(weight, "weight", &[channels, 1, kernel])?;
    expect_optional_shape(node, 2, "bias", &[channels])?;
    let Some(before) = kernel.checked_sub(1) else {
        return Err(invalid("input 'weight' is empty").found(weight.shape()));
    };
    let state = [batch, channels, before];
    expect_optional_shape(node, 3, "past_state", &state)?;
    Ok(vec![input.clone(), TensorType::new(dtype, state)?])
}

fn linear_attention(node: &Inference<'_>) -> Inferred {
    let heads = |name: &str| -> Result<usize> {
        positive(
            node.attributes.int(name, 0)?,
            &format!("attribute '{name}'"),
        )
    };
    let (groups, queries) = (heads("kv_num_heads")?, heads("q_num_heads")?);
    if !queries.is_multiple_of(groups) {
        return Err(
            invalid("attribute 'q_num_heads' is no multiple of 'kv_num_heads'")
                .expected(format_args!("a multiple of {groups}"))
                .found(queries),
        );
    }
    let rules = ["linear", "gated", "delta", "gated_delta"];
    let rule = choice(node, "update_rule", "gated_delta", &rules)?;
    let (query, key, value) = (node.input(0)?, node.input(1)?, node.input(2)?);
    for (ty, name) in [(query, "query"), (key, "key"), (value, "value")] {
        rank(ty, name, 3..=3)?;
        expect_dtype(ty, name, query.dtype())?;
    }
    let [batch, steps, width] = [0, 1, 2].map(|axis| query.shape()[axis]);
    let (features, rows) = (width / queries, value.shape()[2] / groups);
    expect_shape(query, "query", &[batch, steps, queries * features])?;
    expect_shape(key, "key", &[batch, steps, groups * features])?;
    expect_shape(value, "value", &[batch, steps, groups * rows])?;
    let state = [batch, groups, features, rows];
    expect_optional_shape(node, 3, "past_state", &state)?;
    let gate = |index: usize, name: &str, needed: bool, widths: [usize; 2]| -> Result<()> {
        let Some(ty) = node.optional(index) else {
            return if needed {
                Err(invalid(format!("input '{name}' is missing")).found(rule))
            } else {
                Ok(())
            };
        };
        expect_dtype(ty, name, query.dtype())?;
        let wide = rank(ty, name, 3..=3)? == 3 && ty.shape()[2] == widths[0];
        expect_shape(ty, name, &[batch, steps, widths[usize::from(!wide)]])
    };
    gate(
        4,
        "decay",
        rule.starts_with("gated"),
        [groups * features, groups],
    )?;
    gate(5, "beta", rule.ends_with("delta"), [groups, 1])?;
    let last = product(queries, rows, "the output")?;
    let output = TensorType::new(query.dtype(), [batch, steps, last])?;
    let kept = node.optional(3).map_or(query.dtype(), TensorType::dtype);
    Ok(vec![output, TensorType::new(kept, state)?])
}
