//! Printing of scalars, one line each.

use crate::host::float_format::Fixed;
use tenon_executor::{Chain, Complex64, Complex128, F16, Host, KernelDef, kernel};

const DOC: &str = "Prints the value.";

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![
        kernel("tfrt.print.i1", |x: bool, _: Chain, host: &Host| {
            host.print(format_args!("int1 = {}\n", u8::from(x)));
            Chain
        })
        .doc(DOC),
        kernel("tfrt.print.i32", |x: i32, _: Chain, host: &Host| {
            host.print(format_args!("int32 = {x}\n"));
            Chain
        })
        .doc(DOC),
        kernel("tfrt.print.i64", |x: i64, _: Chain, host: &Host| {
            host.print(format_args!("int64 = {x}\n"));
            Chain
        })
        .doc(DOC),
        kernel("tfrt.print.f16", |x: F16, _: Chain, host: &Host| {
            host.print(format_args!("f16 = {}\n", x.0));
            Chain
        })
        .doc("Prints the raw bits of the value."),
        kernel("tfrt.print.f32", |x: f32, _: Chain, host: &Host| {
            host.print(format_args!("f32 = {}\n", Fixed(x.into())));
            Chain
        })
        .doc(DOC),
        kernel("tfrt.print.f64", |x: f64, _: Chain, host: &Host| {
            host.print(format_args!("f64 = {}\n", Fixed(x)));
            Chain
        })
        .doc(DOC),
        kernel(
            "tfrt.print.complex64",
            |x: Complex64, _: Chain, host: &Host| {
                let [real, imaginary] = [x.real, x.imaginary].map(|part| Fixed(part.into()));
                host.print(format_args!("complex64 = {real}+{imaginary}i\n"));
                Chain
            },
        )
        .doc(DOC),
        kernel(
            "tfrt.print.complex128",
            |x: &Complex128, _: Chain, host: &Host| {
                let [real, imaginary] = [x.real, x.imaginary].map(Fixed);
                host.print(format_args!("complex128 = {real}+{imaginary}i\n"));
                Chain
            },
        )
        .doc(DOC),
    ]
}
