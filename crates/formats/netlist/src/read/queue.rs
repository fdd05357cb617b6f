//! The section of queues.

use super::blocking::read_blocking;
use super::fields::Fields;
use super::reader::Reader;
use super::tms::read_tms;
use crate::netlist::{Address, Queue};
use crate::source::Spanned;
use crate::yaml::{Node, NodeKind};
use crate::{Finding, Rule};

/// Reads one queue or ram.
pub(super) fn read_queue(reader: &mut Reader, key: &Node, node: &Node) -> Option<Queue> {
    let name = reader.text(key)?;
    let mut fields = Fields::new(reader, node, format!("queue '{}'", name.value));
    let kind = fields.require(reader, "type", &name, |reader, node| reader.word(node));
    let input = fields.require(reader, "input", &name, |reader, node| reader.text(node));
    let input_tms = fields.take(reader, "input_tms");
    let input_tms = input_tms
        .map(|node| read_tms(reader, node))
        .unwrap_or_default();
    let entries = fields.require(reader, "entries", &name, |reader, node| {
        reader.count(node, 1)
    });
    let blocking = read_blocking(reader, &mut fields, &name);
    let df = fields.require(reader, "df", &name, |reader, node| reader.word(node));
    let layout = fields.optional(reader, "layout", |reader, node| reader.word(node));
    let alias = fields.optional(reader, "alias", |reader, node| reader.text(node));
    let target_device = fields.require(reader, "target_device", &name, read_devices);
    let loc = fields.require(reader, "loc", &name, |reader, node| reader.word(node));
    let dram = fields
        .take(reader, "dram")
        .map(|node| read_buffers(reader, node));
    let host = fields
        .take(reader, "host")
        .map(|node| read_buffers(reader, node));
    let read_ports = fields.take(reader, "read_ports");
    let read_ports = read_ports
        .map(|node| reader.counts(node))
        .unwrap_or_default();
    let write_ports = fields.take(reader, "write_ports");
    let write_ports = write_ports
        .map(|node| reader.counts(node))
        .unwrap_or_default();
    fields.finish(reader);
    let loc: Spanned<crate::words::Memory> = loc?;
    let buffers = match loc.value {
        crate::words::Memory::Dram => dram,
        crate::words::Memory::Host => host,
    };
    let buffers = buffers.or_else(|| reader.missing(loc.value.name(), &name));
    Some(Queue {
        name,
        kind: kind?,
        input: input?,
        input_tms,
        entries: entries?,
        blocking: blocking?,
        df: df?,
        layout,
        alias,
        target_device: target_device?,
        loc,
        buffers: buffers?,
        read_ports,
        write_ports,
    })
}

/// One device or a list of them.
pub(super) fn read_devices(reader: &mut Reader, node: &Node) -> Option<Vec<Spanned<u32>>> {
    let nodes = reader.one_or_list(node, "device numbers");
    let devices: Option<Vec<_>> = nodes.iter().map(|node| reader.count(node, 0)).collect();
    let devices = devices?;
    if devices.is_empty() {
        let finding = Finding::new(Rule::ValueRange, node.span, "the list of devices is empty");
        reader.report(finding.expected("at least one device"));
        return None;
    }
    Some(devices)
}

/// Addresses of buffers: pairs of channel and byte, or bytes of channel 0.
fn read_buffers(reader: &mut Reader, node: &Node) -> Vec<Spanned<Address>> {
    let nodes = reader.one_or_list(node, "[channel, address]");
    nodes
        .iter()
        .filter_map(|node| read_address(reader, node))
        .collect()
}

fn read_address(reader: &mut Reader, node: &Node) -> Option<Spanned<Address>> {
    let (channel, byte) = match &node.kind {
        NodeKind::Sequence(parts) if parts.len() == 2 => {
            let channel = reader.count(&parts[0], 0);
            let byte = reader.address(&parts[1]);
            (channel?.value, byte?)
        }
        NodeKind::Scalar { .. } => (0, reader.address(node)?),
        _ => {
            let finding = Finding::new(Rule::ValueType, node.span, "wrong type of value");
            reader.report(
                finding
                    .expected("[channel, address]")
                    .found(node.kind_name()),
            );
            return None;
        }
    };
    Some(Spanned::new(Address { channel, byte }, node.span))
}
