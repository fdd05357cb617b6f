//! Sessions: a model with state, outputs of one execution that are inputs of the next.

mod growing;
mod initial;
mod value;

use crate::model::Nodes;
use crate::symbolic::AppendedPort;
use crate::{ExecuteOptions, Model, Signature, StatePair, inputs};
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{find_state_pairs, resolve_state_pairs};
use tenon_neff::StateInfo;
use tenon_tensor::{BufferMut, Tensor, TensorType};
use value::StateValue;

/// A model whose states are kept between executions: key-value caches, states of recurrent layers.
///
/// The value of a state is the output of the last successful execution, without a copy. Before the first
/// execution it is zero, and empty along the dimension in which it grows. A failed execution changes nothing.
/// [`Session::fork`] shares the values.
///
/// States that a package declares grow in place where its program appends to them: only new elements are written,
/// into memory that doubles when it is full.
#[derive(Debug, Clone)]
pub struct Session {
    model: Model,
    states: Arc<[State]>,
    /// Of each state; `None` before the first execution.
    values: Vec<Option<StateValue>>,
    /// The states that grow in place, in the order of their outputs.
    growing: Arc<[AppendedPort]>,
    /// Inputs and outputs that are not states.
    ports: Arc<[Vec<Signature>; 2]>,
}

/// Positions of an output and of the input that it feeds.
#[derive(Debug)]
struct State {
    output: usize,
    input: usize,
    /// The dimension in which each execution extends it.
    grows_along: Option<usize>,
}

impl Model {
    /// The states that the package declares. If it declares none, pairs of outputs and inputs that are probably the
    /// same state, by name, type and shape: `present.X` and `past.X`, `new_X` and `X`, `hn` and `h0`.
    pub fn state_pairs(&self) -> Vec<StatePair> {
        let declared = match &self.0.nodes {
            Nodes::One(core) => &core.member().states[..],
            Nodes::Symbolic(core) => &core.member().states,
            Nodes::Several(_) | Nodes::Padded(_) | Nodes::Host(..) => &[],
        };
        if declared.is_empty() {
            return find_state_pairs(self.inputs(), self.outputs());
        }
        let pair = |state: &StateInfo| StatePair {
            output: state.output.clone(),
            input: state.input.clone(),
        };
        declared.iter().map(pair).collect()
    }

    /// The instance for inputs of these types, all of them in order, whose outputs of `appended` extend their inputs.
    fn appending_for_types(
        &self,
        types: &[&TensorType],
        appended: &[AppendedPort],
    ) -> Result<Model> {
        match &self.0.nodes {
            Nodes::Symbolic(core) => core.appending_model_for(&self.0.context, types, appended),
            _ => self.for_types(types),
        }
    }

    /// A session with these states. `*` in a pair matches the same text in both names.
    ///
    /// # Errors
    /// Names that the model does not have or that are used twice, and pairs of different types; all together.
    pub fn session(&self, pairs: &[StatePair]) -> Result<Session> {
        let found = resolve_state_pairs(pairs, self.inputs(), self.outputs())?;
        let [inputs, outputs] = [self.inputs(), self.outputs()];
        let states: Vec<State> = found
            .into_iter()
            .map(|(output, input)| State {
                grows_along: grows_along(&inputs[input], &outputs[output]),
                output,
                input,
            })
            .collect();
        let without = |signatures: &[Signature], is_state: &dyn Fn(usize) -> bool| {
            let kept = signatures.iter().enumerate();
            let kept = kept.filter(|(position, _)| !is_state(*position));
            kept.map(|(_, signature)| signature.clone()).collect()
        };
        let ports = [
            without(inputs, &|at| states.iter().any(|state| state.input == at)),
            without(outputs, &|at| states.iter().any(|state| state.output == at)),
        ];
        let appended = match &self.0.nodes {
            Nodes::Symbolic(core) => core.appended(),
            _ => &[],
        };
        let is_state = |port: &&AppendedPort| {
            let is_port = |state: &State| (state.input, state.output) == (port.input, port.output);
            states.iter().any(is_port)
        };
        Ok(Session {
            model: self.clone(),
            values: vec![None; states.len()],
            growing: appended.iter().filter(is_state).copied().collect(),
            states: states.into(),
            ports: ports.into(),
        })
    }
}

/// The one dimension whose extent differs between input and output.
fn grows_along(input: &Signature, output: &Signature) -> Option<usize> {
    let pairs = input.shape.iter().zip(&output.shape);
    let mut differing = pairs.enumerate().filter(|(_, (a, b))| a != b);
    let (axis, _) = differing.next()?;
    differing.next().is_none().then_some(axis)
}

impl Session {
    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The inputs that are not states.
    pub fn inputs(&self) -> &[Signature] {
        &self.ports[0]
    }

    /// The outputs that are not states.
    pub fn outputs(&self) -> &[Signature] {
        &self.ports[1]
    }

    /// The states, as names of an output and an input.
    pub fn states(&self) -> Vec<StatePair> {
        let pair = |state: &State| StatePair {
            output: self.model.outputs()[state.output].name.clone(),
            input: self.model.inputs()[state.input].name.clone(),
        };
        self.states.iter().map(pair).collect()
    }

    /// Executes on tensors by name: all inputs that are not states. A tensor for the input of a state replaces its
    /// value. Returns the outputs that are not states, in order.
    ///
    /// # Errors
    /// As [`Model::run`]; a state whose first size is unknown. After an error the session is as before.
    pub fn run(&mut self, inputs: &[(&str, &Tensor)]) -> Result<Vec<Tensor>> {
        self.run_with(inputs, ExecuteOptions::default())
    }

    /// The same with options.
    pub fn run_with(
        &mut self,
        inputs: &[(&str, &Tensor)],
        options: ExecuteOptions<'_>,
    ) -> Result<Vec<Tensor>> {
        let given = |name: &str| inputs.iter().any(|(given, _)| *given == name);
        let mut first = Vec::new();
        for (state, value) in self.states.iter().zip(&self.values) {
            if value.is_none() && !given(&self.model.inputs()[state.input].name) {
                first.push(state.input);
            }
        }
        let first = match first.is_empty() {
            true => Vec::new(),
            false => self.model.initial_values(&first, inputs)?,
        };
        let mut first = first.into_iter();
        let mut held = Vec::with_capacity(self.states.len());
        for (position, (state, value)) in self.states.iter().zip(&self.values).enumerate() {
            if given(&self.model.inputs()[state.input].name) {
                continue;
            }
            let tensor = match value {
                Some(value) => Some(value.tensor()?),
                None => first.next(),
            };
            held.extend(tensor.map(|tensor| (position, tensor)));
        }
        if !self.growing.is_empty() {
            return self.run_growing(inputs, held, options);
        }
        let mut all = inputs.to_vec();
        for (position, tensor) in &held {
            let input = self.states[*position].input;
            all.push((self.model.inputs()[input].name.as_str(), tensor));
        }
        let outputs = self.model.run_with(&all, options)?;
        for (state, value) in self.states.iter().zip(&mut self.values) {
            *value = outputs.get(state.output).map(StateValue::of);
        }
        let is_state = |at| self.states.iter().any(|state| state.output == at);
        let outputs = outputs.into_iter().enumerate();
        Ok(outputs
            .filter_map(|(at, output)| (!is_state(at)).then_some(output))
            .collect())
    }

    /// A session that continues from here by itself. The values are shared, not copied.
    pub fn fork(&self) -> Session {
        self.clone()
    }

    /// Forgets all values: the next execution is a first one.
    pub fn reset(&mut self) {
        self.values.fill(None);
    }

    /// The value of the state of this input or output; `None` before the first execution. It shares the memory of the
    /// state: while it lives, the next execution copies the state.
    ///
    /// # Errors
    /// A name of no state.
    pub fn value(&self, name: &str) -> Result<Option<Tensor>> {
        let value = self.values[self.position(name)?].as_ref();
        value.map(StateValue::tensor).transpose()
    }

    /// Sets the value of the state of this input or output.
    ///
    /// # Errors
    /// A name of no state, a tensor of another type.
    pub fn set_value(&mut self, name: &str, value: Tensor) -> Result<()> {
        let position = self.position(name)?;
        inputs::check(&self.model.inputs()[self.states[position].input], &value)?;
        self.values[position] = Some(StateValue::of(&value));
        Ok(())
    }

    fn position(&self, name: &str) -> Result<usize> {
        let [inputs, outputs] = [self.model.inputs(), self.model.outputs()];
        let named = |state: &State| {
            [&inputs[state.input].name, &outputs[state.output].name].contains(&&name.to_owned())
        };
        self.states.iter().position(named).ok_or_else(|| {
            let states: Vec<String> = self.states().iter().map(StatePair::to_string).collect();
            let text = format!("the session has no state '{name}'");
            Error::new(ErrorKind::InvalidArgument, text).expected(states.join(", "))
        })
    }

    /// The number of steps in the states that grow: 0 before the first execution, `None` if no state grows or
    /// their extents differ.
    pub fn steps(&self) -> Option<usize> {
        let mut steps = None;
        for (state, value) in self.states.iter().zip(&self.values) {
            let Some(axis) = state.grows_along else {
                continue;
            };
            let extent = value.as_ref().map_or(0, |value| value.ty().shape()[axis]);
            if *steps.get_or_insert(extent) != extent {
                return None;
            }
        }
        steps
    }

    /// Goes back to the first `steps` steps of the states that grow, as if the later ones had not been executed:
    /// for speculative decoding.
    ///
    /// # Errors
    /// More steps than there are; states that do not grow, and have no earlier value (keep a fork of the session
    /// instead); memory.
    pub fn truncate(&mut self, steps: usize) -> Result<()> {
        let mut shorter = Vec::with_capacity(self.values.len());
        for (state, value) in self.states.iter().zip(&self.values) {
            let name = &self.model.inputs()[state.input].name;
            let error = |text: String| Error::new(ErrorKind::InvalidArgument, text);
            let Some(axis) = state.grows_along else {
                let text = format!("state '{name}' does not grow, so that it has no earlier value");
                return Err(error(text).help("keep a fork of the session to go back to"));
            };
            let extent = value.as_ref().map_or(0, |value| value.ty().shape()[axis]);
            if steps > extent {
                let text = format!("state '{name}' has fewer steps");
                return Err(error(text)
                    .expected(format!("at most {extent}"))
                    .found(steps));
            }
            shorter.push(match value {
                Some(value) if steps < extent => Some(match value.first_steps(axis, steps)? {
                    Some(shorter) => shorter,
                    None => StateValue::of(&first_steps(&value.tensor()?, axis, steps)?),
                }),
                value => value.clone(),
            });
        }
        self.values = shorter;
        Ok(())
    }
}

/// The first elements along a dimension.
fn first_steps(tensor: &Tensor, axis: usize, steps: usize) -> Result<Tensor> {
    let mut shape = tensor.shape().to_vec();
    let old = shape[axis];
    shape[axis] = steps;
    let ty = TensorType::new(tensor.dtype(), shape)?;
    let rows: usize = tensor.shape()[..axis].iter().product();
    let mut buffer = BufferMut::zeroed(ty.bytes())?;
    if ty.bytes() > 0 {
        let (row, kept) = (tensor.bytes().len() / rows, ty.bytes() / rows);
        debug_assert_eq!(row / old * steps, kept);
        let from = tensor.bytes().chunks_exact(row);
        for (to, from) in buffer.chunks_exact_mut(kept).zip(from) {
            to.copy_from_slice(&from[..kept]);
        }
    }
    Tensor::new(ty, buffer.freeze())
}
