//! ONNX's Attention in every form, compared with the reference backend.

mod common;
#[path = "common/operands.rs"]
mod operands;

use common::{Case, InputKind, LEVELS, Random};
use operands::{floats, plan_at_all_levels, without_elements};
use tenon_tensor::{DataType, Tensor};

/// The input of booleans.
fn bools(case: Case, shape: &[usize], elements: &[bool]) -> Case {
    let tensor = Tensor::from_bools(shape, elements).unwrap();
    case.tensor(Some(tensor), InputKind::Variable)
}

/// A mask of a random type and shape, broadcast to the scores.
fn mask(case: Case, random: &mut Random, dtype: DataType, scores: [usize; 4]) -> Case {
    let mut shape: Vec<usize> = scores.to_vec();
    for extent in &mut shape[..3] {
        if random.below(2) == 1 {
            *extent = 1;
        }
    }
    if random.below(3) == 0 {
        shape[3] = random.between(1, scores[3]);
    }
    let shape = &shape[random.below(3)..];
    if random.below(2) == 1 {
        let elements: Vec<bool> = (0..shape.iter().product())
            .map(|_| random.below(4) > 0)
            .collect();
        return bools(case, shape, &elements);
    }
    floats(case, random, dtype, shape)
}

/// Attention of random extents and options.
fn attention(random: &mut Random, dtype: DataType) -> Case {
    let (batch, groups) = (random.between(1, 2), random.between(1, 3));
    let heads = groups * random.between(1, 3);
    let queries = random.pick(&[1, 2, 3, 7, 20, 90]);
    let keys = random.pick(&[1, 3, 17, 40, 150]);
    let past = random.pick(&[0, 0, 0, 5, 33]);
    let (depth, width) = (random.between(1, 40), random.between(1, 70));
    let total = past + keys;
    let operand = |heads: usize, steps: usize, width: usize, separate: bool| {
        if separate {
            vec![batch, heads, steps, width]
        } else {
            vec![batch, steps, heads * width]
        }
    };
    let separate = random.below(2) == 1;
    let mut case = Case::new("Attention");
    if !separate {
        case = case
            .int("q_num_heads", heads as i64)
            .int("kv_num_heads", groups as i64);
    }
    case = floats(
        case,
        random,
        dtype,
        &operand(heads, queries, depth, separate),
    );
    case = floats(case, random, dtype, &operand(groups, keys, depth, separate));
    case = floats(case, random, dtype, &operand(groups, keys, width, separate));
    case = if random.below(2) == 1 {
        mask(case, random, dtype, [batch, heads, queries, total])
    } else {
        case.none()
    };
    if past > 0 {
        case = floats(case, random, dtype, &[batch, groups, past, depth]);
        case = floats(case, random, dtype, &[batch, groups, past, width]);
    } else if random.below(3) == 0 {
        let lengths: Vec<i64> = (0..batch)
            .map(|_| random.between(0, total) as i64)
            .collect();
        case = case.none().none().input(&[batch], &lengths);
    }
    case = case
        .int("is_causal", random.below(2) as i64)
        .int("qk_matmul_output_mode", random.below(4) as i64);
    if random.below(3) == 0 {
        case = case.float("softcap", 0.7);
    }
    if random.below(2) == 1 {
        case = case.float("scale", 0.3);
    }
    if random.below(3) == 0 {
        case = case
            .int("left_window_size", random.below(12) as i64 - 1)
            .int("right_window_size", random.below(12) as i64 - 1);
    }
    let mut case = case.outputs(4);
    if past == 0 {
        for output in 1..3 {
            if random.below(2) == 1 {
                case = case.without_output(output);
            }
        }
    }
    if random.below(3) > 0 {
        case = case.without_output(3);
    }
    case
}

#[test]
fn attention_with_every_option() {
    let mut random = Random::new(41);
    for _ in 0..120 {
        attention(&mut random, DataType::F32).agrees_with_reference(2e-5);
    }
}

#[test]
fn attention_of_half_precision() {
    let mut random = Random::new(42);
    for _ in 0..25 {
        attention(&mut random, DataType::F16).agrees_with_reference(2e-3);
        attention(&mut random, DataType::BF16).agrees_with_reference(1.2e-2);
    }
}

#[test]
fn an_empty_past() {
    let mut random = Random::new(43);
    let mut case = Case::new("Attention");
    for steps in [6, 9, 9] {
        case = floats(case, &mut random, DataType::F32, &[1, 2, steps, 8]);
    }
    case.none()
        .input::<f32>(&[1, 2, 0, 8], &[])
        .input::<f32>(&[1, 2, 0, 8], &[])
        .outputs(3)
        .agrees_with_reference(2e-5);
}

#[test]
fn many_keys_in_blocks() {
    let mut random = Random::new(44);
    for (queries, causal) in [(600, 0), (600, 1), (2, 0)] {
        let mut case = Case::new("Attention").int("is_causal", causal);
        for (heads, steps) in [(2, queries), (1, 1200), (1, 1200)] {
            case = floats(case, &mut random, DataType::F32, &[1, heads, steps, 16]);
        }
        case.outputs(1).agrees_with_reference(2e-5);
    }
}

#[test]
fn masked_keys_stay_masked() {
    let mut random = Random::new(45);
    let mut k = random.values(9 * 8);
    k[3 * 8..4 * 8].fill(f32::NAN);
    k[5 * 8] = f32::INFINITY;
    let mask: Vec<bool> = (0..2 * 9)
        .map(|at| at < 9 && at % 9 != 3 && at % 9 != 5)
        .collect();
    let scores: Vec<f32> = mask
        .iter()
        .map(|&keep| if keep { 0.5 } else { f32::NEG_INFINITY })
        .collect();
    for queries in [2, 8] {
        let shape = [queries / 2, 2, 8];
        let case = || {
            Case::new("Attention")
                .input(&[1, shape[0], 2, 8], &random_values(queries * 8))
                .input(&[1, 1, 9, 8], &k)
                .input(&[1, 1, 9, 8], &random_values(9 * 8))
        };
        bools(case(), &[2, 9], &mask)
            .outputs(1)
            .agrees_with_reference(2e-5);
        case()
            .input(&[2, 9], &scores)
            .outputs(1)
            .agrees_with_reference(2e-5);
    }
}

fn random_values(count: usize) -> Vec<f32> {
    Random::new(46).values(count)
}

#[test]
fn hostile_operands() {
    let case = |shape: &[usize]| {
        Case::new("Attention")
            .input(shape, &vec![0f32; shape.iter().product()])
            .input(&[1, 2, 3, 4], &[0f32; 24])
            .input(&[1, 2, 3, 4], &[0f32; 24])
    };
    let lengths = case(&[1, 2, 1, 4])
        .none()
        .none()
        .none()
        .input(&[1], &[4i64])
        .outputs(1);
    let error = lengths.bind(LEVELS[0]).try_execute().unwrap_err();
    assert_eq!(
        error.to_string(),
        "a length is out of range: expected 0 to 3, found 4"
    );
    for (name, value) in [
        ("left_window_size", i64::MAX),
        ("right_window_size", i64::MAX),
    ] {
        case(&[1, 2, 1, 4])
            .int(name, value)
            .outputs(1)
            .agrees_with_reference(0.0);
    }
    // The heads of the queries are no multiple of those of the keys.
    let refused = case(&[1, 3, 1, 4]).f32_output(&[1, 3, 1, 4]);
    assert!(refused.supported(LEVELS[2]).is_err());
}

#[test]
fn extents_beyond_any_memory() {
    const LARGE: usize = 1 << 40;
    for dtype in [DataType::F32, DataType::F16] {
        // All scores; then the output, whose heads are concatenated.
        let case = Case::new("Attention");
        let case = without_elements(case, dtype, &[1, 1, LARGE, 1]);
        let case = without_elements(case, dtype, &[1, 1, LARGE, 1]);
        let case = without_elements(case, dtype, &[1, 1, LARGE, 1]);
        plan_at_all_levels(&case.output(dtype, &[1, 1, LARGE, 1]));

        let case = Case::new("Attention")
            .int("q_num_heads", LARGE as i64)
            .int("kv_num_heads", 1);
        let case = without_elements(case, dtype, &[1, 1, LARGE]);
        let case = without_elements(case, dtype, &[1, 1, 1]);
        let case = without_elements(case, dtype, &[1, 1, LARGE]);
        plan_at_all_levels(&case.output(dtype, &[1, 1, LARGE]));

        for (steps, depth) in [(LARGE, 1), (1, 1 << 44), (1 << 44, 1)] {
            let case = Case::new("tenon.Attention");
            let case = without_elements(case, dtype, &[1, steps, 1, depth]);
            let case = without_elements(case, dtype, &[1, steps, 1, depth]);
            let case = without_elements(case, dtype, &[1, steps, 1, 1]);
            plan_at_all_levels(&case.output(dtype, &[1, steps, 1, 1]));
        }
    }
}
