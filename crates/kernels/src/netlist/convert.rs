//! Rounding to formats and accumulating (facts 3.8, 5).

use super::attributes::format;
use super::op::{Compute, tensor_kernel};
use super::tensor::{TileTensor, for_each_chunk, map};
use tenon_base::Result;
use tenon_executor::{KernelDef, Site};
use tenon_netlist::DataFormat;
use tenon_netlist::data::{BLOCK, decode, decode_block, encode, encode_block, tf32};

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
            |_| Ok(Box::new(|operands| map(operands[0], tf32))),
        ),
    ]
}

fn bind_round(site: &Site<'_>) -> Result<Compute> {
    let format = format(site.attributes(), "format")?;
    Ok(Box::new(move |operands| rounded(operands[0], format)))
}

/// The elements as a format holds them. Sixteen elements of a row share an exponent in block
/// formats: tiles are 16 or 32 wide, so that blocks follow each other along a row.
pub fn rounded(from: &TileTensor, format: DataFormat) -> Result<TileTensor> {
    if format == DataFormat::Float32 || format.is_raw() {
        return Ok(from.clone());
    }
    if !format.is_block() {
        let scalar = |value: f32| {
            let code = encode(format, value).unwrap_or_default();
            decode(format, code).unwrap_or(value)
        };
        return map(from, scalar);
    }
    let values = from.values();
    TileTensor::build(from.tiles(), from.tile(), |to| {
        for_each_chunk(to, BLOCK, |index, to| {
            let mut block = [0.0; BLOCK];
            let from = &values[index * BLOCK..][..to.len()];
            block[..from.len()].copy_from_slice(from);
            let rounded = encode_block(format, &block)
                .and_then(|(shared, codes)| decode_block(format, shared, &codes));
            if let Some(rounded) = rounded {
                to.copy_from_slice(&rounded[..to.len()]);
            }
        });
        Ok(())
    })
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
            let made = rounded(&row(&values), format).unwrap();
            assert_eq!(made.values()[..10], wanted, "{format}");
        }
        let half = rounded(&row(&[70000.0, 131072.0, 3e-5]), DataFormat::Float16).unwrap();
        assert_eq!(half.values()[..3], [69952.0, 131008.0, 0.0]);
    }

    /// The second block of a row has an exponent of its own.
    #[test]
    fn sixteen_share_an_exponent() {
        let mut values = [0.0; 32];
        (values[0], values[1], values[16]) = (100.0, 0.3, 0.3);
        let made = rounded(&row(&values), DataFormat::Bfp8B).unwrap();
        assert_eq!(made.values()[1], 0.0);
        assert!((made.values()[16] - 0.3).abs() < 0.002);
    }
}
