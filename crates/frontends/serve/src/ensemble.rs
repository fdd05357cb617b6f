//! Ensembles: models that pass tensors to each other, which are not copied.

use crate::first::begun;
use crate::loaded_model::Call;
use crate::port::Port;
use crate::queue::Execution;
use crate::served_model::ServedModel;
use crate::settings::{EnsembleSettings, StepSettings};
use crate::status::{Refusal, Status};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenon::{Error, ErrorKind, Location, Tensor};
use tokio::task::JoinSet;

/// The models of an ensemble, and how tensors pass between them.
pub struct Ensemble {
    steps: Vec<Step>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    /// The tensor of each output.
    answered: Vec<usize>,
    /// The model of each output, and its name there.
    sources: Vec<(Arc<ServedModel>, String)>,
    tensors: usize,
}

/// One model. Tensors of the ensemble have positions, from 0 on those of its inputs.
struct Step {
    model: Arc<ServedModel>,
    /// The tensor of each input, in the order of the model.
    inputs: Vec<usize>,
    /// Positions among the outputs of the model, and tensors.
    outputs: Vec<(usize, usize)>,
}

/// The tensors of an ensemble while it is built.
#[derive(Default)]
struct Tensors {
    positions: HashMap<String, usize>,
    /// The output that is each tensor, and its step.
    produced: HashMap<String, (usize, Port)>,
}

impl Ensemble {
    /// The ensemble of settings. `find` has the models.
    ///
    /// # Errors
    /// Steps whose models are not served, are ensembles, or lack an input or output; tensors of several steps or of
    /// none; types that do not fit; steps that wait for each other. All of them.
    pub fn new(
        settings: &EnsembleSettings,
        find: impl Fn(&str, Option<u64>) -> Result<Arc<ServedModel>, Refusal>,
    ) -> tenon::Result<Self> {
        let mut problems = Vec::new();
        let mut models = Vec::new();
        for (at, step) in settings.steps.iter().enumerate() {
            match find(&step.model, step.version) {
                Ok(model) if model.is_ensemble() => {
                    let text = format!("'{}' is an ensemble: expected a model", step.model);
                    problems.push(problem(at, text));
                }
                Ok(model) => models.push(model),
                Err(refusal) => problems.push(problem(at, refusal.text)),
            }
        }
        if settings.steps.is_empty() {
            problems.push(Error::new(ErrorKind::BadInput, "an ensemble has no steps"));
        }
        Error::from_all(std::mem::take(&mut problems)).map_or(Ok(()), Err)?;
        let mut tensors = Tensors::default();
        for (at, (step, model)) in settings.steps.iter().zip(&models).enumerate() {
            problems.extend(tensors.produce(at, step, model));
        }
        let inputs = tensors.consume(&settings.steps, &models, &mut problems);
        let order = tensors.order(&settings.steps, &mut problems);
        let mut outputs = Vec::new();
        let mut sources = Vec::new();
        for name in &settings.outputs {
            match tensors.produced.get(name) {
                Some((step, port)) => {
                    sources.push((models[*step].clone(), port.name.clone()));
                    outputs.push(Port {
                        name: name.clone(),
                        ..port.clone()
                    });
                }
                None => {
                    let text = format!("no step has the output '{name}'");
                    let place = Location::field("ensemble.outputs");
                    problems.push(Error::new(ErrorKind::BadInput, text).at(place));
                }
            }
        }
        Error::from_all(problems).map_or(Ok(()), Err)?;
        for port in &inputs {
            tensors.position(&port.name);
        }
        let steps = order.into_iter().map(|at| {
            let (step, model) = (&settings.steps[at], &models[at]);
            let inputs = model.inputs().iter();
            let inputs = inputs.map(|port| tensors.position(&step.inputs[&port.name]));
            let inputs = inputs.collect();
            let outputs = model.outputs().iter().enumerate();
            let outputs = outputs.filter_map(|(position, port)| {
                let name = step.outputs.get(&port.name)?;
                Some((position, tensors.position(name)))
            });
            Step {
                outputs: outputs.collect(),
                inputs,
                model: model.clone(),
            }
        });
        let steps = steps.collect();
        let answered = settings.outputs.iter().map(|name| tensors.position(name));
        Ok(Self {
            steps,
            answered: answered.collect(),
            sources,
            inputs,
            outputs,
            tensors: tensors.positions.len(),
        })
    }

    /// Its inputs: the tensors that no step makes.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// Its outputs.
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// The model that makes an output, and the name of the output there.
    pub fn source(&self, output: usize) -> Option<(&ServedModel, &str)> {
        let (model, name) = self.sources.get(output)?;
        Some((model, name))
    }

    /// Whether its models are those of another ensemble of the same settings.
    pub fn has_models_of(&self, other: &Self) -> bool {
        let mut steps = self.steps.iter().zip(&other.steps);
        steps.all(|(one, other)| Arc::ptr_eq(&one.model, &other.model))
    }

    /// Executes the steps, those that do not wait for each other at the same time. Dropping the future cancels all.
    ///
    /// # Errors
    /// What a step fails with.
    pub async fn execute(&self, inputs: Vec<Tensor>, call: &Call) -> Result<Execution, Refusal> {
        let start = Instant::now();
        let mut tensors: Vec<Option<Tensor>> = inputs.into_iter().map(Some).collect();
        tensors.resize(self.tensors, None);
        let mut waiting: Vec<usize> = (0..self.steps.len()).collect();
        let mut running = JoinSet::new();
        let mut queue = Duration::ZERO;
        while !(waiting.is_empty() && running.is_empty()) {
            let is_ready = |&step: &usize| {
                let mut inputs = self.steps[step].inputs.iter();
                inputs.all(|&tensor| tensors[tensor].is_some())
            };
            let (ready, later): (Vec<usize>, Vec<usize>) = waiting.into_iter().partition(is_ready);
            waiting = later;
            for step in ready {
                let inputs = self.steps[step].inputs.iter();
                let inputs: Vec<Tensor> = inputs.filter_map(|&it| tensors[it].clone()).collect();
                let (model, call) = (self.steps[step].model.clone(), call.clone());
                // In the order of the requests: a step may continue a sequence.
                let work = async move { (step, model.execute_step(inputs, &call).await) };
                running.spawn(begun(work).await);
            }
            let Some(finished) = running.join_next().await else {
                break;
            };
            let panicked = |_| Refusal::new(Status::Internal, "the execution panicked");
            let (step, execution) = finished.map_err(panicked)?;
            let step = &self.steps[step];
            let execution = execution.map_err(|error| error.at(step.model.name()))?;
            queue += execution.queue;
            for &(position, tensor) in &step.outputs {
                tensors[tensor] = Some(execution.outputs[position].clone());
            }
        }
        let outputs = self.answered.iter().map(|&tensor| {
            let missing = || Refusal::new(Status::Internal, "an output is missing");
            tensors[tensor].clone().ok_or_else(missing)
        });
        Ok(Execution {
            outputs: outputs.collect::<Result<_, _>>()?,
            queue,
            compute: start.elapsed().saturating_sub(queue),
        })
    }
}

impl Tensors {
    fn position(&mut self, name: &str) -> usize {
        let next = self.positions.len();
        *self.positions.entry(name.to_owned()).or_insert(next)
    }

    /// Takes the outputs of a step.
    fn produce(&mut self, at: usize, step: &StepSettings, model: &ServedModel) -> Vec<Error> {
        let mut problems = Vec::new();
        for (output, tensor) in &step.outputs {
            let port = model.outputs().iter().find(|port| port.name == *output);
            let Some(port) = port else {
                let text = format!("'{}' has no output '{output}'", step.model);
                problems.push(problem(at, text));
                continue;
            };
            let before = self.produced.insert(tensor.clone(), (at, port.clone()));
            if before.is_some() {
                let text = format!("the tensor '{tensor}' is an output of two steps");
                problems.push(problem(at, text));
            }
        }
        problems
    }

    /// Checks the inputs of all steps; returns those of the ensemble in the order of the steps.
    fn consume(
        &self,
        steps: &[StepSettings],
        models: &[Arc<ServedModel>],
        problems: &mut Vec<Error>,
    ) -> Vec<Port> {
        let mut inputs: Vec<Port> = Vec::new();
        for (at, (step, model)) in steps.iter().zip(models).enumerate() {
            for name in step.inputs.keys() {
                if !model.inputs().iter().any(|port| port.name == *name) {
                    let text = format!("'{}' has no input '{name}'", step.model);
                    problems.push(problem(at, text));
                }
            }
            for port in model.inputs() {
                let Some(tensor) = step.inputs.get(&port.name) else {
                    let text = format!(
                        "the input '{}' of '{}' has no tensor",
                        port.name, step.model
                    );
                    problems.push(problem(at, text));
                    continue;
                };
                let known = self.produced.get(tensor).map(|(_, port)| port);
                let known = known.or_else(|| inputs.iter().find(|input| input.name == *tensor));
                match known {
                    Some(known) if !port.accepts(known) => {
                        let text = format!(
                            "the tensor '{tensor}' is {} {:?}, the input '{}' of '{}' is {} {:?}",
                            known.datatype,
                            known.shape,
                            port.name,
                            step.model,
                            port.datatype,
                            port.shape
                        );
                        problems.push(problem(at, text));
                    }
                    Some(_) => {}
                    None => inputs.push(Port {
                        name: tensor.clone(),
                        ..port.clone()
                    }),
                }
            }
        }
        inputs
    }

    /// The steps in an order in which each is behind those that it waits for.
    fn order(&self, steps: &[StepSettings], problems: &mut Vec<Error>) -> Vec<usize> {
        let mut order = Vec::new();
        let mut waiting: Vec<usize> = (0..steps.len()).collect();
        loop {
            let is_ready = |&step: &usize| {
                let mut inputs = steps[step].inputs.values();
                inputs.all(|tensor| match self.produced.get(tensor) {
                    Some((from, _)) => order.contains(from),
                    None => true,
                })
            };
            let (ready, later): (Vec<usize>, Vec<usize>) = waiting.into_iter().partition(is_ready);
            if ready.is_empty() {
                for &step in &later {
                    let text = format!("'{}' waits for its own output", steps[step].model);
                    problems.push(problem(step, text));
                }
                return order;
            }
            order.extend(ready);
            waiting = later;
        }
    }
}

fn problem(step: usize, text: String) -> Error {
    let place = Location::field(format!("ensemble.step[{step}]"));
    Error::new(ErrorKind::BadInput, text).at(place)
}
