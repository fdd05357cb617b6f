//! DFT and STFT by the fast Fourier transform (Cooley and Tukey, 1965; prime lengths: Bluestein, 1970) of
//! the crate rustfft. A real signal of even length is transformed as a complex one of half the length
//! (Press et al., "Numerical Recipes", 2007, 12.3).

mod bound_transform;
mod mel;
mod sample;

pub(super) use mel::mel;

use super::Kernel;
use super::element_types::floats;
use crate::signature::{Signature, refuse};
use crate::simd::Level;
use bound_transform::BoundTransform;
use sample::Sample;
use std::marker::PhantomData;
use tenon_backend::{Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::Result;
use tenon_fft::{Complex, FftDirection, Real};

/// Most elements of a transform: planning builds tables of this length, which the memory of no tensor bounds.
const MAX_LENGTH: usize = 1 << 24;

/// Most lanes transformed concurrently; each has a slot of scratch memory.
const SLOTS: usize = 16;

/// Elements of all slots where transforms are long.
const SLOT_ELEMENTS: usize = 1 << 22;

/// The part of a spectrum or signal that the samples are.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SampleKind {
    /// Real numbers.
    Real,
    Complex,
    /// The first half of a spectrum whose other half is its conjugate mirror.
    Half,
}

/// Transforms of equal length along one dimension.
#[derive(Debug, Clone)]
struct Transform {
    level: Level,
    /// Elements of a transform.
    length: usize,
    inverse: bool,
    kind: SampleKind,
    /// Components of a sample: 1 (real) or 2.
    parts: usize,
    /// Components of a result: 1 (the real part) or 2.
    out_parts: usize,
    /// Results of a transform: the first ones of its spectrum.
    frequencies: usize,
    lanes: Lanes,
}

/// Where the samples of the transforms are.
#[derive(Debug, Clone, Copy)]
enum Lanes {
    /// A dimension of `extent`: missing samples are 0, excess ones are not read.
    Axis {
        outer: usize,
        extent: usize,
        inner: usize,
    },
    /// Windowed frames of a signal.
    Frames {
        batch: usize,
        samples: usize,
        frames: usize,
        step: usize,
        window: bool,
    },
}

impl Lanes {
    fn count(self) -> usize {
        match self {
            Lanes::Axis { outer, inner, .. } => outer * inner,
            Lanes::Frames { batch, frames, .. } => batch * frames,
        }
    }
}

/// The integer of an optional constant input, whose range shape inference has checked.
fn first_int(signature: &Signature<'_>, input: usize) -> Result<Option<i64>, Refusal> {
    let ints = signature.constant_ints(input)?;
    Ok(ints.and_then(|ints| ints.first().copied()))
}

/// The kernel of DFT.
pub(super) fn dft(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let (shape, output) = (signature.input(0)?.shape(), signature.output(0)?.shape());
    let rank = shape.len();
    let axis = first_int(signature, 2)?.unwrap_or(-2);
    let axis = if axis < 0 { axis + rank as i64 } else { axis };
    let axis = axis as usize;
    let (parts, out_parts) = (shape[rank - 1], output[rank - 1]);
    let inverse = signature.flag("inverse", false)?;
    let one_sided = signature.flag("onesided", false)?;
    let frequencies = output[axis];
    let length = match first_int(signature, 1)? {
        Some(length) => length as usize,
        None if inverse && one_sided => frequencies,
        None => shape[axis],
    };
    let kind = match parts {
        _ if inverse && one_sided => SampleKind::Half,
        1 => SampleKind::Real,
        _ => SampleKind::Complex,
    };
    let lanes = Lanes::Axis {
        outer: shape[..axis].iter().product(),
        extent: shape[axis],
        inner: shape[axis + 1..rank - 1].iter().product(),
    };
    Transform {
        level: signature.level,
        length,
        inverse,
        kind,
        parts,
        out_parts,
        frequencies,
        lanes,
    }
    .kernel(signature)
}

/// The kernel of STFT.
pub(super) fn stft(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let (signal, output) = (signature.input(0)?, signature.output(0)?.shape());
    let (&[batch, samples, parts], &[_, frames, frequencies, _]) =
        (&signal.shape()[..], &output[..])
    else {
        return Err(refuse(
            "no kernel for a signal of other than three dimensions",
        ));
    };
    let window = signature.optional(2);
    let length = match (first_int(signature, 3)?, window) {
        (Some(length), _) => length as usize,
        (None, Some(window)) => window.elements(),
        (None, None) => samples,
    };
    let step = first_int(signature, 1)?.map_or(1, |step| step as usize);
    // Shape inference does not relate the types.
    if window.is_some_and(|window| window.dtype() != signal.dtype()) {
        return Err(refuse(
            "no kernel for a window of another type than the signal",
        ));
    }
    let kind = if parts == 1 {
        SampleKind::Real
    } else {
        SampleKind::Complex
    };
    let lanes = Lanes::Frames {
        batch,
        samples,
        frames,
        step,
        window: window.is_some(),
    };
    Transform {
        level: signature.level,
        length,
        inverse: false,
        kind,
        parts,
        out_parts: 2,
        frequencies,
        lanes,
    }
    .kernel(signature)
}

impl Transform {
    fn kernel(self, signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
        if self.length == 0 || self.length > MAX_LENGTH {
            return Err(refuse(format!(
                "no kernel for a transform of {} elements",
                self.length
            )));
        }
        floats!(signature.input(0)?.dtype(), 0, T => Ok(Box::new(TypedTransform::<T> {
            transform: self,
            element: PhantomData,
        })))
    }

    /// Whether the transform is one of half the length.
    fn is_halved(&self) -> bool {
        self.kind == SampleKind::Real && !self.inverse && self.length.is_multiple_of(2)
    }

    /// The length of the complex transform.
    fn complex_length(&self) -> usize {
        if self.is_halved() {
            self.length / 2
        } else {
            self.length
        }
    }

    fn direction(&self) -> FftDirection {
        if self.inverse {
            FftDirection::Inverse
        } else {
            FftDirection::Forward
        }
    }

    /// Complex numbers of scratch memory of the transform itself, whichever vector instructions it uses. The
    /// scalar transform needs at most this; others are used if they do.
    fn transform_scratch<R: Real>(&self) -> usize {
        let length = self.complex_length();
        let scalar = R::plan_scalar(length, self.direction());
        scalar.get_inplace_scratch_len().max(4 * length + 64)
    }

    /// Complex numbers of scratch memory for a lane, of which the transform itself needs `transform_scratch`.
    fn slot(&self, transform_scratch: usize) -> usize {
        self.length + 1 + transform_scratch
    }

    fn slots(&self) -> usize {
        let fitting = SLOT_ELEMENTS / (self.length + 1) / 6;
        self.lanes.count().min(fitting.clamp(1, SLOTS))
    }
}

/// A transform of elements of type `T`.
struct TypedTransform<T> {
    transform: Transform,
    element: PhantomData<fn(T)>,
}

impl<T: Sample> Kernel for TypedTransform<T> {
    fn plan(&self, _spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        let transform = &self.transform;
        let slot = transform.slot(transform.transform_scratch::<T::Real>());
        let bytes = slot.saturating_mul(size_of::<Complex<T::Real>>());
        Ok(WorkloadPlan {
            scratch_bytes: bytes.saturating_mul(transform.slots()),
            ..WorkloadPlan::default()
        })
    }

    fn bind(self: Box<Self>, _spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        Ok(Box::new(BoundTransform::<T>::new(self.transform)))
    }
}
