//! Code that is generic over the element type, instantiated for a [`DataType`](crate::DataType) that is
//! known at run time.

/// Evaluates an expression with a type parameter that is the Rust type of a
/// [`DataType`](crate::DataType).
///
/// `match_type!(dtype, T: class => body, found => otherwise)`: `T` names the type in `body`. For a data
/// type that is not in the class, `otherwise` is evaluated, where `found` (a pattern) is the data type.
/// The classes:
///
/// | class | types |
/// |---|---|
/// | `float` | `f32`, `f64`, [`f16`](crate::f16), [`bf16`](crate::bf16) |
/// | `integer` | `i8` to `i64`, `u8` to `u64` |
/// | `numeric` | both |
/// | `index` | `i64`, `i32` |
/// | `word` | the unsigned integer of the element's size, 1 to 8 bytes, to move elements of any type |
///
/// ```
/// use tenon_tensor::{DataType, Element, match_type};
///
/// fn smallest(dtype: DataType) -> Result<f64, DataType> {
///     match_type!(dtype, T: integer => Ok(T::MIN as f64), found => Err(found))
/// }
///
/// assert_eq!(smallest(DataType::I8), Ok(-128.0));
/// assert_eq!(smallest(DataType::F32), Err(DataType::F32));
///
/// let word = match_type!(DataType::C64, T: word => Some(T::DATA_TYPE), _ => None);
/// assert_eq!(word, Some(DataType::U64));
/// ```
#[macro_export]
macro_rules! match_type {
    ($dtype:expr, $T:ident: float => $body:expr, $found:pat => $otherwise:expr $(,)?) => {
        $crate::match_type!(@each $dtype, $T => $body, $found => $otherwise;
            F32 f32, F64 f64, F16 $crate::f16, BF16 $crate::bf16)
    };
    ($dtype:expr, $T:ident: integer => $body:expr, $found:pat => $otherwise:expr $(,)?) => {
        $crate::match_type!(@each $dtype, $T => $body, $found => $otherwise;
            I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64)
    };
    ($dtype:expr, $T:ident: numeric => $body:expr, $found:pat => $otherwise:expr $(,)?) => {
        $crate::match_type!(@each $dtype, $T => $body, $found => $otherwise;
            F32 f32, F64 f64, F16 $crate::f16, BF16 $crate::bf16,
            I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64)
    };
    ($dtype:expr, $T:ident: index => $body:expr, $found:pat => $otherwise:expr $(,)?) => {
        $crate::match_type!(@each $dtype, $T => $body, $found => $otherwise; I64 i64, I32 i32)
    };
    ($dtype:expr, $T:ident: word => $body:expr, $found:pat => $otherwise:expr $(,)?) => {{
        let dtype: $crate::DataType = $dtype;
        $crate::match_type!(@values dtype.bits(), $T => $body, _ => {
            let $found = dtype;
            $otherwise
        }; 8 => u8, 16 => u16, 32 => u32, 64 => u64)
    }};
    (@each $dtype:expr, $T:ident => $body:expr, $found:pat => $otherwise:expr;
        $($name:ident $rust:ty),*) => {
        $crate::match_type!(@values $dtype, $T => $body, $found => $otherwise;
            $($crate::DataType::$name => $rust),*)
    };
    (@values $value:expr, $T:ident => $body:expr, $found:pat => $otherwise:expr;
        $($each:pat => $rust:ty),*) => {
        match $value {
            $($each => {
                type $T = $rust;
                $body
            })*
            $found => $otherwise,
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::{DataType, Element};

    #[test]
    fn each_type_is_that_of_its_data_type() {
        for &dtype in DataType::ALL {
            let numeric = match_type!(dtype, T: numeric => Some(T::DATA_TYPE), _ => None);
            assert!(numeric.is_none_or(|found| found == dtype));
            let float = match_type!(dtype, T: float => Some(T::DATA_TYPE), _ => None);
            let integer = match_type!(dtype, T: integer => Some(T::DATA_TYPE), _ => None);
            assert_eq!(numeric, float.or(integer));
            let index = match_type!(dtype, T: index => Some(T::DATA_TYPE), _ => None);
            assert!(index.is_none_or(|found| found == dtype));
        }
    }

    #[test]
    fn words_have_the_size_of_the_element() {
        for &dtype in DataType::ALL {
            let bits = match_type!(dtype, T: word => Some(T::BITS as usize), found => {
                assert_eq!(found, dtype);
                None
            });
            let expected = [8, 16, 32, 64].contains(&dtype.bits());
            assert_eq!(bits, expected.then_some(dtype.bits()), "{dtype}");
        }
    }
}
