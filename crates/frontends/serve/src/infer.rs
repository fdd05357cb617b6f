//! Requests and answers of inference, independent of the form in which they travel.

use crate::sequences::SequencePosition;
use tenon::Tensor;

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
}
