//! Products of f32, f16 or bf16 by packed weights, with the epilogue of fused operators. Sums and epilogue are of
//! f32; f16 and bf16 are converted when rows of A are packed and when results are written.

use crate::simd::disjoint::MatrixMut;
use crate::simd::elements::{VectorElement, add_and_clamp};
use crate::simd::gemm::{Gemm, multiply};
use crate::simd::math::{UnaryFunction, map_in_place};
use crate::simd::row_elements::{RowElement, RowPacking, halves_mut};
use crate::simd::rows::RowSource;
use crate::simd::typed_gemm::{Sink, SumTile, TypedGemm};
use crate::simd::{Level, Simd};
use half::slice::HalfBitsSliceExt;
use half::{bf16, f16};

/// A type of A and C.
pub(super) trait GemmElement: VectorElement + RowElement {
    /// Computes all of `output`; `addend` has its layout.
    fn multiply<R: RowSource<Element = Self>>(
        level: Level,
        a: &R,
        gemm: &Gemm<'_>,
        addend: Option<&[Self]>,
        output: MatrixMut<'_, Self>,
    );

    /// Scratch memory as elements, one for each half of a word where they have 16 bits.
    fn of_words(words: &mut [f32]) -> &mut [Self];

    /// The same as `multiply` with rows of A in f32.
    fn multiply_floats<R: RowSource<Element = f32>>(
        level: Level,
        a: &R,
        gemm: &Gemm<'_>,
        addend: Option<&[Self]>,
        output: MatrixMut<'_, Self>,
    );
}

impl GemmElement for f32 {
    fn multiply<R: RowSource<Element = f32>>(
        level: Level,
        a: &R,
        gemm: &Gemm<'_>,
        addend: Option<&[f32]>,
        output: MatrixMut<'_, f32>,
    ) {
        multiply(level, a, &Gemm { addend, ..*gemm }, output);
    }

    fn of_words(words: &mut [f32]) -> &mut [f32] {
        words
    }

    fn multiply_floats<R: RowSource<Element = f32>>(
        level: Level,
        a: &R,
        gemm: &Gemm<'_>,
        addend: Option<&[f32]>,
        output: MatrixMut<'_, f32>,
    ) {
        Self::multiply(level, a, gemm, addend, output);
    }
}

macro_rules! halves {
    ($($T:ty)*) => {$(
        impl GemmElement for $T {
            fn multiply<R: RowSource<Element = Self>>(
                level: Level,
                a: &R,
                gemm: &Gemm<'_>,
                addend: Option<&[Self]>,
                output: MatrixMut<'_, Self>,
            ) {
                multiply_halves(level, a, gemm, addend, output);
            }

            fn of_words(words: &mut [f32]) -> &mut [Self] {
                halves_mut(words).reinterpret_cast_mut()
            }

            fn multiply_floats<R: RowSource<Element = f32>>(
                level: Level,
                a: &R,
                gemm: &Gemm<'_>,
                addend: Option<&[Self]>,
                output: MatrixMut<'_, Self>,
            ) {
                multiply_halves(level, a, gemm, addend, output);
            }
        }
    )*};
}

halves!(f16 bf16);

fn multiply_halves<T: VectorElement, A: RowElement>(
    level: Level,
    a: &dyn RowSource<Element = A>,
    gemm: &Gemm<'_>,
    addend: Option<&[T]>,
    output: MatrixMut<'_, T>,
) {
    assert!(addend.is_none_or(|addend| addend.len() >= output.span()));
    // With an addend the clamp follows it.
    let limits = match addend {
        Some(_) => [f32::NEG_INFINITY, f32::INFINITY],
        None => gemm.limits,
    };
    let product = TypedGemm {
        a,
        gemm: &Gemm {
            limits,
            function: None,
            ..*gemm
        },
        packing: RowPacking::of(level.product_of(gemm.panels.float())),
        sink: &Rounded {
            addend: addend.map(|addend| (addend, gemm.limits)),
            function: gemm.function,
        },
    };
    product.run(level, output);
}

/// Rounds sums of f32 after the rest of the epilogue.
struct Rounded<'a, T> {
    /// The addend and the clamp after it.
    addend: Option<(&'a [T], [f32; 2])>,
    function: Option<UnaryFunction>,
}

impl<T: VectorElement> Sink for Rounded<'_, T> {
    type Element = T;

    #[inline(always)]
    fn write<S: Simd>(&self, s: S, tile: &mut SumTile<'_, T>) {
        for row in 0..tile.rows() {
            let start = tile.offset(row) + tile.columns().start;
            let (sums, to) = tile.row(row);
            let sums = &mut sums[..to.len()];
            if let Some((addend, limits)) = self.addend {
                add_and_clamp(s, &addend[start..], limits, sums);
            }
            if let Some(function) = self.function {
                map_in_place(s, function, sums);
            }
            T::narrow(s, sums, to);
        }
    }
}
