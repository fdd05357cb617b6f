//! `DeformConv` (Dai et al., "Deformable Convolutional Networks", 2017) of images of two dimensions: the
//! columns are bilinear samples at the offset positions, computed in f64.

use super::columns::{ColumnConvolution, ImageGroup};
use super::element_types::refuse_type;
use super::number::Number;
use super::plain_matmul::PlainRows;
use super::{Kernel, UnpreparedWorkload, scratch, split_scratch, total_len};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::VectorOp;
use half::{bf16, f16};
use std::marker::PhantomData;
use tenon_backend::{Operands, Reason, Refusal, Workload, WorkloadPlan};
use tenon_base::Result;
use tenon_tensor::DataType;

/// A deformable convolution of elements `T`, whose products are summed in `S`.
struct DeformableConvolution<T, S, const WIDTH: usize> {
    columns: ColumnConvolution<WIDTH>,
    /// Channels that share offsets, and their groups in an image.
    offset_channels: usize,
    offset_groups: usize,
    types: PhantomData<fn(T, S)>,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    match signature.input(0)?.dtype() {
        DataType::F32 => Ok(Box::new(DeformableConvolution::<f32, f32, 16>::of(
            signature,
        )?)),
        DataType::F16 => Ok(Box::new(DeformableConvolution::<f16, f32, 16>::of(
            signature,
        )?)),
        DataType::BF16 => Ok(Box::new(DeformableConvolution::<bf16, f32, 16>::of(
            signature,
        )?)),
        DataType::F64 => Ok(Box::new(DeformableConvolution::<f64, f64, 8>::of(
            signature,
        )?)),
        found => Err(refuse_type(0, found)),
    }
}

impl<T: Number, S: Number, const WIDTH: usize> DeformableConvolution<T, S, WIDTH> {
    fn of(signature: &Signature<'_>) -> Result<Self, Refusal> {
        let rank = signature.input(0)?.shape().len();
        if rank != 4 {
            let (input, found) = (0, rank);
            return Err(Reason::InputRank { input, found }.into());
        }
        let columns = ColumnConvolution::of(signature, 1)?;
        let channels = columns.groups * columns.channels;
        let found = signature.int("offset_group", 1)?;
        let groups = usize::try_from(found).ok().filter(|&groups| groups > 0);
        let groups = groups.filter(|&groups| channels.is_multiple_of(groups));
        let offset_groups = groups.ok_or_else(|| refuse_attribute("offset_group", found))?;
        // Shape inference checks the shapes of offsets and masks, for which it needs these types.
        for input in 1..signature.input_count() {
            if let Some(ty) = signature.optional(input)
                && ty.dtype() != signature.input(0)?.dtype()
            {
                return Err(refuse("the types do not fit"));
            }
        }
        Ok(Self {
            offset_channels: channels / offset_groups,
            offset_groups,
            columns,
            types: PhantomData,
        })
    }

    /// Packs the samples of the pixels from `first` on.
    fn pack(&self, operands: &Elements<'_, T>, at: ImageGroup, first: usize, to: &mut [S]) {
        let columns = &self.columns;
        let (origins, count) = columns.origins(first);
        let [_, height, width] = columns.geometry.size;
        let (positions, plane) = (columns.geometry.positions(), columns.plane());
        let pixels = columns.pixels();
        let all_channels = columns.groups * columns.channels;
        let first_channel = at.group * columns.channels;
        columns.for_each_position(|position, distance| {
            let mut samples = [Sample::default(); WIDTH];
            let mut offset_group = None;
            let rows = to.chunks_exact_mut(WIDTH).skip(position).step_by(positions);
            for (channel, to) in rows.enumerate() {
                let channel = first_channel + channel;
                let group = channel / self.offset_channels;
                if offset_group != Some(group) {
                    offset_group = Some(group);
                    let nth = (at.image * self.offset_groups + group) * positions + position;
                    for (lane, sample) in samples.iter_mut().enumerate().take(count) {
                        let offset = |axis: usize| {
                            operands.offsets[(2 * nth + axis) * pixels + first + lane].to_f64()
                        };
                        let position = |axis: usize| {
                            (origins[lane][axis + 1] + distance[axis + 1]) as f64 + offset(axis)
                        };
                        let mask = operands.mask;
                        let mask = mask.map(|mask| mask[nth * pixels + first + lane].to_f64());
                        *sample = Sample::new([position(0), position(1)], [height, width], mask);
                    }
                }
                let start = (at.image * all_channels + channel) * plane;
                let plane = &operands.x[start..start + plane];
                for (to, sample) in to.iter_mut().zip(&samples) {
                    *to = S::of_f64(sample.of(plane));
                }
            }
        });
    }
}

/// The elements that samples are read from.
struct Elements<'a, T> {
    x: &'a [T],
    offsets: &'a [T],
    mask: Option<&'a [T]>,
}

/// The pixels around a position, with their weights; those outside of the image have none.
#[derive(Clone, Copy, Default)]
struct Sample {
    pixels: [(usize, f64); 4],
    count: usize,
    mask: Option<f64>,
}

impl Sample {
    fn new([y, x]: [f64; 2], [height, width]: [usize; 2], mask: Option<f64>) -> Self {
        let mut sample = Self {
            mask,
            ..Self::default()
        };
        let (top, left) = (y.floor(), x.floor());
        for (row, row_weight) in [(top, 1.0 - (y - top)), (top + 1.0, y - top)] {
            for (column, weight) in [(left, 1.0 - (x - left)), (left + 1.0, x - left)] {
                // False for NaN.
                let inside =
                    row >= 0.0 && column >= 0.0 && row < height as f64 && column < width as f64;
                if inside {
                    let index = row as usize * width + column as usize;
                    sample.pixels[sample.count] = (index, row_weight * weight);
                    sample.count += 1;
                }
            }
        }
        sample
    }

    fn of<T: Number>(&self, plane: &[T]) -> f64 {
        let pixels = self.pixels.iter().take(self.count);
        let sum: f64 = pixels
            .map(|&(index, weight)| plane[index].to_f64() * weight)
            .fold(0.0, |sum, term| sum + term);
        self.mask.map_or(sum, |mask| sum * mask)
    }
}

impl<T: Number, S: Number, const WIDTH: usize> UnpreparedWorkload
    for DeformableConvolution<T, S, WIDTH>
where
    for<'a> PlainRows<'a, S, WIDTH>: VectorOp<Output = ()>,
{
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan {
            scratch_bytes: self.columns.scratch_bytes(size_of::<S>()),
            ..WorkloadPlan::default()
        }
    }
}

impl<T: Number, S: Number, const WIDTH: usize> Workload for DeformableConvolution<T, S, WIDTH>
where
    for<'a> PlainRows<'a, S, WIDTH>: VectorOp<Output = ()>,
{
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let w = inputs.slice::<T>(1)?;
        let elements = Elements {
            x: inputs.slice::<T>(0)?,
            offsets: inputs.slice::<T>(2)?,
            mask: inputs.optional::<T>(4)?,
        };
        let bias = inputs.optional::<T>(3)?;
        let output = outputs.slice::<T>(0)?;
        let sizes = self.columns.scratch();
        let scratch = scratch::<S>(&mut outputs, total_len(sizes))?;
        let [weights, panels, sums] = split_scratch(scratch, sizes);
        for (to, from) in weights.iter_mut().zip(w) {
            *to = S::of_f64(from.to_f64());
        }
        let pack = |at: ImageGroup, first: usize, to: &mut [S]| {
            self.pack(&elements, at, first, to);
        };
        let finish = |filter: usize, sums: &[S], to: &mut [T]| {
            let bias = bias.map_or(0.0, |bias| bias[filter].to_f64());
            for (to, sum) in to.iter_mut().zip(sums) {
                *to = T::of_f64(bias + sum.to_f64());
            }
        };
        let parts = [weights, panels, sums];
        self.columns.compute(parts, output, pack, finish);
        Ok(())
    }
}
