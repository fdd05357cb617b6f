//! Where a matrix product reads the rows of A: a matrix, or the windows of a convolution.

use super::tile::{MAX_ROWS, RowPointers};
use std::ops::Range;

/// Longest part of a row that is read at once, and so the length of the row of zeros that padding
/// reads.
pub(crate) const MAX_DEPTH: usize = 1024;

/// What padding reads.
static ZEROS: [f32; MAX_DEPTH] = [0.0; MAX_DEPTH];

/// Rows of A. A row is `taps` pieces of `depth` numbers, which need not lie together.
///
/// # Safety
/// Pointers that `point` writes are valid for reading the numbers of the depth range asked for, at
/// least while the source is borrowed.
pub(crate) unsafe trait Rows: Sync {
    /// Number of rows.
    fn rows(&self) -> usize;
    /// Pieces of a row.
    fn taps(&self) -> usize;
    /// Numbers of a piece.
    fn depth(&self) -> usize;
    /// Numbers of memory that all rows together read, for deciding how to split the work.
    fn footprint(&self) -> usize;
    /// Writes pointers to rows `rows` (at most [`MAX_ROWS`]) at the start of `depth`, for each tap of
    /// `taps`. A depth range that is not whole is at most [`MAX_DEPTH`] long, or the range is whole.
    fn point(
        &self,
        rows: Range<usize>,
        taps: Range<usize>,
        depth: Range<usize>,
        table: &mut [RowPointers],
    );
}

/// The rows of a matrix in memory.
pub(crate) struct Matrix<'a> {
    numbers: &'a [f32],
    rows: usize,
    depth: usize,
    stride: usize,
}

impl<'a> Matrix<'a> {
    /// `rows` rows of `depth` numbers, `stride` apart.
    ///
    /// # Panics
    /// When `numbers` does not hold them.
    #[inline]
    pub(crate) fn new(numbers: &'a [f32], rows: usize, depth: usize, stride: usize) -> Self {
        assert!(rows == 0 || (rows - 1) * stride + depth <= numbers.len());
        Self {
            numbers,
            rows,
            depth,
            stride,
        }
    }
}

// SAFETY: `new` checked that every row lies in the slice; `point` clamps to these rows.
unsafe impl Rows for Matrix<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn taps(&self) -> usize {
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
        _taps: Range<usize>,
        depth: Range<usize>,
        table: &mut [RowPointers],
    ) {
        assert!(rows.end <= self.rows && depth.end <= self.depth);
        let first = self
            .numbers
            .as_ptr()
            .wrapping_add(rows.start * self.stride + depth.start);
        for (r, pointer) in table[0].iter_mut().enumerate().take(rows.len()) {
            *pointer = first.wrapping_add(r * self.stride);
        }
    }
}

/// The shape of a two-dimensional convolution over images whose channels lie together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) images: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    /// Numbers from a pixel to the next: all channels, of all groups.
    pub(crate) channels: usize,
    pub(crate) kernel: [usize; 2],
    pub(crate) strides: [usize; 2],
    pub(crate) dilations: [usize; 2],
    /// Rows above, columns to the left of the image.
    pub(crate) before: [usize; 2],
    /// Rows below, columns to the right of it.
    pub(crate) after: [usize; 2],
    pub(crate) out_height: usize,
    pub(crate) out_width: usize,
}

impl Geometry {
    /// Number of output pixels.
    pub(crate) fn pixels(&self) -> usize {
        self.images * self.out_height * self.out_width
    }

    /// Number of input numbers.
    pub(crate) fn input_len(&self) -> usize {
        // Saturating: padding may make an image larger than memory.
        let pixels = self
            .images
            .saturating_mul(self.height)
            .saturating_mul(self.width);
        pixels.saturating_mul(self.channels)
    }

    /// Whether the output pixels read the input pixels in order, one each.
    pub(crate) fn is_pointwise(&self) -> bool {
        self.kernel == [1, 1]
            && self.strides == [1, 1]
            && self.before == [0, 0]
            && (self.out_height, self.out_width) == (self.height, self.width)
    }
}

/// The windows of a convolution: a row for each output pixel, a tap for each position of the kernel.
pub(crate) struct Windows<'a> {
    input: &'a [f32],
    shape: Geometry,
    first_channel: usize,
    depth: usize,
}

impl<'a> Windows<'a> {
    /// The windows over `depth` channels from `first_channel` on.
    ///
    /// # Panics
    /// When `input` is not of the shape's size, or a size of it exceeds the 31 bits that window
    /// positions are computed in.
    #[inline]
    pub(crate) fn new(
        input: &'a [f32],
        shape: Geometry,
        first_channel: usize,
        depth: usize,
    ) -> Self {
        assert!(input.len() >= shape.input_len() && first_channel + depth <= shape.channels);
        assert!(fits(&shape));
        Self {
            input,
            shape,
            first_channel,
            depth,
        }
    }
}

/// Whether positions of the window fit 31 bits.
pub(crate) fn fits(shape: &Geometry) -> bool {
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

// SAFETY: `new` checked the input's size; a pointer is to a pixel inside the image, or to zeros.
unsafe impl Rows for Windows<'_> {
    fn rows(&self) -> usize {
        self.shape.pixels()
    }

    fn taps(&self) -> usize {
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
        taps: Range<usize>,
        depth: Range<usize>,
        table: &mut [RowPointers],
    ) {
        let shape = &self.shape;
        assert!(rows.end <= shape.pixels() && depth.end <= self.depth && depth.len() <= MAX_DEPTH);
        // Positions of the window's first element, and the image's first pixel, for each row.
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
        let mut ky = taps.start / shape.kernel[1];
        let mut kx = taps.start % shape.kernel[1];
        for pointers in table.iter_mut().take(taps.len()) {
            let (down, right) = (
                (ky * shape.dilations[0]) as i32,
                (kx * shape.dilations[1]) as i32,
            );
            for r in 0..MAX_ROWS {
                let (y, x) = (tops[r] + down, lefts[r] + right);
                // A negative position becomes a great unsigned one.
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

/// Windows over an image that has its padding around it in memory and whose kernel columns touch: a
/// whole row of the kernel is one piece. For images of few channels.
pub(crate) struct Strips<'a> {
    padded: &'a [f32],
    shape: Geometry,
    depth: usize,
}

impl<'a> Strips<'a> {
    /// The windows over `padded`, an image of `shape` but for its kernel's padding, which is zero.
    ///
    /// # Panics
    /// When a window reaches outside the image, the columns of the kernel do not touch, or `padded` is
    /// not of the shape's size.
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

// SAFETY: `new` checked that all windows lie inside the image, and the image in the slice.
unsafe impl Rows for Strips<'_> {
    fn rows(&self) -> usize {
        self.shape.pixels()
    }

    fn taps(&self) -> usize {
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
        taps: Range<usize>,
        depth: Range<usize>,
        table: &mut [RowPointers],
    ) {
        let shape = &self.shape;
        assert!(rows.end <= shape.pixels() && depth.end <= self.depth);
        assert!(taps.end <= shape.kernel[0]);
        let line = shape.width * shape.channels;
        let mut first = [0usize; MAX_ROWS];
        for (row, first) in rows.zip(&mut first) {
            let (x, y) = (row % shape.out_width, row / shape.out_width);
            let (y, image) = (y % shape.out_height, y / shape.out_height);
            *first = (image * shape.height + y * shape.strides[0]) * line
                + x * shape.strides[1] * shape.channels
                + depth.start;
        }
        for (tap, pointers) in taps.zip(table) {
            let down = tap * shape.dilations[0] * line;
            for (pointer, first) in pointers.iter_mut().zip(first) {
                *pointer = self.padded.as_ptr().wrapping_add(first + down);
            }
        }
    }
}
