//! Operators that carry a state from one part of a sequence to the next.

use crate::activation::sigmoid;
use crate::kernel::{Build, Kernel, Node, Stop, floats, no_value, scratch};
use crate::number::Number;
use tenon_base::{Result, stop};

pub(crate) static KERNELS: &[(&str, Build)] = &[
    ("CausalConvWithState", causal_convolution),
    ("LinearAttention", linear_attention),
];

fn causal_convolution(node: &Node<'_>) -> Result<Kernel, Stop> {
    let shape = node.shape(0)?;
    let (channels, length) = (shape[1], shape[2]);
    let kernel = node.shape(1)?[2];
    let before = kernel - 1;
    let swish = match node.attributes.string("activation", "none")? {
        "none" => false,
        "silu" | "swish" => true,
        found => return Err(no_value("activation", found)),
    };
    let lines = shape[0] * channels;
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (input, weight) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let (bias, past) = (inputs.optional::<T>(2)?, inputs.optional::<T>(3)?);
        let to = outputs.slice::<T>(0)?;
        let mut present = outputs.optional::<T>(1)?;
        for line in 0..lines {
            // Element `at` of what came before, then of the input.
            let element = |at: usize| match at.checked_sub(before) {
                Some(at) => input[line * length + at],
                None => past.map_or(T::default(), |past| past[line * before + at]),
            };
            let channel = line % channels;
            for at in 0..length {
                stop::checkpoint();
                let mut sum = bias.map_or(0.0, |bias| bias[channel].to_f64());
                for tap in 0..kernel {
                    sum += weight[channel * kernel + tap].to_f64() * element(at + tap).to_f64();
                }
                let bent = if swish { sum * sigmoid(sum) } else { sum };
                to[line * length + at] = T::from_f64(bent);
            }
            if let Some(present) = &mut present {
                let kept = &mut present[line * before..(line + 1) * before];
                kept.iter_mut().zip(length..).for_each(|(to, at)| *to = element(at));
            }
        }
        Ok(())
    })))
}

/// Extents of a linear attention.
#[derive(Debug, Clone, Copy)]
struct Extents {
    batch: usize,
    steps: usize,
    /// Heads of queries.
    queries: usize,
    /// Heads of keys and values.
    groups: usize,
    /// Of a query and a key.
    features: usize,
    /// Of a value.
    rows: usize,
}

impl Extents {
    fn new(node: &Node<'_>) -> Result<Self> {
        let (query, value) = (node.shape(0)?, node.shape(2)?);
        let heads =
            |name: &str| -> Result<usize> { Ok(node.attributes.int(name, 1)?.max(1) as usize) };
        let (queries, groups) = (heads("q_num_heads")?, heads("kv_num_heads")?);
        Ok(Self {
            batch: query[0],
            steps: query[1],
            queries,
            groups,
            features: query[2] / queries,
            rows: value[2] / groups,
        })
    }

    /// The numbers of head `head` among `heads` at a step of a batch.
    fn part<'a, T>(&self, all: &'a [T], place: usize, heads: usize, head: usize) -> &'a [T] {
        let width = all.len() / (self.batch * self.steps * heads).max(1);
        &all[(place * heads + head) * width..][..width]
    }
}

/// What a head remembers: `[features, rows]`, and room for what a step adds to it.
struct Memory<'a> {
    state: &'a mut [f64],
    gain: &'a mut [f64],
}

impl Memory<'_> {
    /// Each feature's row times exp(decay): one decay a feature, or one for all.
    fn fade<T: Number>(&mut self, decay: &[T]) {
        let rows = self.state.chunks_exact_mut(self.gain.len().max(1));
        for (at, row) in rows.enumerate() {
            let factor = decay[at % decay.len()].to_f64().exp();
            row.iter_mut().for_each(|number| *number *= factor);
        }
    }

    /// What the state answers to `asked`, for one row.
    fn answer<T: Number>(&self, asked: &[T], row: usize) -> f64 {
        let numbers = self.state[row..].iter().step_by(self.gain.len());
        numbers
            .zip(asked)
            .map(|(number, asked)| number * asked.to_f64())
            .sum()
    }

    /// Adds key' value times `rate`; with `delta`, of the value only what the key does not answer.
    fn learn<T: Number>(&mut self, key: &[T], value: &[T], rate: f64, delta: bool) {
        for (row, value) in value.iter().enumerate() {
            let known = if delta { self.answer(key, row) } else { 0.0 };
            self.gain[row] = rate * (value.to_f64() - known);
        }
        let rows = self.state.chunks_exact_mut(self.gain.len().max(1));
        for (row, key) in rows.zip(key) {
            let gains = row.iter_mut().zip(&*self.gain);
            gains.for_each(|(number, gain)| *number += key.to_f64() * gain);
        }
    }
}

/// In f64; the scratch memory holds the state of a head and what is added to it in a step.
fn linear_attention(node: &Node<'_>) -> Result<Kernel, Stop> {
    let attributes = node.attributes;
    let extents = Extents::new(node)?;
    let Extents {
        batch,
        steps,
        queries,
        groups,
        features,
        rows,
    } = extents;
    let scale = match attributes.float("scale", 0.0)? {
        0.0 => 1.0 / (features as f64).sqrt(),
        scale => scale.into(),
    };
    let rule = attributes.string("update_rule", "gated_delta")?;
    let (gated, delta) = (rule.starts_with("gated"), rule.ends_with("delta"));
    let beta_width = node.optional(5).map_or(1, |ty| ty.shape()[2]);
    let state_type = node.optional(3).map_or(node.dtype(0)?, |ty| ty.dtype());
    let size = features * rows;
    floats!(node.dtype(0)?, 0, T => floats!(state_type, 3, S => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (query, key) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let value = inputs.slice::<T>(2)?;
        let past = inputs.optional::<S>(3)?;
        let decay = inputs.optional::<T>(4)?.filter(|_| gated);
        let beta = inputs.optional::<T>(5)?.filter(|_| delta);
        let (state, gain) = scratch::<f64>(&mut outputs, size + rows)?.split_at_mut(size);
        let mut memory = Memory { state, gain };
        let to = outputs.slice::<T>(0)?;
        let mut present = outputs.optional::<S>(1)?;
        for head in 0..batch * groups {
            let (batch, group) = (head / groups, head % groups);
            let whole = head * size..(head + 1) * size;
            memory.state.fill(0.0);
            if let Some(past) = past {
                let past = past[whole.clone()].iter();
                memory.state.iter_mut().zip(past).for_each(|(to, from)| *to = from.to_f64());
            }
            for place in batch * steps..(batch + 1) * steps {
                if let Some(decay) = decay {
                    memory.fade(extents.part(decay, place, groups, group));
                }
                let rate = beta.map_or(1.0, |beta| {
                    beta[place * beta_width + group % beta_width].to_f64()
                });
                let key = extents.part(key, place, groups, group);
                memory.learn(key, extents.part(value, place, groups, group), rate, delta);
                let shared = queries / groups;
                stop::checkpoint();
                for asking in group * shared..(group + 1) * shared {
                    let asked = extents.part(query, place, queries, asking);
                    let to = &mut to[(place * queries + asking) * rows..][..rows];
                    for (row, to) in to.iter_mut().enumerate() {
                        *to = T::from_f64(scale * memory.answer(asked, row));
                    }
                }
            }
            if let Some(present) = &mut present {
                let kept = present[whole].iter_mut();
                kept.zip(&*memory.state).for_each(|(to, from)| *to = S::from_f64(*from));
            }
        }
        Ok(())
    })
    .with_scratch(size + rows)))
}
