//! Operators without ONNX test cases, and refusals.

use tenon_backend::{Backend, NodeView, Reason, evaluate};
use tenon_base::{ErrorKind, Result};
use tenon_cpu_ref::CpuRef;
use tenon_graph::operator::operator;
use tenon_graph::{Attribute, Attributes, infer};
use tenon_tensor::{Shape, Tensor, TensorType};

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
