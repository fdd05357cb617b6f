//! Building kernels: the node that a kernel is built from, the kernel, and the reasons for a refusal.

use std::ops::Deref;
use tenon_backend::{InPlace, MAX_OUTPUTS, NodeView, Operands, Reason, Refusal, Workload};
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::Inference;
use tenon_tensor::{DataType, Shape, Tensor, TensorType};

/// Builds the kernel of a node.
pub(crate) type BuildKernel = fn(&Node<'_>) -> Result<Kernel, BuildError>;

/// A workload and its requirements.
pub(crate) struct Kernel {
    pub(crate) workload: Box<dyn Workload>,
    pub(crate) scratch_bytes: usize,
    pub(crate) in_place: Vec<InPlace>,
}

impl Kernel {
    /// A kernel without scratch memory.
    pub(crate) fn new<F>(run: F) -> Self
    where
        F: Fn(&mut Operands<'_>) -> Result<()> + Send + Sync + 'static,
    {
        Self {
            workload: Box::new(FnWorkload(Box::new(run))),
            scratch_bytes: 0,
            in_place: Vec::new(),
        }
    }

    /// The kernel with scratch memory of `count` elements of 8 bytes.
    pub(crate) fn with_scratch(self, count: usize) -> Result<Self, BuildError> {
        let bytes = count
            .checked_mul(8)
            .filter(|&bytes| bytes <= isize::MAX as usize);
        let scratch_bytes = bytes.ok_or_else(|| {
            Error::new(
                ErrorKind::OutOfMemory,
                format!("the scratch memory of {count} elements is too large"),
            )
        })?;
        Ok(Self {
            scratch_bytes,
            ..self
        })
    }

    /// The kernel, whose output 0 may replace input 0.
    pub(crate) fn in_place(self) -> Self {
        Self {
            in_place: vec![InPlace::of_input(0)],
            ..self
        }
    }
}

/// The computation of a kernel.
type Compute = dyn Fn(&mut Operands<'_>) -> Result<()> + Send + Sync;

/// Boxed, so that the check for empty outputs is not compiled for each of the 1000 kernels.
struct FnWorkload(Box<Compute>);

impl Workload for FnWorkload {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        // The other extents of an empty tensor are unbounded, and so would be loops over them.
        if outputs_are_empty(operands)? {
            return Ok(());
        }
        (self.0)(operands)
    }
}

/// Whether all outputs are empty.
fn outputs_are_empty(operands: &mut Operands<'_>) -> Result<bool> {
    let mut outputs = operands.split().1;
    for index in 0..MAX_OUTPUTS {
        if outputs.is_requested(index) && !outputs.slice::<u8>(index)?.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The reason that a node has no kernel.
pub(crate) enum BuildError {
    /// The type, rank or attribute is not supported.
    Refusal(Refusal),
    /// The node is invalid.
    Error(Error),
}

impl From<Reason> for BuildError {
    fn from(reason: Reason) -> Self {
        BuildError::Refusal(reason.into())
    }
}

impl From<Error> for BuildError {
    fn from(error: Error) -> Self {
        BuildError::Error(error)
    }
}

/// A refusal because of the type of an input.
pub(crate) fn unsupported_type(input: usize, found: DataType) -> BuildError {
    Reason::InputType { input, found }.into()
}

/// A refusal because of the value of an attribute.
pub(crate) fn unsupported_value(
    attribute: &'static str,
    found: impl std::fmt::Display,
) -> BuildError {
    Reason::AttributeValue {
        attribute,
        found: found.to_string(),
    }
    .into()
}

/// A refusal with a reason in plain text.
pub(crate) fn unsupported(text: impl Into<String>) -> BuildError {
    Reason::Other { text: text.into() }.into()
}

/// The error of an invalid node.
pub(crate) fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidModel, text)
}

/// The node that a kernel is built for; shape inference has accepted it.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a>(&'a NodeView<'a>);

impl<'a> Deref for Node<'a> {
    type Target = NodeView<'a>;

    fn deref(&self) -> &NodeView<'a> {
        self.0
    }
}

impl<'a> Node<'a> {
    pub(crate) fn new(view: &'a NodeView<'a>) -> Self {
        Self(view)
    }

    pub(crate) fn has_input(&self, index: usize) -> bool {
        self.optional(index).is_some()
    }

    pub(crate) fn optional(&self, index: usize) -> Option<&'a TensorType> {
        self.0.inputs.get(index).copied().flatten()
    }

    pub(crate) fn input(&self, index: usize) -> Result<&'a TensorType> {
        self.optional(index)
            .ok_or_else(|| invalid(format!("input {index} is missing")))
    }

    pub(crate) fn output(&self, index: usize) -> Result<&'a TensorType> {
        self.0
            .outputs
            .get(index)
            .copied()
            .flatten()
            .ok_or_else(|| invalid(format!("output {index} is missing")))
    }

    pub(crate) fn dtype(&self, index: usize) -> Result<DataType> {
        Ok(self.input(index)?.dtype())
    }

    pub(crate) fn shape(&self, index: usize) -> Result<&'a Shape> {
        Ok(self.input(index)?.shape())
    }

    /// The elements of an optional constant input; `None` when it is omitted.
    pub(crate) fn constant(&self, index: usize) -> Result<Option<&'a Tensor>, BuildError> {
        if !self.has_input(index) {
            return Ok(None);
        }
        match self.0.constants.get(index).copied().flatten() {
            Some(tensor) => Ok(Some(tensor)),
            None => Err(Reason::NotConstant { input: index }.into()),
        }
    }

    /// The integers of an optional constant input; `None` when it is omitted.
    pub(crate) fn ints(&self, index: usize) -> Result<Option<Vec<i64>>, BuildError> {
        let Some(tensor) = self.constant(index)? else {
            return Ok(None);
        };
        tensor
            .to_i64s()
            .map(Some)
            .ok_or_else(|| unsupported_type(index, tensor.dtype()))
    }

    /// The node as shape inference reads it; kernels share its geometry.
    pub(crate) fn inference(&self) -> Inference<'a> {
        Inference {
            attributes: self.0.attributes,
            inputs: self.0.inputs,
            constants: self.0.constants,
            outputs: self.0.outputs.len(),
        }
    }

    /// An axis attribute, normalised to `0..rank`.
    pub(crate) fn axis(&self, name: &str, default: i64, rank: usize) -> Result<usize> {
        axis(self.0.attributes.int(name, default)?, rank)
    }
}

/// An axis, counted from the end when negative, normalised to `0..rank`.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize> {
    let position = if axis < 0 {
        axis.saturating_add_unsigned(rank as u64)
    } else {
        axis
    };
    usize::try_from(position)
        .ok()
        .filter(|&position| position < rank)
        .ok_or_else(|| invalid(format!("axis {axis} of a tensor with {rank} dimensions")))
}

/// An index that is read at run time, counted from the end when negative, normalised to `0..extent`.
pub(crate) fn position(index: i64, extent: usize) -> Result<usize> {
    let position = if index < 0 {
        index.saturating_add_unsigned(extent as u64)
    } else {
        index
    };
    usize::try_from(position)
        .ok()
        .filter(|&position| position < extent)
        .ok_or_else(|| {
            Error::new(
                ErrorKind::OutOfBounds,
                "an index is out of the bounds of its dimension",
            )
            .expected(format_args!("-{extent} to {}", extent as i64 - 1))
            .found(index)
        })
}

/// A length that is read at run time, at most `most`.
pub(crate) fn length(value: i64, most: usize) -> Result<usize> {
    usize::try_from(value)
        .ok()
        .filter(|&length| length <= most)
        .ok_or_else(|| {
            Error::new(ErrorKind::OutOfBounds, "a length is out of range")
                .expected(format_args!("0 to {most}"))
                .found(value)
        })
}

/// [`tenon_tensor::match_type`] of floating-point types; other types of input `$input` are refused.
macro_rules! floats {
    ($dtype:expr, $input:expr, $T:ident => $body:expr) => {
        tenon_tensor::match_type!($dtype, $T: float => $body,
            found => Err($crate::kernel::unsupported_type($input, found)))
    };
}

/// [`tenon_tensor::match_type`] of integers of whole bytes; other types of input `$input` are refused.
macro_rules! integers {
    ($dtype:expr, $input:expr, $T:ident => $body:expr) => {
        tenon_tensor::match_type!($dtype, $T: integer => $body,
            found => Err($crate::kernel::unsupported_type($input, found)))
    };
}

/// [`tenon_tensor::match_type`] of integers and floating-point types; other types of input `$input` are refused.
macro_rules! numeric {
    ($dtype:expr, $input:expr, $T:ident => $body:expr) => {
        tenon_tensor::match_type!($dtype, $T: numeric => $body,
            found => Err($crate::kernel::unsupported_type($input, found)))
    };
}

/// [`tenon_tensor::match_type`] of index types; other types of input `$input` are refused.
macro_rules! indices {
    ($dtype:expr, $input:expr, $T:ident => $body:expr) => {
        tenon_tensor::match_type!($dtype, $T: index => $body,
            found => Err($crate::kernel::unsupported_type($input, found)))
    };
}

/// [`tenon_tensor::match_type`] of words of the element's size, to move elements; other types of input `$input` are refused.
macro_rules! sized {
    ($dtype:expr, $input:expr, $T:ident => $body:expr) => {
        tenon_tensor::match_type!($dtype, $T: word => $body,
            found => Err($crate::kernel::unsupported_type($input, found)))
    };
}

pub(crate) use {floats, indices, integers, numeric, sized};

/// The first `count` elements of the scratch memory.
pub(crate) fn scratch<'a, T: tenon_tensor::Element>(
    outputs: &mut tenon_backend::Outputs<'a>,
    count: usize,
) -> Result<&'a mut [T]> {
    let all = outputs.scratch::<T>()?;
    let found = all.len();
    all.get_mut(..count).ok_or_else(|| {
        Error::new(ErrorKind::Internal, "the scratch memory is too small")
            .expected(count)
            .found(found)
    })
}
