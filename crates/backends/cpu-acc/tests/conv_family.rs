//! Convolutions of one to three dimensions, compared with plain loops in f64. Tolerances are those of
//! `matmul`, with the elements of a window as the depth.

mod common;
#[path = "common/operands.rs"]
mod operands;

use common::{ACTIVATIONS, Case, InputKind, LEVELS, Random, activate, check, converted};
use operands::{has_inferred_outputs, plan_at_all_levels, without_elements};
use tenon_backend::{Backend, CpuLevel};
use tenon_cpu_acc::CpuAcc;
use tenon_tensor::{DataType, Tensor};

/// A convolution; each list has an entry for each spatial dimension.
#[derive(Debug, Clone)]
struct Shape {
    images: usize,
    size: Vec<usize>,
    channels: usize,
    filters: usize,
    group: usize,
    kernel: Vec<usize>,
    strides: Vec<usize>,
    dilations: Vec<usize>,
    before: Vec<usize>,
    after: Vec<usize>,
    /// The output padding of a transposed convolution.
    transposed: Option<Vec<usize>>,
    /// Whether the weights are known when compiling.
    weights: InputKind,
}

/// The coordinates of element `index` of a tensor of the extents `shape`.
fn coordinates(mut index: usize, shape: &[usize]) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for (at, &extent) in at.iter_mut().zip(shape).rev() {
        *at = index % extent;
        index /= extent;
    }
    at
}

impl Shape {
    /// A shape of `rank` spatial dimensions with random windows.
    fn random(random: &mut Random, rank: usize, [channels, filters, group]: [usize; 3]) -> Self {
        let largest = [24, 12, 6][rank - 1];
        let mut list = |low: usize, high: usize| -> Vec<usize> {
            (0..rank).map(|_| random.between(low, high)).collect()
        };
        Self {
            size: list(1, largest),
            channels,
            filters,
            group,
            kernel: list(1, 4),
            strides: list(1, 3),
            dilations: list(1, 2),
            before: list(0, 2),
            after: list(0, 2),
            images: random.between(1, 2),
            transposed: None,
            weights: InputKind::Constant,
        }
    }

    /// A transposed convolution of random windows.
    fn transposed(random: &mut Random, rank: usize, sizes: [usize; 3]) -> Self {
        let shape = Self::random(random, rank, sizes);
        let strides = (0..rank).map(|_| random.between(1, 4)).collect();
        Self {
            dilations: (0..rank).map(|_| random.between(1, 3)).collect(),
            size: shape.size.iter().map(|size| size.div_ceil(2)).collect(),
            transposed: Some((0..rank).map(|_| random.below(2)).collect()),
            strides,
            ..shape
        }
    }

    fn output(&self) -> Option<Vec<usize>> {
        let extent = |axis: usize| {
            if let Some(extra) = &self.transposed {
                let windows = (self.size[axis] - 1) * self.strides[axis];
                let window = (self.kernel[axis] - 1) * self.dilations[axis] + 1;
                let pads = self.before[axis] + self.after[axis];
                let output = (windows + window + extra[axis]).checked_sub(pads)?;
                // A smaller output does not contain every phase.
                return (output >= self.strides[axis]).then_some(output);
            }
            let padded = self.size[axis] + self.before[axis] + self.after[axis];
            let reach = (self.kernel[axis] - 1) * self.dilations[axis] + 1;
            let left = padded.checked_sub(reach)?;
            Some(left / self.strides[axis] + 1)
        };
        (0..self.size.len()).map(extent).collect()
    }

    /// The input coordinate that kernel position `k` reads for the output coordinate `at`.
    fn source(&self, axis: usize, at: usize, k: usize) -> Option<usize> {
        if self.transposed.is_some() {
            let source = (at + self.before[axis]).checked_sub(k * self.dilations[axis])?;
            let at = source / self.strides[axis];
            let is_inside = source.is_multiple_of(self.strides[axis]) && at < self.size[axis];
            return is_inside.then_some(at);
        }
        let source =
            (at * self.strides[axis] + k * self.dilations[axis]).checked_sub(self.before[axis])?;
        (source < self.size[axis]).then_some(source)
    }

    fn exact(&self, x: &[f32], w: &[f32]) -> Vec<f64> {
        let output = self.output().unwrap();
        let (depth, filters) = (self.channels / self.group, self.filters / self.group);
        let positions: usize = self.kernel.iter().product();
        let pixels: usize = output.iter().product();
        let mut sums = vec![0.0; self.images * pixels * self.filters];
        for pixel in 0..self.images * pixels {
            let (image, at) = (pixel / pixels, coordinates(pixel % pixels, &output));
            for position in 0..positions {
                let k = coordinates(position, &self.kernel);
                let source: Option<Vec<usize>> = (0..k.len())
                    .map(|axis| self.source(axis, at[axis], k[axis]))
                    .collect();
                let Some(source) = source else { continue };
                let from = source
                    .iter()
                    .zip(&self.size)
                    .fold(image, |from, (at, extent)| from * extent + at);
                for filter in 0..self.filters {
                    let group = filter / filters;
                    for c in 0..depth {
                        let weight = if self.transposed.is_some() {
                            (group * depth + c) * filters + filter % filters
                        } else {
                            filter * depth + c
                        };
                        let weight = weight * positions + position;
                        sums[pixel * self.filters + filter] +=
                            f64::from(x[from * self.channels + group * depth + c])
                                * f64::from(w[weight]);
                    }
                }
            }
        }
        sums
    }
}

/// Runs a convolution on every level and compares all of it.
fn compare(shape: &Shape, random: &mut Random) {
    let Some(extents) = shape.output() else {
        return;
    };
    let depth = shape.channels / shape.group;
    let around =
        |first: usize, spatial: &[usize], last: usize| [&[first], spatial, &[last]].concat();
    let image = around(shape.images, &shape.size, shape.channels);
    let output = around(shape.images, &extents, shape.filters);
    let leading = match shape.transposed {
        None => [shape.filters, depth],
        Some(_) => [shape.channels, shape.filters / shape.group],
    };
    let weights = [&leading, &*shape.kernel].concat();
    let mut values = |shape: &[usize]| random.values(shape.iter().product());
    let (x, w) = (values(&image), values(&weights));
    let (bias, addend) = (values(&[shape.filters]), values(&output));
    let (with_bias, with_addend) = (random.below(2) == 1, random.below(3) == 0);
    let (activation, alpha, beta) = random.pick(&ACTIVATIONS);
    let tensor = |is_used: bool, shape: &[usize], elements: &[f32]| {
        is_used.then(|| Tensor::from_slice(shape, elements).unwrap())
    };
    let case = match &shape.transposed {
        None => Case::new("tenon.Conv"),
        Some(extra) => Case::new("tenon.ConvTranspose").ints("output_padding", extra),
    };
    let case = case
        .input(&image, &x)
        .tensor(tensor(true, &weights, &w), shape.weights)
        .tensor(
            tensor(with_bias, &[shape.filters], &bias),
            InputKind::Constant,
        )
        .tensor(tensor(with_addend, &output, &addend), InputKind::Variable)
        .f32_output(&output)
        .ints("strides", &shape.strides)
        .ints("dilations", &shape.dilations)
        .ints("pads", &[&*shape.before, &*shape.after].concat())
        .int("group", shape.group as i64)
        .string("activation", activation)
        .float("alpha", alpha)
        .float("beta", beta);
    let mut exact = shape.exact(&x, &w);
    for (index, sum) in exact.iter_mut().enumerate() {
        if with_bias {
            *sum += f64::from(bias[index % shape.filters]);
        }
        if with_addend {
            *sum += f64::from(addend[index]);
        }
        *sum = activate(activation, f64::from(alpha), f64::from(beta), *sum);
    }
    let products = (depth * shape.kernel.iter().product::<usize>()) as f64;
    for level in LEVELS {
        let slack = |i: usize| (products + 8.0) * 2f64.powi(-23) + exact[i].abs() * 1e-6;
        let what = format!("{shape:?} {activation} {level:?}");
        check(&case.run(level), &exact, slack, &what);
    }
}

#[test]
fn convolutions_of_one_to_three_dimensions() {
    let mut random = Random::new(15);
    for rank in [1, 3, 2, 3, 1] {
        for _ in 0..14 {
            let channels = random.between(1, 40);
            let filters = random.between(1, 40);
            let shape = Shape::random(&mut random, rank, [channels, filters, 1]);
            compare(&shape, &mut random);
        }
    }
}

#[test]
fn grouped_convolutions_of_one_to_three_dimensions() {
    let mut random = Random::new(16);
    for round in 0..45 {
        let group = random.between(2, 9);
        let (depth, filters) = (random.between(1, 6), random.between(1, 20));
        let sizes = [group * depth, group * filters, group];
        let shape = Shape::random(&mut random, round % 3 + 1, sizes);
        compare(&shape, &mut random);
    }
}

#[test]
fn depthwise_convolutions_of_one_to_three_dimensions() {
    let mut random = Random::new(17);
    for round in 0..45 {
        let channels = random.between(2, 70);
        let shape = Shape::random(&mut random, round % 3 + 1, [channels, channels, channels]);
        compare(&shape, &mut random);
    }
}

#[test]
fn transposed_convolutions_of_one_to_three_dimensions() {
    let mut random = Random::new(18);
    for round in 0..70 {
        let (channels, filters) = (random.between(1, 30), random.between(1, 40));
        let sizes = [channels, filters, 1];
        compare(
            &Shape::transposed(&mut random, round % 3 + 1, sizes),
            &mut random,
        );
    }
}

#[test]
fn grouped_transposed_convolutions() {
    let mut random = Random::new(19);
    for round in 0..50 {
        let group = random.between(2, 9);
        let (depth, filters) = (random.between(1, 4), random.pick(&[1, 1, 2, 3, 5, 17]));
        let sizes = [group * depth, group * filters, group];
        compare(
            &Shape::transposed(&mut random, round % 3 + 1, sizes),
            &mut random,
        );
    }
}

#[test]
fn convolutions_with_weights_known_when_executing() {
    let mut random = Random::new(20);
    for round in 0..60 {
        let group = random.pick(&[1, 1, 2, 5]);
        let (depth, filters) = (random.between(1, 9), random.between(1, 20));
        let sizes = [group * depth, group * filters, group];
        let shape = match round % 4 {
            0 => Shape::transposed(&mut random, round % 3 + 1, sizes),
            _ => Shape::random(&mut random, round % 3 + 1, sizes),
        };
        let weights = InputKind::Variable;
        compare(&Shape { weights, ..shape }, &mut random);
    }
}

/// Strides and pads where some phases have no kernel position or an output row reads no input.
#[test]
fn transposed_convolutions_with_gaps() {
    let mut random = Random::new(21);
    for (kernel, stride, dilation, before, extra, channels) in [
        (1, 3, 1, 0, 2, 5),
        // More channels than a K block has rows.
        (1, 3, 1, 0, 2, 800),
        (2, 4, 1, 1, 3, 5),
        (2, 4, 2, 0, 0, 5),
        (3, 2, 6, 3, 1, 5),
        (2, 2, 1, 7, 0, 5),
    ] {
        let shape = Shape {
            images: 2,
            size: vec![9, 7],
            channels,
            filters: 18,
            group: 1,
            kernel: vec![kernel, 3],
            strides: vec![stride, 2],
            dilations: vec![dilation, 1],
            before: vec![before, 1],
            after: vec![0, 1],
            transposed: Some(vec![extra, 1]),
            weights: InputKind::Constant,
        };
        compare(&shape, &mut random);
    }
}

/// Kernel positions at which rows, tiles of rows and whole images are padding. Rows of 1024 channels alias in the cache.
#[test]
fn convolutions_of_mostly_padding() {
    let mut random = Random::new(23);
    for (dilation, channels, filters) in [
        (4, 20, 18),
        (12, 20, 18),
        (12, 1024, 70),
        (24, 3, 18),
        (24, 800, 70),
    ] {
        let shape = Shape {
            images: 2,
            size: vec![14, 15],
            channels,
            filters,
            group: 1,
            kernel: vec![3, 3],
            strides: vec![1, 1],
            dilations: vec![dilation, dilation],
            before: vec![dilation, dilation],
            after: vec![dilation, dilation],
            transposed: None,
            weights: InputKind::Constant,
        };
        compare(&shape, &mut random);
    }
}

/// Bands of rows in each axis, with few channels, groups, phases and weights of every kind.
#[test]
fn convolutions_of_half_precision() {
    let mut random = Random::new(22);
    for round in 0..192 {
        let (dtype, narrow, tolerance) = [
            (DataType::F16, DataType::F16, 4e-3),
            (DataType::BF16, DataType::BF16, 1.6e-2),
            (DataType::F32, DataType::F16, 4e-3),
            (DataType::F32, DataType::BF16, 1.6e-2),
        ][round / 48];
        let rank = round % 3 + 1;
        let group = random.pick(&[1, 1, 2, 6]);
        // Also more channels than a K block has rows.
        let depth = [random.between(1, 9), 790][usize::from(round % 16 == 5)];
        let sizes = [group * depth, group * random.between(1, 20), group];
        let mut shape = match round % 4 {
            0 => Shape::transposed(&mut random, rank, sizes),
            _ => Shape::random(&mut random, rank, sizes),
        };
        if round % 8 < 2 {
            // Several bands.
            let mut longest = [9000, 150, 30][rank - 1];
            if shape.transposed.is_some() {
                longest /= 2;
            }
            shape.size[0] = longest;
            shape.images = 2;
        }
        let Some(extents) = shape.output() else {
            continue;
        };
        let depth = shape.channels / shape.group;
        let image = [&[shape.images], &*shape.size, &[shape.channels]].concat();
        let output = [&[shape.images], &*extents, &[shape.filters]].concat();
        let (op, leading) = match shape.transposed {
            None => ("tenon.Conv", [shape.filters, depth]),
            Some(_) => (
                "tenon.ConvTranspose",
                [shape.channels, shape.filters / shape.group],
            ),
        };
        let weights = [&leading, &*shape.kernel].concat();
        let is_mixed = dtype != narrow;
        if is_mixed && shape.transposed.is_some() {
            continue;
        }
        let mut values = |dtype, shape: &[usize], scale: f32| {
            let mut values = random.values(shape.iter().product());
            values.iter_mut().for_each(|value| *value *= scale);
            converted(dtype, shape, &values)
        };
        let scale = 1.0 / (depth * shape.kernel.iter().product::<usize>()) as f32;
        let kind = [InputKind::Constant, InputKind::Variable][round / 2 % 2];
        let kind = if is_mixed { InputKind::Constant } else { kind };
        let addend = (round % 5 == 0).then(|| values(dtype, &output, 1.0));
        let bias = (round % 3 > 0).then(|| values(dtype, &[shape.filters], 1.0));
        let case = Case::new(op)
            .tensor(Some(values(dtype, &image, 1.0)), InputKind::Variable)
            .tensor(Some(values(narrow, &weights, scale)), kind)
            .tensor(bias, InputKind::Constant)
            .tensor(addend, InputKind::Variable)
            .ints("strides", &shape.strides)
            .ints("dilations", &shape.dilations)
            .ints("pads", &[&*shape.before, &*shape.after].concat())
            .int("group", shape.group as i64)
            .string("activation", "relu");
        let case = match &shape.transposed {
            None => case,
            Some(extra) => case.ints("output_padding", extra),
        };
        case.outputs(1).agrees_with_reference(tolerance);
    }
}

/// Winograd's algorithms with weights of 16 bits.
#[test]
fn convolutions_of_tiles_by_narrow_weights() {
    let mut random = Random::new(23);
    for (size, channels, filters) in [([20, 23], 32, 48), ([14, 14], 128, 128), ([8, 9], 144, 160)]
    {
        for (narrow, tolerance) in [(DataType::F16, 4e-3), (DataType::BF16, 1.6e-2)] {
            let image = [1, size[0], size[1], channels];
            let weights = [filters, channels, 3, 3];
            let mut values = random.values(weights.iter().product());
            let scale = 1.0 / (9 * channels) as f32;
            values.iter_mut().for_each(|value| *value *= scale);
            Case::new("tenon.Conv")
                .input(&image, &random.values(image.iter().product()))
                .tensor(
                    Some(converted(narrow, &weights, &values)),
                    InputKind::Constant,
                )
                .f32_output(&[1, size[0], size[1], filters])
                .ints("pads", &[1; 4])
                .agrees_with_reference(tolerance);
        }
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let case = |image: &[usize], weights: &[usize], output: &[usize]| {
        let (x, w) = (image.iter().product(), weights.iter().product());
        Case::new("tenon.Conv")
            .input(image, &vec![0.0f32; x])
            .constant(weights, &vec![0.0f32; w])
            .f32_output(output)
    };
    let plan = |case: Case| CpuAcc::at_most(CpuLevel::Avx2).plan(&case.spec, CpuLevel::Avx2);
    assert!(plan(case(&[1, 9, 4], &[5, 4, 3], &[1, 7, 5])).is_ok());
    for case in [
        case(&[1, 9, 4], &[5, 3, 3], &[1, 7, 5]),
        case(&[1, 9, 4], &[5, 4, 3], &[1, 8, 5]),
        case(&[1, 9, 4], &[5, 4, 3, 1], &[1, 7, 5]),
        case(&[1, 9, 4], &[5, 4, 3], &[1, 7, 5]).int("group", 3),
        case(&[1, 9, 4], &[5, 4, 3], &[1, 7, 5]).int("group", 0),
        case(&[1, 9, 4], &[5, 4, 3], &[1, 7, 5]).int("group", i64::MIN),
        case(&[1, 9, 4], &[5, 4, 3], &[1, 7, 5]).ints("pads", &[usize::MAX / 2, 0]),
        case(&[1, 9, 4], &[5, 4, 1], &[1, 9, 5]).ints("dilations", &[usize::MAX / 2]),
        case(&[1, 9, 4], &[5, 4, 3], &[1, 7, 5]).ints("strides", &[0]),
        case(
            &[1, 1, 1, 1, 9, 4],
            &[5, 4, 1, 1, 1, 3],
            &[1, 1, 1, 1, 7, 5],
        ),
    ] {
        let spec = format!("{:?}", case.spec.attributes);
        assert!(plan(case).is_err(), "{spec}");
    }
}

#[test]
fn extents_beyond_any_memory() {
    for dtype in [DataType::F32, DataType::F16] {
        for (image, weights, group) in [
            ([1, 1 << 20, 1 << 20, 16], [1, 16, 3, 3], 1),
            ([1, 1 << 22, 1 << 22, 1], [1, 1, 1 << 21, 1 << 21], 1),
            ([1 << 42, 3, 3, 1], [1, 1, 3, 3], 1),
            ([1, 3, 3, 1 << 40], [1 << 40, 1, 3, 3], 1 << 40),
            ([1, 3, 3, 1 << 20], [1 << 20, 1 << 20, 3, 3], 1),
        ] {
            for name in ["tenon.Conv", "tenon.ConvTranspose"] {
                let case = Case::new(name).int("group", group);
                let case = without_elements(case, dtype, &image);
                let case = without_elements(case, dtype, &weights);
                if has_inferred_outputs(&case, 1) {
                    plan_at_all_levels(&case.outputs(1));
                }
            }
        }
    }
}

/// Deformable convolutions: groups, offset groups, masks, positions outside of the image, NaN and infinite
/// offsets.
#[test]
fn deformable_convolutions() {
    let mut random = Random::new(51);
    for (dtype, tolerance) in [
        (DataType::F32, 1e-5),
        (DataType::F16, 2e-3),
        (DataType::BF16, 1.6e-2),
        (DataType::F64, 1e-12),
    ] {
        // Images, filters, channels of a filter, kernel, groups, offset groups, stride, dilation, pad.
        for [
            h,
            w,
            filters,
            depth,
            kernel,
            group,
            offsets,
            stride,
            dilation,
            pad,
        ] in [
            [5, 7, 3, 4, 3, 1, 1, 1, 1, 1],
            [9, 4, 4, 3, 2, 2, 3, 2, 1, 0],
            [12, 13, 6, 2, 3, 2, 4, 1, 2, 2],
            [1, 1, 1, 1, 1, 1, 1, 1, 1, 0],
        ] {
            let channels = depth * group;
            let extent = |size: usize| (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
            let (rows, columns) = (extent(h), extent(w));
            let positions = kernel * kernel * offsets;
            for with_mask in [false, true] {
                let case = Case::new("DeformConv");
                let case = operands::floats(case, &mut random, dtype, &[2, channels, h, w]);
                let weights = [filters, depth, kernel, kernel];
                let case = operands::floats(case, &mut random, dtype, &weights);
                let shape = [2, 2 * positions, rows, columns];
                let mut moved = random.values(shape.iter().product());
                moved.iter_mut().for_each(|offset| *offset *= 4.0);
                moved[0] = f32::NAN;
                moved[shape[1] * rows * columns - 1] = f32::INFINITY;
                let kind = InputKind::Variable;
                let case = operands::rounded(case, dtype, kind, &shape, &moved);
                let case = if with_mask {
                    let case = operands::floats(case, &mut random, dtype, &[filters]);
                    let shape = [2, positions, rows, columns];
                    operands::floats(case, &mut random, dtype, &shape)
                } else {
                    case
                };
                case.int("group", group as i64)
                    .int("offset_group", offsets as i64)
                    .ints("strides", &[stride; 2])
                    .ints("dilations", &[dilation; 2])
                    .ints("pads", &[pad; 4])
                    .outputs(1)
                    .agrees_with_reference(tolerance);
            }
        }
    }
}
