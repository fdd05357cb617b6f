//! Operators along rows (softmax, normalisation, reductions, attention, gather, LSTM), compared with
//! plain loops in f64.

mod common;

use common::{Case, LEVELS, Random, check};
use tenon_backend::Backend;

fn softmax(row: &[f64]) -> Vec<f64> {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = row.iter().map(|x| (x - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|p| p / sum).collect()
}

fn widen(elements: &[f32]) -> Vec<f64> {
    elements.iter().map(|&x| x.into()).collect()
}

#[test]
fn softmax_of_any_length() {
    let mut random = Random::new(11);
    for (rows, length) in [(1, 1), (3, 16), (7, 17), (2, 1000), (64, 300), (5, 4)] {
        let x: Vec<f32> = random
            .values(rows * length)
            .iter()
            .map(|x| x * 30.0)
            .collect();
        let exact: Vec<f64> = widen(&x).chunks(length).flat_map(softmax).collect();
        let case = Case::new("Softmax")
            .input(&[rows, length], &x)
            .f32_output(&[rows, length]);
        let logs = Case::new("LogSoftmax")
            .input(&[rows, length], &x)
            .f32_output(&[rows, length]);
        // The difference to the maximum, up to 60, is rounded: 2^-18 relative after the exponential
        // would be the worst; sums of rounded terms stay below.
        for level in LEVELS {
            check(&case.run(level), &exact, |i| exact[i] * 8e-6, "softmax");
            let exact: Vec<f64> = exact.iter().map(|x| x.ln()).collect();
            check(&logs.run(level), &exact, |_| 1e-5, "log softmax");
        }
    }
}

#[test]
fn the_logarithm_of_a_softmax_of_large_elements_is_exact() {
    let x = [1e30f32; 19];
    let case = Case::new("LogSoftmax").input(&[1, 19], &x);
    case.outputs(1).agrees_with_reference(1e-6);
}

#[test]
fn normalisation_of_any_length() {
    let mut random = Random::new(12);
    for (rows, length, shift) in [(1, 1, 0.0), (4, 16, 5.0), (9, 37, -3.0), (40, 768, 100.0)] {
        let x: Vec<f32> = random
            .values(rows * length)
            .iter()
            .map(|x| x + shift)
            .collect();
        let (scale, bias) = (random.values(length), random.values(length));
        for rms in [false, true] {
            let name = if rms {
                "RMSNormalization"
            } else {
                "LayerNormalization"
            };
            let case = Case::new(name)
                .input(&[rows, length], &x)
                .constant(&[length], &scale);
            let case = if rms {
                case
            } else {
                case.constant(&[length], &bias)
            };
            let case = case.f32_output(&[rows, length]).float("epsilon", 1e-3);
            let mut exact = Vec::new();
            for row in widen(&x).chunks(length) {
                let count = length as f64;
                let mean = if rms {
                    0.0
                } else {
                    row.iter().sum::<f64>() / count
                };
                let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
                let deviation = (variance + f64::from(1e-3f32)).sqrt();
                for (i, x) in row.iter().enumerate() {
                    let shift = if rms { 0.0 } else { f64::from(bias[i]) };
                    exact.push((x - mean) / deviation * f64::from(scale[i]) + shift);
                }
            }
            // Values near `shift` have a larger rounding error than their differences.
            let allowed = f64::from(shift.abs() + 1.0) * 2e-6;
            for level in LEVELS {
                check(
                    &case.run(level),
                    &exact,
                    |_| allowed,
                    &format!("{name} {rows}x{length}"),
                );
            }
        }
    }
}

#[test]
fn batch_normalisation() {
    let mut random = Random::new(13);
    for (images, channels, inner) in [(2, 5, 9), (3, 20, 1), (1, 3, 20000)] {
        let shape: &[usize] = if inner > 1 {
            &[images, channels, inner]
        } else {
            &[images, channels]
        };
        let x = random.values(images * channels * inner);
        let parameters: Vec<Vec<f32>> = (0..4).map(|_| random.values(channels)).collect();
        let variance: Vec<f32> = parameters[3].iter().map(|v| v.abs() + 0.1).collect();
        let case = Case::new("BatchNormalization")
            .input(shape, &x)
            .constant(&[channels], &parameters[0])
            .constant(&[channels], &parameters[1])
            .constant(&[channels], &parameters[2])
            .constant(&[channels], &variance)
            .f32_output(shape);
        let exact: Vec<f64> = (0..x.len())
            .map(|i| {
                let c = i / inner % channels;
                let [scale, bias, mean] = [0, 1, 2].map(|p| f64::from(parameters[p][c]));
                let deviation = (f64::from(variance[c]) + f64::from(1e-5f32)).sqrt();
                (f64::from(x[i]) - mean) / deviation * scale + bias
            })
            .collect();
        for level in LEVELS {
            check(&case.run(level), &exact, |_| 2e-6, "batch normalisation");
        }
    }
}

#[test]
fn reductions_over_adjacent_dimensions() {
    let mut random = Random::new(14);
    // Shape, axes, and the equivalent [outer, length, inner].
    let cases: [(&[usize], &[i64], [usize; 3]); 7] = [
        (&[2, 7, 5, 40], &[1, 2], [2, 35, 40]),
        (&[2, 3, 9, 9], &[2, 3], [6, 81, 1]),
        (&[4, 100], &[-1], [4, 100, 1]),
        (&[5, 6], &[0], [1, 5, 6]),
        (&[3, 4], &[], [1, 12, 1]),
        (&[2, 1, 6, 1, 3], &[2, 1, 3], [2, 6, 3]),
        (&[1, 40, 50, 70], &[1, 2], [1, 2000, 70]),
    ];
    type Join = fn(f64, f64) -> f64;
    let kinds: [(&str, f64, Join); 4] = [
        ("ReduceSum", 0.0, |a, b| a + b),
        ("ReduceMean", 0.0, |a, b| a + b),
        ("ReduceMax", f64::NEG_INFINITY, f64::max),
        ("ReduceMin", f64::INFINITY, f64::min),
    ];
    for (shape, axes, [outer, length, inner]) in cases {
        let x = random.values(outer * length * inner);
        for (name, start, join) in kinds {
            let case = Case::new(name).input(shape, &x);
            let case = if axes.is_empty() {
                case.none()
            } else {
                case.constant(&[axes.len()], axes)
            };
            let case = case.outputs(1);
            let exact: Vec<f64> = (0..outer * inner)
                .map(|i| {
                    let at = |k: usize| x[(i / inner * length + k) * inner + i % inner];
                    let all = (0..length).fold(start, |sum, k| join(sum, at(k).into()));
                    if name == "ReduceMean" {
                        all / length as f64
                    } else {
                        all
                    }
                })
                .collect();
            let allowed = if name == "ReduceSum" {
                length as f64 * 6e-7
            } else {
                1e-6
            };
            for level in LEVELS {
                check(
                    &case.run(level),
                    &exact,
                    |_| allowed,
                    &format!("{name} {shape:?}"),
                );
            }
        }
    }
    let x = random.values(2 * 3 * 4 * 5);
    let pooled = Case::new("GlobalAveragePool")
        .input(&[2, 3, 4, 5], &x)
        .f32_output(&[2, 3, 1, 1]);
    let exact: Vec<f64> = widen(&x)
        .chunks(20)
        .map(|plane| plane.iter().sum::<f64>() / 20.0)
        .collect();
    check(&pooled.run(LEVELS[2]), &exact, |_| 1e-6, "global pool");
}

#[test]
fn attention_with_masks() {
    let mut random = Random::new(15);
    let shapes = [
        // batch, queries, keys, heads, depth, width, kind of mask (0: none)
        (1, 1, 9, 2, 16, 16, 0),
        (2, 3, 20, 3, 7, 5, 1),
        (1, 8, 8, 2, 16, 16, 2),
        (2, 35, 19, 3, 12, 20, 3),
        (1, 130, 130, 2, 64, 64, 1),
        (2, 20, 33, 2, 8, 40, 4),
    ];
    for (batch, queries, keys, heads, depth, width, mask) in shapes {
        let q = random.values(batch * queries * heads * depth);
        let k = random.values(batch * keys * heads * depth);
        let v = random.values(batch * keys * heads * width);
        let mask_shape = match mask {
            1 => vec![batch, 1, 1, keys],
            2 => vec![queries, keys],
            3 => vec![batch, heads, queries, keys],
            4 => vec![heads, 1, keys],
            _ => vec![],
        };
        let elements = random.values(mask_shape.iter().product());
        let case = Case::new("tenon.Attention")
            .input(&[batch, queries, heads, depth], &q)
            .input(&[batch, keys, heads, depth], &k)
            .input(&[batch, keys, heads, width], &v);
        let case = if mask > 0 {
            case.input(&mask_shape, &elements)
        } else {
            case
        };
        let case = case
            .f32_output(&[batch, queries, heads, width])
            .float("scale", 0.25);
        let mut exact = vec![0.0; batch * queries * heads * width];
        for (b, s, h) in (0..batch)
            .flat_map(|b| (0..queries).flat_map(move |s| (0..heads).map(move |h| (b, s, h))))
        {
            let scores: Vec<f64> = (0..keys)
                .map(|t| {
                    let dot: f64 = (0..depth)
                        .map(|d| {
                            f64::from(q[((b * queries + s) * heads + h) * depth + d])
                                * f64::from(k[((b * keys + t) * heads + h) * depth + d])
                        })
                        .sum();
                    let masked = match mask {
                        1 => elements[b * keys + t],
                        2 => elements[s * keys + t],
                        3 => elements[((b * heads + h) * queries + s) * keys + t],
                        4 => elements[h * keys + t],
                        _ => 0.0,
                    };
                    dot * 0.25 + f64::from(masked)
                })
                .collect();
            for (t, weight) in softmax(&scores).into_iter().enumerate() {
                for d in 0..width {
                    exact[((b * queries + s) * heads + h) * width + d] +=
                        weight * f64::from(v[((b * keys + t) * heads + h) * width + d]);
                }
            }
        }
        for level in LEVELS {
            let what = format!("{batch} {queries} {keys} {heads} {level:?}");
            check(&case.run(level), &exact, |_| 1e-5, &what);
        }
    }
}

#[test]
fn gather_takes_rows() {
    let data: Vec<i32> = (0..2 * 5 * 3).collect();
    let case = Case::new("Gather")
        .input(&[2, 5, 3], &data)
        .input(&[2, 2], &[4i64, -5, 1, -1])
        .output(tenon_tensor::DataType::I32, &[2, 2, 2, 3])
        .int("axis", 1);
    let expected: Vec<i32> = (0..24)
        .map(|i| i / 12 * 15 + [4, 0, 1, 4][i as usize / 3 % 4] * 3 + i % 3)
        .collect();
    assert_eq!(case.run_as::<i32>(LEVELS[2]), expected);
}

#[test]
fn an_index_out_of_bounds_is_an_error() {
    let case = Case::new("Gather")
        .input(&[5, 3], &[0f32; 15])
        .input(&[1], &[5i32])
        .f32_output(&[1, 3]);
    let error = case.bind(LEVELS[0]).try_execute().unwrap_err();
    assert_eq!(
        error.to_string(),
        "an index is out of the bounds of its dimension: expected -5 to 5 - 1, found 5"
    );
}

/// One direction of an LSTM in f64; the outputs of all steps and the last cells.
fn lstm(
    x: &[f32],
    [w, r, b]: [&[f32]; 3],
    [h0, c0]: [&[f32]; 2],
    [steps, batch, features, hidden]: [usize; 4],
    backwards: bool,
) -> (Vec<f64>, Vec<f64>) {
    let (mut h, mut c) = (widen(h0), widen(c0));
    let mut all = vec![0.0; steps * batch * hidden];
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    for index in 0..steps {
        let step = if backwards { steps - 1 - index } else { index };
        let before = h.clone();
        for (n, j) in (0..batch).flat_map(|n| (0..hidden).map(move |j| (n, j))) {
            let gate = |g: usize| {
                let row = g * hidden + j;
                let input: f64 = (0..features)
                    .map(|i| {
                        f64::from(x[(step * batch + n) * features + i])
                            * f64::from(w[row * features + i])
                    })
                    .sum();
                let state: f64 = (0..hidden)
                    .map(|i| before[n * hidden + i] * f64::from(r[row * hidden + i]))
                    .sum();
                input + state + f64::from(b[row]) + f64::from(b[4 * hidden + row])
            };
            let index = n * hidden + j;
            c[index] = sigmoid(gate(2)) * c[index] + sigmoid(gate(0)) * gate(3).tanh();
            h[index] = sigmoid(gate(1)) * c[index].tanh();
            all[step * batch * hidden + index] = h[index];
        }
    }
    (all, c)
}

#[test]
fn lstm_in_both_directions() {
    let mut random = Random::new(16);
    for (direction, directions) in [("forward", 1), ("reverse", 1), ("bidirectional", 2)] {
        let sizes @ [steps, batch, features, hidden] = [5, random.between(1, 3), 11, 19];
        let x = random.values(steps * batch * features);
        let w = random.values(directions * 4 * hidden * features);
        let r = random.values(directions * 4 * hidden * hidden);
        let b = random.values(directions * 8 * hidden);
        let (h0, c0) = (
            random.values(directions * batch * hidden),
            random.values(directions * batch * hidden),
        );
        let state = [directions, batch, hidden];
        let case = Case::new("LSTM")
            .input(&[steps, batch, features], &x)
            .constant(&[directions, 4 * hidden, features], &w)
            .constant(&[directions, 4 * hidden, hidden], &r)
            .constant(&[directions, 8 * hidden], &b)
            .none()
            .input(&state, &h0)
            .input(&state, &c0)
            .f32_output(&[steps, directions, batch, hidden])
            .f32_output(&state)
            .f32_output(&state)
            .string("direction", direction)
            .int("hidden_size", hidden as i64);
        let mut exact = vec![0.0; steps * directions * batch * hidden];
        let mut cells = Vec::new();
        let size = batch * hidden;
        for d in 0..directions {
            let part = |elements: &'_ [f32]| {
                let each = elements.len() / directions;
                elements[d * each..(d + 1) * each].to_vec()
            };
            let (w, r, b, h0, c0) = (part(&w), part(&r), part(&b), part(&h0), part(&c0));
            let backwards = direction == "reverse" || d == 1;
            let (all, c) = lstm(&x, [&w, &r, &b], [&h0, &c0], sizes, backwards);
            for (step, all) in all.chunks(size).enumerate() {
                exact[(step * directions + d) * size..][..size].copy_from_slice(all);
            }
            cells.extend(c);
        }
        for level in LEVELS {
            let mut bound = case.bind(level);
            bound.execute();
            check(&bound.result(0), &exact, |_| 2e-5, direction);
            check(&bound.result(2), &cells, |_| 2e-5, direction);
            assert_eq!(case.run(level), bound.result::<f32>(0));
            let last: Vec<f64> = (0..directions)
                .flat_map(|d| {
                    let backwards = direction == "reverse" || d == 1;
                    let step = if backwards { 0 } else { steps - 1 };
                    exact[(step * directions + d) * size..][..size].to_vec()
                })
                .collect();
            check(&bound.result(1), &last, |_| 2e-5, direction);
        }
    }
    let backend = tenon_cpu_acc::CpuAcc::new();
    assert_eq!(backend.id().as_str(), "CpuAcc");
}
