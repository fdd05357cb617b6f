//! What executes a model: this process, or a worker process.

use crate::worker::Worker;
use std::collections::BTreeMap;
use tenon::{Control, DataType, Dimension, Model, Result, RunOptions, Signature, Tensor};

/// A model that executes, in this process or in another one.
pub struct Executor {
    interface: Interface,
    location: Location,
}

enum Location {
    Here(Model),
    Worker(Box<Worker>),
}

/// What a model needs and makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The inputs.
    pub inputs: Vec<Signature>,
    /// The outputs.
    pub outputs: Vec<Signature>,
    /// The dimension along which requests are joined. The parts of a batch with strings are executed one after the other.
    pub batch: Option<String>,
    /// What the model says about itself, as the labels of classes.
    pub metadata: BTreeMap<String, String>,
}

impl Interface {
    /// The interface of a model.
    pub fn of(model: &Model) -> Self {
        Self {
            inputs: model.inputs().to_vec(),
            outputs: model.outputs().to_vec(),
            batch: (model.batch_dimension().map(str::to_owned))
                .or_else(|| batch_of_strings(model.inputs(), model.outputs())),
            metadata: model.metadata().clone(),
        }
    }
}

impl Executor {
    /// A model in a worker process, which has this interface.
    pub fn of_worker(worker: Worker, interface: Interface) -> Self {
        Self {
            interface,
            location: Location::Worker(Box::new(worker)),
        }
    }

    /// What the model needs and makes.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Whether executions run in this process.
    pub fn is_here(&self) -> bool {
        matches!(self.location, Location::Here(_))
    }

    /// How often its worker process was started again.
    pub fn restarts(&self) -> u64 {
        match &self.location {
            Location::Here(_) => 0,
            Location::Worker(worker) => worker.restarts(),
        }
    }

    /// The outputs of some runs, which are joined; their inputs are in the order of the model.
    ///
    /// # Errors
    /// What the execution fails with; the end of the worker process.
    pub fn run(&self, runs: &[&[Tensor]], control: &Control) -> Result<Vec<Vec<Tensor>>> {
        match &self.location {
            Location::Here(model) => run(model, runs, control),
            Location::Worker(worker) => worker.run(runs, control),
        }
    }
}

impl From<Model> for Executor {
    fn from(model: Model) -> Self {
        Self {
            interface: Interface::of(&model),
            location: Location::Here(model),
        }
    }
}

/// The outputs of some runs of a model in this process, as [`Executor::run`].
///
/// # Errors
/// What the execution fails with.
pub fn run(model: &Model, runs: &[&[Tensor]], control: &Control) -> Result<Vec<Vec<Tensor>>> {
    if let [inputs] = runs {
        let options = RunOptions::new().control(control.clone());
        let outputs = model.run_with(&named(model, inputs), options)?;
        return Ok(vec![outputs.into_tensors()]);
    }
    let runs = runs.iter().map(|inputs| named(model, inputs));
    let runs: Vec<Vec<(&str, &Tensor)>> = runs.collect();
    let runs: Vec<&[(&str, &Tensor)]> = runs.iter().map(Vec::as_slice).collect();
    let outputs = model.run_batch_with(&runs, control)?;
    Ok(outputs.into_iter().map(|run| run.into_tensors()).collect())
}

/// The batch of a model with strings, which the runtime does not join: the symbol that is the first extent of all outputs
/// and of some inputs, and that no other extent has.
fn batch_of_strings(inputs: &[Signature], outputs: &[Signature]) -> Option<String> {
    let first = |port: &Signature| match port.shape.first()? {
        Dimension::Symbolic { expression, .. } => Some(expression.to_string()),
        Dimension::Fixed(_) => None,
    };
    let symbol = first(outputs.first()?)?;
    let is_in_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let mentions = |dimension: &Dimension| match dimension {
        Dimension::Symbolic { expression, .. } => {
            let mut words = expression.split(|c: char| !is_in_name(c));
            words.any(|word| word == symbol)
        }
        Dimension::Fixed(_) => false,
    };
    let is_batch = |port: &Signature| first(port).as_ref() == Some(&symbol);
    let mut ports = inputs.iter().chain(outputs);
    let has_strings = ports.any(|port| port.ty.dtype() == DataType::String);
    let mut ports = inputs.iter().chain(outputs);
    let fits = symbol.chars().all(is_in_name)
        && outputs.iter().all(is_batch)
        && inputs.iter().any(is_batch)
        && ports.all(|port| {
            let skipped = usize::from(is_batch(port));
            port.kind.is_tensor() && !port.shape.iter().skip(skipped).any(mentions)
        });
    (has_strings && fits).then_some(symbol)
}

fn named<'a>(model: &'a Model, inputs: &'a [Tensor]) -> Vec<(&'a str, &'a Tensor)> {
    let names = model.inputs().iter().map(|input| &*input.name);
    names.zip(inputs).collect()
}
