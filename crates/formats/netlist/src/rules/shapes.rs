//! The rules for shapes: input shapes after unpad, TMs and pad, compared with the required shapes of
//! each op (netlist 3.1).

use super::Rule;
use super::check::Checker;
use crate::Finding;
use crate::attributes::{AttributeKey as Key, AttributeValue};
use crate::links::Node;
use crate::netlist::{Blocking, Input, Op, Queue, Tm, product};
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
            compare_shapes(checker, op, &shapes);
            if op.kind.value == OpKind::Splice {
                splice(checker, op, &shapes, TileShape::of(&op.blocking));
            }
        }
    }
}

/// Maximum number of elements of a tensor: 8 GiB of f32.
const MOST_ELEMENTS: u64 = 1 << 31;

/// Limits the number of elements.
fn size(checker: &mut Checker<'_>, name: &Spanned<String>, blocking: &Blocking, shape: TileShape) {
    let [height, width] = blocking.tile().map(u64::from);
    let elements = product([shape.t, shape.rows, shape.columns, height, width]);
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
            let finding = op.finding(Rule::TmPlace, tm.span, message);
            checker.report(finding.expected("another TM").found("tile_broadcast"));
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

/// The shapes that an op requires of its inputs; none where they are not determined.
fn required_shapes(op: &Op, inputs: &[TileShape]) -> Vec<TileShape> {
    let out = TileShape::of(&op.blocking);
    let size = |key| op.attributes.integer(key).unsigned_abs();
    let k = size(Key::MK).saturating_mul(size(Key::UKt));
    match op.kind.value {
        OpKind::Matmul if op.attributes.is(Key::Identity) => Vec::new(),
        OpKind::Matmul => {
            let is_summed = op.attributes.is(Key::Accumulate);
            let groups = if is_summed { size(Key::Z).max(1) } else { 1 };
            let t = out.t.saturating_mul(groups);
            // Input 1 may have unused slices (netlist 3.1).
            let weights_t = inputs.get(1).map_or(t, |weights| weights.t.max(t));
            let a = TileShape {
                t,
                columns: k,
                ..out
            };
            let b = TileShape {
                t: weights_t,
                rows: k,
                ..out
            };
            let bias = op.attributes.is(Key::Bias).then_some(out);
            [a, b].into_iter().chain(bias).collect()
        }
        OpKind::Depthwise => {
            let columns = out.columns.saturating_mul(size(Key::MK));
            let rows = size(Key::MK);
            vec![TileShape { columns, ..out }, TileShape { rows, ..out }]
        }
        OpKind::Reduce => {
            let t = out.t.saturating_mul(size(Key::Z));
            match op.attributes.word(Key::Dim) {
                Some("c") => vec![TileShape { columns: k, ..out }],
                Some("r") => vec![TileShape { rows: k, ..out }],
                Some("z") => vec![TileShape { t, ..out }],
                _ => Vec::new(),
            }
        }
        OpKind::Splice
        | OpKind::FusedOp
        | OpKind::Embedding
        | OpKind::Topk
        | OpKind::Buffer
        | OpKind::Drainer => Vec::new(),
        _ => vec![out; inputs.len()],
    }
}

fn compare_shapes(checker: &mut Checker<'_>, op: &Op, inputs: &[TileShape]) {
    let pairs = required_shapes(op, inputs).into_iter().zip(inputs);
    for (index, (expected, found)) in pairs.enumerate() {
        if *found == expected {
            continue;
        }
        // A warning: the original accepts the mismatch (netlist 1.2).
        let input = &op.inputs[index];
        let name = &input.name.value;
        let message = format!("wrong shape of input {index} '{name}' after its TMs");
        let span = input.tms.last().map_or(input.name.span, |tm| tm.span);
        let finding = op.finding(Rule::ShapeDeclared, span, message);
        checker.report(finding.expected(expected).found(found));
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
            let finding = op.finding(Rule::Shape, span, message);
            checker.report(finding.expected(expected).found(shape));
        }
        let list = op.attributes.splice_input(index).map(|list| &list.value);
        let Some(AttributeValue::List(parts)) = list else {
            continue;
        };
        let &[start, length, stride] = parts.as_slice() else {
            continue;
        };
        let limit = i64::try_from(shape.t).unwrap_or(i64::MAX);
        let round = start.saturating_add(stride);
        let fits = round > 0 && start.saturating_add(length) <= limit && limit % round == 0;
        if !fits {
            let message = format!("the parts of input {index} do not cover it");
            let expected = format!("index + stride a divisor of {limit}");
            let found = format!("[{start}, {length}, {stride}]");
            let finding = op.finding(Rule::Attribute, op.kind.span, message);
            checker.report(finding.expected(expected).found(found));
        }
    }
}
