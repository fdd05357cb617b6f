//! Matrix products of all types, batches and vectors, compared with the reference backend.

mod common;
#[path = "common/operands.rs"]
mod operands;

use common::{Case, LEVELS, Random};
use half::{bf16, f16};
use operands::{has_inferred_outputs, plan_at_all_levels, without_elements};
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
