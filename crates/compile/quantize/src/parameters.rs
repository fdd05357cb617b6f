//! Scales and zero points.

use crate::range::Range;

/// The scale and the zero point of a tensor in u8.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Parameters {
    pub(crate) scale: f32,
    pub(crate) zero_point: u8,
}

impl Parameters {
    /// The parameters whose range contains `range` and zero, which is exact.
    pub(crate) fn of(range: Range) -> Self {
        let (min, max) = (range.min.min(0.0), range.max.max(0.0));
        let scale = positive((f64::from(max) - f64::from(min)) / 255.0);
        let zero_point = (f64::from(-min) / f64::from(scale)).round_ties_even();
        Self {
            scale,
            // The conversion saturates.
            zero_point: zero_point as u8,
        }
    }
}

/// The scale of a symmetric i8 tensor whose greatest absolute element is `greatest`.
pub(crate) fn symmetric_scale(greatest: f32) -> f32 {
    positive(f64::from(greatest) / 127.0)
}

/// A scale that ONNX permits; 1 for tensors of zeros.
fn positive(scale: f64) -> f32 {
    let scale = scale as f32;
    if scale > 0.0 && scale.is_finite() && scale.recip().is_finite() {
        scale
    } else {
        1.0
    }
}

/// An element in steps of `scale`, rounded to nearest with ties to even.
pub(crate) fn symmetric(element: f32, scale: f32) -> i8 {
    (element / scale).round_ties_even().clamp(-127.0, 127.0) as i8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn zero_is_exact_and_the_range_is_inside(a in finite(), b in finite()) {
            let (min, max) = (a.min(b), a.max(b));
            let Parameters { scale, zero_point } = Parameters::of(Range { min, max });
            prop_assert!(scale > 0.0 && scale.is_finite());
            let value = |code: f64| (code - f64::from(zero_point)) * f64::from(scale);
            let half = f64::from(scale) * 0.5001;
            prop_assert!(value(0.0) <= f64::from(min.min(0.0)) + half);
            prop_assert!(value(255.0) >= f64::from(max.max(0.0)) - half);
        }

        #[test]
        fn quantised_elements_are_within_half_a_step(elements in vec(-1e6f32..1e6, 1..50)) {
            let greatest = elements.iter().fold(0.0f32, |all, element| all.max(element.abs()));
            let scale = symmetric_scale(greatest);
            for element in elements {
                let value = f32::from(symmetric(element, scale)) * scale;
                prop_assert!((value - element).abs() <= scale * 0.5001);
            }
        }
    }

    fn finite() -> impl Strategy<Value = f32> {
        any::<f32>().prop_filter("finite", |element| element.is_finite())
    }

    #[test]
    fn symmetric_elements_have_no_minus_128() {
        let scale = symmetric_scale(2.0);
        assert_eq!(symmetric(-2.0, scale), -127);
        assert_eq!(symmetric(-9.0, scale), -127);
        assert_eq!(symmetric_scale(0.0), 1.0);
    }
}
