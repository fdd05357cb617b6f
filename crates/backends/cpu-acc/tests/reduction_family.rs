//! Reductions, positions of extremes, scans, softmax and normalizations of any rank and type, beside the
//! reference.

mod common;

use common::{Case, InputKind, LEVELS, Random, converted};
use tenon_graph::Attribute;
use tenon_tensor::{DataType, Tensor};

/// Random elements: integers of small magnitude, or fractions, with special values where `special`.
fn random_tensor(random: &mut Random, dtype: DataType, shape: &[usize], special: bool) -> Tensor {
    let mut values = random.values(shape.iter().product());
    for value in &mut values {
        if !dtype.is_float() {
            *value = (*value * 9.0).round();
        }
        if dtype == DataType::Bool || matches!(dtype, DataType::U8) {
            *value = value.abs().min(1.0);
        }
        if special && dtype.is_float() && random.below(30) == 0 {
            *value = random.pick(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.5, 0.5]);
        }
    }
    converted(dtype, shape, &values)
}

/// A shape of one to four dimensions, of extents up to `most`, and one of them, which is sometimes longer:
/// in `long` of the rank.
fn shape_and_axis(
    random: &mut Random,
    most: usize,
    long: impl Fn(usize) -> [usize; 2],
) -> (Vec<usize>, usize) {
    let rank = random.between(1, 4);
    let mut shape = random.shape(rank, most);
    let axis = random.below(rank);
    if random.below(4) == 0 {
        let [low, high] = long(rank);
        shape[axis] = random.between(low, high);
    }
    (shape, axis)
}

/// A tolerance for results whose magnitude is about that of the elements.
fn tolerance(dtype: DataType) -> f64 {
    match dtype {
        DataType::F16 => 3e-3,
        DataType::BF16 => 2e-2,
        _ => 1e-5,
    }
}

const FLOATS: [DataType; 4] = [DataType::F32, DataType::F64, DataType::F16, DataType::BF16];
const REDUCTIONS: [&str; 10] = [
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
];

#[test]
fn reductions_over_any_axes() {
    let mut random = Random::new(51);
    for round in 0..250 {
        let op = REDUCTIONS[round % REDUCTIONS.len()];
        let rank = random.between(0, 5);
        let shape = random.shape(rank, 9);
        let integers = [DataType::I32, DataType::I64, DataType::U32, DataType::U64];
        let dtype = match op {
            "ReduceMax" | "ReduceMin" if random.below(2) == 0 => random.pick(&[
                DataType::F32,
                DataType::F16,
                DataType::BF16,
                DataType::F64,
                DataType::I32,
                DataType::I64,
                DataType::I8,
                DataType::U8,
                DataType::Bool,
            ]),
            "ReduceMean" if random.below(2) == 0 => random.pick(&[DataType::F32, DataType::F16]),
            "ReduceL2" | "ReduceLogSum" | "ReduceLogSumExp" => random.pick(&FLOATS),
            _ if random.below(2) == 0 => random.pick(&integers),
            _ => random.pick(&FLOATS),
        };
        let special = matches!(op, "ReduceMax" | "ReduceMin" | "ReduceLogSumExp");
        let x = random_tensor(&mut random, dtype, &shape, special);
        let case = Case::new(op).tensor(Some(x), InputKind::Variable);
        let axes: Vec<i64> = (0..rank as i64).filter(|_| random.below(2) == 0).collect();
        let axes: Vec<i64> = axes
            .into_iter()
            .map(|axis| {
                if random.below(2) == 0 {
                    axis
                } else {
                    axis - rank as i64
                }
            })
            .collect();
        let case = if axes.is_empty() && random.below(2) == 0 {
            case
        } else {
            case.constant(&[axes.len()], &axes)
        };
        case.int("keepdims", random.below(2) as i64)
            .int("noop_with_empty_axes", random.below(2) as i64)
            .outputs(1)
            // Sums of some hundred elements.
            .agrees_with_reference(tolerance(dtype) * 4.0);
    }
}

#[test]
fn long_reductions() {
    let mut random = Random::new(52);
    for (shape, axes) in [
        (vec![100_003], vec![0]),
        (vec![70_001, 3], vec![0]),
        (vec![5, 9_000, 7], vec![1]),
        (vec![40, 2_500, 2], vec![0, 2]),
        (vec![3, 5_000], vec![1]),
        (vec![300, 1_500], vec![0]),
        (vec![2, 3, 5, 7, 11], vec![0, 2, 4]),
    ] {
        for op in REDUCTIONS {
            let values = random.values(shape.iter().product());
            let values: Vec<f32> = match op {
                "ReduceProd" => values.iter().map(|x| 1.0 + x / 1e3).collect(),
                "ReduceLogSum" => values.iter().map(|x| x + 1.5).collect(),
                _ => values,
            };
            Case::new(op)
                .input(&shape, &values)
                .constant(
                    &[axes.len()],
                    &axes.iter().map(|&axis| axis as i64).collect::<Vec<_>>(),
                )
                .outputs(1)
                .agrees_with_reference(2e-5);
        }
    }
}

#[test]
fn norms_neither_overflow_nor_vanish() {
    for scale in [1e30f32, 1e-30] {
        let values: Vec<f32> = (0..100).map(|i| (i % 5 + 1) as f32 * scale).collect();
        let case = Case::new("ReduceL2")
            .input(&[2, 50], &values)
            .constant(&[1], &[1i64])
            .outputs(1);
        for level in LEVELS {
            let exact = (550f64).sqrt() * f64::from(scale);
            let found = f64::from(case.run(level)[0]);
            assert!((found / exact - 1.0).abs() < 1e-6, "{found} {exact}");
        }
    }
}

#[test]
fn global_pools() {
    let mut random = Random::new(53);
    for op in ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"] {
        for dtype in FLOATS {
            for p in 1..=3 {
                let rank = random.between(3, 5);
                let shape = random.shape(rank, 9);
                let x = random_tensor(&mut random, dtype, &shape, op == "GlobalMaxPool");
                let case = Case::new(op).tensor(Some(x), InputKind::Variable);
                let case = if op == "GlobalLpPool" {
                    case.int("p", p)
                } else {
                    case
                };
                case.outputs(1)
                    .agrees_with_reference(tolerance(dtype) * 4.0);
            }
        }
    }
}

#[test]
fn hostile_axes_are_refused() {
    // The first two axes are valid: all else in the cases is supported.
    for axis in [2, -1, 3, -4, i64::MAX, i64::MIN] {
        let is_valid = (-3..3).contains(&axis);
        for op in ["ReduceSum", "ReduceLogSumExp"] {
            let case = Case::new(op)
                .input(&[2, 3, 4], &[0f32; 24])
                .constant(&[1], &[axis])
                .f32_output(&[2, 3, 1]);
            assert_eq!(case.supported(LEVELS[0]).is_ok(), is_valid, "{op} {axis}");
        }
        let normalization = |op| Case::new(op).input(&[2, 3, 4], &[0f32; 24]);
        for case in [
            normalization("MeanVarianceNormalization")
                .attribute("axes", Attribute::Ints(vec![axis])),
            normalization("LpNormalization").int("axis", axis),
            normalization("LayerNormalization")
                .input(&[4], &[0f32; 4])
                .int("axis", axis),
        ] {
            let case = case.f32_output(&[2, 3, 4]);
            assert_eq!(case.supported(LEVELS[0]).is_ok(), is_valid, "{axis}");
        }
    }
    for groups in [2, 0, -1, i64::MAX] {
        let case = Case::new("GroupNormalization")
            .input(&[2, 4, 4], &[0f32; 32])
            .input(&[4], &[0f32; 4])
            .input(&[4], &[0f32; 4])
            .int("num_groups", groups)
            .f32_output(&[2, 4, 4]);
        assert_eq!(case.supported(LEVELS[0]).is_ok(), groups == 2, "{groups}");
    }
    for size in [3, 0, -1, i64::MIN] {
        let case = Case::new("LRN")
            .input(&[2, 4, 4], &[0f32; 32])
            .int("size", size)
            .f32_output(&[2, 4, 4]);
        assert_eq!(case.supported(LEVELS[0]).is_ok(), size == 3, "{size}");
    }
}

/// Elements around a mean that is large beside their differences.
fn shifted(random: &mut Random, shape: &[usize], mean: f32) -> Vec<f32> {
    let values = random.values(shape.iter().product());
    values.iter().map(|x| mean + x).collect()
}

#[test]
fn normalizations_of_rows() {
    let mut random = Random::new(54);
    for round in 0..60 {
        let rank = random.between(2, 4);
        let shape = random.shape(rank, 40);
        let mean = random.pick(&[0.0, 5.0, 3000.0]);
        let x = shifted(&mut random, &shape, mean);
        let channels = shape[1];
        let (scale, bias) = (random.values(channels), random.values(channels));
        let case = match round % 3 {
            0 => Case::new("InstanceNormalization").input(&shape, &x),
            1 => {
                let mut counts = (1..=channels.min(4)).rev();
                let groups = counts.find(|&g| channels.is_multiple_of(g));
                Case::new("GroupNormalization")
                    .int("num_groups", groups.unwrap_or(1) as i64)
                    .input(&shape, &x)
            }
            _ => {
                let axis = random.below(rank);
                let length: usize = shape[axis..].iter().product();
                let (scale, bias) = (random.values(length), random.values(length));
                let parameters = shape[random.between(axis, rank)..].to_vec();
                let count: usize = parameters.iter().product();
                let case = Case::new("LayerNormalization")
                    .input(&shape, &x)
                    .input(&parameters, &scale[..count]);
                let case = if random.below(2) == 0 {
                    case.input(&parameters, &bias[..count])
                } else {
                    case
                };
                case.int("axis", axis as i64 - rank as i64)
                    .float("epsilon", 1e-3)
                    .outputs(1 + round % 3)
                    .agrees_with_reference(3e-5);
                continue;
            }
        };
        case.input(&[channels], &scale)
            .input(&[channels], &bias)
            .float("epsilon", 1e-3)
            .outputs(1)
            .agrees_with_reference(3e-5);
    }
}

#[test]
fn normalizations_along_any_axes() {
    let mut random = Random::new(55);
    for round in 0..80 {
        let rank = random.between(1, 5);
        let shape = random.shape(rank, 12);
        if round % 2 == 0 {
            let values = random.values(shape.iter().product());
            Case::new("LpNormalization")
                .input(&shape, &values)
                .int("axis", random.below(rank) as i64)
                .int("p", random.between(1, 2) as i64)
                .outputs(1)
                .agrees_with_reference(2e-6);
            continue;
        }
        let x = shifted(&mut random, &shape, 1000.0);
        let axes: Vec<usize> = (0..rank).filter(|_| random.below(2) == 0).collect();
        let count: usize = axes.iter().map(|&axis| shape[axis]).product();
        // The deviation of one element is only rounding errors.
        if count > 1 {
            Case::new("MeanVarianceNormalization")
                .input(&shape, &x)
                .ints("axes", &axes)
                .outputs(1)
                .agrees_with_reference(1e-4);
        }
    }
    let x = shifted(&mut random, &[3, 300, 1100], -70.0);
    for axes in [vec![1], vec![0, 2], vec![0, 1]] {
        Case::new("MeanVarianceNormalization")
            .input(&[3, 300, 1100], &x)
            .ints("axes", &axes)
            .outputs(1)
            .agrees_with_reference(1e-4);
    }
}

#[test]
fn local_responses_and_batches() {
    let mut random = Random::new(56);
    for beta in [0.25, 0.5, 0.6, 0.75, 1.0] {
        let shape = [
            2,
            random.between(1, 9),
            random.between(1, 9),
            random.pick(&[1, 40, 1500]),
        ];
        let x = random.values(shape.iter().product());
        Case::new("LRN")
            .input(&shape, &x)
            .float("alpha", 0.3)
            .float("beta", beta)
            .float("bias", 1.5)
            .int("size", random.pick(&[1, 2, 5, 100, i64::MAX]))
            .outputs(1)
            .agrees_with_reference(2e-6);
    }
    for shape in [vec![7], vec![3, 5], vec![2, 3, 40], vec![2, 3, 4, 5, 2]] {
        let channels = shape.get(1).copied().unwrap_or(1);
        let x = shifted(&mut random, &shape, 100.0);
        let positive: Vec<f32> = random
            .values(channels)
            .iter()
            .map(|x| x.abs() + 0.1)
            .collect();
        let (scale, bias) = (random.values(channels), random.values(channels));
        Case::new("BatchNormalization")
            .input(&shape, &x)
            .input(&[channels], &scale)
            .constant(&[channels], &bias)
            .input(&[channels], &shifted(&mut random, &[channels], 100.0))
            .input(&[channels], &positive)
            .outputs(1)
            .agrees_with_reference(1e-5);
    }
}

#[test]
fn positions_of_extremes() {
    let mut random = Random::new(57);
    for _ in 0..120 {
        let (shape, axis) = shape_and_axis(&mut random, 12, |_| [1000, 2500]);
        let dtype = random.pick(&[
            DataType::F32,
            DataType::F16,
            DataType::BF16,
            DataType::F64,
            DataType::I32,
            DataType::I64,
            DataType::I8,
            DataType::U8,
        ]);
        let special = random.below(2) == 0;
        let x = random_tensor(&mut random, dtype, &shape, special);
        Case::new(random.pick(&["ArgMax", "ArgMin"]))
            .tensor(Some(x.clone()), InputKind::Variable)
            .int("axis", axis as i64)
            .int("keepdims", random.below(2) as i64)
            .int("select_last_index", random.below(2) as i64)
            .outputs(1)
            .agrees_with_reference(0.0);
        if matches!(dtype, DataType::F32 | DataType::F16 | DataType::BF16) {
            Case::new("Hardmax")
                .tensor(Some(x), InputKind::Variable)
                .int("axis", axis as i64 - shape.len() as i64)
                .outputs(1)
                .agrees_with_reference(0.0);
        }
    }
}

#[test]
fn scans_in_both_directions() {
    let mut random = Random::new(58);
    for _ in 0..120 {
        let (shape, axis) = shape_and_axis(&mut random, 11, |_| [500, 1200]);
        let dtype = random.pick(&[
            DataType::F32,
            DataType::F16,
            DataType::BF16,
            DataType::F64,
            DataType::I32,
            DataType::I64,
        ]);
        let op = random.pick(&["CumSum", "CumSum", "CumProd"]);
        let x = random_tensor(&mut random, dtype, &shape, false);
        let case = Case::new(op).tensor(Some(x), InputKind::Variable);
        let negative = axis as i64 - shape.len() as i64;
        let case = match random.below(3) {
            0 => case.constant(&[], &[negative]),
            1 => case.input(&[], &[axis as i64]),
            _ => case.input(&[], &[axis as i32]),
        };
        case.int("exclusive", random.below(2) as i64)
            .int("reverse", random.below(2) as i64)
            .outputs(1)
            .agrees_with_reference(match dtype {
                DataType::F16 => 2e-3,
                DataType::BF16 => 1e-2,
                _ => 1e-6,
            });
    }
    for axis in [2, -3, i64::MAX, i64::MIN] {
        let case = Case::new("CumSum")
            .input(&[2, 3], &[1f32; 6])
            .input(&[], &[axis])
            .outputs(1);
        let error = case.bind(LEVELS[0]).try_execute().unwrap_err();
        assert!(error.to_string().contains("-2 to 1"), "{error}");
    }
}

#[test]
fn softmax_along_any_axis() {
    let mut random = Random::new(59);
    for round in 0..80 {
        let (shape, axis) = shape_and_axis(&mut random, 13, |rank| [500, 9000 / rank]);
        let dtype = random.pick(&[DataType::F32, DataType::F16, DataType::BF16]);
        let special = round % 8 == 0;
        let x = random_tensor(&mut random, dtype, &shape, special);
        for op in ["Softmax", "LogSoftmax"] {
            Case::new(op)
                .tensor(Some(x.clone()), InputKind::Variable)
                .int("axis", axis as i64)
                .outputs(1)
                .agrees_with_reference(tolerance(dtype));
        }
    }
}

#[test]
fn losses_of_scores() {
    let mut random = Random::new(60);
    for _ in 0..80 {
        let mut shape = vec![random.between(1, 5), random.between(2, 30)];
        for _ in 0..random.below(3) {
            shape.push(random.between(1, 12));
        }
        let dtype = random.pick(&[DataType::F32, DataType::F32, DataType::F16, DataType::BF16]);
        let x = random_tensor(&mut random, dtype, &shape, false);
        let labels_shape = [&shape[..1], &shape[2..]].concat();
        let count = labels_shape.iter().product();
        let classes = shape[1];
        let labels: Vec<i64> = (0..count).map(|_| random.below(classes) as i64).collect();
        let op = random.pick(&["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"]);
        let case = Case::new(op).tensor(Some(x), InputKind::Variable);
        let case = if random.below(2) == 0 {
            case.input(&labels_shape, &labels)
        } else {
            let labels: Vec<i32> = labels.iter().map(|&label| label as i32).collect();
            case.input(&labels_shape, &labels)
        };
        let case = if random.below(2) == 0 {
            let weights: Vec<f32> = random
                .values(classes)
                .iter()
                .map(|x| x.abs() + 0.5)
                .collect();
            case.tensor(
                Some(converted(dtype, &[classes], &weights)),
                InputKind::Variable,
            )
        } else {
            case
        };
        let case = if random.below(2) == 0 {
            case.int("ignore_index", random.below(2) as i64)
        } else {
            case
        };
        let outputs = if op.starts_with('S') {
            random.between(1, 2)
        } else {
            1
        };
        case.string("reduction", random.pick(&["none", "sum", "mean"]))
            .outputs(outputs)
            .agrees_with_reference(tolerance(dtype) * 2.0);
    }
    for label in [3, -1, i64::MAX, i64::MIN] {
        for op in ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"] {
            let case = Case::new(op)
                .input(&[2, 3], &[0.5f32; 6])
                .input(&[2], &[0, label])
                .outputs(1);
            let error = case.bind(LEVELS[0]).try_execute().unwrap_err();
            assert!(
                error.to_string().contains("a label is not a class"),
                "{error}"
            );
        }
    }
}

#[test]
fn normalizations_in_half_precision() {
    let mut random = Random::new(61);
    for dtype in [DataType::F16, DataType::BF16] {
        let tolerance = tolerance(dtype) * 2.0;
        let parameter = |random: &mut Random, count: usize| {
            let values: Vec<f32> = random.values(count).iter().map(|x| x.abs() + 0.5).collect();
            Some(converted(dtype, &[count], &values))
        };
        for shape in [vec![3, 8, 5, 7], vec![2, 4, 9000], vec![5, 12]] {
            let x = Some(random_tensor(&mut random, dtype, &shape, false));
            let channels = shape[1];
            let last = shape[shape.len() - 1];
            for op in [
                "InstanceNormalization",
                "GroupNormalization",
                "BatchNormalization",
            ] {
                let mut case = Case::new(op)
                    .tensor(x.clone(), InputKind::Variable)
                    .tensor(parameter(&mut random, channels), InputKind::Variable)
                    .tensor(parameter(&mut random, channels), InputKind::Constant)
                    .float("epsilon", 1e-2);
                if op.starts_with('G') {
                    case = case.int("num_groups", 2);
                }
                if op.starts_with('B') {
                    case = case
                        .tensor(parameter(&mut random, channels), InputKind::Variable)
                        .tensor(parameter(&mut random, channels), InputKind::Variable);
                }
                case.outputs(1).agrees_with_reference(tolerance);
            }
            for op in ["LayerNormalization", "RMSNormalization"] {
                Case::new(op)
                    .tensor(x.clone(), InputKind::Variable)
                    .tensor(parameter(&mut random, last), InputKind::Variable)
                    .int("axis", 1)
                    .float("epsilon", 1e-2)
                    .outputs(1)
                    .agrees_with_reference(tolerance);
            }
            for (op, axis) in [("LpNormalization", 0), ("LpNormalization", 1), ("LRN", 0)] {
                let case = Case::new(op).tensor(x.clone(), InputKind::Variable);
                let case = if op == "LRN" {
                    case.int("size", 3).float("alpha", 0.5)
                } else {
                    case.int("axis", axis).int("p", 1 + axis)
                };
                case.outputs(1).agrees_with_reference(tolerance);
            }
            for axes in [vec![0], vec![1], vec![0, shape.len() - 1]] {
                Case::new("MeanVarianceNormalization")
                    .tensor(x.clone(), InputKind::Variable)
                    .ints("axes", &axes)
                    .outputs(1)
                    .agrees_with_reference(tolerance);
            }
        }
    }
}
