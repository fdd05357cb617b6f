//! The strict rules for data between devices (netlist 7.2, 7.3).

use super::Rule;
use crate::attributes::AttributeKey;
use crate::device::Device;
use crate::links::Links;
use crate::netlist::{Graph, Netlist, Op, Queue};
use crate::words::{Memory, OpKind};
use crate::{Finding, Findings};
use tenon_tile::Arch;

/// The memory of a grayskull that other devices can access: this channel, from this byte on.
const SHARED: (u32, u64) = (0, 0x3000_0000);

/// Checks the communication between devices of the type of `device`.
pub(super) fn check(netlist: &Netlist, links: &Links<'_>, device: &Device) -> Findings {
    let mut findings = Findings::default();
    for (_, op) in netlist.ops() {
        if op.kind.value == OpKind::EthernetDatacopy {
            ethernet(op, device, &mut findings);
        }
    }
    if device.arch == Arch::Grayskull {
        for queue in &netlist.queues {
            shared(queue, links, &mut findings);
        }
    }
    findings
}

/// An Ethernet copy uses channels of the device.
fn ethernet(op: &Op, device: &Device, findings: &mut Findings) {
    let name = &op.name.value;
    if device.ethernet == 0 {
        let message = format!(
            "op '{name}' requires Ethernet, which {} does not have",
            device.name
        );
        findings.push(Finding::new(Rule::DeviceEthernet, op.kind.span, message));
        return;
    }
    for key in [AttributeKey::IngressChannels, AttributeKey::EgressChannels] {
        let channels = op.attributes.list(key).unwrap_or_default();
        let beyond = |channel: &&i64| !(0..i64::from(device.ethernet)).contains(*channel);
        let place = op.attributes.find(key).map(|value| value.span);
        if let Some((channel, span)) = channels.iter().find(beyond).zip(place) {
            let message = format!(
                "op '{name}' uses an Ethernet channel that {} does not have",
                device.name
            );
            let finding = Finding::new(Rule::DeviceEthernet, span, message);
            let expected = format!("below {}", device.ethernet);
            findings.push(finding.expected(expected).found(channel));
        }
    }
}

/// Queues that another grayskull reads or writes are in the shared memory.
fn shared(queue: &Queue, links: &Links<'_>, findings: &mut Findings) {
    let is_remote = |graph: &Graph| {
        let own = |device: u32| queue.target_device.iter().any(|own| own.value == device);
        !graph.target_device.iter().all(|device| own(device.value))
    };
    let is_written = match links.find(&queue.input.value) {
        Some(crate::LinkedNode::Op(graph, _)) => is_remote(graph),
        _ => false,
    };
    let is_read = || {
        links
            .readers(&queue.name.value)
            .iter()
            .any(|(graph, ..)| is_remote(graph))
    };
    if queue.loc.value != Memory::Dram || !(is_written || is_read()) {
        return;
    }
    let (channel, first) = SHARED;
    let out_of_reach = queue.buffers.iter().find(|buffer| {
        let address = buffer.value;
        address.channel != channel || address.byte < first
    });
    if let Some(buffer) = out_of_reach {
        let name = &queue.name.value;
        let message = format!("another device cannot access '{name}' at this address");
        let finding = Finding::new(Rule::DeviceRemote, buffer.span, message);
        let (address, expected) = (
            buffer.value,
            format!("channel {channel}, from {first:#x} on"),
        );
        let found = format!("channel {}, {:#x}", address.channel, address.byte);
        findings.push(finding.expected(expected).found(found));
    }
}
