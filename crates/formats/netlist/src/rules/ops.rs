//! The rules for single ops: inputs, placement, blocking, attributes.

use super::Rule;
use super::check::Checker;
use crate::Finding;
use crate::attributes::AttributeKey as Key;
use crate::netlist::{Graph, Op};
use crate::source::Spanned;
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

/// The rows and columns of cores that an op covers.
fn footprint(op: &Op) -> Option<[std::ops::Range<u64>; 2]> {
    let [start, size] = op.placement()?.map(|pair| pair.map(u64::from));
    Some([0, 1].map(|axis| start[axis]..start[axis] + size[axis]))
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
            let [a, b] = [op, other].map(|op| &op.name.value);
            let message = format!("the cores of op '{a}' overlap those of op '{b}'");
            let span = op.grid_loc.map_or(op.name.span, |loc| loc.span);
            let finding = Finding::new(Rule::CoreOverlap, span, message);
            let help = "choose a grid_loc at which all cores of its grid_size are free";
            checker.report(finding.help(help));
        }
    }
}

fn inputs(checker: &mut Checker<'_>, op: &Op) {
    let is = |key| op.attributes.is(key);
    let declared = match op.kind.value {
        OpKind::Matmul => {
            let optional = [
                is(Key::Identity),
                is(Key::Bias),
                is(Key::Requant) || is(Key::Dequant),
            ];
            Some(2 + optional.into_iter().map(usize::from).sum::<usize>())
        }
        OpKind::Depthwise => Some(2 + usize::from(is(Key::Bias))),
        OpKind::FusedOp => {
            let id = op.attributes.word(Key::FusedOpId).unwrap_or_default();
            let fused = checker.netlist.fused_op(id);
            fused.map(|fused| fused.inputs.value as usize)
        }
        _ => None,
    };
    let (least, most) = declared.map_or_else(|| op.kind.value.inputs(), |count| (count, count));
    if !(least..=most).contains(&op.inputs.len()) {
        let expected = if least == most {
            format!("{least}")
        } else {
            format!("{least} to {most}")
        };
        let message = format!("wrong number of inputs of {}", op.kind.value);
        let finding = op.finding(Rule::InputNumber, op.kind.span, message);
        checker.report(finding.expected(expected).found(op.inputs.len()));
    }
}

fn blocking(checker: &mut Checker<'_>, op: &Op) {
    let by_rows = matches!(
        op.kind.value,
        OpKind::Matmul | OpKind::Reduce | OpKind::Depthwise
    );
    if let Some(order) = op.blocking.ublock_order
        && order.value != UblockOrder::Row
        && (by_rows || op.is_untilized())
    {
        let what = if by_rows {
            op.kind.value.name()
        } else {
            "an untilized output"
        };
        let message = format!("unsupported ublock_order of {what}");
        let finding = op.finding(Rule::OutputOrder, order.span, message);
        checker.report(finding.expected("r").found(order.value));
    }
    let size = op.buf_size_mb;
    if size.value != 1 && !size.value.is_multiple_of(2) {
        let finding = op.finding(Rule::BufferSize, size.span, "unsupported buf_size_mb");
        checker.report(finding.expected("1 or even").found(size.value));
    }
}

/// The capacity of the destination registers in tiles for accumulation in `acc_df`.
pub(super) fn dest_tiles(checker: &Checker<'_>, acc_df: Option<Spanned<DataFormat>>) -> u64 {
    let acc_df = acc_df.map(|format| format.value);
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
    let most = dest_tiles(checker, op.acc_df);
    if tiles > most {
        let message = "the ublock exceeds the destination registers";
        let expected = format!("at most {most} tiles");
        let finding = op.finding(Rule::DestSize, op.blocking.ublock.span, message);
        checker.report(finding.expected(expected).found(tiles));
    }
}

fn untilize(checker: &mut Checker<'_>, op: &Op) {
    let Some(flag) = op.untilize_output.filter(|untilize| untilize.value) else {
        return;
    };
    let queues = checker.links.output_queues(&op.name.value);
    let [queue] = queues else {
        let message = "an untilized output requires one queue";
        let finding = op.finding(Rule::Untilize, flag.span, message);
        return checker.report(finding.expected(1).found(queues.len()));
    };
    let grid = queue.blocking.grid_size;
    if grid.value != [1, 1] {
        let found = format!("{:?}", grid.value);
        let name = &queue.name.value;
        let message = format!("untilized queue '{name}' must have one buffer");
        let finding = op.finding(Rule::Untilize, grid.span, message);
        checker.report(finding.expected("grid_size [1, 1]").found(found));
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
        let finding = op.finding(Rule::UntilizeFormat, op.out_df.span, message);
        checker.report(finding.expected(expected).found(op.out_df.value));
    }
}
