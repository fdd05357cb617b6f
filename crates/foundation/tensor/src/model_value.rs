//! The values of a model's inputs and outputs: tensors, sequences of tensors, and optional ones.

use crate::Tensor;
use std::fmt;
use std::str::FromStr;
use tenon_base::{Error, ErrorKind};

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ValueKind {
    /// A tensor.
    #[default]
    Tensor,
    /// A sequence of tensors.
    Sequence,
    /// A tensor or nothing.
    Optional,
    /// A sequence of tensors or nothing.
    OptionalSequence,
}

impl ValueKind {
    const NAMES: [(Self, &'static str); 4] = [
        (Self::Tensor, "tensor"),
        (Self::Sequence, "sequence"),
        (Self::Optional, "optional"),
        (Self::OptionalSequence, "optional-sequence"),
    ];

    /// Whether it is a tensor.
    pub fn is_tensor(&self) -> bool {
        *self == Self::Tensor
    }

    /// Whether it may be absent.
    pub fn is_optional(self) -> bool {
        matches!(self, Self::Optional | Self::OptionalSequence)
    }

    /// Whether it is a sequence when it is present.
    pub fn is_sequence(self) -> bool {
        matches!(self, Self::Sequence | Self::OptionalSequence)
    }

    /// The same, absent or not.
    pub fn optional(self) -> Self {
        match self.is_sequence() {
            true => Self::OptionalSequence,
            false => Self::Optional,
        }
    }
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = Self::NAMES.iter().find(|(kind, _)| kind == self);
        f.pad(row.map_or("", |(_, name)| name))
    }
}

impl FromStr for ValueKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let row = Self::NAMES.iter().find(|(_, name)| *name == text);
        row.map(|&(kind, _)| kind).ok_or_else(|| {
            Error::new(ErrorKind::InvalidArgument, "unknown kind of value")
                .expected(Self::NAMES.map(|(_, name)| name).join(", "))
                .found(text)
        })
    }
}

/// The value of an input or output of a model.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelValue {
    /// A tensor, also one that is optional.
    Tensor(Tensor),
    /// A sequence, also one that is optional.
    Sequence(Vec<Tensor>),
    /// An optional value that is absent.
    None,
}

impl ModelValue {
    /// What it is, in words.
    pub fn description(&self) -> String {
        match self {
            Self::Tensor(tensor) => tensor.ty().to_string(),
            Self::Sequence(tensors) => format!("a sequence of {} tensors", tensors.len()),
            Self::None => "nothing".to_owned(),
        }
    }
}

impl From<Tensor> for ModelValue {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<Vec<Tensor>> for ModelValue {
    fn from(tensors: Vec<Tensor>) -> Self {
        Self::Sequence(tensors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (kind, name) in ValueKind::NAMES {
            assert_eq!(kind.to_string(), name);
            assert_eq!(name.parse::<ValueKind>().unwrap(), kind);
        }
        assert!("map".parse::<ValueKind>().is_err());
    }
}
