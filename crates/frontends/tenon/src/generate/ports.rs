//! The roles of a decoder's inputs and outputs, by their names.

use crate::{Dimension, Session, Signature};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{DataType, Tensor, convert};

/// The inputs of a decoder, and its output of logits.
pub(super) struct DecoderPorts {
    pub tokens: String,
    pub logits: String,
    derived: Vec<DerivedInput>,
}

/// An input whose value follows from the tokens.
struct DerivedInput {
    name: String,
    dtype: DataType,
    rank: usize,
    role: Role,
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// The positions of the new tokens.
    Positions,
    /// Ones for all tokens so far.
    Mask,
    /// Whether there is a past.
    HasPast,
}

/// Name, element type and rank of an input, as far as they are declared.
type Declared<'a> = (&'a str, Option<DataType>, Option<usize>);

fn role((name, dtype, rank): Declared<'_>) -> Option<Role> {
    let name = name.to_lowercase();
    if name.contains("position") && dtype.is_some_and(DataType::is_integer) {
        Some(Role::Positions)
    } else if name.contains("mask") && rank == Some(2) {
        Some(Role::Mask)
    } else if name == "use_cache_branch" && dtype == Some(DataType::Bool) {
        Some(Role::HasPast)
    } else {
        None
    }
}

/// The position of the input of token ids: the one named `input_ids`, or the only one of integers without a role.
pub(super) fn token_position<'a>(inputs: impl Iterator<Item = Declared<'a>>) -> Option<usize> {
    let integers = |input: &Declared<'_>| input.1.is_some_and(DataType::is_integer);
    let candidates: Vec<(usize, Declared<'_>)> = inputs
        .enumerate()
        .filter(|(_, input)| integers(input) && role(*input).is_none())
        .collect();
    let named = candidates.iter().find(|(_, input)| input.0 == "input_ids");
    match (&candidates[..], named) {
        (_, Some((position, _))) | ([(position, _)], None) => Some(*position),
        _ => None,
    }
}

impl DecoderPorts {
    /// # Errors
    /// No or several inputs that can be the token ids, no output of floats.
    pub fn of(session: &Session) -> Result<Self> {
        let list = |ports: &[Signature]| {
            let ports: Vec<String> = ports
                .iter()
                .map(|port| format!("{}: {port}", port.name))
                .collect();
            ports.join(", ")
        };
        let inputs = session.inputs();
        let declared = inputs.iter().map(|input| {
            let (dtype, rank) = (input.ty.dtype(), input.shape.len());
            (&*input.name, Some(dtype), Some(rank))
        });
        let derived = inputs.iter().zip(declared.clone());
        let derived = derived.filter_map(|(input, declared)| {
            Some(DerivedInput {
                name: input.name.clone(),
                dtype: input.ty.dtype(),
                rank: input.shape.len(),
                role: role(declared)?,
            })
        });
        let derived = derived.collect();
        let Some(tokens) = token_position(declared) else {
            let text = "no input, or more than one, can be the token ids";
            return Err(Error::new(ErrorKind::InvalidArgument, text)
                .expected("an input named input_ids, or one input of integers")
                .found(list(inputs)));
        };
        let tokens = inputs[tokens].name.clone();
        let outputs = session.outputs();
        let is_float =
            |output: &&Signature| output.ty.dtype().is_float() && !output.shape.is_empty();
        let logits = outputs.iter().find(|output| output.name == "logits");
        let Some(logits) = logits.or_else(|| outputs.iter().find(is_float)) else {
            let text = "no output can be the logits";
            return Err(Error::new(ErrorKind::InvalidArgument, text)
                .expected("an output of floats")
                .found(list(outputs)));
        };
        Ok(Self {
            tokens,
            logits: logits.name.clone(),
            derived,
        })
    }

    /// The names of the inputs that follow from the tokens.
    pub fn derived(&self) -> Vec<String> {
        self.derived
            .iter()
            .map(|input| input.name.clone())
            .collect()
    }

    /// The values of the derived inputs for `new` tokens after `past`; at the first step those that are not given.
    pub fn fill(
        &self,
        session: &Session,
        given: &[(&str, &Tensor)],
        first: bool,
        [rows, past, new]: [usize; 3],
    ) -> Result<Vec<(String, Tensor)>> {
        let mut filled = Vec::new();
        for input in &self.derived {
            let own = given.iter().find(|(name, _)| *name == input.name);
            if first && own.is_some() {
                continue;
            }
            let value = match input.role {
                Role::Positions => {
                    let rows = if input.rank == 1 { 1 } else { rows };
                    let row = (past..past + new).map(|position| position as i64);
                    let all: Vec<i64> = std::iter::repeat_n(row, rows).flatten().collect();
                    Tensor::from_slice(shape(input.rank, rows, new), &all)?
                }
                Role::Mask => {
                    // A mask that is given for the prompt stays its beginning.
                    let known = own
                        .map(|(_, mask)| convert(mask, DataType::I64))
                        .transpose()?;
                    let known = known.as_ref().and_then(|mask| mask.as_slice::<i64>());
                    let known = known.unwrap_or_default();
                    let length = mask_length(session, &input.name).unwrap_or(past + new);
                    let given = known.len() / rows.max(1);
                    let element = |at: usize| {
                        let (row, column) = (at / length, at % length);
                        let known = (column < given).then(|| known[row * given + column]);
                        known.unwrap_or(1)
                    };
                    let all: Vec<i64> = (0..rows * length).map(element).collect();
                    Tensor::from_slice([rows, length], &all)?
                }
                Role::HasPast => Tensor::from_bools([1], &[past > 0])?,
            };
            filled.push((input.name.clone(), convert(&value, input.dtype)?));
        }
        Ok(filled)
    }
}

/// The length of a mask that is fixed.
fn mask_length(session: &Session, name: &str) -> Option<usize> {
    let input = session.inputs().iter().find(|input| input.name == name)?;
    match input.shape.last()? {
        Dimension::Fixed(length) => Some(*length),
        Dimension::Symbolic { .. } => None,
    }
}

fn shape(rank: usize, rows: usize, new: usize) -> Vec<usize> {
    match rank {
        1 => vec![new],
        _ => vec![rows, new],
    }
}
