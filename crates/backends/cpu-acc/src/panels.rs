//! Packed B, as in GotoBLAS and BLIS: panels of 16 columns, `[N / 16][K][16]`, the last panel padded
//! with zeros; of bf16 in pairs of rows, `[N / 16][K / 2][16][2]`, of f16 with an even number of rows. The layouts are the same on every CPU.

use crate::floats::FloatType;
use crate::simd::transpose::transpose4;
use half::{bf16, f16};
use tenon_base::Result;
use tenon_tensor::{Buffer, BufferMut};

/// Columns of a panel.
pub(crate) const WIDTH: usize = 16;

/// The tag of this layout in a package.
pub(crate) const LAYOUT: &str = "panels16:f32";

/// The tag of the layout of this type.
pub(crate) fn layout(float: FloatType) -> &'static str {
    match float {
        FloatType::F32 => LAYOUT,
        FloatType::F16 => "panels16:f16",
        FloatType::Bf16 => "panels16x2:bf16",
    }
}

/// A packed matrix.
#[derive(Clone, Copy)]
pub(crate) struct Panels<'a> {
    elements: &'a [f32],
    depth: usize,
    columns: usize,
    float: FloatType,
}

impl<'a> Panels<'a> {
    /// The panels of a matrix of `depth` rows and `columns` columns.
    ///
    /// # Panics
    /// When `elements` is too short.
    #[inline]
    pub(crate) fn new(elements: &'a [f32], depth: usize, columns: usize) -> Self {
        let len = packed_len(depth, columns);
        assert!(elements.len() >= len);
        Self {
            elements: &elements[..len],
            depth,
            columns,
            float: FloatType::F32,
        }
    }

    /// The panels of a matrix of `float`, whose rows of words are half as many where it has 16 bits.
    ///
    /// # Panics
    /// When `words` is too short.
    pub(crate) fn of(float: FloatType, words: &'a [f32], depth: usize, columns: usize) -> Self {
        Self {
            float,
            ..Self::new(words, word_rows(float, depth), columns)
        }
    }

    /// The type of the elements.
    pub(crate) fn float(&self) -> FloatType {
        self.float
    }

    pub(crate) fn elements(&self) -> &'a [f32] {
        self.elements
    }

    /// Rows of words.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Number of panels.
    pub(crate) fn count(&self) -> usize {
        self.columns.div_ceil(WIDTH)
    }
}

/// Elements of a packed matrix.
pub(crate) fn packed_len(depth: usize, columns: usize) -> usize {
    // Saturating: a type may exceed the memory, which the allocation reports.
    columns
        .div_ceil(WIDTH)
        .saturating_mul(WIDTH)
        .saturating_mul(depth)
}

/// The rows of words of a matrix of `depth` rows.
pub(crate) fn word_rows(float: FloatType, depth: usize) -> usize {
    match float {
        FloatType::F32 => depth,
        FloatType::F16 | FloatType::Bf16 => depth.div_ceil(2),
    }
}

/// Rounds panels of `depth` rows to f16 or bf16, in pairs of rows.
pub(crate) fn pair_rows(float: FloatType, from: &[f32], depth: usize, to: &mut [f32]) {
    let pairs = depth.div_ceil(2);
    let panels = from.chunks_exact((depth * WIDTH).max(1));
    for (from, to) in panels.zip(to.chunks_exact_mut((pairs * WIDTH).max(1))) {
        for (rows, to) in from.chunks(2 * WIDTH).zip(to.as_chunks_mut::<WIDTH>().0) {
            let mut elements = [0.0; 2 * WIDTH];
            elements[..rows.len()].copy_from_slice(rows);
            for (at, to) in to.iter_mut().enumerate() {
                let bits = match float {
                    FloatType::F16 => {
                        [2 * at, 2 * at + 1].map(|at| f16::from_f32(elements[at]).to_bits())
                    }
                    _ => [at, WIDTH + at].map(|at| bf16::from_f32(elements[at]).to_bits()),
                };
                *to = f32::from_bits(u32::from(bits[0]) | u32::from(bits[1]) << 16);
            }
        }
    }
}

/// The reverse, in f32.
pub(crate) fn split_pairs(float: FloatType, from: &[f32], depth: usize, to: &mut [f32]) {
    let pairs = depth.div_ceil(2);
    let panels = from.chunks_exact((pairs * WIDTH).max(1));
    for (from, to) in panels.zip(to.chunks_exact_mut((depth * WIDTH).max(1))) {
        let words = from.as_chunks::<WIDTH>().0.iter();
        for (words, rows) in words.zip(to.chunks_mut(2 * WIDTH)) {
            for (at, element) in rows.iter_mut().enumerate() {
                let bits = |word: usize, nth: usize| (words[word].to_bits() >> (16 * nth)) as u16;
                *element = match float {
                    FloatType::F16 => f16::from_bits(bits(at / 2, at % 2)).to_f32(),
                    _ => bf16::from_bits(bits(at % WIDTH, at / WIDTH)).to_f32(),
                };
            }
        }
    }
}

/// Packs a matrix whose rows (along the depth) are `stride` apart.
pub(crate) fn pack_rows(
    matrix: &[f32],
    stride: usize,
    depth: usize,
    columns: usize,
    to: &mut [f32],
) {
    if depth == 0 {
        return;
    }
    for (panel, to) in to.chunks_exact_mut(depth * WIDTH).enumerate() {
        let first = panel * WIDTH;
        let count = columns.saturating_sub(first).min(WIDTH);
        for (k, to) in to.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
            let from = &matrix[k * stride + first..][..count];
            if let Ok(from) = <&[f32; WIDTH]>::try_from(from) {
                *to = *from;
            } else {
                to[..count].copy_from_slice(from);
                to[count..].fill(0.0);
            }
        }
    }
}

/// Packs the transpose of a matrix: its rows, `stride` apart, are the columns of B.
pub(crate) fn pack_columns(
    matrix: &[f32],
    stride: usize,
    depth: usize,
    columns: usize,
    to: &mut [f32],
) {
    if depth == 0 {
        return;
    }
    for (panel, to) in to.chunks_exact_mut(depth * WIDTH).enumerate() {
        let first = panel * WIDTH;
        let count = columns.saturating_sub(first).min(WIDTH);
        let to = to.as_chunks_mut::<WIDTH>().0;
        if count < WIDTH {
            to.as_flattened_mut().fill(0.0);
        }
        let row = |column: usize| &matrix[(first + column) * stride..][..depth];
        let mut column = 0;
        while column + 4 <= count {
            let rows = [
                row(column),
                row(column + 1),
                row(column + 2),
                row(column + 3),
            ];
            write_columns(rows, column, to);
            column += 4;
        }
        for column in column..count {
            for (to, &from) in to.iter_mut().zip(row(column)) {
                to[column] = from;
            }
        }
    }
}

/// Writes four columns of a panel, from `column` on, in blocks of four rows: a product with a transposed matrix of the
/// execution takes a sixth less time (AVX2, 970 to 812 us) than with one column after the other.
fn write_columns(from: [&[f32]; 4], column: usize, to: &mut [[f32; WIDTH]]) {
    let [a, b, c, d] = from.map(|from| from.as_chunks::<4>());
    let (blocks, rest) = to.as_chunks_mut::<4>();
    let columns = a.0.iter().zip(b.0).zip(c.0).zip(d.0);
    for (to, (((a, b), c), d)) in blocks.iter_mut().zip(columns) {
        for (to, row) in to.iter_mut().zip(transpose4([*a, *b, *c, *d])) {
            to[column..column + 4].copy_from_slice(&row);
        }
    }
    for (row, to) in rest.iter_mut().enumerate() {
        to[column..column + 4].copy_from_slice(&[a.1[row], b.1[row], c.1[row], d.1[row]]);
    }
}

/// Packs integers into words of `PER_WORD`, which are adjacent along the depth: `[N / 16][K / PER_WORD][16][PER_WORD]`.
/// `source` is the position of an element of a column. What completes words and panels is left as it is.
pub(crate) fn pack_words<const PER_WORD: usize>(
    from: &[u8],
    [depth, columns]: [usize; 2],
    source: impl Fn(usize, usize) -> usize,
    to: &mut [u8],
) {
    let words = depth.div_ceil(PER_WORD);
    if words == 0 {
        return;
    }
    let panels = to.chunks_exact_mut(words * WIDTH * PER_WORD);
    for (to, first) in panels.zip((0..columns).step_by(WIDTH)) {
        for column in 0..(columns - first).min(WIDTH) {
            for k in 0..depth {
                let at = (k / PER_WORD * WIDTH + column) * PER_WORD + k % PER_WORD;
                to[at] = from[source(k, first + column)];
            }
        }
    }
}

/// A buffer of `count` elements that `fill` writes.
pub(crate) fn buffer(count: usize, fill: impl FnOnce(&mut [f32])) -> Result<Buffer> {
    let mut buffer = BufferMut::zeroed(count.saturating_mul(size_of::<f32>()))?;
    if let Some(elements) = buffer.as_slice_mut() {
        fill(elements);
    }
    Ok(buffer.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_the_transpose_gives_the_same_panels() {
        for (depth, columns) in [(1, 1), (3, 16), (5, 17), (0, 4), (7, 40)] {
            let matrix: Vec<f32> = (0..depth * columns).map(|i| i as f32 + 1.0).collect();
            let transposed: Vec<f32> = (0..depth * columns)
                .map(|i| matrix[i % depth * columns + i / depth])
                .collect();
            let (mut a, mut b) = (vec![9.0; packed_len(depth, columns)], Vec::new());
            b.clone_from(&a);
            pack_rows(&matrix, columns, depth, columns, &mut a);
            pack_columns(&transposed, depth, depth, columns, &mut b);
            assert_eq!(a, b);
            for n in 0..columns.next_multiple_of(WIDTH) {
                for k in 0..depth {
                    let expected = if n < columns {
                        matrix[k * columns + n]
                    } else {
                        0.0
                    };
                    assert_eq!(a[(n / WIDTH * depth + k) * WIDTH + n % WIDTH], expected);
                }
            }
        }
    }
}
