//! One execution of a matrix product, divided among the threads.

use super::{MatMul, SLOTS};
use crate::ops::float_gemm::GemmElement;
use crate::ops::pairs::PairedRows;
use crate::panels::WIDTH;
use crate::simd::disjoint::{Blocks, MatrixMut, for_each_block, for_each_chunk, for_each_chunk2};
use crate::simd::gemm::Gemm;
use crate::simd::rows::Matrix;
use tenon_base::pool;

/// Matrices of the output from which on whole matrices balance the load of the threads.
const BALANCED_COUNT: usize = 16;
// Each of fewer matrices has a slot.
const _: () = assert!(BALANCED_COUNT <= SLOTS);

/// Least columns of a part, where a matrix of the output is divided by columns.
const PART_COLUMNS: usize = 2 * WIDTH;

/// Elements below which one thread packs a matrix.
const PARALLEL_PACKING: usize = 1 << 16;

/// Operations from which on one matrix of the output is divided among all threads.
const LARGE_OPERATIONS: usize = 16 << 20;

/// One execution of a product.
pub(super) struct MatMulRun<'a, T> {
    pub(super) matmul: &'a MatMul,
    pub(super) pairs: &'a [(usize, usize)],
    pub(super) a: &'a [T],
    /// A in f32, where it was converted.
    pub(super) floats: Option<&'a [f32]>,
    pub(super) bias: Option<&'a [f32]>,
    pub(super) addend: Option<&'a [T]>,
}

impl<T: GemmElement> MatMulRun<'_, T> {
    pub(super) fn with_weights(&self, weights: &[f32], output: &mut [T]) {
        let packed = self.matmul.packed();
        let size = self.size();
        if size == 0 {
            return;
        }
        for (index, output) in output.chunks_exact_mut(size).enumerate() {
            let (_, b) = self.pairs[index];
            self.one(index, &weights[b * packed..][..packed], output);
        }
    }

    pub(super) fn with_packing(&self, b: &[f32], scratch: &mut [f32], output: &mut [T]) {
        let matmul = self.matmul;
        let (packed, size) = (matmul.packed(), self.size());
        let b_size = matmul.depth * matmul.columns;
        if size == 0 {
            return;
        }
        let count = self.pairs.len();
        let each = 2 * matmul.depth * size;
        let uneven = !count.is_multiple_of(pool::threads()) && count < BALANCED_COUNT;
        if count == 1 || uneven && each >= LARGE_OPERATIONS {
            let panels = &mut scratch[..packed];
            for (index, output) in output.chunks_exact_mut(size).enumerate() {
                let (_, matrix) = self.pairs[index];
                let before = index.checked_sub(1).map(|before| self.pairs[before].1);
                if before != Some(matrix) {
                    let b = &b[matrix * b_size..][..b_size];
                    self.pack_in_parallel(b, panels, b_size >= PARALLEL_PACKING);
                }
                self.one(index, panels, output);
            }
            return;
        }
        let parallel = each.saturating_mul(count) >= 1 << 20;
        if let (true, true, Some(parts)) = (uneven, parallel, self.column_parts()) {
            // Few small matrices do not balance the load of the threads: each is divided by columns,
            // and every thread packs its columns of B.
            let blocks = Blocks {
                stacks: count,
                rows: matmul.rows,
                blocks: parts,
                width: matmul.columns / parts,
            };
            let memory = (scratch, packed / parts, count * parts);
            for_each_block(output, blocks, memory, true, |block, output, panels| {
                let (index, first) = (block / parts, block % parts * blocks.width);
                let b = &b[self.pairs[index].1 * b_size..][..b_size];
                matmul.pack_panels(b, first, blocks.width, panels);
                self.columns_of_one(index, first, panels, output);
            });
            return;
        }
        // Each slot has consecutive matrices, so that its part of the output is one chunk.
        let each = count.div_ceil(SLOTS);
        for_each_chunk2(
            (output, each * size),
            (scratch, packed),
            parallel,
            |slot, output, panels| {
                let mut packed_matrix = None;
                for (within, output) in output.chunks_exact_mut(size).enumerate() {
                    let index = slot * each + within;
                    let (_, matrix) = self.pairs[index];
                    if packed_matrix != Some(matrix) {
                        matmul.pack(&b[matrix * b_size..][..b_size], panels);
                        packed_matrix = Some(matrix);
                    }
                    self.one(index, panels, output);
                }
            },
        );
    }

    /// Packs one matrix of B, a few panels in each iteration.
    fn pack_in_parallel(&self, b: &[f32], to: &mut [f32], parallel: bool) {
        let width = 4 * WIDTH;
        for_each_chunk(to, width * self.matmul.depth, parallel, |index, to| {
            self.matmul.pack_panels(b, index * width, width, to);
        });
    }

    /// The number of equal column parts of a matrix of the output: at most one for each thread; `None`
    /// where its columns are not divisible.
    fn column_parts(&self) -> Option<usize> {
        let columns = self.matmul.columns;
        (2..=pool::threads()).rfind(|parts| columns.is_multiple_of(parts * PART_COLUMNS))
    }

    /// Elements of one matrix of the output.
    fn size(&self) -> usize {
        self.matmul.rows * self.matmul.columns
    }

    /// Computes one matrix of the output.
    fn one(&self, index: usize, b: &[f32], output: &mut [T]) {
        let MatMul { rows, columns, .. } = *self.matmul;
        let output = MatrixMut::new(output, rows, columns, columns);
        self.columns_of_one(index, 0, b, output);
    }

    /// Computes the columns of one matrix of the output from `first` on that `output` is a view of.
    fn columns_of_one(&self, index: usize, first: usize, b: &[f32], output: MatrixMut<'_, T>) {
        let MatMul {
            level, rows, depth, ..
        } = *self.matmul;
        let (a, _) = self.pairs[index];
        let addend = self.addend.map(|addend| {
            let size = self.size();
            &addend[index * size..][first..size]
        });
        let gemm = self
            .matmul
            .gemm(b, output.columns(), self.bias.map(|bias| &bias[first..]));
        let range = a * rows * depth..(a + 1) * rows * depth;
        if let Some(floats) = self.floats {
            let a = Matrix::new(&floats[range], rows, depth, depth);
            T::multiply_floats(level, &a, &gemm, addend, output);
        } else {
            let a = Matrix::new(&self.a[range], rows, depth, depth);
            T::multiply(level, &a, &gemm, addend, output);
        }
    }
}

impl MatMul {
    /// The product by some packed columns of B.
    fn gemm<'a>(&self, b: &'a [f32], columns: usize, bias: Option<&'a [f32]>) -> Gemm<'a> {
        Gemm {
            bias,
            scale: self.scale,
            limits: self.activation.limits,
            function: self.activation.function,
            ..Gemm::new(self.panels(b, columns))
        }
    }
}

/// One execution of a product of f32 by weights of 16 bits.
pub(super) struct PairedRun<'a> {
    pub(super) matmul: &'a MatMul,
    pub(super) pairs: &'a [(usize, usize)],
    pub(super) weights: &'a [f32],
    pub(super) bias: Option<&'a [f32]>,
    pub(super) addend: Option<&'a [f32]>,
}

impl PairedRun<'_> {
    /// Computes the output; `a` has the rows of A.
    pub(super) fn run(&self, a: PairedRows<'_>, output: &mut [f32]) {
        let MatMul { rows, columns, .. } = *self.matmul;
        let (packed, depth) = (self.matmul.packed(), self.matmul.depth.div_ceil(2));
        let size = rows * columns;
        if size == 0 {
            return;
        }
        for (index, output) in output.chunks_exact_mut(size).enumerate() {
            let (matrix, b) = self.pairs[index];
            let gemm = Gemm {
                addend: self.addend.map(|addend| &addend[index * size..][..size]),
                ..self
                    .matmul
                    .gemm(&self.weights[b * packed..][..packed], columns, self.bias)
            };
            let output = MatrixMut::new(output, rows, columns, columns);
            let rows = (matrix * rows..(matrix + 1) * rows, depth);
            a.multiply(self.matmul.level, rows, &gemm, output);
        }
    }
}
