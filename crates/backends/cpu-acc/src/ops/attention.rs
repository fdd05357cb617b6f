//! Scaled dot-product attention (Vaswani et al., 2017): `tenon.Attention` and ONNX's `Attention`.
//!
//! Many queries: blocks of keys and values are packed once and multiplied by tiles of queries, whose
//! scores stay in the cache, with the online softmax of FlashAttention (Dao et al., 2022). Few queries:
//! keys and values are read in place, once for all heads that share them.
//!
//! The keys that a query attends to, but for the mask, are a range: the causal mask, windows and lengths
//! limit the loops, and no score outside the range is computed where a whole block is.

mod mask;
mod run;
mod strides;
mod units;
mod vectors;

use super::element_types::of_float;
use super::{Kernel, UnpreparedWorkload, check_lengths};
use crate::floats::{FloatElement, FloatType, FloatsMut};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::Level;
use crate::simd::disjoint::{for_each_chunk, for_each_unit};
use mask::Mask;
use run::{AttentionRun, MaskElements};
use strides::HeadStrides;
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::Result;
use vectors::{Scale, ScaledCopy};

/// Keys whose values are read for all rows in turn, from the first-level cache.
const VALUE_BLOCK: usize = 32;

/// Operations below which one thread is used.
const PARALLEL_OPERATIONS: usize = 1 << 18;

/// Elements of the cache from which on several threads copy it.
const PARALLEL_COPY: usize = 1 << 16;

/// The extents of an operand with heads: batch, heads, steps, width.
pub(super) type HeadExtents = [usize; 4];

/// The fourth output of ONNX's operator.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ScoreOutput {
    Scaled,
    Capped,
    Masked,
    Weights,
}

/// Attention of `queries` over `past + keys`.
struct Attention {
    level: Level,
    float: FloatType,
    batch: usize,
    heads: usize,
    /// Heads of keys and values, each for `heads / groups` heads of queries.
    groups: usize,
    queries: usize,
    /// Keys without those of the past.
    keys: usize,
    /// Keys of the past; with a past, keys and values are read from the outputs of all of them.
    past: usize,
    /// Elements of a query and of a key.
    depth: usize,
    /// Elements of a value.
    width: usize,
    /// The layouts of queries, new keys and new values.
    strides: [HeadStrides; 3],
    /// Whether the heads of the output are a dimension before the queries.
    separate: bool,
    scale: f32,
    /// Scores become `softcap * tanh(scores / softcap)`; 0: they do not.
    softcap: f32,
    causal: bool,
    /// The most keys to the left and to the right of a query that it attends to.
    window: [Option<i64>; 2],
    mask: Option<Mask>,
    /// Whether a key with a mask of negative infinity is masked whatever its score, NaN included.
    mask_overrides: bool,
    /// Whether there is an input of the number of keys of each batch.
    lengths: bool,
    /// Which of present_key and present_value are outputs.
    present: [bool; 2],
    scores: Option<ScoreOutput>,
}

/// `tenon.Attention`.
pub(super) fn fused(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let float = FloatType::of_input(signature.input(0)?.dtype(), 0)?;
    let extents = |input: usize| -> Result<HeadExtents, Refusal> {
        let shape = signature.input(input)?.shape();
        let extents = <[usize; 4]>::try_from(&shape[..]);
        extents.map_err(|_| refuse("no kernel for operands of other than four dimensions"))
    };
    let [batch, queries, heads, depth] = extents(0)?;
    let ([_, keys, ..], [.., width]) = (extents(1)?, extents(2)?);
    Ok(Box::new(Attention {
        level: signature.level,
        float,
        batch,
        heads,
        groups: heads,
        queries,
        keys,
        past: 0,
        depth,
        width,
        strides: [
            HeadStrides::merged(heads, queries, depth),
            HeadStrides::merged(heads, keys, depth),
            HeadStrides::merged(heads, keys, width),
        ],
        separate: false,
        scale: signature.float("scale", 1.0)?,
        softcap: 0.0,
        causal: false,
        window: [None; 2],
        mask: Mask::of(signature, [batch, heads, queries, keys], false)?,
        mask_overrides: false,
        lengths: false,
        present: [false; 2],
        scores: None,
    }))
}

/// ONNX `Attention`.
pub(super) fn onnx(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let float = FloatType::of_input(signature.input(0)?.dtype(), 0)?;
    // `ops::kernel` does not check the operator, whose past may be empty.
    signature.check_inferred()?;
    // Shape inference relates the shapes, but not the types of V and of the past to that of Q.
    for input in [2, 4, 5] {
        signature.float_input(input, float)?;
    }
    let q_heads = head_extents(signature, 0, "q_num_heads")?;
    let k_heads = head_extents(signature, 1, "kv_num_heads")?;
    let v_heads = head_extents(signature, 2, "kv_num_heads")?;
    let [batch, heads, queries, depth] = q_heads;
    let [_, groups, keys, _] = k_heads;
    let width = v_heads[3];
    let separate = signature.input(0)?.shape().len() == 4;
    let past = signature.optional(4).map_or(0, |ty| ty.shape()[2]);
    let total = keys + past;
    if signature.output(0)?.elements() == 0 || total == 0 || depth == 0 {
        return Err(refuse("no kernel for empty tensors"));
    }
    let present = [1, 2].map(|output| signature.has_output(output));
    if past > 0 && present != [true; 2] {
        return Err(refuse("no kernel for a past without both present outputs"));
    }
    let scores = match signature.int("qk_matmul_output_mode", 0)? {
        _ if !signature.has_output(3) => None,
        0 => Some(ScoreOutput::Scaled),
        1 => Some(ScoreOutput::Capped),
        2 => Some(ScoreOutput::Masked),
        _ => Some(ScoreOutput::Weights),
    };
    let strides = |[_, heads, steps, width]: HeadExtents| {
        if separate {
            HeadStrides::separate(heads, steps, width)
        } else {
            HeadStrides::merged(heads, steps, width)
        }
    };
    let bound = |name| -> Result<Option<i64>, Refusal> {
        let keys = signature.int(name, -1)?;
        Ok((keys >= 0).then_some(keys))
    };
    Ok(Box::new(Attention {
        level: signature.level,
        float,
        batch,
        heads,
        groups,
        queries,
        keys,
        past,
        depth,
        width,
        strides: [q_heads, k_heads, v_heads].map(strides),
        separate,
        scale: if signature.has("scale") {
            signature.float("scale", 1.0)?
        } else {
            (1.0 / (depth as f64).sqrt()) as f32
        },
        softcap: signature.float("softcap", 0.0)?,
        causal: signature.flag("is_causal", false)?,
        window: [bound("left_window_size")?, bound("right_window_size")?],
        mask: Mask::of(signature, [batch, heads, queries, total], true)?,
        mask_overrides: true,
        lengths: signature.optional(6).is_some(),
        present,
        scores,
    }))
}

/// The extents of an operand with heads as a dimension, or concatenated: then attribute `heads` has their
/// number, which shape inference has checked.
pub(super) fn head_extents(
    signature: &Signature<'_>,
    input: usize,
    heads: &'static str,
) -> Result<HeadExtents, Refusal> {
    match signature.input(input)?.shape()[..] {
        [batch, heads, steps, width] => Ok([batch, heads, steps, width]),
        [batch, steps, features] => {
            let count = usize::try_from(signature.int(heads, 0)?).unwrap_or(0);
            let width = features.checked_div(count);
            let width = width.ok_or_else(|| refuse_attribute(heads, count))?;
            Ok([batch, count, steps, width])
        }
        _ => Err(refuse(
            "no kernel for operands of other than three or four dimensions",
        )),
    }
}

impl Attention {
    /// The layouts of keys and values, where they are read.
    fn key_strides(&self) -> [HeadStrides; 2] {
        if self.past == 0 {
            return [self.strides[1], self.strides[2]];
        }
        [self.depth, self.width]
            .map(|width| HeadStrides::separate(self.groups, self.total(), width))
    }

    /// Writes the keys or values of the past and the new ones to an output.
    fn append<T: FloatElement>(
        &self,
        past: Option<&[T]>,
        (new, strides): (&[T], HeadStrides),
        width: usize,
        present: &mut [T],
    ) {
        let parallel = present.len() >= PARALLEL_COPY;
        let before = self.past * width;
        for_each_chunk(present, self.total() * width, parallel, |lead, to| {
            let (batch, head) = (lead / self.groups, lead % self.groups);
            let (to_past, to_new) = to.split_at_mut(before);
            if let Some(past) = past {
                to_past.copy_from_slice(&past[lead * before..][..before]);
            }
            for (step, to) in to_new.chunks_exact_mut(width).enumerate() {
                to.copy_from_slice(&new[strides.at(batch, head, step)..][..width]);
            }
        });
    }

    fn execute_as<T: FloatElement>(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (mut k, mut v) = (inputs.slice::<T>(1)?, inputs.slice::<T>(2)?);
        let given = |input: usize| {
            let is_given = self.past > 0;
            is_given.then(|| inputs.slice::<T>(input)).transpose()
        };
        if self.present[0] {
            let present = outputs.slice(1)?;
            self.append(given(4)?, (k, self.strides[1]), self.depth, present);
            k = if self.past > 0 { present } else { k };
        }
        if self.present[1] {
            let present = outputs.slice(2)?;
            self.append(given(5)?, (v, self.strides[2]), self.width, present);
            v = if self.past > 0 { present } else { v };
        }
        let lengths = self.lengths.then(|| inputs.slice::<i64>(6)).transpose()?;
        check_lengths(lengths.unwrap_or_default(), self.total())?;
        let mask = match &self.mask {
            None => None,
            Some(mask) if mask.is_bool => Some((mask, MaskElements::Bool(inputs.slice(3)?))),
            Some(mask) => {
                let elements = T::floats(inputs.slice(3)?);
                Some((mask, MaskElements::Float(elements)))
            }
        };
        let run = AttentionRun {
            attention: self,
            q: T::floats(inputs.slice(0)?),
            k: T::floats(k),
            v: T::floats(v),
            mask,
            lengths,
        };
        let output = outputs.slice::<T>(0)?;
        let scores = if self.scores.is_some() {
            outputs.slice::<T>(3)?
        } else {
            &mut []
        };
        let size = self.slot().saturating_mul(self.slots());
        let scratch = super::scratch(&mut outputs, size)?;
        let scores_len = (self.batch * self.heads * self.queries).saturating_mul(self.total());
        let operations = scores_len.saturating_mul(2 * (self.depth + self.width));
        let parallel = operations >= PARALLEL_OPERATIONS;
        let width = self.width;
        for_each_unit(
            (output, self.blocks(), self.chunk_rows()),
            (scores, self.unit_rows() * self.total()),
            (scratch, self.slot(), self.slots()),
            parallel,
            |unit, mut output, scores, scratch| {
                let mut store = |[row, head, query]: [usize; 3], from: &mut [f32], factor| {
                    let to = if self.separate {
                        output.row_mut(row)
                    } else {
                        &mut output.row_mut(query)[head * width..][..width]
                    };
                    match T::floats_mut(to) {
                        FloatsMut::F32(to) => self.level.run(ScaledCopy { from, factor, to }),
                        mut to => {
                            self.level.run(Scale(from, factor));
                            to.write(self.level, 0..width, from);
                        }
                    }
                };
                run.unit(unit, &mut store, T::floats_mut(scores), scratch);
            },
        );
        Ok(())
    }
}

impl UnpreparedWorkload for Attention {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan {
            scratch_bytes: (self.slot().saturating_mul(self.slots()))
                .saturating_mul(size_of::<f32>()),
            ..WorkloadPlan::default()
        }
    }
}

impl Workload for Attention {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        of_float!(self.float, T => self.execute_as::<T>(operands))
    }
}
