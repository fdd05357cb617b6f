//! Convolution of groups with few filters, depthwise convolution among them, by the direct algorithm.

use super::conv::{Conv, ConvOperands};
use super::conv_parts::Part;
use crate::panels::WIDTH;
use crate::simd::depthwise::{GroupedConv, fits_ring};
use crate::simd::elements::VectorElement;

/// The tag of the prepared layout: `[part][kernel position][channel of the group][filter]`.
pub(super) const LAYOUT: &str = "taps_c:f32"; // words: allow

/// Most input channels of a group: its rows are copied once for each.
const MAX_DEPTH: usize = 32;

impl Conv {
    /// Whether the direct algorithm is to compute the convolution: where the filters of a group fill less than
    /// a panel of the GEMM.
    pub(super) fn is_direct(&self) -> bool {
        self.groups > 1
            && self.group_filters() < WIDTH
            && self.depth() <= MAX_DEPTH
            && fits_ring(&self.shape, self.depth())
    }

    /// Arranges the weights of one part.
    pub(super) fn fill_direct(&self, part: &Part, from: &[f32], to: &mut [f32]) {
        let (all, depth, group_filters) = (self.positions(), self.depth(), self.group_filters());
        for (position, source) in part.sources().enumerate() {
            for channel in 0..depth {
                let to = &mut to[(position * depth + channel) * self.filters..][..self.filters];
                for (filter, to) in to.iter_mut().enumerate() {
                    let group = filter / group_filters;
                    let row = if self.transposed {
                        (group * depth + channel) * group_filters + filter % group_filters
                    } else {
                        filter * depth + channel
                    };
                    *to = from[row * all + source];
                }
            }
        }
    }

    /// Computes the output pixels of one part.
    pub(super) fn run_direct<T: VectorElement>(
        &self,
        part: &Part,
        weights: &[f32],
        operands: &ConvOperands<'_, T>,
        output: &mut [T],
    ) {
        let first = part.first_pixel * self.filters;
        let conv = GroupedConv {
            input: operands.input,
            shape: part.shape,
            origin: part.origin,
            depth: self.depth(),
            group_filters: self.group_filters(),
            filters: self.filters,
            weights,
            bias: operands.bias,
            addend: operands.addend.map(|addend| &addend[first..]),
            limits: self.activation.limits,
            function: self.activation.function,
            strides: part.strides,
        };
        conv.run(self.level, &mut output[first..]);
    }
}
