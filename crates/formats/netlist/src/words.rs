//! The words of a netlist: types of ops, formats, architectures. One table each.

/// A word that a field takes one of.
pub trait Word: Copy + PartialEq + 'static {
    /// Every value with its spelling; a value's first spelling is the one that is printed.
    const SPELLINGS: &'static [(&'static str, Self)];
    /// Whether upper and lower case are told apart.
    const EXACT_CASE: bool;
    /// What the word is, for messages.
    const NOUN: &'static str;

    /// The value that `text` spells.
    fn from_word(text: &str) -> Option<Self> {
        let same = |spelling: &str| match Self::EXACT_CASE {
            true => spelling == text,
            false => spelling.eq_ignore_ascii_case(text),
        };
        let found = Self::SPELLINGS.iter().find(|(spelling, _)| same(spelling));
        found.map(|&(_, value)| value)
    }

    /// The first spelling of each value, for messages.
    fn choices() -> String {
        let all = Self::SPELLINGS.chunk_by(|(_, one), (_, two)| one == two);
        let first: Vec<&str> = all.map(|spellings| spellings[0].0).collect();
        first.join(", ")
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $noun:literal, exact case $exact:literal;
     $($(#[$value_doc:meta])* $value:ident $spelling:literal $(| $alias:literal)*;)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$value_doc])* $value,)* }

        impl $crate::words::Word for $name {
            const SPELLINGS: &'static [(&'static str, Self)] = &[
                $(($spelling, $name::$value), $(($alias, $name::$value),)*)*
            ];
            const EXACT_CASE: bool = $exact;
            const NOUN: &'static str = $noun;
        }

        impl $name {
            /// Every value, in table order.
            pub const ALL: &'static [$name] = &[$($name::$value,)*];

            /// How it is spelled.
            pub fn name(self) -> &'static str {
                match self { $($name::$value => $spelling,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

pub(crate) use words;

words! {
    /// An architecture (facts 2, devices).
    Arch, "architecture", exact case false;
    /// Grayskull.
    Grayskull "grayskull";
    /// Wormhole, revision a0.
    Wormhole "wormhole";
    /// Wormhole, revision b0; the specification's own word is the second.
    WormholeB0 "wormhole_b0" | "wormhole_b";
    /// Blackhole.
    Blackhole "blackhole";
}

words! {
    /// Whether an IO node has flow control (facts 2, queues).
    QueueKind, "type of queue", exact case true;
    /// A FIFO with pointers that wait.
    Queue "queue";
    /// Memory without flow control.
    Ram "ram";
}

words! {
    /// How the data of a queue lie in memory.
    Layout, "layout", exact case true;
    /// In tiles.
    Tilized "tilized";
    /// Row by row.
    Flat "flat";
}

words! {
    /// Where a queue lies.
    Memory, "location", exact case true;
    /// In the device's memory.
    Dram "dram";
    /// In the host's memory.
    Host "host";
}

words! {
    /// The order of ublocks inside an mblock.
    UblockOrder, "order of ublocks", exact case true;
    /// Row by row.
    Row "r";
    /// Column by column.
    Column "c";
}

words! {
    /// How exactly a device multiplies; without effect on numbers here (facts 3).
    MathFidelity, "math fidelity", exact case true;
    /// One pass.
    LoFi "LoFi";
    /// Two passes.
    HiFi2 "HiFi2";
    /// Three passes.
    HiFi3 "HiFi3";
    /// Four passes.
    HiFi4 "HiFi4";
    /// Two passes, the low bits of the first operand.
    HiFi2A "HiFi2_A";
    /// Two passes, the low bits of the second operand.
    HiFi2B "HiFi2_B";
}

words! {
    /// The format of stored numbers (facts 5).
    DataFormat, "data format", exact case true;
    /// IEEE binary32.
    Float32 "Float32";
    /// 5 bits of exponent, 10 of mantissa.
    Float16 "Float16";
    /// 8 bits of exponent, 7 of mantissa.
    Float16B "Float16_b";
    /// 16 numbers share a 5-bit exponent; 7 bits of mantissa.
    Bfp8 "Bfp8";
    /// 16 numbers share an 8-bit exponent; 7 bits of mantissa.
    Bfp8B "Bfp8_b";
    /// 16 numbers share a 5-bit exponent; 3 bits of mantissa.
    Bfp4 "Bfp4";
    /// 16 numbers share an 8-bit exponent; 3 bits of mantissa.
    Bfp4B "Bfp4_b";
    /// 16 numbers share a 5-bit exponent; 1 bit of mantissa.
    Bfp2 "Bfp2";
    /// 16 numbers share an 8-bit exponent; 1 bit of mantissa.
    Bfp2B "Bfp2_b";
    /// 5 bits of exponent, 2 of mantissa.
    Lf8 "Lf8";
    /// 4 bits of exponent, 3 of mantissa.
    Fp8E4m3 "Fp8_e4m3";
    /// Sign and 31 bits of magnitude.
    Int32 "Int32";
    /// Sign and 7 bits of magnitude.
    Int8 "Int8";
    /// 0 to 65535.
    UInt16 "UInt16";
    /// 0 to 255.
    UInt8 "UInt8";
    /// 32 bits as they are.
    RawUInt32 "RawUInt32";
    /// 16 bits as they are.
    RawUInt16 "RawUInt16";
    /// 8 bits as they are.
    RawUInt8 "RawUInt8";
}

words! {
    /// What an op computes (facts 3.1).
    OpKind, "type of op", exact case true;
    /// Its input.
    Nop "nop";
    /// Its input.
    Datacopy "datacopy";
    /// Its input, on another device.
    EthernetDatacopy "ethernet_datacopy";
    /// a + b.
    Add "add";
    /// a - b.
    Subtract "subtract";
    /// a * b.
    Multiply "multiply";
    /// The larger of two.
    Maximum "maximum";
    /// Float to Int8 with a scale.
    Quantization "quantization";
    /// Int32 to Int8 with a scale.
    Requantization "requantization";
    /// Int32 to float with a scale.
    Dequantization "dequantization";
    /// e to the x.
    Exp "exp";
    /// The natural logarithm.
    Log "log";
    /// The square root.
    Sqrt "sqrt";
    /// 1 / x.
    Reciprocal "reciprocal";
    /// 1 / (1 + e to the -x).
    Sigmoid "sigmoid";
    /// The hyperbolic tangent.
    Tanh "tanh";
    /// The sine.
    Sine "sine";
    /// The cosine.
    Cosine "cosine";
    /// The magnitude.
    Abs "abs";
    /// x * x.
    Square "square";
    /// The Gaussian error linear unit, its tanh form.
    Gelu "gelu";
    /// Its derivative.
    GeluDerivative "gelu_derivative";
    /// x, or slope * x where that is negative.
    Lrelu "lrelu";
    /// x to an integer power.
    Power "power";
    /// Zeros at random.
    Dropout "dropout";
    /// The matrix product.
    Matmul "matmul";
    /// The product channel by channel.
    Depthwise "depthwise";
    /// The maximum along a dimension.
    Reduce "reduce";
    /// Parts of its inputs, one after the other.
    Splice "splice";
    /// Rows of a table.
    Embedding "embedding";
    /// Row-major to tiles.
    Tilizer "tilizer";
    /// The largest k of each row.
    Topk "topk";
    /// A schedule of ops.
    FusedOp "fused_op";
    /// Known to the reader of the original, to nothing that runs it.
    Buffer "buffer";
    /// A measuring aid of the original.
    Drainer "drainer";
}

impl OpKind {
    /// How many inputs it takes, least and most; a fused op says so itself.
    pub fn inputs(self) -> (usize, usize) {
        use OpKind::*;
        match self {
            Add | Subtract | Multiply | Maximum | Quantization | Requantization
            | Dequantization | Embedding | Topk => (2, 2),
            Matmul => (2, 4),
            Depthwise => (2, 3),
            Splice => (1, 8),
            FusedOp => (1, 16),
            _ => (1, 1),
        }
    }

    /// Whether it works element by element on two inputs.
    pub fn is_binary(self) -> bool {
        use OpKind::*;
        matches!(
            self,
            Add | Subtract | Multiply | Maximum | Quantization | Requantization | Dequantization
        )
    }

    /// Whether it works element by element on one input, on the special-function unit.
    pub fn is_sfpu(self) -> bool {
        use OpKind::*;
        matches!(
            self,
            Exp | Log
                | Sqrt
                | Reciprocal
                | Sigmoid
                | Tanh
                | Sine
                | Cosine
                | Abs
                | Square
                | Gelu
                | GeluDerivative
                | Lrelu
                | Power
                | Dropout
        )
    }

    /// Whether its tiles pass through the registers of the math unit.
    pub fn uses_registers(self) -> bool {
        !matches!(self, OpKind::EthernetDatacopy | OpKind::Embedding)
    }

    /// Whether it copies its one input.
    pub fn is_copy(self) -> bool {
        matches!(
            self,
            OpKind::Nop | OpKind::Datacopy | OpKind::EthernetDatacopy
        )
    }
}

impl DataFormat {
    /// Whether 16 numbers share an exponent.
    pub fn is_block(self) -> bool {
        use DataFormat::*;
        matches!(self, Bfp8 | Bfp8B | Bfp4 | Bfp4B | Bfp2 | Bfp2B)
    }

    /// Whether it holds bits that are no numbers.
    pub fn is_raw(self) -> bool {
        matches!(
            self,
            DataFormat::RawUInt32 | DataFormat::RawUInt16 | DataFormat::RawUInt8
        )
    }

    /// Whether it holds integers.
    pub fn is_integer(self) -> bool {
        use DataFormat::*;
        matches!(self, Int32 | Int8 | UInt16 | UInt8)
    }

    /// Bits of exponent of a floating-point format, shared or not.
    pub fn exponent_bits(self) -> Option<u32> {
        use DataFormat::*;
        match self {
            Float32 | Float16B | Bfp8B | Bfp4B | Bfp2B => Some(8),
            Float16 | Bfp8 | Bfp4 | Bfp2 | Lf8 => Some(5),
            Fp8E4m3 => Some(4),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_counts_only_where_the_original_says_so() {
        assert_eq!(Arch::from_word("GraySkull"), Some(Arch::Grayskull));
        assert_eq!(Memory::from_word("DRAM"), None);
        assert_eq!(OpKind::from_word("sub"), None);
        assert_eq!(Arch::from_word("wormhole_b"), Some(Arch::WormholeB0));
        assert_eq!(
            Arch::choices(),
            "grayskull, wormhole, wormhole_b0, blackhole"
        );
    }

    #[test]
    fn every_word_reads_back() {
        for &kind in OpKind::ALL {
            assert_eq!(OpKind::from_word(kind.name()), Some(kind));
        }
        for &format in DataFormat::ALL {
            assert_eq!(DataFormat::from_word(format.name()), Some(format));
        }
    }
}
