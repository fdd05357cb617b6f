//! The types of elements of A in products of words, how their rows are packed, and words as bytes.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::Simd;
use super::elements::VectorElement;
use super::products::ProductKind;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// A type of elements of A.
pub(crate) trait RowElement: Copy + Send + Sync + 'static {
    /// Whether elements are words themselves, so that rows need not be packed for [`ProductKind::Floats`].
    const IS_WORD: bool = false;

    /// Whether the words of a packed row are those of the row itself, where it has whole words.
    fn is_packed(_packing: &RowPacking) -> bool {
        Self::IS_WORD
    }

    /// Writes `from` to a packed row, from element `at` on.
    fn pack<S: Simd>(s: S, packing: &RowPacking, from: &[Self], to: &mut [f32], at: usize);

    /// Writes `count` elements of padding to a packed row.
    fn pad(packing: &RowPacking, count: usize, to: &mut [f32], at: usize);

    /// Completes a packed row of `len` words and returns the sum of its elements where that is needed.
    #[inline(always)]
    fn complete(_packing: &RowPacking, _to: &mut [f32], _len: usize) -> i32 {
        0
    }
}

/// How rows are packed. All but the product is for elements of 8 bits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowPacking {
    /// The product that rows are packed for.
    pub(crate) product: ProductKind,
    /// Whether elements are i8, which are multiplied as u8 that are greater by 128.
    pub(crate) signed: bool,
    /// The element that padding has, before that.
    pub(crate) padding: u8,
    /// Whether the sums of rows are needed.
    pub(crate) sums: bool,
}

impl RowPacking {
    /// For elements that are not bytes.
    pub(crate) fn of(product: ProductKind) -> Self {
        Self {
            product,
            ..Self::default()
        }
    }
}

impl RowPacking {
    /// The bits of a word that differ between elements and the u8 that are multiplied.
    fn flip(&self) -> u32 {
        if self.signed { 0x8080_8080 } else { 0 }
    }
}

macro_rules! float_rows {
    ($($T:ty)*) => {$(
        impl RowElement for $T {
            const IS_WORD: bool = Self::IS_F32;

            #[inline(always)]
            fn pack<S: Simd>(s: S, _: &RowPacking, from: &[Self], to: &mut [f32], at: usize) {
                Self::widen(s, from, &mut to[at..at + from.len()]);
            }

            #[inline(always)]
            fn pad(_: &RowPacking, count: usize, to: &mut [f32], at: usize) {
                to[at..at + count].fill(0.0);
            }
        }
    )*};
}

float_rows!(f32 f16);

impl RowElement for bf16 {
    #[inline(always)]
    fn pack<S: Simd>(s: S, packing: &RowPacking, from: &[Self], to: &mut [f32], at: usize) {
        if packing.product == ProductKind::Bf16Pairs {
            halves_mut(to)[at..at + from.len()].copy_from_slice(from.reinterpret_cast());
        } else {
            Self::widen(s, from, &mut to[at..at + from.len()]);
        }
    }

    fn is_packed(packing: &RowPacking) -> bool {
        packing.product == ProductKind::Bf16Pairs
    }

    #[inline(always)]
    fn pad(packing: &RowPacking, count: usize, to: &mut [f32], at: usize) {
        if packing.product == ProductKind::Bf16Pairs {
            halves_mut(to)[at..at + count].fill(0);
        } else {
            to[at..at + count].fill(0.0);
        }
    }
}

impl RowElement for u8 {
    fn is_packed(packing: &RowPacking) -> bool {
        packing.product == ProductKind::Quads && !packing.sums
    }

    #[inline(always)]
    fn pack<S: Simd>(_: S, _: &RowPacking, from: &[Self], to: &mut [f32], at: usize) {
        copy_bytes(from, &mut bytes_mut(to)[at..at + from.len()]);
    }

    #[inline(always)]
    fn pad(packing: &RowPacking, count: usize, to: &mut [f32], at: usize) {
        bytes_mut(to)[at..at + count].fill(packing.padding);
    }

    #[inline(always)]
    fn complete(packing: &RowPacking, to: &mut [f32], len: usize) -> i32 {
        let flip = packing.flip();
        if flip != 0 {
            for word in &mut to[..len] {
                *word = f32::from_bits(word.to_bits() ^ flip);
            }
        }
        let sum = if packing.sums {
            bytes_mut(&mut to[..len])
                .iter()
                .map(|&byte| i32::from(byte))
                .sum()
        } else {
            0
        };
        if packing.product == ProductKind::Pairs {
            split_words(to, len);
        }
        sum
    }
}

/// Replaces each of `len` words of bytes by two words of u16: the bytes at even positions, then the others.
#[inline(always)]
fn split_words(to: &mut [f32], len: usize) {
    /// Words of a step, whose number the compiler must know to use vectors.
    const STEP: usize = 8;
    const EVEN: u32 = 0x00FF_00FF;
    // From the end, so that no word is overwritten before it is read.
    let whole = len - len % STEP;
    for index in (whole..len).rev() {
        let word = to[index].to_bits();
        to[2 * index] = f32::from_bits(word & EVEN);
        to[2 * index + 1] = f32::from_bits(word >> 8 & EVEN);
    }
    for start in (0..whole).step_by(STEP).rev() {
        let mut words = [0; STEP];
        for (word, from) in words.iter_mut().zip(&to[start..]) {
            *word = from.to_bits();
        }
        let split = to[2 * start..2 * (start + STEP)].as_chunks_mut::<2>().0;
        for (split, word) in split.iter_mut().zip(words) {
            *split = [word & EVEN, word >> 8 & EVEN].map(f32::from_bits);
        }
    }
}

/// Copies short rows by overlapping chunks of fixed lengths: `memcpy` of 21 bytes, a row of the kernel in an image of three
/// channels, takes as long as its products.
#[inline(always)]
fn copy_bytes(from: &[u8], to: &mut [u8]) {
    /// Copies the first and the last `N` bytes of slices of the same length.
    #[inline(always)]
    fn copy_ends<const N: usize>(from: &[u8], to: &mut [u8]) -> bool {
        let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) else {
            return false;
        };
        let (first, last) = (*first, *last);
        if let Some(to) = to.first_chunk_mut() {
            *to = first;
        }
        if let Some(to) = to.last_chunk_mut() {
            *to = last;
        }
        true
    }
    if from.len() > 32 {
        to.copy_from_slice(from);
    } else if !copy_ends::<16>(from, to) && !copy_ends::<8>(from, to) && !copy_ends::<4>(from, to) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
    }
}

/// The bytes of words.
pub(crate) fn bytes_of(words: &[f32]) -> &[u8] {
    // SAFETY: a word is bytes, and the result borrows the same memory.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// The same to write.
pub(crate) fn bytes_mut(words: &mut [f32]) -> &mut [u8] {
    // SAFETY: any bytes are a word and the reverse, and the result borrows the same memory.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

/// The halves of words to write.
pub(crate) fn halves_mut(words: &mut [f32]) -> &mut [u16] {
    let len = 2 * words.len();
    // SAFETY: a word is two halves, whose alignment is less, any bits are either, and the result borrows the same memory.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), len) }
}

/// Integers as words.
pub(crate) fn words_mut(integers: &mut [i32]) -> &mut [f32] {
    // SAFETY: f32 has the size and the alignment of i32, any bits are either, and the result borrows the same memory.
    unsafe { std::slice::from_raw_parts_mut(integers.as_mut_ptr().cast(), integers.len()) }
}
