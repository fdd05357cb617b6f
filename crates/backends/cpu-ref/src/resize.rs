//! Resizing of tensors by separable interpolation, one axis at a time.

use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, numeric, scratch, sized, unsupported_value,
};
use crate::loop_nest::{AxisExtents, AxisMaps};
use crate::number::Number;
use tenon_base::{Result, bounded, stop};
use tenon_graph::geometry::{ResizeAxis, resize_axes};
use tenon_tensor::{DataType, TensorType};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[("Resize", resize)];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// The attributes of the interpolation along one axis.
struct Interpolation {
    mode: Mode,
    coordinates: String,
    nearest: String,
    antialias: bool,
    exclude_outside: bool,
    cubic: f64,
    extrapolation: f64,
}

impl Interpolation {
    fn new(node: &Node<'_>) -> Result<Self, BuildError> {
        let attributes = node.attributes;
        let text = |name, default| attributes.string(name, default).map(str::to_owned);
        Ok(Self {
            mode: match attributes.string("mode", "nearest")? {
                "nearest" => Mode::Nearest,
                "linear" => Mode::Linear,
                "cubic" => Mode::Cubic,
                other => return Err(unsupported_value("mode", other)),
            },
            coordinates: text("coordinate_transformation_mode", "half_pixel")?,
            nearest: text("nearest_mode", "round_prefer_floor")?,
            antialias: attributes.flag("antialias", false)?,
            exclude_outside: attributes.flag("exclude_outside", false)?,
            cubic: attributes.float("cubic_coeff_a", -0.75)?.into(),
            extrapolation: attributes.float("extrapolation_value", 0.0)?.into(),
        })
    }

    /// The coordinate of an output position in the input; `None` outside of the crop. In single
    /// precision, so that coordinates that should be integers are.
    fn coordinate(
        &self,
        axis: &ResizeAxis,
        input: usize,
        at: usize,
    ) -> Result<Option<f32>, BuildError> {
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
            other => return Err(unsupported_value("coordinate_transformation_mode", other)),
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

    /// The weights of every output position of an axis.
    fn axis(&self, axis: &ResizeAxis, input: usize) -> Result<AxisWeights, BuildError> {
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
struct AxisWeights {
    /// The end of the weights of each output position.
    ends: Vec<usize>,
    all: Vec<(usize, f64)>,
}

impl AxisWeights {
    /// The number of output positions.
    fn len(&self) -> usize {
        self.ends.len()
    }

    /// The weights of output position `at`.
    fn of(&self, at: usize) -> &[(usize, f64)] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[start..self.ends[at]]
    }

    /// The weights of each output position.
    fn iter(&self) -> impl Iterator<Item = &[(usize, f64)]> {
        (0..self.len()).map(|at| self.of(at))
    }
}

/// Divides weights by their sum.
fn normalize(weights: &mut [f64]) {
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
}

/// The resize of one axis.
struct ResizePass {
    outer: usize,
    input: usize,
    inner: usize,
    weights: AxisWeights,
}

impl ResizePass {
    fn run(&self, to: &mut [f64], from: &[f64], extrapolation: f64) {
        let ResizePass {
            outer,
            input,
            inner,
            ref weights,
        } = *self;
        for row in 0..outer {
            for (at, weights) in weights.iter().enumerate() {
                stop::checkpoint();
                let to = &mut to[(row * self.weights.len() + at) * inner..][..inner];
                if weights.is_empty() {
                    to.fill(extrapolation);
                    continue;
                }
                to.fill(0.0);
                for &(source, weight) in weights {
                    let from = &from[(row * input + source) * inner..][..inner];
                    to.iter_mut()
                        .zip(from)
                        .for_each(|(to, from)| *to += weight * from);
                }
            }
        }
    }
}

fn resize(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (shape, out) = (node.shape(0)?, node.output(0)?.shape());
    let axes = resize_axes(&node.inference())?;
    let rules = Interpolation::new(node)?;
    let weights: Vec<AxisWeights> = axes
        .iter()
        .zip(&**shape)
        .map(|(axis, &n)| rules.axis(axis, n))
        .collect::<Result<_, _>>()?;
    if rules.mode == Mode::Nearest
        && weights
            .iter()
            .flat_map(AxisWeights::iter)
            .all(|weights| !weights.is_empty())
    {
        // Elements move unchanged.
        let maps = AxisMaps::new(shape, out, |axis, at| {
            weights[axis].of(at).first().map_or(0, |&(at, _)| at)
        })?;
        return sized!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
            let (inputs, mut outputs) = operands.split();
            maps.copy(outputs.slice::<T>(0)?, inputs.slice::<T>(0)?);
            Ok(())
        })));
    }
    let (passes, capacity) = passes(shape, weights)?;
    match node.dtype(0)? {
        DataType::Bool => Err(unsupported_value(
            "mode",
            "linear or cubic of bool elements",
        )),
        dtype => numeric!(dtype, 0, T => interpolation::<T>(passes, capacity, rules.extrapolation)),
    }
}

/// The passes over the axes that change, the last axis first, and the most elements between two passes.
fn passes(shape: &[usize], weights: Vec<AxisWeights>) -> Result<(Vec<ResizePass>, usize)> {
    let mut now = shape.to_vec();
    let mut capacity = elements(&now)?;
    let mut passes = Vec::new();
    for (axis, weights) in weights.into_iter().enumerate().rev() {
        let same = weights.len() == now[axis]
            && weights
                .iter()
                .enumerate()
                .all(|(at, weights)| weights == [(at, 1.0)]);
        if same {
            continue;
        }
        let AxisExtents {
            outer,
            extent,
            inner,
        } = AxisExtents::new(&now, axis);
        now[axis] = weights.len();
        capacity = capacity.max(elements(&now)?);
        passes.push(ResizePass {
            outer,
            input: extent,
            inner,
            weights,
        });
    }
    Ok((passes, capacity))
}

/// The number of elements between two passes, in f64.
fn elements(shape: &[usize]) -> Result<usize> {
    TensorType::new(DataType::F64, shape).map(|ty| ty.elements())
}

fn interpolation<T: Number>(
    passes: Vec<ResizePass>,
    capacity: usize,
    extrapolation: f64,
) -> Result<Kernel, BuildError> {
    Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let (mut now, mut next) =
            scratch::<f64>(&mut outputs, 2 * capacity)?.split_at_mut(capacity);
        now.iter_mut()
            .zip(from)
            .for_each(|(to, from)| *to = from.to_f64());
        for pass in &passes {
            pass.run(next, now, extrapolation);
            std::mem::swap(&mut now, &mut next);
        }
        to.iter_mut()
            .zip(now)
            .for_each(|(to, from)| *to = T::from_f64(*from));
        Ok(())
    })
    .with_scratch(2 * capacity)
}
