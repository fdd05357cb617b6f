//! Signal operators: discrete Fourier transforms by their definition, and mel filter banks.

use crate::elements::Elements;
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, axis, floats, numeric, scratch, unsupported_type,
};
use crate::loop_nest::AxisExtents;
use crate::number::Number;
use std::f64::consts::TAU;
use tenon_base::{Error, ErrorKind, Result, stop};

pub(crate) static KERNELS: &[(&str, BuildKernel)] =
    &[("DFT", dft), ("STFT", stft), ("MelWeightMatrix", mel)];

/// The twiddle factors: the cosines, then the sines, of `count` equal angles.
fn fill_twiddles(table: &mut [f64]) {
    let count = table.len() / 2;
    let (cos, sin) = table.split_at_mut(count);
    for (at, (cos, sin)) in cos.iter_mut().zip(sin).enumerate() {
        (*sin, *cos) = (TAU * at as f64 / count as f64).sin_cos();
    }
}

/// One frequency of the transform of `count` samples, by the definition.
fn transform(
    table: &[f64],
    count: usize,
    frequency: usize,
    forward: bool,
    sample: impl Fn(usize) -> [f64; 2],
) -> [f64; 2] {
    let length = table.len() / 2;
    let (cos, sin) = table.split_at(length);
    let mut sum = [0.0, 0.0];
    let mut phase = 0;
    for at in 0..count {
        let [re, im] = sample(at);
        let (cos, sin) = (cos[phase], if forward { -sin[phase] } else { sin[phase] });
        sum[0] += re * cos - im * sin;
        sum[1] += re * sin + im * cos;
        phase = (phase + frequency) % length;
    }
    sum
}

fn dft(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (shape, out) = (node.shape(0)?, node.output(0)?.shape());
    let rank = shape.len();
    let given = node
        .ints(2)?
        .and_then(|axes| axes.first().copied())
        .unwrap_or(-2);
    let along = axis(given, rank)?;
    let (parts, out_parts) = (shape[rank - 1], out[rank - 1]);
    let AxisExtents {
        outer,
        extent,
        inner,
    } = AxisExtents::new(&shape[..rank - 1], along);
    let frequencies = out[along];
    let inverse = node.attributes.flag("inverse", false)?;
    let one_sided = node.attributes.flag("onesided", false)?;
    let length = match node.ints(1)?.and_then(|length| length.first().copied()) {
        Some(length) => length.max(0) as usize,
        None if inverse && one_sided => frequencies,
        None => extent,
    };
    // A real result from one half of the spectrum: the other half is its conjugate mirror.
    let mirrored = inverse && one_sided;
    let count = if mirrored { length } else { length.min(extent) };
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let table = scratch::<f64>(&mut outputs, 2 * length)?;
        fill_twiddles(table);
        let factor = if inverse { 1.0 / length as f64 } else { 1.0 };
        for lane in 0..outer * inner {
            let at = |nth: usize, extent: usize| (lane / inner * extent + nth) * inner + lane % inner;
            let sample = |nth: usize| -> [f64; 2] {
                if nth >= extent {
                    return [0.0, 0.0];
                }
                let at = at(nth, extent) * parts;
                [from[at].to_f64(), if parts == 2 { from[at + 1].to_f64() } else { 0.0 }]
            };
            let half = |nth: usize| -> [f64; 2] {
                let mirror = length - nth;
                match nth {
                    // The imaginary parts of these two are 0 for a real signal.
                    nth if nth == 0 || nth == mirror => [sample(nth)[0], 0.0],
                    nth if nth < mirror => sample(nth),
                    _ => {
                        let [re, im] = sample(mirror);
                        [re, -im]
                    }
                }
            };
            for frequency in 0..frequencies {
                stop::checkpoint();
                let sum = if mirrored {
                    transform(table, count, frequency, !inverse, half)
                } else {
                    transform(table, count, frequency, !inverse, sample)
                };
                let at = at(frequency, frequencies) * out_parts;
                for (to, sum) in to[at..at + out_parts].iter_mut().zip(sum) {
                    *to = T::from_f64(sum * factor);
                }
            }
        }
        Ok(())
    })
    .with_scratch(2 * length))
}

fn stft(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (shape, out) = (node.shape(0)?, node.output(0)?.shape());
    let (samples, parts) = (shape[1], shape[2]);
    let (batches, frames, frequencies) = (out[0], out[1], out[2]);
    let one = |index| -> Result<Option<usize>, BuildError> {
        let values = node.ints(index)?;
        Ok(values.and_then(|values| values.first().map(|&value| value.max(0) as usize)))
    };
    let step = one(1)?.unwrap_or(1);
    let length = match (one(3)?, node.optional(2)) {
        (Some(length), _) => length,
        (None, Some(window)) => window.elements(),
        (None, None) => samples,
    };
    let window_type = node.optional(2).map(|ty| ty.dtype());
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let window = window_type.map(|dtype| Elements::new(&inputs, 2, dtype)).transpose()?;
        let table = scratch::<f64>(&mut outputs, 2 * length)?;
        fill_twiddles(table);
        for row in 0..batches * frames {
            let start = row / frames * samples + row % frames * step;
            let sample = |nth: usize| -> [f64; 2] {
                let weight = window.map_or(1.0, |window| window.at(nth));
                let part = |part: usize| from[(start + nth) * parts + part].to_f64() * weight;
                [part(0), if parts == 2 { part(1) } else { 0.0 }]
            };
            for frequency in 0..frequencies {
                stop::checkpoint();
                let sum = transform(table, length, frequency, true, sample);
                let at = (row * frequencies + frequency) * 2;
                to[at] = T::from_f64(sum[0]);
                to[at + 1] = T::from_f64(sum[1]);
            }
        }
        Ok(())
    })
    .with_scratch(2 * length))
}

/// Triangular filters between adjacent edges, which are equidistant on the mel scale.
fn mel(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let out = node.output(0)?.shape();
    let (rows, bands) = (out[0], out[1]);
    let one = node.ints(1)?.and_then(|length| length.first().copied());
    let length = one.unwrap_or(0) as f64;
    let types = [node.dtype(2)?, node.dtype(3)?, node.dtype(4)?];
    if let Some(nth) = types
        .iter()
        .position(|&dtype| !crate::elements::is_numeric(dtype))
    {
        return Err(unsupported_type(2 + nth, types[nth]));
    }
    numeric!(node.output(0)?.dtype(), 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let first = |nth: usize| Ok(Elements::new(&inputs, 2 + nth, types[nth])?.at(0));
        let (rate, low, high): (f64, f64, f64) = (first(0)?, first(1)?, first(2)?);
        let to_mel = |hertz: f64| 2595.0 * (hertz / 700.0).ln_1p() / std::f64::consts::LN_10;
        let width = (to_mel(high) - to_mel(low)) / (bands + 2) as f64;
        let edge = |nth: usize| -> Result<usize> {
            let mel = to_mel(low) + nth as f64 * width;
            let hertz = 700.0 * (mel / 2595.0 * std::f64::consts::LN_10).exp_m1();
            let row = ((length + 1.0) * hertz / rate).floor();
            (0.0..rows as f64).contains(&row).then_some(row as usize).ok_or_else(|| {
                Error::new(ErrorKind::OutOfBounds, "an edge of a mel band is out of the spectrum")
                    .expected(format_args!("0 to {} of the spectrum", rows as i64 - 1))
                    .found(row)
            })
        };
        let to = outputs.slice::<T>(0)?;
        to.fill(T::default());
        for band in 0..bands {
            let (left, middle, right) = (edge(band)?, edge(band + 1)?, edge(band + 2)?);
            to[middle * bands + band] = T::from_f64(1.0);
            for row in left..middle {
                let share = (row - left) as f64 / (middle - left) as f64;
                to[row * bands + band] = T::from_f64(share);
            }
            for row in middle + 1..right {
                let share = (right - row) as f64 / (right - middle) as f64;
                to[row * bands + band] = T::from_f64(share);
            }
        }
        Ok(())
    })))
}
