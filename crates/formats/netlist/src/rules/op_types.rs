//! The rules for op types: required attributes, formats and blocking (netlist 3.2, 7.1).

use super::Rule;
use super::check::Checker;
use crate::Finding;
use crate::attributes::AttributeKey as Key;
use crate::netlist::{Op, Tm};
use crate::source::Span;
use crate::words::OpKind;

pub(super) fn check(checker: &mut Checker<'_>, op: &Op) {
    attributes(checker, op);
    splice(checker, op);
    placement_hints(checker, op);
}

/// The place of an attribute; of the type of the op where it is absent.
fn place(op: &Op, key: Key) -> Span {
    op.attributes
        .find(key)
        .map_or(op.kind.span, |value| value.span)
}

/// Requires attributes of at least 1.
fn positive(checker: &mut Checker<'_>, op: &Op, keys: &[Key]) {
    for &key in keys {
        if op.attributes.integer(key) <= 0 {
            let message = format!("{} requires the attribute {}", op.kind.value, key.name());
            let found = op.attributes.find(key).map_or("nothing", |_| "0");
            let finding = op.finding(Rule::Attribute, place(op, key), message);
            checker.report(finding.expected("at least 1").found(found));
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
                let message = "unsupported u_kt of depthwise";
                let finding = op.finding(Rule::Attribute, op.kind.span, message);
                checker.report(finding.expected(1).found(inner));
            }
        }
        OpKind::Reduce => reduce(checker, op),
        OpKind::Embedding => embedding(checker, op),
        OpKind::Topk => positive(checker, op, &[Key::MK, Key::UKt, Key::K]),
        OpKind::Tilizer => {
            if let Some(tm) = op.inputs.first().and_then(|input| input.tms.first()) {
                let message = "the input of a tilizer cannot have TMs";
                checker.report(op.finding(Rule::TmPlace, tm.span, message));
            }
        }
        OpKind::FusedOp => {
            let id = op.attributes.word(Key::FusedOpId).unwrap_or_default();
            if checker.netlist.fused_op(id).is_none() {
                let span = place(op, Key::FusedOpId);
                let message = format!("fused op '{id}' is not defined");
                checker.report(Finding::new(Rule::UnknownName, span, message));
            }
        }
        _ => {}
    }
    let threshold = op.attributes.number(Key::ReluThreshold);
    if let Some(threshold) = threshold.filter(|&value| value < 0.0) {
        let span = place(op, Key::ReluThreshold);
        let finding = op.finding(Rule::Attribute, span, "relu_threshold is negative");
        checker.report(finding.expected("at least 0").found(threshold));
    }
    let p = op.attributes.number(Key::P);
    if let Some(p) = p.filter(|p| !(0.0..=1.0).contains(p)) {
        let finding = op.finding(Rule::Attribute, op.kind.span, "p is not a probability");
        checker.report(finding.expected("0 to 1").found(p));
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
            let finding = op.finding(Rule::Attribute, op.kind.span, message);
            checker.report(finding.expected("one of them").found("both"));
        }
    }
    if is(Key::Accumulate) {
        positive(checker, op, &[Key::Z]);
    }
    let found = op.attributes.integer(Key::MK);
    if found > 1 && op.is_untilized() {
        let message = "an untilized matmul requires m_k 1";
        let finding = op.finding(Rule::Untilize, op.kind.span, message);
        checker.report(finding.expected("m_k: 1").found(found));
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
        let finding = op.finding(Rule::Format, encoding.df.span, message);
        let finding = finding.expected("RawUInt32, RawUInt16 or RawUInt8");
        checker.report(finding.found(encoding.df.value));
    }
    if let Some(gradient) = op.gradient_op.filter(|gradient| gradient.value) {
        let message = "gradient accumulation is not supported for sparse matmul";
        let finding = op.finding(Rule::Gradient, gradient.span, message);
        let found = "gradient_op: true";
        checker.report(finding.expected("no gradient_op").found(found));
    }
    let broadcast = |tm: &Tm| {
        matches!(
            tm,
            Tm::BroadcastRows(_) | Tm::BroadcastColumns(_) | Tm::BroadcastSlices(_)
        )
    };
    if let Some(tm) = encoding.tms.first().filter(|tm| !broadcast(&tm.value)) {
        let message = "the first TM of an encoding must be a broadcast";
        checker.report(op.finding(Rule::TmPlace, tm.span, message));
    }
}

fn reduce(checker: &mut Checker<'_>, op: &Op) {
    for key in [Key::Dim, Key::Type] {
        if op.attributes.word(key).is_none() {
            let message = format!("reduce requires the attribute {}", key.name());
            let finding = op.finding(Rule::Attribute, op.kind.span, message);
            checker.report(finding.expected("a word").found("nothing"));
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
        let finding = op.finding(Rule::Format, op.out_df.span, message);
        checker.report(finding.expected(expected).found(found));
    }
    if op.is_untilized() {
        let message = "a reduce over z does not support untilize_output";
        let finding = op.finding(Rule::Untilize, op.kind.span, message);
        checker.report(finding.expected("untilize_output: false").found(true));
    }
}

fn embedding(checker: &mut Checker<'_>, op: &Op) {
    let indices = op.attributes.integer(Key::NumIndices);
    if indices == 0 || indices % 32 != 0 {
        let expected = "a multiple of 32";
        let finding = op.finding(Rule::Attribute, op.kind.span, "unsupported num_indices");
        checker.report(finding.expected(expected).found(indices));
    }
    let rows = op.blocking.ublock.value[0];
    if rows != 1 {
        let span = op.blocking.ublock.span;
        let finding = op.finding(Rule::Shape, span, "unsupported ublock of an embedding");
        checker.report(finding.expected("one row").found(rows));
    }
    let mblock = op.blocking.mblock;
    if i64::from(mblock.value[0]) != indices / 32 {
        let message = "mblock of an embedding does not match num_indices";
        let finding = op.finding(Rule::Shape, mblock.span, message);
        checker.report(finding.expected(indices / 32).found(mblock.value[0]));
    }
}

fn splice(checker: &mut Checker<'_>, op: &Op) {
    if op.kind.value != OpKind::Splice {
        return;
    }
    if let Some(input) = op.inputs.iter().find(|input| input.df != op.inputs[0].df) {
        let message = "a splice requires inputs of equal format";
        let finding = op.finding(Rule::Format, input.df.span, message);
        let found = input.df.value;
        checker.report(finding.expected(op.inputs[0].df.value).found(found));
    }
    for index in 0..op.inputs.len() {
        let list = op.attributes.splice_input(index);
        let span = list.map_or(op.kind.span, |list| list.span);
        let Some(crate::AttributeValue::List(parts)) = list.map(|list| &list.value) else {
            let message = format!("a splice requires the attribute input{index}");
            let finding = op.finding(Rule::Attribute, span, message);
            checker.report(finding.expected("[index, length, stride]").found("nothing"));
            continue;
        };
        let fits = matches!(parts.as_slice(), &[start, length, stride]
            if start >= 0 && length > 0 && stride >= length);
        if !fits {
            let expected = "[index >= 0, length > 0, stride >= length]";
            let found = format!("{parts:?}");
            let finding = op.finding(Rule::Attribute, span, "invalid part of a splice");
            checker.report(finding.expected(expected).found(found));
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
                let finding = op.finding(Rule::Attribute, value.span, message);
                checker.report(finding.expected(expected).found(index));
            }
        }
    }
}
