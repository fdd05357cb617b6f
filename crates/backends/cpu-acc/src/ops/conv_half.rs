//! Convolution of f16 and bf16, computed in f32: bands of rows of the output, whose input is converted
//! into scratch memory that stays in the second level cache.

use super::conv::{Conv, ConvOperands};
use super::prepared::Weights;
use super::total_len;
use crate::floats::{FloatType, Floats, FloatsMut};
use crate::simd::rows::Geometry;
use std::ops::Range;
use tenon_backend::{Inputs, Outputs};
use tenon_base::Result;

/// Elements of input and output of a band, which stay in the second level cache.
const BAND: usize = 1 << 17;

/// The division into bands, and the elements of scratch memory for each operand in f32.
#[derive(Clone, Copy)]
pub(super) struct HalfBuffers {
    /// The axis that is divided: the first of more than one pixel.
    pub(super) axis: usize,
    /// Output coordinates of a band.
    pub(super) rows: usize,
    weights: usize,
    bias: usize,
    input: usize,
    output: usize,
    addend: usize,
}

impl HalfBuffers {
    /// The buffers of a convolution; `None` for f32.
    pub(super) fn of(conv: &Conv) -> Option<Self> {
        if conv.float == FloatType::F32 {
            return None;
        }
        let shape = &conv.shape;
        let axis = (0..2).find(|&axis| shape.size[axis] > 1 || shape.output[axis] > 1);
        let axis = axis.unwrap_or(2);
        let [input_row, output_row] = row_lengths(conv, axis);
        let stride = shape.strides[axis];
        let per_row = if conv.transposed {
            (input_row / stride).saturating_add(output_row)
        } else {
            input_row.saturating_mul(stride).saturating_add(output_row)
        };
        // All weights are read for each band.
        let weights = shape.positions().saturating_mul(conv.depth());
        let weights = weights.saturating_mul(conv.filters);
        let rows = BAND.max(weights / 2) / per_row.max(1);
        // Whole groups of phases, so that the first phase is the same in each band.
        let multiple = if conv.transposed { stride } else { 1 };
        let rows = rows
            .max(1)
            .next_multiple_of(multiple)
            .min(shape.output[axis]);
        let window = (shape.kernel[axis] - 1) * shape.dilations[axis];
        let input_rows = if conv.transposed {
            (rows + window) / stride + 2
        } else {
            (rows - 1) * stride + window + 1
        };
        let output = rows.saturating_mul(output_row);
        Some(Self {
            axis,
            rows,
            weights: if conv.constant { 0 } else { weights },
            bias: if conv.bias { conv.filters } else { 0 },
            input: input_rows.min(shape.size[axis]).saturating_mul(input_row),
            output,
            addend: if conv.addend { output } else { 0 },
        })
    }

    /// Elements of all buffers.
    pub(super) fn len(&self) -> usize {
        total_len([
            self.weights,
            self.bias,
            self.input,
            self.output,
            self.addend,
        ])
    }
}

/// Elements of the input and of the output at each coordinate of `axis`.
fn row_lengths(conv: &Conv, axis: usize) -> [usize; 2] {
    let product = |extents: &[usize; 3], channels: usize| {
        let inner = extents[axis + 1..].iter();
        inner.fold(channels, |product, &extent| product.saturating_mul(extent))
    };
    [
        product(&conv.shape.size, conv.shape.channels),
        product(&conv.shape.output, conv.filters),
    ]
}

impl Conv {
    /// The convolution of one image for some output coordinates of an axis, and the input coordinates
    /// that it reads.
    pub(super) fn band(&self, axis: usize, outputs: Range<usize>) -> (Self, Range<usize>) {
        let shape = &self.shape;
        let (stride, before) = (shape.strides[axis], shape.before[axis]);
        let window = (shape.kernel[axis] - 1) * shape.dilations[axis];
        let (first, end, origin) = if self.transposed {
            let first = (outputs.start + before).saturating_sub(window) / stride;
            let end = (outputs.end - 1 + before) / stride + 1;
            (first, end, outputs.start + before - first * stride)
        } else {
            let start = outputs.start * stride;
            let first = start.saturating_sub(before);
            let end = ((outputs.end - 1) * stride + window + 1).saturating_sub(before);
            (first, end, before + first - start)
        };
        let end = end.min(shape.size[axis]).max(first);
        let mut band = Geometry {
            images: 1,
            ..*shape
        };
        band.size[axis] = end - first;
        band.output[axis] = outputs.len();
        band.before[axis] = origin;
        let conv = Self {
            shape: band,
            ..*self
        };
        (conv, first..end)
    }

    /// Computes the output of f16 or bf16; `packed` is for weights that are not constant.
    pub(super) fn run_half(
        &self,
        buffers: HalfBuffers,
        weights: Option<&Weights>,
        inputs: &Inputs<'_>,
        outputs: &mut Outputs<'_>,
        (packed, scratch): (&mut [f32], &mut [f32]),
    ) -> Result<()> {
        let (level, float) = (self.level, self.float);
        let input = Floats::input(inputs, 0, float)?;
        let optional = |is_used: bool, index: usize| {
            is_used
                .then(|| Floats::input(inputs, index, float))
                .transpose()
        };
        let (bias, addend) = (optional(self.bias, 2)?, optional(self.addend, 3)?);
        let mut output = FloatsMut::output(outputs, 0, float)?;
        let (plain, scratch) = scratch.split_at_mut(buffers.weights);
        let (bias_buffer, scratch) = scratch.split_at_mut(buffers.bias);
        let (input_buffer, scratch) = scratch.split_at_mut(buffers.input);
        let (output_buffer, scratch) = scratch.split_at_mut(buffers.output);
        let (addend_buffer, scratch) = scratch.split_at_mut(buffers.addend);
        let weights = match weights {
            Some(weights) => weights.elements(),
            None => {
                Floats::input(inputs, 1, float)?.copy(level, 0..plain.len(), plain);
                self.fill(plain, packed);
                packed
            }
        };
        if let Some(bias) = bias {
            bias.copy(level, 0..self.filters, bias_buffer);
        }
        let HalfBuffers { axis, rows, .. } = buffers;
        let [input_row, output_row] = row_lengths(self, axis);
        let (size, extent) = (self.shape.size[axis], self.shape.output[axis]);
        for image in 0..self.shape.images {
            for start in (0..extent).step_by(rows.max(1)) {
                let end = (start + rows).min(extent);
                let (band, read) = self.band(axis, start..end);
                let first = image * size + read.start.min(size);
                let from = first * input_row..(first + read.len()) * input_row;
                let to = (image * extent + start) * output_row..(image * extent + end) * output_row;
                let band_input = &mut input_buffer[..from.len()];
                input.copy(level, from, band_input);
                if let Some(addend) = addend {
                    addend.copy(level, to.clone(), &mut addend_buffer[..to.len()]);
                }
                let operands = ConvOperands {
                    input: band_input,
                    bias: self.bias.then_some(&*bias_buffer),
                    addend: self.addend.then(|| &addend_buffer[..to.len()]),
                };
                let band_output = &mut output_buffer[..to.len()];
                band.run(weights, &operands, scratch, band_output);
                output.write(level, to, band_output);
            }
        }
        Ok(())
    }
}
