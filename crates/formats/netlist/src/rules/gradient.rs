//! The rules for gradient accumulation (netlist 3.8, 7.1).

use super::Rule;
use super::check::Checker;
use crate::netlist::{Op, Tm};
use crate::words::{OpKind, QueueKind};
use tenon_tile::DataFormat;

pub(super) fn check(checker: &mut Checker<'_>, op: &Op) {
    let Some(flag) = op.gradient_op.filter(|gradient| gradient.value) else {
        return;
    };
    let kind = op.kind.value;
    if op.intermed_df.value != op.out_df.value {
        let message = "gradient accumulation requires the same intermed_df and out_df";
        let finding = op.finding(Rule::Gradient, op.intermed_df.span, message);
        let found = op.intermed_df.value;
        checker.report(finding.expected(op.out_df.value).found(found));
    }
    if kind == OpKind::Maximum {
        let message = "gradient accumulation is not defined for maximum";
        let finding = op.finding(Rule::Gradient, op.kind.span, message);
        checker.report(finding.expected("a sum").found(kind));
    }
    let is_copy = kind.is_copy();
    if checker.is_grayskull() && !matches!(kind, OpKind::Matmul | OpKind::Multiply) && !is_copy {
        let message = "gradient accumulation on grayskull does not support this op";
        let finding = op.finding(Rule::Gradient, op.kind.span, message);
        checker.report(finding.expected("matmul, multiply or datacopy").found(kind));
    }
    let transposed = op.inputs.iter().flat_map(|input| &input.tms);
    let transposed = transposed.clone().find(|tm| tm.value == Tm::Transpose);
    if let Some(tm) = transposed.filter(|_| kind != OpKind::Matmul && !is_copy) {
        let message = "gradient accumulation requires inputs without transpose";
        let finding = op.finding(Rule::Gradient, tm.span, message);
        checker.report(finding.expected("no transpose").found("transpose"));
    }
    use DataFormat::{Bfp2, Bfp2B, Bfp4, Bfp4B};
    if [Bfp2, Bfp2B, Bfp4, Bfp4B].contains(&op.intermed_df.value) {
        let message = "gradient accumulation requires more bits of intermed_df";
        let finding = op.finding(Rule::Gradient, op.intermed_df.span, message);
        let found = op.intermed_df.value;
        checker.report(finding.expected("at least Bfp8").found(found));
    }
    if op
        .acc_df
        .is_some_and(|format| format.value == DataFormat::Int32)
    {
        let message = "gradient accumulation requires a float acc_df";
        let finding = op.finding(Rule::Gradient, flag.span, message);
        checker.report(finding.expected("a float acc_df").found(DataFormat::Int32));
    }
    let queues = checker.links.output_queues(&op.name.value);
    let [ram] = queues else {
        let message = "gradient accumulation requires one output ram";
        let finding = op.finding(Rule::Gradient, flag.span, message);
        return checker.report(finding.expected(1).found(queues.len()));
    };
    if ram.kind.value != QueueKind::Ram {
        let message = format!("gradient output '{}' must be a ram", ram.name.value);
        let finding = op.finding(Rule::Gradient, ram.kind.span, message);
        checker.report(finding.expected("type ram").found(ram.kind.value));
    }
}
