//! Long runs of bytes past the caches.

#[cfg(target_arch = "x86_64")]
use tenon_base::CpuLevel;

/// Bytes written by one movement from which on streaming stores pay: they do not read what they
/// overwrite, but leave nothing in the caches for the next reader.
pub(crate) const STREAM_BYTES: usize = 8 << 20;

/// Copies `len` bytes with streaming stores where the processor has them; [`fence`] follows the last.
///
/// # Safety
/// Both sides are valid for `len` bytes and do not overlap.
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if CpuLevel::in_use() >= CpuLevel::Avx2 {
        // SAFETY: the instructions are there; the caller vouches for the memory.
        return unsafe { copy_avx(from, to, len) };
    }
    // SAFETY: the caller vouches.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

/// Ends streaming stores, which are not ordered with those that tell other threads of the end.
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// # Safety
/// As for [`copy`], on a processor with AVX.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn copy_avx(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::*;
    let head = to.align_offset(64).min(len);
    let lines = (len - head) / 64;
    // SAFETY: head, lines and tail together are the `len` bytes that the caller vouches for; the
    // streaming stores are at multiples of 64.
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
    fn any_alignment_and_length() {
        let source: Vec<u8> = (0..1000u32).map(|i| (i * 7) as u8).collect();
        for (from, to, len) in [
            (0, 0, 1000),
            (1, 3, 900),
            (5, 64, 65),
            (9, 2, 10),
            (0, 1, 0),
        ] {
            let mut target = vec![0xee; 1000];
            // SAFETY: both ranges lie inside of the vectors.
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
