//! What executes a model: this process, or a worker process.

use crate::worker::Worker;
use std::collections::BTreeMap;
use tenon::{Control, Model, Result, RunOptions, Signature, Tensor};

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
    /// The dimension along which requests are joined.
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
            batch: model.batch_dimension().map(str::to_owned),
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

fn named<'a>(model: &'a Model, inputs: &'a [Tensor]) -> Vec<(&'a str, &'a Tensor)> {
    let names = model.inputs().iter().map(|input| &*input.name);
    names.zip(inputs).collect()
}
