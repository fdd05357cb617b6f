//! Constants, arithmetic, comparisons and conversions of scalars.

use crate::host::failed;
use tenon_base::Result;
use tenon_executor::{Attr, BF16, Complex64, Complex128, F16, KernelDef, kernel};

macro_rules! constants {
    ($($name:literal $type:ty,)*) => {
        vec![$(
            kernel(concat!("tfrt.constant.", $name), |value: Attr<$type>| value.0)
                .doc("The attribute `value`."),
        )*]
    };
}

macro_rules! integers {
    ($($name:literal $type:ty,)*) => {
        vec![$(
            kernel(concat!("tfrt.add.", $name), |a: $type, b: $type| a.wrapping_add(b))
                .doc("a + b, wrapping."),
            kernel(concat!("tfrt.minus.", $name), |a: $type, b: $type| a.wrapping_sub(b))
                .doc("a - b, wrapping."),
            kernel(concat!("tfrt.mul.", $name), |a: $type, b: $type| a.wrapping_mul(b))
                .doc("a * b, wrapping."),
            kernel(concat!("tfrt.equal.", $name), |a: $type, b: $type| a == b)
                .doc("Whether a = b."),
            kernel(concat!("tfrt.lessequal.", $name), |a: $type, b: $type| a <= b)
                .doc("Whether a <= b."),
            kernel(concat!("tfrt.div.", $name), |a: $type, b: $type| -> Result<($type, $type)> {
                if b == 0 {
                    return Err(failed(DIVIDE_BY_ZERO));
                }
                Ok((a.wrapping_div(b), a.wrapping_rem(b)))
            })
            .doc("Quotient, rounded to zero, and remainder; an error when b is 0."),
        )*]
    };
}

macro_rules! floats {
    ($($name:literal $type:ty,)*) => {
        vec![$(
            kernel(concat!("tfrt.add.", $name), |a: $type, b: $type| a + b).doc("a + b."),
            kernel(concat!("tfrt.multiply.", $name), |a: $type, b: $type| a * b).doc("a * b."),
            // As in the original, the second operand is returned only if it is less: a NaN as first
            // operand is kept.
            kernel(concat!("tfrt.minimum.", $name), |a: $type, b: $type| if b < a { b } else { a })
                .doc("The lesser of a and b."),
            kernel(concat!("tfrt.div.", $name), |a: $type, b: $type| -> Result<$type> {
                if b == 0.0 {
                    return Err(failed(DIVIDE_BY_ZERO));
                }
                Ok(a / b)
            })
            .doc("a / b; an error when b is 0."),
        )*]
    };
}

const DIVIDE_BY_ZERO: &str = "Divide by zero";

pub(super) fn kernels() -> Vec<KernelDef> {
    let constants = constants! {
        "i1" bool, "i32" i32, "i64" i64, "ui32" u32, "ui64" u64,
        "bf16" BF16, "f16" F16, "f32" f32, "f64" f64,
    };
    let complex = vec![
        kernel(
            "tfrt.constant.complex64",
            |imaginary: Attr<f32>, real: Attr<f32>| Complex64 {
                real: real.0,
                imaginary: imaginary.0,
            },
        )
        .doc("The complex number of the attributes `imaginary` and `real`."),
        kernel(
            "tfrt.constant.complex128",
            |imaginary: Attr<f64>, real: Attr<f64>| Complex128 {
                real: real.0,
                imaginary: imaginary.0,
            },
        )
        .doc("The complex number of the attributes `imaginary` and `real`."),
    ];
    let logic = vec![kernel("tfrt.and.i1", |a: bool, b: bool| a & b).doc("Whether both are true.")];
    let integers = integers! { "i32" i32, "i64" i64, };
    let floats = floats! { "f32" f32, "f64" f64, };
    let casts = vec![
        kernel("tfrt.cast.i64_to_f32", |a: i64| a as f32).doc("The nearest f32."),
        kernel("tfrt.cast.i64_to_f64", |a: i64| a as f64).doc("The nearest f64."),
        kernel("tfrt.cast.f32_to_i64", |a: f32| a as i64).doc(TRUNCATE),
        kernel("tfrt.cast.f64_to_i64", |a: f64| a as i64).doc(TRUNCATE),
    ];
    let families = [constants, complex, logic, integers, floats, casts];
    families.into_iter().flatten().collect()
}

/// In C the conversion of a value out of range is undefined.
const TRUNCATE: &str = "The integer towards zero, saturating; 0 for NaN.";
