//! Scaled dot-product attention (Vaswani et al., 2017).

use crate::chunks::for_each_chunk_with;
use crate::elementary::{exp, tanh};
use crate::elements::{Elements, ElementsMut};
use crate::kernel::{BuildError, BuildKernel, Kernel, Node, floats, length, scratch, unsupported};
use crate::lanes::{MAXIMUM, SUM};
use crate::loop_nest::{BLOCK, broadcast};
use crate::number::Number;
use crate::product::{COLUMNS, Extents, Order, product};
use std::ops::Range;
use tenon_backend::Inputs;
use tenon_base::{Result, stop, vectorized};
use tenon_tensor::{DataType, Shape};

pub(crate) static KERNELS: &[(&str, BuildKernel)] =
    &[("tenon.Attention", fused), ("Attention", attention)];

/// Stages of the scores, as `qk_matmul_output_mode` counts them; 0 is after the scale.
const CAPPED: i64 = 1;
const MASKED: i64 = 2;
const SOFTMAX: i64 = 3;

/// Softmax of `scores` in place; zeros where every score is negative infinity.
fn softmax(scores: &mut [f64]) {
    let max = MAXIMUM.of(scores);
    let shift = if max == f64::NEG_INFINITY { 0.0 } else { max };
    vectorized!(for score in scores.iter_mut() {
        *score = exp(*score - shift);
    });
    let sum = SUM.of(scores);
    let sum = if sum == 0.0 { 1.0 } else { sum };
    vectorized!(for score in scores.iter_mut() {
        *score /= sum;
    });
}

/// Q [B, S, H, D], K [B, T, H, D], V [B, T, H, Dv], mask to [B, H, S, T]; Y [B, S, H, Dv].
fn fused(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let heads = |index: usize| -> Result<HeadRows> {
        let [_, steps, heads, width] = **node.shape(index)? else {
            return Err(crate::kernel::invalid(
                "Q, K and V must have four dimensions",
            ));
        };
        Ok(HeadRows {
            heads,
            steps,
            width,
            is_separate: false,
        })
    };
    let (q, k) = (heads(0)?, heads(1)?);
    let batches = node.shape(0)?[0];
    let mut mask = AttentionMask::new(node, &[batches, q.heads, q.steps, k.steps])?;
    if let Some(mask) = &mut mask
        && mask.keys == 1
    {
        // Broadcast to all keys.
        (mask.keys, mask.strides[3]) = (k.steps, 0);
    }
    Attention {
        mask,
        q,
        k,
        v: heads(2)?,
        past: 0,
        scale: node.attributes.float("scale", 1.0)?.into(),
        softcap: 0.0,
        causal: false,
        window: [None; 2],
        score_output: None,
        types: [node.dtype(0)?; 3],
        batches,
    }
    .kernel()
}

/// The layout of a tensor with heads: separate, [B, H, S, D], or merged, [B, S, H D].
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadRows {
    pub(crate) heads: usize,
    pub(crate) steps: usize,
    pub(crate) width: usize,
    is_separate: bool,
}

impl HeadRows {
    pub(crate) fn new(node: &Node<'_>, index: usize, heads: &str) -> Result<Self> {
        Ok(match **node.shape(index)? {
            [_, heads, steps, width] => Self {
                heads,
                steps,
                width,
                is_separate: true,
            },
            ref shape => {
                let heads = node.attributes.int(heads, 1)?.max(1) as usize;
                let (steps, width) = (shape[1], shape[2] / heads);
                Self {
                    heads,
                    steps,
                    width,
                    is_separate: false,
                }
            }
        })
    }

    pub(crate) fn at(&self, batch: usize, head: usize, step: usize) -> usize {
        let row = if self.is_separate {
            (batch * self.heads + head) * self.steps + step
        } else {
            (batch * self.steps + step) * self.heads + head
        };
        row * self.width
    }
}

/// A mask: a bool for each score, or a value that is added to it.
struct AttentionMask {
    /// Strides along batch, head, query and key.
    strides: [usize; 4],
    /// The number of keys of the mask; later keys are masked.
    keys: usize,
    dtype: DataType,
}

impl AttentionMask {
    fn new(node: &Node<'_>, scores: &[usize; 4]) -> Result<Option<Self>> {
        let Some(mask) = node.optional(3) else {
            return Ok(None);
        };
        let Some((&keys, lead)) = mask.shape().split_last() else {
            return Ok(None);
        };
        let lead = broadcast(&Shape::new(lead), &scores[..3])?;
        let mut strides = [1; 4];
        for (to, stride) in strides.iter_mut().zip(lead) {
            *to = stride as usize * keys;
        }
        Ok(Some(Self {
            strides,
            keys,
            dtype: mask.dtype(),
        }))
    }

    /// What is added to the scores of the keys from `key` on; negative infinity where they are masked.
    fn read(&self, mask: Elements<'_>, row: [usize; 3], key: usize, to: &mut [f64]) {
        let count = self.keys.saturating_sub(key).min(to.len());
        let (to, beyond) = to.split_at_mut(count);
        beyond.fill(f64::NEG_INFINITY);
        if to.is_empty() {
            return;
        }
        let row = row.iter().zip(self.strides);
        let start: usize = row.map(|(at, stride)| at * stride).sum();
        mask.strided(start + key * self.strides[3], self.strides[3] as isize, to);
        if self.dtype == DataType::Bool {
            vectorized!(for x in to.iter_mut() {
                *x = if *x == 0.0 { f64::NEG_INFINITY } else { 0.0 };
            });
        }
    }
}

/// The shapes and attributes of an attention.
struct Attention {
    q: HeadRows,
    k: HeadRows,
    v: HeadRows,
    past: usize,
    scale: f64,
    softcap: f64,
    causal: bool,
    /// The most keys to the left and to the right of a query that it attends to.
    window: [Option<i64>; 2],
    mask: Option<AttentionMask>,
    /// The content of the fourth output (`qk_matmul_output_mode`), if there may be one.
    score_output: Option<i64>,
    types: [DataType; 3],
    batches: usize,
}

impl Attention {
    fn new(node: &Node<'_>) -> Result<Self, BuildError> {
        let attributes = node.attributes;
        let q = HeadRows::new(node, 0, "q_num_heads")?;
        let k = HeadRows::new(node, 1, "kv_num_heads")?;
        let past = node.optional(4).map_or(0, |ty| ty.shape()[2]);
        let batches = node.shape(0)?[0];
        let scale = match attributes.value("scale") {
            Some(_) => attributes.float("scale", 1.0)?.into(),
            None => 1.0 / (q.width as f64).sqrt(),
        };
        let bound = |name| {
            attributes
                .int(name, -1)
                .map(|keys| (keys >= 0).then_some(keys))
        };
        Ok(Self {
            mask: AttentionMask::new(node, &[batches, q.heads, q.steps, past + k.steps])?,
            v: HeadRows::new(node, 2, "kv_num_heads")?,
            scale,
            softcap: attributes.float("softcap", 0.0)?.into(),
            causal: attributes.flag("is_causal", false)?,
            window: [bound("left_window_size")?, bound("right_window_size")?],
            score_output: Some(attributes.int("qk_matmul_output_mode", 0)?),
            types: [node.dtype(0)?, node.dtype(1)?, node.dtype(2)?],
            q,
            k,
            past,
            batches,
        })
    }

    fn keys(&self) -> usize {
        self.past + self.k.steps
    }

    /// Whether a query attends to a key; `offset` is the position of the first query among the keys.
    fn attends(&self, query: usize, key: usize, offset: i64) -> bool {
        let behind = query as i64 + offset - key as i64;
        let [left, right] = self.window;
        !(self.causal && behind < 0)
            && left.is_none_or(|left| behind <= left)
            && right.is_none_or(|right| -behind <= right)
    }

    fn capped(&self, score: f64) -> f64 {
        if self.softcap > 0.0 {
            self.softcap * tanh(score / self.softcap)
        } else {
            score
        }
    }
}

/// A KV cache: the past keys or values, and the new ones after them.
#[derive(Clone, Copy)]
struct KeyValueCache<'a> {
    past: Option<Elements<'a>>,
    new: Elements<'a>,
    rows: HeadRows,
    past_steps: usize,
}

impl<'a> KeyValueCache<'a> {
    fn new(
        inputs: &Inputs<'a>,
        [new, past]: [usize; 2],
        dtype: DataType,
        rows: HeadRows,
        past_steps: usize,
    ) -> Result<Self> {
        let has_past = past_steps > 0 && inputs.optional::<u8>(past)?.is_some();
        let past = has_past
            .then(|| Elements::new(inputs, past, dtype))
            .transpose()?;
        Ok(Self {
            past,
            new: Elements::new(inputs, new, dtype)?,
            rows,
            past_steps,
        })
    }

    /// The elements of a step's source, and the start of the step in them.
    fn row(&self, batch: usize, head: usize, step: usize) -> (Elements<'a>, usize) {
        match (self.past, step.checked_sub(self.past_steps)) {
            (Some(past), None) => {
                let row = (batch * self.rows.heads + head) * self.past_steps + step;
                (past, row * self.rows.width)
            }
            (_, step) => (self.new, self.rows.at(batch, head, step.unwrap_or(0))),
        }
    }

    /// Reads elements of a step, from element `first` on.
    fn read(&self, batch: usize, head: usize, step: usize, first: usize, to: &mut [f64]) {
        let (from, start) = self.row(batch, head, step);
        from.reals(start + first, to);
    }

    /// Writes the past and the new steps to an output, with separate heads.
    fn store(&self, batches: usize, to: &mut ElementsMut<'_>) {
        let steps = self.past_steps + self.rows.steps;
        for row in 0..batches * self.rows.heads * steps {
            let (lead, step) = (row / steps, row % steps);
            let (from, start) = self.row(lead / self.rows.heads, lead % self.rows.heads, step);
            to.copy(row * self.rows.width, from, start, self.rows.width);
        }
    }
}

fn attention(node: &Node<'_>) -> Result<Kernel, BuildError> {
    Attention::new(node)?.kernel()
}

/// What an execution reads.
struct AttentionInputs<'a, T> {
    q: &'a [T],
    keys: KeyValueCache<'a>,
    values: KeyValueCache<'a>,
    mask: Option<Elements<'a>>,
    /// The number of keys of each batch that are filled.
    lengths: Option<&'a [i64]>,
}

/// Queries of one head.
struct QueryBlock {
    batch: usize,
    head: usize,
    queries: Range<usize>,
}

/// Queries of a block: the columns of a tile of scores.
const QUERIES: usize = COLUMNS;

/// Most blocks that are computed at a time; each needs scratch memory.
const BLOCKS: usize = 16;

impl Attention {
    fn kernel(self) -> Result<Kernel, BuildError> {
        if !self.types.iter().all(|dtype| dtype.is_float()) {
            return Err(unsupported(
                "no kernel for keys or values that are not floating point",
            ));
        }
        // The queries of a block and their scores.
        let size = QUERIES * (self.q.width + self.keys());
        let blocks = (self.batches * self.q.heads * self.q.steps).div_ceil(QUERIES);
        let count = blocks.clamp(1, BLOCKS) * size;
        floats!(self.types[0], 0, T => Kernel::new(move |operands| {
            let (inputs, mut outputs) = operands.split();
            let [_, k_type, v_type] = self.types;
            let from = AttentionInputs {
                q: inputs.slice::<T>(0)?,
                keys: KeyValueCache::new(&inputs, [1, 4], k_type, self.k, self.past)?,
                values: KeyValueCache::new(&inputs, [2, 5], v_type, self.v, self.past)?,
                mask: match &self.mask {
                    Some(mask) => Some(Elements::new(&inputs, 3, mask.dtype)?),
                    None => None,
                },
                lengths: inputs.optional::<i64>(6)?,
            };
            for &filled in from.lengths.unwrap_or_default() {
                length(filled, self.keys())?;
            }
            for (index, cached, dtype) in [(1, &from.keys, k_type), (2, &from.values, v_type)] {
                if outputs.is_requested(index) {
                    let mut to = ElementsMut::new(&mut outputs, index, dtype)?;
                    cached.store(self.batches, &mut to);
                }
            }
            let (to, score_output) = (outputs.optional::<T>(0)?, outputs.optional::<T>(3)?);
            let scratch = scratch::<f64>(&mut outputs, count)?;
            if let Some(to) = to {
                self.attend(&from, to, scratch, size);
            }
            if let (Some(to), Some(stage)) = (score_output, self.score_output) {
                self.store_scores(&from, stage, to, scratch, size);
            }
            Ok(())
        })
        .with_scratch(count))
    }

    /// Calls `body` with blocks of queries; `rows` are rows of queries in the order [B, H, S] or, with merged heads,
    /// of all heads of a query in the order [B, S]. The second argument is the number of the block's first row less
    /// that of `rows`.
    fn for_each_block(
        &self,
        mut rows: Range<usize>,
        is_separate: bool,
        mut body: impl FnMut(QueryBlock, usize),
    ) {
        let (first, HeadRows { heads, steps, .. }) = (rows.start, self.q);
        while !rows.is_empty() {
            let (lane, query) = (rows.start / steps, rows.start % steps);
            let count = QUERIES.min(steps - query).min(rows.len());
            let (batch, heads) = if is_separate {
                (lane / heads, lane % heads..lane % heads + 1)
            } else {
                (lane, 0..heads)
            };
            for head in heads {
                let queries = query..query + count;
                body(
                    QueryBlock {
                        batch,
                        head,
                        queries,
                    },
                    rows.start - first,
                );
            }
            rows.start += count;
        }
    }

    /// Writes softmax(scores) V.
    fn attend<T: Number>(
        &self,
        from: &AttentionInputs<'_, T>,
        to: &mut [T],
        scratch: &mut [f64],
        size: usize,
    ) {
        let (heads, width) = (self.q.heads, self.v.width);
        let unit = if self.q.is_separate {
            width
        } else {
            heads * width
        };
        let operations = to.len().saturating_mul(2 * self.keys());
        for_each_chunk_with(to, unit, operations, scratch, size, |first, to, scratch| {
            let rows = first / unit..(first + to.len()) / unit;
            self.for_each_block(rows, self.q.is_separate, |block, row| {
                let scores = self.scores(from, &block, SOFTMAX, scratch);
                let group = self.group(block.head);
                let head = if self.q.is_separate { 0 } else { block.head };
                let (keys, batch) = (self.keys(), block.batch);
                product(
                    Extents {
                        rows: block.queries.len(),
                        columns: width,
                        depth: keys,
                        b: Order::Rows,
                    },
                    |i, k, to| to.copy_from_slice(&scores[i * keys + k..][..to.len()]),
                    |k, j, to| from.values.read(batch, group, k, j, to),
                    |i, j, sums| {
                        let to = &mut to[(row + i) * unit + head * width + j..][..sums.len()];
                        T::from_reals(sums, to);
                        if sums.iter().all(|sum| sum.is_finite()) {
                            return;
                        }
                        // Values that are not finite do not matter where the weight is 0.
                        for (to, column) in to.iter_mut().zip(j..) {
                            let weights = scores[i * keys..(i + 1) * keys].iter().enumerate();
                            let sum = weights.filter(|(_, weight)| **weight != 0.0).map(
                                |(key, weight)| {
                                    let (from, start) = from.values.row(batch, group, key);
                                    weight * from.at(start + column)
                                },
                            );
                            *to = T::of_f64(sum.sum());
                        }
                    },
                );
            });
        });
    }

    /// Writes the scores after a stage, [B, H, S, T].
    fn store_scores<T: Number>(
        &self,
        from: &AttentionInputs<'_, T>,
        stage: i64,
        to: &mut [T],
        scratch: &mut [f64],
        size: usize,
    ) {
        let keys = self.keys();
        let operations = to.len().saturating_mul(self.q.width);
        for_each_chunk_with(to, keys, operations, scratch, size, |first, to, scratch| {
            let rows = first / keys..(first + to.len()) / keys;
            self.for_each_block(rows, true, |block, row| {
                let scores = self.scores(from, &block, stage, scratch);
                T::from_reals(scores, &mut to[row * keys..][..scores.len()]);
            });
        });
    }

    /// The head of the keys and values that a head of queries reads.
    fn group(&self, head: usize) -> usize {
        head / (self.q.heads / self.k.heads)
    }

    /// The scores of a block of queries after a stage, [queries, keys].
    fn scores<'a, T: Number>(
        &self,
        from: &AttentionInputs<'_, T>,
        block: &QueryBlock,
        stage: i64,
        scratch: &'a mut [f64],
    ) -> &'a [f64] {
        let &QueryBlock {
            batch,
            head,
            ref queries,
        } = block;
        let (count, keys, width) = (queries.len(), self.keys(), self.q.width);
        let (q, scores) = scratch.split_at_mut(QUERIES * width);
        let scores = &mut scores[..count * keys];
        for (query, q) in queries.clone().zip(q.chunks_exact_mut(width.max(1))) {
            T::to_reals(&from.q[self.q.at(batch, head, query)..][..width], q);
        }
        let q = &*q;
        // Keys are rows, so that they are read along their features.
        product(
            Extents {
                rows: keys,
                columns: count,
                depth: width,
                b: Order::Columns,
            },
            |key, k, to| from.keys.read(batch, self.group(head), key, k, to),
            |k, j, to| to.copy_from_slice(&q[j * width + k..][..to.len()]),
            |key, j, sums| {
                for (sum, query) in sums.iter().zip(j..) {
                    scores[query * keys + key] = sum * self.scale;
                }
            },
        );
        let filled = match from.lengths {
            Some(lengths) => lengths[batch] as usize,
            None => keys,
        };
        // The position of the first query among the keys.
        let offset = match from.lengths {
            Some(_) if self.past == 0 => filled as i64 - self.q.steps as i64,
            _ => self.past as i64,
        };
        for (query, scores) in queries.clone().zip(scores.chunks_exact_mut(keys.max(1))) {
            stop::checkpoint();
            if stage >= CAPPED {
                scores
                    .iter_mut()
                    .for_each(|score| *score = self.capped(*score));
            }
            if stage >= MASKED {
                let row = [batch, head, query];
                let mut biases = [0.0; BLOCK];
                for (nth, scores) in scores.chunks_mut(BLOCK).enumerate() {
                    let biases = &mut biases[..scores.len()];
                    let first = nth * BLOCK;
                    if let (Some(mask), Some(elements)) = (&self.mask, from.mask) {
                        mask.read(elements, row, first, biases);
                    }
                    for ((score, bias), key) in scores.iter_mut().zip(&*biases).zip(first..) {
                        let attends = key < filled && self.attends(query, key, offset);
                        // A masked key stays masked, whatever its score (NaN, infinity).
                        *score = if attends && *bias > f64::NEG_INFINITY {
                            *score + bias
                        } else {
                            f64::NEG_INFINITY
                        };
                    }
                }
            }
            if stage >= SOFTMAX {
                softmax(scores);
            }
        }
        scores
    }
}
