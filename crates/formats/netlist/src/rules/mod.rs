//! The rules of netlists: one table of ids, severities and sources (docs/netlists.md).

mod check;
mod cycles;
mod device;
mod formats;
mod fused;
mod gradient;
mod names;
mod op_types;
mod ops;
mod programs;
mod queues;
mod remote;
mod shapes;

pub use check::check;
pub use device::{NOT_CHECKED, check_device};

use crate::finding::Severity;
use std::fmt;

macro_rules! rules {
    ($($rule:ident $id:literal $severity:ident $sentence:literal $source:literal;)*) => {
        /// A rule.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Rule { $(#[doc = $sentence] $rule,)* }

        impl Rule {
            /// Every rule, in table order.
            pub const ALL: &'static [Rule] = &[$(Rule::$rule,)*];

            /// Its stable id.
            pub fn id(self) -> &'static str {
                match self { $(Rule::$rule => $id,)* }
            }

            /// The rule as a sentence.
            pub fn sentence(self) -> &'static str {
                match self { $(Rule::$rule => $sentence,)* }
            }

            /// Its source: a section of docs/netlists.md, such as `netlist 7.1`.
            pub fn source(self) -> &'static str {
                match self { $(Rule::$rule => $source,)* }
            }

            /// The severity of violations.
            pub fn severity(self) -> Severity {
                match self { $(Rule::$rule => Severity::$severity,)* }
            }
        }
    };
}

rules! {
    YamlSyntax "yaml-syntax" Error "The file is YAML." "netlist 1.1";
    Template "template" Error "A netlist has no `$TEMPLATE_` placeholders." "netlist 1.1";
    Structure "structure" Error "Sections, maps and lists have the structure of a netlist." "netlist 7.1";
    UnknownField "unknown-field" Error "Every field is known." "netlist 2.1";
    MissingField "missing-field" Error "Required fields are present." "netlist 2.1";
    DuplicateField "duplicate-field" Warning "A field is unique; the last of duplicates is used." "netlist 1.1";
    InputFormats "input-formats" Warning "An op has one format for each input; the last one is used for missing ones." "netlist 2.3";
    Documents "documents" Warning "A file has one YAML document; further documents are ignored." "netlist 1.1";
    ValueType "value-type" Error "A value has the type of its field." "netlist 2.1";
    ValueRange "value-range" Error "A number is in the range of its field." "netlist 2.1";
    ValueWord "value-word" Error "A word is one of the choices of its field." "netlist 2.1";
    SectionEmpty "section-empty" Error "The sections graphs, queues and programs are not empty." "netlist 7.1";
    UniqueName "unique-name" Error "Names of queues, graphs, ops, fused ops and programs are unique." "netlist 7.1";
    UnknownName "unknown-name" Error "A name that is used is defined." "netlist 7.1";
    QueueProducer "queue-producer" Error "The input of a queue is HOST or an op." "netlist 7.1";
    QueueBuffers "queue-buffers" Error "A queue has one buffer for each core of its grid." "netlist 2.2";
    QueueAlias "queue-alias" Error "A view and its base are rams of equal size." "netlist 2.2";
    QueueTile "queue-tile" Error "A queue has the tile size of the op that writes it." "netlist 7.1";
    QueueEpilogue "queue-epilogue" Error "A queue that an op writes has no epilogue." "netlist 7.1";
    BufferAlignment "buffer-alignment" Warning "On blackhole buffers start at multiples of 64." "netlist 2.2";
    BufferOverlap "buffer-overlap" Warning "Buffers of different queues do not overlap." "netlist 7.2";
    InputCount "input-count" Error "The graphs that read a queue have the same input_count." "netlist 7.1";
    InputNumber "input-number" Error "An op has the number of inputs of its type." "netlist 3.1";
    CoreOverlap "core-overlap" Error "No two ops of a graph use the same core." "netlist 7.1";
    OutputOrder "output-order" Error "Outputs of matmuls and reductions, and untilized outputs, have ublock_order r." "netlist 7.1";
    BufferSize "buffer-size" Error "buf_size_mb is 1 or even." "netlist 2.3";
    DestSize "dest-size" Error "A ublock fits the destination registers." "netlist 7.1";
    Untilize "untilize" Error "An untilized op writes one queue of one buffer, which no op reads." "netlist 7.1";
    UntilizeFormat "untilize-format" Error "Untilized data are floats of 16 or 32 bits." "netlist 7.1";
    Shape "shape" Error "Inputs have the required shapes." "netlist 3.1";
    ShapeDeclared "shape-declared" Warning "Inferred and declared shapes are equal." "netlist 1.2";
    TensorSize "tensor-size" Error "Entries, inputs and outputs have at most 2^31 elements." "netlist 1.2";
    OpCycle "op-circle" Error "No op depends on its own output." "netlist 6.5";
    QueueShape "queue-shape" Error "A queue has the shape of the output that is written to it." "netlist 1.2";
    TmShape "tm-shape" Error "The size of a dimension is divisible by the factor of a slice or stack." "netlist 4.1";
    TmTranspose "tm-transpose" Error "A transpose is on an input that supports it." "netlist 4.2";
    TmPlace "tm-place" Error "A TM is on an input that supports it." "netlist 4.2";
    Attribute "attribute" Error "An op has the attributes of its type." "netlist 3.2, 7.1";
    Format "format" Error "The formats of an op are supported." "netlist 7.1";
    IntegerFormat "integer-format" Error "Integer formats are supported by the op." "netlist 7.1";
    Grayskull "grayskull" Error "Grayskull supports one tile size, 16-bit destination registers, and no l1_acc." "netlist 7.1";
    TileSize "tile-size" Error "The op supports the tile size." "netlist 7.1";
    Gradient "gradient" Error "Gradient accumulation has supported formats and one output ram." "netlist 7.1";
    Fused "fused" Error "The buffers of a fused op are written, read and popped in order." "netlist 3.7, 7.1";
    FusedShape "fused-shape" Error "The shapes of the ops of a fused op are compatible." "netlist 7.1";
    ParamFirst "param-first" Error "param is the first instruction of a program." "netlist 6.4";
    Variable "variable" Error "A variable is declared once, before its use." "netlist 6.4";
    VariableImplicit "variable-implicit" Note "A varinst on an undeclared variable declares it." "netlist 6.4";
    LoopNesting "loop-nesting" Error "Loops are balanced." "netlist 6.4";
    LoopCount "loop-count" Error "A loop runs at least once." "netlist 6.4";
    EndProgram "end-program" Note "The original rejects endprogram." "netlist 2.5";
    SettingMissing "setting-missing" Error "Queues that the host writes have settings with the fields of their type." "netlist 6.3";
    SettingForbidden "setting-forbidden" Error "A setting is supported by the type of its queue." "netlist 6.3";
    SettingUnused "setting-unused" Error "The graph of an execute reads or writes the queues with settings." "netlist 6.3";
    TestConfig "test-config" Warning "The keys and values of test-config are known." "netlist 6.8";
    DeviceGrid "device-grid" Error "Ops are within the core grid of the device." "netlist 7.2";
    DeviceChannel "device-channel" Error "Buffers are in DRAM channels of the device." "netlist 7.2";
    DeviceMemory "device-memory" Error "Buffers are within their channel." "netlist 7.2";
    DeviceFormat "device-format" Error "The formats of inputs and outputs are those of their queues and ops." "netlist 7.2";
    DeviceStreams "device-streams" Error "An op reads and writes at most 8 queues." "netlist 7.2";
    DeviceSettings "device-settings" Error "Prologue and epilogue are supported for the queue." "netlist 7.2";
    DeviceOutput "device-output" Error "Gradient rams have the blocking of their op; outputs of gradient and untilized ops have no TMs." "netlist 7.2";
    DevicePipe "device-pipe" Error "Each buffer of a queue is written by one core." "netlist 7.2";
    DeviceDynamic "device-dynamic" Error "Dynamic queues are in device memory." "netlist 7.2";
    DeviceArch "device-arch" Error "The netlist is for the device's architecture." "netlist 2.1";
    DeviceL1 "device-l1" Error "The minimal footprint of an op fits L1." "netlist 7.2";
    DeviceEthernet "device-ethernet" Error "Ethernet copies use channels of the device." "netlist 7.3";
    DeviceRemote "device-remote" Error "On grayskull, queues that another device reads or writes are in shared memory." "netlist 7.2";
    DeviceBuffer "device-buffer" Error "Half of buf_size_mb divides the number of slices, or is a multiple of it." "netlist 7.2";
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
