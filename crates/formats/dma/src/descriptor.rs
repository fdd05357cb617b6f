//! The descriptor: one movement of data from variables to a variable.

use smallvec::{SmallVec, smallvec};
use std::fmt;
use tenon_tensor::DataType;

/// Maximum number of dimensions of an access pattern (neff 2.15).
pub const MAX_DIMENSIONS: usize = 4;

/// Maximum number of sources of an operation (neff 2.14).
pub const MAX_SOURCES: usize = 16;

/// A variable of a package, by its `var_id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub u32);

impl VariableId {
    /// Its position in a table of variables.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for VariableId {
    /// `v3`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// Sizes of an access pattern, innermost first; those of a legal pattern are stored inline.
pub type Extents = SmallVec<[u64; MAX_DIMENSIONS]>;

/// Steps of an access pattern in bytes, innermost first; those of a legal pattern are stored inline.
pub type Steps = SmallVec<[i64; MAX_DIMENSIONS]>;

/// An access pattern: the bytes of a variable that are read or written and their order, as a loop
/// nest, innermost first. The first size is in bytes, the others are counts; all steps are in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Access {
    /// The variable.
    pub variable: VariableId,
    /// Byte offset at which the pattern starts; a negative step goes to lower offsets.
    pub offset: u64,
    /// Sizes, innermost first; at most [`MAX_DIMENSIONS`].
    pub sizes: Extents,
    /// Steps in bytes, innermost first, one per size. 0 repeats the same bytes.
    pub steps: Steps,
    /// Data type of the elements; [`DataType::U8`] for untyped operations.
    pub dtype: DataType,
}

impl Access {
    /// A range of `len` bytes.
    pub fn bytes(variable: VariableId, offset: u64, len: u64) -> Self {
        Self {
            variable,
            offset,
            sizes: smallvec![len],
            steps: smallvec![1],
            dtype: DataType::U8,
        }
    }

    /// Number of bytes that the pattern visits, repeats included; `None` on overflow.
    pub fn volume(&self) -> Option<u64> {
        if self.sizes.contains(&0) {
            return Some(0);
        }
        self.sizes
            .iter()
            .try_fold(1u64, |product, &size| product.checked_mul(size))
    }
}

/// The operation of a descriptor. `docs/dma.md` defines the numerics.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Bytes move unchanged.
    Copy,
    /// Elements are converted from the source's data type to the target's.
    Cast,
    /// The sum of all sources.
    Add,
    /// The minimum of all sources and the constant.
    Min {
        /// The initial value.
        constant: Option<Constant>,
    },
    /// The maximum of all sources and the constant.
    Max {
        /// The initial value.
        constant: Option<Constant>,
    },
    /// The sum of all sources, each multiplied by its scale.
    Fma {
        /// One scale per source.
        scales: Vec<f64>,
    },
    /// The first and the last dimension of the elements are swapped.
    Transpose {
        /// `transpose_shape`: the shape of the result, innermost first.
        shape: [u64; 4],
        /// `transpose_element_size`, in bytes.
        element_size: u64,
    },
}

impl Operation {
    /// The name in the engine JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Operation::Copy => "copy",
            Operation::Cast => "cast",
            Operation::Add => "add",
            Operation::Min { .. } => "min",
            Operation::Max { .. } => "max",
            Operation::Fma { .. } => "fma",
            Operation::Transpose { .. } => "transpose",
        }
    }

    /// Whether it operates on elements rather than bytes.
    pub fn is_typed(&self) -> bool {
        !matches!(self, Operation::Copy | Operation::Transpose { .. })
    }
}

/// The constant of a minimum or maximum, of the type that `constant_dtype` names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Constant {
    /// `float32`
    F32(f32),
    /// `int32`
    I32(i32),
    /// `uint32`
    U32(u32),
}

/// One movement: an operation, its sources and its target.
#[derive(Debug, Clone, PartialEq)]
pub struct Descriptor {
    /// The operation.
    pub operation: Operation,
    /// The sources: one, or up to [`MAX_SOURCES`] for add, min, max and fma.
    pub from: Vec<Access>,
    /// The target.
    pub to: Access,
}

impl Descriptor {
    /// A copy.
    pub fn copy(from: Access, to: Access) -> Self {
        Self {
            operation: Operation::Copy,
            from: vec![from],
            to,
        }
    }

    /// Number of bytes that it writes, for profiles; `u64::MAX` on overflow.
    pub fn bytes_written(&self) -> u64 {
        self.to.volume().unwrap_or(u64::MAX)
    }
}
