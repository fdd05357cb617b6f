//! Scaled dot-product attention (Vaswani et al., 2017): `tenon.Attention` and ONNX's `Attention`.
//!
//! Many queries: blocks of keys and values are packed once and multiplied by tiles of queries, whose
//! scores stay in the cache, with the online softmax of FlashAttention (Dao et al., 2022). Few queries:
//! keys and values are read in place, once for all heads that share them.
//!
//! The keys that a query attends to, but for the mask, are a range: the causal mask, windows and lengths
//! limit the loops, and no score outside the range is computed where a whole block is.

mod run;
mod vectors;

use super::{Kernel, UnpreparedWorkload};
use crate::floats::{FloatElement, FloatType};
use crate::panels::packed_len;
use crate::signature::{Signature, refuse};
use crate::simd::Level;
use crate::simd::disjoint::{Blocks, for_each_chunk, for_each_unit};
use run::{AttentionRun, MaskElements};
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{DataType, Shape};

/// Most units computed concurrently; each has a slot of scratch memory.
const SLOTS: usize = 16;

/// Rows (queries of all heads that share keys) up to which keys and values are read in place: packing
/// them would cost more.
const FEW_ROWS: usize = 4;

/// Most queries of a unit.
const UNIT_QUERIES: usize = 512;

/// Most queries of a tile.
const TILE: usize = 84;

/// Keys of a block, unless all scores are an output; with a causal mask, where blocks of later keys are
/// omitted.
const KEY_BLOCK: usize = 512;
const CAUSAL_KEY_BLOCK: usize = 128;

/// Elements of the scores of a tile where blocks are long.
const TILE_SCORES: usize = 1 << 15;

/// Keys whose values are read for all rows in turn, from the first-level cache.
const VALUE_BLOCK: usize = 32;

/// Operations below which one thread is used.
const PARALLEL_OPERATIONS: usize = 1 << 18;

/// Elements of the cache from which on several threads copy it.
const PARALLEL_COPY: usize = 1 << 16;

/// Strides in elements of a tensor with heads.
#[derive(Debug, Clone, Copy)]
struct HeadStrides {
    batch: usize,
    head: usize,
    step: usize,
}

impl HeadStrides {
    /// `[batch, heads, steps, width]`
    fn separate(heads: usize, steps: usize, width: usize) -> Self {
        Self {
            batch: heads * steps * width,
            head: steps * width,
            step: width,
        }
    }

    /// `[batch, steps, heads, width]`, or the last two dimensions as one.
    fn merged(heads: usize, steps: usize, width: usize) -> Self {
        Self {
            batch: heads * steps * width,
            head: width,
            step: heads * width,
        }
    }

    fn at(&self, batch: usize, head: usize, step: usize) -> usize {
        batch * self.batch + head * self.head + step * self.step
    }
}

/// The extents of an operand with heads: batch, heads, steps, width.
type HeadExtents = [usize; 4];

/// A mask of the scores.
#[derive(Debug, Clone, Copy)]
struct Mask {
    /// Whether its elements select keys; else they are added to the scores.
    is_bool: bool,
    /// Strides along batch, head and query; 0 where it is broadcast.
    strides: [usize; 3],
    /// Stride along the keys: 0 where it is broadcast, else 1.
    key: usize,
    /// The number of keys of the mask; later keys are masked.
    keys: usize,
}

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
    let shape = |input| -> Result<[usize; 4], Refusal> {
        let shape = signature.float_input(input, float)?;
        let extents = shape.and_then(|shape| <[usize; 4]>::try_from(&shape[..]).ok());
        extents.ok_or_else(|| refuse("no kernel for operands of other than four dimensions"))
    };
    let [batch, queries, heads, depth] = shape(0)?;
    let ([_, keys, ..], [.., width]) = (shape(1)?, shape(2)?);
    let output = signature.float_output(0, float)?;
    let fits = shape(1)? == [batch, keys, heads, depth]
        && shape(2)? == [batch, keys, heads, width]
        && output.is_some_and(|output| output[..] == [batch, queries, heads, width]);
    if !fits {
        return Err(refuse("the shapes do not fit"));
    }
    let mask = match signature.float_input(3, float)? {
        Some(shape) => Some(Mask::new(
            shape,
            [batch, heads, queries, keys],
            false,
            false,
        )?),
        None => None,
    };
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
        mask,
        mask_overrides: false,
        lengths: false,
        present: [false; 2],
        scores: None,
    }))
}

/// ONNX `Attention`.
pub(super) fn onnx(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let float = FloatType::of_input(signature.input(0)?.dtype(), 0)?;
    let q_heads = extents(signature, 0, float, "q_num_heads")?;
    let k_heads = extents(signature, 1, float, "kv_num_heads")?;
    let v_heads = extents(signature, 2, float, "kv_num_heads")?;
    let [batch, heads, queries, depth] = q_heads;
    let [_, groups, keys, _] = k_heads;
    let width = v_heads[3];
    let separate = signature.input(0)?.shape().len() == 4;
    let past = match signature.float_input(4, float)? {
        Some(shape) if shape.len() == 4 => shape[2],
        Some(_) => return Err(refuse("the shapes do not fit")),
        None => 0,
    };
    let total = keys
        .checked_add(past)
        .ok_or_else(|| refuse("too many keys"))?;
    let is = |shape: Option<&Shape>, expected: &[usize]| {
        shape.is_none_or(|shape| shape[..] == *expected)
    };
    let output = signature.output(0)?;
    let whole = if separate {
        vec![batch, heads, queries, width]
    } else {
        vec![batch, queries, heads * width]
    };
    let outputs = [1, 2, 3].map(|index| signature.float_output(index, float));
    let [present_key, present_value, scores] = outputs;
    let (present_key, present_value, scores) = (present_key?, present_value?, scores?);
    let fits = groups > 0
        && heads.is_multiple_of(groups)
        && k_heads == [batch, groups, keys, depth]
        && v_heads == [batch, groups, keys, width]
        && is(
            signature.float_input(4, float)?,
            &[batch, groups, past, depth],
        )
        && is(
            signature.float_input(5, float)?,
            &[batch, groups, past, width],
        )
        && signature.optional(4).is_some() == signature.optional(5).is_some()
        && is(signature.float_output(0, float)?, &whole)
        && is(present_key, &[batch, groups, total, depth])
        && is(present_value, &[batch, groups, total, width])
        && is(scores, &[batch, heads, queries, total]);
    let lengths = signature.optional(6);
    let lengths_fit =
        lengths.is_none_or(|ty| ty.dtype() == DataType::I64 && ty.shape()[..] == [batch]);
    if !fits || !lengths_fit {
        return Err(refuse("the shapes or types do not fit"));
    }
    if output.elements() == 0 || total == 0 || depth == 0 {
        return Err(refuse("no kernel for empty tensors"));
    }
    if past > 0 && (present_key.is_none() || present_value.is_none()) {
        return Err(refuse("no kernel for a past without both present outputs"));
    }
    let scores = match (scores, signature.int("qk_matmul_output_mode", 0)?) {
        (None, _) => None,
        (Some(_), 0) => Some(ScoreOutput::Scaled),
        (Some(_), 1) => Some(ScoreOutput::Capped),
        (Some(_), 2) => Some(ScoreOutput::Masked),
        (Some(_), _) => Some(ScoreOutput::Weights),
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
        mask: Mask::of(signature, float, [batch, heads, queries, total])?,
        mask_overrides: true,
        lengths: lengths.is_some(),
        present: [present_key.is_some(), present_value.is_some()],
        scores,
    }))
}

/// The extents of an operand with heads as a dimension, or concatenated.
fn extents(
    signature: &Signature<'_>,
    input: usize,
    float: FloatType,
    heads: &'static str,
) -> Result<HeadExtents, Refusal> {
    let shape = signature.float_input(input, float)?;
    match *shape.map_or(&[][..], |shape| &shape[..]) {
        [batch, heads, steps, width] => Ok([batch, heads, steps, width]),
        [batch, steps, features] => {
            let count = usize::try_from(signature.int(heads, 0)?).unwrap_or(0);
            if count == 0 || !features.is_multiple_of(count) {
                return Err(refuse(format!("'{heads}' does not divide the features")));
            }
            Ok([batch, count, steps, features / count])
        }
        _ => Err(refuse("the shapes do not fit")),
    }
}

impl Mask {
    /// The mask of ONNX's operator.
    fn of(
        signature: &Signature<'_>,
        float: FloatType,
        scores: [usize; 4],
    ) -> Result<Option<Self>, Refusal> {
        let Some(mask) = signature.optional(3) else {
            return Ok(None);
        };
        let is_bool = mask.dtype() == DataType::Bool;
        if !is_bool {
            signature.float_input(3, float)?;
        }
        Self::new(mask.shape(), scores, is_bool, true).map(Some)
    }

    /// A mask of `shape`, broadcast to the scores. A mask that `may_be_short` masks the keys after its
    /// last one; another one is broadcast along the keys as well.
    fn new(
        shape: &Shape,
        scores: [usize; 4],
        is_bool: bool,
        may_be_short: bool,
    ) -> Result<Self, Refusal> {
        let refused = || refuse(format!("no kernel for a mask of shape {shape}"));
        let missing = scores.len().checked_sub(shape.len()).ok_or_else(refused)?;
        let mut extents = [1; 4];
        extents[missing..].copy_from_slice(shape);
        let fits = (0..3).all(|axis| extents[axis] == 1 || extents[axis] == scores[axis]);
        let keys = extents[3];
        let keys_fit = keys == scores[3]
            || if may_be_short {
                keys < scores[3]
            } else {
                keys == 1
            };
        if !fits || !keys_fit || extents.contains(&0) || (may_be_short && shape.is_empty()) {
            return Err(refused());
        }
        let all = Shape::new(extents).strides();
        let step = |axis: usize| if extents[axis] == 1 { 0 } else { all[axis] };
        let broadcast = keys == 1 && !may_be_short;
        Ok(Self {
            is_bool,
            strides: [step(0), step(1), step(2)],
            key: usize::from(!broadcast),
            keys: if broadcast { scores[3] } else { keys },
        })
    }
}

impl Attention {
    /// Keys of the past and new ones.
    fn total(&self) -> usize {
        self.past + self.keys
    }

    /// Heads of queries that share keys and values.
    fn sharing(&self) -> usize {
        self.heads / self.groups
    }

    /// Heads of a unit: all that share keys, unless their queries are many.
    fn unit_heads(&self) -> usize {
        if self.sharing().saturating_mul(self.queries) <= UNIT_QUERIES {
            self.sharing()
        } else {
            1
        }
    }

    /// Queries of each head of a unit.
    fn unit_queries(&self) -> usize {
        if self.scores.is_some() {
            self.queries
        } else {
            self.queries.min(UNIT_QUERIES)
        }
    }

    /// Queries of all heads of a unit.
    fn unit_rows(&self) -> usize {
        self.unit_heads() * self.unit_queries()
    }

    /// The output: units are blocks of rows of it.
    fn blocks(&self) -> Blocks {
        let unit = self.unit_heads();
        if self.separate {
            Blocks {
                stacks: self.batch * self.heads / unit,
                rows: unit * self.queries,
                blocks: 1,
                width: self.width,
            }
        } else {
            Blocks {
                stacks: self.batch,
                rows: self.queries,
                blocks: self.heads / unit,
                width: unit * self.width,
            }
        }
    }

    /// Rows of the output of a unit.
    fn chunk_rows(&self) -> usize {
        if self.separate {
            self.unit_rows()
        } else {
            self.unit_queries()
        }
    }

    /// Units of a stack and block of the output.
    fn query_chunks(&self) -> usize {
        self.queries.div_ceil(self.unit_queries())
    }

    fn units(&self) -> usize {
        self.batch * self.heads / self.unit_heads() * self.query_chunks()
    }

    fn slots(&self) -> usize {
        self.units().min(SLOTS)
    }

    fn reads_in_place(&self) -> bool {
        self.unit_rows() <= FEW_ROWS
    }

    /// Keys of a block.
    fn key_block(&self) -> usize {
        if self.scores.is_some() || self.reads_in_place() {
            self.total()
        } else if self.causal {
            self.total().min(CAUSAL_KEY_BLOCK)
        } else {
            self.total().min(KEY_BLOCK)
        }
    }

    /// Queries of a tile: few enough that their scores stay in the cache.
    fn tile(&self) -> usize {
        let fitting = (TILE_SCORES / self.key_block() / 14 * 14).clamp(14, TILE);
        fitting.min(self.unit_rows())
    }

    /// The parts of a unit's scratch memory.
    fn sizes(&self) -> [usize; 8] {
        let (rows, block) = (self.unit_rows(), self.key_block());
        if self.reads_in_place() {
            return [
                rows.saturating_mul(self.depth),
                self.depth,
                VALUE_BLOCK.saturating_mul(self.width),
                rows.saturating_mul(block),
                0,
                rows.saturating_mul(self.width),
                block,
                2 * rows,
            ];
        }
        [
            rows.saturating_mul(self.depth),
            packed_len(self.depth, block),
            packed_len(block, self.width),
            self.tile().saturating_mul(block),
            self.tile().saturating_mul(self.width),
            rows.saturating_mul(self.width),
            block.max(self.depth).max(self.width),
            2 * rows,
        ]
    }

    /// Elements of scratch memory for a unit.
    fn slot(&self) -> usize {
        self.sizes().into_iter().fold(0, usize::saturating_add)
    }

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
        for &length in lengths.unwrap_or_default() {
            if usize::try_from(length).is_ok_and(|length| length <= self.total()) {
                continue;
            }
            return Err(
                Error::new(ErrorKind::OutOfBounds, "a length is out of range")
                    .expected(format_args!("0 to {}", self.total()))
                    .found(length),
            );
        }
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
        let all = self.batch * self.heads * self.queries * self.total();
        let parallel = 2 * all * (self.depth + self.width) >= PARALLEL_OPERATIONS;
        let width = self.width;
        for_each_unit(
            (output, self.blocks(), self.chunk_rows()),
            (scores, self.unit_rows() * self.total()),
            (scratch, self.slot(), self.slots()),
            parallel,
            |unit, mut output, scores, scratch| {
                let mut store = |[row, head, query]: [usize; 3], from: &[f32]| {
                    let to = if self.separate {
                        output.row_mut(row)
                    } else {
                        &mut output.row_mut(query)[head * width..][..width]
                    };
                    T::floats_mut(to).write(self.level, 0..width, from);
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
        match self.float {
            FloatType::F32 => self.execute_as::<f32>(operands),
            FloatType::F16 => self.execute_as::<half::f16>(operands),
            FloatType::Bf16 => self.execute_as::<half::bf16>(operands),
        }
    }
}
