//! The parts of a convolution, each an implicit GEMM with stride 1 or the convolution's own.
//!
//! A convolution has one part. A transposed convolution has one for each phase of its output pixels
//! modulo the strides (sub-pixel convolution: Shi et al., "Is the deconvolution layer the same as a
//! convolutional layer?", 2016): the pixels of one phase depend on one subset of the kernel positions,
//! as in a convolution of stride 1. All operations of the parts together are those of the transposed
//! convolution, and no intermediate matrix is stored, as it is by GEMM and col2im.

use super::conv::Conv;
use crate::simd::disjoint::RowLayout;
use crate::simd::rows::Geometry;

/// Some pixels of the output, as a convolution with some positions of the kernel.
pub(super) struct Part {
    /// The windows; their padding is not used.
    pub(super) shape: Geometry,
    /// The input coordinates that the first output pixel reads at the first kernel position.
    pub(super) origin: [i32; 3],
    /// The first pixel of the output.
    pub(super) first_pixel: usize,
    /// Elements of the output from an image to the next, then from a pixel of the part to the next on
    /// each axis.
    pub(super) strides: [usize; 4],
    axes: [PartAxis; 3],
    /// Extents of the whole kernel.
    kernel: [usize; 3],
    /// Whether the whole kernel's positions descend.
    descends: bool,
}

/// One axis of a part.
#[derive(Clone, Copy)]
struct PartAxis {
    /// The first output coordinate, the distance to the next, and their number.
    first_output: usize,
    output_step: usize,
    outputs: usize,
    /// The whole kernel's coordinate of the part's first kernel position, the distance to the next
    /// (downwards in a transposed convolution), and their number.
    first_position: usize,
    position_step: usize,
    positions: usize,
    /// The input coordinate that the first output coordinate reads at the first kernel position.
    origin: i64,
    stride: usize,
    dilation: usize,
}

impl PartAxis {
    /// The axis of a convolution.
    fn whole(shape: &Geometry, axis: usize) -> Self {
        Self {
            first_output: 0,
            output_step: 1,
            outputs: shape.output[axis],
            first_position: 0,
            position_step: 1,
            positions: shape.kernel[axis],
            origin: -(shape.before[axis] as i64),
            stride: shape.strides[axis],
            dilation: shape.dilations[axis],
        }
    }

    /// The axis of a transposed convolution for the output coordinates `phase`, `phase + stride`, ...
    ///
    /// With `a = output + before = stride * p + r`, kernel position `k` contributes where
    /// `k * dilation = r` modulo the stride, from input coordinate `(a - k * dilation) / stride`.
    fn of_phase(shape: &Geometry, axis: usize, phase: usize) -> Self {
        let (stride, dilation) = (shape.strides[axis], shape.dilations[axis]);
        let divisor = greatest_common_divisor(stride, dilation);
        let step = stride / divisor;
        let (p, r) = (
            (phase + shape.before[axis]) / stride,
            (phase + shape.before[axis]) % stride,
        );
        let kernel = shape.kernel[axis];
        let least = (0..kernel.min(step)).find(|&k| k * dilation % stride == r);
        let positions = least.map_or(0, |least| (kernel - 1 - least) / step + 1);
        // Input coordinates ascend with the part's kernel positions, so that those descend.
        let first = least.unwrap_or(0) + positions.saturating_sub(1) * step;
        Self {
            first_output: phase,
            output_step: stride,
            outputs: shape.output[axis].saturating_sub(phase).div_ceil(stride),
            first_position: first,
            position_step: step,
            positions,
            // Exact where there are positions.
            origin: p as i64 - (first * dilation).saturating_sub(r) as i64 / stride as i64,
            stride: 1,
            dilation: dilation / divisor,
        }
    }
}

impl Part {
    /// The parts of a convolution.
    pub(super) fn all(conv: &Conv) -> impl Iterator<Item = Self> {
        let shape = &conv.shape;
        let phases: [usize; 3] = if conv.transposed {
            std::array::from_fn(|axis| shape.strides[axis].min(shape.output[axis]))
        } else {
            [1; 3]
        };
        let [_, rows, columns] = phases;
        (0..phases.iter().product()).map(move |index| {
            let phase = [
                index / columns / rows,
                index / columns % rows,
                index % columns,
            ];
            let axes = std::array::from_fn(|axis| {
                if conv.transposed {
                    PartAxis::of_phase(shape, axis, phase[axis])
                } else {
                    PartAxis::whole(shape, axis)
                }
            });
            Self::of_axes(conv, axes)
        })
    }

    /// Whether each kernel position is in a part: not where the output has fewer pixels than phases.
    pub(super) fn cover_kernel(conv: &Conv) -> bool {
        let shape = &conv.shape;
        let covers = |axis: usize| {
            let (stride, output) = (shape.strides[axis], shape.output[axis]);
            let dilation = shape.dilations[axis];
            let before = shape.before[axis] % stride;
            let phase = |k: usize| (k * dilation + stride - before) % stride;
            let phases = stride / greatest_common_divisor(stride, dilation);
            let phases = phases.min(shape.kernel[axis]);
            output >= stride || phases <= output && (0..phases).all(|k| phase(k) < output)
        };
        !conv.transposed || (0..3).all(covers)
    }

    fn of_axes(conv: &Conv, axes: [PartAxis; 3]) -> Self {
        let shape = Geometry {
            kernel: axes.map(|axis| axis.positions),
            strides: axes.map(|axis| axis.stride),
            dilations: axes.map(|axis| axis.dilation),
            before: [0; 3],
            after: [0; 3],
            output: axes.map(|axis| axis.outputs),
            ..conv.shape
        };
        let [depth, height, width] = conv.shape.output;
        let line = width * conv.filters;
        let [z, y, x] = axes.map(|axis| axis.output_step);
        let [first_z, first_y, first_x] = axes.map(|axis| axis.first_output);
        Self {
            shape,
            // In 31 bits, as all coordinates are (`fits_i32`).
            origin: axes.map(|axis| axis.origin as i32),
            first_pixel: (first_z * height + first_y) * width + first_x,
            strides: [
                depth * height * line,
                z * height * line,
                y * line,
                x * conv.filters,
            ],
            axes,
            kernel: conv.shape.kernel,
            descends: conv.transposed,
        }
    }

    /// Where the pixels are in the output.
    pub(super) fn output(&self) -> RowLayout {
        if self.axes.iter().all(|axis| axis.output_step == 1) {
            RowLayout::strided(self.strides[3])
        } else {
            RowLayout {
                extents: self.shape.output,
                strides: self.strides,
            }
        }
    }

    /// Number of kernel positions.
    pub(super) fn positions(&self) -> usize {
        self.shape.positions()
    }

    /// The positions of the part in the whole kernel.
    pub(super) fn sources(&self) -> impl Iterator<Item = usize> {
        let [z, y, x] = self.axes;
        let [_, height, width] = self.kernel;
        let descends = self.descends;
        let at = move |axis: PartAxis, index: usize| {
            let step = index * axis.position_step;
            if descends {
                axis.first_position - step
            } else {
                axis.first_position + step
            }
        };
        (0..z.positions * y.positions * x.positions).map(move |index| {
            let (row, kx) = (index / x.positions, index % x.positions);
            let (kz, ky) = (row / y.positions, row % y.positions);
            (at(z, kz) * height + at(y, ky)) * width + at(x, kx)
        })
    }

    /// Whether each output pixel of the part reads the one input pixel of the same index.
    pub(super) fn is_pointwise(&self) -> bool {
        self.origin == [0; 3] && self.shape.is_pointwise()
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    match b {
        0 => a,
        _ => greatest_common_divisor(b, a % b),
    }
}
