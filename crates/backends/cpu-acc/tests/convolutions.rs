//! Convolutions of all forms, compared with plain loops in f64. Tolerances are those of `matmul`, with
//! the elements of a window as the depth.

mod common;

use common::{ACTIVATIONS, Case, LEVELS, Random, activate, check};

#[derive(Debug, Clone, Copy)]
struct Shape {
    images: usize,
    size: [usize; 2],
    channels: usize,
    filters: usize,
    group: usize,
    kernel: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    /// Top, left, bottom, right.
    pads: [usize; 4],
}

impl Shape {
    fn output(&self) -> Option<[usize; 2]> {
        let extent = |axis: usize| {
            let padded = self.size[axis] + self.pads[axis] + self.pads[axis + 2];
            let reach = (self.kernel[axis] - 1) * self.dilations[axis] + 1;
            padded
                .checked_sub(reach)
                .map(|left| left / self.strides[axis] + 1)
        };
        Some([extent(0)?, extent(1)?])
    }

    fn exact(&self, x: &[f32], w: &[f32], image: usize, at: [usize; 2], filter: usize) -> f64 {
        let depth = self.channels / self.group;
        let first = filter / (self.filters / self.group) * depth;
        let mut sum = 0.0;
        for ky in 0..self.kernel[0] {
            for kx in 0..self.kernel[1] {
                let inside = |axis: usize, k: usize| {
                    (at[axis] * self.strides[axis] + k * self.dilations[axis])
                        .checked_sub(self.pads[axis])
                        .filter(|&place| place < self.size[axis])
                };
                let (Some(y), Some(column)) = (inside(0, ky), inside(1, kx)) else {
                    continue;
                };
                let pixel = (image * self.size[0] + y) * self.size[1] + column;
                for c in 0..depth {
                    let weight = ((filter * depth + c) * self.kernel[0] + ky) * self.kernel[1] + kx;
                    sum += f64::from(x[pixel * self.channels + first + c]) * f64::from(w[weight]);
                }
            }
        }
        sum
    }
}

/// Runs a convolution on every level and compares all of it.
fn compare(shape: Shape, random: &mut Random) {
    compare_within(shape, random, 1.0);
}

/// The same, with `factor` times the error.
fn compare_within(shape: Shape, random: &mut Random, factor: f64) {
    let Some([height, width]) = shape.output() else {
        return;
    };
    let depth = shape.channels / shape.group;
    let pixels = shape.images * height * width;
    let x = random.values(shape.images * shape.size[0] * shape.size[1] * shape.channels);
    let w = random.values(shape.filters * depth * shape.kernel[0] * shape.kernel[1]);
    let (bias, addend) = (
        random.values(shape.filters),
        random.values(pixels * shape.filters),
    );
    let (with_bias, with_addend) = (random.below(2) == 1, random.below(3) == 0);
    let (activation, alpha, beta) = random.pick(&ACTIVATIONS);
    let output = [shape.images, height, width, shape.filters];
    let case = Case::new("tenon.Conv")
        .input(
            &[shape.images, shape.size[0], shape.size[1], shape.channels],
            &x,
        )
        .constant(
            &[shape.filters, depth, shape.kernel[0], shape.kernel[1]],
            &w,
        );
    let case = if with_bias {
        case.constant(&[shape.filters], &bias)
    } else {
        case.none()
    };
    let case = if with_addend {
        case.input(&output, &addend)
    } else {
        case.none()
    };
    let case = case
        .f32_output(&output)
        .ints("strides", &shape.strides)
        .ints("dilations", &shape.dilations)
        .ints("pads", &shape.pads)
        .int("group", shape.group as i64)
        .string("activation", activation)
        .float("alpha", alpha)
        .float("beta", beta);
    let mut exact = Vec::new();
    for pixel in 0..pixels {
        let (image, place) = (pixel / (height * width), pixel % (height * width));
        for filter in 0..shape.filters {
            let mut sum = shape.exact(&x, &w, image, [place / width, place % width], filter);
            if with_bias {
                sum += f64::from(bias[filter]);
            }
            if with_addend {
                sum += f64::from(addend[pixel * shape.filters + filter]);
            }
            exact.push(activate(activation, f64::from(alpha), f64::from(beta), sum));
        }
    }
    let products = (depth * shape.kernel[0] * shape.kernel[1]) as f64;
    for level in LEVELS {
        let slack = |i: usize| factor * (products + 8.0) * 2f64.powi(-23) + exact[i].abs() * 1e-6;
        check(
            &case.run(level),
            &exact,
            slack,
            &format!("{shape:?} {activation} {level:?}"),
        );
    }
}

fn shape(random: &mut Random, channels: usize, filters: usize, group: usize) -> Shape {
    Shape {
        images: random.between(1, 2),
        size: [random.between(1, 14), random.between(1, 14)],
        channels,
        filters,
        group,
        kernel: [random.between(1, 4), random.between(1, 4)],
        strides: [random.between(1, 3), random.between(1, 3)],
        dilations: [random.between(1, 2), random.between(1, 2)],
        pads: [
            random.below(3),
            random.below(3),
            random.below(3),
            random.below(3),
        ],
    }
}

#[test]
fn dense_convolutions() {
    let mut random = Random::new(5);
    for _ in 0..60 {
        let (channels, filters) = (random.between(1, 40), random.between(1, 40));
        let shape = shape(&mut random, channels, filters, 1);
        compare(shape, &mut random);
    }
}

#[test]
fn grouped_convolutions() {
    let mut random = Random::new(6);
    for _ in 0..25 {
        let group = random.between(2, 4);
        let (channels, filters) = (group * random.between(1, 8), group * random.between(1, 20));
        let shape = shape(&mut random, channels, filters, group);
        compare(shape, &mut random);
    }
}

#[test]
fn depthwise_convolutions() {
    let mut random = Random::new(7);
    for _ in 0..60 {
        let channels = random.between(2, 70);
        let shape = shape(&mut random, channels, channels, channels);
        compare(shape, &mut random);
    }
}

/// Rows so long that several tasks compute each, in parts of the channels where they are many; large kernels, and pixels
/// that alias in the cache, whose rows are copied.
#[test]
fn depthwise_convolutions_of_every_algorithm() {
    let mut random = Random::new(9);
    for (size, channels, kernel, stride) in [
        ([1, 700], 20, [1, 5], 1),
        ([5, 700], 72, [3, 3], 1),
        ([9, 300], 150, [5, 5], 2),
        ([3, 40], 1400, [3, 3], 1),
        ([7, 7], 200, [5, 5], 1),
        ([9, 20], 33, [7, 6], 1),
        ([6, 17], 256, [3, 3], 2),
        ([2, 2], 40, [5, 5], 1),
    ] {
        let shape = Shape {
            images: 1,
            size,
            channels,
            filters: channels,
            group: channels,
            kernel,
            strides: [stride; 2],
            dilations: [1, 1],
            pads: [kernel[0] / 2, kernel[1] / 2, kernel[0] / 2, kernel[1] / 2],
        };
        compare(shape, &mut random);
    }
}

/// Kernels of 3×3 with channels that fill vectors: Winograd's algorithms, with tiles beyond the image, weights that fit the
/// second level cache and some that do not, and several images.
#[test]
fn convolutions_of_tiles() {
    let mut random = Random::new(10);
    for (images, size, channels, filters, pads) in [
        (1, [14, 14], 32, 32, [1; 4]),
        (1, [13, 17], 64, 48, [1, 0, 0, 1]),
        (3, [9, 6], 64, 64, [1; 4]),
        (2, [30, 21], 16, 32, [2, 0, 1, 3]),
        (1, [7, 7], 128, 144, [1; 4]),
        (4, [5, 4], 128, 128, [1; 4]),
    ] {
        for _ in 0..2 {
            let shape = Shape {
                images,
                size,
                channels,
                filters,
                group: 1,
                kernel: [3, 3],
                strides: [1, 1],
                dilations: [1, 1],
                pads,
            };
            // The error of F(4×4, 3×3) is up to 40 * 2^-24 of the sum of magnitudes.
            compare_within(shape, &mut random, 5.0);
        }
    }
}

#[test]
fn pointwise_and_deep_convolutions() {
    let mut random = Random::new(8);
    let plain = Shape {
        images: 1,
        size: [7, 9],
        channels: 1100,
        filters: 19,
        group: 1,
        kernel: [1, 1],
        strides: [1, 1],
        dilations: [1, 1],
        pads: [0; 4],
    };
    compare(plain, &mut random);
    compare(
        Shape {
            strides: [2, 2],
            ..plain
        },
        &mut random,
    );
    // Several K blocks, by depth and by kernel positions.
    compare(
        Shape {
            kernel: [3, 3],
            pads: [1; 4],
            size: [3, 4],
            ..plain
        },
        &mut random,
    );
    compare(
        Shape {
            channels: 300,
            kernel: [3, 3],
            pads: [1; 4],
            size: [3, 4],
            ..plain
        },
        &mut random,
    );
    // Few channels, many columns.
    compare(
        Shape {
            channels: 3,
            size: [40, 41],
            kernel: [7, 7],
            strides: [2, 2],
            pads: [3; 4],
            filters: 64,
            ..plain
        },
        &mut random,
    );
}
