//! Sliding windows over images, of convolutions and pools.

use crate::kernel::{BuildError, Node};
use std::ops::Range;
use tenon_backend::Reason;
use tenon_graph::geometry::Window;

/// One spatial axis of a sliding window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowAxis {
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    pub(crate) before: usize,
    pub(crate) after: usize,
}

impl WindowAxis {
    /// An axis that the images do not have.
    pub(crate) const NONE: WindowAxis = WindowAxis {
        input: 1,
        output: 1,
        kernel: 1,
        stride: 1,
        dilation: 1,
        before: 0,
        after: 0,
    };

    /// The input position that a kernel position reads for an output position; `None` in the padding.
    pub(crate) fn source(&self, output: usize, element: usize) -> Option<usize> {
        let shift = element.saturating_mul(self.dilation);
        let at = output.saturating_mul(self.stride).saturating_add(shift);
        at.checked_sub(self.before).filter(|&at| at < self.input)
    }

    /// The kernel positions that are inside the input for an output position.
    pub(crate) fn positions_inside(&self, output: usize) -> Range<usize> {
        let start = output.saturating_mul(self.stride);
        let first = self.before.saturating_sub(start).div_ceil(self.dilation);
        let left = (self.input + self.before).saturating_sub(start);
        let end = left.div_ceil(self.dilation).min(self.kernel);
        first.min(end)..end
    }

    /// The number of kernel positions inside the input or its padding for an output position.
    pub(crate) fn padded(&self, output: usize) -> usize {
        let padded = self.before + self.input + self.after;
        let left = padded.saturating_sub(output.saturating_mul(self.stride));
        left.div_ceil(self.dilation).min(self.kernel)
    }

    /// The output positions for which a kernel position is inside the input.
    pub(crate) fn outputs_inside(&self, element: usize) -> Range<usize> {
        let shift = element.saturating_mul(self.dilation);
        let first = self.before.saturating_sub(shift).div_ceil(self.stride);
        let end = (self.input + self.before)
            .saturating_sub(shift)
            .div_ceil(self.stride);
        first.min(self.output)..end.min(self.output).max(first.min(self.output))
    }

    /// The output position to which an input position contributes through a kernel position, in a transposed
    /// convolution; `None` if it is cropped.
    fn target(&self, input: usize, element: usize) -> Option<usize> {
        let shift = element.saturating_mul(self.dilation);
        let at = input.saturating_mul(self.stride).saturating_add(shift);
        at.checked_sub(self.before).filter(|&at| at < self.output)
    }

    /// The input positions that have a [`target`](Self::target) through a kernel position.
    fn inputs_inside(&self, element: usize) -> Range<usize> {
        let shift = element.saturating_mul(self.dilation);
        let first = self.before.saturating_sub(shift).div_ceil(self.stride);
        let end = (self.output + self.before)
            .saturating_sub(shift)
            .div_ceil(self.stride);
        first.min(self.input)..end.min(self.input).max(first.min(self.input))
    }

    /// Whether each output position is one input position.
    pub(crate) fn is_identity(&self) -> bool {
        (self.kernel, self.stride, self.before, self.after) == (1, 1, 0, 0)
    }
}

/// The strides of a tensor of images along batch, channel, depth, height and width.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) batch: usize,
    pub(crate) channel: usize,
    pub(crate) spatial: [usize; 3],
}

impl Layout {
    fn new(shape: &[usize], channels_last: bool) -> Self {
        let strides = tenon_tensor::Shape::new(shape).strides();
        let (channel, first) = if channels_last {
            (shape.len() - 1, 1)
        } else {
            (1, 2)
        };
        let rank = shape.len() - 2;
        let mut spatial = [0; 3];
        spatial[3 - rank..].copy_from_slice(&strides[first..first + rank]);
        Self {
            batch: strides[0],
            channel: strides[channel],
            spatial,
        }
    }

    pub(crate) fn at(&self, [d, h, w]: [usize; 3]) -> usize {
        d * self.spatial[0] + h * self.spatial[1] + w * self.spatial[2]
    }
}

/// A sliding window over images, extended to three spatial axes.
#[derive(Debug, Clone)]
pub(crate) struct SlidingWindow {
    pub(crate) batches: usize,
    /// Channels of the input.
    pub(crate) channels: usize,
    /// Channels of the output.
    pub(crate) filters: usize,
    pub(crate) axes: [WindowAxis; 3],
    pub(crate) x: Layout,
    pub(crate) y: Layout,
}

impl SlidingWindow {
    /// The window between input 0 and output 0 of `node`, of at most three spatial axes.
    pub(crate) fn new(
        node: &Node<'_>,
        window: &Window,
        channels_last: bool,
    ) -> Result<Self, BuildError> {
        let (x, y) = (node.shape(0)?, node.output(0)?.shape());
        let rank = window.rank();
        if rank > 3 || x.len() != rank + 2 || y.len() != rank + 2 {
            return Err(Reason::InputRank {
                input: 0,
                found: x.len(),
            }
            .into());
        }
        let (channel, first) = if channels_last {
            (x.len() - 1, 1)
        } else {
            (1, 2)
        };
        let mut axes = [WindowAxis::NONE; 3];
        for axis in 0..rank {
            axes[3 - rank + axis] = WindowAxis {
                input: x[first + axis],
                output: y[first + axis],
                kernel: window.kernel[axis],
                stride: window.strides[axis],
                dilation: window.dilations[axis],
                before: window.pads_begin[axis],
                after: window.pads_end[axis],
            };
        }
        Ok(Self {
            batches: x[0],
            channels: x[channel],
            filters: y[channel],
            axes,
            x: Layout::new(x, channels_last),
            y: Layout::new(y, channels_last),
        })
    }

    /// Adds what the input pixels from `first` on contribute through a kernel position of a transposed convolution to
    /// the sums of all output pixels.
    pub(crate) fn scatter(
        &self,
        position: usize,
        first: usize,
        mut products: &[f64],
        sums: &mut [f64],
    ) {
        let [depths, heights, widths] = self.axes;
        let [kd, kh, kw] = self.kernel_position(position);
        let inside = widths.inputs_inside(kw);
        let (mut row, mut column) = (first / widths.input, first % widths.input);
        while !products.is_empty() {
            let count = products.len().min(widths.input - column);
            let run = products.split_off(..count).unwrap_or_default();
            let (d, h) = (row / heights.input, row % heights.input);
            let start = inside.start.clamp(column, column + count);
            let end = inside.end.clamp(column, column + count);
            if let (Some(d), Some(h), true) =
                (depths.target(d, kd), heights.target(h, kh), start < end)
            {
                let w = start * widths.stride + kw * widths.dilation - widths.before;
                let to = &mut sums[(d * heights.output + h) * widths.output + w..];
                let to = to.iter_mut().step_by(widths.stride);
                let run = &run[start - column..end - column];
                to.zip(run).for_each(|(to, product)| *to += product);
            }
            (row, column) = (row + 1, 0);
        }
    }

    /// The number of kernel positions.
    pub(crate) fn positions(&self) -> usize {
        self.axes.iter().map(|axis| axis.kernel).product()
    }

    /// A kernel position of those in row-major order.
    pub(crate) fn kernel_position(&self, nth: usize) -> [usize; 3] {
        let [_, h, w] = self.axes.map(|axis| axis.kernel);
        [nth / (h * w), nth / w % h, nth % w]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_inside_equals_the_definition() {
        let axis = WindowAxis {
            input: 5,
            output: 3,
            kernel: 3,
            stride: 2,
            dilation: 1,
            before: 1,
            after: 1,
        };
        for element in 0..3 {
            let expected: Vec<_> = (0..3)
                .filter(|&o| axis.source(o, element).is_some())
                .collect();
            assert_eq!(axis.outputs_inside(element).collect::<Vec<_>>(), expected);
        }
        let far = WindowAxis {
            input: 1,
            output: 2,
            kernel: 2,
            stride: 1,
            dilation: 9,
            ..axis
        };
        assert!(far.outputs_inside(1).is_empty());
    }

    #[test]
    fn positions_beyond_the_address_space_are_outside() {
        let axis = WindowAxis {
            input: 3,
            output: 1,
            kernel: 4,
            dilation: usize::MAX / 2,
            before: usize::MAX / 2,
            ..WindowAxis::NONE
        };
        let outputs = (0..4).map(|element| axis.outputs_inside(element).len());
        assert_eq!(outputs.collect::<Vec<_>>(), [0, 1, 0, 0]);
        assert_eq!(axis.positions_inside(0), 1..2);
        assert_eq!(axis.source(0, 3), None);
        assert_eq!(axis.target(usize::MAX, 3), None);
    }
}
