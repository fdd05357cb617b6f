//! Whether a backend takes a node, and why not.

use std::fmt;
use tenon_graph::{Attributes, OperatorDef};
use tenon_tensor::{DataType, Tensor, TensorType};

/// A node as a backend sees it when asked whether it supports it.
#[derive(Debug, Clone)]
pub struct NodeView<'a> {
    /// What it does.
    pub op: &'static OperatorDef,
    /// With which parameters.
    pub attributes: &'a Attributes,
    /// The types of its inputs; `None` where one is left out.
    pub inputs: &'a [Option<&'a TensorType>],
    /// The elements of those inputs that are constants.
    pub constants: &'a [Option<&'a Tensor>],
    /// The types of its outputs; `None` where one is not wanted.
    pub outputs: &'a [Option<&'a TensorType>],
}

/// Why a backend does not take a node, as data; `Display` makes the sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code and its arguments.
    pub reason: Reason,
}

/// The codes of refusals.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The backend has no kernel for the operator.
    UnknownOperator,
    /// No kernel for this type of an input.
    InputType {
        /// Which input.
        input: usize,
        /// Its type.
        found: DataType,
    },
    /// No kernel for this number of dimensions of an input.
    InputRank {
        /// Which input.
        input: usize,
        /// Its rank.
        found: usize,
    },
    /// No kernel for this value of an attribute.
    AttributeValue {
        /// Which attribute.
        attribute: &'static str,
        /// Its value in text.
        found: String,
    },
    /// An input must be a constant.
    NotConstant {
        /// Which input.
        input: usize,
    },
    /// Anything else, in a sentence without the final stop.
    Other {
        /// The sentence.
        text: String,
    },
}

impl Reason {
    /// The code in a word, for reports that programs read.
    pub fn code(&self) -> &'static str {
        match self {
            Reason::UnknownOperator => "unknown-operator",
            Reason::InputType { .. } => "input-type",
            Reason::InputRank { .. } => "input-rank",
            Reason::AttributeValue { .. } => "attribute-value",
            Reason::NotConstant { .. } => "not-constant",
            Reason::Other { .. } => "other",
        }
    }
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        Self { reason }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Reason::UnknownOperator => write!(f, "no kernel for this operator"),
            Reason::InputType { input, found } => {
                write!(f, "no kernel for type {found} of input {input}")
            }
            Reason::InputRank { input, found } => {
                write!(f, "no kernel for {found} dimensions of input {input}")
            }
            Reason::AttributeValue { attribute, found } => {
                write!(f, "no kernel for {attribute} = {found}")
            }
            Reason::NotConstant { input } => write!(f, "input {input} must be a constant"),
            Reason::Other { text } => f.write_str(text),
        }
    }
}
