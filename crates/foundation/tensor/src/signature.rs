//! Inputs and outputs of models: names, types, dimensions that may be symbolic.

use crate::size::{SizeExpr, Symbols};
use crate::{DataType, MapKeys, TensorType, ValueKind};
use std::fmt;
use std::sync::Arc;
use tenon_base::Result;

/// An input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The name.
    pub name: String,
    /// What it is. The type and dimensions of a sequence or optional value are those that its tensors have in common.
    pub kind: ValueKind,
    /// The data type and shape; with the smallest size of each symbolic dimension.
    pub ty: TensorType,
    /// The dimensions.
    pub shape: Vec<Dimension>,
    /// The keys of the columns of a map.
    pub keys: Option<Arc<MapKeys>>,
}

impl Signature {
    /// An input or output of a fixed type.
    pub fn fixed(name: String, ty: TensorType) -> Self {
        let shape = ty.shape().iter().map(|&extent| Dimension::Fixed(extent));
        Self {
            name,
            kind: ValueKind::Tensor,
            shape: shape.collect(),
            ty,
            keys: None,
        }
    }

    /// A tensor whose extents are expressions of symbols.
    ///
    /// # Errors
    /// A type that is too large even for the smallest sizes.
    pub fn symbolic(
        name: String,
        dtype: DataType,
        extents: &[SizeExpr],
        symbols: &Symbols,
    ) -> Result<Self> {
        let shape: Vec<Dimension> = extents
            .iter()
            .map(|extent| Dimension::of(extent, symbols))
            .collect();
        let smallest = shape.iter().map(|dimension| match dimension {
            Dimension::Fixed(size) => *size,
            Dimension::Symbolic { min, .. } => usize::try_from(*min).unwrap_or(0),
        });
        Ok(Self {
            name,
            kind: ValueKind::Tensor,
            ty: TensorType::new(dtype, smallest.collect::<Vec<_>>())?,
            shape,
            keys: None,
        })
    }

    /// Whether the tensors of a sequence or optional value may differ in rank.
    pub fn is_of_any_rank(&self) -> bool {
        let any = |dimension: &Dimension| match dimension {
            Dimension::Symbolic { expression, .. } => expression == "...",
            Dimension::Fixed(_) => false,
        };
        !self.kind.is_tensor() && self.shape.iter().any(any)
    }

    /// Whether a dimension is known only when the model runs.
    pub fn is_symbolic(&self) -> bool {
        let mut shape = self.shape.iter();
        shape.any(|dimension| matches!(dimension, Dimension::Symbolic { .. }))
    }
}

impl fmt::Display for Signature {
    /// `f32[batch, 3]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.kind.is_tensor() {
            write!(f, "{} of ", self.kind)?;
        }
        let shape: Vec<String> = self.shape.iter().map(Dimension::to_string).collect();
        write!(f, "{}[{}]", self.ty.dtype(), shape.join(", "))
    }
}

/// A dimension of an input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dimension {
    /// It has this size.
    Fixed(usize),
    /// It is known only when the model runs.
    Symbolic {
        /// A symbol or an expression of symbols, as text.
        expression: String,
        /// Its smallest size.
        min: u64,
        /// Its greatest size.
        max: u64,
    },
}

impl Dimension {
    fn of(extent: &SizeExpr, symbols: &Symbols) -> Self {
        if let Some(size) = extent.constant() {
            return Self::Fixed(usize::try_from(size).unwrap_or(0));
        }
        let range = symbols.range(extent);
        let bound = |bound: Option<i128>, none: u64| {
            bound.map_or(none, |bound| {
                u64::try_from(bound.max(0)).unwrap_or(u64::MAX)
            })
        };
        Self::Symbolic {
            expression: symbols.text(extent),
            min: bound(range.min, 0),
            max: bound(range.max, u64::MAX),
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => size.fmt(f),
            Self::Symbolic { expression, .. } => f.write_str(expression),
        }
    }
}
