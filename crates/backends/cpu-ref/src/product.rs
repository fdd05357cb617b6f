//! Sums of products in tiles that stay in the first-level cache: the loops of matrix products, convolutions and attention.
//!
//! Operands are converted to the type of the sums when a tile of them is read, once for many sums. Each sum
//! is computed in the order of its terms.

use crate::number::Accumulator;
use tenon_base::{stop, vectorized};

/// Rows of a tile of sums: how often a converted element of B is used.
pub(crate) const ROWS: usize = 16;
/// Columns of a tile of sums.
pub(crate) const COLUMNS: usize = 128;
/// Terms of a sum that are added before the next tile of operands is read.
pub(crate) const DEPTH: usize = 16;

/// How an operand is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Order {
    Rows,
    Columns,
}

/// The extents of a product of matrices [rows, depth] and [depth, columns].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extents {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) depth: usize,
    /// How B is read: by rows, or by columns where those are contiguous.
    pub(crate) b: Order,
}

/// Computes all sums of a product.
///
/// * `a(i, k, to)` writes the elements of row `i` of A from column `k` on to all of `to`;
/// * `b(k, j, to)` writes the elements of row `k` of B from column `j` on to all of `to`; in the order of columns, those
///   of column `j` from row `k` on;
/// * `store(i, j, sums)` receives the sums of row `i` from column `j` on.
pub(crate) fn product<S: Accumulator>(
    extents: Extents,
    a: impl Fn(usize, usize, &mut [S]),
    b: impl Fn(usize, usize, &mut [S]),
    mut store: impl FnMut(usize, usize, &[S]),
) {
    let Extents {
        rows,
        columns,
        depth,
        b: order,
    } = extents;
    let mut terms = [S::default(); DEPTH];
    let mut tile = [[S::default(); COLUMNS]; DEPTH];
    let mut sums = [[S::default(); COLUMNS]; ROWS];
    for row in (0..rows).step_by(ROWS) {
        let height = ROWS.min(rows - row);
        for column in (0..columns).step_by(COLUMNS) {
            let width = COLUMNS.min(columns - column);
            sums[..height].fill([S::default(); COLUMNS]);
            for first in (0..depth).step_by(DEPTH) {
                stop::checkpoint();
                let count = DEPTH.min(depth - first);
                if order == Order::Rows {
                    for (k, to) in tile.iter_mut().take(count).enumerate() {
                        b(first + k, column, &mut to[..width]);
                    }
                } else {
                    for j in 0..width {
                        b(first, column + j, &mut terms[..count]);
                        tile.iter_mut()
                            .zip(&terms[..count])
                            .for_each(|(to, &term)| to[j] = term);
                    }
                }
                for (i, sums) in sums.iter_mut().take(height).enumerate() {
                    a(row + i, first, &mut terms[..count]);
                    add_products(&terms[..count], &tile, &mut sums[..width]);
                }
            }
            for (i, sums) in sums.iter().take(height).enumerate() {
                store(row + i, column, &sums[..width]);
            }
        }
    }
}

/// Adds `a[k] tile[k][j]` to `sums[j]` for each `k`.
#[inline(never)]
fn add_products<S: Accumulator>(a: &[S], tile: &[[S; COLUMNS]; DEPTH], sums: &mut [S]) {
    let width = sums.len();
    let (fours, rest) = a.as_chunks::<4>();
    let (rows, rest_rows) = tile[..a.len()].as_chunks::<4>();
    // Four terms for each access to a sum.
    vectorized!(
        for (&[a0, a1, a2, a3], [b0, b1, b2, b3]) in fours.iter().zip(rows) {
            let (b0, b1) = (&b0[..width], &b1[..width]);
            let (b2, b3) = (&b2[..width], &b3[..width]);
            for (j, sum) in sums.iter_mut().enumerate() {
                let total = sum.plus_product(a0, b0[j]).plus_product(a1, b1[j]);
                *sum = total.plus_product(a2, b2[j]).plus_product(a3, b3[j]);
            }
        }
    );
    vectorized!(for (&a, row) in rest.iter().zip(rest_rows) {
        for (sum, &b) in sums.iter_mut().zip(row) {
            *sum = sum.plus_product(a, b);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_equal_the_definition() {
        let extents = [
            (1, 1, 1),
            (17, 129, 17),
            (16, 128, 16),
            (3, 300, 0),
            (5, 7, 100),
        ];
        for ((rows, columns, depth), b_order) in extents
            .into_iter()
            .flat_map(|extents| [Order::Rows, Order::Columns].map(|order| (extents, order)))
        {
            let a = |i: usize, k: usize| (i * 7 + k * 3) % 11;
            let b = |k: usize, j: usize| (k * 5 + j) % 13;
            let mut found = vec![i64::MAX; rows * columns];
            product::<i64>(
                Extents {
                    rows,
                    columns,
                    depth,
                    b: b_order,
                },
                |i, k, to| {
                    let row = to.iter_mut().zip(k..);
                    row.for_each(|(to, k)| *to = a(i, k) as i64);
                },
                |k, j, to| {
                    for (nth, to) in to.iter_mut().enumerate() {
                        let value = match b_order {
                            Order::Rows => b(k, j + nth),
                            Order::Columns => b(k + nth, j),
                        };
                        *to = value as i64;
                    }
                },
                |i, j, sums| found[i * columns + j..][..sums.len()].copy_from_slice(sums),
            );
            for (at, &found) in found.iter().enumerate() {
                let (i, j) = (at / columns, at % columns);
                let sum: usize = (0..depth).map(|k| a(i, k) * b(k, j)).sum();
                assert_eq!(
                    found, sum as i64,
                    "{i}, {j} of {rows} x {columns} x {depth}"
                );
            }
        }
    }
}
