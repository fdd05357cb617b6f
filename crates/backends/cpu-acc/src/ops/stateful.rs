//! Operators with a state from one part of a sequence to the next: CausalConvWithState, and LinearAttention
//! (Katharopoulos et al., "Transformers are RNNs", 2020; the delta rule: Yang et al., "Parallelizing Linear
//! Transformers with the Delta Rule", 2024).
//!
//! The columns of a linear attention's state, one for each element of a value, do not depend on each other:
//! a block of columns stays in the first-level cache over all steps.

use super::{Kernel, UnpreparedWorkload};
use crate::floats::{FloatElement, FloatType, Floats, FloatsMut};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::disjoint::{Blocks, for_each_chunk2, for_each_unit};
use crate::simd::math::{UnaryFunction, map_in_place};
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, stop};

/// Operations below which one thread is used.
const PARALLEL_OPERATIONS: usize = 1 << 17;

/// Chunks of lines, or heads computed concurrently: each has a slot of scratch memory.
const SLOTS: usize = 16;

/// Columns of a block of a linear attention's state.
const COLUMNS: usize = 64;

/// The causal convolution of each channel.
struct CausalConv {
    level: Level,
    float: FloatType,
    /// Pairs of batch and channel.
    lines: usize,
    channels: usize,
    length: usize,
    kernel: usize,
    /// Whether the result x becomes `x * sigmoid(x)`.
    swish: bool,
    bias: bool,
    past: bool,
}

/// The kernel of CausalConvWithState.
pub(super) fn causal_convolution(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let float = FloatType::of_input(signature.input(0)?.dtype(), 0)?;
    let unfitting = || refuse("the shapes do not fit");
    let (&[batch, channels, length], &[_, _, kernel]) = (
        &signature.input(0)?.shape()[..],
        &signature.input(1)?.shape()[..],
    ) else {
        return Err(unfitting());
    };
    let is = |found: Option<&tenon_tensor::Shape>, expected: &[usize]| {
        found.is_none_or(|found| found[..] == *expected)
    };
    let before = kernel.checked_sub(1).ok_or_else(unfitting)?;
    let state = [batch, channels, before];
    let fits = is(signature.float_input(1, float)?, &[channels, 1, kernel])
        && is(signature.float_input(2, float)?, &[channels])
        && is(signature.float_input(3, float)?, &state)
        && is(
            signature.float_output(0, float)?,
            &[batch, channels, length],
        )
        && is(signature.float_output(1, float)?, &state);
    if !fits {
        return Err(unfitting());
    }
    Ok(Box::new(CausalConv {
        level: signature.level,
        float,
        lines: batch * channels,
        channels,
        length,
        kernel,
        swish: match signature.string("activation", "none")? {
            "none" => false,
            "silu" | "swish" => true,
            other => return Err(refuse_attribute("activation", other)),
        },
        bias: signature.optional(2).is_some(),
        past: signature.optional(3).is_some(),
    }))
}

impl CausalConv {
    /// Elements of scratch memory for a chunk: a line with the past before it, its results and weights.
    fn slot(&self) -> usize {
        let line = self.length.saturating_add(self.kernel - 1);
        line.saturating_add(self.length).saturating_add(self.kernel)
    }

    fn execute_as<T: FloatElement>(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (input, weight) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let given =
            |is_given: bool, input: usize| is_given.then(|| inputs.slice::<T>(input)).transpose();
        let (bias, past) = (given(self.bias, 2)?, given(self.past, 3)?);
        let (length, before) = (self.length, self.kernel - 1);
        let slot = self.slot();
        let scratch = super::scratch(&mut outputs, slot * SLOTS)?;
        if let Some(present) = outputs.optional::<T>(1)? {
            // The last elements of the past and the input.
            let kept = before.saturating_sub(length);
            for (line, to) in present.chunks_exact_mut(before.max(1)).enumerate() {
                let (old, new) = to.split_at_mut(kept);
                match past {
                    Some(past) => {
                        let past = &past[line * before..(line + 1) * before];
                        old.copy_from_slice(&past[before - kept..]);
                    }
                    None => {
                        scratch[..kept].fill(0.0);
                        T::floats_mut(old).write(self.level, 0..kept, &scratch[..kept]);
                    }
                }
                let input = &input[line * length..(line + 1) * length];
                new.copy_from_slice(&input[length - new.len()..]);
            }
        }
        let to = outputs.slice::<T>(0)?;
        let chunk_lines = self.lines.div_ceil(SLOTS);
        let parallel = to.len() * self.kernel >= PARALLEL_OPERATIONS;
        for_each_chunk2(
            (to, chunk_lines * length),
            (scratch, slot),
            parallel,
            |chunk, to, scratch| {
                let (line, rest) = scratch.split_at_mut(length + before);
                let (result, weights) = rest.split_at_mut(length);
                for (nth, to) in to.chunks_exact_mut(length).enumerate() {
                    stop::checkpoint();
                    let at = chunk * chunk_lines + nth;
                    let channel = at % self.channels;
                    let copy = |from: &[T], index: usize, to: &mut [f32]| {
                        let own = index * to.len()..(index + 1) * to.len();
                        T::floats(from).copy(self.level, own, to);
                    };
                    match past {
                        Some(past) => copy(past, at, &mut line[..before]),
                        None => line[..before].fill(0.0),
                    }
                    copy(input, at, &mut line[before..]);
                    copy(weight, channel, weights);
                    self.level.run(LineConv {
                        line,
                        weights,
                        bias: bias.map_or(0.0, |bias| T::floats(bias).get(channel)),
                        swish: self.swish,
                        to: result,
                    });
                    T::floats_mut(to).write(self.level, 0..length, result);
                }
            },
        );
        Ok(())
    }
}

impl UnpreparedWorkload for CausalConv {
    fn workload_plan(&self) -> WorkloadPlan {
        plan_of(self.slot())
    }
}

impl Workload for CausalConv {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        match self.float {
            FloatType::F32 => self.execute_as::<f32>(operands),
            FloatType::F16 => self.execute_as::<half::f16>(operands),
            FloatType::Bf16 => self.execute_as::<half::bf16>(operands),
        }
    }
}

/// The plan of a workload with `slot` elements of scratch memory for each slot.
fn plan_of(slot: usize) -> WorkloadPlan {
    WorkloadPlan {
        scratch_bytes: slot.saturating_mul(SLOTS * size_of::<f32>()),
        ..WorkloadPlan::default()
    }
}

/// The convolution of a line.
struct LineConv<'a> {
    line: &'a [f32],
    weights: &'a [f32],
    bias: f32,
    swish: bool,
    to: &'a mut [f32],
}

impl VectorOp for LineConv<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        for (block, to) in self.to.chunks_mut(S::LANES).enumerate() {
            let mut sum = s.splat(self.bias);
            let line = &self.line[block * S::LANES..];
            for (position, &weight) in self.weights.iter().enumerate() {
                let elements = s.load_part(&line[position..][..to.len()]);
                sum = s.fma(s.splat(weight), elements, sum);
            }
            s.store_part(sum, to);
        }
        if self.swish {
            map_in_place(s, UnaryFunction::Swish { alpha: 1.0 }, self.to);
        }
    }
}

/// A linear attention.
struct LinearAttention {
    level: Level,
    float: FloatType,
    /// The type of the state.
    state: FloatType,
    batch: usize,
    steps: usize,
    /// Heads of queries.
    heads: usize,
    /// Heads of keys and values.
    groups: usize,
    /// Elements of a query and of a key.
    features: usize,
    /// Elements of a value.
    width: usize,
    scale: f32,
    past: bool,
    /// Decays of a step and a head of keys: one for each feature, or one.
    decays: Option<usize>,
    /// Rates of a step: one for each head of keys, or one.
    rates: Option<usize>,
    /// Whether the value is reduced by its current estimate.
    delta: bool,
}

/// The kernel of LinearAttention.
pub(super) fn linear_attention(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let float = FloatType::of_input(signature.input(0)?.dtype(), 0)?;
    let unfitting = || refuse("the shapes do not fit");
    let heads = |name| -> Result<usize, Refusal> {
        let count = usize::try_from(signature.int(name, 0)?).unwrap_or(0);
        (count > 0).then_some(count).ok_or_else(unfitting)
    };
    let (heads, groups) = (heads("q_num_heads")?, heads("kv_num_heads")?);
    let (&[batch, steps, query], &[_, _, value]) = (
        &signature.input(0)?.shape()[..],
        &signature.input(2)?.shape()[..],
    ) else {
        return Err(unfitting());
    };
    let (features, width) = (query / heads, value / groups);
    let state = match signature.optional(3) {
        Some(ty) => FloatType::of_input(ty.dtype(), 3)?,
        None => float,
    };
    let is = |found: Option<&tenon_tensor::Shape>, last: usize| {
        found.is_none_or(|found| found[..] == [batch, steps, last])
    };
    let is_state = |found: Option<&tenon_tensor::Shape>| {
        found.is_none_or(|found| found[..] == [batch, groups, features, width])
    };
    let rule = signature.string("update_rule", "gated_delta")?;
    let last = |input: usize| -> Result<Option<usize>, Refusal> {
        let shape = signature.float_input(input, float)?;
        Ok(shape.and_then(|shape| shape.last().copied()))
    };
    let decays = if rule.starts_with("gated") {
        last(4)?
    } else {
        None
    };
    let rates = if rule.ends_with("delta") {
        last(5)?
    } else {
        None
    };
    let fits = heads.is_multiple_of(groups)
        && is(signature.float_input(0, float)?, heads * features)
        && is(signature.float_input(1, float)?, groups * features)
        && is(signature.float_input(2, float)?, groups * width)
        && is_state(signature.float_input(3, state)?)
        && is_state(signature.float_output(1, state)?)
        && is(signature.float_output(0, float)?, heads * width)
        && decays.is_none_or(|count| count == groups || count == groups * features)
        && rates.is_none_or(|count| count == groups || count == 1)
        && decays.is_none_or(|count| is(signature.float_input(4, float).ok().flatten(), count))
        && rates.is_none_or(|count| is(signature.float_input(5, float).ok().flatten(), count));
    if !fits || !matches!(rule, "linear" | "gated" | "delta" | "gated_delta") {
        return Err(unfitting());
    }
    Ok(Box::new(LinearAttention {
        level: signature.level,
        float,
        state,
        batch,
        steps,
        heads,
        groups,
        features,
        width,
        scale: match signature.float("scale", 0.0)? {
            0.0 => (1.0 / (features as f64).sqrt()) as f32,
            scale => scale,
        },
        past: signature.optional(3).is_some(),
        // Where both widths are equal, there is one decay for each feature.
        decays: decays.map(|count| count / groups),
        rates,
        delta: rule.ends_with("delta"),
    }))
}

impl LinearAttention {
    /// The parts of a head's scratch memory: the state of a block of columns, a key, a query, the decays,
    /// a value and the sums of a block.
    fn sizes(&self) -> [usize; 5] {
        let features = self.features;
        let shared = self.heads / self.groups;
        [
            features.saturating_mul(COLUMNS),
            features,
            shared.saturating_mul(features),
            features,
            (2 + shared).saturating_mul(COLUMNS),
        ]
    }

    fn slot(&self) -> usize {
        self.sizes().into_iter().fold(0, usize::saturating_add)
    }

    fn execute_as<T: FloatElement, S: FloatElement>(
        &self,
        operands: &mut Operands<'_>,
    ) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let given = |is_given: bool, input: usize| -> Result<Option<Floats<'_>>> {
            let elements = is_given.then(|| inputs.slice::<T>(input)).transpose()?;
            Ok(elements.map(T::floats))
        };
        let past = self.past.then(|| inputs.slice::<S>(3)).transpose()?;
        let run = LinearAttentionRun {
            attention: self,
            query: T::floats(inputs.slice(0)?),
            key: T::floats(inputs.slice(1)?),
            value: T::floats(inputs.slice(2)?),
            decay: given(self.decays.is_some(), 4)?,
            rate: given(self.rates.is_some(), 5)?,
        };
        let (features, width) = (self.features, self.width);
        let to = outputs.slice::<T>(0)?;
        let present = outputs.optional::<S>(1)?.unwrap_or_default();
        let slot = self.slot();
        let scratch = super::scratch(&mut outputs, slot * SLOTS)?;
        let shared = self.heads / self.groups;
        let blocks = Blocks {
            stacks: self.batch,
            rows: self.steps,
            blocks: self.groups,
            width: shared * width,
        };
        let operations = 2 * self.batch * self.steps * self.heads * features * width;
        for_each_unit(
            (to, blocks, self.steps),
            (present, features * width),
            (scratch, slot, SLOTS),
            operations >= PARALLEL_OPERATIONS,
            |head, mut to, present, scratch| {
                let own = head * features * width..(head + 1) * features * width;
                let past = past.map(|past| S::floats(&past[own]));
                let mut store = |[step, query, column]: [usize; 3], from: &[f32]| {
                    let to = &mut to.row_mut(step)[query * width + column..][..from.len()];
                    T::floats_mut(to).write(self.level, 0..from.len(), from);
                };
                run.head(head, past, &mut store, S::floats_mut(present), scratch);
            },
        );
        Ok(())
    }
}

impl UnpreparedWorkload for LinearAttention {
    fn workload_plan(&self) -> WorkloadPlan {
        plan_of(self.slot())
    }
}

impl Workload for LinearAttention {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        use FloatType::{Bf16, F16, F32};
        use half::{bf16, f16};
        match (self.float, self.state) {
            (F32, F32) => self.execute_as::<f32, f32>(operands),
            (F32, F16) => self.execute_as::<f32, f16>(operands),
            (F32, Bf16) => self.execute_as::<f32, bf16>(operands),
            (F16, F32) => self.execute_as::<f16, f32>(operands),
            (F16, F16) => self.execute_as::<f16, f16>(operands),
            (F16, Bf16) => self.execute_as::<f16, bf16>(operands),
            (Bf16, F32) => self.execute_as::<bf16, f32>(operands),
            (Bf16, F16) => self.execute_as::<bf16, f16>(operands),
            (Bf16, Bf16) => self.execute_as::<bf16, bf16>(operands),
        }
    }
}

/// One execution.
struct LinearAttentionRun<'a> {
    attention: &'a LinearAttention,
    query: Floats<'a>,
    key: Floats<'a>,
    value: Floats<'a>,
    decay: Option<Floats<'a>>,
    rate: Option<Floats<'a>>,
}

impl LinearAttentionRun<'_> {
    /// All steps of one head of keys. `store` writes columns of the output of a step and a head of queries,
    /// counted among those that share the keys.
    fn head(
        &self,
        head: usize,
        past: Option<Floats<'_>>,
        store: &mut dyn FnMut([usize; 3], &[f32]),
        mut present: FloatsMut<'_>,
        scratch: &mut [f32],
    ) {
        let attention = self.attention;
        let LinearAttention {
            level,
            steps,
            heads,
            groups,
            features,
            width,
            ..
        } = *attention;
        let (batch, group) = (head / groups, head % groups);
        let shared = heads / groups;
        let mut rest = scratch;
        let [state, key, query, decay, columns] = attention
            .sizes()
            .map(|size| rest.split_off_mut(..size).unwrap_or_default());
        let (value, columns) = columns.split_at_mut(COLUMNS);
        let (update, sums) = columns.split_at_mut(COLUMNS);
        for first in (0..width).step_by(COLUMNS) {
            let count = COLUMNS.min(width - first);
            state.fill(0.0);
            if let Some(past) = past {
                for (feature, row) in state.chunks_exact_mut(COLUMNS).enumerate() {
                    let at = feature * width + first;
                    past.copy(level, at..at + count, &mut row[..count]);
                }
            }
            value.fill(0.0);
            for step in 0..steps {
                stop::checkpoint();
                let row = batch * steps + step;
                let at = (row * groups + group) * features;
                self.key.copy(level, at..at + features, key);
                let at = (row * heads + group * shared) * features;
                self.query.copy(level, at..at + shared * features, query);
                let at = (row * groups + group) * width + first;
                self.value.copy(level, at..at + count, &mut value[..count]);
                if let (Some(from), Some(each)) = (self.decay, attention.decays) {
                    let at = (row * groups + group) * each;
                    if each == features {
                        from.copy(level, at..at + each, decay);
                    } else {
                        decay.fill(from.get(at));
                    }
                    level.run(Exponentials(decay));
                }
                let rate = match (self.rate, attention.rates) {
                    (Some(rate), Some(each)) => rate.get(row * each + group % each),
                    _ => 1.0,
                };
                level.run(LinearStep {
                    state,
                    key,
                    query,
                    decay: self.decay.map(|_| &*decay),
                    value,
                    rate,
                    delta: attention.delta,
                    scale: attention.scale,
                    update,
                    sums,
                });
                for (query, sums) in sums.chunks_exact(COLUMNS).enumerate() {
                    store([step, query, first], &sums[..count]);
                }
            }
            if present.len() > 0 {
                for (feature, row) in state.chunks_exact(COLUMNS).enumerate() {
                    let at = feature * width + first;
                    present.write(level, at..at + count, &row[..count]);
                }
            }
        }
    }
}

/// Replaces elements by their exponentials.
struct Exponentials<'a>(&'a mut [f32]);

impl VectorOp for Exponentials<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        map_in_place(s, UnaryFunction::Exp, self.0);
    }
}

/// One step of a linear attention, for [`COLUMNS`] columns of the state.
struct LinearStep<'a> {
    /// `[features, COLUMNS]`
    state: &'a mut [f32],
    key: &'a [f32],
    /// The queries that share the key.
    query: &'a [f32],
    decay: Option<&'a [f32]>,
    value: &'a [f32],
    rate: f32,
    delta: bool,
    scale: f32,
    /// The update of the state's rows, before the factor of the key.
    update: &'a mut [f32],
    /// The outputs, one row for each query.
    sums: &'a mut [f32],
}

impl VectorOp for LinearStep<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let features = self.key.len();
        for first in (0..COLUMNS).step_by(4 * S::LANES) {
            let vectors = |v: usize| first + v * S::LANES..first + (v + 1) * S::LANES;
            let mut sums = [s.splat(0.0); 4];
            if self.decay.is_some() || self.delta {
                for (feature, row) in self.state.chunks_exact_mut(COLUMNS).enumerate() {
                    let factor = s.splat(self.decay.map_or(1.0, |decay| decay[feature]));
                    let key = s.splat(self.key[feature]);
                    for (v, sum) in sums.iter_mut().enumerate() {
                        let element = s.mul(s.load(&row[vectors(v)]), factor);
                        s.store(element, &mut row[vectors(v)]);
                        *sum = s.fma(key, element, *sum);
                    }
                }
            }
            for (v, sum) in sums.into_iter().enumerate() {
                let value = s.load(&self.value[vectors(v)]);
                let error = if self.delta { s.sub(value, sum) } else { value };
                s.store(
                    s.mul(s.splat(self.rate), error),
                    &mut self.update[vectors(v)],
                );
            }
            for (nth, query) in self.query.chunks_exact(features).enumerate() {
                let mut sums = [s.splat(0.0); 4];
                for (feature, row) in self.state.chunks_exact_mut(COLUMNS).enumerate() {
                    let (key, query) = (s.splat(self.key[feature]), s.splat(query[feature]));
                    for (v, sum) in sums.iter_mut().enumerate() {
                        let mut element = s.load(&row[vectors(v)]);
                        if nth == 0 {
                            let update = s.load(&self.update[vectors(v)]);
                            element = s.fma(key, update, element);
                            s.store(element, &mut row[vectors(v)]);
                        }
                        *sum = s.fma(query, element, *sum);
                    }
                }
                let to = &mut self.sums[nth * COLUMNS..][..COLUMNS];
                for (v, sum) in sums.into_iter().enumerate() {
                    s.store(s.mul(sum, s.splat(self.scale)), &mut to[vectors(v)]);
                }
            }
        }
    }
}
