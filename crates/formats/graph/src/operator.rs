//! The operator table: name, inputs, outputs, attributes and semantics of each operator.

use crate::{Attribute, AttributeKind, Attributes};
use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{DataType, Element, Tensor, TensorType};

/// The lowering of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperatorClass {
    /// Computes elements: a workload of a backend.
    Compute,
    /// Moves elements unchanged: DMA descriptors, or a workload of the preferred backend.
    Movement,
    /// The same bytes with another shape: no operation at run time.
    View,
}

/// The element types of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Types {
    /// Any type.
    Any,
    /// Real floating-point types.
    Float,
    /// Integers and real floating-point types.
    Number,
    /// Integers.
    Integer,
    /// Exactly these.
    Only(&'static [DataType]),
}

impl Types {
    /// Whether `dtype` is one of them.
    pub fn contains(self, dtype: DataType) -> bool {
        match self {
            Types::Any => true,
            Types::Float => dtype.is_float(),
            Types::Number => dtype.is_float() || dtype.is_integer(),
            Types::Integer => dtype.is_integer(),
            Types::Only(list) => list.contains(&dtype),
        }
    }
}

impl fmt::Display for Types {
    /// `f32, f64 or i8`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Types::Any => f.write_str("any type"),
            Types::Float => f.write_str("a floating-point type"),
            Types::Number => f.write_str("an integer or floating-point type"),
            Types::Integer => f.write_str("an integer type"),
            Types::Only(list) => {
                for (index, dtype) in list.iter().enumerate() {
                    let separator = match index {
                        0 => "",
                        _ if index + 1 == list.len() => " or ",
                        _ => ", ",
                    };
                    write!(f, "{separator}{dtype}")?;
                }
                Ok(())
            }
        }
    }
}

/// The number of occurrences of an input or output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// Exactly one.
    Required,
    /// At most one.
    Optional,
    /// At least one, at the end of the list.
    Variadic,
}

/// An input or output of an operator.
#[derive(Debug, Clone, Copy)]
pub struct OperandDef {
    /// The name in the documentation (ONNX's, where it is an ONNX operator).
    pub name: &'static str,
    /// The number of its occurrences.
    pub arity: Arity,
    /// Its element types.
    pub types: Types,
    /// Whether its elements determine the output's shape: they must be known at compile time.
    pub compile_time: bool,
}

/// A parameter of an operator.
#[derive(Debug, Clone, Copy)]
pub struct AttributeDef {
    /// Its name.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: AttributeKind,
    /// Whether it is required.
    pub required: bool,
    /// Its meaning and default.
    pub doc: &'static str,
}

/// One row of the operator table. Attributes and inputs have the meaning of the newest ONNX
/// operator set; the importer brings older forms into it.
pub struct OperatorDef {
    /// The full name: `Conv` for ONNX's own, `tenon.Conv` for Tenon's.
    pub name: &'static str,
    /// The family it is documented under (the file's name).
    pub family: &'static str,
    /// Its semantics with shapes, in a sentence or two.
    pub doc: &'static str,
    /// Its lowering.
    pub class: OperatorClass,
    /// Its inputs in order.
    pub inputs: &'static [OperandDef],
    /// Its outputs in order.
    pub outputs: &'static [OperandDef],
    /// Its parameters.
    pub attributes: &'static [AttributeDef],
    /// Shape inference: the types of its outputs.
    pub infer: fn(&Inference<'_>) -> Result<Vec<TensorType>>,
}

impl OperatorDef {
    /// The definition of input `index`; a variadic one applies to all from it on.
    pub fn input(&self, index: usize) -> Option<&'static OperandDef> {
        operand(self.inputs, index)
    }

    /// The definition of output `index`; a variadic one applies to all from it on.
    pub fn output(&self, index: usize) -> Option<&'static OperandDef> {
        operand(self.outputs, index)
    }

    /// The definition of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&'static AttributeDef> {
        self.attributes
            .iter()
            .find(|attribute| attribute.name == name)
    }
}

fn operand(rows: &'static [OperandDef], index: usize) -> Option<&'static OperandDef> {
    rows.get(index)
        .or_else(|| rows.last().filter(|row| row.arity == Arity::Variadic))
}

impl fmt::Debug for OperatorDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for OperatorDef {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The definition of an operator.
pub fn operator(name: &str) -> Option<&'static OperatorDef> {
    static INDEX: OnceLock<HashMap<&'static str, &'static OperatorDef>> = OnceLock::new();
    INDEX
        .get_or_init(|| all().map(|def| (def.name, def)).collect())
        .get(name)
        .copied()
}

/// All definitions, family by family.
pub fn all() -> impl Iterator<Item = &'static OperatorDef> {
    crate::ops::FAMILIES.iter().flat_map(|family| family.iter())
}

/// The arguments of shape inference for a node.
pub struct Inference<'a> {
    /// Its attributes.
    pub attributes: &'a Attributes,
    /// The types of its inputs, `None` for an omitted one.
    pub inputs: &'a [Option<&'a TensorType>],
    /// The elements of those inputs that are constants.
    pub constants: &'a [Option<&'a Tensor>],
    /// The number of listed outputs.
    pub outputs: usize,
}

impl<'a> Inference<'a> {
    /// The type of input `index`; an error when it is omitted.
    pub fn input(&self, index: usize) -> Result<&'a TensorType> {
        self.optional(index)
            .ok_or_else(|| Error::new(ErrorKind::InvalidModel, format!("input {index} is missing")))
    }

    /// The type of input `index`, `None` when it is omitted.
    pub fn optional(&self, index: usize) -> Option<&'a TensorType> {
        self.inputs.get(index).copied().flatten()
    }

    /// The elements of input `index`, when they are known.
    pub fn constant(&self, index: usize) -> Option<&'a Tensor> {
        self.constants.get(index).copied().flatten()
    }

    /// The integers of input `index`: `None` when it is omitted, an error when it is not constant.
    pub fn ints(&self, index: usize) -> Result<Option<Vec<i64>>> {
        if self.optional(index).is_none() {
            return Ok(None);
        }
        let known = self.constant(index).and_then(Tensor::to_i64s).ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!("input {index} decides the output's shape, but its value is not known when compiling"),
            )
            .help("give it with --const NAME=FILE if it is an input of the model")
        })?;
        Ok(Some(known))
    }

    /// The elements of input `index`, of any integer or floating-point type: `None` when it is omitted,
    /// an error when it is not constant.
    pub fn float_values(&self, index: usize) -> Result<Option<Vec<f64>>> {
        match self.constant(index).map(float_values_of) {
            Some(Some(values)) => Ok(Some(values)),
            _ => Ok(self
                .ints(index)?
                .map(|ints| ints.iter().map(|&int| int as f64).collect())),
        }
    }

    /// An attribute, for those that have no typed reader in [`Attributes`].
    pub fn attribute(&self, name: &str) -> Option<&'a Attribute> {
        self.attributes.value(name)
    }
}

/// The elements of a floating-point tensor.
fn float_values_of(tensor: &Tensor) -> Option<Vec<f64>> {
    fn all<T: Element + Into<f64>>(tensor: &Tensor) -> Option<Vec<f64>> {
        Some(
            tensor
                .as_slice::<T>()?
                .iter()
                .map(|&element| element.into())
                .collect(),
        )
    }
    match tensor.dtype() {
        DataType::F32 => all::<f32>(tensor),
        DataType::F64 => all::<f64>(tensor),
        DataType::F16 => all::<half::f16>(tensor),
        DataType::BF16 => all::<half::bf16>(tensor),
        _ => None,
    }
}
