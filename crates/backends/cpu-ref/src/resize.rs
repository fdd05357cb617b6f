//! Resizing of tensors by interpolation, one axis after the other.

use crate::kernel::{Build, Kernel, Node, Stop, no_value, numbers, scratch, sized};
use crate::nest::{Along, Maps};
use crate::number::Number;
use tenon_base::{Result, bounded, stop};
use tenon_graph::geometry::{ResizeAxis, resize_axes};
use tenon_tensor::{DataType, TensorType};

pub(crate) static KERNELS: &[(&str, Build)] = &[("Resize", resize)];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// How an output's elements are made of an input's along one axis.
struct Rules {
    mode: Mode,
    coordinates: String,
    nearest: String,
    antialias: bool,
    exclude_outside: bool,
    cubic: f64,
    extrapolation: f64,
}

impl Rules {
    fn new(node: &Node<'_>) -> Result<Self, Stop> {
        let attributes = node.attributes;
        let text = |name, default| attributes.string(name, default).map(str::to_owned);
        Ok(Self {
            mode: match attributes.string("mode", "nearest")? {
                "nearest" => Mode::Nearest,
                "linear" => Mode::Linear,
                "cubic" => Mode::Cubic,
                other => return Err(no_value("mode", other)),
            },
            coordinates: text("coordinate_transformation_mode", "half_pixel")?,
            nearest: text("nearest_mode", "round_prefer_floor")?,
            antialias: attributes.flag("antialias", false)?,
            exclude_outside: attributes.flag("exclude_outside", false)?,
            cubic: attributes.float("cubic_coeff_a", -0.75)?.into(),
            extrapolation: attributes.float("extrapolation_value", 0.0)?.into(),
        })
    }

    /// Where an output's element lies in the input; `None` outside what is cropped. In single
    /// precision, so that positions meant to be whole are.
    fn coordinate(&self, axis: &ResizeAxis, input: usize, at: usize) -> Result<Option<f32>, Stop> {
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
            other => return Err(no_value("coordinate_transformation_mode", other)),
        }))
    }

    /// The weights of the elements around a position, the first of which lies `first` after the
    /// element below it; `ratio` is the distance from that one.
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
            divide(&mut weights);
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

    /// What every output of an axis is made of.
    fn axis(&self, axis: &ResizeAxis, input: usize) -> Result<Taps, Stop> {
        let mut taps = Taps {
            ends: bounded::with_capacity(POSITIONS, axis.output)?,
            all: bounded::with_capacity(POSITIONS, axis.output)?,
        };
        for at in 0..axis.output {
            stop::checkpoint();
            if let Some(x) = self.coordinate(axis, input, at)? {
                self.position(x.into(), axis.scale.into(), input, &mut taps.all)?;
            }
            taps.ends.push(taps.all.len());
        }
        Ok(taps)
    }

    /// Adds what the output at position `x` of the input is made of.
    fn position(
        &self,
        x: f64,
        scale: f64,
        input: usize,
        all: &mut Vec<(usize, f64)>,
    ) -> Result<()> {
        // A whole position has itself as the upper neighbour.
        let below = x.ceil() - 1.0;
        let (first, mut weights) = self.weights(x - below, scale)?;
        let first = (below as i64).saturating_add(first);
        if self.exclude_outside {
            for (weight, at) in weights.iter_mut().zip(first..) {
                let inside = (0..input as i64).contains(&at);
                *weight = if inside { *weight } else { 0.0 };
            }
            divide(&mut weights);
        }
        let held = |at: i64| at.clamp(0, (input as i64 - 1).max(0)) as usize;
        let taps = weights.into_iter().zip(first..);
        for (weight, at) in taps.filter(|&(weight, _)| weight != 0.0) {
            bounded::reserve(POSITIONS, all, 1)?;
            all.push((held(at), weight));
        }
        Ok(())
    }
}

const POSITIONS: &str = "positions of a resized dimension";

/// Positions in the input and weights, for each output of an axis; none outside of what is cropped.
struct Taps {
    /// Where those of each output end.
    ends: Vec<usize>,
    all: Vec<(usize, f64)>,
}

impl Taps {
    /// Outputs.
    fn len(&self) -> usize {
        self.ends.len()
    }

    /// What the output at `at` is made of.
    fn of(&self, at: usize) -> &[(usize, f64)] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[start..self.ends[at]]
    }

    /// What each output is made of.
    fn iter(&self) -> impl Iterator<Item = &[(usize, f64)]> {
        (0..self.len()).map(|at| self.of(at))
    }
}

fn divide(weights: &mut [f64]) {
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
}

/// One axis to be resized.
struct Pass {
    outer: usize,
    input: usize,
    inner: usize,
    taps: Taps,
}

impl Pass {
    fn run(&self, to: &mut [f64], from: &[f64], extrapolation: f64) {
        let Pass {
            outer,
            input,
            inner,
            ref taps,
        } = *self;
        for row in 0..outer {
            for (at, taps) in taps.iter().enumerate() {
                stop::checkpoint();
                let to = &mut to[(row * self.taps.len() + at) * inner..][..inner];
                if taps.is_empty() {
                    to.fill(extrapolation);
                    continue;
                }
                to.fill(0.0);
                for &(source, weight) in taps {
                    let from = &from[(row * input + source) * inner..][..inner];
                    to.iter_mut()
                        .zip(from)
                        .for_each(|(to, from)| *to += weight * from);
                }
            }
        }
    }
}

fn resize(node: &Node<'_>) -> Result<Kernel, Stop> {
    let (shape, out) = (node.shape(0)?, node.output(0)?.shape());
    let axes = resize_axes(&node.inference())?;
    let rules = Rules::new(node)?;
    let taps: Vec<Taps> = axes
        .iter()
        .zip(&**shape)
        .map(|(axis, &n)| rules.axis(axis, n))
        .collect::<Result<_, _>>()?;
    if rules.mode == Mode::Nearest
        && taps
            .iter()
            .flat_map(Taps::iter)
            .all(|taps| !taps.is_empty())
    {
        // Elements move unchanged.
        let maps = Maps::new(shape, out, |axis, at| {
            taps[axis].of(at).first().map_or(0, |&(at, _)| at)
        })?;
        return sized!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
            let (inputs, mut outputs) = operands.split();
            maps.copy(outputs.slice::<T>(0)?, inputs.slice::<T>(0)?);
            Ok(())
        })));
    }
    let (passes, room) = passes(shape, taps)?;
    match node.dtype(0)? {
        DataType::Bool => Err(no_value("mode", "linear or cubic of truth values")),
        dtype => numbers!(dtype, 0, T => interpolation::<T>(passes, room, rules.extrapolation)),
    }
}

/// The axes that change, the last first, and the most elements that stand between two passes.
fn passes(shape: &[usize], taps: Vec<Taps>) -> Result<(Vec<Pass>, usize)> {
    let mut now = shape.to_vec();
    let mut room = elements(&now)?;
    let mut passes = Vec::new();
    for (axis, taps) in taps.into_iter().enumerate().rev() {
        let same = taps.len() == now[axis]
            && taps
                .iter()
                .enumerate()
                .all(|(at, taps)| taps == [(at, 1.0)]);
        if same {
            continue;
        }
        let Along {
            outer,
            extent,
            inner,
        } = Along::new(&now, axis);
        now[axis] = taps.len();
        room = room.max(elements(&now)?);
        passes.push(Pass {
            outer,
            input: extent,
            inner,
            taps,
        });
    }
    Ok((passes, room))
}

/// The number of elements between two passes, in f64.
fn elements(shape: &[usize]) -> Result<usize> {
    TensorType::new(DataType::F64, shape).map(|ty| ty.elements())
}

fn interpolation<T: Number>(
    passes: Vec<Pass>,
    room: usize,
    extrapolation: f64,
) -> Result<Kernel, Stop> {
    Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let (mut now, mut next) = scratch::<f64>(&mut outputs, 2 * room)?.split_at_mut(room);
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
    .with_scratch(2 * room)
}
