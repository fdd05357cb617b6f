//! Operators with a state from one part of a sequence to the next: causal convolution and linear attention.

use crate::elementary::sigmoid;
use crate::kernel::{BuildError, BuildKernel, Kernel, Node, floats, scratch, unsupported_value};
use crate::number::Number;
use tenon_base::{Result, stop};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("CausalConvWithState", causal_convolution),
    ("LinearAttention", linear_attention),
];

fn causal_convolution(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let shape = node.shape(0)?;
    let (channels, length) = (shape[1], shape[2]);
    let kernel = node.shape(1)?[2];
    let before = kernel - 1;
    let swish = match node.attributes.string("activation", "none")? {
        "none" => false,
        "silu" | "swish" => true,
        found => return Err(unsupported_value("activation", found)),
    };
    let lines = shape[0] * channels;
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (input, weight) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let (bias, past) = (inputs.optional::<T>(2)?, inputs.optional::<T>(3)?);
        let to = outputs.slice::<T>(0)?;
        let mut present = outputs.optional::<T>(1)?;
        for line in 0..lines {
            // Element `at` of the past, then of the input.
            let element = |at: usize| match at.checked_sub(before) {
                Some(at) => input[line * length + at],
                None => past.map_or(T::default(), |past| past[line * before + at]),
            };
            let channel = line % channels;
            for at in 0..length {
                stop::checkpoint();
                let mut sum = bias.map_or(0.0, |bias| bias[channel].to_f64());
                for position in 0..kernel {
                    sum += weight[channel * kernel + position].to_f64() * element(at + position).to_f64();
                }
                let activated = if swish { sum * sigmoid(sum) } else { sum };
                to[line * length + at] = T::of_f64(activated);
            }
            if let Some(present) = &mut present {
                let present = &mut present[line * before..(line + 1) * before];
                present.iter_mut().zip(length..).for_each(|(to, at)| *to = element(at));
            }
        }
        Ok(())
    })))
}

/// LinearAttentionExtents of a linear attention.
#[derive(Debug, Clone, Copy)]
struct LinearAttentionExtents {
    batch: usize,
    steps: usize,
    /// Heads of queries.
    queries: usize,
    /// Heads of keys and values.
    groups: usize,
    /// Elements of a query and of a key.
    features: usize,
    /// Elements of a value.
    rows: usize,
}

impl LinearAttentionExtents {
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

    /// The elements of head `head` of `heads` at a step of a batch.
    fn part<'a, T>(&self, all: &'a [T], step: usize, heads: usize, head: usize) -> &'a [T] {
        let width = all.len() / (self.batch * self.steps * heads).max(1);
        &all[(step * heads + head) * width..][..width]
    }
}

/// The state of a head, `[features, rows]`, and the update of one step.
struct LinearState<'a> {
    state: &'a mut [f64],
    update: &'a mut [f64],
}

impl LinearState<'_> {
    /// Multiplies the row of each feature by exp(decay): one decay per feature, or one for all.
    fn decay<T: Number>(&mut self, decay: &[T]) {
        let rows = self.state.chunks_exact_mut(self.update.len().max(1));
        for (at, row) in rows.enumerate() {
            let factor = decay[at % decay.len()].to_f64().exp();
            row.iter_mut().for_each(|element| *element *= factor);
        }
    }

    /// One row of the product of the state and a key or query.
    fn read<T: Number>(&self, key: &[T], row: usize) -> f64 {
        let column = self.state[row..].iter().step_by(self.update.len());
        column
            .zip(key)
            .map(|(element, key)| element * key.to_f64())
            .sum()
    }

    /// Adds the outer product of key and value times `rate`; with `delta`, the delta rule: the value less
    /// its current estimate.
    fn update<T: Number>(&mut self, key: &[T], value: &[T], rate: f64, delta: bool) {
        for (row, value) in value.iter().enumerate() {
            let estimate = if delta { self.read(key, row) } else { 0.0 };
            self.update[row] = rate * (value.to_f64() - estimate);
        }
        let rows = self.state.chunks_exact_mut(self.update.len().max(1));
        for (row, key) in rows.zip(key) {
            let pairs = row.iter_mut().zip(&*self.update);
            pairs.for_each(|(element, update)| *element += key.to_f64() * update);
        }
    }
}

/// Linear attention (Katharopoulos et al., 2020), gated and with the delta rule, in f64. The scratch memory
/// holds the state of a head and the update of one step.
fn linear_attention(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let attributes = node.attributes;
    let extents = LinearAttentionExtents::new(node)?;
    let LinearAttentionExtents {
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
        let (state, update) = scratch::<f64>(&mut outputs, size + rows)?.split_at_mut(size);
        let mut memory = LinearState { state, update };
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
            for step in batch * steps..(batch + 1) * steps {
                if let Some(decay) = decay {
                    memory.decay(extents.part(decay, step, groups, group));
                }
                let rate = beta.map_or(1.0, |beta| {
                    beta[step * beta_width + group % beta_width].to_f64()
                });
                let key = extents.part(key, step, groups, group);
                memory.update(key, extents.part(value, step, groups, group), rate, delta);
                let shared = queries / groups;
                stop::checkpoint();
                for head in group * shared..(group + 1) * shared {
                    let query = extents.part(query, step, queries, head);
                    let to = &mut to[(step * queries + head) * rows..][..rows];
                    for (row, to) in to.iter_mut().enumerate() {
                        *to = T::of_f64(scale * memory.read(query, row));
                    }
                }
            }
            if let Some(present) = &mut present {
                let present = present[whole].iter_mut();
                present.zip(&*memory.state).for_each(|(to, from)| *to = S::of_f64(*from));
            }
        }
        Ok(())
    })
    .with_scratch(size + rows)))
}
