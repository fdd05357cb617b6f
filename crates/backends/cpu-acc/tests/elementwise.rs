//! Elementwise operators, compared with plain functions in f64: unary functions on a sweep of all
//! magnitudes, binary functions with every kind of broadcasting, quantisation and dequantisation.

mod common;

use common::{Case, LEVELS, Random, activate, check, erf};
use tenon_backend::{Backend, CpuLevel, NodeView};
use tenon_cpu_acc::CpuAcc;
use tenon_graph::{Attributes, operator};
use tenon_tensor::{DataType, TensorType};

/// Values of all magnitudes, dense around zero.
fn sweep() -> Vec<f32> {
    let dense = (-4000..=4000).map(|i| i as f32 / 200.0);
    let wide = (-60..=60).flat_map(|e| [1.0, -1.0, 1.37, -1.93].map(|m| m * 2f32.powi(e)));
    let edges = [
        0.0, -0.0, 88.0, 89.5, -87.0, -88.5, -100.0, -110.0, 0.5, 1.5, 2.5, -0.5, 4e6, 1e7,
    ];
    dense.chain(wide).chain(edges).collect()
}

#[track_caller]
fn compare(case: &Case, x: &[f32], relative: f64, absolute: f64, exact: impl Fn(f64) -> f64) {
    let exact: Vec<f64> = x.iter().map(|&x| exact(f64::from(x))).collect();
    for level in LEVELS {
        let found = case.run(level);
        for (i, (&found, &exact)) in found.iter().zip(&exact).enumerate() {
            // Results beyond f32 are infinite, and NaN stays NaN.
            if (exact as f32).is_infinite() || exact.is_nan() {
                assert!(
                    found == exact as f32 || found.is_nan() && exact.is_nan(),
                    "{} {found}",
                    x[i]
                );
            } else {
                let allowed = exact.abs() * relative + absolute;
                let what = format!("{} of {} on {level:?}", case.spec.op.name, x[i]);
                check(&[found], &[exact], |_| allowed, &what);
            }
        }
    }
}

#[test]
fn unary_functions_are_accurate_at_all_magnitudes() {
    let x = sweep();
    let case = |name: &str| Case::new(name).input(&[x.len()], &x).f32_output(&[x.len()]);
    // The least subnormal: the absolute error of subnormal results.
    let tiny = 1.5e-45;
    compare(&case("Abs"), &x, 0.0, 0.0, f64::abs);
    compare(&case("Neg"), &x, 0.0, 0.0, |x| -x);
    compare(&case("Sqrt"), &x, 6e-8, 0.0, f64::sqrt);
    compare(&case("Floor"), &x, 0.0, 0.0, f64::floor);
    compare(&case("Ceil"), &x, 0.0, 0.0, f64::ceil);
    compare(&case("Round"), &x, 0.0, 0.0, f64::round_ties_even);
    compare(&case("Relu"), &x, 0.0, 0.0, |x| x.max(0.0));
    compare(&case("Exp"), &x, 3e-7, tiny, f64::exp);
    compare(&case("Erf"), &x, 3e-7, 0.0, erf);
    compare(&case("Tanh"), &x, 3e-7, 0.0, f64::tanh);
    // Zero instead of subnormal, where the exponential is infinite.
    compare(&case("Sigmoid"), &x, 4e-7, 1.2e-38, |x| {
        activate("sigmoid", 0.0, 0.0, x)
    });
    // The product of an exact value and one with cancellation: an absolute tolerance as well.
    compare(&case("Gelu"), &x, 4e-7, 1.2e-6, |x| {
        activate("gelu", 0.0, 0.0, x)
    });
    let tanh = case("Gelu").string("approximate", "tanh");
    compare(&tanh, &x, 2e-6, 1e-6, |x| {
        activate("gelu_tanh", 0.0, 0.0, x)
    });
    compare(&case("Swish"), &x, 5e-7, 1e-37, |x| {
        activate("silu", 0.0, 0.0, x)
    });
    compare(&case("HardSwish"), &x, 4e-7, 3e-7, |x| {
        activate("hardswish", 0.0, 0.0, x)
    });
    compare(&case("HardSigmoid"), &x, 2e-7, 1e-7, |x| {
        activate("hardsigmoid", 0.2f32.into(), 0.5, x)
    });
    compare(&case("LeakyRelu"), &x, 2e-7, 0.0, |x| {
        if x < 0.0 { x * f64::from(0.01f32) } else { x }
    });
    compare(&case("Elu"), &x, 3e-7, 1.2e-7, |x| {
        if x < 0.0 { x.exp_m1() } else { x }
    });
    compare(&case("Mish"), &x, 1e-6, 1e-37, |x| {
        x * x.exp().ln_1p().tanh()
    });
    let square = Case::new("Pow")
        .input(&[x.len()], &x)
        .constant(&[], &[2.0f32]);
    compare(&square.f32_output(&[x.len()]), &x, 6e-8, tiny, |x| x * x);
    let clip = Case::new("Clip")
        .input(&[x.len()], &x)
        .constant(&[], &[-1.5f32])
        .none();
    compare(&clip.f32_output(&[x.len()]), &x, 0.0, 0.0, |x| x.max(-1.5));
    let nonzero: Vec<f32> = x.iter().copied().filter(|&x| x != 0.0).collect();
    let len = nonzero.len();
    let reciprocal = Case::new("Reciprocal")
        .input(&[len], &nonzero)
        .f32_output(&[len]);
    compare(&reciprocal, &nonzero, 6e-8, 0.0, |x| 1.0 / x);
}

#[test]
fn nan_stays_nan() {
    let x = [f32::NAN; 19];
    let names = [
        "Exp",
        "Erf",
        "Tanh",
        "Sigmoid",
        "Gelu",
        "Swish",
        "HardSwish",
        "Relu",
        "Mish",
        "Floor",
        "Elu",
    ];
    for name in names {
        let case = Case::new(name).input(&[19], &x).f32_output(&[19]);
        for level in LEVELS {
            assert!(
                case.run(level).iter().all(|y| y.is_nan()),
                "{name} {level:?}"
            );
        }
    }
}

#[test]
fn binary_functions_broadcast() {
    let mut random = Random::new(9);
    let pairs: [(&[usize], &[usize]); 11] = [
        (&[2, 3, 4, 5], &[2, 3, 4, 5]),
        (&[2, 3, 4, 20], &[20]),
        (&[2, 3, 4, 20], &[]),
        (&[], &[7, 5]),
        (&[2, 5, 6, 19], &[2, 1, 1, 19]),
        (&[2, 8, 5, 5], &[8, 1, 1]),
        (&[4, 1, 3], &[2, 3]),
        (&[5, 1], &[1, 6]),
        (&[1, 1, 9], &[3, 2, 1]),
        (&[70000], &[70000]),
        (&[70000], &[1]),
    ];
    type Exact = fn(f64, f64) -> f64;
    let functions: [(&str, Exact); 7] = [
        ("Add", |a, b| a + b),
        ("Sub", |a, b| a - b),
        ("Mul", |a, b| a * b),
        ("Div", |a, b| a / b),
        ("Min", f64::min),
        ("Max", f64::max),
        ("PRelu", |a, b| if a < 0.0 { a * b } else { a }),
    ];
    for (name, exact) in functions {
        for (a_shape, b_shape) in pairs {
            let (a_ty, b_ty) = (tensor_shape(a_shape), tensor_shape(b_shape));
            let output = a_ty.broadcast(&b_ty).unwrap();
            if name == "PRelu" && output != a_ty {
                continue;
            }
            let a = random.values(a_ty.elements());
            let b = random.values(b_ty.elements());
            let index = |shape: &tenon_tensor::Shape, flat: usize| {
                let (mut rest, mut at) = (flat, 0);
                for axis in (0..output.len()).rev() {
                    let place = rest % output[axis];
                    rest /= output[axis];
                    if let Some(own) = (axis + shape.len()).checked_sub(output.len())
                        && shape[own] > 1
                    {
                        at += place * shape.strides()[own];
                    }
                }
                at
            };
            let expected: Vec<f64> = (0..output.elements())
                .map(|i| exact(a[index(&a_ty, i)].into(), b[index(&b_ty, i)].into()))
                .collect();
            let case = Case::new(name)
                .input(a_shape, &a)
                .input(b_shape, &b)
                .f32_output(&output);
            for level in LEVELS {
                let allowed = |i: usize| expected[i].abs() * 6.1e-8;
                check(
                    &case.run(level),
                    &expected,
                    allowed,
                    &format!("{name} {a_shape:?} {b_shape:?}"),
                );
            }
        }
    }
}

fn tensor_shape(dims: &[usize]) -> tenon_tensor::Shape {
    tenon_tensor::Shape::new(dims)
}

#[test]
fn maximum_with_nan_is_nan_in_place() {
    let x: Vec<f32> = (0..33).map(|i| i as f32 - 16.0).collect();
    let case = Case::new("Max")
        .input(&[33], &x)
        .input(&[33], &[f32::NAN; 33])
        .f32_output(&[33]);
    for level in LEVELS {
        assert!(
            case.run(level).iter().all(|y| y.is_nan()),
            "NaN in either operand gives NaN"
        );
    }
}

#[test]
fn bytes_quantise_and_dequantise() {
    let mut random = Random::new(10);
    let x: Vec<f32> = (0..300)
        .map(|_| random.value() * 40.0)
        .chain([1e30, -1e30, 0.75, -0.25])
        .collect();
    let x = &x[..304];
    let (scales, zeros_i8, zeros_u8) = ([0.25f32, 0.5], [3i8, -7], [128u8, 9]);
    for (channels, inner) in [(1, 304), (2, 76)] {
        let shape = [304 / channels / inner, channels, inner];
        let channel = |i: usize| i / inner % channels;
        let case = Case::new("QuantizeLinear")
            .input(&shape, x)
            .constant(if channels == 1 { &[] } else { &[2] }, &scales[..channels]);
        let signed = case.constant(
            if channels == 1 { &[] } else { &[2] },
            &zeros_i8[..channels],
        );
        let signed = signed.output(DataType::I8, &shape);
        let expected: Vec<i8> = (0..304)
            .map(|i| {
                let quotient = (x[i] / scales[channel(i)]).round_ties_even();
                (quotient + f32::from(zeros_i8[channel(i)])).clamp(-128.0, 127.0) as i8
            })
            .collect();
        for level in LEVELS {
            assert_eq!(signed.run_as::<i8>(level), expected, "{level:?}");
        }
        let bytes: Vec<u8> = (0..304).map(|i| i as u8).collect();
        let back = Case::new("DequantizeLinear")
            .input(&shape, &bytes)
            .constant(if channels == 1 { &[] } else { &[2] }, &scales[..channels])
            .constant(
                if channels == 1 { &[] } else { &[2] },
                &zeros_u8[..channels],
            )
            .f32_output(&shape);
        let expected: Vec<f32> = (0..304)
            .map(|i| (f32::from(bytes[i]) - f32::from(zeros_u8[channel(i)])) * scales[channel(i)])
            .collect();
        for level in LEVELS {
            assert_eq!(back.run(level), expected);
        }
    }
}

#[test]
fn integers_of_16_bits_quantise_and_dequantise() {
    let mut random = Random::new(11);
    let x: Vec<f32> = (0..300)
        .map(|_| random.value() * 20_000.0)
        .chain([1e30, -1e30, 0.75, -0.25])
        .collect();
    let (scale, zero) = (0.5f32, 1000u16);
    let case = Case::new("QuantizeLinear")
        .input(&[304], &x)
        .constant(&[], &[scale]);
    let unsigned = case.constant(&[], &[zero]).output(DataType::U16, &[304]);
    let expected: Vec<u16> = x
        .iter()
        .map(|x| ((x / scale).round_ties_even() + f32::from(zero)).clamp(0.0, 65535.0) as u16)
        .collect();
    let integers: Vec<i16> = (0..304).map(|i| (i * 211) as i16).collect();
    let back = Case::new("DequantizeLinear")
        .input(&[304], &integers)
        .constant(&[], &[scale])
        .constant(&[], &[-5i16])
        .f32_output(&[304]);
    let expected_back: Vec<f32> = integers
        .iter()
        .map(|&i| (f32::from(i) + 5.0) * scale)
        .collect();
    for level in LEVELS {
        assert_eq!(unsigned.run_as::<u16>(level), expected, "{level:?}");
        assert_eq!(back.run(level), expected_back, "{level:?}");
    }
}

#[test]
fn refusals_have_a_reason() {
    let attributes = Attributes::new();
    let wide = TensorType::new(DataType::I64, [3]).unwrap();
    let node = NodeView {
        op: operator::operator("Exp").unwrap(),
        attributes: &attributes,
        inputs: &[Some(&wide)],
        constants: &[None],
        outputs: &[Some(&wide)],
        ranges: None,
    };
    let backend = CpuAcc::at_most(CpuLevel::Baseline);
    let refusal = backend.supports(&node).unwrap_err();
    let expected = "Exp does not take input 'input' of this type";
    assert!(refusal.to_string().starts_with(expected), "{refusal}");
    let empty = TensorType::new(DataType::F32, [0, 1 << 40]).unwrap();
    let nothing = [Some(&empty)];
    let node = NodeView {
        inputs: &nothing,
        outputs: &nothing,
        ..node
    };
    let refusal = backend.supports(&node).unwrap_err();
    assert_eq!(refusal.to_string(), "no kernel for empty tensors");
    let matrix = TensorType::new(DataType::F32, [2, 2]).unwrap();
    let positions = TensorType::new(DataType::I64, [2, 4]).unwrap();
    let node = NodeView {
        op: operator::operator("NonZero").unwrap(),
        inputs: &[Some(&matrix)],
        outputs: &[Some(&positions)],
        ..node
    };
    let refusal = backend.supports(&node).unwrap_err();
    assert_eq!(refusal.to_string(), "input 0 must be a constant");
}

#[test]
fn activations_agree_with_the_reference() {
    let mut random = Random::new(41);
    for name in ["Relu", "Sigmoid", "Elu", "HardSwish"] {
        let mut x = random.values(37);
        x.extend([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0]);
        let case = Case::new(name).input(&[x.len()], &x).outputs(1);
        case.agrees_with_reference(2e-6);
    }
}

#[test]
fn dynamic_quantisation_agrees_with_the_reference() {
    let mut random = Random::new(42);
    for len in [1, 7, 64, 1000, 100_003] {
        for (scale, shift) in [(3.0, 0.0), (1.0, 5.0), (1.0, -5.0), (0.0, 0.0)] {
            let mut x: Vec<f32> = random.values(len);
            x.iter_mut().for_each(|x| *x = *x * scale + shift);
            if len == 1000 {
                x[3..6].copy_from_slice(&[f32::NAN, -0.0, 1e-40]);
            }
            let case = Case::new("DynamicQuantizeLinear").input(&[len], &x);
            case.outputs(3).agrees_with_reference(0.0);
        }
    }
}
