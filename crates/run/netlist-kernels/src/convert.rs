//! Rounding to data formats (netlist 3.8, 5.6).

use super::attributes::format;
use super::op::{Compute, tensor_kernel};
use super::tensor::{TileTensor, for_each_chunk, map};
use tenon_base::Result;
use tenon_executor::{KernelDef, Site};
use tenon_tile::DataFormat;
use tenon_tile::{
    BLOCK, decode_block, decode_scalar, encode_block, encode_scalar, truncate_to_tf32,
};

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![
        tensor_kernel("netlist.round", 1, bind_round).doc("Rounds each element to the format."),
        tensor_kernel("netlist.tf32", 1, |_| {
            Ok(Box::new(|operands| map(operands[0], truncate_to_tf32)))
        })
        .doc("Truncates mantissas to 10 bits (TF32), as the math unit of wormhole reads Float32."),
    ]
}

fn bind_round(site: &Site<'_>) -> Result<Compute> {
    let format = format(site.attributes(), "format")?;
    Ok(Box::new(move |operands| {
        round_to_format(operands[0], format)
    }))
}

/// The elements, rounded to a format. In block formats sixteen elements of a row share an exponent;
/// tiles are 16 or 32 wide, so that the blocks of a row are contiguous.
pub fn round_to_format(from: &TileTensor, format: DataFormat) -> Result<TileTensor> {
    match format {
        DataFormat::Float32 => return Ok(from.clone()),
        _ if format.is_raw() => return Ok(from.clone()),
        DataFormat::Float16B => return map(from, float16_b),
        DataFormat::Float16 => return map(from, float16),
        _ => {}
    }
    let Some(grid) = BlockGrid::of(format) else {
        return map(from, |value| through_code(format, value));
    };
    let values = from.values();
    TileTensor::build_whole(from.tiles(), from.tile(), |to| {
        for_each_chunk(to, CHUNK, |index, to| {
            let from = &values[index * CHUNK..][..to.len()];
            let (to, to_rest) = to.as_chunks_mut::<BLOCK>();
            let (from, from_rest) = from.as_chunks::<BLOCK>();
            for (to, from) in to.iter_mut().zip(from) {
                *to = grid.rounded(from);
            }
            if !to_rest.is_empty() {
                let mut block = [0.0; BLOCK];
                block[..from_rest.len()].copy_from_slice(from_rest);
                to_rest.copy_from_slice(&grid.rounded(&block)[..to_rest.len()]);
            }
        });
        Ok(())
    })
}

/// Elements of a chunk of a parallel loop: whole blocks.
const CHUNK: usize = 64 * BLOCK;

/// Rounds by encoding and decoding.
fn through_code(format: DataFormat, value: f32) -> f32 {
    let code = encode_scalar(format, value).unwrap_or_default();
    decode_scalar(format, code).unwrap_or(value)
}

/// Truncates to bfloat16: the upper half of the bits.
fn float16_b(value: f32) -> f32 {
    f32::from_bits(value.to_bits() & 0xffff_0000)
}

/// Truncates to ten bits of mantissa; zero below exponent -14, saturated above exponent 16 (netlist 5.1).
fn float16(value: f32) -> f32 {
    let bits = value.to_bits();
    let sign = bits & 0x8000_0000;
    let magnitude = match bits & 0x7fff_ffff {
        small if small < (127 - 14) << 23 => 0,
        large if large >= (127 + 17) << 23 => 0x47ff_e000,
        magnitude => magnitude & 0x7fff_e000,
    };
    f32::from_bits(sign | magnitude)
}

/// A block floating-point format: the values of a block are multiples of a step, which depends on its
/// largest magnitude.
#[derive(Clone, Copy)]
struct BlockGrid {
    format: DataFormat,
    /// Bits of a magnitude.
    bits: u32,
    /// The least and the greatest nonzero magnitude, as the bits of an f32.
    limits: [u32; 2],
    /// The biased exponents of a block's largest magnitude for which the arithmetic is exact; blocks
    /// with another are encoded and decoded.
    exact: [u32; 2],
}

impl BlockGrid {
    fn of(format: DataFormat) -> Option<Self> {
        use DataFormat::{Bfp2, Bfp2B, Bfp4, Bfp4B, Bfp8, Bfp8B};
        let bits = match format {
            Bfp8 | Bfp8B => 7,
            Bfp4 | Bfp4B => 3,
            Bfp2 | Bfp2B => 1,
            _ => return None,
        };
        // Exponents of five bits: from 2^-15 to just below 2^17 (netlist 5.2).
        let has_five_bits = matches!(format, Bfp8 | Bfp4 | Bfp2);
        let limits = if has_five_bits {
            [(127 - 15) << 23, ((127 + 17) << 23) - 1]
        } else {
            [0, u32::MAX]
        };
        Some(Self {
            format,
            bits,
            limits,
            exact: [32, 254],
        })
    }

    /// Each value rounded to the nearest multiple of the step, halves away from zero.
    fn rounded(&self, values: &[f32; BLOCK]) -> [f32; BLOCK] {
        let [least, greatest] = self.limits;
        let magnitude = |value: &f32| match value.to_bits() & 0x7fff_ffff {
            0 => 0,
            bits => bits.clamp(least, greatest),
        };
        let largest = values.iter().map(magnitude).fold(0, u32::max);
        let exponent = (largest >> 23).max(least >> 23);
        if !(self.exact[0]..self.exact[1]).contains(&exponent) {
            return self.encoded(values);
        }
        // The step is 2^(exponent - bits + 1); it and its inverse are normal.
        let step = f32::from_bits((exponent - (self.bits - 1)) << 23);
        let inverse_step = f32::from_bits((254 - exponent + (self.bits - 1)) << 23);
        let most = ((1u32 << self.bits) - 1) as f32;
        values.map(|value| {
            let exact = f32::from_bits(magnitude(&value)) * inverse_step;
            let whole = exact as i32 as f32;
            let nearest = whole + if exact - whole >= 0.5 { 1.0 } else { 0.0 };
            let rounded = nearest.min(most) * step;
            if rounded == 0.0 {
                0.0
            } else {
                rounded.copysign(value)
            }
        })
    }

    /// The values after encoding and decoding.
    fn encoded(&self, values: &[f32; BLOCK]) -> [f32; BLOCK] {
        let coded = encode_block(self.format, values);
        let back = coded.and_then(|(shared, codes)| decode_block(self.format, shared, &codes));
        back.unwrap_or(*values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[f32]) -> TileTensor {
        TileTensor::build([1, 1, 1], [1, 32], |to| {
            to[..values.len()].copy_from_slice(values);
            Ok(())
        })
        .unwrap()
    }

    /// Blocks of values of every exponent, each with larger and smaller ones.
    fn blocks() -> impl Iterator<Item = [f32; BLOCK]> {
        let mut state = 1u32;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        (0..40_000u32).map(move |round| {
            std::array::from_fn(|_| {
                let near = (round % 256).saturating_sub(next() % 10) << 23;
                let bits = next() & 0x807f_ffff | near;
                // Including halves of steps, zeros, denormals, infinities and NaN.
                f32::from_bits(match next() % 8 {
                    0 => bits & 0xfff8_0000,
                    1 => bits & 0xffff_0000,
                    2 if round % 5 == 0 => 0,
                    _ => bits,
                })
            })
        })
    }

    /// The encoding of the formats is the reference.
    #[test]
    fn rounding_by_arithmetic_equals_encoding_and_decoding() {
        use DataFormat::{Bfp2, Bfp2B, Bfp4, Bfp4B, Bfp8, Bfp8B};
        let equal = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        for format in [Bfp8, Bfp8B, Bfp4, Bfp4B, Bfp2, Bfp2B] {
            let grid = BlockGrid::of(format).unwrap();
            for block in blocks() {
                let (rounded, expected) = (grid.rounded(&block), grid.encoded(&block));
                let same = rounded.iter().zip(expected).all(|(a, b)| equal(*a, b));
                assert!(
                    same,
                    "{format}: {block:?}\nrounded {rounded:?}\nexpected {expected:?}"
                );
            }
        }
        for value in blocks().flatten() {
            let same = |rounded, format| equal(rounded, through_code(format, value));
            assert!(same(float16_b(value), DataFormat::Float16B), "{value:e}");
            assert!(same(float16(value), DataFormat::Float16), "{value:e}");
        }
    }

    /// The published vectors (netlist 5.1, 5.2).
    #[test]
    fn each_format_has_the_published_vectors() {
        let values = [100.0, 1.0, -0.5, 0.3, 3.999, 7.0, 2.5, 1.5, -3.5, 64.4];
        let vectors: [(DataFormat, [f32; 10]); 4] = [
            (
                DataFormat::Bfp8B,
                [100.0, 1.0, -1.0, 0.0, 4.0, 7.0, 3.0, 2.0, -4.0, 64.0],
            ),
            (
                DataFormat::Bfp8,
                [100.0, 1.0, -1.0, 0.0, 4.0, 7.0, 3.0, 2.0, -4.0, 64.0],
            ),
            (
                DataFormat::Int8,
                [100.0, 1.0, -1.0, 0.0, 4.0, 7.0, 3.0, 2.0, -4.0, 64.0],
            ),
            (DataFormat::Float32, values),
        ];
        for (format, expected) in vectors {
            let rounded = round_to_format(&row(&values), format).unwrap();
            assert_eq!(rounded.values()[..10], expected, "{format}");
        }
        let half = round_to_format(&row(&[70000.0, 131072.0, 3e-5]), DataFormat::Float16).unwrap();
        assert_eq!(half.values()[..3], [69952.0, 131008.0, 0.0]);
    }

    /// The second block of a row has a separate exponent.
    #[test]
    fn sixteen_share_an_exponent() {
        let mut values = [0.0; 32];
        (values[0], values[1], values[16]) = (100.0, 0.3, 0.3);
        let rounded = round_to_format(&row(&values), DataFormat::Bfp8B).unwrap();
        assert_eq!(rounded.values()[1], 0.0);
        assert!((rounded.values()[16] - 0.3).abs() < 0.002);
    }
}
