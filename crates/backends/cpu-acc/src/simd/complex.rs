//! Complex numbers in memory of real numbers.

#![allow(unsafe_code, reason = "memory of real numbers as complex numbers")]

use tenon_fft::Complex;

/// The complex numbers whose real and imaginary parts alternate in `parts`; an odd last part is left out.
pub(crate) fn complex_mut<T>(parts: &mut [T]) -> &mut [Complex<T>] {
    let count = parts.len() / 2;
    // SAFETY: `Complex` has the layout and the alignment of an array of its two parts (`repr(C)`), so that
    // `count` of them are the first `2 * count` elements of the slice, which is borrowed mutably for the same
    // lifetime.
    unsafe { std::slice::from_raw_parts_mut(parts.as_mut_ptr().cast(), count) }
}
