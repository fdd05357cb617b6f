//! The border between Rust and the C interface of backends: values of one side as those of the
//! other. What comes in is checked and copied; what goes out is borrowed.

mod graph_in;
mod incoming;
mod outgoing;
mod views_in;
mod views_out;

pub(crate) use graph_in::graph;
pub(crate) use incoming::{
    Keep, NodeIn, array, bytes, error_of, invalid, named_value, node, option, records, refusal_of,
    structure, tensor, text,
};
pub(crate) use outgoing::{Outgoing, named_values, outcome_of, outcome_of_refusal};
pub(crate) use views_in::views;
pub(crate) use views_out::ViewsOut;

use tenon_backend_abi as abi;
use tenon_tensor::DataType;

/// The number of a data type in the header.
pub(crate) fn dtype_code(dtype: DataType) -> i32 {
    let position = DataType::ALL.iter().position(|known| *known == dtype);
    position.map_or(0, |position| position as i32 + 1)
}

/// The data type of a number in the header.
pub(crate) fn dtype_of(code: i32) -> Option<DataType> {
    let index = usize::try_from(code).ok()?.checked_sub(1)?;
    DataType::ALL.get(index).copied()
}

/// The number of a CPU level in the header.
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
    fn data_types_have_the_numbers_of_the_header() {
        let names: Vec<&str> = DataType::ALL.iter().map(|dtype| dtype.name()).collect();
        assert_eq!(names, abi::TYPES);
        for &dtype in DataType::ALL {
            assert_eq!(dtype_of(dtype_code(dtype)), Some(dtype));
        }
        assert_eq!(
            (dtype_of(0), dtype_of(27), dtype_of(-1)),
            (None, None, None)
        );
    }
}
