//! Vectorised casts between `f32`, the 16-bit float types and integers, and from booleans.

#![allow(unsafe_code, reason = "vector instructions")]

#[cfg(target_arch = "x86_64")]
use tenon_base::CpuLevel;
use tenon_tensor::{ConvertFn, DataType};

/// The vectorised cast, where there is one and the CPU supports its instructions. The results are
/// those of [`tenon_tensor::converter`], NaN payloads included.
#[cfg(target_arch = "x86_64")]
pub(crate) fn converter(from: DataType, to: DataType) -> Option<ConvertFn> {
    use DataType::{BF16, Bool, F16, F32, F32r, I32, I64};
    let level = CpuLevel::in_use();
    let wide = level >= CpuLevel::Avx512;
    let narrow = level >= CpuLevel::Avx2;
    Some(match (from, to) {
        (F32 | F32r, BF16) if wide => x86::f32_to_bf16_avx512,
        (F32 | F32r, BF16) if narrow => x86::f32_to_bf16_avx2,
        (F32 | F32r, F16) if wide => x86::f32_to_f16_avx512,
        (F32 | F32r, F16) if narrow => x86::f32_to_f16_f16c,
        (BF16, F32 | F32r) if wide => x86::bf16_to_f32_avx512,
        (BF16, F32 | F32r) if narrow => x86::bf16_to_f32_avx2,
        (F16, F32 | F32r) if wide => x86::f16_to_f32_avx512,
        (F16, F32 | F32r) if narrow => x86::f16_to_f32_f16c,
        (F32 | F32r, I64) if wide => x86::f32_to_i64_avx512,
        (F32 | F32r, I64) if narrow => x86::f32_to_i64_avx2,
        (F32 | F32r, I32) if wide => x86::f32_to_i32_avx512,
        (F32 | F32r, I32) if narrow => x86::f32_to_i32_avx2,
        (I64, F32 | F32r) if wide => x86::i64_to_f32_avx512,
        (Bool, F32 | F32r) if wide => x86::bool_to_f32_avx512,
        (Bool, F32 | F32r) if narrow => x86::bool_to_f32_avx2,
        _ => return None,
    })
}

/// No vectorised casts on other architectures: the compiler vectorises the portable ones.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn converter(_: DataType, _: DataType) -> Option<ConvertFn> {
    None
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    // SAFETY, of all blocks here: `converter` returns a function only if the CPU supports its target
    // features; the loads and stores of a step are unaligned and cover exactly its two arrays.
    use std::arch::x86_64::*;

    /// A cast in steps of `$count` elements of `$read` and `$write` bytes, whose body reads the
    /// bytes of one step at `$from` and writes those at `$to`; the remainder is padded on the
    /// stack.
    macro_rules! cast {
        (
            $name:ident, $features:literal, $count:literal * $read:literal => $write:literal,
            |$from:ident, $to:ident| { $($step:tt)* }
        ) => {
            pub fn $name(from: &[u8], to: &mut [u8]) {
                #[target_feature(enable = $features)]
                fn step($from: &[u8; $count * $read], $to: &mut [u8; $count * $write]) {
                    // SAFETY: the loads and stores cover exactly `from` and `to`; the features are
                    // enabled.
                    unsafe { $($step)* }
                }
                #[target_feature(enable = $features)]
                fn run(from: &[u8], to: &mut [u8]) {
                    let (whole, rest) = from.as_chunks::<{ $count * $read }>();
                    let (targets, last) = to.as_chunks_mut::<{ $count * $write }>();
                    let steps = whole.len().min(targets.len());
                    for (from, to) in whole.iter().zip(targets.iter_mut()) {
                        step(from, to);
                    }
                    let from = whole.get(steps).map_or(rest, |whole| whole);
                    let to = targets.get_mut(steps).map_or(last, |target| target);
                    let count = (from.len() / $read).min(to.len() / $write);
                    let (mut source, mut target) = ([0; $count * $read], [0; $count * $write]);
                    source[..count * $read].copy_from_slice(&from[..count * $read]);
                    step(&source, &mut target);
                    to[..count * $write].copy_from_slice(&target[..count * $write]);
                }
                // SAFETY: `converter` has checked that the CPU supports `$features`.
                unsafe { run(from, to) }
            }
        };
    }

    /// 2^31 and 2^63: from there on, casts saturate.
    const PAST_I32: f32 = 2_147_483_648.0;
    const PAST_I64: f32 = 9_223_372_036_854_775_808.0;

    // Truncates and saturates; NaN becomes 0. The instruction returns the least integer for all that
    // do not fit.
    cast!(f32_to_i64_avx512, "avx512f,avx512dq,avx512vl", 8 * 4 => 8, |from, to| {
        let values = _mm256_loadu_ps(from.as_ptr().cast());
        let integers = _mm512_cvttps_epi64(values);
        let past = _mm256_cmp_ps_mask::<_CMP_GE_OQ>(values, _mm256_set1_ps(PAST_I64));
        let integers = _mm512_mask_mov_epi64(integers, past, _mm512_set1_epi64(i64::MAX));
        let ordered = _mm256_cmp_ps_mask::<_CMP_ORD_Q>(values, values);
        let integers = _mm512_maskz_mov_epi64(ordered, integers);
        _mm512_storeu_si512(to.as_mut_ptr().cast(), integers);
    });

    // As `f32_to_i64_avx512`: by the cast to `i32` where all of the elements fit it.
    cast!(f32_to_i64_avx2, "avx2", 8 * 4 => 8, |from, to| {
        let values = _mm256_loadu_ps(from.as_ptr().cast());
        let magnitudes = _mm256_andnot_ps(_mm256_set1_ps(-0.0), values);
        let fits = _mm256_cmp_ps::<_CMP_LT_OQ>(magnitudes, _mm256_set1_ps(PAST_I32));
        if _mm256_movemask_ps(fits) != 0xff {
            let values = from
                .as_chunks()
                .0
                .iter()
                .map(|&value| f32::from_le_bytes(value));
            for (to, value) in to.as_chunks_mut().0.iter_mut().zip(values) {
                *to = (value as i64).to_le_bytes();
            }
            return;
        }
        let integers = _mm256_cvttps_epi32(values);
        let low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(integers));
        let high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256::<1>(integers));
        _mm256_storeu_si256(to.as_mut_ptr().cast(), low);
        _mm256_storeu_si256(to.as_mut_ptr().add(32).cast(), high);
    });

    // As `f32_to_i64_avx512`, to `i32`.
    cast!(f32_to_i32_avx512, "avx512f", 16 * 4 => 4, |from, to| {
        let values = _mm512_loadu_ps(from.as_ptr().cast());
        let integers = _mm512_cvttps_epi32(values);
        let past = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(values, _mm512_set1_ps(PAST_I32));
        let integers = _mm512_mask_mov_epi32(integers, past, _mm512_set1_epi32(i32::MAX));
        let ordered = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(values, values);
        let integers = _mm512_maskz_mov_epi32(ordered, integers);
        _mm512_storeu_si512(to.as_mut_ptr().cast(), integers);
    });

    // As `f32_to_i32_avx512`, with registers of 256 bits.
    cast!(f32_to_i32_avx2, "avx2", 8 * 4 => 4, |from, to| {
        let values = _mm256_loadu_ps(from.as_ptr().cast());
        let integers = _mm256_cvttps_epi32(values);
        let past = _mm256_cmp_ps::<_CMP_GE_OQ>(values, _mm256_set1_ps(PAST_I32));
        let most = _mm256_set1_epi32(i32::MAX);
        let integers = _mm256_blendv_epi8(integers, most, _mm256_castps_si256(past));
        let ordered = _mm256_cmp_ps::<_CMP_ORD_Q>(values, values);
        let integers = _mm256_and_si256(integers, _mm256_castps_si256(ordered));
        _mm256_storeu_si256(to.as_mut_ptr().cast(), integers);
    });

    cast!(i64_to_f32_avx512, "avx512f,avx512dq", 8 * 8 => 4, |from, to| {
        let integers = _mm512_loadu_si512(from.as_ptr().cast());
        _mm256_storeu_ps(to.as_mut_ptr().cast(), _mm512_cvtepi64_ps(integers));
    });

    // Round to nearest, ties to even: adds half a unit in the last place, minus one if the kept bits
    // are even, and truncates. A NaN is truncated and made quiet.
    cast!(f32_to_bf16_avx512, "avx512f,avx512bw", 32 * 4 => 2, |from, to| {
        let round = |bits: __m512i| {
            let odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x1_0000));
            let half = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
            let rounded = _mm512_mask_add_epi32(half, odd, half, _mm512_set1_epi32(1));
            let value = _mm512_castsi512_ps(bits);
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value);
            _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x40_0000))
        };
        /// Indices of the upper halves of the elements of two registers.
        const UPPER: [u16; 32] = {
            let mut words = [0; 32];
            let mut at = 0;
            while at < 32 {
                words[at] = 2 * at as u16 + 1;
                at += 1;
            }
            words
        };
        let first = round(_mm512_loadu_si512(from.as_ptr().cast()));
        let second = round(_mm512_loadu_si512(from.as_ptr().add(64).cast()));
        let upper = _mm512_loadu_si512(UPPER.as_ptr().cast());
        let words = _mm512_permutex2var_epi16(first, upper, second);
        _mm512_storeu_si512(to.as_mut_ptr().cast(), words);
    });

    // As `f32_to_bf16_avx512`, with registers of 256 bits.
    cast!(f32_to_bf16_avx2, "avx2", 16 * 4 => 2, |from, to| {
        let round = |bits: __m256i| {
            let truncated = _mm256_srli_epi32::<16>(bits);
            let odd = _mm256_and_si256(truncated, _mm256_set1_epi32(1));
            let carry = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
            let rounded = _mm256_srli_epi32::<16>(_mm256_add_epi32(bits, carry));
            let quiet = _mm256_or_si256(truncated, _mm256_set1_epi32(0x40));
            let value = _mm256_castsi256_ps(bits);
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(value, value));
            _mm256_blendv_epi8(rounded, quiet, nan)
        };
        let low = round(_mm256_loadu_si256(from.as_ptr().cast()));
        let high = round(_mm256_loadu_si256(from.as_ptr().add(32).cast()));
        // The pack instruction works per 128-bit lane: swap the middle quarters.
        let packed = _mm256_permute4x64_epi64::<0xd8>(_mm256_packus_epi32(low, high));
        _mm256_storeu_si256(to.as_mut_ptr().cast(), packed);
    });

    cast!(f32_to_f16_avx512, "avx512f", 16 * 4 => 2, |from, to| {
        let singles = _mm512_loadu_ps(from.as_ptr().cast());
        let halves = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(singles);
        _mm256_storeu_si256(to.as_mut_ptr().cast(), halves);
    });

    cast!(f32_to_f16_f16c, "avx,f16c", 8 * 4 => 2, |from, to| {
        let singles = _mm256_loadu_ps(from.as_ptr().cast());
        let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(singles);
        _mm_storeu_si128(to.as_mut_ptr().cast(), halves);
    });

    cast!(bf16_to_f32_avx512, "avx512f,avx512bw", 16 * 2 => 4, |from, to| {
        let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.as_ptr().cast()));
        _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_slli_epi32::<16>(wide));
    });

    cast!(bf16_to_f32_avx2, "avx2", 8 * 2 => 4, |from, to| {
        let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.as_ptr().cast()));
        _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_slli_epi32::<16>(wide));
    });

    cast!(bool_to_f32_avx512, "avx512f,avx512bw,avx512vl", 16 * 1 => 4, |from, to| {
        let bytes = _mm_loadu_si128(from.as_ptr().cast());
        let set = _mm_test_epi8_mask(bytes, bytes);
        _mm512_storeu_ps(
            to.as_mut_ptr().cast(),
            _mm512_maskz_mov_ps(set, _mm512_set1_ps(1.0)),
        );
    });

    cast!(bool_to_f32_avx2, "avx2", 8 * 1 => 4, |from, to| {
        let wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.as_ptr().cast()));
        let unset = _mm256_cmpeq_epi32(wide, _mm256_setzero_si256());
        let ones = _mm256_andnot_ps(_mm256_castsi256_ps(unset), _mm256_set1_ps(1.0));
        _mm256_storeu_ps(to.as_mut_ptr().cast(), ones);
    });

    cast!(f16_to_f32_avx512, "avx512f", 16 * 2 => 4, |from, to| {
        let singles = _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast()));
        _mm512_storeu_ps(to.as_mut_ptr().cast(), singles);
    });

    cast!(f16_to_f32_f16c, "avx,f16c", 8 * 2 => 4, |from, to| {
        let singles = _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast()));
        _mm256_storeu_ps(to.as_mut_ptr().cast(), singles);
    });
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::x86::*;
    use tenon_base::CpuLevel;
    use tenon_tensor::{ConvertFn, DataType};

    fn check(name: &str, vector: ConvertFn, from: DataType, to: DataType, source: &[u8]) {
        let plain = tenon_tensor::converter(from, to).unwrap();
        let (read, write) = (from.bits() / 8, to.bits() / 8);
        for count in (0..70).chain([source.len() / read]) {
            let source = &source[..count * read];
            let (mut expected, mut found) =
                (vec![0xee; count * write + 3], vec![0xee; count * write + 3]);
            plain(source, &mut expected[..count * write]);
            vector(source, &mut found[..count * write]);
            assert!(expected == found, "{name}, {count} elements");
        }
    }

    /// Halves, neighbours of halves, subnormal singles, infinities and NaNs of every payload.
    fn singles() -> Vec<u8> {
        let near = (0..=u16::MAX).flat_map(|high| {
            let lows = [
                0u16, 1, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xffff,
            ];
            lows.map(|low| u32::from(high) << 16 | u32::from(low))
        });
        near.flat_map(u32::to_le_bytes).collect()
    }

    /// Integers of every magnitude and their neighbours.
    fn integers() -> Vec<u8> {
        let powers = (0..64).map(|bit| 1i64 << bit);
        let near = powers.flat_map(|power| {
            let around = [
                -3,
                -2,
                -1,
                0,
                1,
                2,
                3,
                power >> 24,
                power >> 25,
                power >> 26,
            ];
            around.map(|other| power.wrapping_add(other))
        });
        near.flat_map(|integer| [integer, integer.wrapping_neg()])
            .flat_map(i64::to_le_bytes)
            .collect()
    }

    #[test]
    fn vector_forms_have_the_bits_of_the_plain_ones() {
        use DataType::{BF16, Bool, F16, F32, I32, I64};
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        let singles = singles();
        let halves: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        if CpuLevel::in_use() >= CpuLevel::Avx2 {
            check("avx2", f32_to_bf16_avx2, F32, BF16, &singles);
            check("f16c", f32_to_f16_f16c, F32, F16, &singles);
            check("avx2", bf16_to_f32_avx2, BF16, F32, &halves);
            check("f16c", f16_to_f32_f16c, F16, F32, &halves);
            check("avx2", f32_to_i64_avx2, F32, I64, &singles);
            check("avx2", f32_to_i32_avx2, F32, I32, &singles);
            check("avx2", bool_to_f32_avx2, Bool, F32, &bytes);
        }
        if CpuLevel::in_use() >= CpuLevel::Avx512 {
            check("avx512", f32_to_bf16_avx512, F32, BF16, &singles);
            check("avx512", f32_to_f16_avx512, F32, F16, &singles);
            check("avx512", bf16_to_f32_avx512, BF16, F32, &halves);
            check("avx512", f16_to_f32_avx512, F16, F32, &halves);
            check("avx512", f32_to_i64_avx512, F32, I64, &singles);
            check("avx512", f32_to_i32_avx512, F32, I32, &singles);
            check("avx512", i64_to_f32_avx512, I64, F32, &integers());
            check("avx512", bool_to_f32_avx512, Bool, F32, &bytes);
        }
    }
}
