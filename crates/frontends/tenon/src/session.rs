//! Sessions: models with state.

use crate::{Model, Outputs, RunOptions, Signature};
use std::sync::Arc;
use tenon_base::Result;
use tenon_tensor::Tensor;

pub use tenon_runtime::StatePair;

/// A model whose states are kept between executions: key-value caches of decoders, states of recurrent layers.
///
/// A state is a pair of an output and an input, such as `present` and `past`. Its value is the output of the last
/// successful execution, without a copy. Before the first execution it is zero, and empty along the dimension in
/// which it grows. A failed execution changes nothing.
///
/// States that the package declares ([`Compiler::states`](crate::Compiler::states)) grow in place if the model appends
/// to them: an execution writes only their new elements.
///
/// ```no_run
/// use tenon::{Model, Tensor};
///
/// let model = Model::load("decoder.neff")?;
/// let mut session = model.session()?;
/// let prompt = Tensor::from_slice([1, 3], &[464i64, 3290, 318])?;
/// let logits = session.run(&[("input_ids", &prompt)])?;
/// let mut other = session.fork(); // continues with the same past, by itself
/// let token = Tensor::from_slice([1, 1], &[257i64])?;
/// other.run(&[("input_ids", &token)])?;
/// # Ok::<(), tenon::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Session {
    session: tenon_runtime::Session,
    output_names: Arc<[String]>,
}

impl Model {
    /// A session with the states of [`Self::state_pairs`]; without any, each execution is like
    /// [`Self::run`].
    ///
    /// # Errors
    /// None at the moment.
    pub fn session(&self) -> Result<Session> {
        self.session_with(&self.state_pairs())
    }

    /// A session with these states. `*` in a pair matches the same text in both names:
    /// `"present.*=past_key_values.*".parse()`.
    ///
    /// # Errors
    /// Names that the model does not have or that are used twice, and pairs of different types; all together.
    pub fn session_with(&self, states: &[StatePair]) -> Result<Session> {
        let session = self.model.session(states)?;
        let names = session.outputs().iter().map(|output| output.name.clone());
        Ok(Session {
            output_names: names.collect(),
            session,
        })
    }

    /// The states that the package declares. If it declares none, pairs of an output and an input that are probably a
    /// state, by name, type and shape: `present.X` and `past.X`, `new_X` and `X`, `hn` and `h0`.
    pub fn state_pairs(&self) -> Vec<StatePair> {
        self.model.state_pairs()
    }
}

impl Session {
    /// The inputs that are not states.
    pub fn inputs(&self) -> &[Signature] {
        self.session.inputs()
    }

    /// The outputs that are not states.
    pub fn outputs(&self) -> &[Signature] {
        self.session.outputs()
    }

    /// The states.
    pub fn states(&self) -> Vec<StatePair> {
        self.session.states()
    }

    /// Executes on tensors by name: all inputs that are not states. A tensor for the input of a state replaces its
    /// value. Returns the outputs that are not states.
    ///
    /// # Errors
    /// As [`Model::run`]; a state whose first size is unknown. After an error the session is as before.
    pub fn run(&mut self, inputs: &[(&str, &Tensor)]) -> Result<Outputs> {
        self.run_with(inputs, RunOptions::default())
    }

    /// Executes with options.
    ///
    /// # Errors
    /// As [`Self::run`]; a passed deadline or cancellation.
    pub fn run_with(
        &mut self,
        inputs: &[(&str, &Tensor)],
        options: RunOptions<'_>,
    ) -> Result<Outputs> {
        let tensors = options.with_runtime(|options| self.session.run_with(inputs, options))?;
        Ok(Outputs::new(self.output_names.clone(), tensors))
    }

    /// A session that continues from here by itself, for beam search. The values are shared, not copied.
    #[must_use]
    pub fn fork(&self) -> Self {
        self.clone()
    }

    /// Forgets all values: the next execution is a first one.
    pub fn reset(&mut self) {
        self.session.reset();
    }

    /// The value of a state by the name of its output or input, in the layout of the package; `None` before the first
    /// execution. It shares the memory of the state: while it lives, the next execution copies the state.
    ///
    /// # Errors
    /// A name of no state.
    pub fn value(&self, name: &str) -> Result<Option<Tensor>> {
        self.session.value(name)
    }

    /// Sets the value of a state by the name of its output or input.
    ///
    /// # Errors
    /// A name of no state, a tensor of another type.
    pub fn set_value(&mut self, name: &str, value: Tensor) -> Result<()> {
        self.session.set_value(name, value)
    }

    /// The number of steps in the states that grow: 0 before the first execution, `None` if no state grows or
    /// their extents differ.
    pub fn steps(&self) -> Option<usize> {
        self.session.steps()
    }

    /// Goes back to the first `steps` steps of the states that grow, as if the later ones had not been executed:
    /// for speculative decoding. On an error nothing has changed.
    ///
    /// # Errors
    /// More steps than there are; states that do not grow (keep a fork to go back to).
    pub fn truncate(&mut self, steps: usize) -> Result<()> {
        self.session.truncate(steps)
    }
}
