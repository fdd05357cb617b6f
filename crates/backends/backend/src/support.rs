//! Support queries: the node, and the reasons of refusal.

use crate::NodeRanges;
use std::fmt;
use tenon_graph::{Attributes, OperatorDef};
use tenon_tensor::{DataType, Tensor, TensorType};

/// A node as passed to a support query.
#[derive(Debug, Clone)]
pub struct NodeView<'a> {
    /// Its operator.
    pub op: &'static OperatorDef,
    /// Its attributes.
    pub attributes: &'a Attributes,
    /// Types of its inputs; `None` for an absent one.
    pub inputs: &'a [Option<&'a TensorType>],
    /// Elements of the constant inputs.
    pub constants: &'a [Option<&'a Tensor>],
    /// Types of its outputs; `None` for one not requested.
    pub outputs: &'a [Option<&'a TensorType>],
    /// The sizes that its operands may have, if the node is offered for all of them: only to backends with the
    /// capability [`DYNAMIC_SHAPES`](crate::DYNAMIC_SHAPES), when a model is compiled.
    pub ranges: Option<&'a NodeRanges>,
}

/// The refusal of a node, as data; `Display` gives the sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code and its arguments.
    pub reason: Reason,
}

/// The reasons of refusals.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The backend has no kernel for the operator.
    UnknownOperator,
    /// No kernel for this type of an input.
    InputType {
        /// Index of the input.
        input: usize,
        /// Its type.
        found: DataType,
    },
    /// No kernel for this number of dimensions of an input.
    InputRank {
        /// Index of the input.
        input: usize,
        /// Its rank.
        found: usize,
    },
    /// No kernel for this value of an attribute.
    AttributeValue {
        /// Name of the attribute.
        attribute: &'static str,
        /// Its value as text.
        found: String,
    },
    /// An input must be a constant.
    NotConstant {
        /// Index of the input.
        input: usize,
    },
    /// Any other reason, as a sentence without the final period.
    Other {
        /// The sentence.
        text: String,
    },
}

impl Reason {
    /// The machine-readable code of the reason.
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
