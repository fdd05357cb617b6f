//! Resize of images by nearest-neighbour or bilinear interpolation, in any layout: two adjacent
//! dimensions are resized, the dimensions before and after them are not.

use super::Kernel;
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::{Result, bounded, pool};
use tenon_graph::geometry::{ResizeAxis, resize_axes};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 15;

/// The interpolation of an output position along one axis: `(1 - weight) * input[low] + weight *
/// input[high]`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct AxisSample {
    low: usize,
    high: usize,
    weight: f32,
}

/// The mapping of the output positions of one axis to the input.
#[derive(Clone, Copy)]
struct AxisRule {
    extent: usize,
    axis: ResizeAxis,
    linear: bool,
    position: fn(f32, f32, f32, f32) -> f32,
    nearest: fn(f32) -> f32,
}

/// A resize of `[outer, height, width, inner]`. `T` is the mapping of an axis: an [`AxisRule`] in the
/// kernel, the samples of all positions in the workload.
struct Resize<T> {
    level: Level,
    linear: bool,
    height: usize,
    width: usize,
    inner: usize,
    rows: T,
    columns: T,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let shape = signature.f32_shape(0)?;
    let output = signature.only_output()?;
    let axes = resize_axes(&signature.inference()).map_err(|error| refuse(error.to_string()))?;
    if axes.len() != shape.len() || axes.iter().zip(&output[..]).any(|(a, &o)| a.output != o) {
        return Err(refuse("the shapes do not fit"));
    }
    if signature.flag("antialias", false)? {
        return Err(refuse_attribute("antialias", 1));
    }
    let linear = match signature.string("mode", "nearest")? {
        "nearest" => false,
        "linear" => true,
        other => return Err(refuse_attribute("mode", other)),
    };
    let changed: Vec<usize> = (0..axes.len())
        .filter(|&axis| axes[axis].output != shape[axis] || axes[axis].scale != 1.0)
        .collect();
    let (first, second) = match changed[..] {
        [] if shape.len() >= 2 => (shape.len() - 2, shape.len() - 1),
        [one] if one > 0 => (one - 1, one),
        [first, second] if second == first + 1 => (first, second),
        _ => {
            return Err(refuse(
                "no kernel for resizing dimensions that are not adjacent",
            ));
        }
    };
    if shape[first] == 0 || shape[second] == 0 {
        return Err(refuse("no kernel for an empty image"));
    }
    let rule = |axis: usize| AxisRule::new(signature, shape[axis], axes[axis], linear);
    Ok(Box::new(Resize {
        level: signature.level,
        linear,
        height: shape[first],
        width: shape[second],
        inner: shape[second + 1..].iter().product(),
        rows: rule(first)?,
        columns: rule(second)?,
    }))
}

impl AxisRule {
    fn new(
        signature: &Signature<'_>,
        extent: usize,
        axis: ResizeAxis,
        linear: bool,
    ) -> Result<Self, Refusal> {
        let alone = axis.output == 1;
        Ok(Self {
            extent,
            axis,
            linear,
            position: match signature.string("coordinate_transformation_mode", "half_pixel")? {
                "pytorch_half_pixel" | "align_corners" if alone => |_, _, _, _| 0.0,
                "half_pixel" | "pytorch_half_pixel" => |x, scale, _, _| (x + 0.5) / scale - 0.5,
                "asymmetric" => |x, scale, _, _| x / scale,
                "align_corners" => |x, _, input, resized| x * (input - 1.0) / (resized - 1.0),
                other => return Err(refuse_attribute("coordinate_transformation_mode", other)),
            },
            nearest: match signature.string("nearest_mode", "round_prefer_floor")? {
                "round_prefer_floor" => |x| (x - 0.5).ceil(),
                "round_prefer_ceil" => |x| (x + 0.5).floor(),
                "floor" => f32::floor,
                "ceil" => f32::ceil,
                other => return Err(refuse_attribute("nearest_mode", other)),
            },
        })
    }

    /// The interpolation of each output position.
    fn sources(&self) -> Result<Vec<AxisSample>> {
        let positions = (0..self.axis.output).map(|x| self.source(x as f32));
        bounded::collect("positions of a resized dimension", positions)
    }

    fn source(&self, x: f32) -> AxisSample {
        let Self { extent, axis, .. } = *self;
        // Corners are aligned by the exact extent, scale times the input's, which may be fractional.
        let (input, resized) = (extent as f32, extent as f32 * axis.scale);
        let last = extent - 1;
        let at = if axis.output == extent && axis.scale == 1.0 {
            x
        } else {
            (self.position)(x, axis.scale, input, resized)
        };
        if !self.linear {
            let low = ((self.nearest)(at).max(0.0) as usize).min(last);
            return AxisSample {
                low,
                high: low,
                weight: 0.0,
            };
        }
        let at = at.clamp(0.0, last as f32);
        let low = (at as usize).min(last);
        AxisSample {
            low,
            high: (low + 1).min(last),
            weight: at - low as f32,
        }
    }
}

impl Kernel for Resize<AxisRule> {
    fn plan(&self, _spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        Ok(WorkloadPlan::default())
    }

    fn bind(self: Box<Self>, _spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        Ok(Box::new(Resize {
            level: self.level,
            linear: self.linear,
            height: self.height,
            width: self.width,
            inner: self.inner,
            rows: self.rows.sources()?,
            columns: self.columns.sources()?,
        }))
    }
}

impl Workload for Resize<Vec<AxisSample>> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let input = inputs.slice::<f32>(0)?;
        let output = outputs.slice::<f32>(0)?;
        let line = self.columns.len() * self.inner;
        if output.is_empty() {
            return Ok(());
        }
        let parallel = output.len() >= PARALLEL;
        let lines = output.len() / line;
        let chunk_lines = lines.div_ceil(if parallel { 4 * pool::threads() } else { 1 });
        for_each_chunk(output, chunk_lines * line, parallel, |chunk, output| {
            self.level.run(ResizeRows {
                resize: self,
                input,
                first: chunk * chunk_lines,
                output,
            });
        });
        Ok(())
    }
}

/// Some rows of the output.
struct ResizeRows<'a> {
    resize: &'a Resize<Vec<AxisSample>>,
    input: &'a [f32],
    first: usize,
    output: &'a mut [f32],
}

impl VectorOp for ResizeRows<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let Resize {
            linear,
            height,
            width,
            inner,
            ..
        } = *self.resize;
        let (rows, columns) = (&self.resize.rows, &self.resize.columns);
        for (index, output) in self
            .output
            .chunks_exact_mut(columns.len() * inner)
            .enumerate()
        {
            let (image, y) = (
                (self.first + index) / rows.len(),
                (self.first + index) % rows.len(),
            );
            let line =
                |row: usize| &self.input[(image * height + row) * width * inner..][..width * inner];
            let (row, low) = (rows[y], line(rows[y].low));
            if !linear {
                for (to, column) in output.chunks_exact_mut(inner).zip(columns) {
                    to.copy_from_slice(&low[column.low * inner..][..inner]);
                }
                continue;
            }
            let high = line(row.high);
            if inner == 1 {
                for (to, c) in output.iter_mut().zip(columns) {
                    let top = low[c.low] + (low[c.high] - low[c.low]) * c.weight;
                    let bottom = high[c.low] + (high[c.high] - high[c.low]) * c.weight;
                    *to = top + (bottom - top) * row.weight;
                }
                continue;
            }
            let down = s.splat(row.weight);
            for (to, c) in output.chunks_exact_mut(inner).zip(columns) {
                let right = s.splat(c.weight);
                let corner = |line: &'_ [f32], column: usize, at: usize, count: usize| {
                    s.load_part(&line[column * inner + at..][..count])
                };
                for (block, to) in to.chunks_mut(S::LANES).enumerate() {
                    let (at, count) = (block * S::LANES, to.len());
                    let (a, b) = (
                        corner(low, c.low, at, count),
                        corner(low, c.high, at, count),
                    );
                    let top = s.fma(s.sub(b, a), right, a);
                    let (a, b) = (
                        corner(high, c.low, at, count),
                        corner(high, c.high, at, count),
                    );
                    let bottom = s.fma(s.sub(b, a), right, a);
                    s.store_part(s.fma(s.sub(bottom, top), down, top), to);
                }
            }
        }
    }
}
