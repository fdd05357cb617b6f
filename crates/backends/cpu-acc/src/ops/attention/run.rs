//! One execution of an attention.

use super::mask::Mask;
use super::vectors::{AddMask, OnlineSoftmax, Scale, ScoresInPlace, Softcap, ValuesInPlace};
use super::{Attention, ScoreOutput};
use crate::floats::{Floats, FloatsMut};
use crate::ops::split_scratch;
use crate::panels::{Panels, WIDTH, pack_columns, packed_len};
use crate::simd::Level;
use crate::simd::disjoint::MatrixMut;
use crate::simd::gemm::{Gemm, multiply};
use crate::simd::rows::Matrix;
use std::ops::Range;
use tenon_base::stop;

/// The elements of a mask.
#[derive(Clone, Copy)]
pub(super) enum MaskElements<'a> {
    Bool(&'a [u8]),
    Float(Floats<'a>),
}

/// One execution.
pub(super) struct AttentionRun<'a> {
    pub(super) attention: &'a Attention,
    pub(super) q: Floats<'a>,
    pub(super) k: Floats<'a>,
    pub(super) v: Floats<'a>,
    pub(super) mask: Option<(&'a Mask, MaskElements<'a>)>,
    pub(super) lengths: Option<&'a [i64]>,
}

/// Writes the output of a row, elements times a factor: the row's index, its head and its query in the unit.
pub(super) type StoreRow<'a> = dyn FnMut([usize; 3], &mut [f32], f32) + 'a;

/// Queries of consecutive heads that share keys, with their scratch memory.
struct AttentionUnit<'a> {
    batch: usize,
    /// The first head, and the number of heads.
    heads: [usize; 2],
    /// The first query, and the number of queries of each head.
    queries: [usize; 2],
    q: &'a mut [f32],
    packed_k: &'a mut [f32],
    packed_v: &'a mut [f32],
    /// The scores of a tile, then the weights.
    weights: &'a mut [f32],
    /// The product of a tile's weights and the values of a block.
    product: &'a mut [f32],
    /// The weighted sum of the values, for each row.
    sums: &'a mut [f32],
    mask: &'a mut [f32],
    /// The maximum of the scores of each row, then the sum of their exponentials.
    state: &'a mut [f32],
}

impl<'a> AttentionUnit<'a> {
    fn new(attention: &Attention, unit: usize, scratch: &'a mut [f32]) -> Self {
        let chunks = attention.query_chunks();
        let (lead, chunk) = (unit / chunks, unit % chunks);
        let count = attention.unit_heads();
        let leads = attention.heads / count;
        let first = chunk * attention.unit_queries();
        let [q, packed_k, packed_v, weights, product, sums, mask, state] =
            split_scratch(scratch, attention.sizes());
        Self {
            batch: lead / leads,
            heads: [lead % leads * count, count],
            queries: [
                first,
                attention.unit_queries().min(attention.queries - first),
            ],
            q,
            packed_k,
            packed_v,
            weights,
            product,
            sums,
            mask,
            state,
        }
    }
}

impl<'a> AttentionRun<'a> {
    /// All queries of a unit. `scores` is its part of the fourth output.
    pub(super) fn unit(
        &self,
        unit: usize,
        store: &mut StoreRow<'_>,
        mut scores: FloatsMut<'_>,
        scratch: &mut [f32],
    ) {
        let attention = self.attention;
        let (depth, width) = (attention.depth, attention.width);
        let mut unit = AttentionUnit::new(attention, unit, scratch);
        let ([first_head, heads], [first, queries]) = (unit.heads, unit.queries);
        let rows = heads * queries;
        if attention.reads_in_place() || self.q_in_place(&unit).is_none() {
            for (row, q) in unit.q.chunks_exact_mut(depth).enumerate().take(rows) {
                let (head, query) = (first_head + row / queries, first + row % queries);
                let at = attention.strides[0].at(unit.batch, head, query);
                self.q.copy(attention.level, at..at + depth, q);
            }
        }
        let (largest, total) = unit.state.split_at_mut(unit.state.len() / 2);
        largest.fill(f32::NEG_INFINITY);
        total.fill(0.0);
        let range = if attention.scores.is_some() {
            0..attention.total()
        } else {
            self.range_of(unit.batch, first..first + queries)
        };
        // The first block writes the sums, where it has keys for all rows.
        if attention.reads_in_place() || range.is_empty() {
            unit.sums.fill(0.0);
        }
        if attention.reads_in_place() {
            self.in_place(&mut unit, range, &mut scores);
        } else {
            let block = attention.key_block();
            for start in range.clone().step_by(block) {
                let keys = start..range.end.min(start + block);
                self.block(&mut unit, (keys, start == range.start), &mut scores);
            }
        }
        let totals = &unit.state[unit.state.len() / 2..];
        let sums = unit.sums.chunks_exact_mut(width).zip(totals);
        for (row, (sums, &total)) in sums.enumerate().take(rows) {
            let place = [row, row / queries, row % queries];
            store(place, sums, weight_factor(total));
        }
    }

    /// The queries of a unit from the first on, and the distance of two, where they are of f32 and equally far apart.
    fn q_in_place(&self, unit: &AttentionUnit<'_>) -> Option<(&'a [f32], usize)> {
        let strides = self.attention.strides[0];
        let ([head, heads], [first, queries]) = (unit.heads, unit.queries);
        let (Floats::F32(elements), Some(stride)) = (self.q, strides.row(heads, queries)) else {
            return None;
        };
        Some((&elements[strides.at(unit.batch, head, first)..], stride))
    }

    /// The keys that a query attends to, but for the mask.
    fn range(&self, batch: usize, query: usize) -> Range<usize> {
        let attention = self.attention;
        let filled = match self.lengths {
            Some(lengths) => lengths[batch] as usize,
            None => attention.total(),
        };
        // The position of the first query among the keys.
        let offset = match self.lengths {
            Some(_) if attention.past == 0 => filled as i64 - attention.queries as i64,
            _ => attention.past as i64,
        };
        let position = query as i64 + offset;
        let [left, right] = attention.window;
        let right = if attention.causal { Some(0) } else { right };
        let right = right.map_or(i64::MAX, |right| {
            position.saturating_add(right).saturating_add(1)
        });
        let left = left.map_or(0, |left| position.saturating_sub(left));
        let keys = attention.mask.map_or(filled, |mask| filled.min(mask.keys));
        let end = usize::try_from(right.max(0)).map_or(keys, |right| right.min(keys));
        let start = usize::try_from(left.max(0)).unwrap_or(usize::MAX);
        start.min(end)..end
    }

    /// The keys that any of the queries attends to, but for the mask.
    fn range_of(&self, batch: usize, queries: Range<usize>) -> Range<usize> {
        let last = self.range(batch, queries.end - 1);
        self.range(batch, queries.start).start.min(last.start)..last.end
    }

    /// Adds the keys and values of one block, the first or a further one, for all queries of the unit.
    fn block(
        &self,
        unit: &mut AttentionUnit<'_>,
        (keys, is_first): (Range<usize>, bool),
        scores: &mut FloatsMut<'_>,
    ) {
        let attention = self.attention;
        let Attention {
            level,
            depth,
            width,
            ..
        } = *attention;
        let count = keys.len();
        let group = unit.heads[0] / attention.sharing();
        let [k_strides, v_strides] = attention.key_strides();
        let q_in_place = self.q_in_place(unit);
        let packed_k = &mut unit.packed_k[..packed_len(depth, count)];
        let rows = (k_strides.at(unit.batch, group, keys.start), k_strides.step);
        pack_keys(level, self.k, rows, (depth, count), unit.mask, packed_k);
        let packed_v = &mut unit.packed_v[..packed_len(count, width)];
        let rows = (v_strides.at(unit.batch, group, keys.start), v_strides.step);
        pack_values(level, self.v, rows, (count, width), unit.mask, packed_v);
        let [first, queries] = unit.queries;
        let (tile, stages) = (attention.tile(), attention.scores.is_some());
        let all = unit.heads[1] * queries;
        for row in (0..all).step_by(tile) {
            stop::checkpoint();
            let rows = tile.min(all - row);
            let of_tile = if row / queries == (row + rows - 1) / queries {
                first + row % queries..first + row % queries + rows
            } else {
                first..first + queries
            };
            let range = self.range_of(unit.batch, of_tile);
            let needed = range.end.min(keys.end).saturating_sub(keys.start);
            let columns = if stages { count } else { needed };
            let sums = &mut unit.sums[row * width..][..rows * width];
            if columns == 0 || !stages && range.start >= keys.end {
                if is_first {
                    sums.fill(0.0);
                }
                continue;
            }
            let gemm = Gemm {
                scale: attention.scale,
                ..Gemm::new(Panels::new(packed_k, depth, columns))
            };
            let (q, stride) = q_in_place.unwrap_or((&*unit.q, depth));
            let q = Matrix::new(&q[row * stride..], rows, depth, stride);
            let output = MatrixMut::new(unit.weights, rows, columns, count);
            multiply(level, &q, &gemm, output);
            for (nth, weights) in unit.weights.chunks_exact_mut(count).take(rows).enumerate() {
                let (head, query) = ((row + nth) / queries, (row + nth) % queries);
                let [largest, total] = state_of(unit.state, row + nth);
                let rescale = self.weigh(
                    [unit.batch, unit.heads[0] + head, first + query],
                    keys.clone(),
                    columns,
                    (weights, unit.mask),
                    (scores, (row + nth) * count),
                    (largest, total),
                );
                if rescale != 1.0 {
                    level.run(Scale(&mut sums[nth * width..][..width], rescale));
                }
            }
            let gemm = Gemm::new(Panels::new(packed_v, count, width));
            let weights = Matrix::new(unit.weights, rows, count, count);
            if is_first {
                multiply(
                    level,
                    &weights,
                    &gemm,
                    MatrixMut::new(sums, rows, width, width),
                );
                continue;
            }
            let product = MatrixMut::new(unit.product, rows, width, width);
            multiply(level, &weights, &gemm, product);
            for (sum, product) in sums.iter_mut().zip(&*unit.product) {
                *sum += product;
            }
        }
    }

    /// The keys and values of `range`, read in place for all queries of the unit.
    fn in_place(
        &self,
        unit: &mut AttentionUnit<'_>,
        range: Range<usize>,
        scores: &mut FloatsMut<'_>,
    ) {
        let attention = self.attention;
        let Attention { level, width, .. } = *attention;
        let total = attention.total();
        let group = unit.heads[0] / attention.sharing();
        let [k_strides, v_strides] = attention.key_strides();
        let [first, queries] = unit.queries;
        level.run(ScoresInPlace {
            level,
            q: unit.q,
            depth: attention.depth,
            k: self.k,
            start: k_strides.at(unit.batch, group, 0),
            stride: k_strides.step,
            keys: range.clone(),
            scale: attention.scale,
            scores: unit.weights,
            row_stride: total,
            buffer: unit.packed_k,
        });
        for row in 0..unit.heads[1] * queries {
            let weights = &mut unit.weights[row * total..][..total];
            let [largest, sum] = state_of(unit.state, row);
            self.weigh(
                [
                    unit.batch,
                    unit.heads[0] + row / queries,
                    first + row % queries,
                ],
                0..total,
                total,
                (weights, unit.mask),
                (scores, row * total),
                (largest, sum),
            );
        }
        level.run(ValuesInPlace {
            level,
            weights: unit.weights,
            row_stride: total,
            v: self.v,
            start: v_strides.at(unit.batch, group, 0),
            stride: v_strides.step,
            keys: range,
            sums: unit.sums,
            width,
            buffer: unit.packed_v,
        });
    }

    /// Turns the scores of one query and some keys into weights, relative to the largest score so far;
    /// the first `computed` of them are products. Returns the factor of the former weighted sum.
    fn weigh(
        &self,
        [batch, head, query]: [usize; 3],
        keys: Range<usize>,
        computed: usize,
        (weights, mask_row): (&mut [f32], &mut [f32]),
        (scores, at): (&mut FloatsMut<'_>, usize),
        (largest, total): (&mut f32, &mut f32),
    ) -> f32 {
        let attention = self.attention;
        let level = attention.level;
        let count = keys.len();
        let mut stage = |stage: ScoreOutput, weights: &[f32]| {
            if attention.scores == Some(stage) {
                scores.write(level, at..at + count, weights);
            }
        };
        stage(ScoreOutput::Scaled, weights);
        if attention.softcap > 0.0 {
            level.run(Softcap {
                scores: &mut weights[..computed],
                cap: attention.softcap,
            });
        }
        stage(ScoreOutput::Capped, weights);
        let range = self.range(batch, query);
        let within = |key: usize| key.clamp(keys.start, keys.end) - keys.start;
        let own = within(range.start)..within(range.end);
        if let Some((mask, elements)) = self.mask {
            let lead = [batch, head, query].into_iter().zip(mask.strides);
            let start = lead.map(|(at, stride)| at * stride).sum::<usize>()
                + (keys.start + own.start) * mask.key;
            let mask_row = &mut mask_row[..own.len()];
            let row = match elements {
                MaskElements::Float(elements) if mask.key == 1 => {
                    elements.load(level, start..start + own.len(), mask_row)
                }
                MaskElements::Float(elements) => {
                    mask_row.fill(elements.get(start));
                    mask_row
                }
                MaskElements::Bool(elements) => {
                    for (to, &keep) in mask_row.iter_mut().zip(&elements[start..]) {
                        *to = if keep == 0 { f32::NEG_INFINITY } else { 0.0 };
                    }
                    mask_row
                }
            };
            level.run(AddMask {
                scores: &mut weights[own.clone()],
                mask: row,
                overrides: attention.mask_overrides,
            });
        }
        let outside = if attention.scores == Some(ScoreOutput::Masked) {
            f32::NEG_INFINITY
        } else {
            0.0
        };
        weights[..own.start].fill(outside);
        weights[own.end..].fill(outside);
        stage(ScoreOutput::Masked, weights);
        if outside != 0.0 {
            weights[..own.start].fill(0.0);
            weights[own.end..].fill(0.0);
        }
        let rescale = level.run(OnlineSoftmax {
            scores: &mut weights[own],
            largest,
            total,
        });
        if attention.scores == Some(ScoreOutput::Weights) {
            let (factor, mask_row) = (weight_factor(*total), &mut mask_row[..count]);
            for (to, weight) in mask_row.iter_mut().zip(&*weights) {
                *to = weight * factor;
            }
            stage(ScoreOutput::Weights, mask_row);
        }
        rescale
    }
}

/// The largest score and the sum of the exponentials of a row.
fn state_of(state: &mut [f32], row: usize) -> [&mut f32; 2] {
    let (largest, total) = state.split_at_mut(state.len() / 2);
    [&mut largest[row], &mut total[row]]
}

/// The factor of weights whose sum is `total`; 1 where the mask excludes every key.
fn weight_factor(total: f32) -> f32 {
    if total == 0.0 { 1.0 } else { 1.0 / total }
}

/// Packs keys, `depth` elements each, as the columns of a matrix; `start` and `stride` are the offset of the
/// first key and the distance of two.
fn pack_keys(
    level: Level,
    keys: Floats<'_>,
    (start, stride): (usize, usize),
    (depth, count): (usize, usize),
    buffer: &mut [f32],
    to: &mut [f32],
) {
    if let Floats::F32(keys) = keys {
        return pack_columns(&keys[start..], stride, depth, count, to);
    }
    for (panel, to) in to.chunks_exact_mut(depth * WIDTH).enumerate() {
        let to = to.as_chunks_mut::<WIDTH>().0;
        let first = panel * WIDTH;
        if count - first < WIDTH {
            to.as_flattened_mut().fill(0.0);
        }
        for column in 0..WIDTH.min(count - first) {
            let at = start + (first + column) * stride;
            let key = keys.load(level, at..at + depth, buffer);
            for (to, &element) in to.iter_mut().zip(key) {
                to[column] = element;
            }
        }
    }
}

/// Packs values, `width` elements each, as the rows of a matrix.
fn pack_values(
    level: Level,
    values: Floats<'_>,
    (start, stride): (usize, usize),
    (count, width): (usize, usize),
    buffer: &mut [f32],
    to: &mut [f32],
) {
    for row in 0..count {
        let at = start + row * stride;
        let value = values.load(level, at..at + width, buffer);
        let panels = to.chunks_exact_mut(count * WIDTH);
        for (from, to) in value.chunks(WIDTH).zip(panels) {
            let to = &mut to.as_chunks_mut::<WIDTH>().0[row];
            if let Ok(from) = <&[f32; WIDTH]>::try_from(from) {
                *to = *from;
                continue;
            }
            to[..from.len()].copy_from_slice(from);
            to[from.len()..].fill(0.0);
        }
    }
}
