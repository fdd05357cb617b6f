//! Executions of sessions whose states grow in place: the cache of a decoder is not copied.

use super::Session;
use super::value::StateValue;
use crate::{Dimension, ExecuteOptions, Model, Signature, inputs};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{BufferMut, Tensor, TensorType};

/// The memory of a state during an execution: the value before it, and space for the new elements.
struct GrowingState {
    /// Its position.
    state: usize,
    /// The type before the execution.
    before: TensorType,
    memory: BufferMut,
    /// The value that the session keeps after an error, if it is not this one.
    held: Option<Option<StateValue>>,
}

impl Session {
    /// Executes with the states of `growing` in place. `states` has the values of the states that `given` lacks, with
    /// their positions.
    pub(super) fn run_growing(
        &mut self,
        given: &[(&str, &Tensor)],
        states: Vec<(usize, Tensor)>,
        options: ExecuteOptions<'_>,
    ) -> Result<Vec<Tensor>> {
        let model = self.model.clone();
        let signatures = model.inputs();
        let mut all = given.to_vec();
        for (state, value) in &states {
            all.push((&signatures[self.states[*state].input].name, value));
        }
        let ordered = inputs::in_order(signatures, &all)?;
        let types: Vec<&TensorType> = ordered.iter().map(|tensor| tensor.ty()).collect();
        let instance = model.appending_for_types(&types, &self.growing)?;
        let is_other = |position| self.growing.iter().all(|port| port.input != position);
        let others = (0..ordered.len()).filter(|&position| is_other(position));
        let others: Vec<Tensor> = others.map(|at| ordered[at].clone()).collect();
        // Values that the session does not hold.
        let mut new = Vec::with_capacity(self.growing.len());
        for port in self.growing.iter() {
            let mut all = self.states.iter();
            let state = all.position(|state| state.input == port.input);
            let state = state.ok_or_else(no_state)?;
            let name = &signatures[port.input].name;
            let is_given = given.iter().any(|(given, _)| given == name);
            let is_new = is_given || self.values[state].is_none();
            new.push((state, is_new.then(|| StateValue::of(ordered[port.input]))));
        }
        // They share the memory of the states.
        drop(states);
        for (state, new) in &mut new {
            let output = self.states[*state].output;
            let bytes = instance.outputs()[output].ty.bytes();
            let limit = largest_bytes(&model.outputs()[output]);
            let value = new.as_mut().or(self.values[*state].as_mut());
            value.ok_or_else(no_state)?.reserve(bytes, limit)?;
        }
        let mut growing = Vec::with_capacity(new.len());
        for (state, new) in new {
            let held = self.values[state].take();
            let (value, held) = match new {
                Some(new) => (Some(new), Some(held)),
                None => (held, None),
            };
            let value = value.ok_or_else(no_state)?;
            let before = value.ty().clone();
            growing.push(GrowingState {
                state,
                before,
                memory: value.into_memory().ok_or_else(no_state)?,
                held,
            });
        }
        let done = self.execute_growing(&instance, &others, &mut growing, options);
        for GrowingState {
            state,
            before,
            memory,
            held,
        } in growing
        {
            let after = &instance.outputs()[self.states[state].output].ty;
            self.values[state] = match (&done, held) {
                (Ok(_), _) => Some(StateValue::in_buffer(after.clone(), memory.freeze())),
                (Err(_), Some(held)) => held,
                (Err(_), None) => Some(StateValue::in_buffer(before, memory.freeze())),
            };
        }
        let mut outputs = Vec::new();
        for (at, output) in done? {
            match self.states.iter().position(|state| state.output == at) {
                Some(state) => self.values[state] = Some(StateValue::of(&output)),
                None => outputs.push(output),
            }
        }
        Ok(outputs)
    }

    /// Executes an instance; returns the outputs that are not in the memory of `growing`, with their positions.
    fn execute_growing(
        &self,
        instance: &Model,
        inputs: &[Tensor],
        growing: &mut [GrowingState],
        options: ExecuteOptions<'_>,
    ) -> Result<Vec<(usize, Tensor)>> {
        let is_growing = |at: usize| self.growing.iter().any(|port| port.output == at);
        let signatures = instance.outputs();
        let mut others = Vec::new();
        for at in (0..signatures.len()).filter(|&at| !is_growing(at)) {
            others.push((at, instance.output_buffer(at)?));
        }
        // Both lists are in the order of the outputs.
        let (mut grown, mut other) = (growing.iter_mut(), others.iter_mut());
        let outputs = signatures.iter().enumerate().filter_map(|(at, signature)| {
            let memory = match is_growing(at) {
                true => &mut grown.next()?.memory,
                false => &mut other.next()?.1,
            };
            memory.get_mut(..signature.ty.bytes())
        });
        instance.execute_on(inputs.iter().map(Tensor::bytes), outputs, options)?;
        let others = others.into_iter().map(|(at, buffer)| {
            let ty = signatures[at].ty.clone();
            Ok((at, Tensor::new(ty, buffer.freeze())?))
        });
        others.collect()
    }
}

/// The bytes of an output with the largest sizes.
fn largest_bytes(output: &Signature) -> usize {
    let extent = |dimension: &Dimension| match dimension {
        Dimension::Fixed(size) => *size,
        Dimension::Symbolic { max, .. } => usize::try_from(*max).unwrap_or(usize::MAX),
    };
    let extents = output.shape.iter().map(extent);
    let elements = extents.fold(1, usize::saturating_mul);
    output.ty.dtype().bytes(elements).unwrap_or(usize::MAX)
}

fn no_state() -> Error {
    let text = "an output extends an input that is no state";
    Error::new(ErrorKind::Internal, text)
}
