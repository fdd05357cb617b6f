//! Regions of images whose corners are read at run time (`RoiAlign`, `MaxRoiPool`): the samples and the
//! pixels of their cells.

use crate::Attributes;
use std::ops::Range;
use tenon_base::{Error, ErrorKind, Result};

/// Most samples along a side of a cell: bounds the time of a region that is read at run time.
const MAX_SAMPLES: f64 = 65536.0;

/// The samples of regions of `RoiAlign`.
#[derive(Debug, Clone, Copy)]
pub struct RegionSampling {
    /// From coordinates of regions to pixels.
    scale: f64,
    shift: f64,
    /// The least side of a region.
    least: f64,
    /// Samples along a side of a cell; 0: as many as pixels.
    samples: usize,
}

impl RegionSampling {
    /// The samples of a node with these attributes.
    pub fn new(attributes: &Attributes) -> Result<Self> {
        let mode = attributes.string("coordinate_transformation_mode", "half_pixel")?;
        // Without the shift by half a pixel, regions have at least the size of a pixel.
        let (shift, least) = if mode == "half_pixel" {
            (0.5, f64::MIN)
        } else {
            (0.0, 1.0)
        };
        Ok(Self {
            scale: attributes.float("spatial_scale", 1.0)?.into(),
            shift,
            least,
            samples: attributes.int("sampling_ratio", 0)?.max(0) as usize,
        })
    }

    /// The side of a region from `start` to `end`, which is divided into `cells`.
    pub fn side(&self, start: f64, end: f64, cells: usize) -> Result<RegionSide> {
        let pixel = |at: f64| at * self.scale - self.shift;
        let (start, end) = (pixel(start), pixel(end));
        let cell = (end - start).max(self.least) / cells as f64;
        let samples = if self.samples > 0 {
            self.samples as f64
        } else {
            cell.ceil().max(0.0)
        };
        if !(start.is_finite() && samples <= MAX_SAMPLES) {
            return Err(
                Error::new(ErrorKind::OutOfBounds, "a region is too large or NaN")
                    .expected(format_args!(
                        "at most {MAX_SAMPLES} samples along a side of a cell"
                    ))
                    .found(format_args!("{start} to {end}")),
            );
        }
        Ok(RegionSide {
            start,
            cell,
            samples: samples as usize,
        })
    }
}

/// One side of a region of `RoiAlign`, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RegionSide {
    start: f64,
    /// The size of a cell.
    cell: f64,
    samples: usize,
}

impl RegionSide {
    /// The samples of each cell along the side.
    #[inline]
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// The coordinate of a sample of a cell.
    #[inline]
    pub fn sample(&self, cell: usize, nth: usize) -> f64 {
        self.start + (cell as f64 + (nth as f64 + 0.5) / self.samples as f64) * self.cell
    }
}

/// The pixels of cell `nth` of `cells` along a side of a region of `MaxRoiPool`, from pixel `start` to
/// pixel `end`, in an image of `extent` pixels. Cells overlap where the side is not divisible by them.
pub fn pooled_pixels(
    [start, end]: [f64; 2],
    nth: usize,
    cells: usize,
    extent: usize,
) -> Range<usize> {
    let size = (end - start + 1.0).max(1.0) / cells as f64;
    let pixel = |at: f64| (at + start).clamp(0.0, extent as f64) as usize;
    pixel((nth as f64 * size).floor())..pixel(((nth + 1) as f64 * size).ceil())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_of_too_many_samples_are_refused() {
        let sampling = |samples| RegionSampling {
            scale: 1.0,
            shift: 0.0,
            least: 0.0,
            samples,
        };
        assert!(sampling(0).side(0.0, 1e30, 1).is_err());
        assert!(sampling(2).side(f64::NAN, 1.0, 1).is_err());
        let side = sampling(0).side(1.0, 5.0, 2).unwrap();
        assert_eq!((side.start, side.cell, side.samples), (1.0, 2.0, 2));
    }

    #[test]
    fn cells_overlap_where_a_side_is_not_divisible() {
        let pixels: Vec<_> = (0..2)
            .map(|nth| pooled_pixels([1.0, 3.0], nth, 2, 4))
            .collect();
        assert_eq!(pixels, [1..3, 2..4]);
    }
}
