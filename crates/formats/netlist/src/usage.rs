//! The memory footprint of a netlist on a device (netlist 5.4, 7.2).

use crate::links::{Links, Node};
use crate::netlist::{Graph, Netlist, Op, Queue};
use crate::words::{Memory, OpKind};
use std::collections::{BTreeMap, HashSet};
use tenon_tile::{Arch, TileLayout};

/// The L1 footprint of an op.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoreUsage<'n> {
    /// The graph.
    pub graph: &'n Graph,
    /// The op.
    pub op: &'n Op,
    /// Number of cores.
    pub cores: u64,
    /// Minimal bytes per core: the output buffer and two tiles of each input.
    pub bytes: u64,
}

/// The footprint of queues in one DRAM channel of a device, or in one region of host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChannelUsage {
    /// Bytes of all buffers; buffers at the same address are counted once.
    pub bytes: u64,
    /// Number of buffers.
    pub buffers: u64,
    /// The end of the last buffer.
    pub end: u64,
}

/// The footprint of a netlist in all memories.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MemoryUsage<'n> {
    /// By op, in the order of the file, without Ethernet ops, which have no worker cores.
    pub cores: Vec<CoreUsage<'n>>,
    /// By device and channel.
    pub channels: BTreeMap<(u32, u32), ChannelUsage>,
    /// By device and region of host memory.
    pub regions: BTreeMap<(u32, u32), ChannelUsage>,
    /// Queues whose size overflows.
    pub too_large: Vec<&'n Queue>,
}

/// Minimal bytes of L1 per core of `op` on `arch`: the output buffer and two tiles of each input.
pub fn core_bytes(op: &Op, arch: Arch) -> u64 {
    let tile = |format| TileLayout::new(format, op.blocking.tile(), arch).bytes() as u64;
    let tiles = op
        .blocking
        .tiles_per_core()
        .saturating_mul(op.buf_size_mb.value.into());
    let inputs: u64 = op.inputs.iter().map(|input| 2 * tile(input.df.value)).sum();
    tiles
        .saturating_mul(tile(op.out_df.value))
        .saturating_add(inputs)
}

/// Bytes of one buffer of `queue` on `arch`; `None` on overflow.
pub fn buffer_bytes(links: &Links<'_>, queue: &Queue, arch: Arch) -> Option<u64> {
    let untilized = match links.find(&queue.input.value) {
        Some(Node::Op(_, op)) => op.is_untilized(),
        _ => false,
    };
    let bytes = queue.memory_layout(arch, untilized).buffer_bytes()?;
    Some(bytes as u64)
}

impl<'n> MemoryUsage<'n> {
    /// The footprint of `netlist` on `arch`.
    pub fn of(netlist: &'n Netlist, arch: Arch) -> Self {
        let links = Links::new(netlist);
        let mut all = Self::default();
        let ops = netlist
            .ops()
            .filter(|(_, op)| op.kind.value != OpKind::EthernetDatacopy);
        all.cores = ops
            .map(|(graph, op)| {
                let [rows, columns] = op.blocking.grid_size.value.map(u64::from);
                CoreUsage {
                    graph,
                    op,
                    cores: rows * columns,
                    bytes: core_bytes(op, arch),
                }
            })
            .collect();
        let mut counted = HashSet::new();
        for queue in &netlist.queues {
            let Some(bytes) = buffer_bytes(&links, queue, arch) else {
                all.too_large.push(queue);
                continue;
            };
            let memory = match queue.loc.value {
                Memory::Dram => &mut all.channels,
                Memory::Host => &mut all.regions,
            };
            for device in &queue.target_device {
                for buffer in &queue.buffers {
                    let address = buffer.value;
                    let key = (device.value, address.channel);
                    let channel: &mut ChannelUsage = memory.entry(key).or_default();
                    channel.end = channel.end.max(address.byte.saturating_add(bytes));
                    // Views of one ram share their buffers.
                    if counted.insert((queue.loc.value, key, address.byte)) {
                        channel.bytes = channel.bytes.saturating_add(bytes);
                        channel.buffers += 1;
                    }
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, read};

    #[test]
    fn buffers_are_counted_by_channel() {
        let text = "\
devices: {arch: grayskull}
queues:
  a: {type: queue, input: HOST, entries: 2, grid_size: [1, 2], t: 1, mblock: [1, 1], ublock: [1, 1], df: Float16_b, target_device: 0, loc: dram, dram: [[0, 0x1000], [3, 0x2000]]}
  b: {type: ram, input: HOST, entries: 1, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [2, 1], df: Bfp8_b, target_device: 0, loc: dram, dram: [[0, 0x8000]]}
  c: {type: queue, input: m, entries: 1, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1], df: Float16, target_device: 1, loc: host, host: [0x100]}
";
        let netlist = read(&Source::new("q.yaml", text)).netlist;
        let memory = MemoryUsage::of(&netlist, Arch::Grayskull);
        // A tile of Float16_b has 2080 bytes, one of Bfp8_b 1120, a header 32 (netlist 5.3, 5.4).
        let (a, b) = (2 * 2080 + 32, 2 * 1120 + 32);
        assert_eq!(
            memory.channels[&(0, 0)],
            ChannelUsage {
                bytes: a + b,
                buffers: 2,
                end: 0x8000 + b
            }
        );
        assert_eq!(
            memory.channels[&(0, 3)],
            ChannelUsage {
                bytes: a,
                buffers: 1,
                end: 0x2000 + a
            }
        );
        assert_eq!(memory.regions[&(1, 0)].bytes, 2080 + 32);
    }
}
