//! Access to single elements by dynamic type: for conversions, which would need a kernel for each pair of
//! types, and for parameters.

use half::{bf16, f16};
use tenon_backend::{Inputs, Outputs};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::DataType;

/// The value of an element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    /// A floating-point value.
    Real(f64),
    /// An integer or a bool.
    Integer(i128),
}

impl Value {
    pub(crate) fn real(self) -> f64 {
        match self {
            Value::Real(value) => value,
            Value::Integer(value) => value as f64,
        }
    }

    /// Truncates; NaN is 0.
    fn integer(self) -> i128 {
        match self {
            Value::Real(value) => value as i128,
            Value::Integer(value) => value,
        }
    }

    fn truth(self) -> bool {
        match self {
            Value::Real(value) => value != 0.0,
            Value::Integer(value) => value != 0,
        }
    }
}

macro_rules! element_types {
    (
        floats { $($real:ident $real_type:ty: $round:expr;)* }
        integers { $($integer:ident $integer_type:ty;)* }
    ) => {
        /// The elements of an input of any numeric type.
        #[derive(Clone, Copy)]
        pub(crate) enum Elements<'a> {
            $($real(&'a [$real_type]),)*
            $($integer(&'a [$integer_type]),)*
            Bool(&'a [u8]),
            I4(&'a [u8]),
            U4(&'a [u8]),
        }

        /// The elements of an output of any numeric type.
        pub(crate) enum ElementsMut<'a> {
            $($real(&'a mut [$real_type]),)*
            $($integer(&'a mut [$integer_type]),)*
            Bool(&'a mut [u8]),
            I4(&'a mut [u8]),
            U4(&'a mut [u8]),
        }

        /// Whether [`Elements`] and [`ElementsMut`] have this type.
        pub(crate) fn is_numeric(dtype: DataType) -> bool {
            use DataType::*;
            matches!(dtype, $($real |)* $($integer |)* Bool | I4 | U4)
        }

        impl<'a> Elements<'a> {
            /// The elements of input `index`, of type `dtype`.
            pub(crate) fn new(
                inputs: &Inputs<'a>,
                index: usize,
                dtype: DataType,
            ) -> Result<Self> {
                Ok(match dtype {
                    $(DataType::$real => Elements::$real(inputs.slice(index)?),)*
                    $(DataType::$integer => Elements::$integer(inputs.slice(index)?),)*
                    DataType::Bool => Elements::Bool(inputs.slice(index)?),
                    DataType::I4 => Elements::I4(inputs.slice(index)?),
                    DataType::U4 => Elements::U4(inputs.slice(index)?),
                    found => return Err(unknown(found)),
                })
            }

            /// The exact value of element `at`.
            pub(crate) fn value(self, at: usize) -> Value {
                match self {
                    $(Elements::$real(all) => Value::Real(all[at].into()),)*
                    $(Elements::$integer(all) => Value::Integer(all[at].into()),)*
                    Elements::Bool(all) => Value::Integer((all[at] != 0).into()),
                    Elements::I4(all) => {
                        // Bit 3 is the sign of a nibble.
                        Value::Integer(((nibble(all[at / 2], at) << 4) as i8 >> 4).into())
                    }
                    Elements::U4(all) => Value::Integer(nibble(all[at / 2], at).into()),
                }
            }
        }

        impl<'a> ElementsMut<'a> {
            /// The elements of output `index`, of type `dtype`.
            pub(crate) fn new(
                outputs: &mut Outputs<'a>,
                index: usize,
                dtype: DataType,
            ) -> Result<Self> {
                Ok(match dtype {
                    $(DataType::$real => ElementsMut::$real(outputs.slice(index)?),)*
                    $(DataType::$integer => ElementsMut::$integer(outputs.slice(index)?),)*
                    DataType::Bool => ElementsMut::Bool(outputs.slice(index)?),
                    DataType::I4 => ElementsMut::I4(outputs.slice(index)?),
                    DataType::U4 => ElementsMut::U4(outputs.slice(index)?),
                    found => return Err(unknown(found)),
                })
            }

            /// Converts `value` to element `at`: rounds to floating-point types; wraps integers;
            /// truncates and saturates floating point to integers. Elements of half a byte must be
            /// set in order.
            pub(crate) fn set(&mut self, at: usize, value: Value) {
                match self {
                    $(ElementsMut::$real(all) => all[at] = $round(value),)*
                    $(ElementsMut::$integer(all) => {
                        all[at] = match value {
                            Value::Real(value) => value as $integer_type,
                            Value::Integer(value) => value as $integer_type,
                        };
                    })*
                    ElementsMut::Bool(all) => all[at] = value.truth().into(),
                    ElementsMut::I4(all) | ElementsMut::U4(all) => {
                        let nibble = (value.integer() & 15) as u8;
                        // The first of two clears the other, which may be beyond the end.
                        if at.is_multiple_of(2) {
                            all[at / 2] = nibble;
                        } else {
                            all[at / 2] = all[at / 2] & 15 | nibble << 4;
                        }
                    }
                }
            }
        }
    };
}

fn nibble(byte: u8, at: usize) -> u8 {
    if at.is_multiple_of(2) {
        byte & 15
    } else {
        byte >> 4
    }
}

fn unknown(found: DataType) -> Error {
    Error::new(ErrorKind::Unsupported, "no conversion for this type").found(found)
}

element_types! {
    floats {
        F32 f32: |value| match value {
            Value::Real(value) => value as f32,
            Value::Integer(value) => value as f32,
        };
        F64 f64: Value::real;
        F16 f16: |value: Value| f16::from_f64(value.real());
        BF16 bf16: |value: Value| bf16::from_f64(value.real());
    }
    integers {
        I8 i8; I16 i16; I32 i32; I64 i64; U8 u8; U16 u16; U32 u32; U64 u64;
    }
}

impl Elements<'_> {
    /// Element `at` as f64; large integers are rounded.
    pub(crate) fn at(self, at: usize) -> f64 {
        self.value(at).real()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_bytes_are_packed_low_first() {
        let mut bytes = [0xff; 2];
        let mut elements = ElementsMut::I4(&mut bytes);
        for (at, value) in [-8, 7, -1].into_iter().enumerate() {
            elements.set(at, Value::Integer(value));
        }
        assert_eq!(bytes, [0x78, 0x0f]);
        let values: Vec<f64> = (0..3).map(|at| Elements::I4(&bytes).at(at)).collect();
        assert_eq!(values, [-8.0, 7.0, -1.0]);
        assert_eq!(Elements::U4(&bytes).at(0), 8.0);
    }

    #[test]
    fn conversions_round_wrap_and_saturate() {
        let mut bytes = [0u8; 3];
        let mut elements = ElementsMut::U8(&mut bytes);
        elements.set(0, Value::Real(-1.5));
        elements.set(1, Value::Integer(-1));
        elements.set(2, Value::Real(2.9));
        assert_eq!(bytes, [0, 255, 2]);
        let mut one = [0f32];
        // Rounded once: through f64 the result would be 2^60.
        ElementsMut::F32(&mut one).set(0, Value::Integer((1 << 60) + (1 << 36) + 1));
        assert_eq!(one[0], 1152921642045800448.0);
    }
}
