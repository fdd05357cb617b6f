//! Vectors of f32, f64, i32 and i64, for matrix products of these types. Integers wrap.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

/// The vectors of `T` of a level: each is as long as the level's vectors of f32.
pub(crate) trait TermVectors<T>: Copy {
    /// A vector.
    type Terms: Copy;
    /// Elements of a vector.
    const TERMS: usize;

    fn splat_term(self, value: T) -> Self::Terms;
    /// The first elements of `from`.
    fn load_terms(self, from: &[T]) -> Self::Terms;
    /// Writes the first elements of `to`.
    fn store_terms(self, terms: Self::Terms, to: &mut [T]);
    /// `a + b`.
    fn add_terms(self, a: Self::Terms, b: Self::Terms) -> Self::Terms;
    /// `sum + a * b`, rounded once where the CPU can.
    fn plus_product(self, a: Self::Terms, b: Self::Terms, sum: Self::Terms) -> Self::Terms;
}

/// The products of rows of A and panels of B, summed in registers: `VECTORS` vectors of each row.
///
/// # Panics
/// When the lengths of rows and panels differ.
#[inline(always)]
pub(crate) fn tile_sums<
    T: Copy + Default,
    S: TermVectors<T>,
    const ROWS: usize,
    const VECTORS: usize,
    const PANELS: usize,
    const WIDTH: usize,
>(
    simd: S,
    rows: [&[T]; ROWS],
    panels: [&[[T; WIDTH]]; PANELS],
) -> [[S::Terms; VECTORS]; ROWS] {
    let len = panels[0].len();
    assert!(rows.iter().all(|row| row.len() == len));
    assert!(panels.iter().all(|panel| panel.len() == len));
    let per_panel = VECTORS / PANELS;
    let mut sums = [[simd.splat_term(T::default()); VECTORS]; ROWS];
    for k in 0..len {
        let mut b = [simd.splat_term(T::default()); VECTORS];
        for (vector, b) in b.iter_mut().enumerate() {
            // SAFETY: `k` is below the length of every panel, asserted above. Its check would be one for
            // each row and panel in the inner loop, whose lengths take registers.
            let row = unsafe { panels[vector / per_panel].get_unchecked(k) };
            *b = simd.load_terms(&row[vector % per_panel * S::TERMS..]);
        }
        for (row, sums) in rows.iter().zip(&mut sums) {
            // SAFETY: `k` is below the length of every row, asserted above.
            let a = simd.splat_term(unsafe { *row.get_unchecked(k) });
            for (sum, &b) in sums.iter_mut().zip(&b) {
                *sum = simd.plus_product(a, b, *sum);
            }
        }
    }
    sums
}

/// Implements [`TermVectors`] with instructions; `$splat` to `$plus_product` are functions of vectors.
#[cfg(target_arch = "x86_64")]
macro_rules! term_vectors {
    ($level:ty: $($T:ty, $V:ty, $splat:ident, $load:ident, $store:ident, $add:ident, $plus_product:expr;)*) => {$(
        impl crate::simd::terms::TermVectors<$T> for $level {
            type Terms = $V;
            const TERMS: usize = size_of::<$V>() / size_of::<$T>();

            #[inline(always)]
            fn splat_term(self, value: $T) -> $V {
                // SAFETY: a value of `Self` exists only on a CPU with the instructions.
                unsafe { $splat(value) }
            }

            #[inline(always)]
            fn load_terms(self, from: &[$T]) -> $V {
                assert!(from.len() >= size_of::<$V>() / size_of::<$T>());
                // SAFETY: as above; the slice has the elements of a vector, and the load is unaligned.
                unsafe { $load(from.as_ptr().cast()) }
            }

            #[inline(always)]
            fn store_terms(self, terms: $V, to: &mut [$T]) {
                assert!(to.len() >= size_of::<$V>() / size_of::<$T>());
                // SAFETY: as above; the slice has the elements of a vector, and the store is unaligned.
                unsafe { $store(to.as_mut_ptr().cast(), terms) }
            }

            #[inline(always)]
            fn add_terms(self, a: $V, b: $V) -> $V {
                // SAFETY: a value of `Self` exists only on a CPU with the instructions.
                unsafe { $add(a, b) }
            }

            #[inline(always)]
            fn plus_product(self, a: $V, b: $V, sum: $V) -> $V {
                // SAFETY: a value of `Self` exists only on a CPU with the instructions.
                unsafe { $plus_product(a, b, sum) }
            }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
pub(super) use term_vectors;

/// Implements [`TermVectors`] in plain Rust, with vectors of 16 bytes.
macro_rules! plain_term_vectors {
    ($level:ty: $($T:ty, $lanes:literal, $add:expr, $mul:expr;)*) => {$(
        impl crate::simd::terms::TermVectors<$T> for $level {
            type Terms = [$T; $lanes];
            const TERMS: usize = $lanes;

            #[inline(always)]
            fn splat_term(self, value: $T) -> [$T; $lanes] {
                [value; $lanes]
            }

            #[inline(always)]
            fn load_terms(self, from: &[$T]) -> [$T; $lanes] {
                std::array::from_fn(|lane| from[lane])
            }

            #[inline(always)]
            fn store_terms(self, terms: [$T; $lanes], to: &mut [$T]) {
                to[..$lanes].copy_from_slice(&terms);
            }

            #[inline(always)]
            fn add_terms(self, a: [$T; $lanes], b: [$T; $lanes]) -> [$T; $lanes] {
                std::array::from_fn(|lane| $add(a[lane], b[lane]))
            }

            #[inline(always)]
            fn plus_product(
                self,
                a: [$T; $lanes],
                b: [$T; $lanes],
                sum: [$T; $lanes],
            ) -> [$T; $lanes] {
                std::array::from_fn(|lane| $add(sum[lane], $mul(a[lane], b[lane])))
            }
        }
    )*};
    ($level:ty) => {
        $crate::simd::terms::plain_term_vectors! { $level:
            f32, 4, |a: f32, b: f32| a + b, |a: f32, b: f32| a * b;
            f64, 2, |a: f64, b: f64| a + b, |a: f64, b: f64| a * b;
            i32, 4, i32::wrapping_add, i32::wrapping_mul;
            i64, 2, i64::wrapping_add, i64::wrapping_mul;
        }
    };
}
pub(super) use plain_term_vectors;
