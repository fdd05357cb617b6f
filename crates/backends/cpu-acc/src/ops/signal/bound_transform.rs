//! The execution of transforms.

use super::sample::Sample;
use super::{Lanes, SampleKind, Transform};
use crate::ops::scratch;
use crate::simd::complex::complex_mut;
use crate::simd::disjoint::for_each_chunk2;
use std::sync::Arc;
use tenon_backend::{Operands, Workload};
use tenon_base::{Result, stop};
use tenon_fft::{Complex, Fft, Real};

/// Elements of all lanes below which one thread is used.
const PARALLEL: usize = 1 << 12;

/// A transform with its tables, ready to execute.
pub(super) struct BoundTransform<T: Sample> {
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
        let (slots, slot) = (transform.slots(), 2 * self.slot);
        let scratch = scratch::<T::Real>(&mut outputs, slot * slots)?;
        let lanes = transform.lanes.count();
        let parallel = lanes * transform.length >= PARALLEL;
        let each = transform.frequencies * transform.out_parts;
        let inner = match transform.lanes {
            Lanes::Axis { inner, .. } => inner,
            Lanes::Frames { .. } => 1,
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
    pub(super) fn new(transform: Transform) -> Self {
        let (length, direction) = (transform.complex_length(), transform.direction());
        let most = transform.transform_scratch::<T::Real>();
        let mut fft = if transform.level.is_baseline() {
            T::Real::plan_scalar(length, direction)
        } else {
            T::Real::plan(length, direction)
        };
        if fft.get_inplace_scratch_len() > most {
            fft = T::Real::plan_scalar(length, direction);
        }
        let angle = |at: usize| -std::f64::consts::TAU * at as f64 / transform.length as f64;
        let real = T::Real::from_f64;
        let twiddles = (0..if transform.is_halved() { length } else { 0 }).map(|at| Complex {
            re: real(angle(at).cos()),
            im: real(angle(at).sin()),
        });
        let factor = if transform.inverse {
            1.0 / transform.length as f64
        } else {
            1.0
        };
        Self {
            slot: transform.slot(most),
            factor: real(factor),
            half: real(0.5),
            twiddles: twiddles.collect(),
            fft,
            transform,
        }
    }

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
        let zero = T::Real::ZERO;
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
        let zero = T::Real::ZERO;
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
