//! Elementwise operators of every numeric type with every kind of broadcasting, compared with CpuRef:
//! arithmetic, comparison, logic, bits, powers, selection, and functions of one operand.

mod common;

use common::{Case, InputKind, LEVELS, Random};
use tenon_tensor::{DataType, Shape, Tensor, converter};

const FLOATS: [DataType; 4] = [DataType::F32, DataType::F64, DataType::F16, DataType::BF16];
const INTEGERS: [DataType; 8] = [
    DataType::I8,
    DataType::I16,
    DataType::I32,
    DataType::I64,
    DataType::U8,
    DataType::U16,
    DataType::U32,
    DataType::U64,
];

/// Pairs of shapes that broadcast to each other.
const SHAPES: [(&[usize], &[usize]); 14] = [
    (&[], &[]),
    (&[7], &[7]),
    (&[2, 3, 4, 5], &[2, 3, 4, 5]),
    (&[2, 3, 4, 20], &[20]),
    (&[2, 3, 4, 20], &[]),
    (&[2, 5, 6, 19], &[2, 1, 1, 19]),
    (&[2, 8, 5, 5], &[8, 1, 1]),
    (&[1, 8, 9, 100], &[8, 1, 1]),
    (&[700, 3], &[3]),
    (&[5, 1], &[1, 600]),
    (&[1, 1, 9], &[3, 2, 1]),
    (&[3, 1, 2, 1, 5, 1], &[4, 1, 3, 1, 2]),
    (&[36000], &[1]),
    (&[3, 70, 1], &[3, 1, 71]),
];

/// The tolerance of a result, relative above 1: a few units in the last place.
fn tolerance(dtype: DataType) -> f64 {
    match dtype {
        DataType::F64 => 1e-13,
        DataType::F16 => 2e-3,
        DataType::BF16 => 1.6e-2,
        _ => 5e-7,
    }
}

/// Random elements: small ones for floats with special values among them, any bits for integers.
fn elements(random: &mut Random, dtype: DataType, shape: &[usize]) -> Tensor {
    let count = Shape::new(shape).elements();
    if dtype.is_float() {
        let special = [
            0.0,
            -0.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            1.0,
            -2.0,
        ];
        let values = (0..count).map(|_| {
            if random.below(8) == 0 {
                random.pick(&special)
            } else {
                f64::from(random.value()) * random.pick(&[0.1, 4.0, 30.0])
            }
        });
        return converted(dtype, shape, &values.collect::<Vec<_>>());
    }
    let bytes = count * dtype.bits() / 8;
    let bytes: Vec<u8> = (0..bytes)
        .map(|_| {
            if dtype == DataType::Bool {
                random.below(2) as u8
            } else {
                // Extreme and small integers are likely.
                let any = random.below(256) as u8;
                random.pick(&[0, 0, 0xFF, 0xFF, 0x80, 0x7F, 1, 3, any])
            }
        })
        .collect();
    tensor(dtype, shape, &bytes)
}

fn tensor(dtype: DataType, shape: &[usize], bytes: &[u8]) -> Tensor {
    let ty = tenon_tensor::TensorType::new(dtype, shape).unwrap();
    let buffer = tenon_tensor::BufferMut::copy_of(bytes).unwrap();
    Tensor::new(ty, buffer.freeze()).unwrap()
}

/// The values in type `dtype`.
fn converted(dtype: DataType, shape: &[usize], values: &[f64]) -> Tensor {
    let wide: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    if dtype == DataType::F64 {
        return tensor(dtype, shape, &wide);
    }
    let mut bytes = vec![0; values.len() * dtype.bits() / 8];
    converter(DataType::F64, dtype).unwrap()(&wide, &mut bytes);
    tensor(dtype, shape, &bytes)
}

fn case(name: &str, operands: impl IntoIterator<Item = Tensor>) -> Case {
    let operands = operands.into_iter();
    operands.fold(Case::new(name), |case, operand| {
        case.tensor(Some(operand), InputKind::Variable)
    })
}

/// Compares the operator on each type and each pair of shapes, whose broadcast has the first shape where
/// `first` is true.
#[track_caller]
fn pairs(names: &[&str], dtypes: &[DataType], first: bool, with: impl Fn(Case) -> Case) {
    let mut random = Random::new(17);
    for name in names {
        for &dtype in dtypes {
            for (a, b) in SHAPES {
                let output = Shape::new(a).broadcast(&Shape::new(b)).unwrap();
                for (a, b) in [(a, b), (b, a)] {
                    if first && *output != *a {
                        continue;
                    }
                    let operands = [a, b].map(|shape| elements(&mut random, dtype, shape));
                    with(case(name, operands))
                        .outputs(1)
                        .agrees_with_reference(tolerance(dtype));
                }
            }
        }
    }
}

#[test]
fn arithmetic_of_every_type_broadcasts() {
    let names = ["Add", "Sub", "Mul", "Div", "Min", "Max"];
    pairs(&names, &[&FLOATS[..], &INTEGERS].concat(), false, |case| {
        case
    });
    let signed = [&FLOATS[..], &INTEGERS[..4]].concat();
    pairs(&["PRelu"], &signed, true, |case| case);
}

#[test]
fn remainders_have_the_sign_of_one_operand() {
    for fmod in [0, 1] {
        pairs(
            &["Mod"],
            &[&FLOATS[..2], &INTEGERS].concat(),
            false,
            |case| case.int("fmod", fmod),
        );
    }
}

#[test]
fn comparisons_of_every_type_broadcast() {
    let names = ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"];
    pairs(&names, &[&FLOATS[..], &INTEGERS].concat(), false, |case| {
        case
    });
    pairs(&["Equal"], &[DataType::Bool], false, |case| case);
}

#[test]
fn logic_and_bits_broadcast() {
    pairs(&["And", "Or", "Xor"], &[DataType::Bool], false, |case| case);
    let names = ["BitwiseAnd", "BitwiseOr", "BitwiseXor"];
    pairs(&names, &INTEGERS, false, |case| case);
    for direction in ["LEFT", "RIGHT"] {
        pairs(&["BitShift"], &INTEGERS, false, |case| {
            case.string("direction", direction)
        });
    }
}

#[test]
fn any_number_of_inputs() {
    let mut random = Random::new(18);
    let shapes: [&[usize]; 4] = [&[3, 1, 50], &[2, 1], &[3, 2, 50], &[]];
    for name in ["Min", "Max", "Sum", "Mean"] {
        let integers = if name.len() == 3 && name != "Sum" {
            &INTEGERS[..]
        } else {
            &[]
        };
        for &dtype in FLOATS.iter().chain(integers) {
            for count in 1..=shapes.len() {
                let operands = shapes[..count]
                    .iter()
                    .map(|shape| elements(&mut random, dtype, shape));
                case(name, operands)
                    .outputs(1)
                    .agrees_with_reference(4.0 * tolerance(dtype));
            }
        }
    }
}

#[test]
fn gated_units() {
    let mut random = Random::new(19);
    for dtype in [DataType::F32, DataType::F16, DataType::BF16] {
        let shape = [3, 900];
        let mut operand = || {
            let values: Vec<f64> = (0..2700).map(|_| f64::from(random.value()) * 6.0).collect();
            converted(dtype, &shape, &values)
        };
        let operands = [operand(), operand()];
        case("SwiGLU", operands)
            .float("alpha", 1.5)
            .outputs(1)
            .agrees_with_reference(2.0 * tolerance(dtype));
    }
}

#[test]
fn powers_have_every_special_value() {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        3.0,
        -3.0,
        1.5,
        -1.5,
        1e30,
        -1e30,
        1e-40,
        16_777_215.0,
        16_777_217.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let count = special.len();
    for dtype in FLOATS {
        let column = converted(dtype, &[count, 1], &special);
        let row = converted(dtype, &[count], &special);
        case("Pow", [column.clone(), row])
            .outputs(1)
            .agrees_with_reference(tolerance(dtype));
        for exponent in special {
            let exponent = converted(dtype, &[], &[exponent]);
            case("Pow", [column.clone(), exponent])
                .outputs(1)
                .agrees_with_reference(tolerance(dtype));
        }
    }
    let mut random = Random::new(20);
    for base in [&FLOATS[..2], &INTEGERS].concat() {
        for exponent in [&FLOATS[..2], &INTEGERS].concat() {
            for (a, b) in [(&[4, 70][..], &[70][..]), (&[300], &[]), (&[3, 1], &[1, 5])] {
                let operands = [
                    elements(&mut random, base, a),
                    elements(&mut random, exponent, b),
                ];
                case("Pow", operands)
                    .outputs(1)
                    .agrees_with_reference(tolerance(base));
            }
        }
    }
}

#[test]
fn powers_of_random_values_are_within_one_unit() {
    let mut random = Random::new(21);
    let base: Vec<f32> = (0..20_000).map(|_| (random.value() * 40.0).exp()).collect();
    let exponents: Vec<f32> = (0..20_000).map(|_| random.value() * 4.0).collect();
    let case = Case::new("Pow")
        .input(&[20_000], &base)
        .input(&[20_000], &exponents)
        .outputs(1);
    for level in LEVELS {
        for (i, &found) in case.run(level).iter().enumerate() {
            let exact = f64::from(base[i]).powf(exponents[i].into());
            assert_within_units(
                found,
                exact,
                1.0,
                &format!("{} ^ {}", base[i], exponents[i]),
            );
        }
    }
}

#[test]
fn selections_move_elements_of_any_size() {
    let mut random = Random::new(22);
    let dtypes = [&FLOATS[..], &INTEGERS, &[DataType::Bool]].concat();
    let shapes: [[&[usize]; 3]; 7] = [
        [&[3, 40], &[3, 40], &[3, 40]],
        [&[3, 40], &[], &[3, 40]],
        [&[3, 40], &[3, 40], &[]],
        [&[1, 1, 50, 50], &[2, 3, 50, 50], &[1]],
        [&[3, 1], &[1, 200], &[200]],
        [&[500, 1], &[500, 3], &[3]],
        [&[], &[40_000], &[40_000]],
    ];
    for dtype in dtypes {
        for [condition, x, y] in shapes {
            let condition = elements(&mut random, DataType::Bool, condition);
            let [x, y] = [x, y].map(|shape| elements(&mut random, dtype, shape));
            case("Where", [condition, x, y])
                .outputs(1)
                .agrees_with_reference(0.0);
        }
    }
}

#[test]
fn random_shapes_broadcast() {
    let mut random = Random::new(25);
    for round in 0..150 {
        let rank = random.below(7);
        let output: Vec<usize> = (0..rank)
            .map(|_| {
                let most = random.pick(&[1, 3, 5, 130]);
                random.between(1, most.min(if rank > 3 { 6 } else { 130 }))
            })
            .collect();
        // Each operand has some dimensions of extent 1, and lacks some of the first ones.
        let mut operand = |dtype: DataType, whole: bool| {
            let first = if whole { 0 } else { random.below(rank + 1) };
            let shape: Vec<usize> = output[first..]
                .iter()
                .map(|&extent| {
                    if whole || random.below(3) > 0 {
                        extent
                    } else {
                        1
                    }
                })
                .collect();
            elements(&mut random, dtype, &shape)
        };
        let dtype = [DataType::F32, DataType::F16, DataType::I64, DataType::U8][round % 4];
        let [a, b, c] = [true, false, false].map(|whole| operand(dtype, whole));
        let condition = operand(DataType::Bool, false);
        for (name, operands) in [
            ("Sub", vec![a.clone(), b.clone()]),
            ("Greater", vec![b.clone(), a.clone()]),
            ("Less", vec![b.clone(), c.clone()]),
            ("Max", vec![b.clone(), a.clone(), c.clone()]),
            ("Where", vec![condition, b, c]),
        ] {
            case(name, operands)
                .outputs(1)
                .agrees_with_reference(tolerance(dtype));
        }
    }
}

#[test]
fn functions_of_one_operand_of_every_type() {
    let mut random = Random::new(23);
    let shape = [5, 1300];
    let mut check = |name: &str, dtypes: &[DataType], with: &dyn Fn(Case) -> Case| {
        for &dtype in dtypes {
            let operand = elements(&mut random, dtype, &shape);
            with(case(name, [operand]))
                .outputs(1)
                .agrees_with_reference(2.0 * tolerance(dtype));
        }
    };
    let signed = [&FLOATS[..], &INTEGERS[..4]].concat();
    let numeric = [&FLOATS[..], &INTEGERS].concat();
    let plain = |case: Case| case;
    for name in ["Abs", "Sign"] {
        check(name, &numeric, &plain);
    }
    for name in ["Neg", "Relu"] {
        check(name, &signed, &plain);
    }
    check("Shrink", &numeric, &|case| {
        case.float("lambd", 1.5).float("bias", 0.5)
    });
    check("BitwiseNot", &INTEGERS, &plain);
    check("Not", &[DataType::Bool], &plain);
    check("IsNaN", &FLOATS, &plain);
    for (negative, positive) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        check("IsInf", &FLOATS, &|case| {
            case.int("detect_negative", negative)
                .int("detect_positive", positive)
        });
    }
    let names = [
        "Reciprocal",
        "Sqrt",
        "Exp",
        "Log",
        "Ceil",
        "Floor",
        "Round",
        "Erf",
        "Sin",
        "Cos",
        "Tan",
        "Asin",
        "Acos",
        "Atan",
        "Sinh",
        "Cosh",
        "Asinh",
        "Acosh",
        "Atanh",
        "Tanh",
        "Sigmoid",
        "Softplus",
        "Softsign",
        "LeakyRelu",
        "ThresholdedRelu",
        "Elu",
        "Celu",
        "Selu",
        "Swish",
        "HardSigmoid",
        "HardSwish",
        "Gelu",
        "Mish",
    ];
    for name in names {
        check(name, &FLOATS, &plain);
    }
}

#[test]
fn bounds_of_clip_are_read_when_executing() {
    let mut random = Random::new(24);
    for dtype in [&FLOATS[..], &INTEGERS].concat() {
        let operand = elements(&mut random, dtype, &[4, 700]);
        for bounds in [
            [Some(2.0), Some(90.0)],
            [None, Some(5.0)],
            [Some(3.0), None],
            [Some(9.0), Some(4.0)],
        ] {
            let bound = |bound: Option<f64>| bound.map(|bound| converted(dtype, &[], &[bound]));
            Case::new("Clip")
                .tensor(Some(operand.clone()), InputKind::Variable)
                .tensor(bound(bounds[0]), InputKind::Variable)
                .tensor(bound(bounds[1]), InputKind::Variable)
                .outputs(1)
                .agrees_with_reference(0.0);
        }
    }
}

/// The distance of `found` from `exact` is at most `units` in the last place.
#[track_caller]
fn assert_within_units(found: f32, exact: f64, units: f64, what: &str) {
    let rounded = exact as f32;
    if rounded.is_infinite() || rounded.is_nan() {
        assert!(
            found == rounded || found.is_nan() && rounded.is_nan(),
            "{what}: {found}"
        );
        return;
    }
    let magnitude = rounded.abs().max(f32::MIN_POSITIVE);
    let unit = f64::from(f32::from_bits(magnitude.to_bits() + 1)) - f64::from(magnitude);
    let distance = (f64::from(found) - exact).abs() / unit;
    assert!(
        distance <= units,
        "{what}: {found} is {distance:.2} units from {exact}"
    );
}

#[test]
fn elementary_functions_are_within_two_units() {
    let dense = (-6000..=6000).map(|i| i as f32 / 300.0);
    let wide = (-140..=127).flat_map(|e| [1.0f32, -1.0, 1.37, -1.93].map(|m| m * 2f32.powi(e)));
    let x: Vec<f32> = dense.chain(wide).chain([0.0, -0.0]).collect();
    type Exact = fn(f64) -> f64;
    let functions: [(&str, f64, Exact); 15] = [
        ("Log", 2.0, f64::ln),
        ("Sin", 1.0, f64::sin),
        ("Cos", 1.0, f64::cos),
        ("Tan", 1.0, f64::tan),
        ("Asin", 2.0, f64::asin),
        ("Acos", 2.0, f64::acos),
        ("Atan", 2.0, f64::atan),
        ("Sinh", 1.0, f64::sinh),
        ("Cosh", 1.0, f64::cosh),
        ("Asinh", 1.0, f64::asinh),
        ("Acosh", 1.0, f64::acosh),
        ("Atanh", 1.0, f64::atanh),
        ("Softplus", 1.0, |x| x.max(0.0) + (-x.abs()).exp().ln_1p()),
        ("Softsign", 2.0, |x| x / (1.0 + x.abs())),
        ("Celu", 1.0, |x| x.max(0.0) + x.exp_m1().min(0.0)),
    ];
    for (name, units, exact) in functions {
        let case = Case::new(name).input(&[x.len()], &x).outputs(1);
        for level in LEVELS {
            for (i, &found) in case.run(level).iter().enumerate() {
                let what = format!("{name} of {:e} at {level:?}", x[i]);
                assert_within_units(found, exact(f64::from(x[i])), units, &what);
            }
        }
    }
}

#[test]
fn operands_without_a_kernel_are_refused() {
    let empty = Case::new("Add")
        .input::<f32>(&[0, 3], &[])
        .input::<f32>(&[1, 3], &[1.0; 3])
        .outputs(1);
    let strings = "no kernel for empty tensors";
    assert_eq!(empty.supported(LEVELS[0]).unwrap_err().to_string(), strings);
    // The shapes of a package that is not trusted.
    let different = Case::new("Add")
        .input::<f32>(&[2], &[1.0; 2])
        .input::<f32>(&[3], &[1.0; 3])
        .output(DataType::F32, &[3]);
    let refusal = different.supported(LEVELS[0]).unwrap_err();
    let broadcast = "input 'B' does not broadcast with those before it";
    assert!(refusal.to_string().starts_with(broadcast), "{refusal}");
    let types = Case::new("Where")
        .input::<u8>(&[3], &[1; 3])
        .input::<f32>(&[3], &[1.0; 3])
        .input::<f32>(&[3], &[1.0; 3])
        .output(DataType::F32, &[3]);
    let refusal = types.supported(LEVELS[0]).unwrap_err();
    let expected = "Where does not take input 'condition' of this type";
    assert!(refusal.to_string().starts_with(expected), "{refusal}");
}
