//! The section of queues.

use super::blocking::read_blocking;
use super::fields::Fields;
use super::reader::Reader;
use super::tms::read_tms;
use crate::netlist::{Address, Queue};
use crate::source::Spanned;
use crate::words::Memory;
use crate::yaml::{Node, NodeKind};
use crate::{Finding, Rule};

/// Reads one queue or ram.
pub(super) fn read_queue(reader: &mut Reader, key: &Node, node: &Node) -> Option<Queue> {
    let name = reader.text(key)?;
    let mut fields = Fields::new(reader, node, format!("queue '{}'", name.value));
    let kind = fields.require(reader, "type", &name, Reader::word);
    let input = fields.require(reader, "input", &name, Reader::text);
    let input_tms = fields.or_empty(reader, "input_tms", read_tms);
    let entries = fields.require(reader, "entries", &name, |reader, node| {
        reader.count(node, 1)
    });
    let blocking = read_blocking(reader, &mut fields, &name);
    let df = fields.require(reader, "df", &name, Reader::word);
    let layout = fields.optional(reader, "layout", Reader::word);
    let alias = fields.optional(reader, "alias", Reader::text);
    let target_device = fields.require(reader, "target_device", &name, read_devices);
    let loc = fields.require(reader, "loc", &name, Reader::word);
    let [dram, host] = ["dram", "host"].map(|memory| {
        let node = fields.take(reader, memory);
        node.map(|node| read_buffers(reader, node))
    });
    let read_ports = fields.or_empty(reader, "read_ports", Reader::counts);
    let write_ports = fields.or_empty(reader, "write_ports", Reader::counts);
    fields.finish(reader);
    let loc: Spanned<Memory> = loc?;
    let buffers = match loc.value {
        Memory::Dram => dram,
        Memory::Host => host,
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
        _ => return reader.wrong_type(node, "[channel, address]"),
    };
    Some(Spanned::new(Address { channel, byte }, node.span))
}
