//! Rounding to the formats of a netlist, as in the golden model of the original (netlist 5.6).

use crate::bands::in_bands;
use crate::tensor::Tensor;
use tenon_netlist::{Arch, DataFormat};
use tenon_tile::{
    BLOCK, decode_block, decode_scalar, encode_block, encode_scalar, truncate_to_tf32,
};

/// The cost of rounding an element, in additions.
const STEPS: usize = 8;

/// Rounds every element to a format: encodes and decodes it.
pub fn round(mut tensor: Tensor, format: DataFormat) -> Tensor {
    if format.is_block() {
        // Blocks of 16 elements of a row share an exponent; rows are multiples of a block.
        in_bands(&mut tensor, STEPS, |_, band| {
            for block in band.chunks_exact_mut(BLOCK) {
                let values: [f32; BLOCK] = std::array::from_fn(|index| block[index]);
                let coded = encode_block(format, &values);
                let back = coded.and_then(|(shared, codes)| decode_block(format, shared, &codes));
                block.copy_from_slice(&back.unwrap_or(values));
            }
        });
        return tensor;
    }
    if matches!(format, DataFormat::Float32) {
        return tensor;
    }
    tensor.map(STEPS, |value| {
        let code = encode_scalar(format, value);
        code.and_then(|code| decode_scalar(format, code))
            .unwrap_or(value)
    })
}

/// Whether inputs and outputs of ops in this format are rounded.
fn is_narrow(format: DataFormat) -> bool {
    use DataFormat::{Bfp2, Bfp2B, Bfp4, Bfp4B};
    matches!(format, Bfp2 | Bfp2B | Bfp4 | Bfp4B)
}

/// Whether reading an input of a declared format rounds it.
pub fn is_rounded(format: DataFormat, arch: Arch) -> bool {
    let truncates = matches!(arch, Arch::Wormhole | Arch::WormholeB0);
    is_narrow(format) || format == DataFormat::Float32 && truncates
}

/// Rounds an input of a declared format as the op reads it.
pub fn round_input(tensor: Tensor, format: DataFormat, arch: Arch) -> Tensor {
    match format {
        _ if !is_rounded(format, arch) => tensor,
        DataFormat::Float32 => tensor.map(1, truncate_to_tf32),
        _ => round(tensor, format),
    }
}

/// Rounds an output of a declared format as the op writes it.
pub fn round_output(tensor: Tensor, format: DataFormat) -> Tensor {
    if is_narrow(format) {
        round(tensor, format)
    } else {
        to_integers(tensor, format)
    }
}

/// Rounds an output of an integer format to integers.
pub fn to_integers(tensor: Tensor, format: DataFormat) -> Tensor {
    match format {
        DataFormat::Int8 => tensor.map(1, int8),
        DataFormat::Int32 => tensor.map(1, int32),
        _ => tensor,
    }
}

/// The nearest Int8; ties away from zero.
pub fn int8(value: f32) -> f32 {
    value.round().clamp(-127.0, 127.0)
}

/// The nearest Int32.
pub fn int32(value: f32) -> f32 {
    value.round().clamp(-2_147_483_647.0, 2_147_483_647.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_narrow_blocks_and_tf32_are_rounded_when_read() {
        let read = |format, arch| {
            let tensor = Tensor::from_fn(1, 1, 1, |_, _, _| 0.1).unwrap();
            round_input(tensor, format, arch).values[0]
        };
        assert_eq!(read(DataFormat::Float16B, Arch::WormholeB0), 0.1);
        let tf32 = read(DataFormat::Float32, Arch::WormholeB0);
        assert_eq!(tf32.to_bits(), 0.1f32.to_bits() & 0xffff_e000);
        assert_eq!(read(DataFormat::Float32, Arch::Blackhole), 0.1);
        // 0.1 is 1.6 * 2^-4, that is 6.4 quarters of 2^-4, truncated to 6.
        assert_eq!(read(DataFormat::Bfp4B, Arch::Grayskull), 0.09375);
    }

    #[test]
    fn integers_are_rounded_and_clamped() {
        assert_eq!([int8(2.5), int8(-2.5), int8(900.0)], [3.0, -3.0, 127.0]);
        assert_eq!(int32(-3e9), -2_147_483_647.0);
    }
}
