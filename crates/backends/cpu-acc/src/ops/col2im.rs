//! Col2Im: the elements of blocks added to the pixels of an image, in rows.

use super::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Refusal, Workload};
use tenon_base::{Result, stop};
use tenon_graph::geometry::Window;

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 15;

/// One axis of the image.
#[derive(Debug, Clone, Copy)]
struct Axis {
    pixels: usize,
    blocks: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    before: usize,
}

impl Axis {
    /// A missing dimension.
    const NONE: Self = Self {
        pixels: 1,
        blocks: 1,
        kernel: 1,
        stride: 1,
        dilation: 1,
        before: 0,
    };

    /// The pixel of element `element` of block `block`; `None` in the padding.
    fn pixel(&self, block: usize, element: usize) -> Option<usize> {
        let at = block * self.stride + element * self.dilation;
        at.checked_sub(self.before).filter(|&at| at < self.pixels)
    }
}

/// The kernel.
struct Col2Im {
    level: Level,
    axes: [Axis; 3],
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    signature.f32_shape(0)?;
    let extents = |index| -> Result<Vec<usize>, Refusal> {
        let ints = signature.constant_ints(index)?.unwrap_or_default();
        Ok(ints.iter().map(|&at| at.max(0) as usize).collect())
    };
    let image = extents(1)?;
    let window = Window::sliding(signature.attributes(), &image, &extents(2)?)
        .map_err(|error| refuse(error.to_string()))?;
    let first = 3usize.checked_sub(window.rank());
    let first =
        first.ok_or_else(|| refuse("no kernel for images of more than three dimensions"))?;
    let mut axes = [Axis::NONE; 3];
    for axis in 0..window.rank() {
        axes[first + axis] = Axis {
            pixels: image[axis],
            blocks: window.output[axis],
            kernel: window.kernel[axis],
            stride: window.strides[axis],
            dilation: window.dilations[axis],
            before: window.pads_begin[axis],
        };
    }
    Ok(Box::new(Col2Im {
        level: signature.level,
        axes,
    }))
}

impl UnpreparedWorkload for Col2Im {}

impl Workload for Col2Im {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<f32>(0)?, outputs.slice::<f32>(0)?);
        let pixels = self.axes.iter().map(|axis| axis.pixels).product();
        let blocks: usize = self
            .axes
            .iter()
            .map(|axis| axis.blocks * axis.kernel)
            .product();
        for_each_chunk(to, pixels, from.len() >= PARALLEL, |plane, to| {
            let from = &from[plane * blocks..][..blocks];
            let axes = &self.axes;
            self.level.run(Plane { axes, from, to });
        });
        Ok(())
    }
}

/// The sum of all blocks of one plane.
struct Plane<'a> {
    axes: &'a [Axis; 3],
    from: &'a [f32],
    to: &'a mut [f32],
}

impl VectorOp for Plane<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let Self { axes, from, to } = self;
        let [depths, rows, columns] = axes;
        to.fill(0.0);
        let mut lines = from.chunks_exact(columns.blocks);
        for element in 0..depths.kernel * rows.kernel * columns.kernel {
            let column = element % columns.kernel;
            let row = element / columns.kernel % rows.kernel;
            let depth = element / columns.kernel / rows.kernel;
            // The blocks whose element is in the image: from the first that is not before it.
            let offset = column * columns.dilation;
            let first = columns
                .before
                .saturating_sub(offset)
                .div_ceil(columns.stride);
            let end = (columns.pixels + columns.before).saturating_sub(offset);
            let end = end.div_ceil(columns.stride).min(columns.blocks);
            stop::checkpoint();
            for depth_block in 0..depths.blocks {
                let depth = depths.pixel(depth_block, depth);
                for row_block in 0..rows.blocks {
                    let Some(line) = lines.next() else { return };
                    let row = rows.pixel(row_block, row);
                    let (Some(depth), Some(row), true) = (depth, row, first < end) else {
                        continue;
                    };
                    let start = (depth * rows.pixels + row) * columns.pixels;
                    let start = start + first * columns.stride + offset - columns.before;
                    let line = AddLine {
                        stride: columns.stride,
                        from: &line[first..end],
                        to: &mut to[start..],
                    };
                    line.eval(s);
                }
            }
        }
    }
}

/// Adds elements to pixels that are `stride` apart.
struct AddLine<'a> {
    stride: usize,
    from: &'a [f32],
    to: &'a mut [f32],
}

impl VectorOp for AddLine<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let Self { stride, from, to } = self;
        if stride > 1 {
            let to = to.iter_mut().step_by(stride);
            to.zip(from).for_each(|(to, from)| *to += from);
            return;
        }
        // Rows of images are short: not all vectors of a compiled loop would be whole.
        let (to, whole) = (&mut to[..from.len()], from.len() - from.len() % S::LANES);
        let mut at = 0;
        while at < whole {
            s.store(s.add(s.load(&to[at..]), s.load(&from[at..])), &mut to[at..]);
            at += S::LANES;
        }
        while at < from.len() {
            to[at] += from[at];
            at += 1;
        }
    }
}
