//! Matrix products of all forms, compared with plain loops in f64.
//!
//! The error of a sum of K products of values below 1 is at most about K * 2^-24 in f32, in any order
//! (each of K partial sums, at most K, rounded once, relative 2^-24; the mean is far lower);
//! activations are smooth with slopes below 1.2 and add at most 4 roundings.

mod common;

use common::{ACTIVATIONS, Case, LEVELS, Random, activate, check};
use tenon_backend::CpuLevel;

/// A product, computed in f64.
struct Product<'a> {
    a: &'a [f32],
    b: &'a [f32],
    rows: usize,
    depth: usize,
    columns: usize,
    transposed: bool,
}

impl Product<'_> {
    fn exact(&self, row: usize, column: usize) -> f64 {
        (0..self.depth)
            .map(|k| {
                let b = if self.transposed {
                    column * self.depth + k
                } else {
                    k * self.columns + column
                };
                f64::from(self.a[row * self.depth + k]) * f64::from(self.b[b])
            })
            .sum()
    }

    /// Compares a sample of the results, each of which is `function` of the exact product.
    fn check_sample(&self, found: &[f32], random: &mut Random, function: impl Fn(f64) -> f64) {
        for _ in 0..2000 {
            let (row, column) = (random.below(self.rows), random.below(self.columns));
            check(
                &[found[row * self.columns + column]],
                &[function(self.exact(row, column))],
                |_| tolerance(self.depth),
                "large",
            );
        }
    }
}

fn tolerance(depth: usize) -> f64 {
    (depth as f64 + 8.0) * 2f64.powi(-24) * 2.0
}

/// Runs a case at all levels; its sums are of `depth` products.
fn check_levels(case: &Case, exact: &[f64], depth: usize, what: &str) {
    for level in LEVELS {
        let slack = |i: usize| tolerance(depth) + exact[i].abs() * 1e-6;
        check(&case.run(level), exact, slack, &format!("{what} {level:?}"));
    }
}

fn shapes(random: &mut Random) -> Vec<(usize, usize, usize)> {
    let mut shapes = vec![
        (1, 1, 1),
        (1, 784, 256),
        (1, 2000, 37),
        (14, 64, 32),
        (15, 33, 17),
        (29, 5, 16),
        (6, 1700, 20),
    ];
    for _ in 0..40 {
        shapes.push((
            random.between(1, 70),
            random.between(1, 90),
            random.between(1, 100),
        ));
    }
    shapes
}

#[test]
fn fused_products_of_any_shape() {
    let mut random = Random::new(1);
    for (rows, depth, columns) in shapes(&mut random) {
        let a = random.values(rows * depth);
        let b = random.values(depth * columns);
        let (bias, addend) = (random.values(columns), random.values(rows * columns));
        let transposed = random.below(2) == 1;
        let (with_bias, with_addend) = (random.below(2) == 1, random.below(2) == 1);
        let constant = random.below(3) > 0;
        let (activation, alpha, beta) = random.pick(&ACTIVATIONS);
        let scale = random.pick(&[1.0f32, 0.125]);
        let b_shape = if transposed {
            [columns, depth]
        } else {
            [depth, columns]
        };
        let mut case = Case::new("tenon.MatMul").input(&[rows, depth], &a);
        case = if constant {
            case.constant(&b_shape, &b)
        } else {
            case.input(&b_shape, &b)
        };
        case = if with_bias {
            case.constant(&[columns], &bias)
        } else {
            case.none()
        };
        case = if with_addend {
            case.input(&[rows, columns], &addend)
        } else {
            case.none()
        };
        let case = case
            .f32_output(&[rows, columns])
            .int("trans_b", transposed.into())
            .float("scale", scale)
            .string("activation", activation)
            .float("alpha", alpha)
            .float("beta", beta);
        let product = Product {
            a: &a,
            b: &b,
            rows,
            depth,
            columns,
            transposed,
        };
        let mut exact = Vec::new();
        for row in 0..product.rows {
            for column in 0..columns {
                let mut sum = product.exact(row, column) * f64::from(scale);
                if with_bias {
                    sum += f64::from(bias[column]);
                }
                if with_addend {
                    sum += f64::from(addend[row * columns + column]);
                }
                exact.push(activate(activation, f64::from(alpha), f64::from(beta), sum));
            }
        }
        let what = format!("{rows}x{depth}x{columns} {activation}");
        check_levels(&case, &exact, depth, &what);
    }
}

#[test]
fn batches_broadcast() {
    let mut random = Random::new(2);
    // Batch dimensions of A, of B and of the output, and the indices of the matrices of A and B for
    // each matrix of the output.
    type Pick = fn(usize) -> usize;
    type Batch = (
        &'static [usize],
        &'static [usize],
        &'static [usize],
        Pick,
        Pick,
    );
    let batches: [Batch; 5] = [
        (&[3], &[3], &[3], |i| i, |i| i),
        (&[2, 3], &[3], &[2, 3], |i| i, |i| i % 3),
        (&[2, 1], &[3], &[2, 3], |i| i / 3, |i| i % 3),
        (&[4], &[], &[4], |i| i, |_| 0),
        (&[], &[20], &[20], |_| 0, |i| i),
    ];
    for (a_batch, b_batch, batch, of_a, of_b) in batches {
        for constant in [false, true] {
            let [rows, depth, columns] = [
                random.between(1, 20),
                random.between(1, 20),
                random.between(1, 40),
            ];
            let shape =
                |batch: &[usize], rows: usize, columns: usize| [batch, &[rows, columns]].concat();
            let a = random.values(a_batch.iter().product::<usize>() * rows * depth);
            let b = random.values(b_batch.iter().product::<usize>() * depth * columns);
            let case = Case::new("MatMul").input(&shape(a_batch, rows, depth), &a);
            let b_shape = shape(b_batch, depth, columns);
            let case = if constant {
                case.constant(&b_shape, &b)
            } else {
                case.input(&b_shape, &b)
            };
            let case = case.f32_output(&shape(batch, rows, columns));
            let mut exact = Vec::new();
            for index in 0..batch.iter().product() {
                let product = Product {
                    a: &a[of_a(index) * rows * depth..],
                    b: &b[of_b(index) * depth * columns..],
                    rows,
                    depth,
                    columns,
                    transposed: false,
                };
                for place in 0..rows * columns {
                    exact.push(product.exact(place / columns, place % columns));
                }
            }
            for level in LEVELS {
                check(
                    &case.run(level),
                    &exact,
                    |_| tolerance(depth),
                    &format!("{batch:?}"),
                );
            }
        }
    }
}

/// Few matrices, an odd count, which do not balance two threads: each is divided by columns.
#[test]
fn few_matrices_are_divided_by_columns() {
    let mut random = Random::new(7);
    let [rows, depth, columns] = [65, 48, 192];
    for (count, transposed) in [(3, false), (5, true), (7, false)] {
        let a = random.values(count * rows * depth);
        let b = random.values(count * depth * columns);
        let bias = random.values(columns);
        let addend = random.values(count * rows * columns);
        let b_shape = if transposed {
            [count, columns, depth]
        } else {
            [count, depth, columns]
        };
        let case = Case::new("tenon.MatMul")
            .input(&[count, rows, depth], &a)
            .input(&b_shape, &b)
            .input(&[columns], &bias)
            .input(&[count, rows, columns], &addend)
            .f32_output(&[count, rows, columns])
            .int("trans_b", transposed.into());
        let mut exact = Vec::new();
        for index in 0..count {
            let product = Product {
                a: &a[index * rows * depth..],
                b: &b[index * depth * columns..],
                rows,
                depth,
                columns,
                transposed,
            };
            for place in 0..rows * columns {
                let added = bias[place % columns] + addend[exact.len()];
                exact.push(product.exact(place / columns, place % columns) + f64::from(added));
            }
        }
        check_levels(&case, &exact, depth, &format!("{count}"));
    }
}

#[test]
fn gemm_scales_and_adds() {
    let mut random = Random::new(3);
    let (rows, depth, columns) = (9, 21, 33);
    let (a, b) = (random.values(rows * depth), random.values(depth * columns));
    for whole in [false, true] {
        let c = random.values(if whole { rows * columns } else { columns });
        let c_shape: &[usize] = if whole { &[rows, columns] } else { &[columns] };
        let case = Case::new("Gemm")
            .input(&[rows, depth], &a)
            .constant(&[columns, depth], &b)
            .constant(c_shape, &c)
            .f32_output(&[rows, columns])
            .int("transB", 1)
            .float("alpha", 0.5);
        let product = Product {
            a: &a,
            b: &b,
            rows,
            depth,
            columns,
            transposed: true,
        };
        let exact: Vec<f64> = (0..rows * columns)
            .map(|i| 0.5 * product.exact(i / columns, i % columns) + f64::from(c[i % c.len()]))
            .collect();
        for level in LEVELS {
            check(&case.run(level), &exact, |_| tolerance(depth), "gemm");
        }
    }
}

#[test]
fn large_products_use_all_threads() {
    let mut random = Random::new(4);
    for (rows, depth, columns, constant) in [
        (300, 128, 200, true),
        (3, 900, 1200, true),
        (64, 200, 500, false),
        // Rows that alias in the cache, of more tiles than are packed at once.
        (150, 1024, 100, true),
        (29, 3072, 260, false),
    ] {
        let (a, b) = (random.values(rows * depth), random.values(depth * columns));
        let case = Case::new("tenon.MatMul").input(&[rows, depth], &a);
        let shape = [depth, columns];
        let case = if constant {
            case.constant(&shape, &b)
        } else {
            case.input(&shape, &b)
        };
        let case = case
            .none()
            .none()
            .f32_output(&[rows, columns])
            .string("activation", "gelu");
        let product = Product {
            a: &a,
            b: &b,
            rows,
            depth,
            columns,
            transposed: false,
        };
        let found = case.run(CpuLevel::Avx512);
        product.check_sample(&found, &mut random, |exact| {
            activate("gelu", 0.0, 0.0, exact)
        });
        let alone = tenon_base::pool::with_thread_limit(1, || case.run(CpuLevel::Avx512));
        assert_eq!(
            alone, found,
            "the result does not depend on the number of threads"
        );
    }
}

/// An output that is written with non-temporal stores.
#[test]
fn products_larger_than_the_caches() {
    let mut random = Random::new(5);
    let (rows, depth, columns) = (2048, 2, 2048);
    let (a, b) = (random.values(rows * depth), random.values(depth * columns));
    let case = Case::new("MatMul")
        .input(&[rows, depth], &a)
        .constant(&[depth, columns], &b)
        .f32_output(&[rows, columns]);
    let product = Product {
        a: &a,
        b: &b,
        rows,
        depth,
        columns,
        transposed: false,
    };
    for level in [CpuLevel::Avx2, CpuLevel::Avx512] {
        let found = case.run(level);
        product.check_sample(&found, &mut random, |exact| exact);
    }
}
