//! Copies of long runs with non-temporal stores.

#![allow(unsafe_code, reason = "vector instructions")]

#[cfg(target_arch = "x86_64")]
use tenon_base::CpuLevel;

/// Bytes written by one movement from which non-temporal stores are faster: they avoid the
/// read-for-ownership, but leave the target out of the caches.
pub(crate) const STREAM_BYTES: usize = 8 << 20;

/// Copies `len` bytes, with non-temporal stores where the CPU supports them. The caller calls
/// [`fence`] after the last copy.
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `len` bytes; the ranges do not overlap.
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if CpuLevel::in_use() >= CpuLevel::Avx2 {
        // SAFETY: the CPU level in use includes AVX; the ranges are valid and disjoint by contract.
        return unsafe { copy_avx(from, to, len) };
    }
    // SAFETY: the ranges are valid and disjoint by contract.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

/// Orders non-temporal stores, which are weakly ordered, before the later stores that publish them.
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SFENCE is part of SSE, the baseline of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// # Safety
/// As for [`copy`]; the CPU supports AVX.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn copy_avx(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::*;
    let head = to.align_offset(64).min(len);
    let lines = (len - head) / 64;
    // SAFETY: head, lines and tail partition the `len` bytes, which are valid and disjoint by
    // contract; `align_offset` makes the addresses of the non-temporal stores multiples of 64.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        let (source, target) = (from.add(head), to.add(head));
        for line in 0..lines {
            let (source, target) = (source.add(line * 64), target.add(line * 64));
            let (low, high) = (
                _mm256_loadu_si256(source.cast()),
                _mm256_loadu_si256(source.add(32).cast()),
            );
            _mm256_stream_si256(target.cast(), low);
            _mm256_stream_si256(target.add(32).cast(), high);
        }
        let done = head + lines * 64;
        std::ptr::copy_nonoverlapping(from.add(done), to.add(done), len - done);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn copies_of_any_alignment_and_length_are_exact() {
        let source: Vec<u8> = (0..1000u32).map(|i| (i * 7) as u8).collect();
        for (from, to, len) in [
            (0, 0, 1000),
            (1, 3, 900),
            (5, 64, 65),
            (9, 2, 10),
            (0, 1, 0),
        ] {
            let mut target = vec![0xee; 1000];
            // SAFETY: `from + len` and `to + len` are at most 1000, the length of both vectors.
            unsafe { super::copy(source[from..].as_ptr(), target[to..].as_mut_ptr(), len) };
            assert_eq!(target[to..to + len], source[from..from + len]);
            assert!(
                target[..to]
                    .iter()
                    .chain(&target[to + len..])
                    .all(|&byte| byte == 0xee)
            );
        }
    }
}
