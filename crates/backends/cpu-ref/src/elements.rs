//! Access to single elements by dynamic type: for conversions, which would need a kernel for each pair of
//! types, and for parameters.

use crate::number::Number;
use half::{bf16, f16};
use tenon_backend::{Inputs, Outputs};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{ConvertFn, DataType, Packing, converter};

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

    /// Rounded once to single precision.
    pub(crate) fn single(self) -> f32 {
        match self {
            Value::Real(value) => value as f32,
            Value::Integer(value) => value as f32,
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
            /// Floating point of 8 bits, with the conversion to f64.
            Small(&'a [u8], ConvertFn),
            /// Of less than a byte.
            Packed(&'a [u8], Packing),
        }

        /// The elements of an output of any numeric type.
        pub(crate) enum ElementsMut<'a> {
            $($real(&'a mut [$real_type]),)*
            $($integer(&'a mut [$integer_type]),)*
            Bool(&'a mut [u8]),
            /// Floating point of 8 bits, with the conversion from f64.
            Small(&'a mut [u8], ConvertFn),
            /// Of less than a byte.
            Packed(&'a mut [u8], Packing),
        }

        /// Whether [`Elements`] and [`ElementsMut`] have this type.
        pub(crate) fn is_numeric(dtype: DataType) -> bool {
            use DataType::*;
            matches!(dtype, $($real |)* $($integer |)* Bool)
                || Packing::of(dtype).is_some()
                || is_small_float(dtype)
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
                    other => {
                        let bytes = inputs.slice(index)?;
                        match (Packing::of(other), converter(other, DataType::F64)) {
                            (Some(packing), _) => Elements::Packed(bytes, packing),
                            (_, Some(read)) if is_small_float(other) => Elements::Small(bytes, read),
                            _ => return Err(unknown(other)),
                        }
                    }
                })
            }

            /// The exact value of element `at`.
            pub(crate) fn value(self, at: usize) -> Value {
                match self {
                    $(Elements::$real(all) => Value::Real(all[at].into()),)*
                    $(Elements::$integer(all) => Value::Integer(all[at].into()),)*
                    Elements::Bool(all) => Value::Integer((all[at] != 0).into()),
                    Elements::Small(all, read) => {
                        let mut wide = [0; 8];
                        read(&all[at..=at], &mut wide);
                        Value::Real(f64::from_le_bytes(wide))
                    }
                    Elements::Packed(all, packing) => match packing.integer(all, at) {
                        Some(integer) => Value::Integer(integer.into()),
                        None => Value::Real(packing.value(all, at)),
                    },
                }
            }
        }

        impl Elements<'_> {
            /// The elements from `start` on as f64, as many as `to` has.
            pub(crate) fn reals(self, start: usize, to: &mut [f64]) {
                match self {
                    $(Elements::$real(all) => {
                        <$real_type>::to_reals(&all[start..start + to.len()], to);
                    })*
                    $(Elements::$integer(all) => {
                        <$integer_type>::to_reals(&all[start..start + to.len()], to);
                    })*
                    _ => to.iter_mut().zip(start..).for_each(|(to, at)| *to = self.at(at)),
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
                    other => {
                        let bytes = outputs.slice(index)?;
                        match (Packing::of(other), converter(DataType::F64, other)) {
                            (Some(packing), _) => ElementsMut::Packed(bytes, packing),
                            (_, Some(write)) if is_small_float(other) => {
                                ElementsMut::Small(bytes, write)
                            }
                            _ => return Err(unknown(other)),
                        }
                    }
                })
            }

            /// Converts values to the elements from `at` on, as [`set`](Self::set) does.
            pub(crate) fn set_reals(&mut self, at: usize, values: &[f64]) {
                match self {
                    $(ElementsMut::$real(all) => {
                        <$real_type>::from_reals(values, &mut all[at..at + values.len()]);
                    })*
                    $(ElementsMut::$integer(all) => {
                        <$integer_type>::from_reals(values, &mut all[at..at + values.len()]);
                    })*
                    _ => values.iter().zip(at..).for_each(|(&x, at)| self.set(at, Value::Real(x))),
                }
            }

            /// Copies `count` elements of the same type from `start` of `from` to `at`. Elements of less than a byte must be
            /// set in order.
            pub(crate) fn copy(&mut self, at: usize, from: Elements<'_>, start: usize, count: usize) {
                match (&mut *self, from) {
                    $((ElementsMut::$real(to), Elements::$real(from)) => {
                        to[at..at + count].copy_from_slice(&from[start..start + count]);
                    })*
                    _ => (0..count).for_each(|nth| self.set(at + nth, from.value(start + nth))),
                }
            }

            /// Converts `value` to element `at`: rounds to floating-point types; wraps integers;
            /// truncates and saturates floating point to integers of whole bytes, keeps the low bits of
            /// smaller ones. Elements of less than a byte must be set in order.
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
                    ElementsMut::Small(all, write) => {
                        write(&value.real().to_le_bytes(), &mut all[at..=at]);
                    }
                    ElementsMut::Packed(all, packing) => {
                        let code = match value {
                            Value::Real(value) => packing.cast(value),
                            Value::Integer(value) => packing.wrapped(value),
                        };
                        packing.set(all, at, code);
                    }
                }
            }
        }
    };
}

fn is_small_float(dtype: DataType) -> bool {
    dtype.is_float() && dtype.bits() == 8
}

fn unknown(found: DataType) -> Error {
    Error::new(ErrorKind::Unsupported, "no conversion for this type").found(found)
}

element_types! {
    floats {
        F32 f32: Value::single;
        F64 f64: Value::real;
        F16 f16: |value: Value| <f16 as Number>::of_f64(value.real());
        BF16 bf16: |value: Value| <bf16 as Number>::of_f64(value.real());
    }
    integers {
        I8 i8; I16 i16; I32 i32; I64 i64; U8 u8; U16 u16; U32 u32; U64 u64;
    }
}

impl Elements<'_> {
    /// The elements at `start`, `start + stride`... as f64.
    pub(crate) fn strided(self, start: usize, stride: isize, to: &mut [f64]) {
        match stride {
            1 => self.reals(start, to),
            0 => to.fill(self.at(start)),
            _ => {
                for (nth, to) in to.iter_mut().enumerate() {
                    *to = self.at(start.wrapping_add_signed(nth as isize * stride));
                }
            }
        }
    }

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
        let packing = Packing::of(DataType::I4).unwrap();
        let mut elements = ElementsMut::Packed(&mut bytes, packing);
        for (at, value) in [-8, 7, -1].into_iter().enumerate() {
            elements.set(at, Value::Integer(value));
        }
        assert_eq!(bytes, [0x78, 0x0f]);
        let values: Vec<f64> = (0..3)
            .map(|at| Elements::Packed(&bytes, packing).at(at))
            .collect();
        assert_eq!(values, [-8.0, 7.0, -1.0]);
        let unsigned = Packing::of(DataType::U4).unwrap();
        assert_eq!(Elements::Packed(&bytes, unsigned).at(0), 8.0);
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
