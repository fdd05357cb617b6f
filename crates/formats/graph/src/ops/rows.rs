//! Constants and functions for concise rows of the operator table.

use crate::operator::{Arity, AttributeDef, OperandDef, Types};
use crate::{AttributeKind, DataType};

/// The binary floating-point types of computations in ONNX.
pub(super) const FLOATS: Types =
    Types::Only(&[DataType::F32, DataType::F64, DataType::F16, DataType::BF16]);

/// The types of scales: also powers of two, as in microscaling formats.
pub(super) const SCALES: Types = Types::Only(&[
    DataType::F32,
    DataType::F64,
    DataType::F16,
    DataType::BF16,
    DataType::F8E8M0Fnu,
]);

/// Integers of 8 to 64 bits, and the floating-point types.
pub(super) const NUMERIC: Types = Types::Only(&[
    DataType::F32,
    DataType::F64,
    DataType::F16,
    DataType::BF16,
    DataType::I8,
    DataType::I16,
    DataType::I32,
    DataType::I64,
    DataType::U8,
    DataType::U16,
    DataType::U32,
    DataType::U64,
]);

/// Signed numeric types.
pub(super) const SIGNED: Types = Types::Only(&[
    DataType::F32,
    DataType::F64,
    DataType::F16,
    DataType::BF16,
    DataType::I8,
    DataType::I16,
    DataType::I32,
    DataType::I64,
]);

/// Numeric types and bool.
pub(super) const PLAIN: Types = Types::Only(&[
    DataType::F32,
    DataType::F64,
    DataType::F16,
    DataType::BF16,
    DataType::I8,
    DataType::I16,
    DataType::I32,
    DataType::I64,
    DataType::U8,
    DataType::U16,
    DataType::U32,
    DataType::U64,
    DataType::Bool,
]);

/// Integers of 8 to 64 bits.
pub(super) const INTEGERS: Types = Types::Only(&[
    DataType::I8,
    DataType::I16,
    DataType::I32,
    DataType::I64,
    DataType::U8,
    DataType::U16,
    DataType::U32,
    DataType::U64,
]);

/// The types of indices.
pub(super) const INDICES: Types = Types::Only(&[DataType::I64, DataType::I32]);
/// Shapes, axes.
pub(super) const I64: Types = Types::Only(&[DataType::I64]);
/// Lengths of sequences, sums of bytes.
pub(super) const I32: Types = Types::Only(&[DataType::I32]);
/// Single precision.
pub(super) const F32: Types = Types::Only(&[DataType::F32]);
/// Booleans.
pub(super) const BOOL: Types = Types::Only(&[DataType::Bool]);
/// 8-bit quantized types.
pub(super) const BYTES: Types = Types::Only(&[DataType::U8, DataType::I8]);
/// The types of quantized values: integers of 2 to 16 bits, floating-point types of 4 and 8 bits.
pub(super) const QUANTIZED: Types = Types::Only(&[
    DataType::U8,
    DataType::I8,
    DataType::U16,
    DataType::I16,
    DataType::U4,
    DataType::I4,
    DataType::U2,
    DataType::I2,
    DataType::F4E2M1Fn,
    DataType::F8E4M3Fn,
    DataType::F8E4M3FnUz,
    DataType::F8E5M2,
    DataType::F8E5M2FnUz,
]);
/// The types of inputs of dequantization: quantized types and i32.
pub(super) const DEQUANTIZED: Types = Types::Only(&[
    DataType::U8,
    DataType::I8,
    DataType::U16,
    DataType::I16,
    DataType::U4,
    DataType::I4,
    DataType::U2,
    DataType::I2,
    DataType::F4E2M1Fn,
    DataType::F8E4M3Fn,
    DataType::F8E4M3FnUz,
    DataType::F8E5M2,
    DataType::F8E5M2FnUz,
    DataType::I32,
]);
/// Unsigned bytes.
pub(super) const U8: Types = Types::Only(&[DataType::U8]);
/// All types.
pub(super) const ANY: Types = Types::Any;

const fn operand(name: &'static str, arity: Arity, types: Types) -> OperandDef {
    OperandDef {
        name,
        arity,
        types,
        compile_time: false,
    }
}

/// A required operand.
pub(super) const fn required(name: &'static str, types: Types) -> OperandDef {
    operand(name, Arity::Required, types)
}

/// An optional operand.
pub(super) const fn optional(name: &'static str, types: Types) -> OperandDef {
    operand(name, Arity::Optional, types)
}

/// One or more operands.
pub(super) const fn variadic(name: &'static str, types: Types) -> OperandDef {
    operand(name, Arity::Variadic, types)
}

/// The operand determines the output's shape.
pub(super) const fn known(operand: OperandDef) -> OperandDef {
    OperandDef {
        compile_time: true,
        ..operand
    }
}

const fn attribute(name: &'static str, kind: AttributeKind, doc: &'static str) -> AttributeDef {
    AttributeDef {
        name,
        kind,
        required: false,
        doc,
    }
}

/// The attribute has no default.
pub(super) const fn must(attribute: AttributeDef) -> AttributeDef {
    AttributeDef {
        required: true,
        ..attribute
    }
}

/// An integer attribute.
pub(super) const fn int(name: &'static str, doc: &'static str) -> AttributeDef {
    attribute(name, AttributeKind::Int, doc)
}

/// A single-precision attribute.
pub(super) const fn float(name: &'static str, doc: &'static str) -> AttributeDef {
    attribute(name, AttributeKind::Float, doc)
}

/// A string attribute.
pub(super) const fn string(name: &'static str, doc: &'static str) -> AttributeDef {
    attribute(name, AttributeKind::String, doc)
}

/// An attribute of integers.
pub(super) const fn ints(name: &'static str, doc: &'static str) -> AttributeDef {
    attribute(name, AttributeKind::Ints, doc)
}

/// An attribute of single-precision values.
pub(super) const fn floats(name: &'static str, doc: &'static str) -> AttributeDef {
    attribute(name, AttributeKind::Floats, doc)
}

/// An attribute of strings.
pub(super) const fn strings(name: &'static str, doc: &'static str) -> AttributeDef {
    attribute(name, AttributeKind::Strings, doc)
}

/// A tensor attribute.
pub(super) const fn tensor(name: &'static str, doc: &'static str) -> AttributeDef {
    attribute(name, AttributeKind::Tensor, doc)
}

/// The rows of a family: documentation, class, name, inputs, outputs, attributes, shape function.
macro_rules! operators {
    ($family:literal $(
        $(#[doc = $doc:literal])+
        $class:ident $name:literal ($($input:expr),* $(,)?) -> ($($output:expr),* $(,)?)
        [$($attribute:expr),* $(,)?] $infer:expr;
    )*) => {
        pub(super) static OPERATORS: &[$crate::OperatorDef] = &[$($crate::OperatorDef {
            name: $name,
            family: $family,
            doc: concat!($($doc),+).trim_ascii(),
            class: $crate::operator::OperatorClass::$class,
            inputs: &[$($input),*],
            outputs: &[$($output),*],
            attributes: &[$($attribute),*],
            infer: $infer,
        }),*];
    };
}
