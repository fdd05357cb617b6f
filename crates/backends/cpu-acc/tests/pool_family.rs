//! Pools of any rank, type and layout, beside the reference.

mod common;

use common::{Case, InputKind, LEVELS, Random, converted};
use tenon_graph::Attribute;
use tenon_tensor::{DataType, Tensor};

/// A tensor of `dtype` with some NaN, infinities and equal elements among random ones.
fn tensor(random: &mut Random, dtype: DataType, shape: &[usize], special: bool) -> Tensor {
    let scale = if dtype.is_float() { 4.0 } else { 100.0 };
    let mut values = random.values(shape.iter().product());
    for value in &mut values {
        *value = (*value * scale).round();
        if special && random.below(20) == 0 {
            *value = random.pick(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0]);
        }
    }
    converted(dtype, shape, &values)
}

fn tolerance(dtype: DataType) -> f64 {
    match dtype {
        DataType::F16 => 2e-3,
        DataType::BF16 => 2e-2,
        _ => 2e-6,
    }
}

/// The attributes of a random window over `spatial`; `None` where the kernel does not fit.
fn window(random: &mut Random, case: Case, spatial: &[usize]) -> Option<Case> {
    let rank = spatial.len();
    let mut list =
        |low, high| -> Vec<usize> { (0..rank).map(|_| random.between(low, high)).collect() };
    let (kernel, strides, dilations) = (list(1, 4), list(1, 5), list(1, 2));
    let mut pads = Vec::new();
    for _ in 0..2 {
        for &extent in &kernel {
            pads.push(random.below(extent));
        }
    }
    for axis in 0..rank {
        let reach = (kernel[axis] - 1) * dilations[axis] + 1;
        if spatial[axis] + pads[axis] + pads[rank + axis] < reach {
            return None;
        }
    }
    let case = case
        .ints("kernel_shape", &kernel)
        .ints("strides", &strides)
        .ints("dilations", &dilations)
        .int("ceil_mode", random.below(2) as i64);
    Some(match random.below(4) {
        0 => case.string("auto_pad", random.pick(&["SAME_UPPER", "SAME_LOWER"])),
        _ => case.ints("pads", &pads),
    })
}

#[test]
fn pools_of_any_rank_and_type() {
    let mut random = Random::new(41);
    for round in 0..120 {
        let spatial: Vec<usize> = (0..random.between(1, 3))
            .map(|_| random.between(1, 19))
            .collect();
        let op = random.pick(&["MaxPool", "MaxPool", "AveragePool", "LpPool"]);
        let dtype = match op {
            "MaxPool" => random.pick(&[
                DataType::F32,
                DataType::F64,
                DataType::F16,
                DataType::BF16,
                DataType::I8,
                DataType::U8,
            ]),
            _ => random.pick(&[DataType::F32, DataType::F64, DataType::F16, DataType::BF16]),
        };
        let shape = [&[random.between(1, 2), random.between(1, 3)], &*spatial].concat();
        let x = tensor(
            &mut random,
            dtype,
            &shape,
            op == "MaxPool" && dtype.is_float(),
        );
        let case = Case::new(op).tensor(Some(x), InputKind::Variable);
        let Some(case) = window(&mut random, case, &spatial) else {
            continue;
        };
        let case = match op {
            "AveragePool" => case.int("count_include_pad", random.below(2) as i64),
            "LpPool" => case.int("p", random.between(1, 3) as i64),
            _ => case.int("storage_order", random.below(2) as i64),
        };
        let outputs = if op == "MaxPool" && round % 2 == 0 {
            2
        } else {
            1
        };
        case.outputs(outputs)
            .agrees_with_reference(tolerance(dtype));
    }
}

#[test]
fn images_with_channels_last() {
    let mut random = Random::new(42);
    for _ in 0..40 {
        let spatial = [random.between(1, 9), random.between(1, 40)];
        let channels = random.pick(&[1, 3, 16, 130, 300]);
        let op = random.pick(&["tenon.MaxPool", "tenon.AveragePool"]);
        let dtype = random.pick(&[DataType::F32, DataType::F64, DataType::F16, DataType::BF16]);
        let shape = [1, spatial[0], spatial[1], channels];
        let x = tensor(&mut random, dtype, &shape, op == "tenon.MaxPool");
        let case = Case::new(op).tensor(Some(x), InputKind::Variable);
        let kernel = [random.between(1, 3), random.between(1, 3)];
        let pads: Vec<usize> = (0..4).map(|i| random.below(kernel[i % 2])).collect();
        if (0..2).any(|axis| spatial[axis] + pads[axis] + pads[axis + 2] < kernel[axis]) {
            continue;
        }
        case.ints("kernel_shape", &kernel)
            .ints("strides", &[random.between(1, 3), random.between(1, 3)])
            .ints("dilations", &[1, 1])
            .ints("pads", &pads)
            .outputs(1)
            .agrees_with_reference(tolerance(dtype));
    }
}

#[test]
fn windows_larger_than_a_block() {
    let mut random = Random::new(43);
    for (width, kernel, stride, dilation) in [
        (9000, 4000, 7, 2),
        (5000, 2, 3, 3000),
        (6000, 1, 2500, 1),
        (3000, 1500, 1, 1),
    ] {
        for op in ["MaxPool", "AveragePool"] {
            let x = tensor(&mut random, DataType::F32, &[1, 1, width], false);
            Case::new(op)
                .tensor(Some(x), InputKind::Variable)
                .ints("kernel_shape", &[kernel])
                .ints("strides", &[stride])
                .ints("dilations", &[dilation])
                .outputs(1)
                .agrees_with_reference(1e-5);
        }
    }
}

#[test]
fn elements_move_back_to_their_indices() {
    let mut random = Random::new(44);
    for (extra, dtype) in [(0, DataType::F32), (3, DataType::F64), (1, DataType::F16)] {
        let x = tensor(&mut random, dtype, &[2, 3, 4, 5], false);
        let indices: Vec<i64> = (0..120)
            .map(|at| at / 20 * 80 + at / 5 % 4 * 20 + at % 5 * 2 + 1)
            .collect();
        let shape = [2i64, 3, 8 + extra, 10 + extra];
        Case::new("MaxUnpool")
            .tensor(Some(x), InputKind::Variable)
            .input(&[2, 3, 4, 5], &indices)
            .constant(&[4], &shape)
            .ints("kernel_shape", &[2, 2])
            .ints("strides", &[2, 2])
            .outputs(1)
            .agrees_with_reference(0.0);
    }
    for index in [4, -1, i64::MAX] {
        let case = Case::new("MaxUnpool")
            .input(&[1, 1, 2], &[1f32, 2.0])
            .input(&[1, 1, 2], &[0i64, index])
            .ints("kernel_shape", &[2])
            .ints("strides", &[2])
            .outputs(1);
        assert!(case.supported(LEVELS[0]).is_ok());
        let error = case.bind(LEVELS[0]).try_execute().unwrap_err();
        assert!(
            error
                .to_string()
                .contains("out of the bounds of the output")
        );
    }
}

#[test]
fn sizes_at_the_edges_of_their_types_are_refused() {
    let edges = [0, -1, i64::MAX, i64::MIN, 1 << 31, 1 << 62];
    for name in ["kernel_shape", "strides", "dilations", "pads"] {
        for edge in edges {
            for op in ["MaxPool", "AveragePool", "LpPool"] {
                let count = if name == "pads" { 2 } else { 1 };
                let case = Case::new(op)
                    .input(&[1, 1, 8], &[0f32; 8])
                    .attribute("kernel_shape", Attribute::Ints(vec![2]))
                    .attribute(name, Attribute::Ints(vec![edge; count]))
                    .f32_output(&[1, 1, 7]);
                let is_valid = name == "pads" && edge == 0;
                let supported = case.supported(LEVELS[0]).is_ok();
                assert_eq!(supported, is_valid, "{op} {name} {edge}");
            }
        }
    }
    // The first is valid: all else in the cases is supported.
    for p in [3, 0, -1, i64::MIN] {
        let pool = |op| Case::new(op).input(&[1, 1, 8], &[0f32; 8]);
        for case in [
            pool("LpPool").ints("kernel_shape", &[8]),
            pool("GlobalLpPool"),
        ] {
            let case = case.int("p", p).f32_output(&[1, 1, 1]);
            assert_eq!(case.supported(LEVELS[0]).is_ok(), p == 3, "{p}");
        }
    }
}
