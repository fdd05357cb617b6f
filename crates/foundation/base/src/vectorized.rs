//! Loops that are compiled for the baseline and for AVX2.

#![allow(
    unsafe_code,
    reason = "functions compiled for instructions that are looked for"
)]

/// Evaluates an expression, compiled for the baseline and for AVX2, by [`CpuLevel::in_use`](crate::CpuLevel::in_use): the
/// compiler vectorizes its loops. Results are the same at every level, since the compiler neither reorders sums nor
/// joins multiplications and additions.
///
/// What is not inlined into the expression is compiled for the baseline: functions in its loops should be
/// `#[inline(always)]`, and loops `for`, since the closures of iterators are not always inlined.
///
/// ```
/// let mut values = [1.0, 2.0, 3.0];
/// tenon_base::vectorized!(for value in &mut values {
///     *value *= 2.0;
/// });
/// assert_eq!(values, [2.0, 4.0, 6.0]);
/// ```
#[macro_export]
macro_rules! vectorized {
    ($work:expr) => {
        $crate::call_vectorized(
            #[inline(always)]
            || $work,
        )
    };
}

/// Calls `work`, into which the loops are inlined; see [`vectorized!`](crate::vectorized).
#[doc(hidden)]
#[inline]
pub fn call_vectorized<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if crate::CpuLevel::in_use() >= crate::CpuLevel::Avx2 {
        // SAFETY: the level in use is at most the CPU's, which has the instructions.
        return unsafe { avx2(work) };
    }
    work()
}

/// # Safety
/// The CPU has the instructions of [`CpuLevel::Avx2`](crate::CpuLevel::Avx2).
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}
