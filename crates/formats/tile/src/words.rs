//! Keywords: enumerations, each with a table of spellings.

/// The keywords of a field.
pub trait Word: Copy + PartialEq + 'static {
    /// Every value with its spellings; the first spelling of a value is printed.
    const SPELLINGS: &'static [(&'static str, Self)];
    /// Whether spellings are case-sensitive.
    const EXACT_CASE: bool;
    /// The kind of keyword, for messages.
    const NOUN: &'static str;

    /// The value that `text` spells.
    fn from_word(text: &str) -> Option<Self> {
        let same = |spelling: &str| {
            if Self::EXACT_CASE {
                spelling == text
            } else {
                spelling.eq_ignore_ascii_case(text)
            }
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

/// Defines an enumeration from its table of spellings: the type, its [`Word`] and its `Display`.
#[macro_export]
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $noun:literal, exact case $exact:literal;
     $($(#[$value_doc:meta])* $value:ident $spelling:literal $(| $alias:literal)*;)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$value_doc])* $value,)* }

        impl $crate::Word for $name {
            const SPELLINGS: &'static [(&'static str, Self)] = &[
                $(($spelling, $name::$value), $(($alias, $name::$value),)*)*
            ];
            const EXACT_CASE: bool = $exact;
            const NOUN: &'static str = $noun;
        }

        impl $name {
            /// Every value, in table order.
            pub const ALL: &'static [$name] = &[$($name::$value,)*];

            /// The first spelling.
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

words! {
    /// An architecture (netlist 2.1).
    Arch, "architecture", exact case false;
    /// Grayskull.
    Grayskull "grayskull";
    /// Wormhole, revision a0.
    Wormhole "wormhole";
    /// Wormhole, revision b0; the second spelling is the specification's.
    WormholeB0 "wormhole_b0" | "wormhole_b";
    /// Blackhole.
    Blackhole "blackhole";
}

words! {
    /// The memory layout of a queue's data.
    Layout, "layout", exact case true;
    /// In tiles.
    Tilized "tilized";
    /// Row by row.
    Flat "flat";
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
    /// The part of each tile that is copied over the whole tile (netlist 4.1).
    TileBroadcast, "tile broadcast", exact case true;
    /// Row 0.
    Row "r";
    /// Column 0.
    Column "c";
    /// Element 0 of row 0.
    Both "rc";
}

impl TileBroadcast {
    /// This broadcast and another one after it.
    pub fn then(self, next: Self) -> Self {
        if self == next { self } else { Self::Both }
    }
}

words! {
    /// The format of stored elements (netlist 5.1, 5.2).
    DataFormat, "data format", exact case true;
    /// IEEE binary32.
    Float32 "Float32";
    /// 5 bits of exponent, 10 of mantissa.
    Float16 "Float16";
    /// 8 bits of exponent, 7 of mantissa.
    Float16B "Float16_b";
    /// 16 elements with a shared 5-bit exponent; 7 bits of mantissa.
    Bfp8 "Bfp8";
    /// 16 elements with a shared 8-bit exponent; 7 bits of mantissa.
    Bfp8B "Bfp8_b";
    /// 16 elements with a shared 5-bit exponent; 3 bits of mantissa.
    Bfp4 "Bfp4";
    /// 16 elements with a shared 8-bit exponent; 3 bits of mantissa.
    Bfp4B "Bfp4_b";
    /// 16 elements with a shared 5-bit exponent; 1 bit of mantissa.
    Bfp2 "Bfp2";
    /// 16 elements with a shared 8-bit exponent; 1 bit of mantissa.
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
    /// 32 bits, unconverted.
    RawUInt32 "RawUInt32";
    /// 16 bits, unconverted.
    RawUInt16 "RawUInt16";
    /// 8 bits, unconverted.
    RawUInt8 "RawUInt8";
}

words! {
    /// The operation of a `varinst`.
    Operation, "operation", exact case true;
    /// out = a.
    Set "set";
    /// out = a + b.
    Add "add";
    /// out = a * b.
    Mul "mul";
    /// out = out + a.
    Inc "inc";
    /// out = (out + a) mod b.
    IncWrap "incwrap";
}

impl Operation {
    /// The number of operands.
    pub fn operands(self) -> usize {
        match self {
            Operation::Set | Operation::Inc => 1,
            Operation::Add | Operation::Mul | Operation::IncWrap => 2,
        }
    }
}

words! {
    /// A field of a queue setting.
    SettingKey, "queue setting", exact case true;
    /// Whether data are loaded once, before the first input.
    Prologue "prologue";
    /// Whether data are stored once, after the last input.
    Epilogue "epilogue";
    /// Whether the memory is cleared first.
    Zero "zero";
    /// The read pointer of the consumer.
    RdPtrLocal "rd_ptr_local";
    /// The read pointer of all consumers.
    RdPtrGlobal "rd_ptr_global";
    /// The write pointer of the producer.
    WrPtrGlobal "wr_ptr_global";
    /// The increment of the local pointer.
    RdPtrAutoinc "rd_ptr_autoinc";
    /// The increment of the global read pointer.
    GlobalRdptrAutoinc "global_rdptr_autoinc";
    /// The increment of the global write pointer.
    GlobalWrptrAutoinc "global_wrptr_autoinc";
    /// Whether the setting applies to the reader only.
    ReadOnly "read_only";
}

impl DataFormat {
    /// Whether it is a block format, in which 16 elements share an exponent.
    pub fn is_block(self) -> bool {
        use DataFormat::*;
        matches!(self, Bfp8 | Bfp8B | Bfp4 | Bfp4B | Bfp2 | Bfp2B)
    }

    /// Whether it is a raw format, of bits without a numeric meaning.
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
    fn only_words_with_exact_case_distinguish_upper_and_lower_case() {
        assert_eq!(Arch::from_word("GraySkull"), Some(Arch::Grayskull));
        assert_eq!(DataFormat::from_word("float32"), None);
        assert_eq!(Arch::from_word("wormhole_b"), Some(Arch::WormholeB0));
        assert_eq!(
            Arch::choices(),
            "grayskull, wormhole, wormhole_b0, blackhole"
        );
    }

    #[test]
    fn every_format_parses_from_its_name() {
        for &format in DataFormat::ALL {
            assert_eq!(DataFormat::from_word(format.name()), Some(format));
        }
    }
}
