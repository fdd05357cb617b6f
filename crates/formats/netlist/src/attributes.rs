//! The attributes of ops (netlist 3.2): one table of names and types.

use crate::source::Spanned;

/// The type of an attribute's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeType {
    /// An integer of at least 0.
    Count,
    /// An integer.
    Integer,
    /// A boolean, in any letter case.
    Bool,
    /// A number.
    Number,
    /// One of these words; any word if the list is empty.
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
        /// An attribute that the original implementation supports.
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
    /// Number of inner mblocks of a matmul.
    MK "m_k" Count;
    /// Number of tiles of an inner ublock.
    UKt "u_kt" Count;
    /// The last input is a bias.
    Bias "bias" Bool;
    /// Sums groups of `z` slices.
    Accumulate "accumulate" Bool;
    /// Accumulates in the memory of the core; no effect on values.
    L1Acc "l1_acc" Bool;
    /// Requantizes the result to Int8.
    Requant "requant" Bool;
    /// Dequantizes the result to float.
    Dequant "dequant" Bool;
    /// A sparse matmul, with an encoding.
    Identity "identity" Bool;
    /// Number of slices of a group.
    Z "z" Count;
    /// The zero point of a quantization.
    ZeroPoint "zero_point" Number;
    /// The activation of a matmul.
    SfpuOp "sfpu_op" Word(&[]);
    /// The part of a tile that the special-function unit computes.
    Vector "vector" Word(&["r", "c", "rc"]);
    /// Approximate activation functions; no effect in Tenon.
    ApproximateMode "approximate_mode" Bool;
    /// The thread that computes the activation; no effect on values.
    SfpuExecutionThread "sfpu_execution_thread" Word(&["math", "pack"]);
    /// Whether a ReLU is applied to the result.
    ReluEn "relu_en" Bool;
    /// The threshold of the ReLU.
    ReluThreshold "relu_threshold" Number;
    /// The mode of the ReLU: clamp at the minimum or maximum; `none` with a ReLU is `min`.
    ReluMode "relu_mode" Word(&["min", "max", "none", "Min", "Max", "None"]);
    /// Stochastic rounding, deprecated name; no effect in Tenon.
    SrndFpuEn "srnd_fpu_en" Bool;
    /// Stochastic rounding; no effect in Tenon.
    StochRndMode "stoch_rnd_mode" Word(&["none", "fpu", "pack", "all"]);
    /// Number of tiles of an input that are kept in the core and reused.
    KernelBroadcast "kernel_broadcast" PerInput;
    /// As kernel_broadcast, per slice.
    KernelBroadcastPerT "kernel_broadcast_per_t" PerInput;
    /// Inputs with a single tile that is reused.
    SingleTile "single_tile" List;
    /// Minimal buffer for an input.
    MinBufferInput "min_buffer_input" Count;
    /// The dimension of a reduction.
    Dim "dim" Word(&["r", "c", "rc", "z"]);
    /// The type of a reduction.
    Type "type" Word(&["max"]);
    /// The probability of a zero in dropout.
    P "p" Number;
    /// The seed of a dropout.
    Seed "seed" Integer;
    /// The negative slope of lrelu.
    Slope "slope" Number;
    /// The exponent of power.
    Exp "exp" Count;
    /// The id of the fused op.
    FusedOpId "fused_op_id" Word(&[]);
    /// The unit of a splice.
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
    /// Number of indices of an embedding.
    NumIndices "num_indices" Count;
    /// Number of values that topk returns.
    K "k" Count;
    /// Whether topk returns values or indices.
    Sort "sort" Word(&["max", "argmax"]);
    /// Whether topk merges sorted runs.
    Kreduce "kreduce" Bool;
    /// Number of tiles of indices.
    NumIndexTiles "num_index_tiles" Count;
    /// Number of sparse tiles.
    NumSparseTiles "num_sparse_tiles" Count;
    /// Number of columns of a sparse matrix.
    NumColumns "num_columns" Count;
    /// Number of bits of the index of a sparse tile.
    SparseTilePtrBits "sparse_tile_ptr_bits" Count;
    /// Number of bits of the index of a ublock; -1 for that of sparse_tile_ptr_bits.
    SparseUblockIdxBits "sparse_ublock_idx_bits" Integer;
    /// Total number of indices.
    IndicesLen "indices_len" Count;
    /// Number of parts into which the columns of cores are split.
    FractureFactor "fracture_factor" Count;
    /// The first row.
    StartingRow "starting_row" Count;
    /// Number of slices of the activations.
    ActT "act_t" Count;
    /// Counts of nonzero strips.
    NumNzStrips "num_nz_strips" List;
    /// Ethernet channels that receive.
    IngressChannels "ingress_channels" List;
    /// Ethernet channels that send.
    EgressChannels "egress_channels" List;
    /// The device that receives.
    DestDevice "dest_device" Count;
}

/// The attributes of one op, in the order of the file; the last of a name is effective.
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
