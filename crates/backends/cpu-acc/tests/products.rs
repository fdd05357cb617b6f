//! Matrix products of all types, batches and vectors, and determinants, compared with the reference backend.

mod common;
#[path = "common/operands.rs"]
mod operands;

use common::{Case, InputKind, LEVELS, Random};
use half::{bf16, f16};
use operands::{floats, has_inferred_outputs, plan_at_all_levels, rounded, without_elements};
use tenon_tensor::{DataType, Element};

/// Shapes of A and B: odd sizes, broadcast batches, vectors.
const SHAPES: [(&[usize], &[usize]); 9] = [
    (&[7, 33], &[33, 19]),
    (&[1, 1], &[1, 1]),
    (&[2, 1, 13, 5], &[3, 5, 40]),
    (&[4, 6, 8], &[8, 16]),
    (&[5], &[5, 17]),
    (&[3, 4, 5], &[5]),
    (&[9], &[9]),
    (&[6], &[2, 6, 3]),
    (&[64, 70], &[70, 130]),
];

fn compare<T: Element>(tolerance: f64, value: impl Fn(&mut Random) -> T) {
    let mut random = Random::new(31);
    for (a, b) in SHAPES {
        let mut values = |shape: &[usize]| -> Vec<T> {
            (0..shape.iter().product())
                .map(|_| value(&mut random))
                .collect()
        };
        let case = Case::new("MatMul")
            .input(a, &values(a))
            .input(b, &values(b));
        case.outputs(1).agrees_with_reference(tolerance);
    }
}

#[test]
fn products_of_every_type() {
    compare(1e-4, |random| random.value());
    compare(2e-3, |random| f16::from_f32(random.value()));
    compare(1.6e-2, |random| bf16::from_f32(random.value()));
    compare(1e-12, |random| f64::from(random.value()));
    // Products that wrap.
    compare(0.0, |random| random.next() as i32);
    compare(0.0, |random| random.next() as u32);
    compare(0.0, |random| random.next() as i64);
    compare(0.0, |random| random.next());
}

/// Rows of f16, bf16 and f32 by a constant of 16 bits: of one row, few and many, of an odd depth, several K blocks and matrices, with the
/// whole epilogue.
#[test]
fn products_by_constants_of_half_precision() {
    let mut random = Random::new(32);
    for (dtype, narrow, tolerance) in [
        (DataType::F16, DataType::F16, 2e-3),
        (DataType::BF16, DataType::BF16, 1.6e-2),
        (DataType::F32, DataType::F16, 2e-3),
        (DataType::F32, DataType::BF16, 1.6e-2),
    ] {
        for (count, rows, depth, columns) in [
            (1, 1, 1, 1),
            (1, 1, 333, 40),
            (1, 1, 2048, 70),
            (1, 4, 257, 100),
            (1, 30, 64, 33),
            (1, 100, 1501, 50),
            (3, 5, 7, 16),
            (1, 300, 96, 200),
        ] {
            for transposed in [false, true] {
                let (a, b) = if transposed {
                    ([count, rows, depth], [columns, depth])
                } else {
                    ([count, rows, depth], [depth, columns])
                };
                let case = Case::new("tenon.MatMul").int("trans_b", transposed.into());
                let case = floats(case, &mut random, dtype, &a);
                // Sums of about the magnitude of one element.
                let scale = (depth as f32).sqrt().recip();
                let mut weights = random.values(depth * columns);
                weights.iter_mut().for_each(|weight| *weight *= scale);
                let case = rounded(case, narrow, InputKind::Constant, &b, &weights);
                let case = floats(case, &mut random, dtype, &[columns]);
                let case = floats(case, &mut random, dtype, &[count, rows, columns]);
                let case = case.float("scale", 0.5).string("activation", "relu");
                let case = case.outputs(1);
                case.agrees_with_reference(tolerance);
                let packed = case.bind(LEVELS[0]).plan.prepared[0].data.len();
                let most = 2 * depth.next_multiple_of(2) * columns.next_multiple_of(16);
                assert!(packed <= most, "{packed} bytes for {depth} x {columns}");
            }
        }
    }
}

/// Sizes around the rows, panels and K blocks of a tile.
#[test]
fn blocks_of_plain_products() {
    let mut random = Random::new(33);
    for (rows, depth, columns) in [
        (8, 256, 16),
        (9, 257, 17),
        (3, 600, 31),
        (400, 5, 8),
        (1, 1, 33),
        (70, 300, 50),
    ] {
        let mut values = |count: usize| (0..count).map(|_| random.value().into()).collect();
        let (a, b): (Vec<f64>, Vec<f64>) = (values(rows * depth), values(depth * columns));
        let case = Case::new("MatMul")
            .input(&[rows, depth], &a)
            .input(&[depth, columns], &b);
        case.outputs(1).agrees_with_reference(1e-12);
        let integers =
            |from: &[f64]| -> Vec<i64> { from.iter().map(|x| (x * 1e18) as i64).collect() };
        let case = Case::new("MatMul")
            .input(&[rows, depth], &integers(&a))
            .input(&[depth, columns], &integers(&b));
        case.outputs(1).agrees_with_reference(0.0);
    }
}

#[test]
fn gemm_of_double_precision_and_integers() {
    let mut random = Random::new(34);
    let (rows, depth, columns) = (21, 35, 19);
    let mut values = |count: usize| -> Vec<f64> {
        (0..count)
            .map(|_| (random.value() * 100.0).into())
            .collect()
    };
    let (a, b, c) = (
        values(rows * depth),
        values(depth * columns),
        values(rows * columns),
    );
    let integers = |from: &[f64]| -> Vec<i32> { from.iter().map(|&x| x as i32).collect() };
    let c_shapes: [&[usize]; 6] = [
        &[rows, columns],
        &[1, columns],
        &[rows, 1],
        &[columns],
        &[1],
        &[],
    ];
    for (index, c_shape) in c_shapes.into_iter().enumerate() {
        let (trans_a, trans_b) = (index % 2, index / 2 % 2);
        let shapes = [
            [[rows, depth], [depth, rows]][trans_a],
            [[depth, columns], [columns, depth]][trans_b],
        ];
        let flags = |case: Case| {
            case.int("transA", trans_a as i64)
                .int("transB", trans_b as i64)
        };
        let count = c_shape.iter().product();
        let case = Case::new("Gemm")
            .input(&shapes[0], &a)
            .input(&shapes[1], &b);
        let case = flags(case.input(c_shape, &c[..count]));
        let case = case.float("alpha", 0.5).float("beta", -2.0).outputs(1);
        case.agrees_with_reference(1e-12);
        let case = Case::new("Gemm")
            .input(&shapes[0], &integers(&a))
            .input(&shapes[1], &integers(&b));
        let case = flags(case.input(c_shape, &integers(&c[..count])));
        case.outputs(1).agrees_with_reference(0.0);
    }
    let case = Case::new("Gemm")
        .input(&[rows, depth], &a)
        .input(&[depth, columns], &b)
        .float("alpha", 3.0);
    case.outputs(1).agrees_with_reference(1e-12);
    let case = Case::new("Gemm")
        .input(&[rows, depth], &integers(&a))
        .input(&[depth, columns], &integers(&b))
        .float("alpha", 0.5);
    assert!(case.outputs(1).supported(LEVELS[0]).is_err());
}

/// Several blocks of rows, constant and variable B, bias, addend and activation.
#[test]
fn fused_products_of_half_precision() {
    let mut random = Random::new(32);
    for (rows, depth, columns) in [(300, 600, 40), (5, 33, 17), (1, 70, 300)] {
        for (with_bias, with_addend) in [(false, false), (true, false), (false, true), (true, true)]
        {
            let mut values = |count: usize| -> Vec<f16> {
                (0..count)
                    .map(|_| f16::from_f32(random.value() / 4.0))
                    .collect()
            };
            let case =
                Case::new("tenon.MatMul").input(&[2, rows, depth], &values(2 * rows * depth));
            let b = values(columns * depth);
            let case = if with_bias {
                case.constant(&[columns, depth], &b)
                    .constant(&[columns], &values(columns))
            } else {
                case.input(&[columns, depth], &b).none()
            };
            let case = if with_addend {
                case.input(&[2, rows, columns], &values(2 * rows * columns))
            } else {
                case
            };
            let case = case
                .int("trans_b", 1)
                .float("scale", 0.5)
                .string("activation", "silu");
            case.outputs(1).agrees_with_reference(4e-3);
        }
    }
}

#[test]
fn extents_beyond_any_memory() {
    for dtype in [DataType::F32, DataType::F16, DataType::F64, DataType::I64] {
        for [batch, rows, depth, columns] in [
            [1, 1 << 21, 1 << 21, 1],
            [1, 1 << 21, 1, 1 << 21],
            [1, 1, 1 << 40, 1],
            [1 << 40, 1, 1, 1],
            [1 << 30, 1 << 12, 1, 1],
        ] {
            let case = without_elements(Case::new("MatMul"), dtype, &[batch, rows, depth]);
            let case = without_elements(case, dtype, &[depth, columns]);
            if has_inferred_outputs(&case, 1) {
                plan_at_all_levels(&case.outputs(1));
            }
        }
    }
}

#[test]
fn a_kernel_is_selected_without_memory_for_its_batch() {
    let case = without_elements(Case::new("MatMul"), DataType::I64, &[1 << 40, 1, 1]);
    let case = without_elements(case, DataType::I64, &[1, 1]).outputs(1);
    case.supported(LEVELS[0]).unwrap();
}

#[test]
fn determinants() {
    let mut random = Random::new(33);
    for (dtype, tolerance) in [
        (DataType::F32, 1e-6),
        (DataType::F16, 1e-3),
        (DataType::BF16, 8e-3),
        (DataType::F64, 1e-12),
    ] {
        for shape in [
            &[1, 1][..],
            &[2, 2],
            &[5, 3, 3],
            &[2, 3, 17, 17],
            &[70, 4, 4],
        ] {
            floats(Case::new("Det"), &mut random, dtype, shape)
                .outputs(1)
                .agrees_with_reference(tolerance);
        }
    }
    // Pivots that are zero, singular matrices, NaN and infinities.
    let special = [
        [0.0, 1.0, 1.0, 0.0],
        [1.0, 2.0, 2.0, 4.0],
        [0.0, 0.0, 0.0, 0.0],
        [f32::NAN, 1.0, 2.0, 3.0],
        [f32::INFINITY, 1.0, 2.0, 3.0],
        [1.0, 2.0, 3.0, f32::NAN],
    ];
    Case::new("Det")
        .input(&[6, 2, 2], special.as_flattened())
        .outputs(1)
        .agrees_with_reference(0.0);
    let large = 1 << 20;
    let case = without_elements(Case::new("Det"), DataType::F32, &[large, large]);
    if has_inferred_outputs(&case, 1) {
        plan_at_all_levels(&case.outputs(1));
    }
}
