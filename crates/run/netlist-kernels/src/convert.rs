//! Rounding to formats and accumulating (facts 3.8, 5).

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
        tensor_kernel(
            "netlist.round",
            1,
            "Rounds each element to what the format can hold.",
            bind_round,
        ),
        tensor_kernel(
            "netlist.tf32",
            1,
            "Cuts mantissas to 10 bits, as wormhole's math unit takes Float32.",
            |_| Ok(Box::new(|operands| map(operands[0], truncate_to_tf32))),
        ),
    ]
}

fn bind_round(site: &Site<'_>) -> Result<Compute> {
    let format = format(site.attributes(), "format")?;
    Ok(Box::new(move |operands| {
        round_to_format(operands[0], format)
    }))
}

/// The elements as a format holds them. Sixteen elements of a row share an exponent in block
/// formats: tiles are 16 or 32 wide, so that blocks follow each other along a row.
pub fn round_to_format(from: &TileTensor, format: DataFormat) -> Result<TileTensor> {
    match format {
        DataFormat::Float32 => return Ok(from.clone()),
        _ if format.is_raw() => return Ok(from.clone()),
        DataFormat::Float16B => return map(from, float16_b),
        DataFormat::Float16 => return map(from, float16),
        _ => {}
    }
    let Some(grid) = Grid::of(format) else {
        return map(from, |value| plainly(format, value));
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

/// Elements that one thread takes at a time, whole blocks.
const CHUNK: usize = 64 * BLOCK;

/// By its code.
fn plainly(format: DataFormat, value: f32) -> f32 {
    let code = encode_scalar(format, value).unwrap_or_default();
    decode_scalar(format, code).unwrap_or(value)
}

/// The upper half of the bits.
fn float16_b(value: f32) -> f32 {
    f32::from_bits(value.to_bits() & 0xffff_0000)
}

/// Ten bits of mantissa; zero below an exponent of -14, the largest above one of 16 (facts 5.1).
fn float16(value: f32) -> f32 {
    let bits = value.to_bits();
    let sign = bits & 0x8000_0000;
    let kept = match bits & 0x7fff_ffff {
        small if small < (127 - 14) << 23 => 0,
        large if large >= (127 + 17) << 23 => 0x47ff_e000,
        magnitude => magnitude & 0x7fff_e000,
    };
    f32::from_bits(sign | kept)
}

/// The numbers that a block format holds beside the largest of a block: multiples of a step.
#[derive(Clone, Copy)]
struct Grid {
    format: DataFormat,
    /// Bits of a magnitude.
    bits: u32,
    /// The least and the greatest magnitude that is not zero, as the bits of a float.
    limits: [u32; 2],
    /// Exponents of a block's largest, as floats have them, for which arithmetic is exact; others
    /// are encoded and decoded.
    exact: [u32; 2],
}

impl Grid {
    fn of(format: DataFormat) -> Option<Self> {
        use DataFormat::{Bfp2, Bfp2B, Bfp4, Bfp4B, Bfp8, Bfp8B};
        let bits = match format {
            Bfp8 | Bfp8B => 7,
            Bfp4 | Bfp4B => 3,
            Bfp2 | Bfp2B => 1,
            _ => return None,
        };
        // Exponents of five bits: 2 to the -15 to just below 2 to the 17 (facts 5.2).
        let narrow = matches!(format, Bfp8 | Bfp4 | Bfp2);
        let limits = match narrow {
            true => [(127 - 15) << 23, ((127 + 17) << 23) - 1],
            false => [0, u32::MAX],
        };
        Some(Self {
            format,
            bits,
            limits,
            exact: [32, 254],
        })
    }

    /// Each to the nearest multiple of the step, halves away from zero.
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
        // The step is 2 to the (exponent - bits + 1); both powers are normal numbers.
        let step = f32::from_bits((exponent - (self.bits - 1)) << 23);
        let steps = f32::from_bits((254 - exponent + (self.bits - 1)) << 23);
        let most = ((1u32 << self.bits) - 1) as f32;
        values.map(|value| {
            let exact = f32::from_bits(magnitude(&value)) * steps;
            let whole = exact as i32 as f32;
            let nearest = whole + if exact - whole >= 0.5 { 1.0 } else { 0.0 };
            let rounded = nearest.min(most) * step;
            match rounded == 0.0 {
                true => 0.0,
                false => rounded.copysign(value),
            }
        })
    }

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

    /// Numbers of every exponent, beside larger and smaller ones.
    fn spread() -> impl Iterator<Item = [f32; BLOCK]> {
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
                // Halves of steps, zeros, denormals and what is no number among them.
                f32::from_bits(match next() % 8 {
                    0 => bits & 0xfff8_0000,
                    1 => bits & 0xffff_0000,
                    2 if round % 5 == 0 => 0,
                    _ => bits,
                })
            })
        })
    }

    /// What is rounded by arithmetic is what the code says: the formats' own encoding is the
    /// reference.
    #[test]
    fn rounding_by_arithmetic_is_encoding_and_decoding() {
        use DataFormat::{Bfp2, Bfp2B, Bfp4, Bfp4B, Bfp8, Bfp8B};
        let alike = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        for format in [Bfp8, Bfp8B, Bfp4, Bfp4B, Bfp2, Bfp2B] {
            let grid = Grid::of(format).unwrap();
            for block in spread() {
                let (made, wanted) = (grid.rounded(&block), grid.encoded(&block));
                let same = made.iter().zip(wanted).all(|(a, b)| alike(*a, b));
                assert!(
                    same,
                    "{format}: {block:?}\nmade {made:?}\nwanted {wanted:?}"
                );
            }
        }
        for value in spread().flatten() {
            let same = |made, format| alike(made, plainly(format, value));
            assert!(same(float16_b(value), DataFormat::Float16B), "{value:e}");
            assert!(same(float16(value), DataFormat::Float16), "{value:e}");
        }
    }

    /// The vectors of facts 5.1 and 5.2.
    #[test]
    fn each_format_rounds_as_the_facts_say() {
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
        for (format, wanted) in vectors {
            let made = round_to_format(&row(&values), format).unwrap();
            assert_eq!(made.values()[..10], wanted, "{format}");
        }
        let half = round_to_format(&row(&[70000.0, 131072.0, 3e-5]), DataFormat::Float16).unwrap();
        assert_eq!(half.values()[..3], [69952.0, 131008.0, 0.0]);
    }

    /// The second block of a row has an exponent of its own.
    #[test]
    fn sixteen_share_an_exponent() {
        let mut values = [0.0; 32];
        (values[0], values[1], values[16]) = (100.0, 0.3, 0.3);
        let made = round_to_format(&row(&values), DataFormat::Bfp8B).unwrap();
        assert_eq!(made.values()[1], 0.0);
        assert!((made.values()[16] - 0.3).abs() < 0.002);
    }
}
