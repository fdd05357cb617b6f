//! What a register of a synchronous function holds.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The value of a register.
#[derive(Clone, Default)]
pub enum Value {
    /// Nothing yet, or nothing any more.
    #[default]
    Empty,
    /// A truth value.
    I1(bool),
    /// A 32-bit integer.
    I32(i32),
    /// A 64-bit integer.
    I64(i64),
    /// A single-precision number.
    F32(f32),
    /// A double-precision number.
    F64(f64),
    /// An order between kernels, no data.
    Chain,
    /// Anything else that kernels hand to each other.
    Opaque(Arc<dyn Any + Send + Sync>),
}

impl Value {
    /// The printed type of this value; `?` where it has none of its own.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Empty | Value::Opaque(_) => "?",
            Value::I1(_) => "i1",
            Value::I32(_) => "i32",
            Value::I64(_) => "i64",
            Value::F32(_) => "f32",
            Value::F64(_) => "f64",
            Value::Chain => "!tfrt.chain",
        }
    }

    /// Whether it may stand in a register of the printed type `ty`.
    pub(crate) fn fits(&self, ty: &str) -> bool {
        match self {
            Value::Empty => false,
            Value::Opaque(_) => true,
            _ => !is_typed(ty) || self.type_name() == ty,
        }
    }
}

/// Whether a register's type is known: a program without the optional sections has `none`.
pub(crate) fn is_typed(ty: &str) -> bool {
    !ty.is_empty() && ty != "none"
}

impl PartialEq for Value {
    /// Equal kind and number; opaque values are equal when they are the same one.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Empty, Value::Empty) | (Value::Chain, Value::Chain) => true,
            (Value::I1(a), Value::I1(b)) => a == b,
            (Value::I32(a), Value::I32(b)) => a == b,
            (Value::I64(a), Value::I64(b)) => a == b,
            (Value::F32(a), Value::F32(b)) => a == b,
            (Value::F64(a), Value::F64(b)) => a == b,
            (Value::Opaque(a), Value::Opaque(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Empty => f.write_str("empty"),
            Value::I1(value) => write!(f, "{value} : i1"),
            Value::I32(value) => write!(f, "{value} : i32"),
            Value::I64(value) => write!(f, "{value} : i64"),
            Value::F32(value) => write!(f, "{value} : f32"),
            Value::F64(value) => write!(f, "{value} : f64"),
            Value::Chain => f.write_str("chain"),
            Value::Opaque(_) => f.write_str("opaque"),
        }
    }
}
