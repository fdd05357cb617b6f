//! The two numberings of element types in the C interface (nrt 1.2).

use crate::models::flag;
use DataType::*;
use std::sync::atomic::{AtomicBool, Ordering};
use tenon_base::Result;
use tenon_tensor::DataType;

/// The numbering that a caller was compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// The numbering of headers until January 2026.
    Old,
    /// The numbering of later headers and of Tenon's.
    New,
}

/// `NRT_DTYPE_UNKNOWN` in both: 64-bit floats, complex numbers, types of 2 and 4 bits, exponents of 8 bits, strings.
const UNKNOWN: u32 = 0;

/// The types of each number from 1 on. Booleans and 8-bit floats are reported as bytes.
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

/// The types of each number in the new numbering.
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
    /// The numbering for functions that both headers have: `TENON_NRT_OLD_DTYPES` selects the old one.
    pub fn of_caller() -> Self {
        if OLD_BY_ENVIRONMENT.load(Ordering::Relaxed) {
            Self::Old
        } else {
            Self::New
        }
    }

    fn table(self) -> &'static [&'static [DataType]] {
        match self {
            Self::Old => &OLD,
            Self::New => &NEW,
        }
    }

    /// The number of a type; [`UNKNOWN`] if it has none.
    pub fn number(self, dtype: DataType) -> u32 {
        let mut table = (1..).zip(self.table());
        let found = table.find(|(_, types)| types.contains(&dtype));
        found.map_or(UNKNOWN, |(number, _)| number)
    }

    /// Whether a number denotes a type.
    pub fn has(self, number: u32) -> bool {
        (1..=self.table().len() as u32).contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numberings_match_the_published_headers() {
        // nrt 1.2, in ascending order.
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
