//! Marshalling between Rust values and the structs of the C interface of backends. Values from C
//! are checked and copied; values to C are borrowed for the call.

mod from_c;
mod graph_from_c;
mod to_c;
mod views_from_c;
mod views_to_c;

pub(crate) use from_c::{
    ImportedNode, Ownership, array, bytes, error_of, invalid, named_value, node, option, parts,
    records, refusal_of, structure, take_failure, tensor, text,
};
pub(crate) use graph_from_c::graph;
pub(crate) use to_c::{CallArena, named_values, outcome_of, outcome_of_refusal, status_of};
pub(crate) use views_from_c::views;
pub(crate) use views_to_c::ExportedViews;

use tenon_backend_abi as abi;
use tenon_tensor::DataType;

/// The code of a data type in the header.
pub(crate) fn dtype_code(dtype: DataType) -> i32 {
    let position = DataType::ALL.iter().position(|known| *known == dtype);
    position.map_or(0, |position| position as i32 + 1)
}

/// The data type of a code in the header.
pub(crate) fn dtype_of(code: i32) -> Option<DataType> {
    let index = usize::try_from(code).ok()?.checked_sub(1)?;
    DataType::ALL.get(index).copied()
}

/// The code of a CPU level in the header.
pub(crate) fn cpu_code(cpu: crate::CpuLevel) -> i32 {
    match cpu {
        crate::CpuLevel::Baseline => abi::cpu::BASELINE,
        crate::CpuLevel::Avx2 => abi::cpu::AVX2,
        crate::CpuLevel::Avx512 => abi::cpu::AVX512,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_types_have_the_codes_of_the_header() {
        let names: Vec<&str> = DataType::ALL.iter().map(|dtype| dtype.name()).collect();
        assert_eq!(names, abi::TYPES);
        for &dtype in DataType::ALL {
            assert_eq!(dtype_of(dtype_code(dtype)), Some(dtype));
        }
        assert_eq!(
            (dtype_of(0), dtype_of(31), dtype_of(-1)),
            (None, None, None)
        );
    }
}
