//! Casts, quantisation and products of integers of 4 and 8 bits and of floating point of 8 bits, compared
//! with the reference backend.

mod common;
#[path = "common/operands.rs"]
mod operands;

use common::{Case, InputKind, Random, converted};
use operands::{plan_at_all_levels, rounded, without_elements};
use tenon_backend::CpuLevel;
use tenon_graph::Attribute;
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType, convert};

const SMALL_FLOATS: [DataType; 6] = [
    DataType::F8E3M4,
    DataType::F8E4M3,
    DataType::F8E4M3Fn,
    DataType::F8E4M3FnUz,
    DataType::F8E5M2,
    DataType::F8E5M2FnUz,
];

const BYTES: [DataType; 2] = [DataType::U8, DataType::I8];

/// A tensor of random bytes; for packed types the bits after the last element are random, too.
fn random_bytes(random: &mut Random, dtype: DataType, shape: &[usize]) -> Tensor {
    let ty = TensorType::new(dtype, shape).unwrap();
    let bytes: Vec<u8> = (0..ty.bytes()).map(|_| random.next() as u8).collect();
    Tensor::new(ty, BufferMut::copy_of(&bytes).unwrap().freeze()).unwrap()
}

fn variable(case: Case, tensor: Tensor) -> Case {
    case.tensor(Some(tensor), InputKind::Variable)
}

/// Ordinary values, ties, values out of range, infinities and NaN.
fn wide_values(random: &mut Random, count: usize) -> Vec<f32> {
    let special = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        0.0,
        -0.0,
        0.5,
        1.5,
        -2.5,
        7.9,
        -8.9,
        15.9,
        448.0,
        464.0,
        480.0,
        57344.0,
        -61440.0,
        1e9,
        -1e30,
        3e38,
        1e-9,
    ];
    (0..count)
        .map(|_| match random.below(3) {
            0 => random.pick(&special),
            _ => random.value() * 300.0,
        })
        .collect()
}

#[test]
fn casts_to_and_from_small_types() {
    let mut random = Random::new(41);
    let floats = [DataType::F32, DataType::F16, DataType::BF16, DataType::F64];
    let packings = [
        [DataType::I4, DataType::U4].as_slice(),
        &[DataType::I2, DataType::U2],
        &[DataType::F4E2M1Fn],
    ];
    let packed = packings.concat();
    for shape in [&[1][..], &[7, 11], &[3, 131, 97]] {
        let count = shape.iter().product();
        for from in floats {
            for to in SMALL_FLOATS.iter().chain(&packed).copied() {
                let values = wide_values(&mut random, count);
                rounded(Case::new("Cast"), from, InputKind::Variable, shape, &values)
                    .string("to", to.name())
                    .outputs(1)
                    .agrees_with_reference(0.0);
            }
        }
    }
    let integers = [
        DataType::I8,
        DataType::U8,
        DataType::I16,
        DataType::U16,
        DataType::I32,
        DataType::U32,
        DataType::I64,
        DataType::U64,
    ];
    for shape in [&[][..], &[5], &[3, 43]] {
        for packing in packings {
            for other in integers.iter().chain(packing).copied() {
                for &small in packing {
                    for (from, to) in [(other, small), (small, other)] {
                        if from != to {
                            variable(Case::new("Cast"), random_bytes(&mut random, from, shape))
                                .string("to", to.name())
                                .outputs(1)
                                .agrees_with_reference(0.0);
                        }
                    }
                }
            }
        }
        for to in floats.into_iter().chain([DataType::Bool]) {
            for &from in &packed {
                variable(Case::new("Cast"), random_bytes(&mut random, from, shape))
                    .string("to", to.name())
                    .outputs(1)
                    .agrees_with_reference(0.0);
            }
        }
        for from in integers {
            variable(Case::new("Cast"), random_bytes(&mut random, from, shape))
                .string("to", DataType::F8E4M3Fn.name())
                .outputs(1)
                .agrees_with_reference(0.0);
        }
    }
}

/// Shapes, the axis and the block of quantised tensors; a block of 0 is one scale for each position.
const GRANULARITIES: [(&[usize], i64, i64); 7] = [
    (&[6, 5], 0, 0),
    (&[6, 5], -1, 2),
    (&[7, 9], 0, 3),
    (&[3, 7, 5], 1, 4),
    (&[2, 3, 70], 2, 64),
    (&[4, 130, 33], 1, 32),
    (&[9], 0, 2),
];

/// The shape of the scales.
fn scale_shape(shape: &[usize], axis: i64, block: i64) -> Vec<usize> {
    let axis = (axis + if axis < 0 { shape.len() as i64 } else { 0 }) as usize;
    if block == 0 {
        return vec![shape[axis]];
    }
    let mut shape = shape.to_vec();
    shape[axis] = shape[axis].div_ceil(block as usize);
    shape
}

#[test]
fn quantisation_of_every_granularity_and_type() {
    let mut random = Random::new(42);
    let types = [
        DataType::I4,
        DataType::U4,
        DataType::I2,
        DataType::U2,
        DataType::I8,
        DataType::U8,
        DataType::I16,
        DataType::U16,
    ];
    for (shape, axis, block) in GRANULARITIES {
        let scales = scale_shape(shape, axis, block);
        let positive = |random: &mut Random, count: usize| -> Vec<f32> {
            (0..count).map(|_| 0.01 + random.value().abs()).collect()
        };
        for float in [DataType::F32, DataType::F16, DataType::BF16] {
            // The first two are no types of quantised tensors.
            for &dtype in types.iter().chain(&SMALL_FLOATS[2..]) {
                let count = shape.iter().product();
                let mut values = random.values(count);
                values.iter_mut().for_each(|value| *value *= 40.0);
                values[0] = f32::NAN;
                values[count / 2] = f32::INFINITY;
                let scale = positive(&mut random, scales.iter().product());
                let zero = if SMALL_FLOATS.contains(&dtype) {
                    let zeros = vec![0.0; scale.len()];
                    converted(dtype, &scales, &zeros)
                } else {
                    random_bytes(&mut random, dtype, &scales)
                };
                let case = rounded(
                    Case::new("QuantizeLinear"),
                    float,
                    InputKind::Variable,
                    shape,
                    &values,
                );
                let case = rounded(case, float, InputKind::Variable, &scales, &scale);
                variable(case, zero.clone())
                    .int("axis", axis)
                    .int("block_size", block)
                    .outputs(1)
                    .agrees_with_reference(0.0);
                let quantised = random_bytes(&mut random, dtype, shape);
                let case = variable(Case::new("DequantizeLinear"), quantised);
                let case = rounded(case, float, InputKind::Variable, &scales, &scale);
                variable(case, zero)
                    .int("axis", axis)
                    .int("block_size", block)
                    .outputs(1)
                    .agrees_with_reference(2e-2);
            }
        }
    }
}

#[test]
fn quantisation_without_zero_points() {
    let mut random = Random::new(43);
    for to in [
        DataType::I4,
        DataType::F8E5M2,
        DataType::U16,
        DataType::F4E2M1Fn,
    ] {
        let values = wide_values(&mut random, 77);
        Case::new("QuantizeLinear")
            .input(&[7, 11], &values)
            .input(&[], &[0.25f32])
            .string("output_dtype", to.name())
            .outputs(1)
            .agrees_with_reference(0.0);
        variable(
            Case::new("DequantizeLinear"),
            random_bytes(&mut random, to, &[7, 11]),
        )
        .input(&[], &[0.25f32])
        .outputs(1)
        .agrees_with_reference(1e-6);
    }
    Case::new("QuantizeLinear")
        .input(&[5], &[3000i32, -7, i32::MAX, 0, i32::MIN])
        .input(&[], &[0.7f32])
        .string("output_dtype", "i8")
        .outputs(1)
        .agrees_with_reference(0.0);
    // The division in another type, which decides ties.
    Case::new("QuantizeLinear")
        .input(
            &[77],
            &random
                .values(77)
                .iter()
                .map(|x| x * 100.0)
                .collect::<Vec<_>>(),
        )
        .input(&[], &[0.3f32])
        .string("precision", "f16")
        .outputs(1)
        .agrees_with_reference(0.0);
}

/// Shapes of A and B: odd sizes, batches, vectors.
const PRODUCTS: [(&[usize], &[usize]); 7] = [
    (&[7, 33], &[33, 19]),
    (&[1, 1], &[1, 1]),
    (&[2, 1, 13, 5], &[3, 5, 40]),
    (&[4, 6, 8], &[8, 16]),
    (&[5], &[5, 17]),
    (&[9], &[9]),
    (&[67, 70], &[70, 131]),
];

#[test]
fn matrix_products_of_integers() {
    let mut random = Random::new(44);
    for (a, b) in PRODUCTS {
        let rows = if a.len() > 1 { a[a.len() - 2] } else { 1 };
        let columns = if b.len() > 1 { b[b.len() - 1] } else { 1 };
        for a_type in BYTES {
            for b_type in BYTES {
                for kind in [InputKind::Variable, InputKind::Constant] {
                    let operands = |random: &mut Random| {
                        let a = random_bytes(random, a_type, a);
                        let case = variable(Case::new("MatMulInteger"), a);
                        case.tensor(Some(random_bytes(random, b_type, b)), kind)
                    };
                    operands(&mut random).outputs(1).agrees_with_reference(0.0);
                    for (a_zero, b_zero) in [(1, 1), (1, columns), (rows, columns)] {
                        let case = operands(&mut random);
                        let case = variable(case, random_bytes(&mut random, a_type, &[a_zero]));
                        variable(case, random_bytes(&mut random, b_type, &[b_zero]))
                            .outputs(1)
                            .agrees_with_reference(0.0);
                    }
                }
            }
        }
    }
}

#[test]
fn quantised_matrix_products() {
    let mut random = Random::new(45);
    for (a, b) in PRODUCTS {
        let rows = if a.len() > 1 { a[a.len() - 2] } else { 1 };
        let columns = if b.len() > 1 { b[b.len() - 1] } else { 1 };
        for float in [DataType::F32, DataType::F16, DataType::BF16] {
            for (dtype, per_row, per_column) in [
                (DataType::U8, 1, 1),
                (DataType::I8, 1, columns),
                (DataType::U8, rows, columns),
            ] {
                let parameters = |case: Case, random: &mut Random, count: usize| {
                    let scales: Vec<f32> = (0..count)
                        .map(|_| 0.01 + random.value().abs() / 9.0)
                        .collect();
                    let case = rounded(case, float, InputKind::Variable, &[count], &scales);
                    variable(case, random_bytes(random, dtype, &[count]))
                };
                let case = variable(
                    Case::new("QLinearMatMul"),
                    random_bytes(&mut random, dtype, a),
                );
                let case = parameters(case, &mut random, per_row);
                let case = variable(case, random_bytes(&mut random, dtype, b));
                let case = parameters(case, &mut random, per_column);
                let y = rounded(case, float, InputKind::Variable, &[], &[3.5]);
                variable(y, random_bytes(&mut random, dtype, &[]))
                    .outputs(1)
                    .agrees_with_reference(0.0);
            }
        }
    }
}

/// Images, weights, groups, strides, dilations and pads.
type Window = (
    &'static [usize],
    &'static [usize],
    i64,
    &'static [usize],
    &'static [usize],
    &'static [usize],
);

const WINDOWS: [Window; 6] = [
    (
        &[1, 3, 7, 9],
        &[5, 3, 3, 3],
        1,
        &[1, 1],
        &[1, 1],
        &[1, 1, 1, 1],
    ),
    (
        &[2, 4, 11, 6],
        &[6, 2, 2, 3],
        2,
        &[2, 1],
        &[1, 2],
        &[0, 3, 1, 0],
    ),
    (
        &[1, 5, 4, 4],
        &[5, 1, 3, 3],
        5,
        &[1, 1],
        &[1, 1],
        &[2, 2, 2, 2],
    ),
    (
        &[1, 8, 33, 35],
        &[17, 8, 1, 1],
        1,
        &[1, 1],
        &[1, 1],
        &[0, 0, 0, 0],
    ),
    (&[3, 2, 19], &[4, 2, 5], 1, &[3], &[2], &[4, 1]),
    (
        &[1, 2, 4, 5, 6],
        &[3, 2, 2, 3, 2],
        1,
        &[1, 2, 1],
        &[1, 1, 2],
        &[1, 0, 1, 0, 1, 1],
    ),
];

fn with_window(case: Case, (_, _, group, strides, dilations, pads): Window) -> Case {
    case.int("group", group)
        .ints("strides", strides)
        .ints("dilations", dilations)
        .ints("pads", pads)
}

#[test]
fn convolutions_of_integers() {
    let mut random = Random::new(46);
    for window in WINDOWS {
        let (x, w, ..) = window;
        for x_type in BYTES {
            for w_type in BYTES {
                let case = variable(
                    Case::new("ConvInteger"),
                    random_bytes(&mut random, x_type, x),
                );
                let case = variable(case, random_bytes(&mut random, w_type, w));
                let case = with_window(case, window);
                if x_type == w_type {
                    case.outputs(1).agrees_with_reference(0.0);
                } else {
                    let case = variable(case, random_bytes(&mut random, x_type, &[]));
                    variable(case, random_bytes(&mut random, w_type, &[w[0]]))
                        .outputs(1)
                        .agrees_with_reference(0.0);
                }
            }
        }
    }
}

#[test]
fn quantised_convolutions() {
    let mut random = Random::new(47);
    for window in WINDOWS {
        let (x, w, ..) = window;
        for (dtype, w_type, each, bias) in [
            (DataType::U8, DataType::I8, w[0], true),
            (DataType::I8, DataType::I8, 1, false),
            (DataType::U8, DataType::U8, 1, true),
        ] {
            let case = variable(
                Case::new("QLinearConv"),
                random_bytes(&mut random, dtype, x),
            );
            let case = variable(
                case.input(&[], &[0.02f32]),
                random_bytes(&mut random, dtype, &[]),
            );
            let case = variable(case, random_bytes(&mut random, w_type, w));
            let scales: Vec<f32> = (0..each).map(|_| 0.01 + random.value().abs()).collect();
            let case = variable(
                case.input(&[each], &scales),
                random_bytes(&mut random, w_type, &[each]),
            );
            let case = variable(
                case.input(&[], &[1.7f32]),
                random_bytes(&mut random, dtype, &[]),
            );
            let case = if bias {
                let bias: Vec<i32> = (0..w[0]).map(|_| random.next() as i32 >> 12).collect();
                case.input(&[w[0]], &bias)
            } else {
                case
            };
            with_window(case, window)
                .outputs(1)
                .agrees_with_reference(0.0);
        }
    }
}

/// The parameters of a fused product of `columns` columns: the types of its operands and of its output, and whether
/// scales and zero points of the weights are those of columns.
struct FusedTypes {
    x: DataType,
    w: DataType,
    y: DataType,
    per_column: bool,
    /// Whether there are zero points and a bias.
    has_optional: bool,
}

const FUSED_TYPES: [FusedTypes; 5] = [
    FusedTypes {
        x: DataType::U8,
        w: DataType::I8,
        y: DataType::U8,
        per_column: true,
        has_optional: true,
    },
    FusedTypes {
        x: DataType::I8,
        w: DataType::I8,
        y: DataType::I8,
        per_column: false,
        has_optional: true,
    },
    FusedTypes {
        x: DataType::U8,
        w: DataType::U8,
        y: DataType::U8,
        per_column: true,
        has_optional: true,
    },
    FusedTypes {
        x: DataType::U8,
        w: DataType::I8,
        y: DataType::U8,
        per_column: false,
        has_optional: false,
    },
    FusedTypes {
        x: DataType::I8,
        w: DataType::U8,
        y: DataType::F32,
        per_column: true,
        has_optional: true,
    },
];

/// Operands of a fused product: X and W with their parameters, the bias, and the parameters of Y.
fn fused(
    name: &str,
    random: &mut Random,
    (x, w, columns, depth): (&[usize], &[usize], usize, usize),
    types: &FusedTypes,
) -> Case {
    let count = if types.per_column { columns } else { 1 };
    let w_scales: Vec<f32> = (0..count)
        .map(|_| 0.001 + 0.01 * random.value().abs())
        .collect();
    let shape: &[usize] = if types.per_column { &[columns] } else { &[] };
    let zero = |case: Case, random: &mut Random, dtype, shape: &[usize]| {
        if types.has_optional {
            case.tensor(
                Some(random_bytes(random, dtype, shape)),
                InputKind::Constant,
            )
        } else {
            case.none()
        }
    };
    let case = variable(Case::new(name), random_bytes(random, types.x, x));
    let case = zero(case.constant(&[], &[0.02f32]), random, types.x, &[]);
    let case = case.tensor(Some(random_bytes(random, types.w, w)), InputKind::Constant);
    let case = zero(case.constant(shape, &w_scales), random, types.w, shape);
    let case = if types.has_optional {
        let bias: Vec<f32> = (0..columns).map(|_| random.value()).collect();
        case.constant(&[columns], &bias)
    } else {
        case.none()
    };
    if types.y == DataType::F32 {
        return case;
    }
    let case = case.constant(&[], &[0.02 * (depth as f32).sqrt()]);
    zero(case, random, types.y, &[])
}

/// Adds a residual of the shape of the output, with the types of the addend and of the sums before, if they are quantised.
fn with_residual(
    case: Case,
    random: &mut Random,
    (shape, depth): (&[usize], usize),
    (addend, sums): (DataType, Option<DataType>),
) -> Case {
    let mut case = case;
    while case.spec.inputs.len() < 9 {
        case = case.none();
    }
    let step = 0.02 * (depth as f32).sqrt();
    let case = if addend == DataType::F32 {
        let values: Vec<f32> = (0..shape.iter().product())
            .map(|_| 100.0 * step * random.value())
            .collect();
        case.input(shape, &values).none().none()
    } else {
        let case = variable(case, random_bytes(random, addend, shape)).constant(&[], &[0.7 * step]);
        let zero = random_bytes(random, addend, &[]);
        case.tensor(Some(zero), InputKind::Constant)
    };
    match sums {
        None => case,
        Some(dtype) => {
            let zero = random_bytes(random, dtype, &[]);
            let case = case.constant(&[], &[0.3 * step]);
            case.tensor(Some(zero), InputKind::Constant)
        }
    }
}

/// The types of a residual and of the sums, for each of [`FUSED_TYPES`].
const RESIDUALS: [(DataType, Option<DataType>); 5] = [
    (DataType::U8, Some(DataType::U8)),
    (DataType::U8, Some(DataType::I8)),
    (DataType::I8, None),
    (DataType::F32, Some(DataType::U8)),
    (DataType::F32, None),
];

const ACTIVATIONS: [&str; 5] = ["none", "relu", "silu", "none", "gelu"];

#[test]
fn fused_convolutions_are_within_a_step() {
    let mut random = Random::new(49);
    // Images with the channels last, weights, groups, strides, dilations, pads.
    let windows: [Window; 5] = [
        (
            &[1, 9, 7, 3],
            &[5, 3, 3, 3],
            1,
            &[1, 1],
            &[1, 1],
            &[1, 1, 1, 1],
        ),
        (
            &[2, 11, 6, 4],
            &[40, 2, 2, 3],
            2,
            &[2, 1],
            &[1, 2],
            &[0, 3, 1, 0],
        ),
        (
            &[1, 33, 35, 8],
            &[17, 8, 1, 1],
            1,
            &[1, 1],
            &[1, 1],
            &[0, 0, 0, 0],
        ),
        (&[3, 19, 70], &[33, 70, 5], 1, &[3], &[2], &[4, 1]),
        (
            &[1, 8, 9, 400],
            &[19, 400, 3, 3],
            1,
            &[1, 1],
            &[1, 1],
            &[1, 1, 1, 1],
        ),
    ];
    for window in windows {
        let (x, w, ..) = window;
        for (types, activation) in FUSED_TYPES.iter().zip(ACTIVATIONS) {
            let sizes = (x, w, w[0], w[1..].iter().product());
            let case = fused("tenon.QuantizedConv", &mut random, sizes, types);
            let case = with_window(case, window).string("activation", activation);
            let case = case.outputs(1);
            let tolerance = if types.y == DataType::F32 { 1e-4 } else { 1.0 };
            case.agrees_with_reference(tolerance);
            let shape = case.spec.outputs[0].as_ref().unwrap().shape().to_vec();
            for residual in RESIDUALS {
                // Sums that are rounded either way are a whole step of f32.
                if types.y != DataType::F32 || residual.1.is_none() {
                    let case = fused("tenon.QuantizedConv", &mut random, sizes, types);
                    let case = with_residual(case, &mut random, (&shape, sizes.3), residual);
                    let case = with_window(case, window).string("activation", activation);
                    case.outputs(1).agrees_with_reference(tolerance);
                }
            }
        }
    }
}

#[test]
fn fused_products_are_within_a_step() {
    let mut random = Random::new(50);
    for (a, depth, columns, transposed) in [
        (&[1, 64][..], 64, 10, false),
        (&[2, 3, 37], 37, 70, true),
        (&[50, 1027], 1027, 33, false),
        (&[3, 5000], 5000, 17, true),
    ] {
        for (types, activation) in FUSED_TYPES.iter().zip(ACTIVATIONS) {
            let b = if transposed {
                [columns, depth]
            } else {
                [depth, columns]
            };
            let sizes = (a, &b[..], columns, depth);
            let case = fused("tenon.QuantizedMatMul", &mut random, sizes, types);
            let finished = |case: Case| {
                let case = case.int("trans_b", transposed.into());
                case.string("activation", activation).outputs(1)
            };
            let tolerance = if types.y == DataType::F32 { 1e-4 } else { 1.0 };
            let case = finished(case);
            case.agrees_with_reference(tolerance);
            let shape = case.spec.outputs[0].as_ref().unwrap().shape().to_vec();
            for residual in RESIDUALS {
                if types.y != DataType::F32 || residual.1.is_none() {
                    let case = fused("tenon.QuantizedMatMul", &mut random, sizes, types);
                    let case = with_residual(case, &mut random, (&shape, depth), residual);
                    finished(case).agrees_with_reference(tolerance);
                }
            }
        }
    }
}

/// Extents and attributes at the edges of their types are refused or planned, without a panic.
#[test]
fn hostile_extents() {
    let large = 1 << 40;
    for (a, b) in [
        (&[large, 4][..], &[4, large][..]),
        (&[1, large], &[large, 1]),
        (&[2, large, 4, 4], &[large, 1, 4, 4]),
    ] {
        let case = Case::new("MatMulInteger");
        let case = without_elements(case, DataType::U8, a);
        let case = without_elements(case, DataType::U8, b);
        if operands::has_inferred_outputs(&case, 1) {
            plan_at_all_levels(&case.outputs(1));
        }
    }
    for values in [
        [0, 1],
        [1, 0],
        [-1, 1],
        [i64::MAX, 1],
        [1, i64::MAX],
        [i64::MIN, i64::MIN],
    ] {
        for name in ["strides", "dilations"] {
            let case = Case::new("ConvInteger");
            let case = without_elements(case, DataType::U8, &[1, 2, large, 8]);
            let case = without_elements(case, DataType::U8, &[3, 2, 3, 3])
                .attribute(name, Attribute::Ints(values.to_vec()))
                .attribute("group", Attribute::Int(values[0]));
            if operands::has_inferred_outputs(&case, 1) {
                plan_at_all_levels(&case.outputs(1));
            }
        }
    }
    for block in [i64::MIN, -1, i64::MAX] {
        let case = Case::new("DequantizeLinear");
        let case = without_elements(case, DataType::U4, &[large, 3]);
        let case = without_elements(case, DataType::F32, &[1, 3])
            .int("axis", 0)
            .int("block_size", block);
        if operands::has_inferred_outputs(&case, 1) {
            plan_at_all_levels(&case.outputs(1));
        }
    }
}

/// Parameters that are not per tensor, row or column, and sums beyond 32 bits are left to the reference.
#[test]
fn refused_parameters() {
    let mut random = Random::new(48);
    let case = variable(
        Case::new("MatMulInteger"),
        random_bytes(&mut random, DataType::U8, &[6, 4]),
    );
    let case = variable(case, random_bytes(&mut random, DataType::U8, &[4, 5]));
    let case = variable(case, random_bytes(&mut random, DataType::U8, &[3])).outputs(1);
    assert!(case.supported(CpuLevel::Avx2).is_err());
    let depth = 40_000;
    let case = without_elements(Case::new("QLinearMatMul"), DataType::U8, &[1, depth]);
    let case = variable(
        case.input(&[], &[1f32]),
        random_bytes(&mut random, DataType::U8, &[]),
    );
    let case = without_elements(case, DataType::U8, &[depth, 1]);
    let case = variable(
        case.input(&[], &[1f32]),
        random_bytes(&mut random, DataType::U8, &[]),
    );
    let case = variable(
        case.input(&[], &[1f32]),
        random_bytes(&mut random, DataType::U8, &[]),
    );
    let mut case = case;
    case.spec.outputs = vec![Some(TensorType::new(DataType::U8, [1, 1]).unwrap())];
    assert!(case.supported(CpuLevel::Avx2).is_err());
}

/// Weights of 4 and 8 bits with scales of tensors, columns and blocks, for few rows and for many.
#[test]
fn products_with_weights_alone_quantized() {
    let mut random = Random::new(77);
    for round in 0..96 {
        let float = random.pick(&[DataType::F32, DataType::F32, DataType::F16, DataType::BF16]);
        let weights = random.pick(&[DataType::U4, DataType::I4, DataType::U8, DataType::I8]);
        let rows = random.pick(&[1, 1, 2, 3, 4, 5, 9, 24, 40]);
        let (depth, columns) = (random.between(1, 300), random.between(1, 120));
        let block = random.pick(&[0, 8, 16, 32, 128, 400]);
        let transposed = random.below(2) == 1;
        let blocks = if block == 0 { 1 } else { depth.div_ceil(block) };
        let stored = |rows: usize| {
            if transposed {
                [columns, rows]
            } else {
                [rows, columns]
            }
        };
        let parameters = match (block, random.below(3)) {
            (0, 0) => vec![],
            (0, _) => vec![columns],
            _ => stored(blocks).to_vec(),
        };
        let mut floats = |shape: &[usize], scale: f32| {
            let count = shape.iter().product();
            let values: Vec<f32> = (0..count).map(|_| random.value() * scale).collect();
            converted(float, shape, &values)
        };
        let mut a = floats(&[2, rows, depth], 1.0);
        if round % 7 == 0 {
            let mut values = vec![0.5; 2 * rows * depth];
            values[round % (rows * depth)] = f32::INFINITY;
            values[rows * depth] = f32::NEG_INFINITY;
            a = converted(float, &[2, rows, depth], &values);
        }
        let bias = (round % 3 == 0).then(|| floats(&[columns], 1.0));
        let addend = (round % 5 == 0).then(|| floats(&[2, rows, columns], 1.0));
        let count = parameters.iter().product();
        let scales: Vec<f32> = (0..count)
            .map(|_| (random.value() + 0.1) / depth as f32)
            .collect();
        let mut integers = |shape: &[usize]| {
            let [least, greatest] = weights.quantized_range().unwrap();
            let count = (greatest - least) as usize + 1;
            let values: Vec<f32> = (0..shape.iter().product())
                .map(|_| random.below(count) as f32 + least as f32)
                .collect();
            let values = Tensor::from_slice(shape, &values).unwrap();
            convert(&values, weights).unwrap()
        };
        let b = integers(&stored(depth));
        let zero = (round % 2 == 0).then(|| integers(&parameters));
        let mut case = Case::new("tenon.WeightOnlyMatMul")
            .tensor(Some(a), InputKind::Variable)
            .tensor(Some(b), InputKind::Constant)
            .tensor(
                Some(converted(float, &parameters, &scales)),
                InputKind::Constant,
            )
            .tensor(zero, InputKind::Constant)
            .tensor(bias, InputKind::Variable)
            .tensor(addend, InputKind::Variable)
            .int("block_size", block as i64)
            .int("trans_b", transposed.into());
        case = match round % 4 {
            0 => case.string("activation", "relu"),
            1 => case.string("activation", "silu"),
            _ => case,
        };
        case.outputs(1).agrees_with_reference(match float {
            DataType::F32 => 2e-5,
            DataType::F16 => 4e-3,
            _ => 3e-2,
        });
    }
}

#[test]
fn products_with_quantized_weights_that_are_refused() {
    let case = |block: i64, kind: InputKind| {
        let b = Tensor::from_slice([32, 3], &[1u8; 96]).unwrap();
        let scales = vec![1.0f32; 32usize.div_ceil(block as usize) * 3];
        Case::new("tenon.WeightOnlyMatMul")
            .input(&[2, 32], &[1.0f32; 64])
            .tensor(Some(b), kind)
            .constant(&[scales.len() / 3, 3], &scales)
            .int("block_size", block)
            .outputs(1)
    };
    for level in common::LEVELS {
        assert!(case(16, InputKind::Constant).supported(level).is_ok());
        let error = case(6, InputKind::Constant).supported(level).unwrap_err();
        assert!(error.to_string().contains("multiple of 4"), "{error}");
        let error = case(16, InputKind::Variable).supported(level).unwrap_err();
        assert!(error.to_string().contains("constant"), "{error}");
    }
}
