//! Programs of elementwise operators: random ones give the bits of their operators one after the other,
//! with every kind of broadcasting, special values, and in place.

mod common;

use common::{Case, InputKind, LEVELS, Random, converted};
use half::{bf16, f16};
use tenon_backend::CpuLevel;
use tenon_graph::Attribute;
use tenon_graph::elementwise::{Operand, Program};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType, converter};

const SHAPES: [&[usize]; 9] = [
    &[],
    &[7],
    &[2, 3, 4, 5],
    &[3, 1, 700],
    &[2, 1283],
    &[70, 3, 6],
    &[5, 4, 3, 2, 3],
    &[2565],
    &[3, 33, 400],
];

/// Inputs: floats of the output's shape, three that are broadcast, two scalars, then truth values of the
/// output's shape and one that is broadcast.
const SCALARS: [usize; 2] = [4, 5];
const TRUTHS: [usize; 2] = [6, 7];

const UNARY: [&str; 35] = [
    "Abs",
    "Neg",
    "Sqrt",
    "Reciprocal",
    "Round",
    "Floor",
    "Ceil",
    "Exp",
    "Erf",
    "Tanh",
    "Sigmoid",
    "HardSwish",
    "Mish",
    "Relu",
    "LeakyRelu",
    "Elu",
    "Swish",
    "HardSigmoid",
    "Gelu",
    "Sign",
    "Log",
    "Sin",
    "Cos",
    "Tan",
    "Asin",
    "Acos",
    "Atan",
    "Sinh",
    "Cosh",
    "Asinh",
    "Softplus",
    "Softsign",
    "ThresholdedRelu",
    "Celu",
    "Selu",
];

/// A shape that broadcasts to `shape`.
fn narrower(random: &mut Random, shape: &[usize]) -> Vec<usize> {
    let from = random.below(shape.len() + 1);
    let kept = shape[from..].iter();
    kept.map(|&extent| random.pick(&[1, extent])).collect()
}

fn floats(random: &mut Random, dtype: DataType, shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0];
    let values: Vec<f32> = (0..count)
        .map(|_| match random.below(9) {
            0 => random.pick(&special),
            _ => random.value() * random.pick(&[0.1, 2.0, 20.0]),
        })
        .collect();
    converted(dtype, shape, &values)
}

fn truths(random: &mut Random, shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    let bits: Vec<bool> = (0..count).map(|_| random.below(2) == 1).collect();
    Tensor::from_bools(shape, &bits).unwrap()
}

fn inputs(random: &mut Random, dtype: DataType, shape: &[usize]) -> Vec<Tensor> {
    let mut inputs = vec![floats(random, dtype, shape)];
    for _ in 0..3 {
        let narrow = narrower(random, shape);
        inputs.push(floats(random, dtype, &narrow));
    }
    inputs.extend((0..2).map(|_| floats(random, dtype, &[])));
    inputs.push(truths(random, shape));
    let narrow = narrower(random, shape);
    inputs.push(truths(random, &narrow));
    inputs
}

/// A program whose results all have the shape of the first input.
fn program(random: &mut Random, instructions: usize) -> Vec<String> {
    let (mut results, mut tests) = (vec!["%0".to_owned()], vec!["%6".to_owned()]);
    let mut lines = Vec::new();
    for index in 0..instructions {
        let pick = |random: &mut Random, list: &[String]| list[random.below(list.len())].clone();
        // The last results are likely, so that chains are long.
        let full = |random: &mut Random, list: &[String]| match random.below(2) {
            0 => list[list.len() - 1].clone(),
            _ => pick(random, list),
        };
        let (x, test) = (full(random, &results), full(random, &tests));
        let other = match random.below(3) {
            0 => pick(random, &results),
            1 => format!("%{}", 1 + random.below(3)),
            _ => format!("%{}", random.pick(&SCALARS)),
        };
        let second = match random.below(2) {
            0 => pick(random, &tests),
            _ => format!("%{}", random.pick(&TRUTHS)),
        };
        let (text, is_test) = match random.below(14) {
            0..4 => (format!("{}({x})", random.pick(&UNARY)), false),
            4..7 => {
                let op = ["Add", "Sub", "Mul", "Div", "Min", "Max", "PRelu", "Mean"];
                (format!("{}({x}, {other})", random.pick(&op)), false)
            }
            7 => {
                let op = random.pick(&["Sum", "Max", "Mean"]);
                (format!("{op}({other}, {x}, %1, {other})"), false)
            }
            8 => {
                let bounds = random.pick(&["%4, %5", "_, %5", "%4"]);
                (format!("Clip({x}, {bounds})"), false)
            }
            9 => (format!("Where({test}, {x}, {other})"), false),
            10 => {
                let text = match random.below(5) {
                    4 => format!("Pow({x}, {})", random.pick(&["%4", "%5", "%0"])),
                    0 => format!("Where({second}, {other}, {x})"),
                    1 => format!("LeakyRelu({x}) {{alpha = 0.3}}"),
                    2 => format!("Mod({x}, {other}) {{fmod = 1}}"),
                    _ => format!("SwiGLU({x}, {x}) {{alpha = 1.5}}"),
                };
                (text, false)
            }
            11 => {
                let op = ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"];
                (format!("{}({x}, {other})", random.pick(&op)), true)
            }
            12 => {
                let op = random.pick(&["And", "Or", "Xor", "Equal"]);
                (format!("{op}({test}, {second})"), true)
            }
            _ => match random.below(4) {
                0 => (format!("IsNaN({x})"), true),
                1 => (format!("IsInf({x}) {{detect_negative = 0}}"), true),
                2 => (format!("Where({test}, {test}, {second})"), true),
                _ => (format!("Not({test})"), true),
            },
        };
        lines.push(format!("%t{index} = {text}"));
        let results = if is_test { &mut tests } else { &mut results };
        results.push(format!("%t{index}"));
    }
    lines
}

fn case(lines: &[String], inputs: &[Tensor]) -> Case {
    let case = Case::new("tenon.Elementwise");
    let case = case.attribute("program", Attribute::Strings(lines.to_vec()));
    let add = |case: Case, tensor: &Tensor| case.tensor(Some(tensor.clone()), InputKind::Variable);
    inputs.iter().fold(case, add).outputs(1)
}

/// The result of an operator, the same in a second execution and in place (NaNs of either sign).
fn result(case: &Case, level: CpuLevel) -> Tensor {
    let ty = case.spec.outputs[0].clone().unwrap();
    let shape = ty.shape().clone();
    match ty.dtype() {
        DataType::F32 => Tensor::from_slice(shape, &case.run_as::<f32>(level)),
        DataType::F16 => Tensor::from_slice(shape, &case.run_as::<f16>(level)),
        DataType::BF16 => Tensor::from_slice(shape, &case.run_as::<bf16>(level)),
        _ => {
            let bytes = BufferMut::copy_of(&case.run_as::<u8>(level)).unwrap();
            Tensor::new(ty, bytes.freeze())
        }
    }
    .unwrap()
}

/// The operators of a program one after the other.
fn separately(lines: &[String], inputs: &[Tensor], level: CpuLevel) -> Tensor {
    let mut results: Vec<Tensor> = Vec::new();
    for instruction in Program::parse(lines).unwrap().instructions() {
        let mut case = Case::new(instruction.op.name);
        for (name, value) in instruction.attributes.iter() {
            case = case.attribute(name, value.clone());
        }
        for operand in &instruction.operands {
            let tensor = operand.map(|operand| match operand {
                Operand::Input(index) => inputs[index].clone(),
                Operand::Result(index) => results[index].clone(),
            });
            case = case.tensor(tensor, InputKind::Variable);
        }
        results.push(result(&case.outputs(1), level));
    }
    results.pop().unwrap()
}

/// The tensor in f32, unless it is of truth values.
fn widened(tensor: &Tensor, dtype: DataType) -> Tensor {
    if tensor.dtype() == DataType::Bool {
        return tensor.clone();
    }
    let ty = TensorType::new(dtype, tensor.ty().shape().clone()).unwrap();
    let mut bytes = BufferMut::zeroed(ty.bytes()).unwrap();
    converter(tensor.dtype(), dtype).unwrap()(tensor.bytes(), &mut bytes);
    Tensor::new(ty, bytes.freeze()).unwrap()
}

/// Whether the elements are equal, or both NaN.
fn are_equal(a: &Tensor, b: &Tensor) -> bool {
    if a.dtype().is_integer() || a.dtype() == DataType::Bool {
        return a.dtype() == b.dtype() && a.bytes() == b.bytes();
    }
    let (a, b) = (widened(a, DataType::F32), widened(b, DataType::F32));
    let (a, b) = (a.as_slice::<f32>().unwrap(), b.as_slice::<f32>().unwrap());
    let mut pairs = a.iter().zip(b);
    a.len() == b.len() && pairs.all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan())
}

#[test]
fn programs_give_the_bits_of_their_operators() {
    let mut random = Random::new(11);
    let mut refused = 0;
    for round in 0..300 {
        let shape = SHAPES[round % SHAPES.len()];
        let dtype = random.pick(&[DataType::F32, DataType::F32, DataType::F16, DataType::BF16]);
        let count = 1 + random.below(12);
        let lines = program(&mut random, count);
        let inputs = inputs(&mut random, dtype, shape);
        let case = case(&lines, &inputs);
        let level = LEVELS[round / SHAPES.len() % LEVELS.len()];
        if let Err(refusal) = case.supported(level) {
            assert!(
                refusal.to_string().contains("registers"),
                "{refusal}: {lines:?}"
            );
            refused += 1;
            continue;
        }
        // f16 and bf16 are rounded once, at the end.
        let wide: Vec<Tensor> = inputs
            .iter()
            .map(|input| widened(input, DataType::F32))
            .collect();
        let expected = separately(&lines, &wide, level);
        let expected = widened(&expected, dtype);
        let found = result(&case, level);
        assert!(
            are_equal(&found, &expected),
            "{dtype} {shape:?} at {level:?}: {lines:?}"
        );
    }
    assert!(refused < 30, "{refused}");
}

/// Floats of the output's shape and single ones alone, which programs of few elements have vectors as registers for.
#[test]
fn small_programs_give_the_bits_of_their_operators() {
    let mut random = Random::new(13);
    let shapes: [&[usize]; 8] = [&[], &[1], &[7], &[16], &[2, 3, 4], &[5, 50], &[256], &[257]];
    for round in 0..400 {
        let shape = shapes[round % shapes.len()];
        let dense = (0..2).map(|_| floats(&mut random, DataType::F32, shape));
        let mut inputs: Vec<Tensor> = dense.collect();
        inputs.extend((0..2).map(|_| floats(&mut random, DataType::F32, &[])));
        let mut values = vec!["%0".to_owned()];
        let mut lines = Vec::new();
        for index in 0..1 + random.below(8) {
            let x = match random.below(3) {
                0 => values[random.below(values.len())].clone(),
                _ => values[values.len() - 1].clone(),
            };
            let other = match random.below(2) {
                0 => values[random.below(values.len())].clone(),
                _ => format!("%{}", random.pick(&[1, 2, 3])),
            };
            let text = match random.below(6) {
                // The functions up to Sign are computed by vectors.
                0..2 => format!("{}({x})", UNARY[random.below(20)]),
                2..5 => {
                    let op = random.pick(&["Add", "Sub", "Mul", "Div"]);
                    let (a, b) = match random.below(2) {
                        0 => (&x, &other),
                        _ => (&other, &x),
                    };
                    format!("{op}({a}, {b})")
                }
                _ => format!("Clip({x}, {})", random.pick(&["%2, %3", "_, %3", "%2"])),
            };
            lines.push(format!("%t{index} = {text}"));
            values.push(format!("%t{index}"));
        }
        let case = case(&lines, &inputs);
        let level = LEVELS[round / shapes.len() % LEVELS.len()];
        if case.supported(level).is_err() {
            continue;
        }
        let (found, expected) = (result(&case, level), separately(&lines, &inputs, level));
        assert!(
            are_equal(&found, &expected),
            "{shape:?} at {level:?}: {lines:?}: {found:?} instead of {expected:?}"
        );
    }
}

/// Programs of quantized elements: inputs 0 and 1 are quantized, 2 to 4 are scales, 5 is a zero point, 6 is floats.
const QUANTIZED: [&[&str]; 5] = [
    &[
        "%a = DequantizeLinear(%0, %2, %5)",
        "%b = DequantizeLinear(%1, %3)",
        "%c = Add(%a, %b)",
        "%d = QuantizeLinear(%c, %4, %5)",
    ],
    &[
        "%a = DequantizeLinear(%0, %2, %5)",
        "%b = Sigmoid(%a)",
        "%c = QuantizeLinear(%b, %3, %5)",
        "%d = DequantizeLinear(%c, %3, %5)",
        "%e = Mul(%a, %d)",
        "%f = QuantizeLinear(%e, %4, %5)",
    ],
    &["%a = DequantizeLinear(%1, %2, %5)", "%b = Relu(%a)"],
    &["%a = Mul(%6, %3)", "%b = QuantizeLinear(%a, %2, %5)"],
    &[
        "%a = DequantizeLinear(%0, %2, %5)",
        "%b = Greater(%a, %6)",
        "%c = Where(%b, %0, %1)",
        "%d = DequantizeLinear(%c, %3, %5)",
    ],
];

#[test]
fn programs_of_quantized_elements_give_the_bits_of_their_operators() {
    let mut random = Random::new(17);
    for (round, shape) in SHAPES.iter().cycle().take(5 * SHAPES.len()).enumerate() {
        let count: usize = shape.iter().product();
        for dtype in [DataType::U8, DataType::I8] {
            let mut bytes =
                |count: usize| -> Vec<u8> { (0..count).map(|_| random.below(256) as u8).collect() };
            let mut quantized = |shape: &[usize], count| {
                let ty = TensorType::new(dtype, shape).unwrap();
                Tensor::new(ty, BufferMut::copy_of(&bytes(count)).unwrap().freeze()).unwrap()
            };
            let quantized = [
                quantized(shape, count),
                quantized(shape, count),
                quantized(&[], 1),
            ];
            let [x, y, zero] = quantized;
            let scale = |scale: f32| Tensor::from_slice([], &[scale]).unwrap();
            let inputs = [
                x,
                y,
                scale(0.043),
                scale(0.0117),
                scale(0.031),
                zero,
                floats(&mut random, DataType::F32, shape),
            ];
            let lines = QUANTIZED[round / SHAPES.len()].iter();
            let lines: Vec<String> = lines.map(|line| (*line).to_owned()).collect();
            let case = case(&lines, &inputs);
            for level in LEVELS {
                case.supported(level).unwrap();
                assert!(
                    are_equal(&result(&case, level), &separately(&lines, &inputs, level)),
                    "{dtype} {shape:?} at {level:?}: {lines:?}"
                );
            }
            // A sigmoid may differ in its last bit.
            case.agrees_with_reference(1.0);
        }
    }
}

#[test]
fn programs_agree_with_the_reference() {
    let mut random = Random::new(5);
    let lines = |lines: &[&str]| {
        lines
            .iter()
            .map(|line| (*line).to_owned())
            .collect::<Vec<_>>()
    };
    let programs = [
        lines(&[
            "%a = Mul(%0, %1)",
            "%b = Add(%a, %2)",
            "%c = Tanh(%b)",
            "%d = Mul(%c, %3)",
        ]),
        lines(&[
            "%a = And(%6, %7)",
            "%b = Where(%a, %0, %4)",
            "%c = Clip(%b, _, %5)",
        ]),
        lines(&["%a = Greater(%0, %1)", "%b = Or(%a, %7)", "%c = Not(%b)"]),
        lines(&[
            "%a = Max(%1, %0, %3)",
            "%b = PRelu(%a, %2)",
            "%c = Mean(%b, %0, %4)",
        ]),
    ];
    for shape in SHAPES {
        for (lines, tolerance) in programs.iter().zip([1e-6, 0.0, 0.0, 1e-6]) {
            let inputs = inputs(&mut random, DataType::F32, shape);
            case(lines, &inputs).agrees_with_reference(tolerance);
        }
    }
    for (dtype, tolerance) in [(DataType::F16, 4e-2), (DataType::BF16, 3e-1)] {
        let shape = [3, 500];
        let values = random.values(1500);
        let inputs: Vec<Tensor> = [&shape[..], &[500], &[500], &[1]]
            .iter()
            .map(|shape| converted(dtype, shape, &values[..shape.iter().product()]))
            .collect();
        case(&programs[0], &inputs).agrees_with_reference(tolerance);
    }
}

#[test]
fn long_outputs_are_computed_by_all_threads() {
    let mut random = Random::new(3);
    let lines: Vec<String> = ["%a = Mul(%0, %1)", "%b = Sigmoid(%a)", "%c = Sub(%0, %b)"]
        .map(str::to_owned)
        .into();
    let inputs = [
        floats(&mut random, DataType::F32, &[3, 37, 1021]),
        floats(&mut random, DataType::F32, &[37, 1]),
    ];
    let expected = separately(&lines, &inputs, CpuLevel::Avx512);
    assert!(are_equal(
        &result(&case(&lines, &inputs), CpuLevel::Avx512),
        &expected
    ));
}

#[test]
fn programs_that_are_invalid_are_refused() {
    let floats = Tensor::from_slice([2, 3], &[1.0f32; 6]).unwrap();
    let integers = Tensor::from_slice([3], &[1i64; 3]).unwrap();
    let scale = Tensor::from_slice([], &[0.5f32]).unwrap();
    let wide = Tensor::from_slice([2, 3], &[1i16; 6]).unwrap();
    let refusal = |lines: &[&str], inputs: &[&Tensor]| {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        let mut case =
            Case::new("tenon.Elementwise").attribute("program", Attribute::Strings(lines));
        for tensor in inputs {
            case = case.tensor(Some((*tensor).clone()), InputKind::Variable);
        }
        let case = case.output(DataType::F32, &[2, 3]);
        case.supported(CpuLevel::Avx512).unwrap_err().to_string()
    };
    for (lines, expected) in [
        (vec!["%a = Add(%0, %7)"], "no input %7"),
        (
            vec!["%a = Add(%0, %9999999999999999999999)"],
            "no earlier instruction",
        ),
        (vec!["%a = Softmax(%0)"], "not an elementwise operator"),
        (
            vec!["%a = QuantizeLinear(%0, %0)"],
            "one scale for all elements",
        ),
        (vec!["%a = Add(%0)"], "needs input 'B'"),
        (vec!["%a = Add(%0, %1)"], "has the wrong element type"),
        (
            vec!["%a = Greater(%0, %0)"],
            "differ from the inferred types",
        ),
        (vec!["%a = Elu(%0) {alpha = \"x\"}"], "wrong kind"),
        (vec![], "number of instructions"),
        (vec!["%a = Neg(%0)"; 33], "two instructions"),
    ] {
        let found = refusal(&lines, &[&floats, &integers]);
        assert!(found.contains(expected), "{lines:?}: {found}");
    }
    let found = refusal(&["%a = DequantizeLinear(%0, %1)"], &[&wide, &scale]);
    assert!(found.contains("i16"), "{found}");
    // Bounds that the program computes, and more registers than there are.
    let one = Tensor::from_slice([1, 1], &[1.0f32]).unwrap();
    let lines = ["%a = Neg(%0)".to_owned(), "%b = Clip(%0, %a)".into()];
    let found = case(&lines, std::slice::from_ref(&one)).supported(CpuLevel::Avx2);
    assert!(found.unwrap_err().to_string().contains("bounds"));
    let mut lines: Vec<String> = (0..10).map(|i| format!("%a{i} = Neg(%0)")).collect();
    let all: Vec<String> = (0..10).map(|i| format!("%a{i}")).collect();
    lines.push(format!("%b = Sum({})", all.join(", ")));
    let found = case(&lines, std::slice::from_ref(&one)).supported(CpuLevel::Avx2);
    assert!(found.unwrap_err().to_string().contains("registers"));
    let inputs = vec![&one; 17];
    let found = refusal(&["%a = Neg(%0)"], &inputs);
    assert!(found.contains("at most 16, found 17"), "{found}");
}
