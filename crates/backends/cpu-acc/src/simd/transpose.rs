//! Transposition of small blocks, with instructions that every CPU of the target has.

#![allow(unsafe_code, reason = "arrays as vectors")]

/// The transpose of four rows of four elements.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(crate) fn transpose4(rows: [[f32; 4]; 4]) -> [[f32; 4]; 4] {
    use std::arch::x86_64::{
        __m128, _mm_movehl_ps, _mm_movelh_ps, _mm_unpackhi_ps, _mm_unpacklo_ps,
    };
    // SAFETY: a vector of four elements and an array of four have the same size, and any bits are valid in both.
    unsafe {
        let [a, b, c, d] = std::mem::transmute::<[[f32; 4]; 4], [__m128; 4]>(rows);
        let (ab_low, ab_high) = (_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
        let (cd_low, cd_high) = (_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
        let columns = [
            _mm_movelh_ps(ab_low, cd_low),
            _mm_movehl_ps(cd_low, ab_low),
            _mm_movelh_ps(ab_high, cd_high),
            _mm_movehl_ps(cd_high, ab_high),
        ];
        std::mem::transmute::<[__m128; 4], [[f32; 4]; 4]>(columns)
    }
}

/// The transpose of four rows of four elements.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn transpose4(rows: [[f32; 4]; 4]) -> [[f32; 4]; 4] {
    std::array::from_fn(|column| rows.map(|row| row[column]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns() {
        let rows =
            std::array::from_fn(|row| std::array::from_fn(|column| (row * 4 + column) as f32));
        for (column, found) in transpose4(rows).into_iter().enumerate() {
            assert_eq!(found, rows.map(|row| row[column]));
        }
    }
}
