//! The rules for fused ops: lifetimes and shapes of their buffers (netlist 3.7, 7.1).

use super::Rule;
use super::check::Checker;
use super::ops::dest_tiles;
use crate::Finding;
use crate::attributes::AttributeKey as Key;
use crate::netlist::{Buffer, FusedOp, Netlist, Op, ScheduledOp, Tm};
use crate::source::{Span, Spanned};
use crate::words::OpKind;
use std::collections::HashMap;
use tenon_base::Count;

/// Maximum number of intermediate buffers of a core.
const MAX_INTERMEDIATES: u32 = 8;

pub(super) fn check(checker: &mut Checker<'_>) {
    for fused in &checker.netlist.fused_ops {
        if fused.intermediates.value > MAX_INTERMEDIATES {
            let message = "too many intermediate buffers";
            let finding = Finding::new(Rule::Fused, fused.intermediates.span, message);
            let found = fused.intermediates.value;
            checker.report(finding.expected("at most 8").found(found));
        }
        BufferLifetimes::default().check(checker, fused);
        for schedule in &fused.schedules {
            for (index, op) in schedule.iter().enumerate() {
                scheduled_op(checker, fused, op, index + 1 == schedule.len());
            }
        }
        let bases: Vec<&Op> = bases(checker.netlist, fused).collect();
        registers(checker, fused, &bases);
        for op in bases {
            base_op(checker, op, fused);
        }
    }
}

/// The base ops of a fused op: the ops of graphs that run it.
fn bases<'n>(netlist: &'n Netlist, fused: &'n FusedOp) -> impl Iterator<Item = &'n Op> {
    let all = netlist.ops().map(|(_, op)| op);
    all.filter(|op| {
        op.kind.value == OpKind::FusedOp
            && op.attributes.word(Key::FusedOpId).unwrap_or_default() == fused.id.value
    })
}

/// The ublock of each scheduled op must fit the destination registers in the accumulation format of
/// each base op.
fn registers(checker: &mut Checker<'_>, fused: &FusedOp, bases: &[&Op]) {
    let least = bases.iter().map(|op| dest_tiles(checker, op.acc_df)).min();
    let most = least.unwrap_or_else(|| dest_tiles(checker, None));
    for op in fused.schedules.iter().flatten() {
        let [rows, columns] = op.ublock.value.map(u64::from);
        let tiles = rows.saturating_mul(columns);
        if tiles > most {
            let message = "the ublock exceeds the destination registers";
            let finding = op.finding(Rule::DestSize, op.ublock.span, message);
            checker.report(
                finding
                    .expected(format!("at most {most} tiles"))
                    .found(tiles),
            );
        }
    }
}

fn is_inner(kind: OpKind) -> bool {
    matches!(kind, OpKind::Matmul | OpKind::Reduce)
}

fn scheduled_op(checker: &mut Checker<'_>, fused: &FusedOp, op: &ScheduledOp, is_last: bool) {
    let kind = op.kind.value;
    let spills = op.attributes.integer(Key::MK) > 1;
    let allowed = kind.is_binary() || kind.is_sfpu() || kind.is_copy() || is_inner(kind);
    if !allowed || kind == OpKind::EthernetDatacopy {
        checker.report(op.finding(Rule::Fused, op.kind.span, format!("{kind} cannot be fused")));
    }
    if is_inner(kind) && !is_last {
        let message = format!("{kind} must be the last op of its schedule");
        checker.report(op.finding(Rule::Fused, op.kind.span, message));
    }
    let (least, most) = kind.inputs();
    if op.inputs.len() < least || op.inputs.len() > most {
        let expected = Count(least, "input");
        let message = format!("{kind} requires {expected}, found {}", op.inputs.len());
        checker.report(op.finding(Rule::InputNumber, op.kind.span, message));
    }
    if kind == OpKind::Matmul {
        let from_intermediate = |input: Option<&(Spanned<Buffer>, _)>| {
            input
                .filter(|(buffer, _)| matches!(buffer.value, Buffer::Intermediate(_)))
                .map(|(b, _)| b.span)
        };
        if let Some(span) = from_intermediate(op.inputs.get(1)).filter(|_| spills) {
            let message = "input 1 of a matmul with m_k > 1 cannot be an intermediate buffer";
            checker.report(op.finding(Rule::Fused, span, message));
        }
        if spills && op.output.value == Buffer::Output {
            let message = "a matmul with m_k > 1 must write an intermediate buffer";
            checker.report(op.finding(Rule::Fused, op.output.span, message));
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
    buffer: Spanned<Buffer>,
    tms: &[Spanned<Tm>],
) {
    let kind = op.kind.value;
    let is_intermediate = matches!(buffer.value, Buffer::Intermediate(_));
    match buffer.value {
        Buffer::Input(number) if number >= fused.inputs.value => {
            let message = format!(
                "{} does not exist: the fused op has {}",
                buffer.value,
                Count(fused.inputs.value, "input")
            );
            checker.report(op.finding(Rule::Fused, buffer.span, message));
        }
        Buffer::Output => {
            checker.report(op.finding(Rule::Fused, buffer.span, "the output is write-only"))
        }
        Buffer::Dest if is_inner(kind) || kind == OpKind::Maximum => {
            let message = format!("{kind} cannot read dest");
            checker.report(op.finding(Rule::Fused, buffer.span, message));
        }
        _ => {}
    }
    for tm in tms {
        let message = match tm.value {
            Tm::BroadcastSlices(_) => "fused ops do not support broadcasts of slices",
            Tm::TileBroadcast(_) if buffer.value == Buffer::Dest => "dest cannot be broadcast",
            Tm::TileBroadcast(_) if index != 1 || !kind.is_binary() => {
                "tile_broadcast requires input 1 of a binary op"
            }
            Tm::TileBroadcast(_) => continue,
            Tm::BroadcastRows(_) | Tm::BroadcastColumns(_) if !is_intermediate => {
                "only intermediate buffers can be broadcast"
            }
            Tm::BroadcastRows(_) if kind == OpKind::Matmul => MATMUL_BROADCAST,
            Tm::BroadcastColumns(_) if kind == OpKind::Matmul && index != 0 => MATMUL_BROADCAST,
            Tm::BroadcastRows(_) | Tm::BroadcastColumns(_) => continue,
            _ => "fused ops support broadcast TMs only",
        };
        checker.report(op.finding(Rule::TmPlace, tm.span, message));
    }
    broadcasts(checker, op, tms);
}

/// The supported broadcast of a matmul (netlist 7.1).
const MATMUL_BROADCAST: &str = "a matmul supports a broadcast of the columns of input 0 only";

/// A buffer is broadcast along rows or columns, not both.
fn broadcasts(checker: &mut Checker<'_>, op: &ScheduledOp, tms: &[Spanned<Tm>]) {
    let find = |matches: fn(&Tm) -> bool| tms.iter().find(|tm| matches(&tm.value));
    let rows = find(|tm| matches!(tm, Tm::BroadcastRows(_)));
    let columns = find(|tm| matches!(tm, Tm::BroadcastColumns(_)));
    if let (Some(_), Some(columns)) = (rows, columns) {
        let message = "a buffer cannot be broadcast along both rows and columns";
        checker.report(op.finding(Rule::TmPlace, columns.span, message));
    }
}

/// The content of a buffer during the walk over the schedules.
#[derive(Clone, Copy)]
struct BufferContent {
    mblock: [u32; 2],
    ublock: [u32; 2],
    schedule: usize,
    /// Whether a matmul or reduction produced it, so that it has all ublocks.
    has_all_ublocks: bool,
    /// Whether its schedule ends in a matmul or reduction, which consumes all ublocks before the next
    /// schedule begins.
    is_consumed_by_schedule: bool,
}

/// The lifetimes of buffers over the schedules of one fused op.
#[derive(Default)]
struct BufferLifetimes {
    live: HashMap<Buffer, BufferContent>,
}

impl BufferLifetimes {
    fn check(mut self, checker: &mut Checker<'_>, fused: &FusedOp) {
        let mut wrote_output = false;
        for (number, schedule) in fused.schedules.iter().enumerate() {
            let mut dest_pending: Option<Span> = None;
            let is_consumed_by_schedule = schedule.last().is_some_and(|op| is_inner(op.kind.value));
            for op in schedule {
                self.reads(checker, op, number);
                let reads_dest = op
                    .inputs
                    .iter()
                    .any(|(buffer, _)| buffer.value == Buffer::Dest);
                if let Some(span) = dest_pending.take().filter(|_| !reads_dest) {
                    checker.report(op.finding(
                        Rule::Fused,
                        span,
                        "it does not read dest, which the previous op wrote",
                    ));
                }
                self.pops(checker, op);
                self.writes(checker, op, number, is_consumed_by_schedule);
                wrote_output |= op.output.value == Buffer::Output;
                dest_pending = (op.output.value == Buffer::Dest).then_some(op.output.span);
            }
        }
        let left = self
            .live
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
            let message = format!("no op of fused op '{}' writes output", fused.id.value);
            checker.report(Finding::new(Rule::Fused, fused.id.span, message));
        }
    }

    fn reads(&self, checker: &mut Checker<'_>, op: &ScheduledOp, schedule: usize) {
        for (buffer, tms) in &op.inputs {
            if matches!(buffer.value, Buffer::Input(_) | Buffer::Output) {
                continue;
            }
            let Some(held) = self.live.get(&buffer.value) else {
                let message = format!("{} is read before it is written", buffer.value);
                checker.report(op.finding(Rule::Fused, buffer.span, message));
                continue;
            };
            let is_single = held.mblock == [1, 1];
            let is_lost = held.is_consumed_by_schedule && !held.has_all_ublocks && !is_single;
            if held.schedule != schedule && is_lost {
                let message = format!(
                    "{} of an earlier schedule has one ublock of {}x{} left",
                    buffer.value, held.mblock[0], held.mblock[1]
                );
                checker.report(op.finding(Rule::Fused, buffer.span, message));
            }
            shapes(checker, op, *buffer, held, tms);
        }
    }

    fn pops(&mut self, checker: &mut Checker<'_>, op: &ScheduledOp) {
        for buffer in op.pop.iter().chain(&op.pop_last) {
            let is_input = matches!(buffer.value, Buffer::Input(_));
            if !is_input && self.live.remove(&buffer.value).is_none() {
                let message = format!("{} is popped while it is empty", buffer.value);
                checker.report(op.finding(Rule::Fused, buffer.span, message));
            }
        }
    }

    fn writes(
        &mut self,
        checker: &mut Checker<'_>,
        op: &ScheduledOp,
        schedule: usize,
        is_consumed_by_schedule: bool,
    ) {
        let held = BufferContent {
            mblock: op.mblock.value,
            ublock: op.ublock.value,
            schedule,
            has_all_ublocks: is_inner(op.kind.value),
            is_consumed_by_schedule,
        };
        let before = match op.output.value {
            Buffer::Output => return,
            Buffer::Input(_) => {
                return checker.report(op.finding(
                    Rule::Fused,
                    op.output.span,
                    "inputs are read-only",
                ));
            }
            buffer => self.live.insert(buffer, held),
        };
        if before.is_some() && op.output.value != Buffer::Dest {
            let message = format!("{} is overwritten before it is popped", op.output.value);
            checker.report(op.finding(Rule::Fused, op.output.span, message));
        }
    }
}

/// An input buffer has the shape of the op after its broadcasts.
fn shapes(
    checker: &mut Checker<'_>,
    op: &ScheduledOp,
    buffer: Spanned<Buffer>,
    held: &BufferContent,
    tms: &[Spanned<Tm>],
) {
    let [mut rows, mut columns] =
        [0, 1].map(|axis| u64::from(held.mblock[axis]) * u64::from(held.ublock[axis]));
    for tm in tms {
        match tm.value {
            // Only one row or column of tiles can be broadcast (netlist 7.1).
            Tm::BroadcastRows(times) => {
                if held.mblock[0] != 1 || held.ublock[0] != 1 {
                    let message = "a broadcast of rows requires a buffer of one row of tiles";
                    checker.report(op.finding(Rule::FusedShape, tm.span, message));
                }
                rows = rows.saturating_mul(times.into());
            }
            Tm::BroadcastColumns(times) => {
                if held.mblock[1] != 1 || held.ublock[1] != 1 {
                    let message = "a broadcast of columns requires a buffer of one column of tiles";
                    checker.report(op.finding(Rule::FusedShape, tm.span, message));
                }
                columns = columns.saturating_mul(times.into());
            }
            _ => {}
        }
    }
    if is_inner(op.kind.value) {
        return inner_shape(checker, op, buffer, held, [rows, columns]);
    }
    let expected =
        [0, 1].map(|axis| u64::from(op.mblock.value[axis]) * u64::from(op.ublock.value[axis]));
    if [rows, columns] != expected {
        let message = format!(
            "{} has {rows}x{columns} tiles, the op has {}x{}",
            buffer.value, expected[0], expected[1]
        );
        checker.report(op.finding(Rule::FusedShape, buffer.span, message));
    }
}

/// The inner dimension of a matmul or reduction has the blocking of the buffer, or the size of its
/// broadcast; the outer dimension is that of the op.
fn inner_shape(
    checker: &mut Checker<'_>,
    op: &ScheduledOp,
    buffer: Spanned<Buffer>,
    held: &BufferContent,
    tiles: [u64; 2],
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
    let inner = declared.map(i64::unsigned_abs);
    let blocked = [i64::from(held.mblock[axis]), i64::from(held.ublock[axis])];
    let is_broadcast = tiles[axis] != blocked[0].unsigned_abs() * blocked[1].unsigned_abs();
    let fits = if is_broadcast {
        inner[0].saturating_mul(inner[1]) == tiles[axis]
    } else {
        declared == blocked
    };
    // A reduction without m_k and u_kt has the blocking of the buffer.
    let is_implicit = op.kind.value == OpKind::Reduce && declared == [0, 0];
    if !fits && !is_implicit {
        let content = if is_broadcast {
            format!("broadcast to {}", Count(tiles[axis], "tile"))
        } else {
            format!("blocked by {} and {}", blocked[0], blocked[1])
        };
        let message = format!(
            "m_k and u_kt are {} and {}, but {} is {content}",
            declared[0], declared[1], buffer.value
        );
        checker.report(op.finding(Rule::FusedShape, buffer.span, message));
    }
    let outer = 1 - axis;
    let expected = u64::from(op.mblock.value[outer]) * u64::from(op.ublock.value[outer]);
    if tiles[outer] != expected {
        let count = Count(tiles[outer], ["row", "column"][outer]);
        let message = format!(
            "{} has {count} of tiles, the op has {expected}",
            buffer.value
        );
        checker.report(op.finding(Rule::FusedShape, buffer.span, message));
    }
}

/// The op that writes `output` has the blocking of the base op.
fn base_op(checker: &mut Checker<'_>, base: &Op, fused: &FusedOp) {
    let ops = fused.schedules.iter().flatten();
    for op in ops.filter(|op| op.output.value == Buffer::Output) {
        let declared = [base.blocking.mblock.value, base.blocking.ublock.value];
        if [op.mblock.value, op.ublock.value] != declared {
            let message = format!(
                "the output of fused op '{}' has another blocking than op '{}'",
                fused.id.value, base.name.value
            );
            let finding = Finding::new(Rule::FusedShape, base.blocking.mblock.span, message);
            let [expected, found] = [[op.mblock.value, op.ublock.value], declared]
                .map(|[mblock, ublock]| format!("mblock {mblock:?}, ublock {ublock:?}"));
            checker.report(finding.expected(expected).found(found));
        }
    }
}
