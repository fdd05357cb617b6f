//! Values of registers.

use crate::{AsyncValue, Object, Opaque, Shared};
use std::fmt;
use std::sync::Arc;
use tenon_base::Error;

/// The value of a register: 16 bytes, cheap to clone; objects are shared.
#[derive(Clone, Default)]
#[allow(missing_docs, reason = "named after the types of bef 1.3")]
pub enum Value {
    /// No value: not set yet, or dropped.
    #[default]
    Empty,
    I1(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    UI8(u8),
    UI16(u16),
    UI32(u32),
    UI64(u64),
    F16(F16),
    BF16(BF16),
    F32(f32),
    F64(f64),
    Complex64(Complex64),
    /// An ordering between kernels, without data.
    Chain,
    /// An object of an [`Opaque`] type.
    Opaque(Object),
    /// Not available yet; only as arguments and results of functions and as results of kernels.
    /// Operands of kernels are always available.
    Pending(AsyncValue),
    /// The error of a failed computation. Kernels are not called with error operands.
    Error(Arc<Error>),
}

/// An ordering between kernels, as a parameter or result of a kernel function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chain;

/// Raw bits of a half-precision number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct F16(pub u16);

/// Raw bits of a bfloat16 number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BF16(pub u16);

/// A complex number of two f32.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[allow(missing_docs, reason = "they say it")]
pub struct Complex64 {
    pub real: f32,
    pub imaginary: f32,
}

/// A complex number of two f64; too wide for a register, so it is held as an object.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[allow(missing_docs, reason = "they say it")]
pub struct Complex128 {
    pub real: f64,
    pub imaginary: f64,
}

impl Opaque for Complex128 {
    const TYPE: &'static str = "complex<f64>";
}

/// A type that a kernel function can read from a register.
pub trait FromValue: Sized {
    /// The printed type of the register; `?` is any type.
    const TYPE: &'static str;
    /// The value; `None` if it has another type.
    fn from_value(value: &Value) -> Option<Self>;
}

/// A type that a kernel function can return in a register.
pub trait IntoValue {
    /// The printed type of the register; `?` is any type.
    const TYPE: &'static str;
    /// Converts to a register's value.
    fn into_value(self) -> Value;
}

impl Value {
    /// A value of an [`Opaque`] type.
    pub fn opaque<T: Opaque>(value: T) -> Self {
        Value::Opaque(Object::new(value))
    }

    /// An error without a diagnostic.
    pub fn error(error: Error) -> Self {
        Value::Error(Arc::new(error))
    }

    /// The value as a `T`; `None` when it is of another type.
    pub fn read<T: FromValue>(&self) -> Option<T> {
        T::from_value(self)
    }

    /// The object's value as a `T`; `None` when it is of another type.
    pub fn downcast<T: Opaque>(&self) -> Option<&T> {
        match self {
            Value::Opaque(object) => object.downcast(),
            _ => None,
        }
    }

    /// Whether the value is available: not pending, or a pending value that was set.
    pub fn is_available(&self) -> bool {
        match self {
            Value::Pending(value) => value.is_available(),
            _ => true,
        }
    }

    /// The value, with an available pending value replaced by its result.
    pub fn resolved(self) -> Self {
        match &self {
            Value::Pending(value) => match value.get() {
                Some(value) => value.clone(),
                None => self,
            },
            _ => self,
        }
    }

    /// The printed type of this value; `?` for empty, pending and error values.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Empty | Value::Pending(_) | Value::Error(_) => "?",
            Value::I1(_) => "i1",
            Value::I8(_) => "i8",
            Value::I16(_) => "i16",
            Value::I32(_) => "i32",
            Value::I64(_) => "i64",
            Value::UI8(_) => "ui8",
            Value::UI16(_) => "ui16",
            Value::UI32(_) => "ui32",
            Value::UI64(_) => "ui64",
            Value::F16(_) => "f16",
            Value::BF16(_) => "bf16",
            Value::F32(_) => "f32",
            Value::F64(_) => "f64",
            Value::Complex64(_) => "complex<f32>",
            Value::Chain => "!tfrt.chain",
            Value::Opaque(object) => object.type_name(),
        }
    }

    /// Whether a register of the printed type `ty` can hold the value. Objects are not checked:
    /// their type names belong to the kernels, which check them.
    pub(crate) fn fits(&self, ty: &str) -> bool {
        match self {
            Value::Empty => false,
            Value::Opaque(_) | Value::Pending(_) | Value::Error(_) => true,
            _ => !is_typed(ty) || self.type_name() == ty,
        }
    }

    /// Whether the value needs dropping: it holds a reference count.
    #[inline]
    pub(crate) fn needs_drop(&self) -> bool {
        matches!(self, Value::Opaque(_) | Value::Pending(_) | Value::Error(_))
    }
}

/// Whether a register's type is known: a program without the optional sections has `none`.
pub(crate) fn is_typed(ty: &str) -> bool {
    !ty.is_empty() && ty != "none"
}

macro_rules! scalars {
    ($($ty:ty => $variant:ident $name:literal,)*) => {
        $(
            impl FromValue for $ty {
                const TYPE: &'static str = $name;
                #[inline]
                fn from_value(value: &Value) -> Option<Self> {
                    match value {
                        Value::$variant(value) => Some(*value),
                        _ => None,
                    }
                }
            }

            impl IntoValue for $ty {
                const TYPE: &'static str = $name;
                #[inline(always)]
                fn into_value(self) -> Value {
                    Value::$variant(self)
                }
            }
        )*
    };
}

scalars! {
    bool => I1 "i1",
    i8 => I8 "i8",
    i16 => I16 "i16",
    i32 => I32 "i32",
    i64 => I64 "i64",
    u8 => UI8 "ui8",
    u16 => UI16 "ui16",
    u32 => UI32 "ui32",
    u64 => UI64 "ui64",
    F16 => F16 "f16",
    BF16 => BF16 "bf16",
    f32 => F32 "f32",
    f64 => F64 "f64",
    Complex64 => Complex64 "complex<f32>",
}

impl FromValue for Chain {
    const TYPE: &'static str = "!tfrt.chain";
    #[inline]
    fn from_value(value: &Value) -> Option<Self> {
        matches!(value, Value::Chain).then_some(Chain)
    }
}

impl IntoValue for Chain {
    const TYPE: &'static str = "!tfrt.chain";
    #[inline]
    fn into_value(self) -> Value {
        Value::Chain
    }
}

impl FromValue for Value {
    const TYPE: &'static str = "?";
    fn from_value(value: &Value) -> Option<Self> {
        Some(value.clone())
    }
}

impl IntoValue for Value {
    const TYPE: &'static str = "?";
    #[inline]
    fn into_value(self) -> Value {
        self
    }
}

impl<T: Opaque> FromValue for Shared<T> {
    const TYPE: &'static str = T::TYPE;
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Opaque(object) => Shared::from_object(object.clone()).ok(),
            _ => None,
        }
    }
}

impl<T: Opaque> IntoValue for Shared<T> {
    const TYPE: &'static str = T::TYPE;
    fn into_value(self) -> Value {
        Value::Opaque(self.into_object())
    }
}

impl<T: Opaque> IntoValue for T {
    const TYPE: &'static str = T::TYPE;
    fn into_value(self) -> Value {
        Value::opaque(self)
    }
}

impl PartialEq for Value {
    /// Scalars are equal by type and value; objects, pending values and errors by identity.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Empty, Value::Empty) | (Value::Chain, Value::Chain) => true,
            (Value::I1(a), Value::I1(b)) => a == b,
            (Value::I8(a), Value::I8(b)) => a == b,
            (Value::I16(a), Value::I16(b)) => a == b,
            (Value::I32(a), Value::I32(b)) => a == b,
            (Value::I64(a), Value::I64(b)) => a == b,
            (Value::UI8(a), Value::UI8(b)) => a == b,
            (Value::UI16(a), Value::UI16(b)) => a == b,
            (Value::UI32(a), Value::UI32(b)) => a == b,
            (Value::UI64(a), Value::UI64(b)) => a == b,
            (Value::F16(a), Value::F16(b)) => a == b,
            (Value::BF16(a), Value::BF16(b)) => a == b,
            (Value::F32(a), Value::F32(b)) => a == b,
            (Value::F64(a), Value::F64(b)) => a == b,
            (Value::Complex64(a), Value::Complex64(b)) => a == b,
            (Value::Opaque(a), Value::Opaque(b)) => a.is(b),
            (Value::Pending(a), Value::Pending(b)) => a.is(b),
            (Value::Error(a), Value::Error(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number: &dyn fmt::Debug = match self {
            Value::Empty => return f.write_str("empty"),
            Value::Chain => return f.write_str("chain"),
            Value::Opaque(object) => return f.write_str(object.type_name()),
            Value::Pending(_) => return f.write_str("pending"),
            Value::Error(error) => return write!(f, "error: {error}"),
            Value::I1(value) => value,
            Value::I8(value) => value,
            Value::I16(value) => value,
            Value::I32(value) => value,
            Value::I64(value) => value,
            Value::UI8(value) => value,
            Value::UI16(value) => value,
            Value::UI32(value) => value,
            Value::UI64(value) => value,
            Value::F16(value) => value,
            Value::BF16(value) => value,
            Value::F32(value) => value,
            Value::F64(value) => value,
            Value::Complex64(value) => value,
        };
        write!(f, "{number:?} : {}", self.type_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_16_bytes() {
        assert_eq!(size_of::<Value>(), 16);
    }

    #[test]
    fn values_are_read_back_with_their_type() {
        assert_eq!(7i32.into_value().read::<i32>(), Some(7));
        assert_eq!(7i32.into_value().read::<i64>(), None);
        let text = "text".to_owned().into_value();
        assert_eq!(text.type_name(), "!tfrt.string");
        assert_eq!(text.downcast::<String>().unwrap(), "text");
        assert_eq!(*text.read::<Shared<String>>().unwrap(), "text");
    }
}
