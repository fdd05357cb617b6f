//! A loaded model with its queue and the states of its sequences.

use crate::executor::Executor;
use crate::port::Port;
use crate::queue::{BatchOptions, BatchQueue, Execution};
use crate::reshape::{PortSettings, Reshape};
use crate::sequences::{SequencePosition, Sequences};
use crate::settings::Settings;
use crate::statistics::Statistics;
use crate::status::{Refusal, Status};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use tenon::{Control, Dimension, Error, Result, Signature, Tensor};

/// What an execution has beside its inputs.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// 1 is served first; 0 is the default priority.
    pub priority: u64,
    /// When the caller has no more use for the answer.
    pub deadline: Option<Instant>,
    /// The place in a sequence.
    pub sequence: Option<SequencePosition>,
}

/// A model that executes.
pub struct LoadedModel {
    executor: Arc<Executor>,
    queue: BatchQueue,
    max_rows: usize,
    sequences: Option<Sequences>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    /// For each input, and each output, the shape that it has for callers.
    reshapes: [Vec<Option<Reshape>>; 2],
}

impl LoadedModel {
    /// A model with its queue.
    ///
    /// # Errors
    /// Inputs or outputs that the protocol lacks; settings that do not fit the model; a thread that cannot be started.
    pub fn new(
        executor: Executor,
        options: &BatchOptions,
        settings: &Settings,
        statistics: Arc<Statistics>,
    ) -> Result<Self> {
        let ports = |signatures: &[Signature], problems: &mut Vec<Error>| {
            let mut ports = Vec::new();
            for signature in signatures {
                match Port::of(signature) {
                    Ok(port) => ports.push(port),
                    Err(error) => problems.push(error),
                }
            }
            ports
        };
        let mut problems = Vec::new();
        let executor = Arc::new(executor);
        let interface = executor.interface();
        let inputs = ports(&interface.inputs, &mut problems);
        let outputs = ports(&interface.outputs, &mut problems);
        let sequences = settings.sequence.as_ref();
        let sequences = sequences.map(|settings| Sequences::new(interface, settings));
        let sequences = match sequences {
            Some(Err(error)) => {
                problems.push(error);
                None
            }
            Some(Ok(sequences)) => Some(sequences),
            None => None,
        };
        Error::from_all(std::mem::take(&mut problems)).map_or(Ok(()), Err)?;
        let visible = |ports: Vec<Port>, is_hidden: &dyn Fn(&Sequences, usize) -> bool| {
            let ports = ports.into_iter().enumerate();
            let visible = ports.filter(|(at, _)| {
                let sequences = sequences.as_ref();
                !sequences.is_some_and(|sequences| is_hidden(sequences, *at))
            });
            visible.map(|(_, port)| port).collect::<Vec<Port>>()
        };
        let mut inputs = visible(inputs, &Sequences::has_input);
        let mut outputs = visible(outputs, &Sequences::has_output);
        let has_batch = settings.max_batch_size.is_some_and(|rows| rows > 0);
        let mut reshape = |ports: &mut [Port], settings: &BTreeMap<String, PortSettings>| {
            reshapes(ports, settings, has_batch, &mut problems)
        };
        let reshapes = [
            reshape(&mut inputs, &settings.inputs),
            reshape(&mut outputs, &settings.outputs),
        ];
        problems.extend(settings.batch_problems(inputs.iter().chain(&outputs)));
        Error::from_all(problems).map_or(Ok(()), Err)?;
        let queue = BatchQueue::new(executor.clone(), options.clone(), statistics);
        let queue = queue.map_err(|error| Error::io("a thread", "start", error))?;
        let joined_rows = match queue.is_joining() {
            true => options.max_rows,
            false => 0,
        };
        let max_rows = settings.max_batch_size.unwrap_or(joined_rows);
        Ok(Self {
            executor,
            queue,
            max_rows,
            sequences,
            inputs,
            outputs,
            reshapes,
        })
    }

    /// What executes it.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Its queue.
    pub fn queue(&self) -> &BatchQueue {
        &self.queue
    }

    /// The sequences, of a model that has them.
    pub fn sequences(&self) -> Option<&Sequences> {
        self.sequences.as_ref()
    }

    /// The greatest batch of the configuration: of Triton's settings, or the most rows that are joined; 0 for none.
    pub fn max_rows(&self) -> usize {
        self.max_rows
    }

    /// The inputs that requests have.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// The outputs that answers have.
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// Executes once on zeros, so that the first request finds the memory allocated. A model that fails on zeros
    /// may serve other inputs.
    pub fn warm_up(&self, control: &Control) {
        let smallest = |signature: &Signature| {
            let extents = signature.shape.iter().map(|dimension| match dimension {
                Dimension::Fixed(size) => *size,
                Dimension::Symbolic { min, .. } => usize::try_from((*min).max(1)).unwrap_or(1),
            });
            let ty = tenon::TensorType::new(signature.ty.dtype(), extents.collect::<Vec<_>>())?;
            Tensor::zeroed(ty)
        };
        let inputs = self.executor.interface().inputs.iter().map(smallest);
        let Ok(inputs) = inputs.collect::<Result<Vec<Tensor>>>() else {
            return;
        };
        let _ = self.executor.run(&[&inputs], control);
    }

    /// Executes a request; its inputs are in the order of [`Self::inputs`], and so are the outputs. Dropping the future
    /// cancels it.
    ///
    /// # Errors
    /// A full queue; a sequence where the model has none, or none where it has; what the execution fails with.
    pub async fn execute(
        &self,
        inputs: Vec<Tensor>,
        call: &Call,
    ) -> std::result::Result<Execution, Refusal> {
        let [of_inputs, of_outputs] = &self.reshapes;
        let inputs = reshaped(inputs, of_inputs, Reshape::for_model)?;
        let mut execution = self.execute_in_turn(inputs, call).await?;
        execution.outputs = reshaped(execution.outputs, of_outputs, Reshape::for_caller)?;
        Ok(execution)
    }

    async fn execute_in_turn(
        &self,
        inputs: Vec<Tensor>,
        call: &Call,
    ) -> std::result::Result<Execution, Refusal> {
        let (sequences, position) = match (&self.sequences, &call.sequence) {
            (None, None) => return self.run(inputs, call).await,
            (Some(sequences), Some(position)) => (sequences, position),
            (None, Some(_)) => {
                let text = "the model keeps no states for sequences (sequence_id): send the state as an \
                            input, or describe it in the settings of the model";
                return Err(Refusal::new(Status::Unsupported, text));
            }
            (Some(_), None) => {
                let text = "the model keeps a state for each sequence: the parameter sequence_id is missing";
                return Err(Refusal::invalid(text));
            }
        };
        let turn = sequences.enter(position).await?;
        let inputs = sequences.inputs(self.executor.interface(), inputs, &turn, position)?;
        let mut execution = self.run(inputs, call).await?;
        sequences.leave(turn, &execution.outputs, position)?;
        let outputs = execution.outputs.into_iter().enumerate();
        let visible = outputs.filter(|(at, _)| !sequences.has_output(*at));
        execution.outputs = visible.map(|(_, output)| output).collect();
        Ok(execution)
    }

    async fn run(
        &self,
        inputs: Vec<Tensor>,
        call: &Call,
    ) -> std::result::Result<Execution, Refusal> {
        let control = match call.deadline {
            Some(deadline) => Control::with_deadline(deadline),
            None => Control::new(),
        };
        self.queue
            .push(inputs, call.priority, control)?
            .finished()
            .await
    }
}

/// Gives ports the shapes that callers see. Settings of other ports are without effect, as are their names.
fn reshapes(
    ports: &mut [Port],
    settings: &BTreeMap<String, PortSettings>,
    has_batch: bool,
    problems: &mut Vec<Error>,
) -> Vec<Option<Reshape>> {
    let reshapes = ports.iter_mut().map(|port| {
        let reshape = settings.get(&port.name)?.apply(port, has_batch);
        reshape.unwrap_or_else(|error| {
            problems.push(error);
            None
        })
    });
    reshapes.collect()
}

fn reshaped(
    tensors: Vec<Tensor>,
    reshapes: &[Option<Reshape>],
    to: impl Fn(&Reshape, &Tensor) -> std::result::Result<Tensor, Refusal>,
) -> std::result::Result<Vec<Tensor>, Refusal> {
    let pairs = tensors.into_iter().zip(reshapes);
    let reshaped = pairs.map(|(tensor, reshape)| match reshape {
        None => Ok(tensor),
        Some(reshape) => to(reshape, &tensor),
    });
    reshaped.collect()
}
