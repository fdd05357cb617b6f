//! Tensors: slices of rows and columns of tiles, always of 32 by 32 elements.

use crate::bands::in_bands;

/// Elements of a side of a tile.
pub const TILE: usize = 32;

/// Slices, rows and columns of tiles. A smaller tile lies in the first rows and columns of its
/// tile, the rest of which is zero (facts 3.8).
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Slices.
    pub t: usize,
    /// Rows of tiles.
    pub rows: usize,
    /// Columns of tiles.
    pub columns: usize,
    /// The elements, row by row of a whole slice.
    pub values: Vec<f32>,
}

impl Tensor {
    /// A tensor of zeros.
    pub fn zeros(t: usize, rows: usize, columns: usize) -> Self {
        Self {
            t,
            rows,
            columns,
            values: vec![0.0; t * rows * columns * TILE * TILE],
        }
    }

    /// A tensor whose element of slice, row and column is what `element` says.
    pub fn from_fn(
        t: usize,
        rows: usize,
        columns: usize,
        mut element: impl FnMut(usize, usize, usize) -> f32,
    ) -> Self {
        let mut tensor = Self::zeros(t, rows, columns);
        let (height, width) = (tensor.height(), tensor.width());
        let mut next = tensor.values.iter_mut();
        for z in 0..t {
            for y in 0..height {
                for value in next.by_ref().take(width).enumerate() {
                    *value.1 = element(z, y, value.0);
                }
            }
        }
        tensor
    }

    /// A tensor whose rows of elements `fill` fills, slice by slice; they are zeros before.
    pub fn from_rows(
        [t, rows, columns]: [usize; 3],
        fill: impl Fn(usize, usize, &mut [f32]) + Sync,
    ) -> Self {
        let mut tensor = Self::zeros(t, rows, columns);
        let (height, width) = (tensor.height(), tensor.width());
        in_bands(&mut tensor, 1, |first, band| {
            for (index, line) in band.chunks_exact_mut(width.max(1)).enumerate() {
                let row = first + index;
                fill(row / height, row % height, line);
            }
        });
        tensor
    }

    /// Rows of elements.
    pub fn height(&self) -> usize {
        self.rows * TILE
    }

    /// Columns of elements.
    pub fn width(&self) -> usize {
        self.columns * TILE
    }

    /// Slices, rows and columns of tiles.
    pub fn shape(&self) -> [usize; 3] {
        [self.t, self.rows, self.columns]
    }

    /// The element of slice `z`, row `y` and column `x`.
    pub fn at(&self, z: usize, y: usize, x: usize) -> f32 {
        self.values[(z * self.height() + y) * self.width() + x]
    }

    /// The row of elements `y` of slice `z`.
    pub fn row(&self, z: usize, y: usize) -> &[f32] {
        let start = (z * self.height() + y) * self.width();
        &self.values[start..start + self.width()]
    }

    /// The row of elements `y` of slice `z`, to be written.
    pub fn row_mut(&mut self, z: usize, y: usize) -> &mut [f32] {
        let width = self.width();
        let start = (z * self.height() + y) * width;
        &mut self.values[start..start + width]
    }

    /// This tensor with every element changed alike, at the cost of so many additions each.
    pub fn map(mut self, steps: usize, change: impl Fn(f32) -> f32 + Sync) -> Self {
        in_bands(&mut self, steps, |_, band| {
            for value in band {
                *value = change(*value);
            }
        });
        self
    }

    /// This tensor with every element changed by that of another of its shape.
    pub fn zip(mut self, other: &Tensor, change: impl Fn(f32, f32) -> f32 + Sync) -> Self {
        let width = self.width();
        in_bands(&mut self, 1, |first, band| {
            for (value, other) in band.iter_mut().zip(&other.values[first * width..]) {
                *value = change(*value, *other);
            }
        });
        self
    }

    /// Zeros where an element lies outside the first `height` rows and `width` columns of its tile.
    pub fn masked(mut self, [height, width]: [usize; 2]) -> Self {
        if height >= TILE && width >= TILE {
            return self;
        }
        let line = self.width();
        for (index, value) in self.values.iter_mut().enumerate() {
            if index / line % TILE >= height || index % TILE >= width {
                *value = 0.0;
            }
        }
        self
    }

    /// The rows and columns of tiles that one core of a grid holds.
    pub fn part(&self, [row, column]: [usize; 2], [grid_rows, grid_columns]: [usize; 2]) -> Self {
        let (rows, columns) = (self.rows / grid_rows, self.columns / grid_columns);
        let (top, left) = (row * rows * TILE, column * columns * TILE);
        Self::from_rows([self.t, rows, columns], |z, y, line| {
            line.copy_from_slice(&self.row(z, top + y)[left..left + line.len()]);
        })
    }

    /// Puts what one core of a grid holds in its place.
    pub fn place(&mut self, part: &Tensor, [row, column]: [usize; 2]) {
        let (top, left) = (row * part.height(), column * part.width());
        for z in 0..part.t {
            for y in 0..part.height() {
                let line = &mut self.row_mut(z, top + y)[left..left + part.width()];
                line.copy_from_slice(part.row(z, y));
            }
        }
    }

    /// A tensor of tiles of `height` by `width` elements that stand without gaps.
    pub fn from_elements(
        values: &[f32],
        [t, rows, columns]: [usize; 3],
        [height, width]: [usize; 2],
    ) -> Self {
        let (lines, line) = (rows * height, columns * width);
        Self::from_rows([t, rows, columns], |z, y, to| {
            if y % TILE >= height {
                return;
            }
            let start = (z * lines + y / TILE * height + y % TILE) * line;
            let tiles = to.chunks_exact_mut(TILE);
            for (tile, from) in tiles.zip(values[start..][..line].chunks_exact(width)) {
                tile[..width].copy_from_slice(from);
            }
        })
    }

    /// The elements of tiles of `height` by `width`, without gaps.
    pub fn elements(&self, [height, width]: [usize; 2]) -> Vec<f32> {
        let mut values = Vec::with_capacity(self.t * self.rows * self.columns * height * width);
        for z in 0..self.t {
            for y in (0..self.height()).filter(|y| y % TILE < height) {
                for tile in self.row(z, y).chunks_exact(TILE) {
                    values.extend_from_slice(&tile[..width]);
                }
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_tiles_lie_in_the_first_rows_and_columns() {
        let values: Vec<f32> = (0..2 * 16 * 64).map(|value| value as f32).collect();
        let tensor = Tensor::from_elements(&values, [1, 2, 2], [16, 32]);
        assert_eq!(tensor.at(0, 15, 63), 15.0 * 64.0 + 63.0);
        assert_eq!(tensor.at(0, 16, 0), 0.0);
        assert_eq!(tensor.at(0, 32, 0), 16.0 * 64.0);
        assert_eq!(tensor.elements([16, 32]), values);
        assert_eq!(tensor.clone().masked([16, 32]), tensor);
    }

    #[test]
    fn parts_go_back_to_their_places() {
        let tensor = Tensor::from_fn(2, 2, 4, |z, y, x| (z * 10_000 + y * 100 + x) as f32);
        let mut back = Tensor::zeros(2, 2, 4);
        for core in [[0, 0], [0, 1], [1, 0], [1, 1]] {
            back.place(&tensor.part(core, [2, 2]), core);
        }
        assert_eq!(back, tensor);
    }
}
