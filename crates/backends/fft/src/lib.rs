//! Fast Fourier transforms of the crate rustfft, for `f32` and `f64`.
//!
//! rustfft is generic over the element: its code is compiled in the crate that names one. In `tenon-cpu-acc` it was a
//! third of the code, compiled again after each change of a kernel.

#![forbid(unsafe_code)]

pub use rustfft::num_complex::Complex;
pub use rustfft::{Fft, FftDirection};

use rustfft::{FftPlanner, FftPlannerScalar};
use std::sync::Arc;

/// A real number of which transforms are compiled.
pub trait Real: rustfft::FftNum {
    /// 0.
    const ZERO: Self;

    /// The nearest number.
    fn from_f64(x: f64) -> Self;

    /// The transform of `length` complex numbers, with the vector instructions of this machine.
    fn plan(length: usize, direction: FftDirection) -> Arc<dyn Fft<Self>>;

    /// The transform of `length` complex numbers, without vector instructions.
    fn plan_scalar(length: usize, direction: FftDirection) -> Arc<dyn Fft<Self>>;
}

macro_rules! real {
    ($($T:ident)*) => {$(
        impl Real for $T {
            const ZERO: Self = 0.0;

            fn from_f64(x: f64) -> Self {
                x as $T
            }

            fn plan(length: usize, direction: FftDirection) -> Arc<dyn Fft<Self>> {
                FftPlanner::new().plan_fft(length, direction)
            }

            fn plan_scalar(length: usize, direction: FftDirection) -> Arc<dyn Fft<Self>> {
                FftPlannerScalar::new().plan_fft(length, direction)
            }
        }
    )*};
}

real!(f32 f64);

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the definition, with and without vector instructions.
    fn check<T: Real + Into<f64>>(most: f64) {
        for length in [1, 2, 5, 12, 31, 64] {
            for direction in [FftDirection::Forward, FftDirection::Inverse] {
                let sign = if direction == FftDirection::Forward {
                    -1.0
                } else {
                    1.0
                };
                for plan in [
                    T::plan(length, direction),
                    T::plan_scalar(length, direction),
                ] {
                    let sample = |at: usize| ((at * 7 % 5) as f64, (at * 3 % 4) as f64);
                    let mut values: Vec<Complex<T>> = (0..length)
                        .map(|at| Complex {
                            re: Real::from_f64(sample(at).0),
                            im: Real::from_f64(sample(at).1),
                        })
                        .collect();
                    plan.process(&mut values);
                    for (k, value) in values.iter().enumerate() {
                        let (mut re, mut im) = (0.0, 0.0);
                        for at in 0..length {
                            let turn = (k * at % length) as f64 / length as f64;
                            let (sin, cos) = (sign * std::f64::consts::TAU * turn).sin_cos();
                            let (x, y) = sample(at);
                            re += x * cos - y * sin;
                            im += x * sin + y * cos;
                        }
                        let (got_re, got_im): (f64, f64) = (value.re.into(), value.im.into());
                        assert!(
                            (got_re - re).abs() < most && (got_im - im).abs() < most,
                            "{length} {direction:?} {k}: ({got_re}, {got_im}), expected ({re}, {im})"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn transforms_match_the_definition() {
        check::<f32>(1e-3);
        check::<f64>(1e-10);
    }
}
