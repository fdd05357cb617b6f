//! The rules for the input, intermediate, accumulation and output formats of ops.

use super::Rule;
use super::check::Checker;
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
            let finding = op.finding(Rule::TmTranspose, tm.span, message);
            checker.report(finding.expected(expected).found("transpose"));
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
        let finding = op.finding(Rule::Grayskull, format.span, message);
        checker.report(finding.expected("a 16-bit acc_df").found(format.value));
    }
    if let Some(tile) = op.blocking.tile_dim.filter(|tile| tile.value != [32, 32]) {
        let message = "grayskull supports one tile size";
        let finding = op.finding(Rule::Grayskull, tile.span, message);
        let found = format!("{:?}", tile.value);
        checker.report(finding.expected("[32, 32]").found(found));
    }
    if op.attributes.is(Key::L1Acc) {
        let message = "grayskull does not support l1_acc";
        let finding = op.finding(Rule::Grayskull, op.kind.span, message);
        checker.report(finding.expected("another architecture").found("grayskull"));
    }
    let spills = op.attributes.integer(Key::MK) > 1 || op.is_gradient();
    let [out, intermed] = [op.out_df.value, op.intermed_df.value].map(DataFormat::exponent_bits);
    if spills && out != intermed {
        let message = "grayskull requires the same exponent width of intermed_df and out_df";
        let expected = format!(
            "an intermed_df with the exponent width of {}",
            op.out_df.value
        );
        let finding = op.finding(Rule::Grayskull, op.intermed_df.span, message);
        checker.report(finding.expected(expected).found(op.intermed_df.value));
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
        let finding = op.finding(Rule::Format, op.intermed_df.span, message);
        checker.report(finding.expected("Float32").found(op.intermed_df.value));
    }
    if op.attributes.is(Key::L1Acc) {
        use DataFormat::{Float16B, Float32, Int32};
        if !matches!(op.kind.value, OpKind::Matmul | OpKind::Depthwise) {
            let message = "l1_acc requires a matmul";
            let finding = op.finding(Rule::Attribute, op.kind.span, message);
            checker.report(finding.expected("matmul or depthwise").found(op.kind.value));
        }
        if ![Float32, Int32, Float16B].contains(&op.intermed_df.value) {
            let message = "l1_acc does not support this intermed_df";
            let expected = "Float32, Int32 or Float16_b";
            let finding = op.finding(Rule::Format, op.intermed_df.span, message);
            checker.report(finding.expected(expected).found(op.intermed_df.value));
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
        let finding = op.finding(Rule::IntegerFormat, format.span, message);
        checker.report(finding.expected(Int32).found(format.value));
    }
    if op.math_fidelity.value != MathFidelity::HiFi4 {
        let found = op.math_fidelity.value;
        let message = "integer ops require math_fidelity HiFi4";
        let finding = op.finding(Rule::IntegerFormat, op.math_fidelity.span, message);
        checker.report(finding.expected("HiFi4").found(found));
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
        let finding = op.finding(Rule::IntegerFormat, format.span, message);
        checker.report(finding.expected(expected).found(format.value));
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
        let finding = op.finding(Rule::TileSize, tile.span, message);
        checker.report(finding.expected(expected).found(found));
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
    if op.is_gradient() && kind == OpKind::Matmul {
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
