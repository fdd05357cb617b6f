//! Signal operators: discrete Fourier transforms, and mel filter banks.

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

/// A complex value.
type Complex = [f64; 2];

/// Adds `x` times the twiddle factor of an angle.
fn add_rotated(sum: &mut Complex, [re, im]: Complex, table: &[f64], angle: usize, forward: bool) {
    let (cos, sin) = table.split_at(table.len() / 2);
    let (cos, sin) = (cos[angle], if forward { -sin[angle] } else { sin[angle] });
    sum[0] += re * cos - im * sin;
    sum[1] += re * sin + im * cos;
}

/// The discrete Fourier transform of the samples at `start`, `start + step`... in mixed radix (Cooley and Tukey, "An
/// algorithm for the machine calculation of complex Fourier series", 1965): by the definition for prime lengths, else from
/// the transforms of the samples with the same remainder by the least prime factor. `table` has the twiddle factors of the
/// whole transform, `work` the size of `to`.
fn transform(
    table: &[f64],
    forward: bool,
    samples: &impl Fn(usize) -> Complex,
    [start, step]: [usize; 2],
    to: &mut [Complex],
    work: &mut [Complex],
) {
    let length = to.len();
    if length == 1 {
        to[0] = samples(start);
        return;
    }
    let radix = (2..length)
        .find(|radix| length.is_multiple_of(*radix))
        .unwrap_or(length);
    let part = length / radix;
    let parts = work.chunks_exact_mut(part).zip(to.chunks_exact_mut(part));
    for (nth, (work, to)) in parts.enumerate() {
        let first = start + nth * step;
        transform(table, forward, samples, [first, step * radix], work, to);
    }
    // The angle of one sample of this transform in steps of the table.
    let unit = table.len() / 2 / length;
    for (frequency, to) in to.iter_mut().enumerate() {
        if radix > 2 {
            stop::checkpoint();
        }
        *to = [0.0; 2];
        let mut angle = 0;
        for nth in 0..radix {
            add_rotated(
                to,
                work[nth * part + frequency % part],
                table,
                angle * unit,
                forward,
            );
            angle += frequency;
            while angle >= length {
                angle -= length;
            }
        }
    }
}

/// The twiddle factors and two buffers of a transform, in scratch memory of [`SCRATCH`] times its length.
struct Transform<'a> {
    table: &'a [f64],
    to: &'a mut [Complex],
    work: &'a mut [Complex],
}

/// Elements of scratch memory for each sample of a transform.
const SCRATCH: usize = 6;

impl<'a> Transform<'a> {
    fn new(length: usize, scratch: &'a mut [f64]) -> Self {
        let (table, buffers) = scratch.split_at_mut(2 * length);
        fill_twiddles(table);
        let (to, work) = buffers.as_chunks_mut().0.split_at_mut(length);
        Self { table, to, work }
    }

    /// The frequencies of the samples.
    fn compute(&mut self, forward: bool, samples: impl Fn(usize) -> Complex) -> &[Complex] {
        if !self.to.is_empty() {
            transform(self.table, forward, &samples, [0, 1], self.to, self.work);
        }
        self.to
    }
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
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let mut transform = Transform::new(length, scratch(&mut outputs, SCRATCH * length)?);
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
            let spectrum = if mirrored {
                transform.compute(!inverse, half)
            } else {
                transform.compute(!inverse, sample)
            };
            for (frequency, sum) in spectrum[..frequencies].iter().enumerate() {
                let at = at(frequency, frequencies) * out_parts;
                for (to, sum) in to[at..at + out_parts].iter_mut().zip(sum) {
                    *to = T::of_f64(sum * factor);
                }
            }
        }
        Ok(())
    })
    .with_scratch(length.saturating_mul(SCRATCH)))
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
        let mut transform = Transform::new(length, scratch(&mut outputs, SCRATCH * length)?);
        for row in 0..batches * frames {
            let start = row / frames * samples + row % frames * step;
            let sample = |nth: usize| -> [f64; 2] {
                let weight = window.map_or(1.0, |window| window.at(nth));
                let part = |part: usize| from[(start + nth) * parts + part].to_f64() * weight;
                [part(0), if parts == 2 { part(1) } else { 0.0 }]
            };
            let spectrum = &transform.compute(true, sample)[..frequencies];
            let first = row * frequencies * 2;
            T::from_reals(spectrum.as_flattened(), &mut to[first..first + 2 * frequencies]);
        }
        Ok(())
    })
    .with_scratch(length.saturating_mul(SCRATCH)))
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
            to[middle * bands + band] = T::of_f64(1.0);
            for row in left..middle {
                let share = (row - left) as f64 / (middle - left) as f64;
                to[row * bands + band] = T::of_f64(share);
            }
            for row in middle + 1..right {
                let share = (right - row) as f64 / (right - middle) as f64;
                to[row * bands + band] = T::of_f64(share);
            }
        }
        Ok(())
    })))
}
