//! The rows of A: a matrix in memory, or the im2col rows of a convolution, which are never stored:
//! implicit GEMM by indirection (Dukhan, "The Indirect Convolution Algorithm", 2019), with one pointer
//! for each row and kernel position.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::tile::{MAX_ROWS, RowPointers};
use std::ops::Range;

/// Most words of 32 bits of a row that are read at one kernel position, and so the length of the row of zeros
/// that padding is read from.
pub(crate) const MAX_DEPTH: usize = 1024;

/// The elements of padding, of any type.
static ZEROS: [[f32; 2]; MAX_DEPTH] = [[0.0; 2]; MAX_DEPTH];

/// The pointer that means padding: to [`MAX_DEPTH`] words of 0.
pub(super) fn padding<T>() -> *const T {
    const { assert!(size_of::<T>() <= size_of::<[f32; 2]>() && align_of::<T>() <= align_of::<f32>()) };
    ZEROS.as_ptr().cast()
}

/// The rows of A. A row has `depth` contiguous elements at each of its kernel positions, which need
/// not be adjacent in memory.
///
/// # Safety
/// Pointers that `point` writes are valid for reading `depth.len()` elements while the source is
/// borrowed.
pub(crate) unsafe trait RowSource: Sync {
    /// The type of elements.
    type Element;
    /// Number of rows.
    fn rows(&self) -> usize;
    /// Number of kernel positions of a row.
    fn positions(&self) -> usize;
    /// Elements of a row at each position.
    fn depth(&self) -> usize;
    /// Elements of memory that all rows together read, for deciding how to divide the work.
    fn footprint(&self) -> usize;
    /// Whether padding is read from [`padding`].
    fn pads_with_zeros(&self) -> bool {
        false
    }
    /// Writes pointers to rows `rows` (at most [`MAX_ROWS`]) at the start of `depth`, for each of
    /// `positions`. The depth range is at most [`MAX_DEPTH`] words long.
    fn point(
        &self,
        rows: Range<usize>,
        positions: Range<usize>,
        depth: Range<usize>,
        table: &mut [RowPointers<Self::Element>],
    );
}

/// The rows of a matrix in memory.
pub(crate) struct Matrix<'a, T = f32> {
    elements: &'a [T],
    rows: usize,
    depth: usize,
    stride: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// `rows` rows of `depth` elements, `stride` apart.
    ///
    /// # Panics
    /// When `elements` is too short.
    #[inline]
    pub(crate) fn new(elements: &'a [T], rows: usize, depth: usize, stride: usize) -> Self {
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
unsafe impl<T: Sync> RowSource for Matrix<'_, T> {
    type Element = T;

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
        table: &mut [RowPointers<Self::Element>],
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

/// The shape of a convolution or pool over images with the channels last (NDHWC). The axes are depth,
/// height and width; images of one or two dimensions have an extent of 1 in the leading axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) images: usize,
    /// Extents of an image.
    pub(crate) size: [usize; 3],
    /// Elements from a pixel to the next: all channels, of all groups.
    pub(crate) channels: usize,
    pub(crate) kernel: [usize; 3],
    pub(crate) strides: [usize; 3],
    pub(crate) dilations: [usize; 3],
    /// Padding before the first pixel of each axis.
    pub(crate) before: [usize; 3],
    /// Padding after the last pixel of each axis.
    pub(crate) after: [usize; 3],
    /// Extents of an image of the output.
    pub(crate) output: [usize; 3],
}

impl Geometry {
    /// Number of output pixels.
    pub(crate) fn pixels(&self) -> usize {
        self.images * self.output.iter().product::<usize>()
    }

    /// Number of kernel positions.
    pub(crate) fn positions(&self) -> usize {
        self.kernel.iter().product()
    }

    /// Elements of the input.
    pub(crate) fn input_len(&self) -> usize {
        // Saturating: padding may make an image larger than memory.
        let extents = [self.images].into_iter().chain(self.size);
        extents.fold(self.channels, usize::saturating_mul)
    }

    /// Whether each output pixel reads the one input pixel of the same index.
    pub(crate) fn is_pointwise(&self) -> bool {
        self.kernel == [1; 3]
            && self.strides == [1; 3]
            && self.before == [0; 3]
            && self.output == self.size
    }
}

/// The im2col rows of a convolution: a row for each output pixel, with a pixel of the input for each
/// kernel position.
pub(crate) struct Im2col<'a, T = f32> {
    input: &'a [T],
    shape: Geometry,
    /// The coordinates that the first output pixel reads at the first kernel position.
    origin: [i32; 3],
    first_channel: usize,
    depth: usize,
    /// The pixel that padding is read from, if not zeros.
    padding: Option<&'a [T]>,
}

impl<'a, T> Im2col<'a, T> {
    /// The rows over `depth` channels from `first_channel` on, of windows that start at `origin`; the
    /// padding of `shape` is not used.
    ///
    /// # Panics
    /// When `input` is shorter than the shape, or window coordinates exceed the 31 bits that they are
    /// computed in.
    #[inline]
    pub(crate) fn new(
        input: &'a [T],
        shape: Geometry,
        origin: [i32; 3],
        first_channel: usize,
        depth: usize,
    ) -> Self {
        assert!(input.len() >= shape.input_len() && first_channel + depth <= shape.channels);
        assert!(fits_i32(&shape));
        let reach = |axis: usize| {
            let windows = shape.output[axis].saturating_sub(1) * shape.strides[axis];
            let window = shape.kernel[axis].saturating_sub(1) * shape.dilations[axis];
            i64::from(origin[axis]) + (windows + window) as i64
        };
        assert!((0..3).all(|axis| reach(axis) <= i64::from(i32::MAX)));
        Self {
            input,
            shape,
            origin,
            first_channel,
            depth,
            padding: None,
        }
    }

    /// The same with a pixel that padding is read from.
    ///
    /// # Panics
    /// When the pixel has fewer channels.
    pub(crate) fn with_padding(self, pixel: &'a [T]) -> Self {
        assert!(pixel.len() >= self.depth);
        let padding = Some(pixel);
        Self { padding, ..self }
    }
}

/// Whether the coordinates of all windows fit an `i32`.
pub(crate) fn fits_i32(shape: &Geometry) -> bool {
    let reach = |axis: usize| {
        let extent = shape.strides[axis].checked_mul(shape.output[axis])?;
        let kernel = shape.kernel[axis].checked_mul(shape.dilations[axis])?;
        shape.size[axis]
            .checked_add(extent)?
            .checked_add(kernel)?
            .checked_add(shape.before[axis])
    };
    (0..3).all(|axis| reach(axis).is_some_and(|reach| reach <= i32::MAX as usize))
}

/// The coordinates of a pixel of an image.
#[derive(Clone, Copy)]
pub(super) struct Pixel {
    pub(super) image: usize,
    pub(super) at: [usize; 3],
}

impl Pixel {
    /// Pixel `index` of images of the extents `size`.
    #[inline(always)]
    pub(super) fn new(index: usize, [depth, height, width]: [usize; 3]) -> Self {
        let (line, x) = (index / width, index % width);
        let (plane, y) = (line / height, line % height);
        // Most images have two dimensions.
        let (image, z) = if depth == 1 {
            (plane, 0)
        } else {
            (plane / depth, plane % depth)
        };
        Self {
            image,
            at: [z, y, x],
        }
    }

    /// The next pixel.
    #[inline(always)]
    pub(super) fn next(mut self, [depth, height, width]: [usize; 3]) -> Self {
        let [z, y, x] = &mut self.at;
        *x += 1;
        if *x == width {
            *x = 0;
            *y += 1;
            if *y == height {
                *y = 0;
                *z += 1;
                if *z == depth {
                    *z = 0;
                    self.image += 1;
                }
            }
        }
        self
    }
}

// SAFETY: `new` checked that the input holds the shape and that `depth` channels from `first_channel`
// on are within a pixel. `point` asserts that the depth range is among them, and writes the address of
// a pixel only when its coordinates are inside the image, else that of a pixel which has `depth` elements
// (`with_padding`), or of `padding`, which has `MAX_DEPTH` words, and asserts that the range is no longer.
unsafe impl<T: Sync> RowSource for Im2col<'_, T> {
    type Element = T;

    fn rows(&self) -> usize {
        self.shape.pixels()
    }

    fn positions(&self) -> usize {
        self.shape.positions()
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn footprint(&self) -> usize {
        self.shape.images * self.shape.size.iter().product::<usize>() * self.depth
    }

    fn pads_with_zeros(&self) -> bool {
        self.padding.is_none()
    }

    #[inline(always)]
    fn point(
        &self,
        rows: Range<usize>,
        positions: Range<usize>,
        depth: Range<usize>,
        table: &mut [RowPointers<Self::Element>],
    ) {
        let shape = &self.shape;
        assert!(rows.end <= shape.pixels() && depth.end <= self.depth);
        let padding = match self.padding {
            Some(pixel) => pixel.as_ptr(),
            None => {
                assert!(depth.len() * size_of::<T>() <= size_of_val(&ZEROS));
                padding()
            }
        };
        if positions.is_empty() {
            return;
        }
        let [planes, height, width] = shape.size;
        // Coordinates of the window's first pixel, and the image's first plane, for each row.
        let mut corners = [[0i32; MAX_ROWS]; 3];
        let mut images = [0usize; MAX_ROWS];
        let mut pixel = Pixel::new(rows.start, shape.output);
        for r in 0..rows.len().min(MAX_ROWS) {
            for (axis, corners) in corners.iter_mut().enumerate() {
                corners[r] = (pixel.at[axis] * shape.strides[axis]) as i32 + self.origin[axis];
            }
            images[r] = pixel.image * planes;
            pixel = pixel.next(shape.output);
        }
        let start = self
            .input
            .as_ptr()
            .wrapping_add(self.first_channel + depth.start);
        let [_, kernel_height, kernel_width] = shape.kernel;
        let mut kx = positions.start % kernel_width;
        let mut kernel_row = positions.start / kernel_width;
        // The offset of the window's first column in the line that a kernel row reads, and the line's
        // width, which is 0 outside the image.
        let (mut lines, mut widths) = ([0usize; MAX_ROWS], [0u32; MAX_ROWS]);
        let mut is_new_row = true;
        for pointers in table.iter_mut().take(positions.len()) {
            if is_new_row {
                let (kz, ky) = (kernel_row / kernel_height, kernel_row % kernel_height);
                let down = (ky * shape.dilations[1]) as i32;
                let back = (kz * shape.dilations[0]) as i32;
                for r in 0..MAX_ROWS {
                    let (z, y) = (corners[0][r] + back, corners[1][r] + down);
                    // A negative coordinate becomes a large unsigned one.
                    let inside = ((z as u32) < planes as u32) & ((y as u32) < height as u32);
                    widths[r] = if inside { width as u32 } else { 0 };
                    lines[r] = images[r]
                        .wrapping_add(z as usize)
                        .wrapping_mul(height)
                        .wrapping_add(y as usize)
                        .wrapping_mul(width)
                        .wrapping_add(corners[2][r] as usize)
                        .wrapping_mul(shape.channels);
                }
            }
            let right = kx * shape.dilations[2];
            let offset = start.wrapping_add(right * shape.channels);
            for r in 0..MAX_ROWS {
                let inside = ((corners[2][r] + right as i32) as u32) < widths[r];
                let address = offset.wrapping_add(lines[r]);
                pointers[r] = if inside { address } else { padding };
            }
            kx += 1;
            is_new_row = kx == kernel_width;
            if is_new_row {
                kx = 0;
                kernel_row += 1;
            }
        }
    }
}

/// The im2col rows over an image that is stored with its padding, where the columns of the kernel are
/// adjacent: a whole row of the kernel is contiguous and counts as one position. For images of few
/// channels.
pub(crate) struct PaddedIm2col<'a, T = f32> {
    padded: &'a [T],
    shape: Geometry,
    depth: usize,
}

impl<'a, T> PaddedIm2col<'a, T> {
    /// The rows over `padded`, an image of `shape`, whose padding is 0.
    ///
    /// # Panics
    /// When a window extends beyond the image, the columns of the kernel are not adjacent, or `padded`
    /// is shorter than the shape.
    #[inline]
    pub(crate) fn new(padded: &'a [T], shape: Geometry) -> Self {
        assert!(padded.len() >= shape.input_len() && shape.before == [0; 3]);
        let last = |axis: usize| {
            let start = shape.output[axis].saturating_sub(1) * shape.strides[axis];
            start + (shape.kernel[axis] - 1) * shape.dilations[axis]
        };
        assert!((0..3).all(|axis| last(axis) < shape.size[axis]));
        assert!(shape.dilations[2] == 1 || shape.kernel[2] == 1);
        Self {
            padded,
            shape,
            depth: shape.kernel[2] * shape.channels,
        }
    }
}

// SAFETY: `new` checked that all windows are inside the image, and the image inside the slice; `point`
// asserts that rows, positions and depth range are those of a window.
unsafe impl<T: Sync> RowSource for PaddedIm2col<'_, T> {
    type Element = T;

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
        self.shape.input_len()
    }

    #[inline(always)]
    fn point(
        &self,
        rows: Range<usize>,
        positions: Range<usize>,
        depth: Range<usize>,
        table: &mut [RowPointers<Self::Element>],
    ) {
        let shape = &self.shape;
        assert!(rows.end <= shape.pixels() && depth.end <= self.depth);
        assert!(positions.end <= self.positions());
        let line = shape.size[2] * shape.channels;
        let plane = shape.size[1] * line;
        let mut first = [0usize; MAX_ROWS];
        let mut pixel = Pixel::new(rows.start, shape.output);
        for first in first.iter_mut().take(rows.len()) {
            let [z, y, x] = pixel.at;
            *first = (pixel.image * shape.size[0] + z * shape.strides[0]) * plane
                + y * shape.strides[1] * line
                + x * shape.strides[2] * shape.channels
                + depth.start;
            pixel = pixel.next(shape.output);
        }
        for (position, pointers) in positions.zip(table) {
            let (kz, ky) = (position / shape.kernel[1], position % shape.kernel[1]);
            let down = kz * shape.dilations[0] * plane + ky * shape.dilations[1] * line;
            for (pointer, first) in pointers.iter_mut().zip(first) {
                *pointer = self.padded.as_ptr().wrapping_add(first + down);
            }
        }
    }
}
