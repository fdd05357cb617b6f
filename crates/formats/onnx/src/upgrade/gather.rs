//! `GatherBlockQuantized` of `com.microsoft`: rows of a quantized table. Gather of its integers, of the scales and of the zero
//! points of their blocks, then DequantizeLinear of these alone. See
//! <https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatherBlockQuantized>.
//!
//! An index out of the bounds is an error; the result of onnxruntime has zeros there.

use super::microsoft::{constant, operand, renamed};
use super::packed::PackedRows;
use crate::attribute::place;
use crate::draft::{Draft, DraftNode};
use crate::import::invalid;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{Attribute, Attributes};
use tenon_tensor::{DataType, Tensor};

/// The inputs.
const DATA: usize = 0;
const INDICES: usize = 1;
const SCALES: usize = 2;
const ZERO_POINTS: usize = 3;

/// GatherBlockQuantized.
pub(super) fn gather(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    let table = Table::of(draft, &node)?;
    let rank = table.integers.shape().len();
    let quantize_axis = axis(&node, "quantize_axis", 1, rank)?;
    let gather_axis = axis(&node, "gather_axis", 0, rank)?;
    let block = node.attributes.int("block_size", 128)?;
    if block <= 0 {
        return Err(invalid("attribute 'block_size' is not positive").found(block));
    }
    let mut shape = table.integers.shape().to_vec();
    shape[quantize_axis] = shape[quantize_axis].div_ceil(block as usize);
    for (name, tensor) in table.parameters() {
        if tensor.shape().to_vec() != shape {
            return Err(invalid(format!("input '{name}' has the wrong shape"))
                .expected(format_args!("{shape:?}"))
                .found(tensor.shape()));
        }
    }
    let indices = operand(&node, INDICES);
    let along = |axis: i64| Attributes::new().with("axis", Attribute::Int(axis));
    let mut parts = vec![("data", table.integers.clone())];
    parts.extend(table.parameters());
    let parts: Vec<_> = parts
        .into_iter()
        .map(|(name, tensor)| Some(draft.constant_for(&node, name, tensor)))
        .collect();
    let block = Attribute::Int(block);
    if gather_axis == quantize_axis {
        let blocks = along(quantize_axis as i64).with("block_size", block);
        let wide = draft.step(&node, "DequantizeLinear", blocks, &parts);
        let inputs = vec![Some(wide), indices];
        return Ok(renamed(node, "Gather", along(gather_axis as i64), inputs));
    }
    // The dimensions of the indices replace the axis: those behind it are counted from the end.
    let from_end = if quantize_axis > gather_axis { rank } else { 0 };
    let blocks = along(quantize_axis as i64 - from_end as i64).with("block_size", block);
    let rows = parts
        .iter()
        .map(|&part| {
            let along = along(gather_axis as i64);
            Some(draft.step(&node, "Gather", along, &[part, indices]))
        })
        .collect();
    Ok(renamed(node, "DequantizeLinear", blocks, rows))
}

/// A table of integers with the parameters of its blocks.
struct Table {
    integers: Tensor,
    scales: Tensor,
    zeros: Option<Tensor>,
}

impl Table {
    fn of(draft: &Draft, node: &DraftNode) -> Result<Self> {
        let data = constant(draft, node, DATA, "data")?;
        let scales = constant(draft, node, SCALES, "scales")?.clone();
        let zeros = match operand(node, ZERO_POINTS) {
            None => None,
            Some(_) => Some(constant(draft, node, ZERO_POINTS, "zero_points")?),
        };
        if let Some(zeros) = zeros.filter(|zeros| zeros.dtype() != data.dtype()) {
            return Err(invalid("input 'zero_points' has the wrong type")
                .expected(data.dtype())
                .found(zeros.dtype()));
        }
        let bits = node.attributes.int("bits", 4)?;
        match data.dtype() {
            DataType::I4 | DataType::U4 if bits == 4 => Ok(Self {
                integers: data.clone(),
                scales,
                zeros: zeros.cloned(),
            }),
            DataType::U8 if matches!(bits, 2 | 4 | 8) => {
                Self::packed(data, scales, zeros, bits as usize)
            }
            DataType::I4 | DataType::U4 | DataType::U8 => {
                let text = format!("{bits} for data of type {}", data.dtype());
                Err(Error::new(ErrorKind::Unsupported, text).at(place("bits")))
            }
            found => {
                let text = format!("input 'data' of type {found} (supported: i4, u4, u8)");
                Err(Error::new(ErrorKind::Unsupported, text))
            }
        }
    }

    /// Of integers that are packed along the last dimension.
    fn packed(data: &Tensor, scales: Tensor, zeros: Option<&Tensor>, bits: usize) -> Result<Self> {
        let integers = |from: &Tensor, count: Option<usize>, is_signed: bool| -> Result<Tensor> {
            let mut shape = from.shape().to_vec();
            let Some(last) = shape.last_mut() else {
                return Err(invalid("input 'data' is a scalar"));
            };
            let stride = *last;
            *last = count.unwrap_or(stride.saturating_mul(8 / bits));
            let rows = PackedRows {
                rows: (from.shape().iter().rev().skip(1))
                    .fold(1, |rows: usize, &extent| rows.saturating_mul(extent)),
                stride,
                count: *last,
                bits,
            };
            rows.integers(from.bytes(), is_signed)?.reshaped(shape)
        };
        let zeros = match zeros {
            None => None,
            Some(zeros) => {
                let blocks = scales.shape().last().copied().unwrap_or(1);
                let mut expected = scales.shape().to_vec();
                if let Some(last) = expected.last_mut() {
                    *last = blocks.saturating_mul(bits).div_ceil(8);
                }
                if zeros.shape().to_vec() != expected {
                    return Err(invalid("input 'zero_points' has the wrong shape")
                        .expected(format_args!("{expected:?}"))
                        .found(zeros.shape()));
                }
                Some(integers(zeros, Some(blocks), false)?)
            }
        };
        Ok(Self {
            // Without zero points they are half of the range: the integers are signed.
            integers: integers(data, None, zeros.is_none())?,
            scales,
            zeros,
        })
    }

    /// The parameters with the names of their inputs.
    fn parameters(&self) -> impl Iterator<Item = (&'static str, Tensor)> {
        let scales = [("scales", self.scales.clone())].into_iter();
        let zeros = self.zeros.clone();
        scales.chain(zeros.map(|zeros| ("zero_points", zeros)))
    }
}

/// An attribute that is a dimension of a tensor of `rank` dimensions; negative ones count from the end.
fn axis(node: &DraftNode, name: &str, default: i64, rank: usize) -> Result<usize> {
    let found = node.attributes.int(name, default)?;
    let axis = if found < 0 {
        found.saturating_add(rank as i64)
    } else {
        found
    };
    let axis = usize::try_from(axis).ok().filter(|&axis| axis < rank);
    axis.ok_or_else(|| {
        invalid(format!("attribute '{name}' is out of range"))
            .expected(format_args!("-{rank} to {}", rank.saturating_sub(1)))
            .found(found)
    })
}
