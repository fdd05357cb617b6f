//! Words that keep the rows of the table short.

use crate::operator::{Arity, AttributeDef, OperandDef, Types};
use crate::{AttributeKind, DataType};

/// The binary floating-point types that ONNX computes with.
pub(super) const FLOATS: Types =
    Types::Only(&[DataType::F32, DataType::F64, DataType::F16, DataType::BF16]);

/// Integers of 8 to 64 bits, and the floating-point types.
pub(super) const NUMBERS: Types = Types::Only(&[
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

/// Numbers with a sign.
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

/// Numbers and truth values.
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

/// What positions in tensors are counted in.
pub(super) const INDICES: Types = Types::Only(&[DataType::I64, DataType::I32]);
/// Shapes, axes.
pub(super) const I64: Types = Types::Only(&[DataType::I64]);
/// Lengths of sequences, wide sums.
pub(super) const I32: Types = Types::Only(&[DataType::I32]);
/// Single precision alone.
pub(super) const F32: Types = Types::Only(&[DataType::F32]);
/// Truth values.
pub(super) const BOOL: Types = Types::Only(&[DataType::Bool]);
/// Quantized to a byte.
pub(super) const BYTES: Types = Types::Only(&[DataType::U8, DataType::I8]);
/// Everything that numbers are quantized to: integers, and bytes with a point.
pub(super) const QUANTIZED: Types = Types::Only(&[
    DataType::U8,
    DataType::I8,
    DataType::U16,
    DataType::I16,
    DataType::U4,
    DataType::I4,
    DataType::F8E4M3Fn,
    DataType::F8E4M3FnUz,
    DataType::F8E5M2,
    DataType::F8E5M2FnUz,
]);
/// What numbers are dequantized from: the same, and wide sums.
pub(super) const DEQUANTIZED: Types = Types::Only(&[
    DataType::U8,
    DataType::I8,
    DataType::U16,
    DataType::I16,
    DataType::U4,
    DataType::I4,
    DataType::F8E4M3Fn,
    DataType::F8E4M3FnUz,
    DataType::F8E5M2,
    DataType::F8E5M2FnUz,
    DataType::I32,
]);
/// Unsigned bytes.
pub(super) const U8: Types = Types::Only(&[DataType::U8]);
/// Any type at all.
pub(super) const ANY: Types = Types::Any;

const fn operand(name: &'static str, arity: Arity, types: Types) -> OperandDef {
    OperandDef {
        name,
        arity,
        types,
        compile_time: false,
    }
}

/// An operand that is always there.
pub(super) const fn required(name: &'static str, types: Types) -> OperandDef {
    operand(name, Arity::Required, types)
}

/// An operand that may be left out.
pub(super) const fn optional(name: &'static str, types: Types) -> OperandDef {
    operand(name, Arity::Optional, types)
}

/// Any number of operands, at least one.
pub(super) const fn variadic(name: &'static str, types: Types) -> OperandDef {
    operand(name, Arity::Variadic, types)
}

/// The operand decides the output's shape.
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

/// An attribute that is an integer.
pub(super) const fn int(name: &'static str, doc: &'static str) -> AttributeDef {
    attribute(name, AttributeKind::Int, doc)
}

/// An attribute that is a number.
pub(super) const fn float(name: &'static str, doc: &'static str) -> AttributeDef {
    attribute(name, AttributeKind::Float, doc)
}

/// An attribute that is a text.
pub(super) const fn string(name: &'static str, doc: &'static str) -> AttributeDef {
    attribute(name, AttributeKind::String, doc)
}

/// An attribute that is a list of integers.
pub(super) const fn ints(name: &'static str, doc: &'static str) -> AttributeDef {
    attribute(name, AttributeKind::Ints, doc)
}

/// An attribute that is a list of numbers.
pub(super) const fn floats(name: &'static str, doc: &'static str) -> AttributeDef {
    attribute(name, AttributeKind::Floats, doc)
}

/// An attribute that is a list of texts.
pub(super) const fn strings(name: &'static str, doc: &'static str) -> AttributeDef {
    attribute(name, AttributeKind::Strings, doc)
}

/// An attribute that is a tensor.
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
