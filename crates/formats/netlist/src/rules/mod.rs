//! The rules of a netlist: one table of ids (facts 2, 6 and 7).

mod check;
mod circles;
mod device;
mod formats;
mod fused;
mod gradient;
mod kinds;
mod names;
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

            /// Its id, which stays.
            pub fn id(self) -> &'static str {
                match self { $(Rule::$rule => $id,)* }
            }

            /// What it asks.
            pub fn sentence(self) -> &'static str {
                match self { $(Rule::$rule => $sentence,)* }
            }

            /// Where it comes from: a section of the facts or of the seed.
            pub fn source(self) -> &'static str {
                match self { $(Rule::$rule => $source,)* }
            }

            /// How bad it is when it is broken.
            pub fn severity(self) -> Severity {
                match self { $(Rule::$rule => Severity::$severity,)* }
            }
        }
    };
}

rules! {
    YamlSyntax "yaml-syntax" Error "The file is YAML." "facts 1";
    Template "template" Error "A netlist is concrete: no `$TEMPLATE_` is left in it." "issue";
    Structure "structure" Error "Sections, maps and lists stand where they belong." "facts 7.1";
    UnknownField "unknown-field" Error "Every field is one the reader knows." "facts 2";
    MissingField "missing-field" Error "Required fields are there." "facts 2";
    DuplicateField "duplicate-field" Warning "A field stands once; of several the last counts." "facts 1";
    InputFormats "input-formats" Warning "An op has one format for each input; the last stands for those that lack one." "facts 2";
    Documents "documents" Warning "A file holds one netlist; nothing reads another document behind it." "facts 1";
    ValueType "value-type" Error "A value is of its field's type." "facts 2";
    ValueRange "value-range" Error "A number is in its field's range." "facts 2";
    ValueWord "value-word" Error "A word is one its field knows." "facts 2";
    SectionEmpty "section-empty" Error "There are graphs, queues and programs." "facts 7.1";
    UniqueName "unique-name" Error "Names of queues, of graphs and of ops are each given once." "facts 7.1";
    UnknownName "unknown-name" Error "What is named exists." "facts 7.1";
    QueueProducer "queue-producer" Error "A queue that an op fills is filled by one op." "facts 7.1";
    QueueBuffers "queue-buffers" Error "A queue has one buffer for each element of its grid." "facts 2";
    QueueAlias "queue-alias" Error "Two views are rams of one size on the same buffers." "facts 2";
    QueueTile "queue-tile" Error "A queue's tiles are those of the op that fills it." "facts 7.1";
    QueueEpilogue "queue-epilogue" Error "A queue that an op fills has no epilogue." "facts 7.1";
    BufferAlignment "buffer-alignment" Warning "On blackhole buffers start at multiples of 64." "facts 2";
    BufferOverlap "buffer-overlap" Warning "Buffers of different queues do not overlap." "facts 7.2";
    InputCount "input-count" Error "A queue is read by graphs of one input count." "facts 7.1";
    InputNumber "input-number" Error "An op has as many inputs as its type takes." "facts 3.1";
    CoreOverlap "core-overlap" Error "No two ops of a graph use the same core." "facts 7.1";
    OutputOrder "output-order" Error "Products and untilized outputs are blocked by rows." "facts 7.1";
    BufferSize "buffer-size" Error "A buffer holds one mblock, or an even number." "facts 2";
    DestSize "dest-size" Error "A ublock fits the registers it is computed in." "facts 7.1";
    Untilize "untilize" Error "An untilized op fills one queue of one buffer, which nobody reads." "facts 7.1";
    UntilizeFormat "untilize-format" Error "Untilized data are floats of 16 or 32 bits." "facts 7.1";
    Shape "shape" Error "Inputs have the shape the op needs." "facts 3.1";
    ShapeDeclared "shape-declared" Warning "The shape computed is the one declared." "facts 1";
    TensorSize "tensor-size" Error "An entry, and what an op reads or makes, has at most 2^31 elements." "docs/netlists.md";
    OpCircle "op-circle" Error "No op waits for what is made of its own output." "facts 6.5";
    QueueShape "queue-shape" Error "A queue has the shape of what fills it." "facts 1";
    TmShape "tm-shape" Error "A TM divides what it cuts." "facts 4";
    TmTranspose "tm-transpose" Error "Transposing stands where the kernels can do it." "facts 4";
    TmPlace "tm-place" Error "A TM stands where it is allowed." "facts 4";
    Attribute "attribute" Error "An op has the attributes its type needs." "facts 3.2 and 7.1";
    Format "format" Error "The formats of an op fit what it computes." "facts 7.1";
    IntegerFormat "integer-format" Error "Integers are computed where and as the hardware can." "facts 7.1";
    Grayskull "grayskull" Error "On grayskull: no tile sizes, no 32-bit registers, no binary transpose." "facts 7.1";
    TileSize "tile-size" Error "Small tiles stand where they are allowed." "facts 7.1";
    Gradient "gradient" Error "A gradient accumulates into one ram that is loaded and stored." "facts 7.1";
    Fused "fused" Error "A fused op's buffers are written, read and popped in turn." "facts 3.7 and 7.1";
    FusedShape "fused-shape" Error "The ops of a fused op agree on their shapes." "facts 7.1";
    ParamFirst "param-first" Error "Params are the first instruction of a program, once." "facts 6.4";
    Variable "variable" Error "A variable is declared once before it is used." "facts 6.4";
    VariableImplicit "variable-implicit" Note "A varinst on an undeclared variable declares it." "facts 10.2";
    LoopNesting "loop-nesting" Error "Every loop ends, and every end has its loop." "facts 6.4";
    LoopCount "loop-count" Error "A loop runs at least once." "facts 6.4";
    EndProgram "end-program" Note "The original refuses an explicit endprogram." "facts 6.4";
    SettingMissing "setting-missing" Error "Queues that the host fills have settings, with the fields their type needs." "facts 6.3";
    SettingForbidden "setting-forbidden" Error "A setting stands only where it means something." "facts 6.3";
    SettingUnused "setting-unused" Error "A queue with settings is read or written by the graph." "facts 6.3";
    TestConfig "test-config" Warning "What a test-config says is understood." "facts 6.8";
    DeviceGrid "device-grid" Error "Ops lie on the worker grid of their device." "facts 7.2";
    DeviceChannel "device-channel" Error "Buffers lie in channels that the device has." "facts 7.2";
    DeviceMemory "device-memory" Error "Buffers end inside their channel." "facts 7.2";
    DeviceFormat "device-format" Error "An input's format is that of what it reads, an output's that of what it fills." "facts 7.2";
    DeviceStreams "device-streams" Error "A core reads and writes at most 8 queues in memory." "facts 7.2";
    DeviceSettings "device-settings" Error "Prologue and epilogue stand where the hardware has them." "facts 7.2";
    DeviceOutput "device-output" Error "A gradient is blocked as its ram; nothing is done on the way to it or out of tiles." "facts 7.2";
    DevicePipe "device-pipe" Error "Each buffer of a queue is filled by one core." "facts 7.2";
    DeviceDynamic "device-dynamic" Error "What programs allocate lies in the device's memory." "facts 7.2";
    DeviceArch "device-arch" Error "The netlist is for the device's architecture." "facts 2";
    DeviceL1 "device-l1" Error "What an op's core must hold at least fits its memory." "facts 7.2";
    DeviceEthernet "device-ethernet" Error "Copies over Ethernet go through channels that the device has." "facts 7.3";
    DeviceRemote "device-remote" Error "On grayskull what another device reads or fills lies where it reaches." "facts 7.2";
    DeviceBuffer "device-buffer" Error "The size of a buffer divides the slices, or is divided by them." "facts 7.2";
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
