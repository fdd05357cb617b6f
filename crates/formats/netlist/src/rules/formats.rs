//! The rules for the input, intermediate, accumulation and output formats of ops.

use super::Rule;
use super::check::Checker;
use super::ops::report;
use crate::attributes::AttributeKey as Key;
use crate::netlist::{Op, Tm};
use crate::words::{MathFidelity, OpKind};
use tenon_tile::DataFormat;

pub(super) fn check(checker: &mut Checker<'_>, op: &Op) {
    transposes(checker, op);
    grayskull(checker, op);
    accumulation(checker, op);
    integers(checker, op);
    tiles(checker, op);
}

fn transposes(checker: &mut Checker<'_>, op: &Op) {
    for (index, input) in op.inputs.iter().enumerate() {
        let Some(tm) = input.tms.iter().find(|tm| tm.value == Tm::Transpose) else {
            continue;
        };
        let kind = op.kind.value;
        let allowed = match kind {
            OpKind::Matmul => index == 1,
            _ if kind.is_binary() => {
                index == 0 && !checker.is_grayskull() && input.df.value != DataFormat::Int32
            }
            _ => kind.is_copy() || kind.is_sfpu(),
        };
        if !allowed {
            let message = format!("transpose of input {index} of {kind} is not supported");
            let expected =
                "a transpose of input 1 of a matmul, of input 0 of a binary op, or of a unary op";
            report(
                checker,
                Rule::TmTranspose,
                tm.span,
                op,
                &message,
                expected,
                "transpose",
            );
        }
    }
}

fn grayskull(checker: &mut Checker<'_>, op: &Op) {
    if !checker.is_grayskull() {
        return;
    }
    let wide = [DataFormat::Float32, DataFormat::Int32];
    if let Some(format) = op.acc_df.filter(|format| wide.contains(&format.value)) {
        let message = "destination registers of grayskull have 16 bits";
        let expected = "a 16-bit acc_df";
        report(
            checker,
            Rule::Grayskull,
            format.span,
            op,
            message,
            expected,
            format.value,
        );
    }
    if let Some(tile) = op.blocking.tile_dim.filter(|tile| tile.value != [32, 32]) {
        let found = format!("{:?}", tile.value);
        report(
            checker,
            Rule::Grayskull,
            tile.span,
            op,
            "grayskull supports one tile size",
            "[32, 32]",
            found,
        );
    }
    if op.attributes.is(Key::L1Acc) {
        report(
            checker,
            Rule::Grayskull,
            op.kind.span,
            op,
            "grayskull does not support l1_acc",
            "another architecture",
            "grayskull",
        );
    }
    let spills =
        op.attributes.integer(Key::MK) > 1 || op.gradient_op.is_some_and(|gradient| gradient.value);
    let [out, intermed] = [op.out_df.value, op.intermed_df.value].map(DataFormat::exponent_bits);
    if spills && out != intermed {
        let message = "grayskull requires the same exponent width of intermed_df and out_df";
        let expected = format!(
            "an intermed_df with the exponent width of {}",
            op.out_df.value
        );
        let found = op.intermed_df.value;
        report(
            checker,
            Rule::Grayskull,
            op.intermed_df.span,
            op,
            message,
            expected,
            found,
        );
    }
}

fn accumulation(checker: &mut Checker<'_>, op: &Op) {
    let is_float32 = op
        .acc_df
        .is_some_and(|format| format.value == DataFormat::Float32);
    let spills = op.attributes.is(Key::L1Acc)
        || (checker.is_grayskull() && op.attributes.integer(Key::MK) > 1);
    let accumulates = op.kind.value == OpKind::Matmul && op.attributes.is(Key::Accumulate);
    if is_float32 && accumulates && spills && op.intermed_df.value != DataFormat::Float32 {
        let message = "accumulation in Float32 with spills requires intermed_df Float32";
        let found = op.intermed_df.value;
        report(
            checker,
            Rule::Format,
            op.intermed_df.span,
            op,
            message,
            "Float32",
            found,
        );
    }
    if op.attributes.is(Key::L1Acc) {
        use DataFormat::{Float16B, Float32, Int32};
        if !matches!(op.kind.value, OpKind::Matmul | OpKind::Depthwise) {
            let message = "l1_acc requires a matmul";
            report(
                checker,
                Rule::Attribute,
                op.kind.span,
                op,
                message,
                "matmul or depthwise",
                op.kind.value,
            );
        }
        if ![Float32, Int32, Float16B].contains(&op.intermed_df.value) {
            let message = "l1_acc does not support this intermed_df";
            let expected = "Float32, Int32 or Float16_b";
            report(
                checker,
                Rule::Format,
                op.intermed_df.span,
                op,
                message,
                expected,
                op.intermed_df.value,
            );
        }
    }
}

/// Whether ops compute in integers on inputs of this format.
fn is_computed_as_integer(format: DataFormat) -> bool {
    matches!(
        format,
        DataFormat::Int8 | DataFormat::UInt8 | DataFormat::Int32
    )
}

fn integers(checker: &mut Checker<'_>, op: &Op) {
    let kind = op.kind.value;
    if matches!(kind, OpKind::Topk | OpKind::FusedOp | OpKind::Embedding) {
        return;
    }
    let Some(input) = op
        .inputs
        .iter()
        .find(|input| is_computed_as_integer(input.df.value))
    else {
        return quantization(checker, op);
    };
    use DataFormat::{Float32, Int8, Int32, UInt8, UInt16};
    let to_float = kind == OpKind::Dequantization || op.attributes.is(Key::Dequant);
    let outputs: &[DataFormat] = if to_float {
        &[Float32]
    } else {
        &[Int8, Int32, UInt8, UInt16]
    };
    one_of(checker, op, op.out_df, outputs, "integer output");
    if let Some(format) = op.acc_df.filter(|format| format.value != Int32) {
        let message = "integer ops require acc_df Int32";
        report(
            checker,
            Rule::IntegerFormat,
            format.span,
            op,
            message,
            Int32,
            format.value,
        );
    }
    if op.math_fidelity.value != MathFidelity::HiFi4 {
        let found = op.math_fidelity.value;
        let message = "integer ops require math_fidelity HiFi4";
        report(
            checker,
            Rule::IntegerFormat,
            op.math_fidelity.span,
            op,
            message,
            "HiFi4",
            found,
        );
    }
    let inputs: &[DataFormat] = match kind {
        OpKind::Subtract | OpKind::Multiply | OpKind::Matmul => &[Int8, UInt8],
        OpKind::Requantization | OpKind::Dequantization => &[Int32, Int8],
        _ => &[Int8, UInt8, Int32],
    };
    one_of(checker, op, input.df, inputs, "input");
}

fn quantization(checker: &mut Checker<'_>, op: &Op) {
    if op.kind.value != OpKind::Quantization {
        return;
    }
    for input in &op.inputs {
        one_of(
            checker,
            op,
            input.df,
            &[DataFormat::Float32],
            "input of quantization",
        );
    }
    one_of(
        checker,
        op,
        op.out_df,
        &[DataFormat::Int8],
        "output of quantization",
    );
}

fn one_of(
    checker: &mut Checker<'_>,
    op: &Op,
    format: crate::Spanned<DataFormat>,
    allowed: &[DataFormat],
    what: &str,
) {
    if !allowed.contains(&format.value) {
        let names: Vec<&str> = allowed.iter().map(|format| format.name()).collect();
        let message = format!("unsupported format of {what}");
        let expected = names.join(" or ");
        report(
            checker,
            Rule::IntegerFormat,
            format.span,
            op,
            &message,
            expected,
            format.value,
        );
    }
}

fn tiles(checker: &mut Checker<'_>, op: &Op) {
    let Some(tile) = op.blocking.tile_dim.filter(|tile| tile.value != [32, 32]) else {
        return;
    };
    let [rows, columns] = tile.value;
    let kind = op.kind.value;
    let mut wrong = |message: &str, expected: &str| {
        let found = format!("{rows}x{columns}");
        report(
            checker,
            Rule::TileSize,
            tile.span,
            op,
            message,
            expected,
            found,
        );
    };
    let is_simple = kind.is_copy()
        || kind.is_sfpu()
        || kind.is_binary()
        || matches!(kind, OpKind::Matmul | OpKind::Reduce | OpKind::Tilizer);
    if !is_simple {
        wrong(&format!("{kind} requires tiles of 32x32"), "32x32");
    }
    if matches!(op.out_df.value, DataFormat::Int8 | DataFormat::Int32) {
        wrong("integer formats require tiles of 32x32", "32x32");
    }
    let is_gradient = op.gradient_op.is_some_and(|gradient| gradient.value);
    if is_gradient && kind == OpKind::Matmul {
        wrong("a gradient matmul requires tiles of 32x32", "32x32");
    }
    // The shared exponents of block formats fill units of 16 bytes.
    let short = match op.out_df.value {
        DataFormat::Bfp2 | DataFormat::Bfp2B => rows <= 2,
        DataFormat::Bfp4 | DataFormat::Bfp4B => rows <= 1,
        _ => false,
    };
    if short && columns == 32 {
        wrong("tiles of this format require more rows", "more rows");
    }
}
