//! DFT and STFT by the fast Fourier transform (Cooley and Tukey, 1965; prime lengths: Bluestein, 1970) of
//! the crate rustfft. A real signal of even length is transformed as a complex one of half the length
//! (Press et al., "Numerical Recipes", 2007, 12.3).

use super::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse};
use crate::simd::Level;
use crate::simd::complex::complex_mut;
use crate::simd::disjoint::for_each_chunk2;
use half::{bf16, f16};
use rustfft::num_complex::Complex;
use rustfft::num_traits::{FromPrimitive, Zero};
use rustfft::{Fft, FftDirection, FftNum, FftPlanner, FftPlannerScalar};
use std::sync::Arc;
use tenon_backend::{Operands, Reason, Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::{Error, ErrorKind, Result, stop};
use tenon_tensor::{DataType, Element};

/// Most elements of a transform: more would not fit into any cache, and the reference backend bounds them
/// by memory.
const MAX_LENGTH: usize = 1 << 24;

/// Most lanes transformed concurrently; each has a slot of scratch memory.
const SLOTS: usize = 16;

/// Elements of all slots where transforms are long.
const SLOT_ELEMENTS: usize = 1 << 22;

/// Elements of all lanes below which one thread is used.
const PARALLEL: usize = 1 << 12;

/// An element of a signal, computed as a real number of type `Real`.
trait Sample: Element {
    type Real: FftNum + Element;
    fn widen(self) -> Self::Real;
    fn narrow(real: Self::Real) -> Self;
}

macro_rules! sample {
    ($($T:ident $Real:ident |$x:ident| $widen:expr, $narrow:expr;)*) => {$(
        impl Sample for $T {
            type Real = $Real;

            #[inline(always)]
            fn widen(self) -> $Real {
                let $x = self;
                $widen
            }

            #[inline(always)]
            fn narrow($x: $Real) -> Self {
                $narrow
            }
        }
    )*};
}

sample! {
    f32 f32 |x| x, x;
    f64 f64 |x| x, x;
    f16 f32 |x| x.to_f32(), f16::from_f32(x);
    bf16 f32 |x| x.to_f32(), bf16::from_f32(x);
}

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
    dtype: DataType,
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

/// The kernel of DFT.
pub(super) fn dft(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let unfitting = || refuse("the shapes do not fit");
    let (shape, output) = (signature.input(0)?.shape(), signature.output(0)?.shape());
    let first = |ints: Option<Vec<i64>>| ints.and_then(|ints| ints.first().copied());
    let rank = shape.len();
    let axis = first(signature.constant_ints(2)?).unwrap_or(-2);
    let axis = if axis < 0 {
        axis.saturating_add_unsigned(rank as u64)
    } else {
        axis
    };
    let axis = usize::try_from(axis).ok();
    let axis = axis.filter(|&axis| axis + 1 < rank).ok_or_else(unfitting)?;
    let (parts, out_parts) = (shape[rank - 1], output[output.len() - 1]);
    let inverse = signature.flag("inverse", false)?;
    let one_sided = signature.flag("onesided", false)?;
    let frequencies = output[axis];
    let length = match first(signature.constant_ints(1)?) {
        Some(length) => usize::try_from(length).map_err(|_| unfitting())?,
        None if inverse && one_sided => frequencies,
        None => shape[axis],
    };
    let expected = match (inverse, one_sided) {
        (false, true) => (length / 2 + 1, 2),
        (true, true) => (length, 1),
        _ => (length, 2),
    };
    let same = (0..rank - 1).all(|at| at == axis || shape[at] == output[at]);
    if output.len() != rank || !same || (frequencies, out_parts) != expected {
        return Err(unfitting());
    }
    let kind = match (inverse && one_sided, parts) {
        (true, 1 | 2) => SampleKind::Half,
        (false, 1) => SampleKind::Real,
        (false, 2) => SampleKind::Complex,
        _ => return Err(unfitting()),
    };
    let lanes = Lanes::Axis {
        outer: shape[..axis].iter().product(),
        extent: shape[axis],
        inner: shape[axis + 1..rank - 1].iter().product(),
    };
    Transform {
        level: signature.level,
        dtype: signature.input(0)?.dtype(),
        length,
        inverse,
        kind,
        parts,
        out_parts,
        frequencies,
        lanes,
    }
    .checked(signature)
}

/// The kernel of STFT.
pub(super) fn stft(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let unfitting = || refuse("the shapes do not fit");
    let (signal, output) = (signature.input(0)?, signature.output(0)?.shape());
    let &[batch, samples, parts] = &signal.shape()[..] else {
        return Err(unfitting());
    };
    let one = |input| -> Result<Option<usize>, Refusal> {
        let ints = signature.constant_ints(input)?;
        let first = ints.and_then(|ints| ints.first().copied());
        let first = first.map(|value| usize::try_from(value).map_err(|_| unfitting()));
        first.transpose()
    };
    let window = signature.optional(2);
    let length = match (one(3)?, window) {
        (Some(length), _) => length,
        (None, Some(window)) => window.elements(),
        (None, None) => samples,
    };
    let step = one(1)?.filter(|&step| step > 0).ok_or_else(unfitting)?;
    let frequencies = if signature.flag("onesided", true)? {
        length / 2 + 1
    } else {
        length
    };
    if window.is_some_and(|window| window.dtype() != signal.dtype()) {
        return Err(refuse(
            "no kernel for a window of another type than the signal",
        ));
    }
    let rest = samples.checked_sub(length).ok_or_else(unfitting)?;
    let frames = rest / step + 1;
    let fits = output[..] == [batch, frames, frequencies, 2]
        && window.is_none_or(|window| window.shape()[..] == [length]);
    if !fits || !(1..=2).contains(&parts) {
        return Err(unfitting());
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
        dtype: signal.dtype(),
        length,
        inverse: false,
        kind,
        parts,
        out_parts: 2,
        frequencies,
        lanes,
    }
    .checked(signature)
}

impl Transform {
    fn checked(self, signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
        let is_float = matches!(
            self.dtype,
            DataType::F32 | DataType::F64 | DataType::F16 | DataType::BF16
        );
        if !is_float || signature.output(0)?.dtype() != self.dtype {
            let (input, found) = (0, self.dtype);
            return Err(Reason::InputType { input, found }.into());
        }
        if self.length == 0 || self.length > MAX_LENGTH {
            return Err(refuse(format!(
                "no kernel for a transform of {} elements",
                self.length
            )));
        }
        Ok(Box::new(self))
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
    fn transform_scratch<R: FftNum>(&self) -> usize {
        let length = self.complex_length();
        let scalar = FftPlannerScalar::<R>::new().plan_fft(length, self.direction());
        scalar.get_inplace_scratch_len().max(4 * length + 64)
    }

    /// Complex numbers of scratch memory for a lane.
    fn slot<R: FftNum>(&self) -> usize {
        self.length + 1 + self.transform_scratch::<R>()
    }

    fn slots(&self) -> usize {
        let fitting = SLOT_ELEMENTS / (self.length + 1) / 6;
        self.lanes.count().min(fitting.clamp(1, SLOTS))
    }

    fn plan_as<T: Sample>(&self) -> WorkloadPlan {
        let bytes = self.slot::<T::Real>() * size_of::<Complex<T::Real>>();
        WorkloadPlan {
            scratch_bytes: bytes.saturating_mul(self.slots()),
            ..WorkloadPlan::default()
        }
    }

    fn bind_as<T: Sample>(self) -> Box<dyn Workload> {
        let (length, direction) = (self.complex_length(), self.direction());
        let most = self.transform_scratch::<T::Real>();
        let mut fft = if self.level.is_baseline() {
            FftPlannerScalar::new().plan_fft(length, direction)
        } else {
            FftPlanner::new().plan_fft(length, direction)
        };
        if fft.get_inplace_scratch_len() > most {
            fft = FftPlannerScalar::new().plan_fft(length, direction);
        }
        let angle = |at: usize| -std::f64::consts::TAU * at as f64 / self.length as f64;
        let real = |x: f64| T::Real::from_f64(x).unwrap_or_else(T::Real::zero);
        let twiddles = (0..if self.is_halved() { length } else { 0 }).map(|at| Complex {
            re: real(angle(at).cos()),
            im: real(angle(at).sin()),
        });
        let factor = if self.inverse {
            1.0 / self.length as f64
        } else {
            1.0
        };
        Box::new(BoundTransform::<T> {
            slot: self.slot::<T::Real>(),
            factor: real(factor),
            half: real(0.5),
            twiddles: twiddles.collect(),
            fft,
            transform: self,
        })
    }
}

/// Evaluates `$body` with `$T` as the element type of `$transform`.
macro_rules! samples {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DataType::F64 => {
                type $T = f64;
                $body
            }
            DataType::F16 => {
                type $T = f16;
                $body
            }
            DataType::BF16 => {
                type $T = bf16;
                $body
            }
            _ => {
                type $T = f32;
                $body
            }
        }
    };
}

impl Kernel for Transform {
    fn plan(&self, _spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        Ok(samples!(self.dtype, T => self.plan_as::<T>()))
    }

    fn bind(self: Box<Self>, _spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        Ok(samples!(self.dtype, T => self.bind_as::<T>()))
    }
}

/// A transform with its tables, ready to execute.
struct BoundTransform<T: Sample> {
    transform: Transform,
    fft: Arc<dyn Fft<T::Real>>,
    /// `exp(-2 pi i k / length)`, where the transform is one of half the length.
    twiddles: Vec<Complex<T::Real>>,
    /// The factor of the results.
    factor: T::Real,
    half: T::Real,
    /// Complex numbers of scratch memory for a lane.
    slot: usize,
}

impl<T: Sample> Workload for BoundTransform<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let transform = &self.transform;
        let (inputs, mut outputs) = operands.split();
        let from = inputs.slice::<T>(0)?;
        let window = match transform.lanes {
            Lanes::Frames { window: true, .. } => Some(inputs.slice::<T>(2)?),
            _ => None,
        };
        let to = outputs.slice::<T>(0)?;
        let scratch = outputs.scratch::<T::Real>()?;
        let slots = transform.slots();
        let slot = 2 * self.slot;
        let expected = slot * slots;
        let found = scratch.len();
        let scratch = scratch.get_mut(..expected).ok_or_else(|| {
            let text = "the scratch memory of a workload is too short";
            Error::new(ErrorKind::InvalidPackage, text)
                .expected(format_args!("{expected} elements"))
                .found(found)
        })?;
        let lanes = transform.lanes.count();
        let parallel = lanes * transform.length >= PARALLEL;
        let (inner, each) = match transform.lanes {
            Lanes::Axis { inner, .. } => (inner, transform.frequencies * transform.out_parts),
            Lanes::Frames { .. } => (1, transform.frequencies * transform.out_parts),
        };
        // Lanes that interleave in the output are one chunk.
        let groups = lanes / inner;
        let chunk = groups.div_ceil(slots);
        for_each_chunk2(
            (to, chunk * inner * each),
            (scratch, slot),
            parallel,
            |index, to, scratch| {
                for (group, to) in to.chunks_exact_mut(inner * each).enumerate() {
                    for lane in 0..inner {
                        stop::checkpoint();
                        let lane_index = (index * chunk + group) * inner + lane;
                        self.lane(from, window, lane_index, scratch);
                        let buffer = complex_mut(scratch);
                        let results = buffer.iter().take(transform.frequencies);
                        let rows = to.chunks_exact_mut(inner * transform.out_parts);
                        for (result, row) in results.zip(rows) {
                            let to = &mut row[lane * transform.out_parts..];
                            to[0] = T::narrow(result.re * self.factor);
                            if transform.out_parts == 2 {
                                to[1] = T::narrow(result.im * self.factor);
                            }
                        }
                    }
                }
            },
        );
        Ok(())
    }
}

impl<T: Sample> BoundTransform<T> {
    /// Writes the spectrum of a lane to the start of the scratch memory.
    fn lane(&self, from: &[T], window: Option<&[T]>, lane: usize, scratch: &mut [T::Real]) {
        let transform = &self.transform;
        let (length, parts) = (transform.length, transform.parts);
        // The samples are `count` elements or pairs, `stride` apart.
        let (start, stride, count) = match transform.lanes {
            Lanes::Axis { extent, inner, .. } => {
                let start = lane / inner * extent * inner + lane % inner;
                (start * parts, inner * parts, extent.min(length))
            }
            Lanes::Frames {
                samples,
                frames,
                step,
                ..
            } => {
                let start = lane / frames * samples + lane % frames * step;
                (start * parts, parts, length)
            }
        };
        let zero = T::Real::zero();
        let sample = |nth: usize| -> Complex<T::Real> {
            if nth >= count {
                return Complex { re: zero, im: zero };
            }
            let at = start + nth * stride;
            let re = from[at].widen();
            let im = if parts == 2 {
                from[at + 1].widen()
            } else {
                zero
            };
            match window {
                Some(window) => {
                    let weight = window[nth].widen();
                    Complex {
                        re: re * weight,
                        im: im * weight,
                    }
                }
                None => Complex { re, im },
            }
        };
        let (buffer, work) = complex_mut(scratch).split_at_mut(length + 1);
        let size = transform.complex_length();
        match transform.kind {
            _ if transform.is_halved() => {
                for (nth, z) in buffer[..size].iter_mut().enumerate() {
                    z.re = sample(2 * nth).re;
                    z.im = sample(2 * nth + 1).re;
                }
            }
            SampleKind::Half => {
                for (nth, z) in buffer[..length].iter_mut().enumerate() {
                    let mirror = length - nth;
                    // The imaginary parts of the first and the middle one are 0 for a real signal.
                    *z = if nth == 0 || nth == mirror {
                        Complex {
                            re: sample(nth).re,
                            im: zero,
                        }
                    } else if nth < mirror {
                        sample(nth)
                    } else {
                        sample(mirror).conj()
                    };
                }
            }
            _ => {
                for (nth, z) in buffer[..size].iter_mut().enumerate() {
                    *z = sample(nth);
                }
            }
        }
        let needed = self.fft.get_inplace_scratch_len();
        self.fft
            .process_with_scratch(&mut buffer[..size], &mut work[..needed]);
        if transform.is_halved() {
            self.unfold(buffer);
        }
    }

    /// The spectrum of a real signal from the transform of the pairs of its samples.
    fn unfold(&self, buffer: &mut [Complex<T::Real>]) {
        let (length, size) = (self.transform.length, self.transform.length / 2);
        let zero = T::Real::zero();
        let Complex { re, im } = buffer[0];
        (buffer[0].re, buffer[0].im) = (re + im, zero);
        (buffer[size].re, buffer[size].im) = (re - im, zero);
        for k in 1..=size / 2 {
            let (a, b) = (buffer[k], buffer[size - k].conj());
            let even = (a + b) * self.half;
            let odd = (a - b) * self.half;
            // Times -i, and the twiddle factor.
            let odd = self.twiddles[k]
                * Complex {
                    re: odd.im,
                    im: -odd.re,
                };
            buffer[k] = even + odd;
            buffer[size - k] = (even - odd).conj();
        }
        for k in size + 1..self.transform.frequencies {
            buffer[k] = buffer[length - k].conj();
        }
    }
}

/// MelWeightMatrix: triangular filters between adjacent edges, which are equidistant on the mel scale.
struct MelWeights {
    rows: usize,
    bands: usize,
    /// The length of the transform.
    length: f64,
    /// The types of the sample rate, the lower and the upper edge.
    types: [DataType; 3],
}

/// The kernel of MelWeightMatrix.
pub(super) fn mel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let &[rows, bands] = &signature.only_output()?[..] else {
        return Err(refuse("the shapes do not fit"));
    };
    let length = signature.constant_ints(1)?;
    let length = length.and_then(|ints| ints.first().copied()).unwrap_or(0);
    let mut types = [DataType::F32; 3];
    for (nth, dtype) in types.iter_mut().enumerate() {
        *dtype = signature.input(2 + nth)?.dtype();
        let is_known = matches!(
            dtype,
            DataType::I32 | DataType::I64 | DataType::F32 | DataType::F64
        );
        if !is_known || signature.input(2 + nth)?.elements() != 1 {
            let (input, found) = (2 + nth, *dtype);
            return Err(Reason::InputType { input, found }.into());
        }
    }
    Ok(Box::new(MelWeights {
        rows,
        bands,
        length: length as f64,
        types,
    }))
}

impl UnpreparedWorkload for MelWeights {}

impl Workload for MelWeights {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let first = |nth: usize| -> Result<f64> {
            let index = 2 + nth;
            Ok(match self.types[nth] {
                DataType::I32 => inputs.slice::<i32>(index)?[0].into(),
                DataType::I64 => inputs.slice::<i64>(index)?[0] as f64,
                DataType::F64 => inputs.slice::<f64>(index)?[0],
                _ => inputs.slice::<f32>(index)?[0].into(),
            })
        };
        let (rate, low, high) = (first(0)?, first(1)?, first(2)?);
        let to_mel = |hertz: f64| 2595.0 * (hertz / 700.0).ln_1p() / std::f64::consts::LN_10;
        let width = (to_mel(high) - to_mel(low)) / (self.bands + 2) as f64;
        let edge = |nth: usize| -> Result<usize> {
            let mel = to_mel(low) + nth as f64 * width;
            let hertz = 700.0 * (mel / 2595.0 * std::f64::consts::LN_10).exp_m1();
            let row = ((self.length + 1.0) * hertz / rate).floor();
            let inside = (0.0..self.rows as f64).contains(&row);
            inside.then_some(row as usize).ok_or_else(|| {
                let text = "an edge of a mel band is out of the spectrum";
                Error::new(ErrorKind::OutOfBounds, text)
                    .expected(format_args!(
                        "0 to {} of the spectrum",
                        self.rows as i64 - 1
                    ))
                    .found(row)
            })
        };
        let to = outputs.slice::<f32>(0)?;
        to.fill(0.0);
        let mut edges = [edge(0)?, edge(1)?];
        for band in 0..self.bands {
            stop::checkpoint();
            let [left, middle] = edges;
            let right = edge(band + 2)?;
            edges = [middle, right];
            to[middle * self.bands + band] = 1.0;
            for row in left..middle {
                let share = (row - left) as f64 / (middle - left) as f64;
                to[row * self.bands + band] = share as f32;
            }
            for row in middle + 1..right {
                let share = (right - row) as f64 / (right - middle) as f64;
                to[row * self.bands + band] = share as f32;
            }
        }
        Ok(())
    }
}
