//! Where the rows of queries, keys and values are in memory.

/// Strides in elements of a tensor with heads.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeadStrides {
    batch: usize,
    head: usize,
    pub(super) step: usize,
}

impl HeadStrides {
    /// `[batch, heads, steps, width]`
    pub(super) fn separate(heads: usize, steps: usize, width: usize) -> Self {
        Self {
            batch: heads * steps * width,
            head: steps * width,
            step: width,
        }
    }

    /// `[batch, steps, heads, width]`, or the last two dimensions as one.
    pub(super) fn merged(heads: usize, steps: usize, width: usize) -> Self {
        Self {
            batch: heads * steps * width,
            head: width,
            step: heads * width,
        }
    }

    /// The distance of rows, where the heads with `steps` steps each follow one another in memory as their steps do.
    pub(super) fn row(&self, heads: usize, steps: usize) -> Option<usize> {
        (heads == 1 || self.head == steps * self.step).then_some(self.step)
    }

    pub(super) fn at(&self, batch: usize, head: usize, step: usize) -> usize {
        batch * self.batch + head * self.head + step * self.step
    }
}
