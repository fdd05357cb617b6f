//! The checker rules: whether a device can hold and run a netlist (netlist 7.2). They concern placement
//! and memory, not values.

use super::{Rule, remote};
use crate::device::Device;
use crate::links::{Links, Node};
use crate::netlist::{Blocking, Instruction, Netlist, Op, Operand, Queue};
use crate::source::Span;
use crate::usage;
use crate::words::{Memory, OpKind, QueueKind};
use crate::{Finding, Findings};
use std::collections::HashSet;
use tenon_tile::{Arch, SettingKey};

/// Properties that are not checked because no public document defines them precisely.
pub const NOT_CHECKED: &[&str] = &[
    "links between devices but for Ethernet channels, counts of devices and of hosts",
    "granularity of scattering TMs through pipes",
    "forks and joins beyond 8 streams a core",
    "multicast inputs of fused ops",
    "unique ids of entries",
    "sizes of overlays that are not declared",
    "the area of each channel that is reserved for the device",
];

/// Maximum number of streams between DRAM and one core, in each direction.
const STREAMS: usize = 8;
/// Start of the data of an op in L1: on grayskull and wormhole, on blackhole.
const L1_START: [u64; 2] = [208_896, 221_248];
/// Maximum size of an overlay in bytes.
const OVERLAY_BYTES: u64 = 65_408;
/// Bytes of host memory per channel: 1 GiB minus 128 MiB of scratch.
const HOST_BYTES: u64 = (1 << 30) - (128 << 20);

/// The extent of a buffer: memory (kind, device, channel), start, end, source span, queue.
type BufferExtent<'n> = ((Memory, u32, u32), u64, u64, Span, &'n Queue);

struct DeviceChecker<'n> {
    netlist: &'n Netlist,
    links: &'n Links<'n>,
    device: &'n Device,
    findings: Findings,
}

/// Checks whether `device` can hold and run a netlist that satisfies the other rules.
pub fn check_device(netlist: &Netlist, device: &Device) -> Findings {
    let mut checker = DeviceChecker {
        netlist,
        links: &Links::new(netlist),
        device,
        findings: Findings::default(),
    };
    checker.arch();
    netlist.queues.iter().for_each(|queue| checker.queue(queue));
    checker.overlaps();
    for (_, op) in netlist.ops() {
        checker.placement(op);
        checker.formats(op);
        checker.streams(op);
        checker.buffer(op);
        checker.core_memory(op);
        checker.outputs(op);
        checker.pipes(op);
    }
    checker.settings();
    checker
        .findings
        .extend(remote::check(netlist, checker.links, device));
    checker.findings.sorted()
}

impl<'n> DeviceChecker<'n> {
    fn report(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    fn arch(&mut self) {
        let arch = &self.netlist.arch;
        if let Some(first) = arch.first()
            && !arch.iter().any(|arch| arch.value == self.device.arch)
        {
            let message = format!("the netlist does not support {}", self.device.name);
            let given: Vec<&str> = arch.iter().map(|arch| arch.value.name()).collect();
            let finding = Finding::new(Rule::DeviceArch, first.span, message);
            self.report(finding.expected(self.device.arch).found(given.join(", ")));
        }
    }

    /// Size of one buffer of a queue in bytes.
    fn buffer_bytes(&self, queue: &Queue) -> Option<u64> {
        usage::buffer_bytes(self.links, queue, self.device.arch)
    }

    fn queue(&mut self, queue: &Queue) {
        let name = &queue.name.value;
        let Some(bytes) = self.buffer_bytes(queue) else {
            let message = format!("the size of '{name}' exceeds any memory");
            return self.report(Finding::new(Rule::DeviceMemory, queue.name.span, message));
        };
        let limit = match queue.loc.value {
            Memory::Dram => self.device.channel_bytes,
            Memory::Host => HOST_BYTES,
        };
        for buffer in &queue.buffers {
            let address = buffer.value;
            if queue.loc.value == Memory::Dram && address.channel >= self.device.channels {
                let message = format!(
                    "'{name}' is in a DRAM channel that {} does not have",
                    self.device.name
                );
                let finding = Finding::new(Rule::DeviceChannel, buffer.span, message);
                let expected = format!("below {}", self.device.channels);
                self.report(finding.expected(expected).found(address.channel));
            }
            let end = address.byte.saturating_add(bytes);
            if end > limit {
                let message =
                    format!("a buffer of '{name}' of {bytes} bytes ends outside of its memory");
                let finding = Finding::new(Rule::DeviceMemory, buffer.span, message);
                let found = format!("{end:#x}");
                self.report(finding.expected(format!("at most {limit:#x}")).found(found));
            }
        }
    }

    /// The queues that programs allocate (dynamic queues).
    fn dynamic(&self) -> HashSet<&'n str> {
        let programs = self.netlist.programs.iter();
        let allocated = programs
            .flat_map(|program| &program.instructions)
            .filter_map(|instruction| match &instruction.value {
                Instruction::AllocateQueue(queues) => Some(queues),
                _ => None,
            });
        allocated
            .flatten()
            .map(|queue| queue.value.as_str())
            .collect()
    }

    /// The extents of the buffers of a queue.
    fn extents(&self, queue: &'n Queue) -> Vec<BufferExtent<'n>> {
        let Some(bytes) = self.buffer_bytes(queue) else {
            return Vec::new();
        };
        let on = |device: u32| {
            queue.buffers.iter().map(move |buffer| {
                let address = buffer.value;
                let memory = (queue.loc.value, device, address.channel);
                let end = address.byte.saturating_add(bytes);
                (memory, address.byte, end, buffer.span, queue)
            })
        };
        queue
            .target_device
            .iter()
            .flat_map(|device| on(device.value))
            .collect()
    }

    fn overlap(&mut self, span: Span, queue: &Queue, other: &Queue, reached: u64, start: u64) {
        let message = format!("'{}' overlaps '{}'", queue.name.value, other.name.value);
        let finding = Finding::new(Rule::BufferOverlap, span, message);
        let expected = format!("at least {reached:#x}");
        self.report(finding.expected(expected).found(format!("{start:#x}")));
    }

    /// Buffers of static queues must not overlap each other nor those of dynamic queues. Dynamic
    /// queues may overlap each other, and views share the buffers of their ram. A sweep over the
    /// extents sorted by address.
    fn overlaps(&mut self) {
        let netlist = self.netlist;
        let dynamic = self.dynamic();
        let is_dynamic = |queue: &Queue| dynamic.contains(queue.name.value.as_str());
        let owners = netlist.queues.iter().filter(|queue| queue.alias.is_none());
        let (dynamic, fixed): (Vec<&Queue>, Vec<&Queue>) =
            owners.partition(|queue| is_dynamic(queue));
        let mut extents: Vec<_> = fixed
            .into_iter()
            .flat_map(|queue| self.extents(queue))
            .collect();
        for queue in dynamic {
            if queue.loc.value == Memory::Host {
                let name = &queue.name.value;
                let message = format!("dynamic queue '{name}' must be in device memory");
                let finding = Finding::new(Rule::DeviceDynamic, queue.loc.span, message);
                self.report(finding.expected(Memory::Dram).found(Memory::Host));
            }
            for (memory, start, end, span, _) in self.extents(queue) {
                let overlapping = extents
                    .iter()
                    .find(|other| other.0 == memory && other.1 < end && start < other.2);
                if let Some((_, _, reached, _, other)) = overlapping {
                    self.overlap(span, queue, other, *reached, start);
                }
            }
        }
        extents.sort_by_key(|&(memory, start, end, span, _)| (memory, start, end, span.start));
        // The previous extent with the largest end.
        let mut furthest: Option<usize> = None;
        for index in 0..extents.len() {
            let (memory, start, end, span, queue) = extents[index];
            if let Some((before, _, reached, _, other)) = furthest.map(|at| extents[at])
                && before == memory
                && start < reached
                && !std::ptr::eq(queue, other)
            {
                self.overlap(span, queue, other, reached, start);
            }
            let keeps = furthest.is_some_and(|at| extents[at].0 == memory && extents[at].2 > end);
            if !keeps {
                furthest = Some(index);
            }
        }
    }

    fn placement(&mut self, op: &Op) {
        let (Some([[row, column], [rows, columns]]), Some(loc)) = (op.placement(), op.grid_loc)
        else {
            return;
        };
        let fits =
            |start: u32, size: u32, limit: u32| u64::from(start) + u64::from(size) <= limit.into();
        if !fits(row, rows, self.device.rows) || !fits(column, columns, self.device.columns) {
            let message = format!(
                "op '{}' is placed outside of the core grid of {}",
                op.name.value, self.device.name
            );
            let expected = format!(
                "within {} by {} cores",
                self.device.rows, self.device.columns
            );
            let found = format!("{rows}x{columns} at [{row}, {column}]");
            let finding = Finding::new(Rule::DeviceGrid, loc.span, message);
            self.report(finding.expected(expected).found(found));
        }
    }

    fn formats(&mut self, op: &Op) {
        for input in &op.inputs {
            let (format, what) = match self.links.find(&input.name.value) {
                Some(Node::Queue(queue)) => (queue.df.value, "queue"),
                Some(Node::Op(_, op)) => (op.out_df.value, "op"),
                None => continue,
            };
            if format != input.df.value {
                let name = &input.name.value;
                let message = format!("in_df differs from the format of {what} '{name}'");
                let finding = Finding::new(Rule::DeviceFormat, input.df.span, message);
                self.report(finding.expected(format).found(input.df.value));
            }
        }
        for queue in self.links.output_queues(&op.name.value) {
            if queue.df.value != op.out_df.value {
                let message = format!(
                    "the out_df of op '{}' differs from the format of queue '{}'",
                    op.name.value, queue.name.value
                );
                let finding = Finding::new(Rule::DeviceFormat, queue.df.span, message);
                self.report(finding.expected(op.out_df.value).found(queue.df.value));
            }
        }
    }

    fn streams(&mut self, op: &Op) {
        let read = op
            .inputs
            .iter()
            .filter(|input| self.links.queue(&input.name.value).is_some())
            .count();
        let written = self.links.output_queues(&op.name.value).len();
        for (count, what) in [(read, "reads"), (written, "writes")] {
            if count > STREAMS {
                let message = format!("op '{}' {what} too many queues", op.name.value);
                let finding = Finding::new(Rule::DeviceStreams, op.name.span, message);
                self.report(finding.expected(format!("at most {STREAMS}")).found(count));
            }
        }
    }

    fn buffer(&mut self, op: &Op) {
        let (size, t) = (op.buf_size_mb, op.blocking.t.value);
        // A double buffer is filled by halves.
        let half = if size.value > 1 { size.value / 2 } else { 1 };
        if !t.is_multiple_of(half) && !half.is_multiple_of(t) {
            let name = &op.name.value;
            let message =
                format!("buf_size_mb of op '{name}' is incompatible with its number of slices");
            let finding = Finding::new(Rule::DeviceBuffer, size.span, message);
            let expected = format!("twice a divisor or multiple of {t}");
            self.report(finding.expected(expected).found(size.value));
        }
    }

    /// The minimal L1 footprint: overlay, output buffer, and two tiles per input.
    fn core_memory(&mut self, op: &Op) {
        if matches!(op.kind.value, OpKind::EthernetDatacopy) {
            return;
        }
        let arch = self.device.arch;
        let overlay = op.overlay_size.map_or(0, |size| size.value.into());
        if let Some(size) = op.overlay_size.filter(|_| overlay > OVERLAY_BYTES) {
            let message = format!("the overlay of op '{}' is too large", op.name.value);
            let finding = Finding::new(Rule::DeviceL1, size.span, message);
            let expected = format!("at most {OVERLAY_BYTES} bytes");
            self.report(finding.expected(expected).found(overlay));
        }
        let needed = usage::core_bytes(op, arch).saturating_add(overlay);
        let start = L1_START[usize::from(arch == Arch::Blackhole)];
        let available = self.device.l1_bytes.saturating_sub(start);
        if needed > available {
            let message = format!("op '{}' exceeds the L1 memory of a core", op.name.value);
            let finding = Finding::new(Rule::DeviceL1, op.buf_size_mb.span, message);
            let finding = finding
                .expected(format!("at most {available} bytes"))
                .found(needed);
            let help = "use more cores, fewer slices in the buffer, or a smaller format";
            self.report(finding.help(help));
        }
    }

    /// The ram of a gradient has the blocking of its op; output queues of gradients and of untilized
    /// ops have no TMs.
    fn outputs(&mut self, op: &Op) {
        let is_gradient = op.is_gradient();
        if !is_gradient && !op.is_untilized() {
            return;
        }
        for queue in self.links.output_queues(&op.name.value) {
            let name = &queue.name.value;
            if let Some(tm) = queue.input_tms.first() {
                let message = format!(
                    "output '{name}' of gradient or untilized op '{}' cannot have TMs",
                    op.name.value
                );
                let finding = Finding::new(Rule::DeviceOutput, tm.span, message);
                self.report(finding.expected("no input_tms"));
            }
            let blocks =
                |b: &Blocking| (b.grid_size.value, b.t.value, b.mblock.value, b.ublock.value);
            if is_gradient && blocks(&queue.blocking) != blocks(&op.blocking) {
                let message = format!(
                    "the blocking of '{name}' differs from that of gradient op '{}'",
                    op.name.value
                );
                let finding = Finding::new(Rule::DeviceOutput, queue.name.span, message);
                let (expected, found) = (blocks(&op.blocking), blocks(&queue.blocking));
                let found = format!("{found:?}");
                self.report(finding.expected(format!("{expected:?}")).found(found));
            }
        }
    }

    /// Each buffer of a queue is written by one core. Untilized queues are gathered, and queues with
    /// TMs are not checked.
    fn pipes(&mut self, op: &Op) {
        if op.is_untilized() {
            return;
        }
        let [rows, columns] = op.blocking.grid_size.value;
        for queue in self.links.output_queues(&op.name.value) {
            let grid = queue.blocking.grid_size;
            let [own_rows, own_columns] = grid.value;
            let one_writer = own_rows.is_multiple_of(rows) && own_columns.is_multiple_of(columns);
            if queue.input_tms.is_empty() && !one_writer {
                let name = &queue.name.value;
                let message = format!("a buffer of '{name}' is written by several cores");
                let finding = Finding::new(Rule::DevicePipe, grid.span, message);
                let expected = format!(
                    "a multiple of the {rows}x{columns} cores of op '{}'",
                    op.name.value
                );
                let found = format!("{own_rows}x{own_columns}");
                self.report(finding.expected(expected).found(found));
            }
        }
    }

    /// An epilogue requires the ram of a gradient; a prologue requires an input or a gradient.
    fn settings(&mut self) {
        let netlist = self.netlist;
        let executes = netlist
            .programs
            .iter()
            .flat_map(|program| &program.instructions);
        for instruction in executes {
            let Instruction::Execute { graph, settings } = &instruction.value else {
                continue;
            };
            let Some(graph) = self.links.graph(&graph.value) else {
                continue;
            };
            for setting in settings {
                let Some(queue) = self.links.queue(&setting.queue.value) else {
                    continue;
                };
                let producer = graph
                    .ops
                    .iter()
                    .find(|op| op.name.value == queue.input.value);
                let is_gradient = producer.is_some_and(Op::is_gradient);
                let is_true = |key| {
                    setting
                        .find(key)
                        .filter(|value| value.value == Operand::Immediate(1))
                };
                if let Some(value) = is_true(SettingKey::Epilogue).filter(|_| !is_gradient) {
                    let message =
                        format!("epilogue of '{}' requires a gradient op", queue.name.value);
                    let finding = Finding::new(Rule::DeviceSettings, value.span, message);
                    self.report(finding.expected("epilogue: false"));
                }
                let is_read = graph
                    .ops
                    .iter()
                    .flat_map(|op| &op.inputs)
                    .any(|input| input.name == queue.name);
                if let Some(value) = is_true(SettingKey::Prologue)
                    && producer.is_some()
                    && !is_gradient
                    && !is_read
                {
                    let name = &queue.name.value;
                    let message = format!("prologue of output '{name}' requires a gradient op");
                    let finding = Finding::new(Rule::DeviceSettings, value.span, message);
                    self.report(finding.expected("prologue: false"));
                }
                let outside = queue.target_device.iter().all(|device| {
                    graph
                        .target_device
                        .iter()
                        .all(|own| own.value != device.value)
                });
                if let Some(value) = is_true(SettingKey::Prologue)
                    && outside
                    && queue.kind.value == QueueKind::Queue
                {
                    let message = format!(
                        "prologue of '{}', which is on another device than graph '{}'",
                        queue.name.value, graph.name.value
                    );
                    let finding = Finding::new(Rule::DeviceSettings, value.span, message);
                    self.report(finding.expected("prologue: false"));
                }
            }
        }
    }
}
