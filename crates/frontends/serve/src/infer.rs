//! Requests and answers of inference, independent of the form in which they travel.

use crate::body::Reservation;
use crate::raw_data;
use crate::sequences::SequencePosition;
use crate::shared_memory::RegionPart;
use crate::status::Refusal;
use std::borrow::Cow;
use tenon::{DataType, Tensor};

/// A request for inference.
#[derive(Debug)]
pub struct InferRequest {
    /// The id of the caller; the answer has it too.
    pub id: String,
    /// The inputs by name.
    pub inputs: Vec<(String, Tensor)>,
    /// The requested outputs; all of them when empty.
    pub outputs: Vec<RequestedOutput>,
    /// Whether outputs are binary when none is named.
    pub binary_outputs: bool,
    /// The time after which the caller has no use for the answer.
    pub timeout_micros: Option<u64>,
    /// 1 is served first; 0 is the default priority.
    pub priority: u64,
    /// The place in a sequence.
    pub sequence: Option<SequencePosition>,
    /// The memory of inputs that were read from shared memory.
    pub reservation: Option<Reservation>,
}

/// An output that the caller named.
#[derive(Debug, Clone)]
pub struct RequestedOutput {
    /// Its name.
    pub name: String,
    /// Whether it is binary.
    pub is_binary: bool,
    /// The number of classes to return instead of the tensor (the extension "classification").
    pub classes: Option<u64>,
    /// The shared memory that takes its elements.
    pub region: Option<RegionPart>,
}

/// The answer of a model.
#[derive(Debug)]
pub struct InferAnswer {
    /// The name of the model.
    pub model: String,
    /// Its version.
    pub version: u64,
    /// The id of the request.
    pub id: String,
    /// The outputs in the requested order.
    pub outputs: Vec<AnsweredOutput>,
}

/// One output of an answer.
#[derive(Debug)]
pub struct AnsweredOutput {
    /// Its name.
    pub name: String,
    /// Its elements.
    pub tensor: Tensor,
    /// Whether it is binary.
    pub is_binary: bool,
    /// As [`RequestedOutput::region`].
    pub region: Option<RegionPart>,
}

impl InferAnswer {
    /// Writes the outputs that the caller reads from shared memory: none of them, if one does not fit.
    ///
    /// # Errors
    /// Outputs that do not fit their parts of regions; a region that cannot be written.
    pub fn write_regions(&self) -> Result<(), Refusal> {
        let mut parts = Vec::new();
        for output in &self.outputs {
            let Some(part) = &output.region else { continue };
            let bytes = match output.tensor.dtype() {
                DataType::String => {
                    let mut bytes = Vec::new();
                    raw_data::write(&output.tensor, &mut bytes);
                    Cow::Owned(bytes)
                }
                _ => Cow::Borrowed(output.tensor.bytes()),
            };
            let checked = part.check(bytes.len());
            checked.map_err(|error| error.at(format_args!("output '{}'", output.name)))?;
            parts.push((part, bytes));
        }
        parts.iter().try_for_each(|(part, bytes)| part.write(bytes))
    }
}
