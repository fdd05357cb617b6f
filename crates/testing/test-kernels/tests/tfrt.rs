//! Scalars, printing and chains.

mod program;

use program::{refusal, run};

/// Runs `body` and compares its output.
#[track_caller]
fn prints(body: &str, expected: &str) {
    let text = format!("func.func @main() {{\n  %ch = tfrt.new.chain\n{body}\n  tfrt.return\n}}\n");
    assert_eq!(run(&text), expected);
}

/// Runs `body`, which makes `%r` of type `ty`, and compares the result.
#[track_caller]
fn answers(body: &str, ty: &str, expected: &str) {
    let text = format!("func.func @main() -> {ty} {{\n{body}\n  tfrt.return %r : {ty}\n}}\n");
    assert_eq!(run(&text), format!("returned {expected}\n"));
}

#[test]
fn constants_have_their_values() {
    for (ty, value, expected) in [
        ("i1", "true", "1"),
        ("i32", "-7", "-7"),
        ("i64", "9223372036854775807", "9223372036854775807"),
        ("f32", "1.5", "1.500000e+00"),
        ("f64", "-0.25", "-2.500000e-01"),
        ("ui32", "7", "7 : ui32"),
        ("ui64", "7", "7 : ui64"),
        ("f16", "1.0", "F16(15360) : f16"),
        ("bf16", "1.0", "BF16(16256) : bf16"),
    ] {
        answers(&format!("  %r = tfrt.constant.{ty} {value}"), ty, expected);
    }
}

#[test]
fn integer_arithmetic_wraps() {
    for ty in ["i32", "i64"] {
        let with = |a: &str, b: &str, op: &str, result: &str| {
            format!(
                "  %a = tfrt.constant.{ty} {a}\n  %b = tfrt.constant.{ty} {b}\n  \
                 %r = \"tfrt.{op}.{ty}\"(%a, %b) : ({ty}, {ty}) -> {result}"
            )
        };
        answers(&with("40", "2", "add", ty), ty, "42");
        answers(&with("40", "2", "minus", ty), ty, "38");
        answers(&with("40", "-2", "mul", ty), ty, "-80");
        answers(&with("2", "2", "equal", "i1"), "i1", "1");
        answers(&with("2", "3", "equal", "i1"), "i1", "0");
        answers(&with("2", "2", "lessequal", "i1"), "i1", "1");
        answers(&with("3", "2", "lessequal", "i1"), "i1", "0");
    }
    answers(
        "  %a = tfrt.constant.i32 2147483647\n  %r = tfrt.add.i32 %a, %a",
        "i32",
        "-2",
    );
}

#[test]
fn integer_division_rounds_towards_zero() {
    for ty in ["i32", "i64"] {
        let text = |a: &str, b: &str| {
            format!(
                "func.func @main() -> ({ty}, {ty}) {{\n  %a = tfrt.constant.{ty} {a}\n  \
                 %b = tfrt.constant.{ty} {b}\n  %q, %r = tfrt.div.{ty} %a, %b\n  \
                 tfrt.return %q, %r : {ty}, {ty}\n}}\n"
            )
        };
        assert_eq!(run(&text("7", "2")), "returned 3,1\n");
        assert_eq!(run(&text("-7", "2")), "returned -3,-1\n");
        assert_eq!(
            run(&text("7", "0")),
            "error: Divide by zero\nreturned <<error: Divide by zero>>,<<error: Divide by zero>>\n"
        );
    }
    let least = "func.func @main() -> (i32, i32) {\n  %a = tfrt.constant.i32 -2147483648\n  \
                 %b = tfrt.constant.i32 -1\n  %q, %r = tfrt.div.i32 %a, %b\n  \
                 tfrt.return %q, %r : i32, i32\n}\n";
    assert_eq!(run(least), "returned -2147483648,0\n");
}

#[test]
fn floating_point_arithmetic_computes() {
    for ty in ["f32", "f64"] {
        let with = |a: &str, b: &str, op: &str| {
            format!(
                "  %a = tfrt.constant.{ty} {a}\n  %b = tfrt.constant.{ty} {b}\n  \
                 %r = \"tfrt.{op}.{ty}\"(%a, %b) : ({ty}, {ty}) -> {ty}"
            )
        };
        answers(&with("1.5", "2.0", "add"), ty, "3.500000e+00");
        answers(&with("1.5", "2.0", "multiply"), ty, "3.000000e+00");
        answers(&with("1.5", "2.0", "minimum"), ty, "1.500000e+00");
        answers(&with("1.5", "-2.0", "minimum"), ty, "-2.000000e+00");
        answers(&with("1.0", "3.0", "div"), ty, "3.333333e-01");
        let text = format!(
            "func.func @main() -> {ty} {{\n{}\n  tfrt.return %r : {ty}\n}}\n",
            with("1.0", "0.0", "div")
        );
        assert_eq!(
            run(&text),
            "error: Divide by zero\nreturned <<error: Divide by zero>>\n"
        );
    }
}

#[test]
fn casts_truncate_and_saturate() {
    for (from, value, to, expected) in [
        ("i64", "16777217", "f32", "1.677722e+07"),
        ("i64", "-3", "f64", "-3.000000e+00"),
        ("f32", "-2.9", "i64", "-2"),
        ("f64", "2.9", "i64", "2"),
    ] {
        let body = format!(
            "  %a = tfrt.constant.{from} {value}\n  \
             %r = \"tfrt.cast.{from}_to_{to}\"(%a) : ({from}) -> {to}"
        );
        answers(&body, to, expected);
    }
}

#[test]
fn logical_and_computes() {
    for (a, b, expected) in [("true", "true", "1"), ("true", "false", "0")] {
        let body = format!(
            "  %a = tfrt.constant.i1 {a}\n  %b = tfrt.constant.i1 {b}\n  %r = tfrt.and.i1 %a, %b"
        );
        answers(&body, "i1", expected);
    }
}

#[test]
fn scalars_print() {
    for (ty, value, expected) in [
        ("i1", "true", "int1 = 1\n"),
        ("i32", "-42", "int32 = -42\n"),
        ("i64", "42", "int64 = 42\n"),
        ("f32", "0.1", "f32 = 0.100000\n"),
        ("f64", "-2.5", "f64 = -2.500000\n"),
        ("f16", "1.0", "f16 = 15360\n"),
    ] {
        prints(
            &format!(
                "  %x = tfrt.constant.{ty} {value}\n  \
                 %d = \"tfrt.print.{ty}\"(%x, %ch) : ({ty}, !tfrt.chain) -> !tfrt.chain"
            ),
            expected,
        );
    }
    for (bits, part) in [("64", "f32"), ("128", "f64")] {
        prints(
            &format!(
                "  %x = \"tfrt.constant.complex{bits}\"() {{imaginary = -2.0 : {part}, \
                 real = 1.0 : {part}}} : () -> complex<{part}>\n  \
                 %d = \"tfrt.print.complex{bits}\"(%x, %ch) : (complex<{part}>, !tfrt.chain) \
                 -> !tfrt.chain"
            ),
            &format!("complex{bits} = 1.000000+-2.000000i\n"),
        );
    }
}

#[test]
fn chains_order_kernels() {
    prints(
        "  %a = tfrt.constant.i32 1\n  %b = tfrt.constant.i32 2\n  \
         %c1 = tfrt.print.i32 %a, %ch\n  %c2 = tfrt.merge.chains %a, %c1 : i32, !tfrt.chain\n  \
         %d = \"tfrt.alias.value\"(%c2, %b) : (!tfrt.chain, i32) -> i32\n  \
         %c3 = tfrt.print.i32 %d, %ch",
        "int32 = 1\nint32 = 2\n",
    );
}

#[test]
fn an_additional_chain_only_orders() {
    answers(
        "  %ch = tfrt.new.chain\n  %a = tfrt.constant.i32 1\n  \
         %r = \"tfrt.lessequal.i32\"(%a, %a, %ch) : (i32, i32, !tfrt.chain) -> i1",
        "i1",
        "1",
    );
}

#[test]
fn a_cost_is_not_an_attribute_of_the_kernel() {
    answers(
        "  %r = \"tfrt.constant.i32\"() {_tfrt_cost = 3 : i64, value = 7 : i32} : () -> i32",
        "i32",
        "7",
    );
}

#[test]
fn programs_that_do_not_match_signatures_are_rejected() {
    let main = |kernel: &str| {
        refusal(&format!(
            "func.func @main() {{\n  %a = tfrt.constant.i32 1\n  {kernel}\n  tfrt.return\n}}\n"
        ))
    };
    let wrong_type = main("%r = \"vt.add\"(%a, %a) : (i32, i32) -> !vt.value");
    assert!(
        wrong_type.contains("wrong type of operand 0: expected !vt.value, found i32"),
        "{wrong_type}"
    );
    let no_attribute = main("%r = \"vt.constant\"() : () -> !vt.value");
    assert!(no_attribute.contains("attribute"), "{no_attribute}");
    let unknown = main("%r = \"no.such.kernel\"() : () -> i32");
    assert!(unknown.contains("no.such.kernel"), "{unknown}");
}
