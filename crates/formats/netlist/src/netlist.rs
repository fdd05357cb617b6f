//! A netlist: what was read, with the place of everything a rule may point at.

use crate::attributes::Attributes;
use crate::source::Spanned;
use crate::words::{MathFidelity, Memory, OpKind, QueueKind};
use crate::yaml::Node;
use tenon_tile::{
    Arch, DataFormat, Layout, Operation, QueueLayout, SettingKey, TensorBlocking, UblockOrder,
};

/// A netlist (facts 2). Two are equal when they say the same, wherever it stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Netlist {
    /// The architectures it was made for; the first is taken when none is named (facts 10.8).
    pub arch: Vec<Spanned<Arch>>,
    /// Its queues and rams.
    pub queues: Vec<Queue>,
    /// Its graphs.
    pub graphs: Vec<Graph>,
    /// Its fused ops.
    pub fused_ops: Vec<FusedOp>,
    /// Its programs.
    pub programs: Vec<Program>,
    /// Sections that the original's reader passes over, kept as they are: test-config,
    /// performance-check, and any other.
    pub others: Vec<(Spanned<String>, Node)>,
}

/// The shape of a tensor as cores hold it.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocking {
    /// Rows and columns of cores, or of buffers of a queue.
    pub grid_size: Spanned<[u32; 2]>,
    /// Slices.
    pub t: Spanned<u32>,
    /// Rows and columns of ublocks in a core's slice.
    pub mblock: Spanned<[u32; 2]>,
    /// Rows and columns of tiles in a ublock.
    pub ublock: Spanned<[u32; 2]>,
    /// The order of ublocks; by rows unless said.
    pub ublock_order: Option<Spanned<UblockOrder>>,
    /// Rows and columns of elements in a tile; 32 by 32 unless said.
    pub tile_dim: Option<Spanned<[u32; 2]>>,
}

impl Blocking {
    /// Rows of tiles of the whole tensor.
    pub fn rows(&self) -> u64 {
        product([
            self.grid_size.value[0],
            self.mblock.value[0],
            self.ublock.value[0],
        ])
    }

    /// Columns of tiles of the whole tensor.
    pub fn columns(&self) -> u64 {
        product([
            self.grid_size.value[1],
            self.mblock.value[1],
            self.ublock.value[1],
        ])
    }

    /// Rows and columns of elements in a tile.
    pub fn tile(&self) -> [u32; 2] {
        self.tile_dim.map_or([32, 32], |tile| tile.value)
    }

    /// The order of ublocks.
    pub fn order(&self) -> UblockOrder {
        self.ublock_order
            .map_or(UblockOrder::Row, |order| order.value)
    }

    /// Tiles in one core's slice.
    pub fn tiles_per_core(&self) -> u64 {
        let [m, n] = self.mblock.value;
        let [rows, columns] = self.ublock.value;
        product([m, n, rows, columns])
    }
}

/// Sizes are read into 32 bits, three of them fit 96; what is beyond 64 cannot be allocated, so
/// that the largest number stands for it.
fn product<const N: usize>(sizes: [u32; N]) -> u64 {
    sizes
        .iter()
        .fold(1u64, |all, &size| all.saturating_mul(u64::from(size)))
}

/// A queue or ram.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// Its name.
    pub name: Spanned<String>,
    /// Whether it has flow control.
    pub kind: Spanned<QueueKind>,
    /// `HOST`, or the op that fills it.
    pub input: Spanned<String>,
    /// Applied to what is pushed.
    pub input_tms: Vec<Spanned<Tm>>,
    /// Entries of each buffer.
    pub entries: Spanned<u32>,
    /// Its shape.
    pub blocking: Blocking,
    /// The format of its elements.
    pub df: Spanned<DataFormat>,
    /// How they lie.
    pub layout: Option<Spanned<Layout>>,
    /// The ram of which this is another view.
    pub alias: Option<Spanned<String>>,
    /// The devices it is on; more than one makes it one queue a device.
    pub target_device: Vec<Spanned<u32>>,
    /// Where it lies.
    pub loc: Spanned<Memory>,
    /// Where each buffer starts, row by row.
    pub buffers: Vec<Spanned<Address>>,
    /// Ports by which buffers are read; a hint.
    pub read_ports: Vec<Spanned<u32>>,
    /// Ports by which buffers are written; a hint.
    pub write_ports: Vec<Spanned<u32>>,
}

/// The start of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The channel; 0 where a host address stands alone.
    pub channel: u32,
    /// The byte.
    pub byte: u64,
}

/// A graph of ops that run together.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// Its name.
    pub name: Spanned<String>,
    /// The devices it is on.
    pub target_device: Vec<Spanned<u32>>,
    /// Inputs that one execute takes.
    pub input_count: Spanned<u32>,
    /// Its ops.
    pub ops: Vec<Op>,
}

/// An op.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    /// Its name.
    pub name: Spanned<String>,
    /// What it computes.
    pub kind: Spanned<OpKind>,
    /// Row and column of its top left core; none for an Ethernet op.
    pub grid_loc: Option<Spanned<[u32; 2]>>,
    /// Whether rows and columns of its cores are swapped where it is placed.
    pub grid_transpose: Option<Spanned<bool>>,
    /// The shape of its output.
    pub blocking: Blocking,
    /// What it reads.
    pub inputs: Vec<Input>,
    /// The format of its output.
    pub out_df: Spanned<DataFormat>,
    /// The format of what it spills.
    pub intermed_df: Spanned<DataFormat>,
    /// The format it accumulates in.
    pub acc_df: Option<Spanned<DataFormat>>,
    /// How exactly it multiplies.
    pub math_fidelity: Spanned<MathFidelity>,
    /// Size of the output buffer, in mblocks; 1 unless said.
    pub buf_size_mb: Spanned<u32>,
    /// Whether its output is put row by row.
    pub untilize_output: Option<Spanned<bool>>,
    /// Whether it accumulates over runs.
    pub gradient_op: Option<Spanned<bool>>,
    /// Its attributes.
    pub attributes: Attributes,
    /// Least tiles of input buffers; a hint.
    pub input_buf_min_size_tiles: Vec<Spanned<u32>>,
    /// Tiles of buffers between memory and inputs; a hint.
    pub input_dram_io_buf_size_tiles: Vec<Spanned<u32>>,
    /// Bytes kept for the overlay; a hint.
    pub overlay_size: Option<Spanned<u32>>,
    /// Inputs that another op reads too and passes on: queue and op.
    pub forked_dram_inputs: Vec<(Spanned<String>, Spanned<String>)>,
}

/// One input of an op.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// The queue or op that is read.
    pub name: Spanned<String>,
    /// Its format.
    pub df: Spanned<DataFormat>,
    /// What is done to it on the way, first to last.
    pub tms: Vec<Spanned<Tm>>,
    /// Tiles dropped at the bottom and right before the TMs.
    pub unpad: Option<Spanned<[u32; 2]>>,
    /// Tiles added at the bottom and right after the TMs.
    pub pad: Option<Spanned<Pad>>,
}

/// Tiles added at the bottom and right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pad {
    /// Rows of tiles.
    pub rows: u32,
    /// Columns of tiles.
    pub columns: u32,
    /// What they hold.
    pub value: f32,
}

/// A tensor manipulation (facts 4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tm {
    /// The whole, `n` times below each other.
    BroadcastRows(u32),
    /// The whole, `n` times beside each other.
    BroadcastColumns(u32),
    /// The slices, `n` times.
    BroadcastSlices(u32),
    /// Rows and columns swapped.
    Transpose,
    /// Columns cut into `n` slices.
    Hslice(u32),
    /// Rows cut into `n` slices.
    Vslice(u32),
    /// `n` slices put beside each other; 0 for all of them.
    Hstack(u32),
    /// `n` slices put below each other; 0 for all of them.
    Vstack(u32),
    /// Tiles added.
    Pad(Pad),
    /// Inside each tile (fused ops only).
    TileBroadcast(TileBroadcast),
}

/// What a tile broadcast copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TileBroadcast {
    /// Row 0 to all rows.
    Row,
    /// Column 0 to all columns.
    Column,
    /// Element 0, 0 to all.
    Both,
}

/// A fused op: ops that run in one core after each other.
#[derive(Debug, Clone, PartialEq)]
pub struct FusedOp {
    /// What `fused_op_id` names.
    pub id: Spanned<String>,
    /// How many inputs it takes.
    pub inputs: Spanned<u32>,
    /// How many intermediate buffers it has.
    pub intermediates: Spanned<u32>,
    /// Its schedules, each a list of ops.
    pub schedules: Vec<Vec<ScheduledOp>>,
    /// A kernel of the original's own language: not run here.
    pub custom_kernel_path: Option<Spanned<String>>,
}

/// One op of a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduledOp {
    /// Its name.
    pub name: Spanned<String>,
    /// What it computes.
    pub kind: Spanned<OpKind>,
    /// What it reads, with its TMs.
    pub inputs: Vec<(Spanned<Buffer>, Vec<Spanned<Tm>>)>,
    /// What it writes.
    pub output: Spanned<Buffer>,
    /// Rows and columns of ublocks.
    pub mblock: Spanned<[u32; 2]>,
    /// Rows and columns of tiles in a ublock.
    pub ublock: Spanned<[u32; 2]>,
    /// Buffers popped after each ublock.
    pub pop: Vec<Spanned<Buffer>>,
    /// Buffers popped after the last.
    pub pop_last: Vec<Spanned<Buffer>>,
    /// Its attributes.
    pub attributes: Attributes,
}

/// A buffer inside a fused op.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Buffer {
    /// An input of the op.
    Input(u32),
    /// An intermediate buffer.
    Intermediate(u32),
    /// The registers of the math unit.
    Dest,
    /// The output of the op.
    Output,
}

impl std::fmt::Display for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Buffer::Input(index) => write!(f, "input{index}"),
            Buffer::Intermediate(index) => write!(f, "intermed{index}"),
            Buffer::Dest => f.write_str("dest"),
            Buffer::Output => f.write_str("output"),
        }
    }
}

/// A program.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// Its name.
    pub name: Spanned<String>,
    /// Its instructions.
    pub instructions: Vec<Spanned<Instruction>>,
}

/// An instruction (facts 6.4).
#[derive(Debug, Clone, PartialEq)]
pub enum Instruction {
    /// Variables of one run, with what they start from.
    Var(Vec<(Spanned<String>, Spanned<Operand>)>),
    /// Variables that keep their value between runs.
    StaticVar(Vec<(Spanned<String>, Spanned<Operand>)>),
    /// Values that the caller gives.
    Param(Vec<Spanned<String>>),
    /// Arithmetic on a variable.
    VarInst {
        /// The variable set.
        output: Spanned<String>,
        /// What is done.
        operation: Spanned<Operation>,
        /// With what.
        operands: Vec<Spanned<Operand>>,
    },
    /// Begins a loop of so many rounds.
    Loop(Spanned<Operand>),
    /// Ends the innermost loop.
    EndLoop,
    /// Runs a graph.
    Execute {
        /// The graph.
        graph: Spanned<String>,
        /// How its queues are read and written.
        settings: Vec<QueueSetting>,
    },
    /// Queues whose life begins.
    AllocateQueue(Vec<Spanned<String>>),
    /// Queues whose life ends.
    DeallocateQueue(Vec<Spanned<String>>),
    /// The end; optional.
    EndProgram,
}

/// A value of a program: a number, or a variable.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A number.
    Immediate(i64),
    /// A variable, `$` included.
    Variable(String),
}

/// How one queue is read and written by an execute (facts 6.3).
#[derive(Debug, Clone, PartialEq)]
pub struct QueueSetting {
    /// The queue.
    pub queue: Spanned<String>,
    /// Its fields, in the order of the file.
    pub fields: Vec<(Spanned<SettingKey>, Spanned<Operand>)>,
}

impl Queue {
    /// The layout of its memory on `arch`; `untilized` when the op that writes it stores rows.
    pub fn memory_layout(&self, arch: Arch, untilized: bool) -> QueueLayout {
        let flat = matches!(&self.layout, Some(layout) if layout.value == Layout::Flat);
        let blocking = &self.blocking;
        let sizes = |pair: [u32; 2]| pair.map(|size| size as usize);
        let tensor = TensorBlocking {
            grid: sizes(blocking.grid_size.value),
            t: blocking.t.value as usize,
            mblock: sizes(blocking.mblock.value),
            ublock: sizes(blocking.ublock.value),
            tile: sizes(blocking.tile()),
            order: blocking.order(),
        };
        let entries = self.entries.value as usize;
        QueueLayout::new(self.df.value, arch, flat || untilized, entries, tensor)
    }
}

impl QueueSetting {
    /// A field's value; the last of a name counts.
    pub fn find(&self, key: SettingKey) -> Option<&Spanned<Operand>> {
        let found = self.fields.iter().rev().find(|(name, _)| name.value == key);
        found.map(|(_, value)| value)
    }
}

impl Netlist {
    /// The fused op of an id.
    pub fn fused_op(&self, id: &str) -> Option<&FusedOp> {
        self.fused_ops.iter().find(|op| op.id.value == id)
    }

    /// All ops with their graph.
    pub fn ops(&self) -> impl Iterator<Item = (&Graph, &Op)> {
        self.graphs
            .iter()
            .flat_map(|graph| graph.ops.iter().map(move |op| (graph, op)))
    }
}

impl Queue {
    /// Whether the host fills it.
    pub fn is_host_fed(&self) -> bool {
        self.input.value.eq_ignore_ascii_case("HOST")
    }
}
