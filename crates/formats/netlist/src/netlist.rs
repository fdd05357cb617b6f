//! The syntax tree of a netlist, with source spans.

use crate::attributes::Attributes;
use crate::source::Spanned;
use crate::words::{MathFidelity, Memory, OpKind, QueueKind};
use crate::yaml::Node;
use tenon_tile::{
    Arch, DataFormat, Layout, Operation, QueueLayout, SettingKey, TensorBlocking, TileBroadcast,
    UblockOrder,
};

/// A netlist (netlist 2.1). Equality ignores source spans.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Netlist {
    /// The target architectures; the first is the default (netlist 2.1).
    pub arch: Vec<Spanned<Arch>>,
    /// Its queues and rams.
    pub queues: Vec<Queue>,
    /// Its graphs.
    pub graphs: Vec<Graph>,
    /// Its fused ops.
    pub fused_ops: Vec<FusedOp>,
    /// Its programs.
    pub programs: Vec<Program>,
    /// Sections that the parser of the original ignores, unparsed: test-config, performance-check, and
    /// any other.
    pub others: Vec<(Spanned<String>, Node)>,
}

/// The blocking of a tensor over cores.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocking {
    /// Rows and columns of cores, or of buffers of a queue.
    pub grid_size: Spanned<[u32; 2]>,
    /// Number of slices.
    pub t: Spanned<u32>,
    /// Rows and columns of ublocks per core and slice.
    pub mblock: Spanned<[u32; 2]>,
    /// Rows and columns of tiles per ublock.
    pub ublock: Spanned<[u32; 2]>,
    /// The order of ublocks; default: by rows.
    pub ublock_order: Option<Spanned<UblockOrder>>,
    /// Rows and columns of elements per tile; default: 32 by 32.
    pub tile_dim: Option<Spanned<[u32; 2]>>,
}

impl Blocking {
    /// Number of rows of tiles of the tensor.
    pub fn rows(&self) -> u64 {
        self.tiles(0)
    }

    /// Number of columns of tiles of the tensor.
    pub fn columns(&self) -> u64 {
        self.tiles(1)
    }

    fn tiles(&self, axis: usize) -> u64 {
        let sizes = [&self.grid_size, &self.mblock, &self.ublock];
        product(sizes.map(|pair| pair.value[axis].into()))
    }

    /// Rows and columns of elements per tile.
    pub fn tile(&self) -> [u32; 2] {
        self.tile_dim.map_or([32, 32], |tile| tile.value)
    }

    /// The order of ublocks.
    pub fn order(&self) -> UblockOrder {
        self.ublock_order
            .map_or(UblockOrder::Row, |order| order.value)
    }

    /// Number of tiles per core and slice.
    pub fn tiles_per_core(&self) -> u64 {
        let [m, n] = self.mblock.value;
        let [rows, columns] = self.ublock.value;
        product([m, n, rows, columns].map(u64::from))
    }
}

/// The saturating product of sizes. A saturated product is beyond any limit that it is compared with.
pub(crate) fn product<const N: usize>(sizes: [u64; N]) -> u64 {
    sizes.into_iter().fold(1, u64::saturating_mul)
}

/// A queue or ram.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// Its name.
    pub name: Spanned<String>,
    /// Queue or ram.
    pub kind: Spanned<QueueKind>,
    /// `HOST`, or the name of the op that writes it.
    pub input: Spanned<String>,
    /// TMs that are applied to pushed entries.
    pub input_tms: Vec<Spanned<Tm>>,
    /// Number of entries.
    pub entries: Spanned<u32>,
    /// Its shape.
    pub blocking: Blocking,
    /// The format of its elements.
    pub df: Spanned<DataFormat>,
    /// The memory layout of its elements.
    pub layout: Option<Spanned<Layout>>,
    /// The ram of which this is a view.
    pub alias: Option<Spanned<String>>,
    /// Its devices; a queue on several devices is replicated on each.
    pub target_device: Vec<Spanned<u32>>,
    /// Its memory.
    pub loc: Spanned<Memory>,
    /// The addresses of its buffers, row by row.
    pub buffers: Vec<Spanned<Address>>,
    /// Ports for reads of the buffers; a placement hint.
    pub read_ports: Vec<Spanned<u32>>,
    /// Ports for writes of the buffers; a placement hint.
    pub write_ports: Vec<Spanned<u32>>,
}

/// The address of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The channel; 0 for a host address without channel.
    pub channel: u32,
    /// The byte address.
    pub byte: u64,
}

/// A graph of ops that run concurrently.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// Its name.
    pub name: Spanned<String>,
    /// Its devices.
    pub target_device: Vec<Spanned<u32>>,
    /// Number of inputs that one execute processes.
    pub input_count: Spanned<u32>,
    /// Its ops.
    pub ops: Vec<Op>,
}

/// An op.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    /// Its name.
    pub name: Spanned<String>,
    /// Its type.
    pub kind: Spanned<OpKind>,
    /// Row and column of its top left core; `None` for an Ethernet op.
    pub grid_loc: Option<Spanned<[u32; 2]>>,
    /// Whether its grid is transposed in the placement.
    pub grid_transpose: Option<Spanned<bool>>,
    /// The blocking of its output.
    pub blocking: Blocking,
    /// Its inputs.
    pub inputs: Vec<Input>,
    /// The format of its output.
    pub out_df: Spanned<DataFormat>,
    /// The format of spilled intermediate results.
    pub intermed_df: Spanned<DataFormat>,
    /// The accumulation format.
    pub acc_df: Option<Spanned<DataFormat>>,
    /// The precision of its multiplications.
    pub math_fidelity: Spanned<MathFidelity>,
    /// Size of the output buffer in mblocks; default: 1.
    pub buf_size_mb: Spanned<u32>,
    /// Whether its output is stored in row-major order.
    pub untilize_output: Option<Spanned<bool>>,
    /// Whether it accumulates over executes.
    pub gradient_op: Option<Spanned<bool>>,
    /// Its attributes.
    pub attributes: Attributes,
    /// Minimal number of tiles of input buffers; a hint.
    pub input_buf_min_size_tiles: Vec<Spanned<u32>>,
    /// Number of tiles of the buffers between DRAM and inputs; a hint.
    pub input_dram_io_buf_size_tiles: Vec<Spanned<u32>>,
    /// Bytes reserved for the overlay; a hint.
    pub overlay_size: Option<Spanned<u32>>,
    /// Inputs that another op forwards: queue and op.
    pub forked_dram_inputs: Vec<(Spanned<String>, Spanned<String>)>,
}

/// An input of an op.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// The queue or op that is read.
    pub name: Spanned<String>,
    /// Its format.
    pub df: Spanned<DataFormat>,
    /// Its TMs, in order.
    pub tms: Vec<Spanned<Tm>>,
    /// Rows and columns of tiles removed at the bottom and right before the TMs.
    pub unpad: Option<Spanned<[u32; 2]>>,
    /// Padding at the bottom and right after the TMs.
    pub pad: Option<Spanned<Pad>>,
}

/// Padding tiles at the bottom and right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pad {
    /// Rows of tiles.
    pub rows: u32,
    /// Columns of tiles.
    pub columns: u32,
    /// The value of the padding.
    pub value: f32,
}

/// A tensor manipulation (netlist 4.1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tm {
    /// Repeats the tensor `n` times along rows.
    BroadcastRows(u32),
    /// Repeats the tensor `n` times along columns.
    BroadcastColumns(u32),
    /// Repeats the slices `n` times.
    BroadcastSlices(u32),
    /// Swaps rows and columns.
    Transpose,
    /// Splits the columns into `n` slices.
    Hslice(u32),
    /// Splits the rows into `n` slices.
    Vslice(u32),
    /// Concatenates `n` slices along columns; 0 for all slices.
    Hstack(u32),
    /// Concatenates `n` slices along rows; 0 for all slices.
    Vstack(u32),
    /// Adds padding tiles.
    Pad(Pad),
    /// Broadcasts within each tile (fused ops only).
    TileBroadcast(TileBroadcast),
}

/// A fused op: ops that run in sequence on one core.
#[derive(Debug, Clone, PartialEq)]
pub struct FusedOp {
    /// The id that `fused_op_id` refers to.
    pub id: Spanned<String>,
    /// Number of inputs.
    pub inputs: Spanned<u32>,
    /// Number of intermediate buffers.
    pub intermediates: Spanned<u32>,
    /// Its schedules, each a list of ops.
    pub schedules: Vec<Vec<ScheduledOp>>,
    /// A custom kernel of the original, which Tenon does not run.
    pub custom_kernel_path: Option<Spanned<String>>,
}

/// An op of a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduledOp {
    /// Its name.
    pub name: Spanned<String>,
    /// Its type.
    pub kind: Spanned<OpKind>,
    /// Its inputs with their TMs.
    pub inputs: Vec<(Spanned<Buffer>, Vec<Spanned<Tm>>)>,
    /// Its output.
    pub output: Spanned<Buffer>,
    /// Rows and columns of ublocks.
    pub mblock: Spanned<[u32; 2]>,
    /// Rows and columns of tiles in a ublock.
    pub ublock: Spanned<[u32; 2]>,
    /// Buffers popped after each ublock.
    pub pop: Vec<Spanned<Buffer>>,
    /// Buffers popped after the last ublock.
    pub pop_last: Vec<Spanned<Buffer>>,
    /// Its attributes.
    pub attributes: Attributes,
}

/// A buffer of a fused op.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Buffer {
    /// An input of the op.
    Input(u32),
    /// An intermediate buffer.
    Intermediate(u32),
    /// The destination registers of the math unit.
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

/// An instruction (netlist 6.4).
#[derive(Debug, Clone, PartialEq)]
pub enum Instruction {
    /// Variables of one run with their initial values.
    Var(Vec<(Spanned<String>, Spanned<Operand>)>),
    /// Variables that keep their values between runs.
    StaticVar(Vec<(Spanned<String>, Spanned<Operand>)>),
    /// Parameters of the program.
    Param(Vec<Spanned<String>>),
    /// Arithmetic on a variable.
    VarInst {
        /// The variable that is assigned.
        output: Spanned<String>,
        /// The operation.
        operation: Spanned<Operation>,
        /// The operands.
        operands: Vec<Spanned<Operand>>,
    },
    /// Begins a loop with this trip count.
    Loop(Spanned<Operand>),
    /// Ends the innermost loop.
    EndLoop,
    /// Runs a graph.
    Execute {
        /// The graph.
        graph: Spanned<String>,
        /// The settings of its queues.
        settings: Vec<QueueSetting>,
    },
    /// Allocates dynamic queues.
    AllocateQueue(Vec<Spanned<String>>),
    /// Frees dynamic queues.
    DeallocateQueue(Vec<Spanned<String>>),
    /// The end; optional.
    EndProgram,
}

/// An operand of an instruction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A constant.
    Immediate(i64),
    /// A variable, `$` included.
    Variable(String),
}

/// The setting of one queue for an execute (netlist 6.3).
#[derive(Debug, Clone, PartialEq)]
pub struct QueueSetting {
    /// The queue.
    pub queue: Spanned<String>,
    /// Its fields, in the order of the file.
    pub fields: Vec<(Spanned<SettingKey>, Spanned<Operand>)>,
}

impl Op {
    /// Whether its output is stored in row-major order.
    pub fn is_untilized(&self) -> bool {
        self.untilize_output.is_some_and(|flag| flag.value)
    }

    /// Whether it accumulates over executes.
    pub fn is_gradient(&self) -> bool {
        self.gradient_op.is_some_and(|flag| flag.value)
    }

    /// Row and column of its top left core, and the rows and columns of cores that it covers; `None`
    /// for an Ethernet op, which has no worker cores.
    pub fn placement(&self) -> Option<[[u32; 2]; 2]> {
        let loc = self
            .grid_loc
            .filter(|_| self.kind.value != OpKind::EthernetDatacopy)?;
        let [rows, columns] = self.blocking.grid_size.value;
        let is_transposed = self.grid_transpose.is_some_and(|flag| flag.value);
        Some([
            loc.value,
            if is_transposed {
                [columns, rows]
            } else {
                [rows, columns]
            },
        ])
    }
}

impl Queue {
    /// Its memory layout on `arch`; `untilized` if its producer stores rows.
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
    /// The value of a field; the last of a name is effective.
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

    /// All ops with their graphs.
    pub fn ops(&self) -> impl Iterator<Item = (&Graph, &Op)> {
        self.graphs
            .iter()
            .flat_map(|graph| graph.ops.iter().map(move |op| (graph, op)))
    }
}

impl Queue {
    /// Whether the host writes it.
    pub fn is_host_fed(&self) -> bool {
        self.input.value.eq_ignore_ascii_case("HOST")
    }
}
