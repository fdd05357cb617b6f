//! Values that are no tensors: sequences of tensors, and optional values. They exist while a model is compiled, and in
//! the host program; no subgraph has one.

use crate::ValueId;
use std::fmt;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::size::SizeExpr;
use tenon_tensor::{DataType, ValueKind};

/// A value that is no tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct List {
    /// Its type.
    pub ty: ListType,
    /// Whether it is present, once known; a sequence always is.
    pub present: Option<bool>,
    /// The tensors in it, if their number is known when compiling; none if it is absent.
    pub items: Option<Vec<ValueId>>,
}

/// The type of a value that is no tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct ListType {
    /// A sequence, or optional.
    pub kind: ValueKind,
    /// The data type of its tensors.
    pub dtype: DataType,
    /// Their shapes.
    pub elements: ElementShape,
}

/// What the shapes of the tensors of a sequence have in common.
#[derive(Debug, Clone, PartialEq)]
pub enum ElementShape {
    /// There are no tensors.
    Empty,
    /// Their extents; `None` for one that may differ.
    Extents(Vec<Option<SizeExpr>>),
    /// Not even the number of dimensions is known.
    Any,
}

impl List {
    /// A value of which the type alone is known.
    pub fn of_type(ty: ListType) -> Self {
        Self {
            present: (ty.kind == ValueKind::Sequence).then_some(true),
            ty,
            items: None,
        }
    }
}

impl ListType {
    /// The type of values that are of this or the other type.
    ///
    /// # Errors
    /// Different data types, and tensors against sequences.
    pub fn join(&self, other: &Self) -> Result<Self> {
        if self.dtype != other.dtype || self.kind.is_sequence() != other.kind.is_sequence() {
            let error = Error::new(
                ErrorKind::InvalidModel,
                "sequences or optional values of different types",
            );
            return Err(error.expected(self).found(other));
        }
        let optional = self.kind.is_optional() || other.kind.is_optional();
        Ok(Self {
            kind: if optional {
                self.kind.optional()
            } else {
                self.kind
            },
            dtype: self.dtype,
            elements: self.elements.join(&other.elements),
        })
    }

    /// The same for a sequence in which a tensor of this type is inserted.
    ///
    /// # Errors
    /// Another data type.
    pub fn with_element(&self, dtype: DataType, extents: &[SizeExpr]) -> Result<Self> {
        self.join(&Self {
            kind: self.kind,
            dtype,
            elements: ElementShape::Extents(extents.iter().cloned().map(Some).collect()),
        })
    }
}

impl ElementShape {
    /// What it has in common with the other one.
    pub fn join(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Empty, shape) | (shape, Self::Empty) => shape.clone(),
            (Self::Extents(a), Self::Extents(b)) if a.len() == b.len() => {
                let pairs = a.iter().zip(b);
                Self::Extents(pairs.map(|(a, b)| a.clone().filter(|_| a == b)).collect())
            }
            _ => Self::Any,
        }
    }

    /// The same without the extents that `keep` refuses.
    pub fn retain(self, keep: impl Fn(&SizeExpr) -> bool) -> Self {
        match self {
            Self::Extents(extents) => {
                let extents = extents.into_iter();
                Self::Extents(extents.map(|extent| extent.filter(&keep)).collect())
            }
            other => other,
        }
    }
}

impl fmt::Display for ListType {
    /// `sequence of f32[?, 3]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.kind, self.dtype)?;
        let ElementShape::Extents(extents) = &self.elements else {
            return f.write_str("[...]");
        };
        let shown = |extent: &Option<SizeExpr>| {
            let size = extent.as_ref().and_then(SizeExpr::constant);
            size.map_or("?".to_owned(), |size| size.to_string())
        };
        let extents: Vec<String> = extents.iter().map(shown).collect();
        write!(f, "[{}]", extents.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(dtype: DataType, elements: ElementShape) -> ListType {
        ListType {
            kind: ValueKind::Sequence,
            dtype,
            elements,
        }
    }

    #[test]
    fn types_join_to_what_they_have_in_common() {
        let empty = sequence(DataType::F32, ElementShape::Empty);
        let row = empty
            .with_element(DataType::F32, &[1.into(), 3.into()])
            .unwrap();
        assert_eq!(row.to_string(), "sequence of f32[1, 3]");
        let rows = row
            .with_element(DataType::F32, &[2.into(), 3.into()])
            .unwrap();
        assert_eq!(rows.to_string(), "sequence of f32[?, 3]");
        assert_eq!(rows.join(&row).unwrap(), rows);
        let any = rows.with_element(DataType::F32, &[3.into()]).unwrap();
        assert_eq!(any.elements, ElementShape::Any);
        let error = rows.with_element(DataType::I64, &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "sequences or optional values of different types: expected sequence of f32[?, 3], found sequence of i64[]"
        );
        let optional = ListType {
            kind: ValueKind::OptionalSequence,
            ..empty.clone()
        };
        assert_eq!(
            row.join(&optional).unwrap().kind,
            ValueKind::OptionalSequence
        );
        let tensor = ListType {
            kind: ValueKind::Optional,
            ..row.clone()
        };
        assert!(row.join(&tensor).is_err());
    }
}
