//! Matrix products of all forms against plain loops in f64.
//!
//! A sum of K products of numbers below 1 is off by at most about K * 2^-24 in f32, whichever the
//! order (each of K partial sums, at most K, rounded once, relative 2^-24; the mean is far lower);
//! activations are smooth with slopes below 1.2 and add at most 4 roundings.

mod common;

use common::{ACTIVATIONS, Case, LEVELS, Random, activate, check};
use tenon_backend::CpuLevel;

/// What is computed.
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

    /// Looks at some of the results, each of which is `after` of the exact one.
    fn check_some(&self, found: &[f32], random: &mut Random, after: impl Fn(f64) -> f64) {
        for _ in 0..2000 {
            let (row, column) = (random.below(self.rows), random.below(self.columns));
            check(
                &[found[row * self.columns + column]],
                &[after(self.exact(row, column))],
                |_| tolerance(self.depth),
                "large",
            );
        }
    }
}

fn tolerance(depth: usize) -> f64 {
    (depth as f64 + 8.0) * 2f64.powi(-24) * 2.0
}

/// Runs a case of sums of `depth` products at all levels.
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
        let a = random.numbers(rows * depth);
        let b = random.numbers(depth * columns);
        let (bias, addend) = (random.numbers(columns), random.numbers(rows * columns));
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
            .numbers(&[rows, columns])
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
fn stacks_broadcast() {
    let mut random = Random::new(2);
    // Batches of A, of B and of the output, with the matrix of each for every one of the output.
    type Pick = fn(usize) -> usize;
    type Stack = (
        &'static [usize],
        &'static [usize],
        &'static [usize],
        Pick,
        Pick,
    );
    let stacks: [Stack; 5] = [
        (&[3], &[3], &[3], |i| i, |i| i),
        (&[2, 3], &[3], &[2, 3], |i| i, |i| i % 3),
        (&[2, 1], &[3], &[2, 3], |i| i / 3, |i| i % 3),
        (&[4], &[], &[4], |i| i, |_| 0),
        (&[], &[20], &[20], |_| 0, |i| i),
    ];
    for (a_batch, b_batch, batch, of_a, of_b) in stacks {
        for constant in [false, true] {
            let [rows, depth, columns] = [
                random.between(1, 20),
                random.between(1, 20),
                random.between(1, 40),
            ];
            let shape =
                |batch: &[usize], rows: usize, columns: usize| [batch, &[rows, columns]].concat();
            let a = random.numbers(a_batch.iter().product::<usize>() * rows * depth);
            let b = random.numbers(b_batch.iter().product::<usize>() * depth * columns);
            let case = Case::new("MatMul").input(&shape(a_batch, rows, depth), &a);
            let b_shape = shape(b_batch, depth, columns);
            let case = if constant {
                case.constant(&b_shape, &b)
            } else {
                case.input(&b_shape, &b)
            };
            let case = case.numbers(&shape(batch, rows, columns));
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

/// Few matrices, of which two threads would have one left over: each is cut by its columns.
#[test]
fn few_products_that_are_cut() {
    let mut random = Random::new(7);
    let [rows, depth, columns] = [65, 48, 192];
    for (count, transposed) in [(3, false), (5, true), (7, false)] {
        let a = random.numbers(count * rows * depth);
        let b = random.numbers(count * depth * columns);
        let bias = random.numbers(columns);
        let addend = random.numbers(count * rows * columns);
        let b_shape = match transposed {
            true => [count, columns, depth],
            false => [count, depth, columns],
        };
        let case = Case::new("tenon.MatMul")
            .input(&[count, rows, depth], &a)
            .input(&b_shape, &b)
            .input(&[columns], &bias)
            .input(&[count, rows, columns], &addend)
            .numbers(&[count, rows, columns])
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
    let (a, b) = (
        random.numbers(rows * depth),
        random.numbers(depth * columns),
    );
    for whole in [false, true] {
        let c = random.numbers(if whole { rows * columns } else { columns });
        let c_shape: &[usize] = if whole { &[rows, columns] } else { &[columns] };
        let case = Case::new("Gemm")
            .input(&[rows, depth], &a)
            .constant(&[columns, depth], &b)
            .constant(c_shape, &c)
            .numbers(&[rows, columns])
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
        // Rows that share their places in the cache, of more tiles than are copied at a time.
        (150, 1024, 100, true),
        (29, 3072, 260, false),
    ] {
        let (a, b) = (
            random.numbers(rows * depth),
            random.numbers(depth * columns),
        );
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
            .numbers(&[rows, columns])
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
        product.check_some(&found, &mut random, |exact| {
            activate("gelu", 0.0, 0.0, exact)
        });
        let alone = tenon_base::pool::with_thread_limit(1, || case.run(CpuLevel::Avx512));
        assert_eq!(
            alone, found,
            "the result does not depend on the number of threads"
        );
    }
}

/// An output that is written past the caches.
#[test]
fn products_larger_than_the_caches() {
    let mut random = Random::new(5);
    let (rows, depth, columns) = (2048, 2, 2048);
    let (a, b) = (
        random.numbers(rows * depth),
        random.numbers(depth * columns),
    );
    let case = Case::new("MatMul")
        .input(&[rows, depth], &a)
        .constant(&[depth, columns], &b)
        .numbers(&[rows, columns]);
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
        product.check_some(&found, &mut random, |exact| exact);
    }
}
