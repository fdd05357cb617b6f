//! `tenon.Attention`: softmax(scale Q K' + mask) V for each head (scaled dot-product attention, Vaswani
//! et al., 2017), in blocks of queries whose scores stay in the cache. Keys are not blocked, so that
//! the softmax is over whole rows, without the online softmax of FlashAttention.

use super::softmax::softmax;
use super::{Kernel, UnpreparedWorkload};
use crate::activation::Activation;
use crate::panels::{Panels, pack_columns, pack_rows, packed_len};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::{Blocks, MatrixMut, for_each_block};
use crate::simd::gemm::{Gemm, multiply};
use crate::simd::rows::Matrix;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::Result;
use tenon_tensor::Shape;

/// Most heads computed concurrently; each has a slot of scratch memory.
const SLOTS: usize = 16;

/// Queries below which keys and values are read in place: packing them would cost more.
const FEW_QUERIES: usize = 4;

/// Operations below which one thread is used.
const PARALLEL_OPERATIONS: usize = 1 << 18;

/// Attention of `queries` over `keys`.
struct Attention {
    level: Level,
    batch: usize,
    queries: usize,
    keys: usize,
    heads: usize,
    /// Elements of a query and of a key.
    depth: usize,
    /// Elements of a value.
    width: usize,
    scale: f32,
    mask: Option<MaskStrides>,
}

/// The strides in elements of the mask, which is added to the scores; 0 where it is broadcast, 1 along
/// the keys.
#[derive(Debug, Clone, Copy)]
struct MaskStrides {
    batch: usize,
    head: usize,
    query: usize,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let [batch, queries, heads, depth] = signature.ranked(0)?;
    let [k_batch, keys, k_heads, k_depth] = signature.ranked(1)?;
    let [v_batch, v_keys, v_heads, width] = signature.ranked(2)?;
    let fits = (k_batch, k_heads, k_depth) == (batch, heads, depth)
        && (v_batch, v_heads, v_keys) == (batch, heads, keys)
        && signature.ranked_output()? == [batch, queries, heads, width];
    if !fits {
        return Err(refuse("the shapes do not fit"));
    }
    let mask = match signature.optional_f32_shape(3)? {
        Some(shape) => Some(MaskStrides::of(shape, [batch, heads, queries, keys])?),
        None => None,
    };
    let scale = signature.float("scale", 1.0)?;
    let level = signature.level;
    Ok(Box::new(Attention {
        level,
        batch,
        queries,
        keys,
        heads,
        depth,
        width,
        scale,
        mask,
    }))
}

impl MaskStrides {
    /// The strides of a mask of `shape`, broadcast to the scores.
    fn of(shape: &Shape, scores: [usize; 4]) -> Result<Self, Refusal> {
        let refused = || refuse(format!("no kernel for a mask of shape {shape}"));
        let missing = scores.len().checked_sub(shape.len()).ok_or_else(refused)?;
        let mut extents = [1; 4];
        extents[missing..].copy_from_slice(shape);
        if extents[3] != scores[3] || (0..3).any(|i| extents[i] != 1 && extents[i] != scores[i]) {
            return Err(refused());
        }
        let strides = Shape::new(extents).strides();
        let step = |axis: usize| if extents[axis] == 1 { 0 } else { strides[axis] };
        Ok(Self {
            batch: step(0),
            head: step(1),
            query: step(2),
        })
    }
}

impl Attention {
    /// Queries of a block: few enough that their scores stay in the cache.
    fn block(&self) -> usize {
        let fitting = (1 << 15) / self.keys.max(1);
        (fitting / 14 * 14).clamp(28, 112).min(self.queries)
    }

    /// Elements of scratch memory for a head.
    fn slot(&self) -> usize {
        if self.queries < FEW_QUERIES {
            return self.keys;
        }
        packed_len(self.depth, self.keys)
            .saturating_add(packed_len(self.keys, self.width))
            .saturating_add(self.block().saturating_mul(self.keys))
    }

    fn slots(&self) -> usize {
        (self.batch * self.heads).min(SLOTS)
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
        let (inputs, mut outputs) = operands.split();
        let run = AttentionRun {
            attention: self,
            q: inputs.slice(0)?,
            k: inputs.slice(1)?,
            v: inputs.slice(2)?,
            mask: match self.mask {
                Some(mask) => Some((mask, inputs.slice(3)?)),
                None => None,
            },
        };
        let output = outputs.slice::<f32>(0)?;
        if output.is_empty() || self.keys == 0 {
            // An empty sum.
            output.fill(0.0);
            return Ok(());
        }
        let scratch = super::scratch(&mut outputs, self.slot().saturating_mul(self.slots()))?;
        let shape = Blocks {
            stacks: self.batch,
            rows: self.queries,
            blocks: self.heads,
            width: self.width,
        };
        let scores = self.batch * self.heads * self.queries * self.keys;
        let parallel = 2 * scores * (self.depth + self.width) >= PARALLEL_OPERATIONS;
        let slots = (scratch, self.slot(), self.slots());
        for_each_block(output, shape, slots, parallel, |head, output, scratch| {
            run.head(head, output, scratch);
        });
        Ok(())
    }
}

/// One execution.
struct AttentionRun<'a> {
    attention: &'a Attention,
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    mask: Option<(MaskStrides, &'a [f32])>,
}

impl<'a> AttentionRun<'a> {
    fn head(&self, index: usize, mut output: MatrixMut<'_>, scratch: &mut [f32]) {
        let Attention {
            level,
            queries,
            keys,
            heads,
            depth,
            width,
            scale,
            ..
        } = *self.attention;
        let (batch, head) = (index / heads, index % heads);
        let (stride, v_stride) = (heads * depth, heads * width);
        let q = &self.q[(batch * queries * heads + head) * depth..];
        let k = &self.k[(batch * keys * heads + head) * depth..];
        let v = &self.v[(batch * keys * heads + head) * width..];
        let mask = self.mask.map(|(mask, elements)| {
            (
                mask.query,
                &elements[batch * mask.batch + head * mask.head..],
            )
        });
        if queries < FEW_QUERIES {
            for query in 0..queries {
                let q = &q[query * stride..][..depth];
                let mask = mask.map(|(step, mask)| &mask[query * step..][..keys]);
                let scores = &mut scratch[..keys];
                let output = output.row_mut(query);
                level.run(SingleQueryAttention {
                    q,
                    k,
                    stride,
                    v,
                    v_stride,
                    scale,
                    mask,
                    scores,
                    output,
                });
            }
            return;
        }
        let (packed_k, rest) = scratch.split_at_mut(packed_len(depth, keys));
        let (packed_v, scores) = rest.split_at_mut(packed_len(keys, width));
        pack_columns(k, stride, depth, keys, packed_k);
        pack_rows(v, v_stride, keys, width, packed_v);
        let block = self.attention.block();
        for first in (0..queries).step_by(block) {
            let count = (queries - first).min(block);
            let scores = &mut scores[..count * keys];
            let gemm = Gemm {
                bias: mask.filter(|(step, _)| *step == 0).map(|(_, mask)| mask),
                addend: mask
                    .filter(|(step, _)| *step > 0)
                    .map(|(step, mask)| &mask[first * step..]),
                scale,
                ..plain(Panels::new(packed_k, depth, keys))
            };
            let q = Matrix::new(&q[first * stride..], count, depth, stride);
            multiply(level, &q, &gemm, MatrixMut::new(scores, count, keys, keys));
            level.run(SoftmaxRows {
                rows: scores,
                length: keys,
            });
            let gemm = plain(Panels::new(packed_v, keys, width));
            let scores = Matrix::new(scores, count, keys, keys);
            multiply(level, &scores, &gemm, output.rows_mut(first..first + count));
        }
    }
}

/// A product without an epilogue.
fn plain(panels: Panels<'_>) -> Gemm<'_> {
    let Activation { limits, function } = Activation::NONE;
    Gemm {
        panels,
        bias: None,
        addend: None,
        scale: 1.0,
        limits,
        function,
    }
}

/// The softmax of consecutive rows.
struct SoftmaxRows<'a> {
    rows: &'a mut [f32],
    length: usize,
}

impl VectorOp for SoftmaxRows<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        for row in self.rows.chunks_exact_mut(self.length) {
            masked_softmax(s, row);
        }
    }
}

/// Softmax; zeros instead of NaN where the mask excludes every key (all scores negative infinity).
#[inline(always)]
fn masked_softmax<S: Simd>(s: S, scores: &mut [f32]) {
    if scores.iter().all(|&score| score == f32::NEG_INFINITY) {
        scores.fill(0.0);
    } else {
        softmax(s, scores);
    }
}

/// Attention of one query of one head, with keys and values read in place.
struct SingleQueryAttention<'a> {
    q: &'a [f32],
    k: &'a [f32],
    stride: usize,
    v: &'a [f32],
    v_stride: usize,
    scale: f32,
    mask: Option<&'a [f32]>,
    scores: &'a mut [f32],
    output: &'a mut [f32],
}

impl VectorOp for SingleQueryAttention<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        for (key, score) in self.scores.iter_mut().enumerate() {
            let k = &self.k[key * self.stride..][..self.q.len()];
            *score = self.scale * dot(s, self.q, k);
        }
        if let Some(mask) = self.mask {
            for (score, mask) in self.scores.iter_mut().zip(mask) {
                *score += mask;
            }
        }
        masked_softmax(s, self.scores);
        // Four vectors of the output in registers, over all keys.
        let width = self.output.len();
        for (block, output) in self.output.chunks_mut(4 * S::LANES).enumerate() {
            let first = block * 4 * S::LANES;
            let count = output.len().min(width - first);
            let mut sums = [s.splat(0.0); 4];
            for (key, &weight) in self.scores.iter().enumerate() {
                let v = &self.v[key * self.v_stride + first..][..count];
                let weight = s.splat(weight);
                if count == 4 * S::LANES {
                    for (sum, v) in sums.iter_mut().zip(v.chunks_exact(S::LANES)) {
                        *sum = s.fma(weight, s.load(v), *sum);
                    }
                } else {
                    for (sum, v) in sums.iter_mut().zip(v.chunks(S::LANES)) {
                        *sum = s.fma(weight, s.load_part(v), *sum);
                    }
                }
            }
            for (sum, output) in sums.iter().zip(output.chunks_mut(S::LANES)) {
                s.store_part(*sum, output);
            }
        }
    }
}

/// The dot product of two rows.
#[inline(always)]
fn dot<S: Simd>(s: S, a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [s.splat(0.0); 4];
    for (a, b) in a.chunks(4 * S::LANES).zip(b.chunks(4 * S::LANES)) {
        let lanes = a.chunks(S::LANES).zip(b.chunks(S::LANES));
        for ((a, b), sum) in lanes.zip(&mut sums) {
            *sum = s.fma(s.load_part(a), s.load_part(b), *sum);
        }
    }
    s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])))
}
