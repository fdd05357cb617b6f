//! Resize, grid sampling, regions of interest and random values, beside the reference.

mod common;

use common::{Case, InputKind, LEVELS, Random};
use half::{bf16, f16};
use tenon_graph::Attribute;
use tenon_tensor::{DataType, Tensor};

/// Values in -1..1, of f32, f16 or bf16.
fn values(random: &mut Random, dtype: DataType, shape: &[usize]) -> Tensor {
    let all = random.values(shape.iter().product());
    match dtype {
        DataType::F16 => {
            let all: Vec<f16> = all.into_iter().map(f16::from_f32).collect();
            Tensor::from_slice(shape, &all).unwrap()
        }
        DataType::BF16 => {
            let all: Vec<bf16> = all.into_iter().map(bf16::from_f32).collect();
            Tensor::from_slice(shape, &all).unwrap()
        }
        _ => Tensor::from_slice(shape, &all).unwrap(),
    }
}

fn tolerance(dtype: DataType) -> f64 {
    match dtype {
        DataType::F16 => 2e-3,
        DataType::BF16 => 2e-2,
        _ => 1e-5,
    }
}

const COORDINATES: [&str; 6] = [
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
];
const ROUNDING: [&str; 4] = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"];

#[test]
fn resize_in_every_mode() {
    let mut random = Random::new(71);
    for round in 0..240 {
        let mode = ["nearest", "linear", "cubic"][round % 3];
        let dtype = random.pick(&[DataType::F32, DataType::F32, DataType::F16, DataType::BF16]);
        let rank = random.between(1, 5);
        let shape: Vec<usize> = (0..rank)
            .map(|_| random.pick(&[1, 2, 3, 5, 8, 17]))
            .collect();
        // One to all axes change.
        let mut axes: Vec<usize> = (0..rank).filter(|_| random.below(2) == 0).collect();
        if axes.is_empty() {
            axes.push(random.below(rank));
        }
        let coordinates = random.pick(&COORDINATES);
        let case = Case::new("Resize").tensor(
            Some(values(&mut random, dtype, &shape)),
            InputKind::Variable,
        );
        let case = if coordinates == "tf_crop_and_resize" {
            let starts: Vec<f32> = axes.iter().map(|_| random.value() * 0.3).collect();
            let ends: Vec<f32> = axes.iter().map(|_| 0.8 + random.value() * 0.4).collect();
            case.constant(&[2 * axes.len()], &[starts, ends].concat())
        } else {
            case.none()
        };
        let case = if random.below(2) == 0 && coordinates != "tf_crop_and_resize" {
            let scales: Vec<f32> = axes
                .iter()
                .map(|_| random.pick(&[0.4, 0.7, 1.0, 1.3, 2.0, 3.0]))
                .collect();
            let empty = axes
                .iter()
                .zip(&scales)
                .any(|(&axis, scale)| (shape[axis] as f32 * scale) < 1.0);
            if empty {
                continue;
            }
            case.constant(&[axes.len()], &scales)
        } else {
            let sizes: Vec<i64> = axes.iter().map(|_| random.between(1, 20) as i64).collect();
            let policy = random.pick(&["stretch", "not_larger", "not_smaller"]);
            let case = case.none().constant(&[axes.len()], &sizes);
            case.string("keep_aspect_ratio_policy", policy)
        };
        let case = case
            .ints("axes", &axes)
            .string("mode", mode)
            .string("coordinate_transformation_mode", coordinates)
            .string("nearest_mode", random.pick(&ROUNDING))
            .int("antialias", (random.below(3) == 0).into())
            .int("exclude_outside", (random.below(3) == 0).into())
            .float("extrapolation_value", 7.0)
            .outputs(1);
        if case.spec.outputs[0].as_ref().unwrap().elements() > 0 {
            case.agrees_with_reference(tolerance(dtype) * 2.0);
        }
    }
}

#[test]
fn resize_of_images_in_both_layouts() {
    let mut random = Random::new(72);
    for (mode, antialias, sizes) in [
        ("linear", 0, [66, 70]),
        ("linear", 0, [13, 11]),
        ("cubic", 0, [66, 70]),
        ("linear", 1, [13, 11]),
        ("nearest", 0, [66, 70]),
    ] {
        for (shape, axes) in [
            ([2, 3, 33, 35], [2, 3]),
            ([2, 33, 35, 3], [1, 2]),
            ([1, 33, 35, 24], [1, 2]),
        ] {
            let x = values(&mut random, DataType::F32, &shape);
            let case = Case::new("Resize")
                .tensor(Some(x), InputKind::Variable)
                .none()
                .none();
            let case = case
                .constant(&[2], &sizes.map(|n: i64| n))
                .ints("axes", &axes);
            let case = case
                .string("mode", mode)
                .int("antialias", antialias)
                .outputs(1);
            case.agrees_with_reference(2e-5);
        }
    }
}

#[test]
fn nearest_resize_moves_any_type() {
    let x: Vec<u8> = (0..60).collect();
    let wide: Vec<i64> = (0..60).map(|x| x * 1_000_000_007).collect();
    for scales in [
        [1.0f32, 1.0, 2.0, 2.0],
        [1.0, 2.0, 1.5, 3.0],
        [1.0, 0.5, 1.0, 0.7],
    ] {
        for case in [
            Case::new("Resize").input(&[1, 3, 4, 5], &x),
            Case::new("Resize").input(&[1, 3, 4, 5], &wide),
        ] {
            let case = case
                .none()
                .constant(&[4], &scales)
                .string("nearest_mode", "floor");
            case.outputs(1).agrees_with_reference(0.0);
        }
    }
}

#[test]
fn resize_keeps_nan_and_infinity_in_place() {
    let mut x = vec![1.0f32; 6 * 6];
    (x[7], x[22]) = (f32::NAN, f32::INFINITY);
    for mode in ["linear", "cubic"] {
        let case = Case::new("Resize").input(&[1, 1, 6, 6], &x).none();
        let case = case
            .constant(&[4], &[1.0f32, 1.0, 2.0, 0.5])
            .string("mode", mode);
        let case = case.string("coordinate_transformation_mode", "align_corners");
        case.outputs(1).agrees_with_reference(1e-5);
    }
}

#[test]
fn integers_are_interpolated_by_the_reference_alone() {
    let case = Case::new("Resize").input(&[1, 1, 2, 2], &[1u8; 4]).none();
    let case = case
        .constant(&[4], &[1.0f32, 1.0, 2.0, 2.0])
        .string("mode", "linear");
    assert!(case.outputs(1).supported(LEVELS[0]).is_err());
    let case = Case::new("Resize").input(&[1, 1, 2, 2], &[1f32; 4]).none();
    let case = case
        .constant(&[4], &[1.0f32, 1.0, 2.0, 2.0])
        .f32_output(&[1, 1, 4, 5]);
    assert!(case.supported(LEVELS[0]).is_err());
    let case = Case::new("Resize").input(&[1, 1, 2, 2], &[1f32; 4]).none();
    let case = case.constant(&[4], &[1.0f32, 1.0, 2.0, 2.0]).outputs(1);
    let case = case.attribute("mode", Attribute::String("area".into()));
    assert!(case.supported(LEVELS[0]).is_err());
}

#[test]
fn grid_sample_in_every_mode() {
    let mut random = Random::new(73);
    for round in 0..108 {
        let mode = ["nearest", "linear", "cubic"][round % 3];
        let padding = ["zeros", "border", "reflection"][round / 3 % 3];
        let rank = round / 9 % 3 + 1;
        let dtype = random.pick(&[DataType::F32, DataType::F32, DataType::F16, DataType::BF16]);
        let (batch, channels) = (random.between(1, 3), random.between(1, 4));
        let image: Vec<usize> = (0..rank).map(|_| random.between(1, 7)).collect();
        let points: Vec<usize> = (0..rank).map(|_| random.between(1, 9)).collect();
        let shape = [&[batch, channels], &*image].concat();
        let grid = [&[batch], &*points, &[rank]].concat();
        let mut at = random.values(grid.iter().product());
        at.iter_mut().for_each(|at| *at *= 1.6);
        if mode != "nearest" {
            at[0] = f32::NAN;
            *at.last_mut().unwrap() = f32::INFINITY;
        }
        let x = values(&mut random, dtype, &shape);
        let case = Case::new("GridSample").tensor(Some(x), InputKind::Variable);
        let case = case.input(&grid, &at).string("mode", mode);
        let case = case.string("padding_mode", padding);
        let case = case.int("align_corners", (round % 2) as i64).outputs(1);
        case.agrees_with_reference(tolerance(dtype) * 2.0);
    }
    // Many planes, on more than one thread.
    let grid: Vec<f32> = random.values(2 * 20 * 20 * 2);
    let x = values(&mut random, DataType::F32, &[2, 45, 9, 9]);
    let case = Case::new("GridSample").tensor(Some(x), InputKind::Variable);
    case.input(&[2, 20, 20, 2], &grid)
        .outputs(1)
        .agrees_with_reference(1e-5);
}

#[test]
fn grids_of_affine_maps() {
    let mut random = Random::new(74);
    for (size, corners) in [
        (vec![2, 1, 5, 70], 0),
        (vec![2, 1, 5, 7], 1),
        (vec![1, 3, 1, 4], 1),
        (vec![2, 1, 3, 4, 5], 0),
        (vec![1, 1, 40, 30, 65], 1),
    ] {
        let rank = size.len() - 2;
        for dtype in [DataType::F32, DataType::F16, DataType::BF16] {
            let theta = values(&mut random, dtype, &[size[0], rank, rank + 1]);
            let sizes: Vec<i64> = size.iter().map(|&n| n as i64).collect();
            let case = Case::new("AffineGrid").tensor(Some(theta), InputKind::Variable);
            let case = case
                .constant(&[sizes.len()], &sizes)
                .int("align_corners", corners);
            case.outputs(1).agrees_with_reference(tolerance(dtype));
        }
    }
}

#[test]
fn regions_are_sampled_and_pooled() {
    let mut random = Random::new(75);
    for round in 0..60 {
        let (images, channels) = (random.between(1, 3), random.between(1, 5));
        let (height, width) = (random.between(1, 20), random.between(1, 20));
        let count = random.between(1, 40);
        let x = random.values(images * channels * height * width);
        let region = |random: &mut Random| {
            let [left, top] = [random.value() * 20.0, random.value() * 20.0];
            [
                left,
                top,
                left + random.value() * 30.0 + 20.0,
                top + random.value() * 30.0,
            ]
        };
        let regions: Vec<f32> = (0..count).flat_map(|_| region(&mut random)).collect();
        let of: Vec<i64> = (0..count).map(|_| random.below(images) as i64).collect();
        let mode = ["avg", "max"][round % 2];
        let coordinates = ["half_pixel", "output_half_pixel"][round / 2 % 2];
        let case = Case::new("RoiAlign").input(&[images, channels, height, width], &x);
        let case = case.input(&[count, 4], &regions).input(&[count], &of);
        let case = case
            .string("mode", mode)
            .int("sampling_ratio", random.below(4) as i64);
        let case = case.string("coordinate_transformation_mode", coordinates);
        let case = case.int("output_height", random.between(1, 7) as i64);
        let case = case.int("output_width", random.between(1, 7) as i64);
        let case = case.float("spatial_scale", 0.5).outputs(1);
        case.agrees_with_reference(1e-5);

        let pooled: Vec<f32> = regions
            .as_chunks::<4>()
            .0
            .iter()
            .zip(&of)
            .flat_map(|(region, &of)| [&[of as f32], &region[..]].concat())
            .collect();
        let case = Case::new("MaxRoiPool").input(&[images, channels, height, width], &x);
        let case = case
            .input(&[count, 5], &pooled)
            .ints("pooled_shape", &[3, 4]);
        case.float("spatial_scale", 0.5)
            .outputs(1)
            .agrees_with_reference(0.0);
    }
}

#[test]
fn hostile_regions_are_errors() {
    let align = |region: [f32; 4], of: i64| {
        let case = Case::new("RoiAlign").input(&[1, 1, 4, 4], &[0f32; 16]);
        case.input(&[1, 4], &region).input(&[1], &[of]).outputs(1)
    };
    let pool = |of: f32| {
        let case = Case::new("MaxRoiPool").input(&[1, 1, 4, 4], &[0f32; 16]);
        let case = case.input(&[1, 5], &[of, 0.0, 0.0, 3.0, 3.0]);
        case.ints("pooled_shape", &[2, 2]).outputs(1)
    };
    for case in [
        align([0.0, 0.0, 1e30, 1.0], 0),
        align([f32::NAN, 0.0, 1.0, 1.0], 0),
        align([0.0, 0.0, f32::INFINITY, 1.0], 0),
        align([0.0; 4], 1),
        align([0.0; 4], i64::MIN),
        pool(1.0),
        pool(-2.0),
        pool(1e30),
    ] {
        for level in LEVELS {
            let error = case.bind(level).try_execute().unwrap_err();
            assert_eq!(error.kind(), tenon_base::ErrorKind::OutOfBounds);
        }
    }
}

#[test]
fn blocks_are_summed_to_images() {
    let mut random = Random::new(76);
    for _ in 0..80 {
        let rank = random.between(1, 3);
        let list = |random: &mut Random, low: usize, high: usize| -> Vec<usize> {
            (0..rank).map(|_| random.between(low, high)).collect()
        };
        let (image, block) = (list(&mut random, 5, 11), list(&mut random, 1, 3));
        let (strides, dilations) = (list(&mut random, 1, 3), list(&mut random, 1, 2));
        let pads: Vec<usize> = (0..2 * rank).map(|_| random.below(3)).collect();
        let blocks: usize = (0..rank)
            .map(|axis| {
                let padded = image[axis] + pads[axis] + pads[rank + axis];
                (padded - (block[axis] - 1) * dilations[axis] - 1) / strides[axis] + 1
            })
            .product();
        let channels = random.between(1, 3);
        let shape = [2, channels * block.iter().product::<usize>(), blocks];
        let x = random.values(shape.iter().product());
        let ints = |list: &[usize]| list.iter().map(|&n| n as i64).collect::<Vec<_>>();
        let case = Case::new("Col2Im").input(&shape, &x);
        let case = case
            .constant(&[rank], &ints(&image))
            .constant(&[rank], &ints(&block));
        let case = case.ints("strides", &strides).ints("dilations", &dilations);
        case.ints("pads", &pads)
            .outputs(1)
            .agrees_with_reference(1e-5);
    }
}

#[test]
fn random_values_are_those_of_the_reference() {
    let mut random = Random::new(77);
    for dtype in ["f32", "f64", "f16", "bf16"] {
        for name in ["RandomNormal", "RandomUniform"] {
            let case = Case::new(name)
                .ints("shape", &[3, 5003])
                .string("dtype", dtype);
            let case = case.float("seed", 2.5);
            let bounds = if name == "RandomNormal" {
                ["mean", "scale"]
            } else {
                ["low", "high"]
            };
            let case = case.float(bounds[0], -1.5).float(bounds[1], 3.0);
            case.outputs(1).agrees_with_reference(0.0);
        }
    }
    let x = random.values(9001);
    let probabilities: Vec<f32> = x.iter().map(|x| x.abs()).collect();
    for name in ["RandomNormalLike", "RandomUniformLike"] {
        Case::new(name)
            .input(&[9001], &x)
            .outputs(1)
            .agrees_with_reference(0.0);
    }
    for dtype in ["f32", "bool", "i64", "u8", "f16"] {
        let case = Case::new("Bernoulli").input(&[9001], &probabilities);
        case.string("dtype", dtype)
            .outputs(1)
            .agrees_with_reference(0.0);
    }
    for dtype in ["i32", "i64"] {
        let case = Case::new("Multinomial").input(&[3, 3000], &x[..9000]);
        let case = case
            .int("sample_size", 50)
            .string("dtype", dtype)
            .float("seed", 1.0);
        case.outputs(1).agrees_with_reference(0.0);
    }
}

#[test]
fn a_class_is_drawn_with_its_probability() {
    // Half, a quarter, a quarter.
    let logits = [0.0f32, -std::f32::consts::LN_2, -std::f32::consts::LN_2];
    let case = Case::new("Multinomial")
        .input(&[1, 3], &logits)
        .int("sample_size", 20_000);
    let drawn = case.outputs(1).run_as::<i32>(LEVELS[0]);
    let count = |class: i32| drawn.iter().filter(|&&at| at == class).count() as f64 / 20_000.0;
    assert!(
        (count(0) - 0.5).abs() < 0.02 && (count(1) - 0.25).abs() < 0.02,
        "{}",
        count(0)
    );
}
