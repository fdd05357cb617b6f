//! `Det`: the determinants of a batch of matrices, by Gaussian elimination with partial pivoting in f64.

use super::element_types::floats;
use super::number::Number;
use super::{Kernel, UnpreparedWorkload, scratch};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk2;
use std::marker::PhantomData;
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, stop};

/// Most matrices that are eliminated concurrently.
const SLOTS: usize = 32;

/// Operations below which one thread is used.
const PARALLEL_OPERATIONS: usize = 1 << 15;

/// The determinants of `count` matrices of `size` rows and columns.
struct Determinants<T> {
    count: usize,
    size: usize,
    element: PhantomData<fn(T)>,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let (x, count) = (signature.input(0)?, signature.output(0)?.elements());
    let Some(&size) = x.shape().last() else {
        return Err(refuse("no kernel for a scalar"));
    };
    floats!(x.dtype(), 0, T => Ok(Box::new(Determinants::<T> {
        count,
        size,
        element: PhantomData,
    })))
}

impl<T> Determinants<T> {
    /// Elements of a matrix.
    fn matrix(&self) -> usize {
        self.size.saturating_mul(self.size)
    }
}

impl<T: Number> UnpreparedWorkload for Determinants<T> {
    fn workload_plan(&self) -> WorkloadPlan {
        let slots = self.count.min(SLOTS);
        WorkloadPlan {
            scratch_bytes: self.matrix().saturating_mul(slots * size_of::<f64>()),
            ..WorkloadPlan::default()
        }
    }
}

impl<T: Number> Workload for Determinants<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let matrix = self.matrix();
        let scratch = scratch::<f64>(&mut outputs, matrix * self.count.min(SLOTS))?;
        let parallel = from.len().saturating_mul(self.size) >= PARALLEL_OPERATIONS;
        let chunk = self.count.div_ceil(SLOTS);
        for_each_chunk2(
            (to, chunk),
            (scratch, matrix),
            parallel,
            |index, to, own| {
                let from = from[index * chunk * matrix..].chunks_exact(matrix);
                for (to, from) in to.iter_mut().zip(from) {
                    for (own, from) in own.iter_mut().zip(from) {
                        *own = from.to_f64();
                    }
                    *to = T::of_f64(determinant(own, self.size));
                }
            },
        );
        Ok(())
    }
}

/// The determinant of a matrix, which is overwritten.
fn determinant(matrix: &mut [f64], size: usize) -> f64 {
    let mut product = 1.0;
    let mut rest = matrix;
    // The first of the rows that are left eliminates its column from the others.
    for column in 0..size {
        let height = |row: usize, rows: &[f64]| rows[row * size + column].abs();
        let rows = rest.len() / size;
        let pivot_row = (0..rows)
            .max_by(|&a, &b| height(a, rest).total_cmp(&height(b, rest)))
            .unwrap_or(0);
        let (first, others) = rest.split_at_mut(size);
        if let Some(before) = pivot_row.checked_sub(1) {
            first.swap_with_slice(&mut others[before * size..][..size]);
            product = -product;
        }
        let pivot = first[column];
        product *= pivot;
        if pivot == 0.0 {
            return 0.0;
        }
        for row in others.chunks_exact_mut(size) {
            stop::checkpoint();
            let factor = row[column] / pivot;
            for (element, first) in row[column..].iter_mut().zip(&first[column..]) {
                *element -= factor * first;
            }
        }
        rest = others;
    }
    product
}
