//! The numbers of element types: two numberings are in use (facts, neuron.md 1.2).

use std::sync::OnceLock;
use tenon_tensor::DataType;

/// Which numbering a caller was compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// That of the headers until January 2026, and of ours unless told otherwise.
    First,
    /// That of the headers since.
    Second,
}

/// `NRT_DTYPE_UNKNOWN`, in both.
const UNKNOWN: u32 = 0;

impl Numbering {
    /// What `TENON_NRT_NEW_DTYPES` says, for callers that were compiled with other headers.
    pub fn of_environment() -> Self {
        static KNOWN: OnceLock<Numbering> = OnceLock::new();
        *KNOWN.get_or_init(|| match std::env::var("TENON_NRT_NEW_DTYPES").as_deref() {
            Ok("" | "0") | Err(_) => Self::First,
            Ok(_) => Self::Second,
        })
    }

    /// The number of a type; unknown where it has none. Truth values are bytes, and the first
    /// numbering shows floats of 8 bits as such, too.
    pub fn number(self, dtype: DataType) -> u32 {
        use DataType::*;
        match (self, dtype) {
            (Self::First, F32 | F32r | Tf32) => 1,
            (Self::First, F16) => 2,
            (Self::First, BF16) => 3,
            (Self::First, I8 | F8E3M4 | F8E4M3 | F8E4M3Fn | F8E4M3FnUz | F8E5M2 | F8E5M2FnUz) => 4,
            (Self::First, U8 | Bool) => 5,
            (Self::First, I16) => 6,
            (Self::First, U16) => 7,
            (Self::First, I32) => 8,
            (Self::First, U32) => 9,
            (Self::First, I64) => 10,
            (Self::First, U64) => 11,
            (Self::Second, U64) => 1,
            (Self::Second, I8) => 2,
            (Self::Second, U8 | Bool) => 3,
            (Self::Second, I16) => 4,
            (Self::Second, U16) => 5,
            (Self::Second, BF16) => 6,
            (Self::Second, F16) => 7,
            (Self::Second, I32) => 8,
            (Self::Second, U32) => 9,
            (Self::Second, F32 | Tf32) => 10,
            (Self::Second, F32r) => 11,
            (Self::Second, I64) => 12,
            (Self::Second, F8E3M4) => 13,
            (Self::Second, F8E4M3 | F8E4M3Fn | F8E4M3FnUz) => 14,
            (Self::Second, F8E5M2 | F8E5M2FnUz) => 15,
            // Wider floats, complex numbers, halves of bytes, text.
            _ => UNKNOWN,
        }
    }

    /// Whether a number means a type.
    pub fn has(self, number: u32) -> bool {
        let last = match self {
            Self::First => 11,
            Self::Second => 15,
        };
        (1..=last).contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_numberings_are_those_of_the_facts() {
        use DataType::*;
        // Facts, neuron.md 1.2, in the order of the numbers.
        let first = [F32, F16, BF16, I8, U8, I16, U16, I32, U32, I64, U64];
        let second = [
            U64, I8, U8, I16, U16, BF16, F16, I32, U32, F32, F32r, I64, F8E3M4, F8E4M3, F8E5M2,
        ];
        for (numbering, types) in [
            (Numbering::First, &first[..]),
            (Numbering::Second, &second[..]),
        ] {
            for (index, &dtype) in types.iter().enumerate() {
                let number = index as u32 + 1;
                assert_eq!(numbering.number(dtype), number, "{dtype}");
                assert!(numbering.has(number));
            }
            assert!(!numbering.has(0) && !numbering.has(types.len() as u32 + 1));
            assert_eq!(numbering.number(F64), 0);
        }
        assert_eq!(Numbering::First.number(F8E4M3), 4);
    }
}
