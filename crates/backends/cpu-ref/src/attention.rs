//! Scaled dot-product attention (Vaswani et al., 2017) and rotary position embedding (Su et al., 2021).

use crate::elements::{Elements, ElementsMut};
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, length, position, scratch, unsupported,
};
use crate::loop_nest::broadcast;
use crate::number::{Number, WidenedArithmetic};
use tenon_backend::Inputs;
use tenon_base::{Result, stop};
use tenon_tensor::{DataType, Shape};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("tenon.Attention", fused),
    ("Attention", attention),
    ("RotaryEmbedding", rotary),
];

/// Softmax of `scores` in place; zeros where every score is negative infinity.
fn softmax(scores: &mut [f64]) {
    let max = scores
        .iter()
        .fold(f64::NEG_INFINITY, |max, &score| max.nan_max(score));
    let shift = if max == f64::NEG_INFINITY { 0.0 } else { max };
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - shift).exp();
        sum += *score;
    }
    let sum = if sum == 0.0 { 1.0 } else { sum };
    scores.iter_mut().for_each(|score| *score /= sum);
}

/// Q [B, S, H, D], K [B, T, H, D], V [B, T, H, Dv], mask to [B, H, S, T]; Y [B, S, H, Dv].
fn fused(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let [batches, queries, heads, depth] = **node.shape(0)? else {
        return Err(crate::kernel::invalid("Q must have four dimensions").into());
    };
    let keys = node.shape(1)?[1];
    let width = node.shape(2)?[3];
    let scale = f64::from(node.attributes.float("scale", 1.0)?);
    let steps = match node.optional(3) {
        Some(mask) => broadcast(mask.shape(), &[batches, heads, queries, keys])?,
        None => vec![0; 4],
    };
    let mask_at = move |at: [usize; 4]| -> usize {
        at.iter()
            .zip(&steps)
            .map(|(at, &step)| at * step as usize)
            .sum()
    };
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (q, k, v) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?, inputs.slice::<T>(2)?);
        let mask = inputs.optional::<T>(3)?;
        let to = outputs.slice::<T>(0)?;
        let (scores, sums) = scratch::<f64>(&mut outputs, keys + width)?.split_at_mut(keys);
        for nth in 0..batches * queries * heads {
            let (batch, query, head) = (nth / heads / queries, nth / heads % queries, nth % heads);
            let q = &q[nth * depth..(nth + 1) * depth];
            for (key, score) in scores.iter_mut().enumerate() {
                stop::checkpoint();
                let at = (batch * keys + key) * heads + head;
                let mask = mask.map_or(0.0, |mask| mask[mask_at([batch, head, query, key])].to_f64());
                *score = scale * crate::matmul::dot(q, &k[at * depth..(at + 1) * depth]) + mask;
            }
            softmax(scores);
            sums.fill(0.0);
            for (key, &weight) in scores.iter().enumerate() {
                stop::checkpoint();
                let at = (batch * keys + key) * heads + head;
                let v = &v[at * width..(at + 1) * width];
                sums.iter_mut().zip(v).for_each(|(sum, v)| *sum += weight * v.to_f64());
            }
            let to = &mut to[nth * width..(nth + 1) * width];
            to.iter_mut().zip(&*sums).for_each(|(to, &sum)| *to = T::from_f64(sum));
        }
        Ok(())
    })
    .with_scratch(keys + width))
}

/// The layout of a tensor with heads: separate, [B, H, S, D], or merged, [B, S, H D].
#[derive(Debug, Clone, Copy)]
struct HeadRows {
    heads: usize,
    steps: usize,
    width: usize,
    is_separate: bool,
}

impl HeadRows {
    fn new(node: &Node<'_>, index: usize, heads: &str) -> Result<Self> {
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

    fn at(&self, batch: usize, head: usize, step: usize) -> usize {
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
    /// Strides along batch, head and query.
    lead: Vec<isize>,
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
        let lead = lead.iter().map(|step| step * keys as isize).collect();
        Ok(Some(Self {
            lead,
            keys,
            dtype: mask.dtype(),
        }))
    }

    fn at(&self, mask: Elements<'_>, row: [usize; 3], key: usize) -> f64 {
        if key >= self.keys {
            return f64::NEG_INFINITY;
        }
        let start: usize = row
            .iter()
            .zip(&self.lead)
            .map(|(at, &step)| at * step as usize)
            .sum();
        let value = mask.at(start + key);
        match self.dtype {
            DataType::Bool if value == 0.0 => f64::NEG_INFINITY,
            DataType::Bool => 0.0,
            _ => value,
        }
    }
}

/// The shapes and attributes of ONNX's `Attention`.
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
    /// The content of the fourth output (`qk_matmul_output_mode`).
    score_output: i64,
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
            score_output: attributes.int("qk_matmul_output_mode", 0)?,
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
            self.softcap * (score / self.softcap).tanh()
        } else {
            score
        }
    }
}

/// A KV cache: the past keys or values, and the new ones after them.
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
        let has_past = inputs.optional::<u8>(past)?.is_some();
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

    /// Writes the past and the new steps to an output, with separate heads.
    fn store(&self, batches: usize, to: &mut ElementsMut<'_>) {
        let steps = self.past_steps + self.rows.steps;
        for row in 0..batches * self.rows.heads * steps {
            let (lead, step) = (row / steps, row % steps);
            let (from, start) = self.row(lead / self.rows.heads, lead % self.rows.heads, step);
            for at in 0..self.rows.width {
                to.set(row * self.rows.width + at, from.value(start + at));
            }
        }
    }
}

fn attention(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let attention = Attention::new(node)?;
    let capacity = attention.keys() + attention.v.width;
    if !attention.types.iter().all(|dtype| dtype.is_float()) {
        return Err(unsupported(
            "no kernel for keys or values that are not floating point",
        ));
    }
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let q = inputs.slice::<T>(0)?;
        let Attention { past, types: [_, k_type, v_type], .. } = attention;
        let keys = KeyValueCache::new(&inputs, [1, 4], k_type, attention.k, past)?;
        let values = KeyValueCache::new(&inputs, [2, 5], v_type, attention.v, past)?;
        for (index, cached, dtype) in [(1, &keys, k_type), (2, &values, v_type)] {
            if outputs.is_requested(index) {
                let mut to = ElementsMut::new(&mut outputs, index, dtype)?;
                cached.store(attention.batches, &mut to);
            }
        }
        let lengths = inputs.optional::<i64>(6)?;
        let mask = match &attention.mask {
            Some(mask) => Some((mask, Elements::new(&inputs, 3, mask.dtype)?)),
            None => None,
        };
        let mut to = outputs.optional::<T>(0)?;
        let mut score_output = outputs.optional::<T>(3)?;
        let count = attention.keys();
        let (scores, sums) = scratch::<f64>(&mut outputs, capacity)?.split_at_mut(count);
        let HeadRows { heads, steps, width, .. } = attention.q;
        for row in 0..attention.batches * heads * steps {
            let (batch, head, query) = (row / steps / heads, row / steps % heads, row % steps);
            let group = head / (heads / attention.k.heads);
            let filled = match lengths {
                Some(lengths) => length(lengths[batch], count)?,
                None => count,
            };
            let offset = match lengths {
                Some(_) if past == 0 => filled as i64 - steps as i64,
                _ => past as i64,
            };
            let q = &q[attention.q.at(batch, head, query)..][..width];
            let mut store_score = |mode: i64, key: usize, value: f64| {
                if let Some(to) = &mut score_output
                    && attention.score_output == mode
                {
                    to[row * count + key] = T::from_f64(value);
                }
            };
            for (key, score) in scores.iter_mut().enumerate() {
                stop::checkpoint();
                let (k, start) = keys.row(batch, group, key);
                let dot: f64 = (0..width).map(|at| q[at].to_f64() * k.at(start + at)).sum();
                store_score(0, key, dot * attention.scale);
                *score = attention.capped(dot * attention.scale);
                store_score(1, key, *score);
                let mut bias = 0.0;
                if let Some((mask, elements)) = mask {
                    bias = mask.at(elements, [batch, head, query], key);
                }
                let attends = key < filled && attention.attends(query, key, offset);
                // A masked key stays masked, whatever its score (NaN, infinity).
                *score = if attends && bias > f64::NEG_INFINITY {
                    *score + bias
                } else {
                    f64::NEG_INFINITY
                };
                store_score(2, key, *score);
            }
            softmax(scores);
            scores.iter().enumerate().for_each(|(key, &weight)| store_score(3, key, weight));
            let Some(to) = &mut to else { continue };
            sums.fill(0.0);
            for (key, &weight) in scores.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
                let (v, start) = values.row(batch, group, key);
                for (at, sum) in sums.iter_mut().enumerate() {
                    *sum += weight * v.at(start + at);
                }
            }
            let out = HeadRows { width: attention.v.width, ..attention.q }.at(batch, head, query);
            let to = &mut to[out..out + sums.len()];
            to.iter_mut().zip(&*sums).for_each(|(to, &sum)| *to = T::from_f64(sum));
        }
        Ok(())
    })
    .with_scratch(capacity))
}

/// Rotates pairs of features by the angle of their position; features beyond
/// `rotary_embedding_dim` are copied.
fn rotary(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let rows = HeadRows::new(node, 0, "num_heads")?;
    let batches = node.shape(0)?[0];
    let rotated = match node.attributes.int("rotary_embedding_dim", 0)? {
        0 => rows.width,
        given => (given.max(0) as usize).min(rows.width),
    };
    let half = rotated / 2;
    let interleaved = node.attributes.flag("interleaved", false)?;
    let positions = node.shape(1)?[0];
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let from = inputs.slice::<T>(0)?;
        let (cos, sin) = (inputs.slice::<T>(1)?, inputs.slice::<T>(2)?);
        let at_position = inputs.optional::<i64>(3)?;
        let to = outputs.slice::<T>(0)?;
        to.copy_from_slice(from);
        for row in 0..batches * rows.heads * rows.steps {
            let (lead, step) = (row / rows.steps, row % rows.steps);
            let (batch, head) = (lead / rows.heads, lead % rows.heads);
            let start = rows.at(batch, head, step);
            let angle = batch * rows.steps + step;
            let angle = match at_position {
                Some(all) => position(all[angle], positions)?,
                None => angle,
            };
            for at in 0..half {
                let (a, b) = if interleaved { (2 * at, 2 * at + 1) } else { (at, at + half) };
                let (x, y) = (from[start + a].to_f64(), from[start + b].to_f64());
                let (cos, sin) = (cos[angle * half + at].to_f64(), sin[angle * half + at].to_f64());
                to[start + a] = T::from_f64(cos * x - sin * y);
                to[start + b] = T::from_f64(sin * x + cos * y);
            }
        }
        Ok(())
    })))
}
