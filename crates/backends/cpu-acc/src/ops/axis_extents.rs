//! A tensor as [elements before, along and after one dimension].

use tenon_tensor::Shape;

/// The extent of a dimension, and the elements before and after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct AxisExtents {
    pub(super) outer: usize,
    pub(super) extent: usize,
    pub(super) inner: usize,
}

impl AxisExtents {
    /// The dimension `axis`, which is below the rank.
    pub(super) fn new(shape: &Shape, axis: usize) -> Self {
        Self {
            outer: shape[..axis].iter().product(),
            extent: shape[axis],
            inner: shape[axis + 1..].iter().product(),
        }
    }

    /// Elements before a line.
    #[inline(always)]
    pub(super) fn start(&self, line: usize) -> usize {
        line * self.extent * self.inner
    }
}
