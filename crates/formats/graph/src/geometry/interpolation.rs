//! Interpolation of `Resize`: the input positions and weights of each output position of an axis.

use super::ResizeAxis;
use crate::Attributes;
use crate::ops::shapes::invalid;
use tenon_base::{Error, Result, bounded, stop};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// The interpolation of `Resize` along an axis, from the attributes of the node.
#[derive(Debug, Clone)]
pub struct Interpolation {
    mode: Mode,
    coordinates: String,
    nearest: String,
    antialias: bool,
    exclude_outside: bool,
    cubic: f64,
    /// The value outside of the crop.
    pub extrapolation: f64,
}

impl Interpolation {
    /// The interpolation of a node with these attributes.
    pub fn new(attributes: &Attributes) -> Result<Self> {
        let text = |name, default| attributes.string(name, default).map(str::to_owned);
        Ok(Self {
            mode: match attributes.string("mode", "nearest")? {
                "nearest" => Mode::Nearest,
                "linear" => Mode::Linear,
                "cubic" => Mode::Cubic,
                other => return Err(unknown("mode", other)),
            },
            coordinates: text("coordinate_transformation_mode", "half_pixel")?,
            nearest: text("nearest_mode", "round_prefer_floor")?,
            antialias: attributes.flag("antialias", false)?,
            exclude_outside: attributes.flag("exclude_outside", false)?,
            cubic: attributes.float("cubic_coeff_a", -0.75)?.into(),
            extrapolation: attributes.float("extrapolation_value", 0.0)?.into(),
        })
    }

    /// Whether elements are moved unchanged where the output has a weight.
    pub fn is_nearest(&self) -> bool {
        self.mode == Mode::Nearest
    }

    /// The coordinate of an output position in the input; `None` outside of the crop. In single
    /// precision, so that coordinates that should be integers are.
    fn coordinate(&self, axis: &ResizeAxis, input: usize, at: usize) -> Result<Option<f32>> {
        let (x, length, scale) = (at as f32, input as f32, axis.scale);
        let resized = scale * length;
        Ok(Some(match self.coordinates.as_str() {
            "half_pixel" => (x + 0.5) / scale - 0.5,
            "pytorch_half_pixel" if axis.output == 1 => -0.5,
            "pytorch_half_pixel" => (x + 0.5) / scale - 0.5,
            "asymmetric" => x / scale,
            "align_corners" if axis.output == 1 => 0.0,
            "align_corners" => x * (length - 1.0) / (resized - 1.0),
            "half_pixel_symmetric" => {
                let offset = length / 2.0 * (1.0 - axis.output as f32 / resized);
                offset + (x + 0.5) / scale - 0.5
            }
            "tf_crop_and_resize" => {
                let (start, end) = axis.roi;
                let last = length - 1.0;
                let x = if axis.output == 1 {
                    0.5 * (start + end) * last
                } else {
                    start * last + x * (end - start) * last / (axis.output as f32 - 1.0)
                };
                return Ok((0.0..=last).contains(&x).then_some(x));
            }
            other => return Err(unknown("coordinate_transformation_mode", other)),
        }))
    }

    /// The weights of the elements around a coordinate, and the offset of the first of them from the
    /// element below it; `ratio` is the distance from that element.
    fn weights(&self, ratio: f64, scale: f64) -> Result<(i64, Vec<f64>)> {
        let scale = if self.antialias { scale.min(1.0) } else { 1.0 };
        let reach = match self.mode {
            Mode::Nearest => return Ok((0, self.nearest(ratio).to_vec())),
            Mode::Linear => 1.0,
            Mode::Cubic => 2.0,
        };
        let first = (-reach / scale).floor() as i64 + 1;
        let count = 2i64.saturating_sub(first).saturating_sub(first);
        let mut weights = bounded::with_capacity("weights of a position", count as usize)?;
        weights.extend((first..first.saturating_add(count)).map(|at| {
            let x = ((at as f64 - ratio) * scale).abs();
            if self.mode == Mode::Linear {
                (1.0 - x).max(0.0)
            } else {
                self.cubic(x)
            }
        }));
        if self.antialias {
            normalize(&mut weights);
        }
        Ok((first, weights))
    }

    fn nearest(&self, ratio: f64) -> [f64; 2] {
        let upper = match self.nearest.as_str() {
            _ if ratio == 1.0 => true,
            "round_prefer_floor" => ratio > 0.5,
            "round_prefer_ceil" => ratio >= 0.5,
            "ceil" => true,
            _ => false,
        };
        if upper { [0.0, 1.0] } else { [1.0, 0.0] }
    }

    /// The cubic convolution kernel (Keys 1981).
    fn cubic(&self, x: f64) -> f64 {
        let a = self.cubic;
        if x <= 1.0 {
            ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
        } else if x < 2.0 {
            ((x - 5.0) * x + 8.0) * a * x - 4.0 * a
        } else {
            0.0
        }
    }

    /// The weights of every output position of an axis of extent `input`.
    pub fn axis(&self, axis: &ResizeAxis, input: usize) -> Result<AxisWeights> {
        let mut weights = AxisWeights {
            ends: bounded::with_capacity(POSITIONS, axis.output)?,
            all: bounded::with_capacity(POSITIONS, axis.output)?,
        };
        for at in 0..axis.output {
            stop::checkpoint();
            if let Some(x) = self.coordinate(axis, input, at)? {
                self.position(x.into(), axis.scale.into(), input, &mut weights.all)?;
            }
            weights.ends.push(weights.all.len());
        }
        Ok(weights)
    }

    /// Appends the weights of the output position at coordinate `x` of the input.
    fn position(
        &self,
        x: f64,
        scale: f64,
        input: usize,
        all: &mut Vec<(usize, f64)>,
    ) -> Result<()> {
        // An integer coordinate is its own upper neighbour.
        let below = x.ceil() - 1.0;
        let (first, mut weights) = self.weights(x - below, scale)?;
        let first = (below as i64).saturating_add(first);
        if self.exclude_outside {
            for (weight, at) in weights.iter_mut().zip(first..) {
                let inside = (0..input as i64).contains(&at);
                *weight = if inside { *weight } else { 0.0 };
            }
            normalize(&mut weights);
        }
        let clamped = |at: i64| at.clamp(0, (input as i64 - 1).max(0)) as usize;
        let weights = weights.into_iter().zip(first..);
        for (weight, at) in weights.filter(|&(weight, _)| weight != 0.0) {
            bounded::reserve(POSITIONS, all, 1)?;
            all.push((clamped(at), weight));
        }
        Ok(())
    }
}

const POSITIONS: &str = "positions of a resized dimension";

/// The input positions and their weights for each output position of an axis; none outside of the crop.
#[derive(Debug, Clone)]
pub struct AxisWeights {
    /// The end of the weights of each output position.
    ends: Vec<usize>,
    all: Vec<(usize, f64)>,
}

impl AxisWeights {
    /// The number of output positions.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the axis has no output positions.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Whether the axis, of extent `input`, is unchanged.
    pub fn is_identity(&self, input: usize) -> bool {
        let mut all = self.iter().enumerate();
        self.len() == input && all.all(|(at, weights)| weights == [(at, 1.0)])
    }

    /// The weights of output position `at`.
    pub fn of(&self, at: usize) -> &[(usize, f64)] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[start..self.ends[at]]
    }

    /// The weights of each output position.
    pub fn iter(&self) -> impl Iterator<Item = &[(usize, f64)]> {
        (0..self.len()).map(|at| self.of(at))
    }
}

/// Divides weights by their sum.
fn normalize(weights: &mut [f64]) {
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
}

/// The error of an attribute's value.
pub(super) fn unknown(attribute: &str, found: &str) -> Error {
    invalid(format!("attribute '{attribute}' has an unknown value"))
        .found(format_args!("'{found}'"))
}
