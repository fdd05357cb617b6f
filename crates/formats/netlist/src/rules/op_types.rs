//! The rules for op types: required attributes, formats and blocking (netlist 3.2, 7.1).

use super::Rule;
use super::check::Checker;
use super::ops::report;
use crate::Finding;
use crate::attributes::AttributeKey as Key;
use crate::netlist::{Op, Tm};
use crate::words::OpKind;

pub(super) fn check(checker: &mut Checker<'_>, op: &Op) {
    attributes(checker, op);
    splice(checker, op);
    placement_hints(checker, op);
}

/// Requires attributes of at least 1.
fn positive(checker: &mut Checker<'_>, op: &Op, keys: &[Key]) {
    for &key in keys {
        if op.attributes.integer(key) <= 0 {
            let span = op
                .attributes
                .find(key)
                .map_or(op.kind.span, |value| value.span);
            let message = format!("{} requires the attribute {}", op.kind.value, key.name());
            let found = op
                .attributes
                .find(key)
                .map_or("nothing".to_owned(), |_| "0".to_owned());
            report(
                checker,
                Rule::Attribute,
                span,
                op,
                &message,
                "at least 1",
                found,
            );
        }
    }
}

fn attributes(checker: &mut Checker<'_>, op: &Op) {
    match op.kind.value {
        OpKind::Matmul => matmul(checker, op),
        OpKind::Depthwise => {
            positive(checker, op, &[Key::MK]);
            let inner = op.attributes.integer(Key::UKt);
            if inner != 1 {
                report(
                    checker,
                    Rule::Attribute,
                    op.kind.span,
                    op,
                    "unsupported u_kt of depthwise",
                    1,
                    inner,
                );
            }
        }
        OpKind::Reduce => reduce(checker, op),
        OpKind::Embedding => embedding(checker, op),
        OpKind::Topk => positive(checker, op, &[Key::MK, Key::UKt, Key::K]),
        OpKind::Tilizer => {
            if let Some(tm) = op.inputs.first().and_then(|input| input.tms.first()) {
                let message = format!(
                    "op '{}': the input of a tilizer cannot have TMs",
                    op.name.value
                );
                checker.report(Finding::new(Rule::TmPlace, tm.span, message));
            }
        }
        OpKind::FusedOp => {
            let id = op.attributes.word(Key::FusedOpId).unwrap_or_default();
            if checker.netlist.fused_op(id).is_none() {
                let span = op
                    .attributes
                    .find(Key::FusedOpId)
                    .map_or(op.kind.span, |id| id.span);
                let message = format!("fused op '{id}' is not defined");
                checker.report(Finding::new(Rule::UnknownName, span, message));
            }
        }
        _ => {}
    }
    if let Some(threshold) = op
        .attributes
        .number(Key::ReluThreshold)
        .filter(|&value| value < 0.0)
    {
        let span = op
            .attributes
            .find(Key::ReluThreshold)
            .map_or(op.kind.span, |value| value.span);
        report(
            checker,
            Rule::Attribute,
            span,
            op,
            "relu_threshold is negative",
            "at least 0",
            threshold,
        );
    }
    if let Some(p) = op
        .attributes
        .number(Key::P)
        .filter(|p| !(0.0..=1.0).contains(p))
    {
        report(
            checker,
            Rule::Attribute,
            op.kind.span,
            op,
            "p is not a probability",
            "0 to 1",
            p,
        );
    }
}

fn matmul(checker: &mut Checker<'_>, op: &Op) {
    positive(checker, op, &[Key::MK, Key::UKt]);
    let is = |key| op.attributes.is(key);
    let exclusive = [
        (Key::Accumulate, Key::Identity),
        (Key::Requant, Key::Dequant),
    ];
    for (a, b) in exclusive {
        if is(a) && is(b) {
            let message = format!("{} and {} are mutually exclusive", a.name(), b.name());
            report(
                checker,
                Rule::Attribute,
                op.kind.span,
                op,
                &message,
                "one of them",
                "both",
            );
        }
    }
    if is(Key::Accumulate) {
        positive(checker, op, &[Key::Z]);
    }
    if op.attributes.integer(Key::MK) > 1
        && op.untilize_output.is_some_and(|untilize| untilize.value)
    {
        let message = "an untilized matmul requires m_k 1";
        let found = op.attributes.integer(Key::MK);
        report(
            checker,
            Rule::Untilize,
            op.kind.span,
            op,
            message,
            "m_k: 1",
            found,
        );
    }
    if is(Key::Identity) {
        identity(checker, op);
    }
}

fn identity(checker: &mut Checker<'_>, op: &Op) {
    let Some(encoding) = op.inputs.get(2) else {
        return;
    };
    if !encoding.df.value.is_raw() {
        let message = "unsupported format of a sparse encoding";
        let expected = "RawUInt32, RawUInt16 or RawUInt8";
        report(
            checker,
            Rule::Format,
            encoding.df.span,
            op,
            message,
            expected,
            encoding.df.value,
        );
    }
    if let Some(gradient) = op.gradient_op.filter(|gradient| gradient.value) {
        report(
            checker,
            Rule::Gradient,
            gradient.span,
            op,
            "gradient accumulation is not supported for sparse matmul",
            "no gradient_op",
            "gradient_op: true",
        );
    }
    let broadcast = |tm: &Tm| {
        matches!(
            tm,
            Tm::BroadcastRows(_) | Tm::BroadcastColumns(_) | Tm::BroadcastSlices(_)
        )
    };
    if let Some(tm) = encoding.tms.first().filter(|tm| !broadcast(&tm.value)) {
        let message = format!(
            "op '{}': the first TM of an encoding must be a broadcast",
            op.name.value
        );
        checker.report(Finding::new(Rule::TmPlace, tm.span, message));
    }
}

fn reduce(checker: &mut Checker<'_>, op: &Op) {
    for key in [Key::Dim, Key::Type] {
        if op.attributes.word(key).is_none() {
            let message = format!("reduce requires the attribute {}", key.name());
            report(
                checker,
                Rule::Attribute,
                op.kind.span,
                op,
                &message,
                "a word",
                "nothing",
            );
        }
    }
    let Some(dim) = op.attributes.word(Key::Dim) else {
        return;
    };
    if dim != "z" {
        return positive(checker, op, &[Key::MK, Key::UKt]);
    }
    positive(checker, op, &[Key::Z]);
    let input = op.inputs.first().map(|input| input.df.value);
    let same = [op.intermed_df.value, op.out_df.value]
        .iter()
        .all(|&format| Some(format) == input);
    if !same {
        let message = "a reduce over z requires equal formats";
        let expected = "equal in_df, intermed_df and out_df";
        let found = format!("{} and {}", op.intermed_df.value, op.out_df.value);
        report(
            checker,
            Rule::Format,
            op.out_df.span,
            op,
            message,
            expected,
            found,
        );
    }
    if op.untilize_output.is_some_and(|untilize| untilize.value) {
        let message = "a reduce over z does not support untilize_output";
        report(
            checker,
            Rule::Untilize,
            op.kind.span,
            op,
            message,
            "untilize_output: false",
            true,
        );
    }
}

fn embedding(checker: &mut Checker<'_>, op: &Op) {
    let indices = op.attributes.integer(Key::NumIndices);
    if indices == 0 || indices % 32 != 0 {
        let expected = "a multiple of 32";
        report(
            checker,
            Rule::Attribute,
            op.kind.span,
            op,
            "unsupported num_indices",
            expected,
            indices,
        );
    }
    let rows = op.blocking.ublock.value[0];
    if rows != 1 {
        let span = op.blocking.ublock.span;
        report(
            checker,
            Rule::Shape,
            span,
            op,
            "unsupported ublock of an embedding",
            "one row",
            rows,
        );
    }
    let mblock = op.blocking.mblock;
    if i64::from(mblock.value[0]) != indices / 32 {
        let message = "mblock of an embedding does not match num_indices";
        report(
            checker,
            Rule::Shape,
            mblock.span,
            op,
            message,
            indices / 32,
            mblock.value[0],
        );
    }
}

fn splice(checker: &mut Checker<'_>, op: &Op) {
    if op.kind.value != OpKind::Splice {
        return;
    }
    if let Some(input) = op.inputs.iter().find(|input| input.df != op.inputs[0].df) {
        let message = "a splice requires inputs of equal format";
        report(
            checker,
            Rule::Format,
            input.df.span,
            op,
            message,
            op.inputs[0].df.value,
            input.df.value,
        );
    }
    for index in 0..op.inputs.len() {
        let list = op.attributes.splice_input(index);
        let span = list.map_or(op.kind.span, |list| list.span);
        let Some(crate::AttributeValue::List(parts)) = list.map(|list| &list.value) else {
            let message = format!("a splice requires the attribute input{index}");
            report(
                checker,
                Rule::Attribute,
                span,
                op,
                &message,
                "[index, length, stride]",
                "nothing",
            );
            continue;
        };
        let fits = matches!(parts.as_slice(), &[start, length, stride]
            if start >= 0 && length > 0 && stride >= length);
        if !fits {
            let expected = "[index >= 0, length > 0, stride >= length]";
            let found = format!("{parts:?}");
            report(
                checker,
                Rule::Attribute,
                span,
                op,
                "invalid part of a splice",
                expected,
                found,
            );
        }
    }
}

/// kernel_broadcast must refer to inputs of the op (netlist 3.2).
fn placement_hints(checker: &mut Checker<'_>, op: &Op) {
    let keys = [Key::KernelBroadcast, Key::KernelBroadcastPerT];
    for value in keys.iter().filter_map(|&key| op.attributes.find(key)) {
        let crate::AttributeValue::PerInput(inputs) = &value.value else {
            continue;
        };
        for &(index, _) in inputs {
            if op.inputs.get(index as usize).is_none() {
                let message = "kernel_broadcast of an input that does not exist";
                let expected = format!("below {}", op.inputs.len());
                report(
                    checker,
                    Rule::Attribute,
                    value.span,
                    op,
                    message,
                    expected,
                    index,
                );
            }
        }
    }
}
