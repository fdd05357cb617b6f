//! Convolution of f16 and bf16, computed in f32: bands of rows of the output, whose input is converted
//! into scratch memory that stays in the second level cache. Threads compute different bands or, where there
//! are too few, one band together.

use super::conv::{Conv, ConvOperands};
use super::element_types::of_float;
use super::prepared::Weights;
use super::total_len;
use crate::floats::{FloatElement, FloatType, Floats};
use crate::simd::disjoint::{Blocks, MatrixMut, for_each_unit};
use crate::simd::rows::Geometry;
use std::ops::Range;
use tenon_backend::{Inputs, Outputs};
use tenon_base::{Result, pool};

/// Elements of input and output of a band, which stay in the second level cache.
const BAND: usize = 1 << 16;

/// Most bands that are computed at the same time, each in separate buffers.
const SLOTS: usize = 16;

/// Most bands for each thread.
const BANDS_OF_THREAD: usize = 4;

/// Pixels for each thread below which threads compute one band together.
const LEAST_PIXELS: usize = 24;

/// The division into bands, and the elements of scratch memory for each operand in f32.
#[derive(Clone, Copy)]
pub(super) struct HalfBuffers {
    /// The axis that is divided: the first of more than one pixel.
    pub(super) axis: usize,
    /// Most output coordinates of a band.
    pub(super) rows: usize,
    /// The number of output coordinates of a band is a multiple of this, but at the end.
    multiple: usize,
    weights: usize,
    bias: usize,
    input: usize,
    output: usize,
    addend: usize,
    slots: usize,
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
            multiple,
            weights: if conv.constant { 0 } else { weights },
            bias: if conv.bias { conv.filters } else { 0 },
            input: input_rows.min(shape.size[axis]).saturating_mul(input_row),
            output,
            addend: if conv.addend { output } else { 0 },
            slots: shape.images.saturating_mul(shape.output[axis]).min(SLOTS),
        })
    }

    /// Elements of all buffers; each band has a padded image of `padded` elements.
    pub(super) fn len(&self, padded: usize) -> usize {
        let slot = self.slot(padded).saturating_mul(self.slots);
        total_len([self.weights, self.bias, slot])
    }

    /// Elements of the buffers of one band.
    fn slot(&self, padded: usize) -> usize {
        total_len([self.input, self.output, self.addend, padded])
    }

    /// The output coordinates of a band, and whether threads compute different bands.
    fn division(&self, conv: &Conv) -> (usize, bool) {
        let (coordinates, threads) = (
            conv.shape.images * conv.shape.output[self.axis],
            pool::threads(),
        );
        let most = (conv.shape.pixels() / (threads * LEAST_PIXELS)).min(BANDS_OF_THREAD);
        if threads == 1 || most == 0 {
            return (self.rows, false);
        }
        let divisions = (1..=most).rev().map(|bands| {
            let rows = coordinates.div_ceil(threads * bands);
            rows.next_multiple_of(self.multiple).min(self.rows)
        });
        // Of the division with which the threads end first: the bands of a thread, and their rows.
        let time = |rows: &usize| coordinates.div_ceil(*rows).div_ceil(threads) * rows;
        (divisions.min_by_key(time).unwrap_or(self.rows), true)
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
        let optional = |is_used: bool, index: usize| {
            is_used
                .then(|| Floats::input(inputs, index, float))
                .transpose()
        };
        let (plain, scratch) = scratch.split_at_mut(buffers.weights);
        let (bias_buffer, scratch) = scratch.split_at_mut(buffers.bias);
        let weights = match weights {
            Some(weights) => weights.elements(),
            None => {
                Floats::input(inputs, 1, float)?.copy(level, 0..plain.len(), plain);
                self.fill(plain, packed);
                packed
            }
        };
        if let Some(bias) = optional(self.bias, 2)? {
            bias.copy(level, 0..self.filters, bias_buffer);
        }
        let bands = Bands {
            conv: self,
            buffers,
            weights,
            input: Floats::input(inputs, 0, float)?,
            bias: self.bias.then_some(bias_buffer),
            addend: optional(self.addend, 3)?,
        };
        of_float!(float, T => bands.run(outputs.slice::<T>(0)?, scratch));
        Ok(())
    }
}

/// A convolution of f16 or bf16 with its operands; weights and bias are of f32.
struct Bands<'a> {
    conv: &'a Conv,
    buffers: HalfBuffers,
    weights: &'a [f32],
    input: Floats<'a>,
    bias: Option<&'a [f32]>,
    addend: Option<Floats<'a>>,
}

impl Bands<'_> {
    /// Computes all bands of the output.
    fn run<T: FloatElement>(&self, output: &mut [T], scratch: &mut [f32]) {
        if output.is_empty() {
            return;
        }
        let (conv, buffers) = (self.conv, &self.buffers);
        let (rows, parallel) = buffers.division(conv);
        let extent = conv.shape.output[buffers.axis];
        let (slot, slots) = (buffers.slot(conv.band_padded_len(buffers)), buffers.slots);
        let blocks = Blocks {
            stacks: conv.shape.images,
            rows: extent,
            blocks: 1,
            width: row_lengths(conv, buffers.axis)[1],
        };
        let bands = extent.div_ceil(rows).max(1);
        let slots = if parallel { slots } else { 1 };
        let memory = (scratch, slot, slots);
        let unused: (&mut [u8], usize) = (&mut [], 1);
        for_each_unit(
            (output, blocks, rows),
            unused,
            memory,
            parallel,
            |index, output, _, scratch| {
                let start = index % bands * rows;
                self.run_one(index / bands, start..start + output.rows(), output, scratch);
            },
        );
    }

    /// Computes the band of some output coordinates of an image.
    fn run_one<T: FloatElement>(
        &self,
        image: usize,
        coordinates: Range<usize>,
        mut output: MatrixMut<'_, T>,
        scratch: &mut [f32],
    ) {
        let (conv, level) = (self.conv, self.conv.level);
        let HalfBuffers {
            axis,
            input,
            output: output_len,
            addend,
            ..
        } = self.buffers;
        let (input_buffer, scratch) = scratch.split_at_mut(input);
        let (output_buffer, scratch) = scratch.split_at_mut(output_len);
        let (addend_buffer, scratch) = scratch.split_at_mut(addend);
        let [input_row, output_row] = row_lengths(conv, axis);
        let (size, extent) = (conv.shape.size[axis], conv.shape.output[axis]);
        let (band, read) = conv.band(axis, coordinates.clone());
        let first = image * size + read.start.min(size);
        let from = first * input_row..(first + read.len()) * input_row;
        let input = &mut input_buffer[..from.len()];
        self.input.copy(level, from, input);
        let first = (image * extent + coordinates.start) * output_row;
        let len = coordinates.len() * output_row;
        let addend = self.addend.map(|addend| {
            let to = &mut addend_buffer[..len];
            addend.copy(level, first..first + len, to);
            &*to
        });
        let operands = ConvOperands {
            input,
            bias: self.bias,
            addend,
        };
        let band_output = &mut output_buffer[..len];
        band.run(self.weights, &operands, scratch, band_output);
        for (row, from) in band_output.chunks_exact(output_row).enumerate() {
            T::floats_mut(output.row_mut(row)).write(level, 0..output_row, from);
        }
    }
}
