//! Sequences: requests of one correlation id, of which each finds the state that the one before has left.

use crate::executor::Interface;
use crate::settings::{SequenceSettings, StateSettings};
use crate::status::{Refusal, Status};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tenon::tensor::convert;
use tenon::{DataType, Dimension, Error, ErrorKind, Location, Signature, Tensor, TensorType};
use tokio::sync::OwnedMutexGuard;

/// The place of a request in a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequencePosition {
    /// The sequence.
    pub id: SequenceId,
    /// Whether it is the first request.
    pub is_first: bool,
    /// Whether it is the last one.
    pub is_last: bool,
}

/// A correlation id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SequenceId {
    /// A number above 0.
    Number(u64),
    /// A text that is not empty.
    Text(String),
}

/// The sequences of a model.
pub struct Sequences {
    limits: Limits,
    states: Vec<State>,
    start: Option<usize>,
    end: Option<usize>,
    ready: Option<usize>,
    id: Option<usize>,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Limits {
    idle: Duration,
    count: usize,
    bytes: usize,
}

/// Positions among the inputs and the outputs of the model.
#[derive(Debug)]
struct State {
    input: usize,
    output: usize,
}

#[derive(Debug, Default)]
struct Table {
    sequences: HashMap<SequenceId, Entry>,
    /// The bytes of all states.
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    states: Arc<StateCell>,
    bytes: usize,
    used: Instant,
}

/// The states after the last request that succeeded; `None` before the first one did. Its lock gives requests their
/// turns in the order of their arrival.
type StateCell = tokio::sync::Mutex<Option<Vec<Tensor>>>;

/// A request whose turn it is.
pub struct Turn {
    states: OwnedMutexGuard<Option<Vec<Tensor>>>,
    cell: Arc<StateCell>,
}

/// Defaults of the settings.
const IDLE: Duration = Duration::from_secs(60);
const COUNT: usize = 1024;
const BYTES: usize = 1 << 30;

impl Sequences {
    /// No sequences yet of a model.
    ///
    /// # Errors
    /// States or controls that the model lacks, or that are named twice; states of different types.
    pub fn new(model: &Interface, settings: &SequenceSettings) -> tenon::Result<Self> {
        let mut problems = Vec::new();
        let mut taken = Vec::new();
        let mut input = |field: &str, name: &str, problems: &mut Vec<Error>| {
            let found = position(&model.inputs, name, "input", field, problems);
            if let Some(found) = found {
                if taken.contains(&found) {
                    let text = format!("the input '{name}' has two meanings");
                    problems.push(problem(field, text));
                }
                taken.push(found);
            }
            found
        };
        let mut states = Vec::new();
        for StateSettings {
            input: from,
            output: to,
        } in &settings.states
        {
            let field = "sequence.state";
            let from = input(field, from, &mut problems);
            let to = position(&model.outputs, to, "output", field, &mut problems);
            let (Some(from), Some(to)) = (from, to) else {
                continue;
            };
            let (before, after) = (&model.inputs[from], &model.outputs[to]);
            if before.ty.dtype() != after.ty.dtype() || before.shape.len() != after.shape.len() {
                let text = format!(
                    "the state '{}' is {before}, its next value '{}' is {after}",
                    before.name, after.name
                );
                problems.push(problem(field, text));
            }
            states.push(State {
                input: from,
                output: to,
            });
        }
        let mut control = |field: &str, name: &Option<String>, takes_text: bool| {
            let name = name.as_deref()?;
            let found = input(field, name, &mut problems)?;
            let signature = &model.inputs[found];
            let batch = model.batch.as_deref();
            let is_text = signature.ty.dtype() == DataType::String;
            let mut extents = signature.shape.iter();
            if (is_text && !takes_text)
                || !extents.all(|it| is_batch(Some(it), batch) || *it == Dimension::Fixed(1))
            {
                let text =
                    format!("the input '{name}' is {signature}: expected one number for each row");
                problems.push(problem(field, text));
            }
            Some(found)
        };
        let start = control("sequence.start_input", &settings.start_input, false);
        let end = control("sequence.end_input", &settings.end_input, false);
        let ready = control("sequence.ready_input", &settings.ready_input, false);
        let id = control("sequence.id_input", &settings.id_input, true);
        Error::from_all(problems).map_or(Ok(()), Err)?;
        Ok(Self {
            limits: Limits {
                idle: settings.idle.unwrap_or(IDLE),
                count: settings.max.unwrap_or(COUNT),
                bytes: settings.max_bytes.unwrap_or(BYTES),
            },
            states,
            start,
            end,
            ready,
            id,
            table: Mutex::default(),
        })
    }

    /// Whether an input is a state or a control, which requests do not have.
    pub fn has_input(&self, input: usize) -> bool {
        let mut states = self.states.iter();
        states.any(|state| state.input == input)
            || [self.start, self.end, self.ready, self.id].contains(&Some(input))
    }

    /// Whether an output is a state.
    pub fn has_output(&self, output: usize) -> bool {
        self.states.iter().any(|state| state.output == output)
    }

    /// Waits until the requests of the sequence that arrived earlier are answered.
    ///
    /// # Errors
    /// An unknown sequence; too many of them.
    pub async fn enter(&self, position: &SequencePosition) -> Result<Turn, Refusal> {
        let now = Instant::now();
        let cell = {
            let mut table = self.lock();
            match position.is_first {
                true => self.begin(&mut table, &position.id, now)?,
                false => {
                    let entry = table.sequences.get_mut(&position.id);
                    let entry = entry.filter(|entry| entry.is_alive(now, self.limits.idle));
                    let entry = entry.ok_or_else(|| self.unknown(&position.id))?;
                    entry.used = now;
                    entry.states.clone()
                }
            }
        };
        let states = cell.clone().lock_owned().await;
        if !position.is_first && states.is_none() {
            let text = format!(
                "sequence {} has ended, or its first request failed: start it again (sequence_start)",
                position.id
            );
            return Err(Refusal::invalid(text));
        }
        Ok(Turn { states, cell })
    }

    fn begin(
        &self,
        table: &mut Table,
        id: &SequenceId,
        now: Instant,
    ) -> Result<Arc<StateCell>, Refusal> {
        table.remove(id);
        if table.sequences.len() >= self.limits.count {
            table.expire(now, self.limits.idle);
        }
        if table.sequences.len() >= self.limits.count {
            let text = format!(
                "{} sequences of the model have not ended (sequence.max): start it again later",
                self.limits.count
            );
            return Err(Refusal::new(Status::QueueFull, text));
        }
        let states = Arc::<StateCell>::default();
        let entry = Entry {
            states: states.clone(),
            bytes: 0,
            used: now,
        };
        table.sequences.insert(id.clone(), entry);
        Ok(states)
    }

    /// All inputs of the model: those of the request, which are in the order of the model, the states and the controls.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn inputs(
        &self,
        model: &Interface,
        given: Vec<Tensor>,
        turn: &Turn,
        position: &SequencePosition,
    ) -> Result<Vec<Tensor>, Refusal> {
        let rows = self.rows(model, &given);
        let mut given = given.into_iter();
        let batch = model.batch.as_deref();
        let inputs = model.inputs.iter().enumerate().map(|(at, signature)| {
            let value = |value: u64| filled(signature, batch, rows, value);
            let is_text = signature.ty.dtype() == DataType::String;
            if let Some(state) = self.states.iter().position(|state| state.input == at) {
                return match turn.states.as_ref().filter(|_| !position.is_first) {
                    Some(states) => Ok(states[state].clone()),
                    None => value(0),
                };
            }
            if self.start == Some(at) {
                return value(position.is_first.into());
            }
            if self.end == Some(at) {
                return value(position.is_last.into());
            }
            if self.ready == Some(at) {
                return value(1);
            }
            if self.id == Some(at) {
                return match &position.id {
                    SequenceId::Number(number) if is_text => {
                        texts(signature, batch, rows, &number.to_string())
                    }
                    SequenceId::Number(number) => value(*number),
                    SequenceId::Text(text) if is_text => texts(signature, batch, rows, text),
                    SequenceId::Text(text) => match text.parse() {
                        Ok(number) => value(number),
                        Err(_) => Err(Refusal::invalid(format!(
                            "sequence_id: expected a number, or its digits (sequence.id_input), found {text:?}"
                        ))),
                    },
                };
            }
            let missing = || Refusal::new(Status::Internal, "an input is missing");
            given.next().ok_or_else(missing)
        });
        inputs.collect()
    }

    /// The size of the batch, which states have too.
    fn rows(&self, model: &Interface, given: &[Tensor]) -> usize {
        let batch = model.batch.as_deref();
        let visible = model.inputs.iter().enumerate();
        let mut visible = visible.filter(|(at, _)| !self.has_input(*at)).zip(given);
        let first = visible.find(|((_, signature), _)| is_batch(signature.shape.first(), batch));
        first.map_or(1, |(_, tensor)| {
            tensor.shape().first().copied().unwrap_or(1)
        })
    }

    /// Keeps the states for the next request, or ends the sequence.
    ///
    /// # Errors
    /// States that take more than the limit: the sequence ends.
    pub fn leave(
        &self,
        mut turn: Turn,
        outputs: &[Tensor],
        position: &SequencePosition,
    ) -> Result<(), Refusal> {
        let states = self
            .states
            .iter()
            .map(|state| outputs[state.output].clone());
        let states: Vec<Tensor> = states.collect();
        let bytes: usize = states.iter().map(|state| state.bytes().len()).sum();
        let mut table = self.lock();
        let own = table.sequences.get(&position.id);
        // Another request may have started a sequence of the same id; those that wait behind this one continue the old one.
        let own = own.filter(|entry| Arc::ptr_eq(&entry.states, &turn.cell));
        let before = own.map(|entry| entry.bytes);
        if position.is_last {
            if before.is_some() {
                table.remove(&position.id);
            }
            // Requests that wait behind the last one have no state to continue from.
            *turn.states = None;
            return Ok(());
        }
        if let Some(before) = before {
            if table.bytes - before + bytes > self.limits.bytes {
                table.expire(Instant::now(), self.limits.idle);
            }
            if table.bytes - before + bytes > self.limits.bytes {
                table.remove(&position.id);
                *turn.states = None;
                let text = format!(
                    "the states of all sequences take more than {} bytes (sequence.max_bytes): the sequence has ended",
                    self.limits.bytes
                );
                return Err(Refusal::new(Status::TooLarge, text));
            }
            table.bytes = table.bytes - before + bytes;
            if let Some(entry) = table.sequences.get_mut(&position.id) {
                entry.bytes = bytes;
                entry.used = Instant::now();
            }
        }
        *turn.states = Some(states);
        Ok(())
    }

    /// Forgets sequences without requests.
    pub fn expire(&self) {
        self.lock().expire(Instant::now(), self.limits.idle);
    }

    /// The sequences that have not ended.
    pub fn count(&self) -> usize {
        self.lock().sequences.len()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self, id: &SequenceId) -> Refusal {
        let text = format!(
            "there is no sequence {id}: it ended, had no request for {} s, or the model was replaced; its first \
             request has sequence_start",
            self.limits.idle.as_secs_f64()
        );
        Refusal::invalid(text)
    }
}

impl Table {
    fn remove(&mut self, id: &SequenceId) {
        if let Some(entry) = self.sequences.remove(id) {
            self.bytes -= entry.bytes;
        }
    }

    fn expire(&mut self, now: Instant, idle: Duration) {
        let bytes = &mut self.bytes;
        self.sequences.retain(|_, entry| {
            let is_alive = entry.is_alive(now, idle);
            if !is_alive {
                *bytes -= entry.bytes;
            }
            is_alive
        });
    }
}

impl Entry {
    /// Whether it has a request, or had one lately.
    fn is_alive(&self, now: Instant, idle: Duration) -> bool {
        Arc::strong_count(&self.states) > 1 || now.saturating_duration_since(self.used) <= idle
    }
}

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

fn position(
    ports: &[Signature],
    name: &str,
    kind: &str,
    field: &str,
    problems: &mut Vec<Error>,
) -> Option<usize> {
    let found = ports.iter().position(|port| port.name == name);
    if found.is_none() {
        let text = format!("the model has no {kind} '{name}'");
        problems.push(problem(field, text));
    }
    found
}

fn problem(field: &str, text: String) -> Error {
    Error::new(ErrorKind::BadInput, text).at(Location::field(field))
}

fn is_batch(dimension: Option<&Dimension>, batch: Option<&str>) -> bool {
    match dimension {
        Some(Dimension::Symbolic { expression, .. }) => Some(&**expression) == batch,
        _ => false,
    }
}

/// The type of an input whose symbolic extents are the batch, or the smallest.
fn type_of(signature: &Signature, batch: Option<&str>, rows: usize) -> tenon::Result<TensorType> {
    let extents = signature.shape.iter().map(|dimension| match dimension {
        Dimension::Fixed(size) => *size,
        it if is_batch(Some(it), batch) => rows,
        Dimension::Symbolic { min, .. } => usize::try_from(*min).unwrap_or(usize::MAX),
    });
    TensorType::new(signature.ty.dtype(), extents.collect::<Vec<_>>())
}

/// A tensor of one value.
fn filled(
    signature: &Signature,
    batch: Option<&str>,
    rows: usize,
    value: u64,
) -> Result<Tensor, Refusal> {
    let ty = type_of(signature, batch, rows)?;
    if value == 0 {
        return Ok(Tensor::zeroed(ty)?);
    }
    let values = vec![value; ty.elements()];
    let tensor = Tensor::from_slice(ty.shape().clone(), &values)?;
    Ok(convert(&tensor, ty.dtype())?)
}

/// A tensor of one text.
fn texts(
    signature: &Signature,
    batch: Option<&str>,
    rows: usize,
    text: &str,
) -> Result<Tensor, Refusal> {
    let ty = type_of(signature, batch, rows)?;
    let texts = vec![text; ty.elements()];
    Ok(Tensor::from_strings(ty.shape().clone(), &texts)?)
}
