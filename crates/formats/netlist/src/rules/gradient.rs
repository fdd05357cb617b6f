//! The rules for gradient accumulation (netlist 3.8, 7.1).

use super::Rule;
use super::check::Checker;
use super::ops::report;
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
        let found = op.intermed_df.value;
        report(
            checker,
            Rule::Gradient,
            op.intermed_df.span,
            op,
            message,
            op.out_df.value,
            found,
        );
    }
    if kind == OpKind::Maximum {
        report(
            checker,
            Rule::Gradient,
            op.kind.span,
            op,
            "gradient accumulation is not defined for maximum",
            "a sum",
            kind,
        );
    }
    let is_copy = kind.is_copy();
    if checker.is_grayskull() && !matches!(kind, OpKind::Matmul | OpKind::Multiply) && !is_copy {
        let message = "gradient accumulation on grayskull does not support this op";
        report(
            checker,
            Rule::Gradient,
            op.kind.span,
            op,
            message,
            "matmul, multiply or datacopy",
            kind,
        );
    }
    let transposed = op.inputs.iter().flat_map(|input| &input.tms);
    let transposed = transposed.clone().find(|tm| tm.value == Tm::Transpose);
    if let Some(tm) = transposed.filter(|_| kind != OpKind::Matmul && !is_copy) {
        let message = "gradient accumulation requires inputs without transpose";
        report(
            checker,
            Rule::Gradient,
            tm.span,
            op,
            message,
            "no transpose",
            "transpose",
        );
    }
    use DataFormat::{Bfp2, Bfp2B, Bfp4, Bfp4B};
    if [Bfp2, Bfp2B, Bfp4, Bfp4B].contains(&op.intermed_df.value) {
        let message = "gradient accumulation requires more bits of intermed_df";
        let found = op.intermed_df.value;
        report(
            checker,
            Rule::Gradient,
            op.intermed_df.span,
            op,
            message,
            "at least Bfp8",
            found,
        );
    }
    if op
        .acc_df
        .is_some_and(|format| format.value == DataFormat::Int32)
    {
        let message = "gradient accumulation requires a float acc_df";
        report(
            checker,
            Rule::Gradient,
            flag.span,
            op,
            message,
            "a float acc_df",
            DataFormat::Int32,
        );
    }
    let queues = checker.links.output_queues(&op.name.value).to_vec();
    let [ram] = queues.as_slice() else {
        let message = "gradient accumulation requires one output ram";
        return report(
            checker,
            Rule::Gradient,
            flag.span,
            op,
            message,
            1,
            queues.len(),
        );
    };
    if ram.kind.value != QueueKind::Ram {
        let message = format!("gradient output '{}' must be a ram", ram.name.value);
        report(
            checker,
            Rule::Gradient,
            ram.kind.span,
            op,
            &message,
            "type ram",
            ram.kind.value,
        );
    }
}
