//! RotaryEmbedding, CausalConvWithState and LinearAttention, compared with the reference backend.

mod common;
#[path = "common/operands.rs"]
mod operands;

use common::{Case, LEVELS, Random};
use operands::{floats, plan_at_all_levels, without_elements};
use tenon_tensor::DataType;

/// The types and the tolerances of their results.
const TYPES: [(DataType, f64); 3] = [
    (DataType::F32, 1e-5),
    (DataType::F16, 2e-3),
    (DataType::BF16, 1.2e-2),
];

#[test]
fn rotary_embedding() {
    let mut random = Random::new(51);
    for round in 0..80 {
        let (dtype, tolerance) = TYPES[if round % 4 == 0 { round / 4 % 3 } else { 0 }];
        let [batch, heads, steps] = [1, 2, 3].map(|most| random.between(1, 3 + most));
        let width = 2 * random.between(1, 40);
        let rotated = 2 * random.between(1, width / 2);
        let separate = random.below(2) == 1;
        let whole = random.below(2) == 1;
        let mut case = Case::new("RotaryEmbedding").int("interleaved", random.below(2) as i64);
        let pairs = if whole { width } else { rotated } / 2;
        if !whole {
            case = case.int("rotary_embedding_dim", rotated as i64);
        }
        case = if separate {
            floats(case, &mut random, dtype, &[batch, heads, steps, width])
        } else {
            let case = case.int("num_heads", heads as i64);
            floats(case, &mut random, dtype, &[batch, steps, heads * width])
        };
        let positions = random.below(2) == 1;
        let cache = if positions {
            vec![9, pairs]
        } else {
            vec![batch, steps, pairs]
        };
        case = floats(case, &mut random, dtype, &cache);
        case = floats(case, &mut random, dtype, &cache);
        if positions {
            let positions: Vec<i64> = (0..batch * steps)
                .map(|_| random.below(18) as i64 - 9)
                .collect();
            case = case.input(&[batch, steps], &positions);
        }
        case.outputs(1).agrees_with_reference(tolerance);
    }
}

#[test]
fn a_position_out_of_bounds_is_an_error() {
    for position in [3i64, -4, i64::MIN, i64::MAX] {
        let case = Case::new("RotaryEmbedding")
            .input(&[1, 1, 1, 2], &[1f32; 2])
            .input(&[3, 1], &[1f32; 3])
            .input(&[3, 1], &[1f32; 3])
            .input(&[1, 1], &[position])
            .outputs(1);
        let error = case.bind(LEVELS[0]).try_execute().unwrap_err();
        let expected = "an index is out of the bounds of its dimension: expected -3 to 2, found";
        assert_eq!(error.to_string(), format!("{expected} {position}"));
    }
}

#[test]
fn causal_convolution() {
    let mut random = Random::new(52);
    for round in 0..60 {
        let (dtype, tolerance) = TYPES[if round % 4 == 0 { round / 4 % 3 } else { 0 }];
        let [batch, channels] = [random.between(1, 3), random.between(1, 9)];
        let (length, kernel) = (random.pick(&[1, 2, 3, 17, 50]), random.between(1, 5));
        let activation = random.pick(&["none", "silu", "swish"]);
        let mut case = Case::new("CausalConvWithState").string("activation", activation);
        case = floats(case, &mut random, dtype, &[batch, channels, length]);
        case = floats(case, &mut random, dtype, &[channels, 1, kernel]);
        case = if random.below(2) == 1 {
            floats(case, &mut random, dtype, &[channels])
        } else {
            case.none()
        };
        if random.below(2) == 1 && kernel > 1 {
            case = floats(case, &mut random, dtype, &[batch, channels, kernel - 1]);
        }
        let case = case.outputs(2);
        // A kernel of one element has an empty state, which the reference backend computes.
        if kernel > 1 {
            case.agrees_with_reference(tolerance);
        }
    }
}

#[test]
fn linear_attention() {
    let mut random = Random::new(53);
    for round in 0..80 {
        let (dtype, tolerance) = TYPES[if round % 4 == 0 { round / 4 % 3 } else { 0 }];
        let [batch, steps, groups] = [1, 6, 2].map(|most| random.between(1, 1 + most));
        let heads = groups * random.between(1, 3);
        let (features, width) = (random.between(1, 20), random.between(1, 90));
        let rule = random.pick(&["linear", "gated", "delta", "gated_delta"]);
        let mut case = Case::new("LinearAttention")
            .string("update_rule", rule)
            .int("q_num_heads", heads as i64)
            .int("kv_num_heads", groups as i64)
            .float("scale", random.pick(&[0.0, 0.3]));
        for last in [heads * features, groups * features, groups * width] {
            case = floats(case, &mut random, dtype, &[batch, steps, last]);
        }
        case = if random.below(2) == 1 {
            let state = random.pick(&[dtype, DataType::F32]);
            floats(case, &mut random, state, &[batch, groups, features, width])
        } else {
            case.none()
        };
        case = if rule.starts_with("gated") {
            let each = random.pick(&[1, features]);
            floats(case, &mut random, dtype, &[batch, steps, groups * each])
        } else {
            case.none()
        };
        if rule.ends_with("delta") {
            let each = random.pick(&[1, groups]);
            case = floats(case, &mut random, dtype, &[batch, steps, each]);
        }
        // The delta rule multiplies the state by keys: errors grow with the steps.
        case.outputs(2).agrees_with_reference(8.0 * tolerance);
    }
}

#[test]
fn extents_beyond_any_memory() {
    const LARGE: usize = 1 << 40;
    for dtype in [DataType::F32, DataType::F16] {
        let case = Case::new("RotaryEmbedding");
        let width = 1 << 44;
        let case = without_elements(case, dtype, &[1, 1, 1, width]);
        let case = without_elements(case, dtype, &[1, 1, width / 2]);
        let case = without_elements(case, dtype, &[1, 1, width / 2]);
        plan_at_all_levels(&case.output(dtype, &[1, 1, 1, width]));

        for (heads, features, width) in [
            (1, 1, LARGE),
            (LARGE, 1, 1),
            (LARGE, 1, LARGE),
            (1, LARGE, 1),
            (1, LARGE, LARGE),
        ] {
            let case = Case::new("LinearAttention")
                .string("update_rule", "linear")
                .int("q_num_heads", heads as i64)
                .int("kv_num_heads", 1);
            let case = without_elements(case, dtype, &[1, 1, heads * features]);
            let case = without_elements(case, dtype, &[1, 1, features]);
            let case = without_elements(case, dtype, &[1, 1, width]);
            let output = heads.checked_mul(width).unwrap_or(LARGE);
            let case = case.output(dtype, &[1, 1, output]);
            plan_at_all_levels(&case);
        }

        let length = 1 << 44;
        let case = Case::new("CausalConvWithState");
        let case = without_elements(case, dtype, &[1, 1, length]);
        let case = without_elements(case, dtype, &[1, 1, length]);
        let case = case.output(dtype, &[1, 1, length]);
        plan_at_all_levels(&case.output(dtype, &[1, 1, length - 1]));
    }
}
