//! Resize in every mode: separable interpolation with tables of positions and weights, computed when the
//! workload is created. Nearest-neighbour interpolation moves elements of any type; the others compute in
//! f32.

mod interpolated;
mod nearest;
mod pass;
mod weighted_sum;

use super::Kernel;
use super::element_types::{refuse_type, sized};
use crate::floats::FloatType;
use crate::signature::{Signature, refuse};
use crate::simd::Level;
use interpolated::Interpolated;
use nearest::Nearest;
use tenon_backend::{Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::geometry::{AxisWeights, Interpolation, ResizeAxis, resize_axes};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 15;
/// Most chunks of rows that threads work on concurrently, each with its own scratch memory.
const CHUNKS: usize = 16;
/// Elements after an axis below which its positions are single elements, else rows.
const SHORT: usize = 16;

/// Creates the workload that moves elements of a shape.
type BindNearest = fn(&[usize], &[AxisWeights]) -> Result<Box<dyn Workload>>;

/// The kernel: the tables are made when it is bound.
struct Resize {
    level: Level,
    /// The type of elements that are interpolated; `None` for a type whose elements are moved alone.
    float: Option<FloatType>,
    nearest: BindNearest,
    shape: Vec<usize>,
    axes: Vec<ResizeAxis>,
    interpolation: Interpolation,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let input = signature.input(0)?;
    let text = |error: Error| refuse(error.to_string());
    let axes = resize_axes(&signature.inference()).map_err(text)?;
    let interpolation = Interpolation::new(signature.attributes()).map_err(text)?;
    let float = FloatType::of(input.dtype());
    let mode = signature.string("coordinate_transformation_mode", "half_pixel")?;
    if float.is_none() && (!interpolation.is_nearest() || mode == "tf_crop_and_resize") {
        return Err(refuse_type(0, input.dtype()));
    }
    let nearest = sized!(input.dtype(), 0, T => Ok(Nearest::<T>::bind as BindNearest))?;
    Ok(Box::new(Resize {
        level: signature.level,
        float,
        nearest,
        shape: input.shape().to_vec(),
        axes,
        interpolation,
    }))
}

impl Resize {
    fn weights(&self) -> Result<Vec<AxisWeights>> {
        let axes = self.axes.iter().zip(&self.shape);
        axes.map(|(axis, &extent)| self.interpolation.axis(axis, extent))
            .collect()
    }

    /// Whether elements are moved: the type does not matter.
    fn moves(&self, weights: &[AxisWeights]) -> bool {
        let inside = |axis: &AxisWeights| axis.iter().all(|weights| !weights.is_empty());
        self.interpolation.is_nearest() && weights.iter().all(inside)
    }

    fn interpolated(&self, weights: Vec<AxisWeights>) -> Result<Interpolated> {
        let float = self.float.ok_or_else(|| {
            let text = "interpolation of a type that is not floating-point";
            Error::new(ErrorKind::Internal, text)
        })?;
        Interpolated::new(self, float, weights)
    }
}

impl Kernel for Resize {
    fn plan(&self, _spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        let weights = self.weights()?;
        if self.moves(&weights) {
            return Ok(WorkloadPlan::default());
        }
        Ok(WorkloadPlan {
            scratch_bytes: 4 * CHUNKS * self.interpolated(weights)?.slot,
            ..WorkloadPlan::default()
        })
    }

    fn bind(self: Box<Self>, _spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        let weights = self.weights()?;
        if self.moves(&weights) {
            (self.nearest)(&self.shape, &weights)
        } else {
            Ok(Box::new(self.interpolated(weights)?))
        }
    }
}
