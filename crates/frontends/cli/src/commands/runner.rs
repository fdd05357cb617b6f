//! Repeated executions of a model on the same inputs, for `tenon bench` and `tenon profile`.

use std::collections::BTreeMap;
use tenon::{Bindings, ErrorKind, Model, Result, RunOptions, Tensor};

/// A model with its inputs, bound where the sizes of the outputs are known.
pub struct Runner<'a> {
    model: &'a Model,
    inputs: Vec<(&'a str, &'a Tensor)>,
    bindings: Option<Bindings>,
}

impl<'a> Runner<'a> {
    /// The model on these inputs.
    pub fn new(model: &'a Model, tensors: &'a BTreeMap<String, Tensor>) -> Result<Self> {
        let inputs = tensors.iter();
        let inputs: Vec<_> = inputs
            .map(|(name, tensor)| (name.as_str(), tensor))
            .collect();
        let bindings = match model.bind() {
            Ok(mut bindings) => {
                for (name, tensor) in &inputs {
                    bindings.set_input(name, tensor)?;
                }
                Some(bindings)
            }
            // Sizes depend on data: each run allocates its outputs.
            Err(error) if error.kind() == ErrorKind::Unsupported => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            model,
            inputs,
            bindings,
        })
    }

    /// Executes once; the outputs are dropped.
    pub fn run(&mut self, options: RunOptions<'_>) -> Result<()> {
        match &mut self.bindings {
            Some(bindings) => bindings.run(options),
            None => self.model.run_with(&self.inputs, options).map(drop),
        }
    }
}
