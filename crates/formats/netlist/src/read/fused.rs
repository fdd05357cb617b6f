//! The section of fused ops (netlist 2.4, 3.7).

use super::attributes::{read_attributes, take_attribute};
use super::fields::Fields;
use super::reader::Reader;
use super::tms::read_tms;
use crate::attributes::AttributeKey;
use crate::netlist::{Buffer, FusedOp, ScheduledOp};
use crate::source::Spanned;
use crate::yaml::Node;
use crate::{Finding, Rule};
use tenon_base::Count;

/// Reads one fused op.
pub(super) fn read_fused_op(reader: &mut Reader, key: &Node, node: &Node) -> Option<FusedOp> {
    let id = reader.text(key)?;
    let mut fields = Fields::new(reader, node, format!("fused op '{}'", id.value));
    let count = |reader: &mut Reader, node: &Node| reader.count(node, 0);
    let inputs = fields.require(reader, "inputs", &id, count);
    let intermediates = fields.require(reader, "intermediates", &id, count);
    let schedules = fields.require(reader, "schedules", &id, |reader, node| {
        let schedules = reader.list(node, "schedules");
        Some(
            schedules
                .iter()
                .map(|node| read_schedule(reader, node))
                .collect(),
        )
    });
    let custom_kernel_path = fields.optional(reader, "custom_kernel_path", Reader::text);
    fields.finish(reader);
    Some(FusedOp {
        id,
        inputs: inputs?,
        intermediates: intermediates?,
        schedules: schedules?,
        custom_kernel_path,
    })
}

/// A list of maps from the name of an op to its fields.
fn read_schedule(reader: &mut Reader, node: &Node) -> Vec<ScheduledOp> {
    let mut ops = Vec::new();
    for element in reader.list(node, "ops") {
        for (key, value) in reader.map(element, "a name to an op") {
            ops.extend(read_scheduled_op(reader, key, value));
        }
    }
    ops
}

fn read_scheduled_op(reader: &mut Reader, key: &Node, node: &Node) -> Option<ScheduledOp> {
    let name = reader.text(key)?;
    let mut fields = Fields::new(reader, node, format!("scheduled op '{}'", name.value));
    let f = &mut fields;
    let kind = f.require(reader, "type", &name, Reader::word);
    let inputs = f.require(reader, "inputs", &name, read_buffers);
    let output = f.require(reader, "output", &name, read_buffer);
    let mblock = f.require(reader, "mblock", &name, |reader, node| reader.pair(node, 1));
    let ublock = f.require(reader, "ublock", &name, |reader, node| reader.pair(node, 1));
    let pop = f.optional(reader, "pop", read_buffers).unwrap_or_default();
    let pop_last = f
        .optional(reader, "pop_last", read_buffers)
        .unwrap_or_default();
    let tms = f.take_all(|key| {
        let number = key.strip_prefix("input_")?.strip_suffix("_tms")?;
        number.parse::<usize>().ok()
    });
    let mut attributes = f.or_empty(reader, "attributes", |reader, node| {
        read_attributes(reader, node, &name)
    });
    take_attribute(reader, f, AttributeKey::ZeroPoint, &mut attributes);
    fields.finish(reader);
    let mut inputs: Vec<_> = inputs?
        .into_iter()
        .map(|input| (input, Vec::new()))
        .collect();
    for (number, key, node) in tms {
        match inputs.get_mut(number) {
            Some((_, list)) => list.extend(read_tms(reader, node)),
            None => {
                let finding = Finding::new(Rule::Structure, key.span, "the input does not exist");
                reader.report(finding.found(Count(inputs.len(), "input")));
            }
        }
    }
    Some(ScheduledOp {
        name,
        kind: kind?,
        inputs,
        output: output?,
        mblock: mblock?,
        ublock: ublock?,
        pop,
        pop_last,
        attributes,
    })
}

fn read_buffers(reader: &mut Reader, node: &Node) -> Option<Vec<Spanned<Buffer>>> {
    let nodes = reader.one_or_list(node, "buffers");
    nodes.iter().map(|node| read_buffer(reader, node)).collect()
}

/// `inputN`, `intermedN`, `dest` or `output`. The specification uses `interm`, netlists use `intermed`
/// (netlist 2.5).
fn read_buffer(reader: &mut Reader, node: &Node) -> Option<Spanned<Buffer>> {
    let text = node.text().unwrap_or_default();
    let numbered = |prefix: &str| text.strip_prefix(prefix)?.parse().ok();
    let buffer = match text {
        "dest" => Some(Buffer::Dest),
        "output" => Some(Buffer::Output),
        _ => numbered("intermed")
            .or_else(|| numbered("interm"))
            .map(Buffer::Intermediate)
            .or_else(|| numbered("input").map(Buffer::Input)),
    };
    if buffer.is_none() {
        let finding = Finding::new(Rule::ValueWord, node.span, "unknown buffer");
        let expected = "inputN, intermedN, dest or output";
        reader.report(finding.expected(expected).found(format!("'{text}'")));
    }
    buffer.map(|buffer| Spanned::new(buffer, node.span))
}
