//! The rows of A: a matrix in memory, or the im2col rows of a convolution, which are never stored:
//! implicit GEMM by indirection (Dukhan, "The Indirect Convolution Algorithm", 2019), with one pointer
//! for each row and kernel position.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::tile::{MAX_ROWS, RowPointers};
use std::ops::Range;

/// Most elements of a row that are read at one kernel position, and so the length of the row of zeros
/// that padding is read from.
pub(crate) const MAX_DEPTH: usize = 1024;

/// The elements of padding.
static ZEROS: [f32; MAX_DEPTH] = [0.0; MAX_DEPTH];

/// The rows of A. A row has `depth` contiguous elements at each of its kernel positions, which need
/// not be adjacent in memory.
///
/// # Safety
/// Pointers that `point` writes are valid for reading `depth.len()` elements while the source is
/// borrowed.
pub(crate) unsafe trait RowSource: Sync {
    /// Number of rows.
    fn rows(&self) -> usize;
    /// Number of kernel positions of a row.
    fn positions(&self) -> usize;
    /// Elements of a row at each position.
    fn depth(&self) -> usize;
    /// Elements of memory that all rows together read, for deciding how to divide the work.
    fn footprint(&self) -> usize;
    /// Writes pointers to rows `rows` (at most [`MAX_ROWS`]) at the start of `depth`, for each of
    /// `positions`. The depth range is at most [`MAX_DEPTH`] long.
    fn point(
        &self,
        rows: Range<usize>,
        positions: Range<usize>,
        depth: Range<usize>,
        table: &mut [RowPointers],
    );
}

/// The rows of a matrix in memory.
pub(crate) struct Matrix<'a> {
    elements: &'a [f32],
    rows: usize,
    depth: usize,
    stride: usize,
}

impl<'a> Matrix<'a> {
    /// `rows` rows of `depth` elements, `stride` apart.
    ///
    /// # Panics
    /// When `elements` is too short.
    #[inline]
    pub(crate) fn new(elements: &'a [f32], rows: usize, depth: usize, stride: usize) -> Self {
        assert!(rows == 0 || (rows - 1) * stride + depth <= elements.len());
        Self {
            elements,
            rows,
            depth,
            stride,
        }
    }
}

// SAFETY: `new` checked that `rows` rows of `depth` elements, `stride` apart, are within the slice;
// `point` asserts that the rows and the depth range are among them.
unsafe impl RowSource for Matrix<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn positions(&self) -> usize {
        1
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn footprint(&self) -> usize {
        self.rows * self.depth
    }

    #[inline(always)]
    fn point(
        &self,
        rows: Range<usize>,
        _positions: Range<usize>,
        depth: Range<usize>,
        table: &mut [RowPointers],
    ) {
        assert!(rows.end <= self.rows && depth.end <= self.depth);
        let first = self
            .elements
            .as_ptr()
            .wrapping_add(rows.start * self.stride + depth.start);
        for (r, pointer) in table[0].iter_mut().enumerate().take(rows.len()) {
            *pointer = first.wrapping_add(r * self.stride);
        }
    }
}

/// The shape of a two-dimensional convolution or pool over images with the channels last (NHWC).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) images: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    /// Elements from a pixel to the next: all channels, of all groups.
    pub(crate) channels: usize,
    pub(crate) kernel: [usize; 2],
    pub(crate) strides: [usize; 2],
    pub(crate) dilations: [usize; 2],
    /// Padding: rows above the image, columns to its left.
    pub(crate) before: [usize; 2],
    /// Padding: rows below the image, columns to its right.
    pub(crate) after: [usize; 2],
    pub(crate) out_height: usize,
    pub(crate) out_width: usize,
}

impl Geometry {
    /// Number of output pixels.
    pub(crate) fn pixels(&self) -> usize {
        self.images * self.out_height * self.out_width
    }

    /// Elements of the input.
    pub(crate) fn input_len(&self) -> usize {
        // Saturating: padding may make an image larger than memory.
        let pixels = self
            .images
            .saturating_mul(self.height)
            .saturating_mul(self.width);
        pixels.saturating_mul(self.channels)
    }

    /// Whether each output pixel reads the one input pixel of the same index.
    pub(crate) fn is_pointwise(&self) -> bool {
        self.kernel == [1, 1]
            && self.strides == [1, 1]
            && self.before == [0, 0]
            && (self.out_height, self.out_width) == (self.height, self.width)
    }
}

/// The im2col rows of a convolution: a row for each output pixel, with a pixel of the input for each
/// kernel position.
pub(crate) struct Im2col<'a> {
    input: &'a [f32],
    shape: Geometry,
    first_channel: usize,
    depth: usize,
}

impl<'a> Im2col<'a> {
    /// The rows over `depth` channels from `first_channel` on.
    ///
    /// # Panics
    /// When `input` is shorter than the shape, or window coordinates exceed the 31 bits that they are
    /// computed in.
    #[inline]
    pub(crate) fn new(
        input: &'a [f32],
        shape: Geometry,
        first_channel: usize,
        depth: usize,
    ) -> Self {
        assert!(input.len() >= shape.input_len() && first_channel + depth <= shape.channels);
        assert!(fits_i32(&shape));
        Self {
            input,
            shape,
            first_channel,
            depth,
        }
    }
}

/// Whether the coordinates of all windows fit an `i32`.
pub(crate) fn fits_i32(shape: &Geometry) -> bool {
    let reach = |size: usize, axis: usize| {
        let extent = shape.strides[axis].checked_mul(if axis == 0 {
            shape.out_height
        } else {
            shape.out_width
        })?;
        let kernel = shape.kernel[axis].checked_mul(shape.dilations[axis])?;
        size.checked_add(extent)?
            .checked_add(kernel)?
            .checked_add(shape.before[axis])
    };
    let small = |size: Option<usize>| size.is_some_and(|size| size <= i32::MAX as usize);
    small(reach(shape.height, 0)) && small(reach(shape.width, 1))
}

// SAFETY: `new` checked that the input holds the shape and that `depth` channels from `first_channel`
// on are within a pixel. `point` asserts that the depth range is among them, and writes the address of
// a pixel only when its coordinates are inside the image, else that of `ZEROS`, which has `MAX_DEPTH`
// elements, and asserts that the range is no longer.
unsafe impl RowSource for Im2col<'_> {
    fn rows(&self) -> usize {
        self.shape.pixels()
    }

    fn positions(&self) -> usize {
        self.shape.kernel[0] * self.shape.kernel[1]
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn footprint(&self) -> usize {
        self.shape.images * self.shape.height * self.shape.width * self.depth
    }

    #[inline(always)]
    fn point(
        &self,
        rows: Range<usize>,
        positions: Range<usize>,
        depth: Range<usize>,
        table: &mut [RowPointers],
    ) {
        let shape = &self.shape;
        assert!(rows.end <= shape.pixels() && depth.end <= self.depth && depth.len() <= MAX_DEPTH);
        // Coordinates of the window's first pixel, and the image's first pixel, for each row.
        let (mut tops, mut lefts, mut bases) =
            ([0i32; MAX_ROWS], [0i32; MAX_ROWS], [0usize; MAX_ROWS]);
        let mut x = rows.start % shape.out_width;
        let mut y = rows.start / shape.out_width % shape.out_height;
        let mut image = rows.start / (shape.out_width * shape.out_height);
        for r in 0..rows.len().min(MAX_ROWS) {
            tops[r] = (y * shape.strides[0]) as i32 - shape.before[0] as i32;
            lefts[r] = (x * shape.strides[1]) as i32 - shape.before[1] as i32;
            bases[r] = image * shape.height * shape.width;
            x += 1;
            if x == shape.out_width {
                x = 0;
                y += 1;
                if y == shape.out_height {
                    y = 0;
                    image += 1;
                }
            }
        }
        let start = self
            .input
            .as_ptr()
            .wrapping_add(self.first_channel + depth.start);
        let mut ky = positions.start / shape.kernel[1];
        let mut kx = positions.start % shape.kernel[1];
        for pointers in table.iter_mut().take(positions.len()) {
            let (down, right) = (
                (ky * shape.dilations[0]) as i32,
                (kx * shape.dilations[1]) as i32,
            );
            for r in 0..MAX_ROWS {
                let (y, x) = (tops[r] + down, lefts[r] + right);
                // A negative coordinate becomes a large unsigned one.
                let inside = ((y as u32) < shape.height as u32) & ((x as u32) < shape.width as u32);
                let pixel = bases[r]
                    .wrapping_add((y as usize).wrapping_mul(shape.width))
                    .wrapping_add(x as usize);
                let address = start.wrapping_add(pixel.wrapping_mul(shape.channels));
                pointers[r] = if inside { address } else { ZEROS.as_ptr() };
            }
            kx += 1;
            if kx == shape.kernel[1] {
                kx = 0;
                ky += 1;
            }
        }
    }
}

/// The im2col rows over an image that is stored with its padding, where the columns of the kernel are
/// adjacent: a whole row of the kernel is contiguous and counts as one position. For images of few
/// channels.
pub(crate) struct PaddedIm2col<'a> {
    padded: &'a [f32],
    shape: Geometry,
    depth: usize,
}

impl<'a> PaddedIm2col<'a> {
    /// The rows over `padded`, an image of `shape`, whose padding is 0.
    ///
    /// # Panics
    /// When a window extends beyond the image, the columns of the kernel are not adjacent, or `padded`
    /// is shorter than the shape.
    #[inline]
    pub(crate) fn new(padded: &'a [f32], shape: Geometry) -> Self {
        assert!(padded.len() >= shape.input_len() && shape.before == [0, 0]);
        let last_row = shape.out_height.saturating_sub(1) * shape.strides[0]
            + (shape.kernel[0] - 1) * shape.dilations[0];
        let last_column =
            shape.out_width.saturating_sub(1) * shape.strides[1] + (shape.kernel[1] - 1);
        assert!(last_row < shape.height && last_column < shape.width);
        assert!(shape.dilations[1] == 1 || shape.kernel[1] == 1);
        Self {
            padded,
            shape,
            depth: shape.kernel[1] * shape.channels,
        }
    }
}

// SAFETY: `new` checked that all windows are inside the image, and the image inside the slice; `point`
// asserts that rows, positions and depth range are those of a window.
unsafe impl RowSource for PaddedIm2col<'_> {
    fn rows(&self) -> usize {
        self.shape.pixels()
    }

    fn positions(&self) -> usize {
        self.shape.kernel[0]
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn footprint(&self) -> usize {
        self.shape.input_len()
    }

    #[inline(always)]
    fn point(
        &self,
        rows: Range<usize>,
        positions: Range<usize>,
        depth: Range<usize>,
        table: &mut [RowPointers],
    ) {
        let shape = &self.shape;
        assert!(rows.end <= shape.pixels() && depth.end <= self.depth);
        assert!(positions.end <= shape.kernel[0]);
        let line = shape.width * shape.channels;
        let mut first = [0usize; MAX_ROWS];
        for (row, first) in rows.zip(&mut first) {
            let (x, y) = (row % shape.out_width, row / shape.out_width);
            let (y, image) = (y % shape.out_height, y / shape.out_height);
            *first = (image * shape.height + y * shape.strides[0]) * line
                + x * shape.strides[1] * shape.channels
                + depth.start;
        }
        for (position, pointers) in positions.zip(table) {
            let down = position * shape.dilations[0] * line;
            for (pointer, first) in pointers.iter_mut().zip(first) {
                *pointer = self.padded.as_ptr().wrapping_add(first + down);
            }
        }
    }
}
