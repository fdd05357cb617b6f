//! Pooling and resizing of images, compared with plain loops in f64.

mod common;

use common::{Case, LEVELS, Random, check};

#[test]
fn pools_of_any_shape() {
    let mut random = Random::new(17);
    for round in 0..60 {
        let [images, height, width] = [
            random.between(1, 2),
            random.between(1, 12),
            random.between(1, 12),
        ];
        let channels = random.pick(&[1, 3, 16, 30, 64, 70]);
        let kernel = [random.between(1, 4), random.between(1, 4)];
        let strides = [random.between(1, 3), random.between(1, 3)];
        let dilations = [random.between(1, 2), random.between(1, 2)];
        // Less than the kernel, so that every window has pixels of the image.
        let pads: Vec<usize> = (0..4).map(|i| random.below(kernel[i % 2])).collect();
        let ceil = random.below(2) == 1;
        let extent = |size: usize, axis: usize| {
            let reach = (kernel[axis] - 1) * dilations[axis] + 1;
            let left = (size + pads[axis] + pads[axis + 2]).checked_sub(reach)?;
            let mut extent = left / strides[axis] + 1;
            // A last window that starts beyond the image and the padding before it is dropped.
            if ceil && left % strides[axis] > 0 && extent * strides[axis] < size + pads[axis] {
                extent += 1;
            }
            Some(extent)
        };
        let (Some(out_height), Some(out_width)) = (extent(height, 0), extent(width, 1)) else {
            continue;
        };
        let x = random.values(images * height * width * channels);
        let (max, padding_counts) = (round % 3 == 0, round % 3 == 1);
        let name = if max {
            "tenon.MaxPool"
        } else {
            "tenon.AveragePool"
        };
        let case = Case::new(name)
            .input(&[images, height, width, channels], &x)
            .f32_output(&[images, out_height, out_width, channels])
            .ints("kernel_shape", &kernel)
            .ints("strides", &strides)
            .ints("dilations", &dilations)
            .ints("pads", &pads)
            .int("ceil_mode", ceil.into());
        let case = if max {
            case
        } else {
            case.int("count_include_pad", padding_counts.into())
        };
        let mut exact = Vec::new();
        for index in 0..images * out_height * out_width * channels {
            let (c, pixel) = (index % channels, index / channels);
            let (ox, oy) = (pixel % out_width, pixel / out_width % out_height);
            let image = pixel / out_width / out_height;
            let (mut sum, mut most, mut inside, mut counted) = (0.0, f64::NEG_INFINITY, 0, 0);
            for (ky, kx) in (0..kernel[0]).flat_map(|ky| (0..kernel[1]).map(move |kx| (ky, kx))) {
                let y = oy * strides[0] + ky * dilations[0];
                let x_padded = ox * strides[1] + kx * dilations[1];
                let padded = [height + pads[0] + pads[2], width + pads[1] + pads[3]];
                if y < padded[0] && x_padded < padded[1] {
                    counted += 1;
                }
                let (Some(y), Some(column)) =
                    (y.checked_sub(pads[0]), x_padded.checked_sub(pads[1]))
                else {
                    continue;
                };
                if y < height && column < width {
                    let value = x[((image * height + y) * width + column) * channels + c];
                    sum += f64::from(value);
                    most = most.max(value.into());
                    inside += 1;
                }
            }
            exact.push(match (max, padding_counts) {
                (true, _) => most,
                (false, true) => sum / f64::from(counted.max(1)),
                (false, false) => sum / f64::from(inside.max(1)),
            });
        }
        for level in LEVELS {
            check(
                &case.run(level),
                &exact,
                |_| 1e-6,
                &format!("{name} {kernel:?} {level:?}"),
            );
        }
    }
}

#[test]
fn resize_in_both_layouts() {
    let mut random = Random::new(18);
    let modes = [
        "half_pixel",
        "pytorch_half_pixel",
        "asymmetric",
        "align_corners",
    ];
    for (mode, coordinates, last) in ["nearest", "linear"]
        .iter()
        .flat_map(|mode| modes.iter().map(move |c| (*mode, *c)))
        .flat_map(|(mode, c)| [true, false].map(|last| (mode, c, last)))
    {
        let (channels, height, width) = (random.pick(&[1, 5, 24]), 6, 5);
        let factors = [2.0f32, 3.0];
        let (out_height, out_width) = (12, 15);
        let shape = |h: usize, w: usize| {
            if last {
                vec![1, h, w, channels]
            } else {
                vec![1, channels, h, w]
            }
        };
        let x = random.values(height * width * channels);
        let scales = if last {
            [1.0, 2.0, 3.0, 1.0]
        } else {
            [1.0, 1.0, 2.0, 3.0]
        };
        let case = Case::new("Resize")
            .input(&shape(height, width), &x)
            .none()
            .constant(&[4], &scales.map(|s: f32| s))
            .f32_output(&shape(out_height, out_width))
            .string("mode", mode)
            .string("coordinate_transformation_mode", coordinates)
            .string("nearest_mode", "floor");
        let at = |y: usize, xx: usize, c: usize| {
            let place = if last {
                (y * width + xx) * channels + c
            } else {
                (c * height + y) * width + xx
            };
            f64::from(x[place])
        };
        let position = |out: usize, axis: usize| {
            let (input, output) = ([height, width][axis], [out_height, out_width][axis]);
            let out = out as f64;
            let place = match coordinates {
                "asymmetric" => out / f64::from(factors[axis]),
                "align_corners" => out * (input - 1) as f64 / (output - 1) as f64,
                _ => (out + 0.5) / f64::from(factors[axis]) - 0.5,
            };
            place.clamp(0.0, (input - 1) as f64)
        };
        let mut exact = Vec::new();
        for place in 0..out_height * out_width * channels {
            let (y, xx, c) = if last {
                (
                    place / channels / out_width,
                    place / channels % out_width,
                    place % channels,
                )
            } else {
                (
                    place / out_width % out_height,
                    place % out_width,
                    place / out_width / out_height,
                )
            };
            let (py, px) = (position(y, 0), position(xx, 1));
            // Thirds are not exact: a coordinate close below an integer is that integer.
            let whole = |p: f64| (p + 1e-6).floor();
            let (y0, x0) = (whole(py) as usize, whole(px) as usize);
            let (y1, x1) = ((y0 + 1).min(height - 1), (x0 + 1).min(width - 1));
            let (wy, wx) = (py - y0 as f64, px - x0 as f64);
            exact.push(if mode == "nearest" {
                at(y0, x0, c)
            } else {
                (at(y0, x0, c) * (1.0 - wx) + at(y0, x1, c) * wx) * (1.0 - wy)
                    + (at(y1, x0, c) * (1.0 - wx) + at(y1, x1, c) * wx) * wy
            });
        }
        for level in LEVELS {
            check(
                &case.run(level),
                &exact,
                |_| 3e-6,
                &format!("{mode} {coordinates} {last}"),
            );
        }
    }
}
