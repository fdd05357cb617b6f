//! LSTM, GRU and RNN in every direction, layout and with every option, compared with the reference backend.

mod common;
#[path = "common/operands.rs"]
mod operands;

use common::{Case, InputKind, LEVELS, Random};
use operands::{floats, has_inferred_outputs, plan_at_all_levels, rounded, without_elements};
use tenon_graph::Attribute;
use tenon_tensor::DataType;

/// The names of all activations.
const FUNCTIONS: [&str; 11] = [
    "Relu",
    "Tanh",
    "Sigmoid",
    "Affine",
    "LeakyRelu",
    "ThresholdedRelu",
    "ScaledTanh",
    "HardSigmoid",
    "Elu",
    "Softsign",
    "Softplus",
];

/// A layer of random extents and options, with constant weights if they have another type.
fn layer(random: &mut Random, cell: &str, [dtype, narrow]: [DataType; 2]) -> Case {
    let (gates, functions, states) = match cell {
        "LSTM" => (4, 3, 2),
        "GRU" => (3, 2, 1),
        _ => (1, 1, 1),
    };
    let [steps, batch] = [random.between(1, 7), random.between(1, 4)];
    let (features, hidden) = (random.between(1, 20), random.between(1, 40));
    let (direction, directions) =
        random.pick(&[("forward", 1), ("reverse", 1), ("bidirectional", 2)]);
    let batch_first = random.below(2) == 1;
    let constant = random.below(2) == 1 || narrow != dtype;
    let rows = gates * hidden;
    let x = random.values(steps * batch * features);
    let shape = if batch_first {
        [batch, steps, features]
    } else {
        [steps, batch, features]
    };
    let mut case = Case::new(cell)
        .string("direction", direction)
        .int("hidden_size", hidden as i64)
        .int("layout", batch_first.into());
    case = rounded(case, dtype, InputKind::Variable, &shape, &x);
    for depth in [features, hidden] {
        let scale = 1.0 / (depth as f32).sqrt();
        let weights: Vec<f32> = random
            .values(directions * rows * depth)
            .iter()
            .map(|w| w * scale)
            .collect();
        let shape = [directions, rows, depth];
        let kind = if constant {
            InputKind::Constant
        } else {
            InputKind::Variable
        };
        case = rounded(case, narrow, kind, &shape, &weights);
    }
    case = if random.below(4) > 0 {
        floats(case, random, dtype, &[directions, 2 * rows])
    } else {
        case.none()
    };
    case = if random.below(2) == 1 {
        let lengths: Vec<i32> = (0..batch)
            .map(|_| random.between(0, steps) as i32)
            .collect();
        case.input(&[batch], &lengths)
    } else {
        case.none()
    };
    let state = if batch_first {
        [batch, directions, hidden]
    } else {
        [directions, batch, hidden]
    };
    for _ in 0..states {
        case = if random.below(2) == 1 {
            floats(case, random, dtype, &state)
        } else {
            case.none()
        };
    }
    if cell == "LSTM" {
        if random.below(2) == 1 {
            case = floats(case, random, dtype, &[directions, 3 * hidden]);
        }
        case = case.int("input_forget", random.below(2) as i64);
    }
    if cell == "GRU" {
        case = case.int("linear_before_reset", random.below(2) as i64);
    }
    if random.below(2) == 1 {
        let names = (0..functions * directions)
            .map(|_| random.pick(&FUNCTIONS).to_string())
            .collect();
        let parameters = |random: &mut Random| {
            let count = random.below(4);
            Attribute::Floats((0..count).map(|_| random.value()).collect())
        };
        case = case.attribute("activations", Attribute::Strings(names));
        let alphas = parameters(random);
        case = case.attribute("activation_alpha", alphas);
        let betas = parameters(random);
        case = case.attribute("activation_beta", betas);
    }
    if random.below(3) == 0 {
        case = case.float("clip", 0.5);
    }
    case.outputs(1 + states)
}

#[test]
fn layers_with_every_option() {
    let mut random = Random::new(31);
    for cell in ["LSTM", "GRU", "RNN"] {
        for _ in 0..60 {
            let mut case = layer(&mut random, cell, [DataType::F32; 2]);
            // At least one output stays.
            let kept = random.below(case.spec.outputs.len());
            for (index, output) in case.spec.outputs.iter_mut().enumerate() {
                if index != kept && random.below(3) == 0 {
                    *output = None;
                }
            }
            case.agrees_with_reference(5e-5);
        }
    }
}

#[test]
fn layers_of_half_precision() {
    let mut random = Random::new(33);
    for cell in ["LSTM", "GRU", "RNN"] {
        for _ in 0..10 {
            layer(&mut random, cell, [DataType::F16; 2]).agrees_with_reference(2e-3);
            layer(&mut random, cell, [DataType::BF16; 2]).agrees_with_reference(1.2e-2);
        }
    }
}

#[test]
fn layers_with_narrow_weights() {
    let mut random = Random::new(37);
    for cell in ["LSTM", "GRU", "RNN"] {
        for _ in 0..30 {
            let types = [DataType::F32, DataType::F16];
            layer(&mut random, cell, types).agrees_with_reference(5e-5);
            // Rows may be rounded to bf16, too.
            let types = [DataType::F32, DataType::BF16];
            layer(&mut random, cell, types).agrees_with_reference(2e-2);
        }
    }
}

#[test]
fn not_a_number_and_infinity_stay() {
    for cell in ["LSTM", "GRU", "RNN"] {
        for clip in [0.0, 0.5] {
            let mut random = Random::new(32);
            let gates = ["RNN", "", "GRU", "LSTM"]
                .iter()
                .position(|&name| name == cell);
            let rows = (gates.unwrap() + 1) * 5;
            let mut x = random.values(3 * 2 * 4);
            (x[9], x[13]) = (f32::NAN, f32::INFINITY);
            let case = Case::new(cell)
                .float("clip", clip)
                .input(&[3, 2, 4], &x)
                .constant(&[1, rows, 4], &random.values(rows * 4))
                .constant(&[1, rows, 5], &random.values(rows * 5))
                .outputs(2);
            case.agrees_with_reference(5e-5);
        }
    }
}

#[test]
fn a_length_out_of_range_is_an_error() {
    let case = Case::new("GRU")
        .input(&[2, 1, 3], &[0f32; 6])
        .input(&[1, 6, 3], &[0f32; 18])
        .input(&[1, 6, 2], &[0f32; 12])
        .none()
        .input(&[1], &[3i32])
        .outputs(2);
    let error = case.bind(LEVELS[0]).try_execute().unwrap_err();
    assert_eq!(
        error.to_string(),
        "a length is out of range: expected 0 to 2, found 3"
    );
}

#[test]
fn extents_beyond_any_memory() {
    for dtype in [DataType::F32, DataType::F16] {
        for [steps, batch, features, hidden] in [
            [1 << 44, 1, 1, 1],
            [1, 1 << 44, 1, 1],
            [1, 1, 1 << 42, 1],
            [1, 1, 1, 1 << 21],
            [1 << 30, 1, 1 << 14, 1],
            [1 << 24, 1, 1, 1 << 20],
            [1, 1 << 24, 1, 1 << 20],
        ] {
            let case = without_elements(Case::new("LSTM"), dtype, &[steps, batch, features]);
            let case = without_elements(case, dtype, &[1, 4 * hidden, features]);
            let case = without_elements(case, dtype, &[1, 4 * hidden, hidden]);
            if has_inferred_outputs(&case, 3) {
                plan_at_all_levels(&case.outputs(3));
            }
        }
    }
}
