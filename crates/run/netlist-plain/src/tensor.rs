//! Tensors: slices of rows and columns of tiles, always of 32 by 32 elements.
//!
//! The sizes of tensors come from the netlist: every allocation is fallible and limited by
//! [`MAX_ELEMENTS`].

use crate::bands::in_bands;
use std::fmt;
use tenon_base::{Result, bounded};

/// Rows and columns of elements of a tile.
pub const TILE: usize = 32;

/// Maximum number of elements of a tensor: 4 GiB of f32.
pub(crate) const MAX_ELEMENTS: usize = 1 << 30;

/// A tensor of tiles. A smaller tile occupies the first rows and columns of a tile, the rest of
/// which is zero (netlist 3.8).
#[derive(Debug, PartialEq)]
pub struct Tensor {
    /// Number of slices.
    pub t: usize,
    /// Number of rows of tiles.
    pub rows: usize,
    /// Number of columns of tiles.
    pub columns: usize,
    /// The elements, in row-major order of each slice.
    pub values: Vec<f32>,
}

/// An empty vector with capacity for `count` values; `what` names it in the error.
///
/// # Errors
/// `OutOfMemory` above the size of [`MAX_ELEMENTS`] floats, or when the system has no memory.
pub(crate) fn with_capacity<T>(what: impl fmt::Display, count: usize) -> Result<Vec<T>> {
    bounded::with_capacity_within(what, count, MAX_ELEMENTS * size_of::<f32>())
}

/// `count` copies of `value`; `what` names the vector in the error.
///
/// # Errors
/// As [`with_capacity`].
pub(crate) fn filled<T: Clone>(what: impl fmt::Display, value: T, count: usize) -> Result<Vec<T>> {
    let mut values = with_capacity(what, count)?;
    values.resize(count, value);
    Ok(values)
}

/// The number of elements of a shape in tiles, saturating.
fn elements_of(shape: [usize; 3], [height, width]: [usize; 2]) -> usize {
    shape
        .iter()
        .chain(&[height, width])
        .fold(1, |all: usize, &size| all.saturating_mul(size))
}

impl Tensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    /// `OutOfMemory` above 2^30 elements, or when the system has no memory.
    pub fn zeros(t: usize, rows: usize, columns: usize) -> Result<Self> {
        let shape = [t, rows, columns];
        let what = format_args!("tensor of {shape:?} tiles");
        Ok(Self {
            t,
            rows,
            columns,
            values: filled(what, 0.0, elements_of(shape, [TILE; 2]))?,
        })
    }

    /// A tensor with the element `element(z, y, x)` at slice z, row y and column x.
    ///
    /// # Errors
    /// As [`zeros`](Self::zeros).
    pub fn from_fn(
        t: usize,
        rows: usize,
        columns: usize,
        mut element: impl FnMut(usize, usize, usize) -> f32,
    ) -> Result<Self> {
        let mut tensor = Self::zeros(t, rows, columns)?;
        let (height, width) = (tensor.height(), tensor.width());
        let mut next = tensor.values.iter_mut();
        for z in 0..t {
            for y in 0..height {
                for value in next.by_ref().take(width).enumerate() {
                    *value.1 = element(z, y, value.0);
                }
            }
        }
        Ok(tensor)
    }

    /// A tensor whose rows are computed in parallel: `fill(z, y, row)` writes row y of slice z, which
    /// is zero before.
    ///
    /// # Errors
    /// As [`zeros`](Self::zeros).
    pub fn from_rows(
        [t, rows, columns]: [usize; 3],
        fill: impl Fn(usize, usize, &mut [f32]) + Sync,
    ) -> Result<Self> {
        let mut tensor = Self::zeros(t, rows, columns)?;
        let (height, width) = (tensor.height(), tensor.width());
        in_bands(&mut tensor, 1, |first, band| {
            for (index, line) in band.chunks_exact_mut(width.max(1)).enumerate() {
                let row = first + index;
                fill(row / height, row % height, line);
            }
        });
        Ok(tensor)
    }

    /// A copy.
    ///
    /// # Errors
    /// As [`zeros`](Self::zeros).
    pub fn try_clone(&self) -> Result<Self> {
        let what = format_args!("tensor of {:?} tiles", self.shape());
        let mut values = with_capacity(what, self.values.len())?;
        values.extend_from_slice(&self.values);
        Ok(Self { values, ..*self })
    }

    /// Number of rows of elements.
    pub fn height(&self) -> usize {
        self.rows * TILE
    }

    /// Number of columns of elements.
    pub fn width(&self) -> usize {
        self.columns * TILE
    }

    /// Number of slices, rows and columns of tiles.
    pub fn shape(&self) -> [usize; 3] {
        [self.t, self.rows, self.columns]
    }

    /// The element of slice `z`, row `y` and column `x`.
    pub fn at(&self, z: usize, y: usize, x: usize) -> f32 {
        self.values[(z * self.height() + y) * self.width() + x]
    }

    /// Row `y` of slice `z`.
    pub fn row(&self, z: usize, y: usize) -> &[f32] {
        let start = (z * self.height() + y) * self.width();
        &self.values[start..start + self.width()]
    }

    /// Row `y` of slice `z`, mutable.
    pub fn row_mut(&mut self, z: usize, y: usize) -> &mut [f32] {
        let width = self.width();
        let start = (z * self.height() + y) * width;
        &mut self.values[start..start + width]
    }

    /// Applies `function` to every element in place; `steps` is its cost in additions.
    pub fn map(mut self, steps: usize, function: impl Fn(f32) -> f32 + Sync) -> Self {
        in_bands(&mut self, steps, |_, band| {
            for value in band {
                *value = function(*value);
            }
        });
        self
    }

    /// Applies `function` to the elements of this tensor and of another one of its shape, in place.
    pub fn zip(mut self, other: &Tensor, function: impl Fn(f32, f32) -> f32 + Sync) -> Self {
        let width = self.width();
        in_bands(&mut self, 1, |first, band| {
            for (value, other) in band.iter_mut().zip(&other.values[first * width..]) {
                *value = function(*value, *other);
            }
        });
        self
    }

    /// Sets the elements outside of the first `height` rows and `width` columns of each tile to zero.
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

    /// The part that one core of a grid holds.
    ///
    /// # Errors
    /// As [`zeros`](Self::zeros).
    pub fn core_part(
        &self,
        [row, column]: [usize; 2],
        [grid_rows, grid_columns]: [usize; 2],
    ) -> Result<Self> {
        let (rows, columns) = (self.rows / grid_rows, self.columns / grid_columns);
        let (top, left) = (row * rows * TILE, column * columns * TILE);
        Self::from_rows([self.t, rows, columns], |z, y, line| {
            line.copy_from_slice(&self.row(z, top + y)[left..left + line.len()]);
        })
    }

    /// Writes the part that one core of a grid holds.
    pub fn set_core_part(&mut self, part: &Tensor, [row, column]: [usize; 2]) {
        let (top, left) = (row * part.height(), column * part.width());
        for z in 0..part.t {
            for y in 0..part.height() {
                let line = &mut self.row_mut(z, top + y)[left..left + part.width()];
                line.copy_from_slice(part.row(z, y));
            }
        }
    }

    /// A tensor from contiguous elements of tiles of `height` by `width`, in row-major order.
    ///
    /// # Errors
    /// As [`zeros`](Self::zeros).
    pub fn from_elements(
        values: &[f32],
        [t, rows, columns]: [usize; 3],
        [height, width]: [usize; 2],
    ) -> Result<Self> {
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

    /// The contiguous elements of tiles of `height` by `width`, in row-major order.
    ///
    /// # Errors
    /// As [`zeros`](Self::zeros).
    pub fn elements(&self, tile: [usize; 2]) -> Result<Vec<f32>> {
        let what = format_args!("elements of {:?} tiles", self.shape());
        let mut values = with_capacity(what, elements_of(self.shape(), tile))?;
        self.append_elements(tile, &mut values);
        Ok(values)
    }

    /// Appends the contiguous elements of tiles of `height` by `width` to a vector with capacity.
    pub(crate) fn append_elements(&self, [height, width]: [usize; 2], values: &mut Vec<f32>) {
        for z in 0..self.t {
            for y in (0..self.height()).filter(|y| y % TILE < height) {
                for tile in self.row(z, y).chunks_exact(TILE) {
                    values.extend_from_slice(&tile[..width]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_base::ErrorKind;

    #[test]
    fn small_tiles_occupy_the_first_rows_and_columns() {
        let values: Vec<f32> = (0..2 * 16 * 64).map(|value| value as f32).collect();
        let tensor = Tensor::from_elements(&values, [1, 2, 2], [16, 32]).unwrap();
        assert_eq!(tensor.at(0, 15, 63), 15.0 * 64.0 + 63.0);
        assert_eq!(tensor.at(0, 16, 0), 0.0);
        assert_eq!(tensor.at(0, 32, 0), 16.0 * 64.0);
        assert_eq!(tensor.elements([16, 32]).unwrap(), values);
        assert_eq!(tensor.try_clone().unwrap().masked([16, 32]), tensor);
    }

    #[test]
    fn the_parts_of_all_cores_make_the_tensor() {
        let element = |z, y, x| (z * 10_000 + y * 100 + x) as f32;
        let tensor = Tensor::from_fn(2, 2, 4, element).unwrap();
        let mut copy = Tensor::zeros(2, 2, 4).unwrap();
        for core in [[0, 0], [0, 1], [1, 0], [1, 1]] {
            copy.set_core_part(&tensor.core_part(core, [2, 2]).unwrap(), core);
        }
        assert_eq!(copy, tensor);
    }

    #[test]
    fn tensors_beyond_the_limit_are_errors() {
        for shape in [[1 << 21, 1, 1], [1 << 40, 1, 1], [usize::MAX; 3]] {
            let [t, rows, columns] = shape;
            let error = Tensor::zeros(t, rows, columns).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfMemory);
            let text = error.to_string();
            assert!(text.contains(&format!("{shape:?} tiles")), "{text}");
        }
    }
}
