//! The numbers of element types: two numberings are in use (facts, neuron.md 1.2).

use crate::models::flag;
use DataType::*;
use std::sync::atomic::{AtomicBool, Ordering};
use tenon_base::Result;
use tenon_tensor::DataType;

/// Which numbering a caller was compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// That of the headers until January 2026.
    Old,
    /// That of the headers since, and of ours.
    New,
}

/// `NRT_DTYPE_UNKNOWN`, in both: wider floats, complex numbers, halves of bytes, text.
const UNKNOWN: u32 = 0;

/// The types that each number from 1 on stands for. Truth values are bytes, and floats of 8 bits
/// are shown as such, too.
const OLD: [&[DataType]; 11] = [
    &[F32, F32r, Tf32],
    &[F16],
    &[BF16],
    &[I8, F8E3M4, F8E4M3, F8E4M3Fn, F8E4M3FnUz, F8E5M2, F8E5M2FnUz],
    &[U8, Bool],
    &[I16],
    &[U16],
    &[I32],
    &[U32],
    &[I64],
    &[U64],
];

/// The same of the new numbering.
const NEW: [&[DataType]; 15] = [
    &[U64],
    &[I8],
    &[U8, Bool],
    &[I16],
    &[U16],
    &[BF16],
    &[F16],
    &[I32],
    &[U32],
    &[F32, Tf32],
    &[F32r],
    &[I64],
    &[F8E3M4],
    &[F8E4M3, F8E4M3Fn, F8E4M3FnUz],
    &[F8E5M2, F8E5M2FnUz],
];

/// Whether `TENON_NRT_OLD_DTYPES` is set.
static OLD_BY_ENVIRONMENT: AtomicBool = AtomicBool::new(false);

/// Reads the environment, when the runtime starts.
pub(crate) fn set_by_environment() -> Result<()> {
    OLD_BY_ENVIRONMENT.store(flag("TENON_NRT_OLD_DTYPES")?, Ordering::Relaxed);
    Ok(())
}

impl Numbering {
    /// That of callers of functions that both have: `TENON_NRT_OLD_DTYPES` chooses the old one.
    pub fn of_caller() -> Self {
        match OLD_BY_ENVIRONMENT.load(Ordering::Relaxed) {
            true => Self::Old,
            false => Self::New,
        }
    }

    fn table(self) -> &'static [&'static [DataType]] {
        match self {
            Self::Old => &OLD,
            Self::New => &NEW,
        }
    }

    /// The number of a type; unknown where it has none.
    pub fn number(self, dtype: DataType) -> u32 {
        let mut table = (1..).zip(self.table());
        let found = table.find(|(_, types)| types.contains(&dtype));
        found.map_or(UNKNOWN, |(number, _)| number)
    }

    /// Whether a number means a type.
    pub fn has(self, number: u32) -> bool {
        (1..=self.table().len() as u32).contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_numberings_are_those_of_the_facts() {
        // Facts, neuron.md 1.2, in the order of the numbers.
        let old = [F32, F16, BF16, I8, U8, I16, U16, I32, U32, I64, U64];
        let new = [
            U64, I8, U8, I16, U16, BF16, F16, I32, U32, F32, F32r, I64, F8E3M4, F8E4M3, F8E5M2,
        ];
        for (numbering, types) in [(Numbering::Old, &old[..]), (Numbering::New, &new[..])] {
            for (index, &dtype) in types.iter().enumerate() {
                let number = index as u32 + 1;
                assert_eq!(numbering.number(dtype), number, "{dtype}");
                assert!(numbering.has(number));
            }
            assert!(!numbering.has(0) && !numbering.has(types.len() as u32 + 1));
            assert_eq!(numbering.number(F64), 0);
        }
        assert_eq!(Numbering::Old.number(F8E4M3), 4);
    }
}
