//! The attributes of ops (facts 3.2): one table of names and types.

use crate::source::Spanned;

/// The type of an attribute's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeType {
    /// An integer of at least 0.
    Count,
    /// An integer.
    Integer,
    /// true or false, in any case.
    Bool,
    /// A number.
    Number,
    /// A word; the choices, none when any will do.
    Word(&'static [&'static str]),
    /// A list of integers.
    List,
    /// A map from `input_N` to an integer.
    PerInput,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    /// An integer.
    Integer(i64),
    /// true or false.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A word.
    Word(String),
    /// Integers.
    List(Vec<i64>),
    /// Integers by input.
    PerInput(Vec<(u32, i64)>),
}

macro_rules! attributes {
    ($($(#[$doc:meta])* $key:ident $name:literal $ty:expr;)*) => {
        /// An attribute that the original knows.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum AttributeKey { $($(#[$doc])* $key,)* }

        impl AttributeKey {
            /// Every key, in table order.
            pub const ALL: &'static [AttributeKey] = &[$(AttributeKey::$key,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(AttributeKey::$key => $name,)* }
            }

            /// The type of its value.
            pub fn value_type(self) -> AttributeType {
                use AttributeType::*;
                match self { $(AttributeKey::$key => $ty,)* }
            }
        }
    };
}

attributes! {
    /// Inner mblocks of a product.
    MK "m_k" Count;
    /// Tiles of an inner ublock.
    UKt "u_kt" Count;
    /// The last input is a bias.
    Bias "bias" Bool;
    /// Groups of `z` slices are summed.
    Accumulate "accumulate" Bool;
    /// Accumulates in the core's memory; no effect on numbers.
    L1Acc "l1_acc" Bool;
    /// The product is scaled to Int8.
    Requant "requant" Bool;
    /// The product is scaled to float.
    Dequant "dequant" Bool;
    /// A sparse product, by its encoding.
    Identity "identity" Bool;
    /// Slices of a group.
    Z "z" Count;
    /// Added after scaling.
    ZeroPoint "zero_point" Number;
    /// Applied to the product.
    SfpuOp "sfpu_op" Word(&[]);
    /// Which part of a tile the special-function unit computes.
    Vector "vector" Word(&["r", "c", "rc"]);
    /// No effect on numbers here.
    ApproximateMode "approximate_mode" Bool;
    /// Which thread computes; no effect on numbers.
    SfpuExecutionThread "sfpu_execution_thread" Word(&["math", "pack"]);
    /// Whether relu follows.
    ReluEn "relu_en" Bool;
    /// Its threshold.
    ReluThreshold "relu_threshold" Number;
    /// Which side is cut; none is min where there is a relu.
    ReluMode "relu_mode" Word(&["min", "max", "none", "Min", "Max", "None"]);
    /// Stochastic rounding, its old name; no effect on numbers here.
    SrndFpuEn "srnd_fpu_en" Bool;
    /// Stochastic rounding; no effect on numbers here.
    StochRndMode "stoch_rnd_mode" Word(&["none", "fpu", "pack", "all"]);
    /// Tiles of an input that are kept and used again.
    KernelBroadcast "kernel_broadcast" PerInput;
    /// The same, slice by slice.
    KernelBroadcastPerT "kernel_broadcast_per_t" PerInput;
    /// Inputs of which one tile is used again.
    SingleTile "single_tile" List;
    /// Smallest buffers for an input.
    MinBufferInput "min_buffer_input" Count;
    /// The dimension that a reduce takes away.
    Dim "dim" Word(&["r", "c", "rc", "z"]);
    /// What a reduce does.
    Type "type" Word(&["max"]);
    /// The probability of a zero.
    P "p" Number;
    /// The seed of a dropout.
    Seed "seed" Integer;
    /// The slope of lrelu.
    Slope "slope" Number;
    /// The exponent of power.
    Exp "exp" Count;
    /// Which fused op.
    FusedOpId "fused_op_id" Word(&[]);
    /// What a splice counts in.
    Granularity "granularity" Word(&["ublock", "t"]);
    /// Index, length and stride of input 0 of a splice.
    Input0 "input0" List;
    /// Index, length and stride of input 1.
    Input1 "input1" List;
    /// Index, length and stride of input 2.
    Input2 "input2" List;
    /// Index, length and stride of input 3.
    Input3 "input3" List;
    /// Index, length and stride of input 4.
    Input4 "input4" List;
    /// Index, length and stride of input 5.
    Input5 "input5" List;
    /// Index, length and stride of input 6.
    Input6 "input6" List;
    /// Index, length and stride of input 7.
    Input7 "input7" List;
    /// Indices of an embedding.
    NumIndices "num_indices" Count;
    /// Values that topk keeps.
    K "k" Count;
    /// Whether topk answers values or places.
    Sort "sort" Word(&["max", "argmax"]);
    /// Whether topk merges sorted runs.
    Kreduce "kreduce" Bool;
    /// Tiles of indices.
    NumIndexTiles "num_index_tiles" Count;
    /// Sparse tiles.
    NumSparseTiles "num_sparse_tiles" Count;
    /// Columns of a sparse matrix.
    NumColumns "num_columns" Count;
    /// Bits of a pointer to a sparse tile.
    SparseTilePtrBits "sparse_tile_ptr_bits" Count;
    /// Bits of the index of a ublock; -1 for those of the pointer.
    SparseUblockIdxBits "sparse_ublock_idx_bits" Integer;
    /// Indices in all.
    IndicesLen "indices_len" Count;
    /// How many parts the columns of cores fall into.
    FractureFactor "fracture_factor" Count;
    /// The first row.
    StartingRow "starting_row" Count;
    /// Slices of the activations.
    ActT "act_t" Count;
    /// Strips that are not zero.
    NumNzStrips "num_nz_strips" List;
    /// Ethernet channels that receive.
    IngressChannels "ingress_channels" List;
    /// Ethernet channels that send.
    EgressChannels "egress_channels" List;
    /// The device that receives.
    DestDevice "dest_device" Count;
}

/// The attributes of one op, in the order of the file; the last of a name counts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attributes(pub Vec<(AttributeKey, Spanned<AttributeValue>)>);

impl Attributes {
    /// An attribute's value.
    pub fn find(&self, key: AttributeKey) -> Option<&Spanned<AttributeValue>> {
        let found = self.0.iter().rev().find(|(name, _)| *name == key);
        found.map(|(_, value)| value)
    }

    /// An integer; 0 when it is absent.
    pub fn integer(&self, key: AttributeKey) -> i64 {
        match self.find(key).map(|value| &value.value) {
            Some(AttributeValue::Integer(value)) => *value,
            _ => 0,
        }
    }

    /// A switch; off when it is absent.
    pub fn is(&self, key: AttributeKey) -> bool {
        self.find(key).map(|value| &value.value) == Some(&AttributeValue::Bool(true))
    }

    /// A number.
    pub fn number(&self, key: AttributeKey) -> Option<f64> {
        match self.find(key).map(|value| &value.value) {
            Some(AttributeValue::Number(value)) => Some(*value),
            _ => None,
        }
    }

    /// A word.
    pub fn word(&self, key: AttributeKey) -> Option<&str> {
        match self.find(key).map(|value| &value.value) {
            Some(AttributeValue::Word(value)) => Some(value),
            _ => None,
        }
    }

    /// Integers.
    pub fn list(&self, key: AttributeKey) -> Option<&[i64]> {
        match self.find(key).map(|value| &value.value) {
            Some(AttributeValue::List(values)) => Some(values),
            _ => None,
        }
    }

    /// The attribute `inputN` of a splice.
    pub fn splice_input(&self, input: usize) -> Option<&Spanned<AttributeValue>> {
        use AttributeKey::*;
        let keys = [
            Input0, Input1, Input2, Input3, Input4, Input5, Input6, Input7,
        ];
        self.find(*keys.get(input)?)
    }
}
