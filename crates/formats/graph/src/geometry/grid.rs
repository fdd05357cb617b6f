//! Sampling of images at the coordinates of a grid (`GridSample`).

use super::interpolation::unknown;
use crate::Attributes;
use tenon_base::Result;

/// The interpolation of `GridSample`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sampling {
    Nearest,
    Linear,
    Cubic,
}

/// The values outside of the image of `GridSample`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// One axis of an image that `GridSample` reads.
#[derive(Debug, Clone, Copy)]
pub struct SampledAxis {
    extent: usize,
    corners: bool,
    sampling: Sampling,
    padding: Padding,
}

impl SampledAxis {
    /// An axis of `extent` pixels, at least one, of a node with these attributes.
    pub fn new(attributes: &Attributes, extent: usize) -> Result<Self> {
        Ok(Self {
            extent,
            corners: attributes.flag("align_corners", false)?,
            sampling: match attributes.string("mode", "linear")? {
                "linear" => Sampling::Linear,
                "nearest" => Sampling::Nearest,
                "cubic" => Sampling::Cubic,
                other => return Err(unknown("mode", other)),
            },
            padding: match attributes.string("padding_mode", "zeros")? {
                "zeros" => Padding::Zeros,
                "border" => Padding::Border,
                "reflection" => Padding::Reflection,
                other => return Err(unknown("padding_mode", other)),
            },
        })
    }

    /// Most pixels that have a weight at a coordinate.
    pub fn samples(&self) -> usize {
        match self.sampling {
            Sampling::Nearest => 1,
            Sampling::Linear => 2,
            Sampling::Cubic => 4,
        }
    }

    /// Whether [`SampledAxis::linear`] computes the pixels around a coordinate.
    pub fn is_linear(&self) -> bool {
        self.sampling == Sampling::Linear && self.padding != Padding::Reflection
    }

    /// [`SampledAxis::weights`] of an axis that [is linear](SampledAxis::is_linear), without branches, for loops
    /// that the compiler vectorises: the two pixels, -1 for none, and their weights.
    #[inline(always)]
    pub fn linear(&self, coordinate: f64) -> [(f64, f64); 2] {
        let x = self.pixel(coordinate);
        let last = self.extent as f64 - 1.0;
        let [low, high] = self.border();
        let is_border = self.padding == Padding::Border;
        let clamp = |x: f64| {
            // 0 for NaN.
            let x = if x > 0.0 { x } else { 0.0 };
            if x < last { x } else { last }
        };
        let is_between = (low <= x) & (x <= high);
        let x = if is_border & !is_between { clamp(x) } else { x };
        let below = x.floor();
        let ratio = x - below;
        [(below, 1.0 - ratio), (below + 1.0, ratio)].map(|(at, weight)| {
            let at = if is_border { clamp(at) } else { at };
            let is_pixel = (at >= 0.0) & (at <= last) & (weight != 0.0);
            (if is_pixel { at } else { -1.0 }, weight)
        })
    }

    /// From [-1, 1] to pixels.
    #[inline(always)]
    fn pixel(&self, x: f64) -> f64 {
        let extent = self.extent as f64;
        if self.corners {
            (x + 1.0) / 2.0 * (extent - 1.0)
        } else {
            ((x + 1.0) * extent - 1.0) / 2.0
        }
    }

    #[inline(always)]
    fn border(&self) -> [f64; 2] {
        let extent = self.extent as f64;
        if self.corners {
            [0.0, extent - 1.0]
        } else {
            [-0.5, extent - 0.5]
        }
    }

    /// Reflects a coordinate at the borders until it is between them.
    fn reflected(&self, x: f64) -> f64 {
        let [low, high] = self.border();
        let span = high - low;
        if span <= 0.0 || !x.is_finite() {
            return 0.0;
        }
        let over = (x - low).rem_euclid(2.0 * span);
        low + if over > span { 2.0 * span - over } else { over }
    }

    /// The coordinate after padding by border or reflection.
    fn padded(&self, x: f64) -> f64 {
        let [low, high] = self.border();
        match self.padding {
            _ if (low..=high).contains(&x) => x,
            Padding::Zeros => x,
            Padding::Border if x.is_nan() => 0.0,
            Padding::Border => x.clamp(0.0, self.extent as f64 - 1.0),
            Padding::Reflection => self.reflected(x),
        }
    }

    /// The pixel at an integer coordinate; `None` in zero padding.
    fn pixel_at(&self, at: f64) -> Option<usize> {
        let last = self.extent as f64 - 1.0;
        let at = match self.padding {
            Padding::Zeros => at,
            Padding::Border => at.clamp(0.0, last),
            Padding::Reflection if (0.0..=last).contains(&at) => at,
            Padding::Reflection => self.reflected(at).trunc().clamp(0.0, last),
        };
        (0.0..=last).contains(&at).then_some(at as usize)
    }

    /// The pixels around a coordinate of the grid, in [-1, 1] where it is inside, and their weights.
    pub fn weights(&self, coordinate: f64) -> [(Option<usize>, f64); 4] {
        let x = self.pixel(coordinate);
        let mut pixels = [(None, 0.0); 4];
        if self.sampling == Sampling::Nearest {
            pixels[0] = (self.pixel_at(self.padded(x.round_ties_even())), 1.0);
            return pixels;
        }
        let x = self.padded(x);
        let below = x.floor();
        let ratio = x - below;
        let (first, weights) = match self.sampling {
            Sampling::Cubic => (-1.0, cubic(ratio)),
            _ => (0.0, [1.0 - ratio, ratio, 0.0, 0.0]),
        };
        for (nth, weight) in weights
            .into_iter()
            .enumerate()
            .filter(|(_, weight)| *weight != 0.0)
        {
            pixels[nth] = (self.pixel_at(below + first + nth as f64), weight);
        }
        pixels
    }
}

/// Weights of the cubic convolution kernel (Keys 1981) with coefficient -0.75.
fn cubic(ratio: f64) -> [f64; 4] {
    const A: f64 = -0.75;
    let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    [
        far(ratio + 1.0),
        near(ratio),
        near(1.0 - ratio),
        far(2.0 - ratio),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_pixels_are_those_with_weights() {
        for extent in [1, 2, 7] {
            for corners in [false, true] {
                for padding in [Padding::Zeros, Padding::Border] {
                    let axis = SampledAxis {
                        extent,
                        corners,
                        sampling: Sampling::Linear,
                        padding,
                    };
                    let steps = (-60..=60).map(|step| f64::from(step) / 32.0);
                    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300];
                    for coordinate in steps.chain(special) {
                        let expected = axis.weights(coordinate);
                        for (found, expected) in axis.linear(coordinate).iter().zip(expected) {
                            let (pixel, weight) = expected;
                            assert_eq!(found.0, pixel.map_or(-1.0, |pixel| pixel as f64));
                            assert!(pixel.is_none() || found.1 == weight, "{coordinate}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn positions_reflect_at_borders() {
        let axis = SampledAxis {
            extent: 3,
            corners: true,
            sampling: Sampling::Linear,
            padding: Padding::Reflection,
        };
        let pixels: Vec<_> = (-3..6)
            .map(|at| axis.pixel_at(f64::from(at)).unwrap())
            .collect();
        assert_eq!(pixels, [1, 2, 1, 0, 1, 2, 1, 0, 1]);
        assert_eq!(axis.padded(f64::NAN), 0.0);
    }
}
