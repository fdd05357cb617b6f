//! The geometry of a pool: the extents of its images and windows.

use super::PARALLEL;
use crate::signature::{Signature, refuse_attribute};
use crate::simd::depthwise::positions_inside;
use std::num::TryFromIntError;
use std::ops::Range;
use tenon_backend::Refusal;
use tenon_base::pool;

/// A spatial dimension.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    pub(super) input: usize,
    pub(super) output: usize,
    pub(super) kernel: usize,
    pub(super) stride: usize,
    pub(super) dilation: usize,
    pub(super) before: usize,
    pub(super) after: usize,
}

impl Axis {
    /// The kernel positions at output position `at` that are inside the image.
    #[inline(always)]
    pub(super) fn inside(&self, at: usize) -> Range<usize> {
        let start = at * self.stride;
        positions_inside(start, self.before, self.dilation, self.kernel, self.input)
    }

    /// The input position of a kernel position that is inside the image.
    #[inline(always)]
    pub(super) fn source(&self, at: usize, position: usize) -> usize {
        at * self.stride + position * self.dilation - self.before
    }

    /// The number of kernel positions inside the image or its padding: the last window may extend
    /// beyond both.
    pub(super) fn padded(&self, at: usize) -> usize {
        let padded = self.before + self.input + self.after;
        let left = padded.saturating_sub(at * self.stride);
        left.div_ceil(self.dilation).min(self.kernel)
    }

    /// The output positions for which a kernel position is inside the image.
    #[inline(always)]
    pub(super) fn outputs_inside(&self, position: usize) -> Range<usize> {
        let shift = position * self.dilation;
        let count = |limit: usize| limit.saturating_sub(shift).div_ceil(self.stride);
        let end = count(self.input + self.before).min(self.output);
        count(self.before).min(end)..end
    }
}

/// Images as [images, depth, height, width, run]. With the channels first, each channel is an image.
#[derive(Debug, Clone)]
pub(super) struct PoolGeometry {
    pub(super) images: usize,
    pub(super) axes: [Axis; 3],
    /// Contiguous elements of a pixel: its channels, or one with the channels first.
    pub(super) run: usize,
}

impl PoolGeometry {
    pub(super) fn of(signature: &Signature<'_>, channels_last: bool) -> Result<Self, Refusal> {
        let x = signature.input(0)?.shape();
        let image = if channels_last {
            x.to_vec()
        } else {
            [&[x[0] * x[1]], &x[2..], &[1]].concat()
        };
        let kernel = kernel_shape(signature)?;
        let window = signature.geometry(&image, &kernel, false)?;
        let axis = |axis: usize| Axis {
            input: window.size[axis],
            output: window.output[axis],
            kernel: window.kernel[axis],
            stride: window.strides[axis],
            dilation: window.dilations[axis],
            before: window.before[axis],
            after: window.after[axis],
        };
        Ok(Self {
            images: window.images,
            axes: [axis(0), axis(1), axis(2)],
            run: window.channels,
        })
    }

    /// Elements of an image of the input.
    pub(super) fn image(&self) -> usize {
        self.axes.iter().map(|axis| axis.input).product::<usize>() * self.run
    }

    /// Elements of a row of the output.
    pub(super) fn line(&self) -> usize {
        self.axes[2].output * self.run
    }

    /// Rows of the output.
    pub(super) fn rows(&self) -> usize {
        self.images * self.axes[0].output * self.axes[1].output
    }

    /// The rows of a chunk of the output, and whether chunks are computed in parallel.
    pub(super) fn chunks(&self) -> (usize, bool) {
        let kernel: usize = self
            .axes
            .iter()
            .fold(1, |all, axis| all.saturating_mul(axis.kernel));
        let work = self
            .rows()
            .saturating_mul(self.line())
            .saturating_mul(kernel);
        let parallel = work >= PARALLEL;
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        (self.rows().div_ceil(chunks), parallel)
    }

    /// The image, depth and height of a row of the output.
    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> [usize; 3] {
        let (depths, heights) = (self.axes[0].output, self.axes[1].output);
        [
            row / heights / depths,
            row / heights % depths,
            row % heights,
        ]
    }
}

/// The attribute `kernel_shape`.
pub(super) fn kernel_shape(signature: &Signature<'_>) -> Result<Vec<usize>, Refusal> {
    let ints = signature.ints("kernel_shape")?.unwrap_or(&[]);
    let sizes: Result<Vec<usize>, _> = ints.iter().map(|&size| usize::try_from(size)).collect();
    sizes.map_err(|_: TryFromIntError| refuse_attribute("kernel_shape", format_args!("{ints:?}")))
}
