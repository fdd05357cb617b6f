//! Operators without ONNX test cases, and refusals.

use tenon_backend::{Backend, NodeView, Reason, evaluate};
use tenon_base::{ErrorKind, Result};
use tenon_cpu_ref::CpuRef;
use tenon_graph::operator::operator;
use tenon_graph::{Attribute, Attributes, infer};
use tenon_tensor::{DataType, Shape, Tensor, TensorType, convert};

fn run(name: &str, attributes: &Attributes, inputs: &[Option<&Tensor>]) -> Result<Tensor> {
    let op = operator(name).unwrap();
    let types: Vec<Option<&TensorType>> = inputs.iter().map(|i| i.map(Tensor::ty)).collect();
    let outputs: Vec<_> = infer(op, attributes, &types, inputs, 1)?
        .into_iter()
        .map(Some)
        .collect();
    Ok(evaluate(&CpuRef, op, attributes, inputs, &outputs)?
        .remove(0)
        .unwrap())
}

/// Pseudorandom elements, the same for each seed.
fn tensor(shape: &[usize], seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let count = shape.iter().product();
    Tensor::from_slice(shape, &(0..count).map(|_| next()).collect::<Vec<f32>>()).unwrap()
}

fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

fn transpose(tensor: &Tensor, perm: &[i64]) -> Tensor {
    let attributes = Attributes::new().with("perm", ints(perm));
    run("Transpose", &attributes, &[Some(tensor)]).unwrap()
}

fn assert_near(a: &Tensor, b: &Tensor) {
    assert_eq!(a.ty(), b.ty());
    let (a, b) = (a.as_slice::<f32>().unwrap(), b.as_slice::<f32>().unwrap());
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() <= 1e-6 + 1e-6 * b.abs(), "{a} is not {b}");
    }
}

fn add(a: &Tensor, b: &Tensor) -> Tensor {
    run("Add", &Attributes::new(), &[Some(a), Some(b)]).unwrap()
}

#[test]
fn the_exponent_of_a_power_has_any_numeric_type() {
    let power = |x: &Tensor, y: &Tensor| {
        let inputs = [Some(x), Some(y)];
        run("Pow", &Attributes::new(), &inputs).unwrap()
    };
    let bases = Tensor::from_slice([2, 1], &[2.0f32, -3.0]).unwrap();
    let cubed = power(&bases, &Tensor::from_slice([3], &[0u8, 1, 3]).unwrap());
    let expected = [1.0, 2.0, 8.0, 1.0, -3.0, -27.0];
    assert_eq!(cubed.as_slice::<f32>().unwrap(), expected);
    let roots = power(&bases, &Tensor::from_slice([1], &[0.5f64]).unwrap());
    let roots = roots.as_slice::<f32>().unwrap();
    assert!(roots[0] == 2f32.sqrt() && roots[1].is_nan());
    let bases = Tensor::from_slice([2], &[3i64, -2]).unwrap();
    let powers = power(&bases, &Tensor::from_slice([2], &[39i32, 3]).unwrap());
    let expected = [4_052_555_153_018_976_267, -8];
    assert_eq!(powers.as_slice::<i64>().unwrap(), expected);
}

#[test]
fn a_fused_convolution_equals_its_unfused_operators() {
    let x = tensor(&[2, 4, 7, 6], 1);
    let (w, b, z) = (
        tensor(&[6, 2, 3, 2], 2),
        tensor(&[6], 3),
        tensor(&[2, 6, 4, 6], 4),
    );
    let geometry = Attributes::new()
        .with("strides", ints(&[2, 1]))
        .with("pads", ints(&[2, 0, 1, 1]))
        .with("dilations", ints(&[1, 1]))
        .with("group", Attribute::Int(2));
    let plain = run("Conv", &geometry, &[Some(&x), Some(&w), Some(&b)]).unwrap();
    let plain = run("HardSwish", &Attributes::new(), &[Some(&add(&plain, &z))]).unwrap();
    let fused = geometry.with("activation", Attribute::String("hardswish".into()));
    let (x, z) = (transpose(&x, &[0, 2, 3, 1]), transpose(&z, &[0, 2, 3, 1]));
    let fused = run(
        "tenon.Conv",
        &fused,
        &[Some(&x), Some(&w), Some(&b), Some(&z)],
    )
    .unwrap();
    assert_near(&transpose(&fused, &[0, 3, 1, 2]), &plain);
}

#[test]
fn a_fused_matrix_product_equals_its_unfused_operators() {
    let (a, b) = (tensor(&[2, 1, 3, 5], 1), tensor(&[4, 6, 5], 2));
    let (bias, z) = (tensor(&[6], 3), tensor(&[2, 4, 3, 6], 4));
    let product = run(
        "MatMul",
        &Attributes::new(),
        &[Some(&a), Some(&transpose(&b, &[0, 2, 1]))],
    )
    .unwrap();
    let half = Tensor::scalar(0.5f32).unwrap();
    let product = run("Mul", &Attributes::new(), &[Some(&product), Some(&half)]).unwrap();
    let plain = run(
        "Gelu",
        &Attributes::new(),
        &[Some(&add(&add(&product, &bias), &z))],
    )
    .unwrap();
    let attributes = Attributes::new()
        .with("trans_b", Attribute::Int(1))
        .with("scale", Attribute::Float(0.5))
        .with("activation", Attribute::String("gelu".into()));
    let inputs = [Some(&a), Some(&b), Some(&bias), Some(&z)];
    assert_near(&run("tenon.MatMul", &attributes, &inputs).unwrap(), &plain);
}

#[test]
fn pools_are_the_same_in_both_layouts() {
    let x = tensor(&[2, 3, 6, 5], 1);
    let attributes = Attributes::new()
        .with("kernel_shape", ints(&[3, 2]))
        .with("strides", ints(&[2, 2]))
        .with("pads", ints(&[1, 0, 0, 1]))
        .with("ceil_mode", Attribute::Int(1));
    let counted = attributes
        .clone()
        .with("count_include_pad", Attribute::Int(1));
    let cases = [
        ("MaxPool", &attributes),
        ("AveragePool", &attributes),
        ("AveragePool", &counted),
    ];
    for (name, attributes) in cases {
        let plain = run(name, attributes, &[Some(&x)]).unwrap();
        let last = transpose(&x, &[0, 2, 3, 1]);
        let found = run(&format!("tenon.{name}"), attributes, &[Some(&last)]).unwrap();
        assert_near(&transpose(&found, &[0, 3, 1, 2]), &plain);
    }
}

#[test]
fn attention_is_the_same_in_both_layouts() {
    let (q, k, v) = (
        tensor(&[2, 3, 4, 5], 1),
        tensor(&[2, 6, 4, 5], 2),
        tensor(&[2, 6, 4, 7], 3),
    );
    let mask = tensor(&[1, 3, 6], 4);
    let attributes = Attributes::new().with("scale", Attribute::Float(0.3));
    let inputs = [Some(&q), Some(&k), Some(&v), Some(&mask)];
    let found = run("tenon.Attention", &attributes, &inputs).unwrap();
    let [q, k, v] = [q, k, v].map(|x| transpose(&x, &[0, 2, 1, 3]));
    let inputs = [Some(&q), Some(&k), Some(&v), Some(&mask)];
    let plain = run("Attention", &attributes, &inputs).unwrap();
    assert_near(&found, &transpose(&plain, &[0, 2, 1, 3]));
}

#[test]
fn indices_out_of_bounds_are_errors() {
    let data = tensor(&[3, 2], 1);
    let none = Attributes::new();
    let message = |name: &str, inputs: &[Option<&Tensor>]| {
        let error = run(name, &none, inputs).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfBounds, "{error}");
        error.to_string()
    };
    let at = |shape: &[usize], index: i64| {
        let count = shape.iter().product();
        Tensor::from_slice(shape, &vec![index; count]).unwrap()
    };
    let expected = "an index is out of the bounds of its dimension: expected -3 to 2, found 3";
    assert_eq!(
        message("Gather", &[Some(&data), Some(&at(&[1], 3))]),
        expected
    );
    assert_eq!(
        message("GatherElements", &[Some(&data), Some(&at(&[1, 2], 3))]),
        expected
    );
    assert_eq!(
        message("GatherND", &[Some(&data), Some(&at(&[1, 1], 3))]),
        expected
    );
    let (row, update) = (at(&[1, 2], 3), tensor(&[1, 2], 2));
    assert_eq!(
        message("ScatterElements", &[Some(&data), Some(&row), Some(&update)]),
        expected
    );
    let (tuple, update) = (at(&[1, 1], 3), tensor(&[1, 2], 2));
    assert_eq!(
        message("ScatterND", &[Some(&data), Some(&tuple), Some(&update)]),
        expected
    );
    let lengths = at(&[2], 4);
    let expected = "a length is out of range: expected 0 to 3, found 4";
    assert_eq!(
        message("ReverseSequence", &[Some(&data), Some(&lengths)]),
        expected
    );
    // The least index does not overflow.
    message("Gather", &[Some(&data), Some(&at(&[1], i64::MIN))]);
}

#[test]
fn rows_of_elements_of_less_than_a_byte_are_gathered() {
    let wide = |tensor: &Tensor| convert(tensor, DataType::I64).unwrap();
    for (dtype, columns, [low, high]) in [
        (DataType::I4, 6, [-8, 7]),
        (DataType::U4, 5, [0, 15]),
        (DataType::I2, 4, [-2, 1]),
        (DataType::U2, 3, [0, 3]),
    ] {
        let elements = (0..4 * columns).map(|nth| low + nth % (high - low + 1));
        let elements: Vec<i64> = elements.collect();
        let whole = Tensor::from_slice([2, 2, columns as usize], &elements).unwrap();
        let packed = convert(&whole, dtype).unwrap();
        let at = Tensor::from_slice([3], &[1i64, 0, -1]).unwrap();
        let inputs = |data| [Some(data), Some(&at)];
        for axis in 0..3 {
            let attributes = Attributes::new().with("axis", Attribute::Int(axis));
            let found = run("Gather", &attributes, &inputs(&packed)).unwrap();
            let expected = run("Gather", &attributes, &inputs(&whole)).unwrap();
            assert_eq!(wide(&found), expected, "{dtype}, axis {axis}");
        }
    }
}

#[test]
fn empty_tensors_are_supported() {
    let empty = Tensor::from_slice::<f32>([0, 3], &[]).unwrap();
    let none = Attributes::new();
    let wide = tensor(&[3, 4], 1);
    let product = run("MatMul", &none, &[Some(&empty), Some(&wide)]).unwrap();
    assert_eq!(product.ty().to_string(), "f32[0, 4]");
    let nothing = Tensor::from_slice::<f32>([2, 0], &[]).unwrap();
    let zeros = Tensor::from_slice::<f32>([0, 2], &[]).unwrap();
    let product = run("MatMul", &none, &[Some(&nothing), Some(&zeros)]).unwrap();
    assert_eq!(product.as_slice::<f32>().unwrap(), [0.0; 4]);
    for name in ["Softmax", "Relu", "CumSum", "TopK", "Transpose", "Trilu"] {
        let one = Tensor::from_slice([1], &[0i64]).unwrap();
        let zero = Tensor::scalar(0i64).unwrap();
        let second = match name {
            "TopK" => Some(&one),
            "CumSum" => Some(&zero),
            _ => None,
        };
        let inputs = [Some(&empty), second];
        let inputs = if second.is_some() {
            &inputs[..]
        } else {
            &inputs[..1]
        };
        let op = operator(name).unwrap();
        let types: Vec<_> = inputs.iter().map(|i| i.map(Tensor::ty)).collect();
        let outputs: Vec<_> = infer(op, &none, &types, inputs, op.outputs.len())
            .unwrap()
            .into_iter()
            .map(Some)
            .collect();
        evaluate(&CpuRef, op, &none, inputs, &outputs).unwrap();
    }
}

#[test]
fn refusals_and_wrong_outputs_have_a_reason() {
    let text = TensorType::new(tenon_tensor::DataType::C128, [2]).unwrap();
    let view = NodeView {
        op: operator("Transpose").unwrap(),
        attributes: &Attributes::new(),
        inputs: &[Some(&text)],
        constants: &[None],
        outputs: &[Some(&text)],
        ranges: None,
    };
    let refusal = CpuRef.supports(&view).unwrap_err();
    assert!(
        matches!(refusal.reason, Reason::InputType { input: 0, .. }),
        "{refusal}"
    );

    // The bounds of a slice must be constants.
    let data = TensorType::new(tenon_tensor::DataType::F32, [2]).unwrap();
    let bound = TensorType::new(tenon_tensor::DataType::I64, [1]).unwrap();
    let view = NodeView {
        op: operator("Slice").unwrap(),
        attributes: &Attributes::new(),
        inputs: &[Some(&data), Some(&bound), Some(&bound)],
        constants: &[None, None, None],
        outputs: &[Some(&data)],
        ranges: None,
    };
    let refusal = CpuRef.supports(&view).unwrap_err();
    assert_eq!(refusal.to_string(), "input 1 must be a constant");

    // A package is not trusted: the types of outputs are checked before an output is written.
    let (x, wrong) = (
        tensor(&[2], 1),
        TensorType::new(tenon_tensor::DataType::F32, [3]).unwrap(),
    );
    let error = evaluate(
        &CpuRef,
        operator("Relu").unwrap(),
        &Attributes::new(),
        &[Some(&x)],
        &[Some(wrong)],
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "output 0 of Relu differs from the inferred type: expected f32[2], found f32[3]"
    );
}

#[test]
fn slices_with_negative_steps_and_every_mode_of_pad() {
    let x = Tensor::from_slice([5], &[0i32, 1, 2, 3, 4]).unwrap();
    let one = |value: i64| Tensor::from_slice([1], &[value]).unwrap();
    let (start, end, axis, step) = (one(-1), one(i64::MIN), one(0), one(-2));
    let inputs = [Some(&x), Some(&start), Some(&end), Some(&axis), Some(&step)];
    let found = run("Slice", &Attributes::new(), &inputs).unwrap();
    assert_eq!(found.as_slice::<i32>().unwrap(), [4, 2, 0]);

    let three = Tensor::from_slice([3], &[1u8, 2, 3]).unwrap();
    let padded = |mode: &str, before: i64, after: i64| {
        let pads = Tensor::from_slice([2], &[before, after]).unwrap();
        let mode = Attributes::new().with("mode", Attribute::String(mode.into()));
        let found = run("Pad", &mode, &[Some(&three), Some(&pads)]).unwrap();
        found.as_slice::<u8>().unwrap().to_vec()
    };
    assert_eq!(padded("reflect", 2, 1), [3, 2, 1, 2, 3, 2]);
    assert_eq!(padded("edge", 2, 1), [1, 1, 1, 2, 3, 3]);
    assert_eq!(padded("wrap", 2, 1), [2, 3, 1, 2, 3, 1]);
    assert_eq!(padded("constant", -1, 2), [2, 3, 0, 0]);
}

#[test]
fn integers_wrap_and_large_ones_stay_exact() {
    let big = (1i64 << 53) + 1;
    let a = Tensor::from_slice([2], &[big, i64::MAX]).unwrap();
    let b = Tensor::from_slice([2], &[0i64, 1]).unwrap();
    assert_eq!(add(&a, &b).as_slice::<i64>().unwrap(), [big, i64::MIN]);
    let matrix = Tensor::from_slice([1, 2], &[big, 1]).unwrap();
    let column = Tensor::from_slice([2, 1], &[1i64, 0]).unwrap();
    let product = run(
        "MatMul",
        &Attributes::new(),
        &[Some(&matrix), Some(&column)],
    )
    .unwrap();
    assert_eq!(product.as_slice::<i64>().unwrap(), [big]);
    assert_eq!(product.shape(), &Shape::new([1, 1]));
}

/// Pseudorandom bytes of all values.
fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// x / scale + zero, rounded to the nearest integer (ties to even) in the range of i8 or u8.
fn quantized(x: f64, scale: f64, zero: i64, range: [i64; 2]) -> i64 {
    let quotient = x / scale;
    let floor = quotient.floor();
    let rest = quotient - floor;
    let up = rest > 0.5 || (rest == 0.5 && floor.rem_euclid(2.0) == 1.0);
    (floor as i64 + i64::from(up) + zero).clamp(range[0], range[1])
}

#[test]
fn a_quantized_convolution_is_a_sum_of_integers() {
    // [N, H, W, C] = [2, 5, 4, 6], 4 filters in 2 groups, a kernel of 3 x 2, strides 2 and 1, dilations 1 and 2.
    let (h, w, c, filters, depth) = (5i64, 4i64, 6usize, 4usize, 3usize);
    let x = bytes(2 * 5 * 4 * 6, 1);
    let weights: Vec<i8> = bytes(4 * 3 * 3 * 2, 2).iter().map(|&b| b as i8).collect();
    // Powers of two: the values before rounding are exact, some of them halves.
    let (x_scale, x_zero) = (0.25f32, 131u8);
    let w_scales = [0.5f32, 0.125, 1.0, 0.25];
    let w_zeros = [3i8, 0, -7, 0];
    let bias = [100.0f32, -3.25, 0.0, 7.5];
    let (y_scale, y_zero) = (8f32, 12i8);
    let pads = [1i64, 0, 2, 1];
    let (out_h, out_w) = ((h + 3 - 3) / 2 + 1, w + 1 - 3 + 1);
    let mut sums = Vec::new();
    for n in 0..2i64 {
        for (i, j) in (0..out_h).flat_map(|i| (0..out_w).map(move |j| (i, j))) {
            for filter in 0..filters {
                let mut sum = 0i64;
                for (ki, kj) in (0..3i64).flat_map(|ki| (0..2i64).map(move |kj| (ki, kj))) {
                    let (row, column) = (2 * i + ki - pads[0], j + 2 * kj - pads[1]);
                    if !(0..h).contains(&row) || !(0..w).contains(&column) {
                        continue;
                    }
                    for k in 0..depth {
                        let channel = filter / 2 * depth + k;
                        let at = ((n * h + row) * w + column) as usize * c + channel;
                        let weight =
                            weights[((filter * depth + k) * 3 + ki as usize) * 2 + kj as usize];
                        let zero = i64::from(w_zeros[filter]);
                        sum += (i64::from(x[at]) - i64::from(x_zero)) * (i64::from(weight) - zero);
                    }
                }
                let scale = f64::from(x_scale) * f64::from(w_scales[filter]);
                sums.push(sum as f64 * scale + f64::from(bias[filter]));
            }
        }
    }
    let attributes = Attributes::new()
        .with("strides", ints(&[2, 1]))
        .with("dilations", ints(&[1, 2]))
        .with("pads", ints(&pads))
        .with("group", Attribute::Int(2))
        .with("activation", Attribute::String("clip".into()))
        .with("alpha", Attribute::Float(-900.0))
        .with("beta", Attribute::Float(1200.5));
    let x = Tensor::from_slice([2, 5, 4, 6], &x).unwrap();
    let weights = Tensor::from_slice([4, 3, 3, 2], &weights).unwrap();
    let scalar = |x: f32| Tensor::scalar(x).unwrap();
    let (x_scale, x_zero) = (scalar(x_scale), Tensor::scalar(x_zero).unwrap());
    let w_scales = Tensor::from_slice([4], &w_scales).unwrap();
    let w_zeros = Tensor::from_slice([4], &w_zeros).unwrap();
    let bias = Tensor::from_slice([4], &bias).unwrap();
    let (scale, zero) = (scalar(y_scale), Tensor::scalar(y_zero).unwrap());
    let mut inputs = vec![
        Some(&x),
        Some(&x_scale),
        Some(&x_zero),
        Some(&weights),
        Some(&w_scales),
        Some(&w_zeros),
        Some(&bias),
        Some(&scale),
        Some(&zero),
    ];
    let clipped: Vec<f64> = sums.iter().map(|sum| sum.clamp(-900.0, 1200.5)).collect();
    let expected: Vec<i8> = clipped
        .iter()
        .map(|&x| quantized(x, 8.0, 12, [-128, 127]) as i8)
        .collect();
    // Saturated, clipped and ties are among them.
    assert!(expected.contains(&127) && expected.contains(&-100));
    assert!(clipped.iter().any(|x| (x / 8.0).fract().abs() == 0.5));
    let found = run("tenon.QuantizedConv", &attributes, &inputs).unwrap();
    assert_eq!(**found.shape(), [2, 3, 3, 4]);
    assert_eq!(found.as_slice::<i8>().unwrap(), expected);
    // Without a zero point: u8.
    inputs[8] = None;
    let found = run("tenon.QuantizedConv", &attributes, &inputs).unwrap();
    let unsigned = clipped
        .iter()
        .map(|&x| quantized(x, 8.0, 0, [0, 255]) as u8);
    assert_eq!(
        found.as_slice::<u8>().unwrap(),
        unsigned.collect::<Vec<_>>()
    );
    // Without a scale: f32. Without an activation.
    let attributes = attributes.with("activation", Attribute::String("none".into()));
    let found = run("tenon.QuantizedConv", &attributes, &inputs[..7]).unwrap();
    let plain: Vec<f32> = sums.iter().map(|&sum| sum as f32).collect();
    assert_eq!(found.as_slice::<f32>().unwrap(), plain);
}

#[test]
fn a_quantized_product_is_a_sum_of_integers() {
    let (m, k, n) = (3usize, 37usize, 5usize);
    let a: Vec<i8> = bytes(2 * m * k, 3).iter().map(|&b| b as i8).collect();
    let b = bytes(k * n, 4);
    let b_zeros = [0u8, 255, 128, 7, 100];
    let b_scales = [0.5f32, 1.0, 0.25, 0.125, 2.0];
    let bias = [1.0f32, 2.0, -3.0, 0.0, 50.0];
    let mut expected = Vec::new();
    for row in 0..2 * m {
        for column in 0..n {
            let sum: i64 = (0..k)
                .map(|k_at| {
                    let right = i64::from(b[k_at * n + column]) - i64::from(b_zeros[column]);
                    (i64::from(a[row * k + k_at]) + 5) * right
                })
                .sum();
            let x = sum as f64 * 0.5 * f64::from(b_scales[column]) + f64::from(bias[column]);
            expected.push(quantized(x.max(0.0), 64.0, 100, [0, 255]) as u8);
        }
    }
    assert!(expected.contains(&255) && expected.contains(&100));
    let turned: Vec<u8> = (0..n)
        .flat_map(|column| (0..k).map(move |row| (row, column)))
        .map(|(row, column)| b[row * n + column])
        .collect();
    let a = Tensor::from_slice([2, m, k], &a).unwrap();
    let scalar = |x: f32| Tensor::scalar(x).unwrap();
    let (a_scale, a_zero) = (scalar(0.5), Tensor::scalar(-5i8).unwrap());
    let (y_scale, y_zero) = (scalar(64.0), Tensor::scalar(100u8).unwrap());
    let b_scales = Tensor::from_slice([n], &b_scales).unwrap();
    let b_zeros = Tensor::from_slice([n], &b_zeros).unwrap();
    let bias = Tensor::from_slice([n], &bias).unwrap();
    for (trans_b, b) in [
        (0, Tensor::from_slice([k, n], &b).unwrap()),
        (1, Tensor::from_slice([n, k], &turned).unwrap()),
    ] {
        let attributes = Attributes::new()
            .with("activation", Attribute::String("relu".into()))
            .with("trans_b", Attribute::Int(trans_b));
        let inputs = [
            Some(&a),
            Some(&a_scale),
            Some(&a_zero),
            Some(&b),
            Some(&b_scales),
            Some(&b_zeros),
            Some(&bias),
            Some(&y_scale),
            Some(&y_zero),
        ];
        let found = run("tenon.QuantizedMatMul", &attributes, &inputs).unwrap();
        assert_eq!(**found.shape(), [2, m, n]);
        assert_eq!(found.as_slice::<u8>().unwrap(), expected);
    }
}
