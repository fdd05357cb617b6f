//! LinearAttention (Katharopoulos et al., "Transformers are RNNs", 2020; the delta rule: Yang et al.,
//! "Parallelizing Linear Transformers with the Delta Rule", 2024).
//!
//! The columns of the state, one for each element of a value, do not depend on each other: a block of
//! columns stays in the first-level cache over all steps.

use super::{PARALLEL_OPERATIONS, SLOTS, plan_of};
use crate::floats::{FloatElement, FloatType, Floats, FloatsMut};
use crate::ops::element_types::of_float;
use crate::ops::{Kernel, UnpreparedWorkload, scratch, split_scratch, total_len};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::{Blocks, for_each_unit};
use crate::simd::math::{UnaryFunction, map_in_place};
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, stop};

/// Columns of a block of the state.
const COLUMNS: usize = 64;

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
pub(in crate::ops) fn linear_attention(
    signature: &Signature<'_>,
) -> Result<Box<dyn Kernel>, Refusal> {
    let float = FloatType::of_input(signature.input(0)?.dtype(), 0)?;
    let heads = |name| -> Result<usize, Refusal> {
        let count = signature.int(name, 0)?;
        let count = usize::try_from(count).ok().filter(|&count| count > 0);
        count.ok_or_else(|| refuse(format!("'{name}' is not positive")))
    };
    let (heads, groups) = (heads("q_num_heads")?, heads("kv_num_heads")?);
    let (&[batch, steps, query], &[_, _, value]) = (
        &signature.input(0)?.shape()[..],
        &signature.input(2)?.shape()[..],
    ) else {
        return Err(refuse(
            "no kernel for operands of other than three dimensions",
        ));
    };
    let state = match signature.optional(3) {
        Some(ty) => FloatType::of_input(ty.dtype(), 3)?,
        None => float,
    };
    let rule = signature.string("update_rule", "gated_delta")?;
    let last = |is_used: bool, input: usize| {
        let shape = signature.optional(input).filter(|_| is_used)?.shape();
        shape.last().copied()
    };
    let decays = last(rule.starts_with("gated"), 4);
    let rates = last(rule.ends_with("delta"), 5);
    let (features, width) = (query / heads, value / groups);
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
        total_len(self.sizes())
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
        let scratch = scratch(&mut outputs, slot.saturating_mul(SLOTS))?;
        let shared = self.heads / self.groups;
        let blocks = Blocks {
            stacks: self.batch,
            rows: self.steps,
            blocks: self.groups,
            width: shared * width,
        };
        let operations =
            (2 * self.batch * self.steps * self.heads * features).saturating_mul(width);
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
        of_float!(self.float, T => of_float!(self.state, S => self.execute_as::<T, S>(operands)))
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
        let [state, key, query, decay, columns] = split_scratch(scratch, attention.sizes());
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
