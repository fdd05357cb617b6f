//! Attention of ONNX: with heads as a dimension or concatenated, masks and caches.

use super::rows::*;
use super::shapes::{
    Inferred, broadcasts_to, choice_of, dtype_attribute, expect_dtype, expect_optional_shape,
    expect_shape, invalid, positive, product, rank, same, same_dtype, sum,
};
use crate::operator::OperandDef;
use crate::{DataType, Inference};
use tenon_base::Result;
use tenon_tensor::TensorType;

const Q: OperandDef = required("Q", FLOATS);
const K: OperandDef = required("K", FLOATS);
const V: OperandDef = required("V", FLOATS);

operators! { "attention"
    /// softmax(scale Q K' + mask) V for each head. Heads as a dimension: Q [B, H, S, D], K [B, G, T, D],
    /// V [B, G, T, E], Y [B, H, S, E]. Heads concatenated: Q [B, S, H D], K [B, T, G D],
    /// V [B, T, G E], Y [B, S, H E]. H is a multiple of G. With a past of P steps, keys and values
    /// are those of the past, then the new ones: present_key [B, G, P + T, D].
    Compute "Attention"
        (Q, K, V, optional("attn_mask", PLAIN), optional("past_key", FLOATS),
         optional("past_value", FLOATS), optional("nonpad_kv_seqlen", I64))
        -> (required("Y", FLOATS), optional("present_key", FLOATS),
            optional("present_value", FLOATS), optional("qk_matmul_output", FLOATS))
        [
            int("is_causal", "1: a query attends to no later key; default 0"),
            int("kv_num_heads", "heads of K and V, when they are concatenated"),
            int("left_window_size", "maximum of keys to the left that a query attends to; -1: all; default -1"),
            int("q_num_heads", "heads of Q, when they are concatenated"),
            int(
                "qk_matmul_output_mode",
                "contents of the fourth output: 0 scores, 1 after softcap, 2 after the mask, \
                 3 after softmax; default 0"
            ),
            int("right_window_size", "maximum of keys to the right that a query attends to; -1: all; default -1"),
            float("scale", "factor of the scores; default 1 / sqrt(D)"),
            float("softcap", "scores become softcap tanh(scores / softcap); 0: none; default 0"),
            string("softmax_precision", "the element type in which softmax computes; default that of Q"),
        ] attention;
    /// Rotary position embedding of pairs of features: X [B, H, S, D], or [B, S, H D] with num_heads.
    /// The caches hold cosine and sine, [P, R/2] with positions [B, S], or [B, S, R/2] without;
    /// R is rotary_embedding_dim, or D.
    Compute "RotaryEmbedding"
        (required("X", FLOATS), required("cos_cache", FLOATS), required("sin_cache", FLOATS),
         optional("position_ids", I64))
        -> (required("Y", FLOATS))
        [
            int("interleaved", "1: pairs are adjacent, 0: half the features apart; default 0"),
            int("num_heads", "heads, when they are concatenated; default 0"),
            int("rotary_embedding_dim", "features of a head that are rotated; 0: all; default 0"),
        ] rotary;
}

/// Batch, heads, steps and features of an operand.
fn split(node: &Inference<'_>, index: usize, name: &str, heads: &str) -> Result<[usize; 4]> {
    let ty = node.input(index)?;
    let shape = ty.shape();
    if rank(ty, name, 3..=4)? == 4 {
        return Ok([shape[0], shape[1], shape[2], shape[3]]);
    }
    let count = positive(
        node.attributes.int(heads, 0)?,
        &format!("attribute '{heads}'"),
    )?;
    if !shape[2].is_multiple_of(count) {
        return Err(invalid(format!(
            "attribute '{heads}' does not divide input '{name}'"
        ))
        .expected(format_args!("a divisor of {}", shape[2]))
        .found(count));
    }
    Ok([shape[0], count, shape[1], shape[2] / count])
}

fn attention(node: &Inference<'_>) -> Inferred {
    let dtype = same_dtype(node, &["Q", "K"])?;
    let value_type = node.input(2)?.dtype();
    let [batch, heads, queries, features] = split(node, 0, "Q", "q_num_heads")?;
    let [_, groups, keys, _] = split(node, 1, "K", "kv_num_heads")?;
    let [_, _, _, values] = split(node, 2, "V", "kv_num_heads")?;
    if groups == 0 || !heads.is_multiple_of(groups) {
        return Err(invalid("the heads of K do not divide those of Q")
            .expected(format_args!("a divisor of {heads}"))
            .found(groups));
    }
    let apart = node.input(0)?.shape().len() == 4;
    let layout = |heads: usize, steps: usize, features: usize| -> Result<Vec<usize>> {
        Ok(if apart {
            vec![batch, heads, steps, features]
        } else {
            vec![batch, steps, product(heads, features, "the output")?]
        })
    };
    expect_shape(node.input(1)?, "K", &layout(groups, keys, features)?)?;
    expect_shape(node.input(2)?, "V", &layout(groups, keys, values)?)?;
    let past = past(node, [batch, groups, features, values])?;
    let total = sum(past, keys, "the number of keys")?;
    mask(node, dtype, [batch, heads, queries, total])?;
    expect_optional_shape(node, 6, "nonpad_kv_seqlen", &[batch])?;
    choice_of(node, "qk_matmul_output_mode", 0, 0..=3)?;
    dtype_attribute(node, "softmax_precision", DataType::F32)?;
    Ok(vec![
        TensorType::new(dtype, layout(heads, queries, values)?)?,
        TensorType::new(dtype, [batch, groups, total, features])?,
        TensorType::new(value_type, [batch, groups, total, values])?,
        TensorType::new(dtype, [batch, heads, queries, total])?,
    ])
}

/// The steps of the past, 0 without one.
fn past(node: &Inference<'_>, [batch, groups, features, values]: [usize; 4]) -> Result<usize> {
    let (key, value) = match (node.optional(4), node.optional(5)) {
        (None, None) => return Ok(0),
        (Some(key), Some(value)) => (key, value),
        _ => {
            return Err(
                invalid("inputs 'past_key' and 'past_value' belong together")
                    .expected("both or none")
                    .found("one"),
            );
        }
    };
    rank(key, "past_key", 4..=4)?;
    let past = key.shape()[2];
    expect_shape(key, "past_key", &[batch, groups, past, features])?;
    expect_shape(value, "past_value", &[batch, groups, past, values])?;
    Ok(past)
}

fn mask(node: &Inference<'_>, dtype: DataType, scores: [usize; 4]) -> Result<()> {
    let Some(mask) = node.optional(3) else {
        return Ok(());
    };
    if mask.dtype() != DataType::Bool {
        expect_dtype(mask, "attn_mask", dtype)?;
    }
    // The keys after the end of a short mask are masked.
    let mut shape = mask.shape().to_vec();
    if let Some(last) = shape.last_mut()
        && *last < scores[3]
    {
        *last = scores[3];
    }
    broadcasts_to(&TensorType::new(mask.dtype(), shape)?, "attn_mask", &scores)
}

fn rotary(node: &Inference<'_>) -> Inferred {
    same_dtype(node, &["X", "cos_cache", "sin_cache"])?;
    let [batch, _, steps, features] = split(node, 0, "X", "num_heads")?;
    let turned = match node.attributes.int("rotary_embedding_dim", 0)? {
        0 => features,
        given => positive(given, "attribute 'rotary_embedding_dim'")?,
    };
    if turned > features || !turned.is_multiple_of(2) {
        return Err(invalid("attribute 'rotary_embedding_dim' is out of range")
            .expected(format_args!("an even number up to {features}"))
            .found(turned));
    }
    let cos = node.input(1)?;
    let expected = match node.optional(3) {
        Some(positions) => {
            expect_shape(positions, "position_ids", &[batch, steps])?;
            rank(cos, "cos_cache", 2..=2)?;
            vec![cos.shape()[0], turned / 2]
        }
        None => vec![batch, steps, turned / 2],
    };
    expect_shape(cos, "cos_cache", &expected)?;
    expect_shape(node.input(2)?, "sin_cache", &expected)?;
    same(node)
}
