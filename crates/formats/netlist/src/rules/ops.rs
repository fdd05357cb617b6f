//! The rules for single ops: inputs, placement, blocking, attributes.

use super::Rule;
use super::check::Checker;
use crate::Finding;
use crate::attributes::AttributeKey as Key;
use crate::netlist::{Graph, Op};
use crate::source::Span;
use crate::words::OpKind;
use tenon_tile::{Arch, DataFormat, UblockOrder};

/// Tiles of half of the destination registers (netlist 7.1), which are double-buffered.
const DEST_TILES: u64 = 8;

pub(super) fn check(checker: &mut Checker<'_>) {
    for graph in &checker.netlist.graphs {
        overlaps(checker, graph);
    }
    let netlist = checker.netlist;
    for (_, op) in netlist.ops() {
        inputs(checker, op);
        blocking(checker, op);
        dest(checker, op);
        untilize(checker, op);
        super::op_types::check(checker, op);
        super::formats::check(checker, op);
        super::gradient::check(checker, op);
    }
}

/// Reports a violation by an op at `span`.
pub(super) fn report(
    checker: &mut Checker<'_>,
    rule: Rule,
    span: Span,
    op: &Op,
    message: &str,
    expected: impl std::fmt::Display,
    found: impl std::fmt::Display,
) {
    let message = format!("op '{}': {message}", op.name.value);
    checker.report(
        Finding::new(rule, span, message)
            .expected(expected)
            .found(found),
    );
}

/// The rows and columns of cores that an op covers.
fn footprint(op: &Op) -> Option<[std::ops::Range<u64>; 2]> {
    let [row, column] = op
        .grid_loc
        .filter(|_| op.kind.value != OpKind::EthernetDatacopy)?
        .value;
    let [mut rows, mut columns] = op.blocking.grid_size.value;
    if op.grid_transpose.is_some_and(|transpose| transpose.value) {
        (rows, columns) = (columns, rows);
    }
    let range = |start: u32, size: u32| u64::from(start)..u64::from(start) + u64::from(size);
    Some([range(row, rows), range(column, columns)])
}

fn overlaps(checker: &mut Checker<'_>, graph: &Graph) {
    let placed: Vec<_> = graph
        .ops
        .iter()
        .filter_map(|op| Some((op, footprint(op)?)))
        .collect();
    let meet =
        |a: &std::ops::Range<u64>, b: &std::ops::Range<u64>| a.start < b.end && b.start < a.end;
    for (index, (op, cores)) in placed.iter().enumerate() {
        let clash = placed[..index]
            .iter()
            .find(|(_, other)| cores.iter().zip(other).all(|(a, b)| meet(a, b)));
        if let Some((other, _)) = clash {
            let message = format!(
                "the cores of op '{}' overlap those of op '{}'",
                op.name.value, other.name.value
            );
            let span = op.grid_loc.map_or(op.name.span, |loc| loc.span);
            let finding = Finding::new(Rule::CoreOverlap, span, message);
            checker.report(
                finding.help("choose a grid_loc at which all cores of its grid_size are free"),
            );
        }
    }
}

fn inputs(checker: &mut Checker<'_>, op: &Op) {
    let (mut least, mut most) = op.kind.value.inputs();
    let attributes = &op.attributes;
    match op.kind.value {
        OpKind::Matmul => {
            let scaled = attributes.is(Key::Requant) || attributes.is(Key::Dequant);
            least = 2
                + usize::from(attributes.is(Key::Identity))
                + usize::from(attributes.is(Key::Bias));
            least += usize::from(scaled);
            most = least;
        }
        OpKind::Depthwise => {
            least = 2 + usize::from(attributes.is(Key::Bias));
            most = least;
        }
        OpKind::FusedOp => {
            let id = attributes.word(Key::FusedOpId).unwrap_or_default();
            if let Some(fused) = checker.netlist.fused_op(id) {
                least = fused.inputs.value as usize;
                most = least;
            }
        }
        _ => {}
    }
    if op.inputs.len() < least || op.inputs.len() > most {
        let expected = if least == most {
            format!("{least}")
        } else {
            format!("{least} to {most}")
        };
        let message = format!("wrong number of inputs of {}", op.kind.value);
        report(
            checker,
            Rule::InputNumber,
            op.kind.span,
            op,
            &message,
            expected,
            op.inputs.len(),
        );
    }
}

fn blocking(checker: &mut Checker<'_>, op: &Op) {
    let by_rows = matches!(
        op.kind.value,
        OpKind::Matmul | OpKind::Reduce | OpKind::Depthwise
    );
    let untilized = op.untilize_output.is_some_and(|untilize| untilize.value);
    if let Some(order) = op.blocking.ublock_order
        && order.value != UblockOrder::Row
        && (by_rows || untilized)
    {
        let what = if by_rows {
            op.kind.value.name()
        } else {
            "an untilized output"
        };
        let message = format!("unsupported ublock_order of {what}");
        report(
            checker,
            Rule::OutputOrder,
            order.span,
            op,
            &message,
            "r",
            order.value,
        );
    }
    let size = op.buf_size_mb;
    if size.value != 1 && !size.value.is_multiple_of(2) {
        report(
            checker,
            Rule::BufferSize,
            size.span,
            op,
            "unsupported buf_size_mb",
            "1 or even",
            size.value,
        );
    }
}

/// The capacity of the destination registers in tiles for accumulation in `acc_df`.
pub(super) fn dest_tiles(checker: &Checker<'_>, acc_df: Option<DataFormat>) -> u64 {
    let is_wide = matches!(acc_df, Some(DataFormat::Float32 | DataFormat::Int32));
    let tiles = if is_wide { DEST_TILES / 2 } else { DEST_TILES };
    // The registers of wormhole a0 are four times as large.
    if checker.arch.contains(&Arch::Wormhole) {
        tiles * 4
    } else {
        tiles
    }
}

fn dest(checker: &mut Checker<'_>, op: &Op) {
    let [rows, columns] = op.blocking.ublock.value.map(u64::from);
    let tiles = match op.kind.value {
        OpKind::Topk => rows.saturating_mul(op.attributes.integer(Key::UKt).unsigned_abs()),
        kind if !kind.uses_registers() => return,
        _ => rows.saturating_mul(columns),
    };
    let most = dest_tiles(checker, op.acc_df.map(|format| format.value));
    if tiles > most {
        let message = "the ublock exceeds the destination registers";
        let expected = format!("at most {most} tiles");
        report(
            checker,
            Rule::DestSize,
            op.blocking.ublock.span,
            op,
            message,
            expected,
            tiles,
        );
    }
}

fn untilize(checker: &mut Checker<'_>, op: &Op) {
    let Some(flag) = op.untilize_output.filter(|untilize| untilize.value) else {
        return;
    };
    let queues = checker.links.output_queues(&op.name.value).to_vec();
    let [queue] = queues.as_slice() else {
        let message = "an untilized output requires one queue";
        return report(
            checker,
            Rule::Untilize,
            flag.span,
            op,
            message,
            1,
            queues.len(),
        );
    };
    let grid = queue.blocking.grid_size;
    if grid.value != [1, 1] {
        let found = format!("{:?}", grid.value);
        let message = format!(
            "untilized queue '{}' must have one buffer",
            queue.name.value
        );
        report(
            checker,
            Rule::Untilize,
            grid.span,
            op,
            &message,
            "grid_size [1, 1]",
            found,
        );
    }
    for name in [&op.name, &queue.name] {
        if let Some((_, reader, input)) = checker.links.readers(&name.value).first() {
            let span = reader.inputs[*input].name.span;
            let message = format!(
                "op '{}' reads '{}', which is untilized",
                reader.name.value, name.value
            );
            checker.report(Finding::new(Rule::Untilize, span, message));
        }
    }
    use DataFormat::{Float16, Float16B, Float32, Int8, Int32};
    let allowed: &[DataFormat] = if checker.is_grayskull() {
        &[Float16, Float16B, Float32]
    } else {
        &[Float16, Float16B, Float32, Int8, Int32]
    };
    if !allowed.contains(&op.out_df.value) {
        let names: Vec<&str> = allowed.iter().map(|format| format.name()).collect();
        let message = "unsupported format of untilized data";
        let expected = format!("one of {}", names.join(", "));
        report(
            checker,
            Rule::UntilizeFormat,
            op.out_df.span,
            op,
            message,
            expected,
            op.out_df.value,
        );
    }
}
