//! Fused ops: buffers written, read and popped in turn, and shapes that agree (facts 3.7, 7.1).

use super::Rule;
use super::check::Checker;
use crate::Finding;
use crate::attributes::AttributeKey as Key;
use crate::netlist::{Buffer, FusedOp, Op, ScheduledOp, Tm};
use crate::source::Span;
use crate::words::OpKind;
use std::collections::HashMap;

/// Intermediate buffers that a core has.
const MOST_INTERMEDIATES: u32 = 8;

pub(super) fn check(checker: &mut Checker<'_>) {
    for fused in &checker.netlist.fused_ops {
        if fused.intermediates.value > MOST_INTERMEDIATES {
            let finding = Finding::new(
                Rule::Fused,
                fused.intermediates.span,
                "too many intermediates",
            );
            checker.report(
                finding
                    .expected("at most 8")
                    .found(fused.intermediates.value),
            );
        }
        Life::default().check(checker, fused);
        for (position, op) in ops(fused) {
            one(checker, fused, op, position);
        }
    }
    let netlist = checker.netlist;
    for (_, op) in netlist
        .ops()
        .filter(|(_, op)| op.kind.value == OpKind::FusedOp)
    {
        let id = op.attributes.word(Key::FusedOpId).unwrap_or_default();
        if let Some(fused) = netlist.fused_op(id) {
            base(checker, op, fused);
        }
    }
}

/// Where a scheduled op stands.
struct Position {
    is_last: bool,
}

fn ops(fused: &FusedOp) -> impl Iterator<Item = (Position, &ScheduledOp)> {
    fused.schedules.iter().flat_map(|schedule| {
        let last = schedule.len().saturating_sub(1);
        schedule.iter().enumerate().map(move |(index, op)| {
            (
                Position {
                    is_last: index == last,
                },
                op,
            )
        })
    })
}

fn is_inner(kind: OpKind) -> bool {
    matches!(kind, OpKind::Matmul | OpKind::Reduce)
}

/// Reports about a scheduled op.
fn wrong(checker: &mut Checker<'_>, rule: Rule, span: Span, op: &ScheduledOp, message: &str) {
    let message = format!("scheduled op '{}': {message}", op.name.value);
    checker.report(Finding::new(rule, span, message));
}

fn one(checker: &mut Checker<'_>, fused: &FusedOp, op: &ScheduledOp, position: Position) {
    let kind = op.kind.value;
    let spills = op.attributes.integer(Key::MK) > 1;
    let allowed = kind.is_binary() || kind.is_sfpu() || kind.is_copy() || is_inner(kind);
    if !allowed || kind == OpKind::EthernetDatacopy {
        wrong(
            checker,
            Rule::Fused,
            op.kind.span,
            op,
            &format!("{kind} cannot be fused"),
        );
    }
    if is_inner(kind) && !position.is_last {
        let message = format!("{kind} is the last op of its schedule");
        wrong(checker, Rule::Fused, op.kind.span, op, &message);
    }
    let (least, most) = kind.inputs();
    if op.inputs.len() < least || op.inputs.len() > most {
        let message = format!("{kind} takes {least} inputs, not {}", op.inputs.len());
        wrong(checker, Rule::InputNumber, op.kind.span, op, &message);
    }
    if kind == OpKind::Matmul {
        let from_intermediate = |input: Option<&(crate::Spanned<Buffer>, _)>| {
            input
                .filter(|(buffer, _)| matches!(buffer.value, Buffer::Intermediate(_)))
                .map(|(b, _)| b.span)
        };
        if let Some(span) = from_intermediate(op.inputs.get(1)).filter(|_| spills) {
            let message = "input 1 of a matmul of m_k > 1 is whole: no intermediate can hold it";
            wrong(checker, Rule::Fused, span, op, message);
        }
        if spills && op.output.value == Buffer::Output {
            let message = "a matmul of m_k > 1 writes an intermediate, step by step";
            wrong(checker, Rule::Fused, op.output.span, op, message);
        }
    }
    for (index, (buffer, tms)) in op.inputs.iter().enumerate() {
        input(checker, fused, op, index, *buffer, tms);
    }
}

fn input(
    checker: &mut Checker<'_>,
    fused: &FusedOp,
    op: &ScheduledOp,
    index: usize,
    buffer: crate::Spanned<Buffer>,
    tms: &[crate::Spanned<Tm>],
) {
    let kind = op.kind.value;
    match buffer.value {
        Buffer::Input(number) if number >= fused.inputs.value => {
            let message = format!(
                "there is no {}: the op has {}",
                buffer.value, fused.inputs.value
            );
            wrong(checker, Rule::Fused, buffer.span, op, &message);
        }
        Buffer::Output => wrong(
            checker,
            Rule::Fused,
            buffer.span,
            op,
            "the output cannot be read",
        ),
        Buffer::Dest if is_inner(kind) || kind == OpKind::Maximum => {
            let message = format!("{kind} cannot read the registers it works in");
            wrong(checker, Rule::Fused, buffer.span, op, &message);
        }
        _ => {}
    }
    for tm in tms {
        let message = match tm.value {
            Tm::BroadcastSlices(_) => "slices cannot be broadcast inside a fused op",
            Tm::TileBroadcast(_) if buffer.value == Buffer::Dest => "registers cannot be broadcast",
            Tm::TileBroadcast(_) if index != 1 || !kind.is_binary() => {
                "tile_broadcast is for input 1 of a binary op"
            }
            Tm::BroadcastRows(_) | Tm::BroadcastColumns(_) | Tm::TileBroadcast(_) => continue,
            _ => "only broadcasts stand inside a fused op",
        };
        wrong(checker, Rule::TmPlace, tm.span, op, message);
    }
}

/// What a buffer holds while a schedule is walked.
#[derive(Clone, Copy)]
struct Held {
    mblock: [u32; 2],
    ublock: [u32; 2],
    schedule: usize,
    /// Whether a product or reduction made it, which keeps it whole.
    is_whole: bool,
    /// Whether its schedule ends in a product or reduction, which runs through all ublocks first.
    is_run_through: bool,
}

/// The lives of buffers over the schedules of one fused op.
#[derive(Default)]
struct Life {
    held: HashMap<Buffer, Held>,
}

impl Life {
    fn check(mut self, checker: &mut Checker<'_>, fused: &FusedOp) {
        let mut wrote_output = false;
        for (number, schedule) in fused.schedules.iter().enumerate() {
            let mut dest_pending: Option<Span> = None;
            let is_run_through = schedule.last().is_some_and(|op| is_inner(op.kind.value));
            for op in schedule {
                self.reads(checker, op, number);
                let reads_dest = op
                    .inputs
                    .iter()
                    .any(|(buffer, _)| buffer.value == Buffer::Dest);
                if let Some(span) = dest_pending.take().filter(|_| !reads_dest) {
                    wrong(
                        checker,
                        Rule::Fused,
                        span,
                        op,
                        "it does not read what was left in dest",
                    );
                }
                self.pops(checker, op);
                self.writes(checker, op, number, is_run_through);
                wrote_output |= op.output.value == Buffer::Output;
                dest_pending = (op.output.value == Buffer::Dest).then_some(op.output.span);
            }
        }
        let left = self
            .held
            .keys()
            .filter(|buffer| matches!(buffer, Buffer::Intermediate(_)));
        let mut left: Vec<String> = left.map(|buffer| buffer.to_string()).collect();
        left.sort();
        if !left.is_empty() {
            let message = format!(
                "fused op '{}' never pops {}",
                fused.id.value,
                left.join(", ")
            );
            checker.report(Finding::new(Rule::Fused, fused.id.span, message));
        }
        if !wrote_output {
            let message = format!("fused op '{}' has no output", fused.id.value);
            checker.report(Finding::new(Rule::Fused, fused.id.span, message));
        }
    }

    fn reads(&self, checker: &mut Checker<'_>, op: &ScheduledOp, schedule: usize) {
        for (buffer, tms) in &op.inputs {
            if matches!(buffer.value, Buffer::Input(_) | Buffer::Output) {
                continue;
            }
            let Some(held) = self.held.get(&buffer.value) else {
                let message = format!("nothing was written to {}", buffer.value);
                wrong(checker, Rule::Fused, buffer.span, op, &message);
                continue;
            };
            let is_single = held.mblock == [1, 1];
            let is_lost = held.is_run_through && !held.is_whole && !is_single;
            if held.schedule != schedule && is_lost {
                let message = format!(
                    "{} of an earlier schedule holds one ublock of {}x{}",
                    buffer.value, held.mblock[0], held.mblock[1]
                );
                wrong(checker, Rule::Fused, buffer.span, op, &message);
            }
            shapes(checker, op, *buffer, held, tms);
        }
    }

    fn pops(&mut self, checker: &mut Checker<'_>, op: &ScheduledOp) {
        for buffer in op.pop.iter().chain(&op.pop_last) {
            let is_input = matches!(buffer.value, Buffer::Input(_));
            if !is_input && self.held.remove(&buffer.value).is_none() {
                let message = format!("{} holds nothing to pop", buffer.value);
                wrong(checker, Rule::Fused, buffer.span, op, &message);
            }
        }
    }

    fn writes(
        &mut self,
        checker: &mut Checker<'_>,
        op: &ScheduledOp,
        schedule: usize,
        is_run_through: bool,
    ) {
        let held = Held {
            mblock: op.mblock.value,
            ublock: op.ublock.value,
            schedule,
            is_whole: is_inner(op.kind.value),
            is_run_through,
        };
        let before = match op.output.value {
            Buffer::Output => return,
            Buffer::Input(_) => {
                return wrong(
                    checker,
                    Rule::Fused,
                    op.output.span,
                    op,
                    "an input cannot be written",
                );
            }
            buffer => self.held.insert(buffer, held),
        };
        if before.is_some() && op.output.value != Buffer::Dest {
            let message = format!("{} is written again before it was popped", op.output.value);
            wrong(checker, Rule::Fused, op.output.span, op, &message);
        }
    }
}

/// A buffer that is read has the shape of the op, or is broadcast to it.
fn shapes(
    checker: &mut Checker<'_>,
    op: &ScheduledOp,
    buffer: crate::Spanned<Buffer>,
    held: &Held,
    tms: &[crate::Spanned<Tm>],
) {
    let [mut rows, mut columns] =
        [0, 1].map(|axis| u64::from(held.mblock[axis]) * u64::from(held.ublock[axis]));
    for tm in tms {
        match tm.value {
            // One ublock is all that is there to repeat (facts 7.1).
            Tm::BroadcastRows(times) => {
                if held.mblock[0] != 1 || held.ublock[0] != 1 {
                    let message = "rows are broadcast from one row of tiles";
                    wrong(checker, Rule::FusedShape, tm.span, op, message);
                }
                rows = rows.saturating_mul(times.into());
            }
            Tm::BroadcastColumns(times) => {
                if held.mblock[1] != 1 || held.ublock[1] != 1 {
                    let message = "columns are broadcast from one column of tiles";
                    wrong(checker, Rule::FusedShape, tm.span, op, message);
                }
                columns = columns.saturating_mul(times.into());
            }
            _ => {}
        }
    }
    if is_inner(op.kind.value) {
        return inner_shape(checker, op, buffer, held);
    }
    let wanted =
        [0, 1].map(|axis| u64::from(op.mblock.value[axis]) * u64::from(op.ublock.value[axis]));
    if [rows, columns] != wanted {
        let message = format!(
            "{} has {rows}x{columns} tiles, the op {}x{}",
            buffer.value, wanted[0], wanted[1]
        );
        wrong(checker, Rule::FusedShape, buffer.span, op, &message);
    }
}

/// The inner dimension of a product or reduction of a buffer is blocked as the buffer is.
fn inner_shape(
    checker: &mut Checker<'_>,
    op: &ScheduledOp,
    buffer: crate::Spanned<Buffer>,
    held: &Held,
) {
    let is_input = |index: usize| {
        op.inputs
            .get(index)
            .is_some_and(|(b, _)| b.value == buffer.value)
    };
    let axis = match (op.kind.value, op.attributes.word(Key::Dim)) {
        (OpKind::Reduce, Some("r")) => 0,
        (OpKind::Reduce, _) => 1,
        (_, _) if is_input(0) => 1,
        (_, _) if is_input(1) => 0,
        _ => return,
    };
    let declared = [
        op.attributes.integer(Key::MK),
        op.attributes.integer(Key::UKt),
    ];
    let blocked = [i64::from(held.mblock[axis]), i64::from(held.ublock[axis])];
    // A reduction that says nothing takes the buffer as it is blocked.
    let is_silent = op.kind.value == OpKind::Reduce && declared == [0, 0];
    if declared != blocked && !is_silent {
        let message = format!(
            "m_k and u_kt are {} and {}, but {} is blocked by {} and {}",
            declared[0], declared[1], buffer.value, blocked[0], blocked[1]
        );
        wrong(checker, Rule::FusedShape, buffer.span, op, &message);
    }
}

/// The op whose output is `output` has the base op's shape.
fn base(checker: &mut Checker<'_>, base: &Op, fused: &FusedOp) {
    for (_, op) in ops(fused).filter(|(_, op)| op.output.value == Buffer::Output) {
        let declared = [base.blocking.mblock.value, base.blocking.ublock.value];
        if [op.mblock.value, op.ublock.value] != declared {
            let message = format!(
                "the output of fused op '{}' is blocked otherwise than op '{}'",
                fused.id.value, base.name.value
            );
            let finding = Finding::new(Rule::FusedShape, base.blocking.mblock.span, message);
            let [expected, found] = [[op.mblock.value, op.ublock.value], declared]
                .map(|[mblock, ublock]| format!("mblock {mblock:?}, ublock {ublock:?}"));
            checker.report(finding.expected(expected).found(found));
        }
    }
}
