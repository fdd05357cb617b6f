//! The rules for shapes: input shapes after unpad, TMs and pad, compared with the required shapes of
//! each op (netlist 3.1).

use super::Rule;
use super::check::Checker;
use super::ops::report;
use crate::Finding;
use crate::attributes::AttributeKey as Key;
use crate::links::Node;
use crate::netlist::{Blocking, Input, Op, Queue, Tm};
use crate::shape::TileShape;
use crate::source::Spanned;
use crate::words::OpKind;

pub(super) fn check(checker: &mut Checker<'_>) {
    let netlist = checker.netlist;
    for queue in &netlist.queues {
        size(
            checker,
            &queue.name,
            &queue.blocking,
            TileShape::of(&queue.blocking),
        );
        written_shape(checker, queue);
    }
    for (_, op) in netlist.ops() {
        size(checker, &op.name, &op.blocking, TileShape::of(&op.blocking));
        let shapes: Vec<Option<TileShape>> = op
            .inputs
            .iter()
            .map(|input| input_shape(checker, op, input))
            .collect();
        if let Some(shapes) = shapes.into_iter().collect::<Option<Vec<_>>>() {
            required_shapes(checker, op, &shapes);
        }
    }
}

/// Maximum number of elements of a tensor: 8 GiB of f32.
const MOST_ELEMENTS: u64 = 1 << 31;

/// Limits the number of elements.
fn size(checker: &mut Checker<'_>, name: &Spanned<String>, blocking: &Blocking, shape: TileShape) {
    let [height, width] = blocking.tile().map(u64::from);
    let sizes = [shape.t, shape.rows, shape.columns, height * width];
    let elements = sizes
        .iter()
        .fold(1u64, |all, &size| all.saturating_mul(size));
    if elements > MOST_ELEMENTS {
        let message = format!("'{}' exceeds the maximum tensor size", name.value);
        let finding = Finding::new(Rule::TensorSize, name.span, message);
        let expected = format!("at most {MOST_ELEMENTS} elements");
        checker.report(finding.expected(expected).found(format!("{shape} tiles")));
    }
}

/// The shape of a queue is the shape of the output of its producer after the TMs of the queue.
fn written_shape(checker: &mut Checker<'_>, queue: &Queue) {
    let Some(Node::Op(_, op)) = checker.links.find(&queue.input.value) else {
        return;
    };
    let mut output = TileShape::of(&op.blocking);
    for tm in &queue.input_tms {
        output = match output.after_tm(tm.value, tm.span) {
            Ok(shape) => shape,
            Err(finding) => return checker.report(finding),
        };
    }
    let declared = TileShape::of(&queue.blocking);
    if output != declared {
        let (op, name) = (&op.name.value, &queue.name.value);
        let message = format!("the shapes of queue '{name}' and the output of op '{op}' differ");
        let finding = Finding::new(Rule::QueueShape, queue.name.span, message);
        checker.report(finding.expected(format!("{output} tiles")).found(declared));
    }
}

/// The shape of an input after its TMs; `None` when it cannot be computed.
fn input_shape(checker: &mut Checker<'_>, op: &Op, input: &Input) -> Option<TileShape> {
    for tm in &input.tms {
        if matches!(tm.value, Tm::TileBroadcast(_)) {
            let message = "tile_broadcast is supported in fused ops only";
            report(
                checker,
                Rule::TmPlace,
                tm.span,
                op,
                message,
                "another TM",
                "tile_broadcast",
            );
        }
    }
    let source = checker.links.find(&input.name.value)?;
    match TileShape::of(source.blocking()).after_input(input) {
        Ok(shape) => {
            size(checker, &input.name, source.blocking(), shape);
            Some(shape)
        }
        Err(finding) => {
            checker.report(finding);
            None
        }
    }
}

fn required_shapes(checker: &mut Checker<'_>, op: &Op, inputs: &[TileShape]) {
    let out = TileShape::of(&op.blocking);
    let inner = |key| op.attributes.integer(key).unsigned_abs();
    let k = inner(Key::MK).saturating_mul(inner(Key::UKt));
    let kind = op.kind.value;
    let groups = if op.attributes.is(Key::Accumulate) {
        inner(Key::Z).max(1)
    } else {
        1
    };
    let t = out.t.saturating_mul(groups);
    match kind {
        OpKind::Matmul if op.attributes.is(Key::Identity) => {}
        OpKind::Matmul => {
            same(
                checker,
                op,
                inputs,
                0,
                TileShape {
                    t,
                    rows: out.rows,
                    columns: k,
                },
            );
            // Input 1 may have unused slices (netlist 3.1).
            if let Some(weights) = inputs.get(1) {
                let expected = TileShape {
                    t: weights.t.max(t),
                    rows: k,
                    columns: out.columns,
                };
                same(checker, op, inputs, 1, expected);
            }
            if op.attributes.is(Key::Bias) {
                same(checker, op, inputs, 2, out);
            }
        }
        OpKind::Depthwise => {
            let columns = out.columns.saturating_mul(inner(Key::MK));
            same(
                checker,
                op,
                inputs,
                0,
                TileShape {
                    t: out.t,
                    rows: out.rows,
                    columns,
                },
            );
            let expected = TileShape {
                t: out.t,
                rows: inner(Key::MK),
                columns: out.columns,
            };
            same(checker, op, inputs, 1, expected);
        }
        OpKind::Reduce => {
            let expected = match op.attributes.word(Key::Dim) {
                Some("c") => TileShape { columns: k, ..out },
                Some("r") => TileShape { rows: k, ..out },
                Some("z") => TileShape {
                    t: out.t.saturating_mul(inner(Key::Z)),
                    ..out
                },
                _ => return,
            };
            same(checker, op, inputs, 0, expected);
        }
        OpKind::Splice => splice(checker, op, inputs, out),
        OpKind::FusedOp | OpKind::Embedding | OpKind::Topk | OpKind::Buffer | OpKind::Drainer => {}
        _ => (0..inputs.len()).for_each(|index| same(checker, op, inputs, index, out)),
    }
}

fn same(
    checker: &mut Checker<'_>,
    op: &Op,
    inputs: &[TileShape],
    index: usize,
    expected: TileShape,
) {
    let (Some(&found), Some(input)) = (inputs.get(index), op.inputs.get(index)) else {
        return;
    };
    if found != expected {
        // A warning: the original accepts the mismatch (netlist 1.2).
        let message = format!(
            "wrong shape of input {index} '{}' after its TMs",
            input.name.value
        );
        let span = input.tms.last().map_or(input.name.span, |tm| tm.span);
        report(
            checker,
            Rule::ShapeDeclared,
            span,
            op,
            &message,
            expected,
            found,
        );
    }
}

/// The units of a splice: whole slices, or ublocks of the output's blocking.
fn splice(checker: &mut Checker<'_>, op: &Op, inputs: &[TileShape], out: TileShape) {
    if op.attributes.word(Key::Granularity) != Some("t") {
        return;
    }
    for (index, &shape) in inputs.iter().enumerate() {
        let expected = TileShape { t: shape.t, ..out };
        if shape != expected {
            let message = format!("wrong slice shape of input {index} of a splice");
            let span = op.inputs[index].name.span;
            report(checker, Rule::Shape, span, op, &message, expected, shape);
        }
        let Some([start, length, stride]) =
            op.attributes
                .splice_input(index)
                .and_then(|value| match &value.value {
                    crate::AttributeValue::List(parts) => {
                        <[i64; 3]>::try_from(parts.as_slice()).ok()
                    }
                    _ => None,
                })
        else {
            continue;
        };
        let limit = i64::try_from(shape.t).unwrap_or(i64::MAX);
        let round = start.saturating_add(stride);
        let fits = round > 0 && start.saturating_add(length) <= limit && limit % round == 0;
        if !fits {
            let message = format!("the parts of input {index} do not cover it");
            let expected = format!("index + stride a divisor of {limit}");
            let found = format!("[{start}, {length}, {stride}]");
            report(
                checker,
                Rule::Attribute,
                op.kind.span,
                op,
                &message,
                expected,
                found,
            );
        }
    }
}
