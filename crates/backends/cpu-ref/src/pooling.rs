//! Pooling: one element for each window, or for each whole channel.

use crate::chunks::for_each_chunk_of;
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, invalid, numeric, unsupported_value,
};
use crate::lanes::{Fold, Lanes, MAXIMUM, SUM};
use crate::loop_nest::{BLOCK, pairs};
use crate::number::{Number, WidenedArithmetic};
use crate::sliding_window::SlidingWindow;
use tenon_backend::Reason;
use tenon_base::{Error, ErrorKind, Result, bounded, stop, vectorized};
use tenon_graph::geometry::Window;

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("MaxPool", |node| max_pool(node, false)),
    ("tenon.MaxPool", |node| max_pool(node, true)),
    ("AveragePool", |node| average_pool(node, false)),
    ("tenon.AveragePool", |node| average_pool(node, true)),
    ("LpPool", lp_pool),
    ("GlobalMaxPool", |node| {
        global(node, MAXIMUM, |x| x, |max, _| max)
    }),
    ("GlobalAveragePool", |node| {
        global(node, SUM, |x| x, |sum, count| sum / count)
    }),
    ("GlobalLpPool", |node| {
        let p = exponent(node)?;
        global(
            node,
            SUM,
            move |x| power(x, p),
            move |sum, _| sum.powf(1.0 / p),
        )
    }),
    ("MaxUnpool", max_unpool),
];

fn exponent(node: &Node<'_>) -> Result<f64, BuildError> {
    match node.attributes.int("p", 2)? {
        p if p > 0 => Ok(p as f64),
        p => Err(unsupported_value("p", p)),
    }
}

/// The windows of a pooling operator.
struct Pool(SlidingWindow);

impl Pool {
    fn new(node: &Node<'_>, channels_last: bool) -> Result<Self, BuildError> {
        let shape = node.shape(0)?;
        let kernel: Vec<usize> = node
            .attributes
            .ints("kernel_shape")?
            .unwrap_or_default()
            .iter()
            .map(|&extent| extent.max(0) as usize)
            .collect();
        let first = if channels_last { 1 } else { 2 };
        let spatial = shape.get(first..first + kernel.len());
        let spatial = spatial.ok_or(Reason::InputRank {
            input: 0,
            found: shape.len(),
        })?;
        let window = Window::sliding(node.attributes, spatial, &kernel)?;
        Ok(Self(SlidingWindow::new(node, &window, channels_last)?))
    }

    /// Reduces the pixels of each window that are inside the image: `step` adds a pixel to a total, `finish` makes
    /// elements of the totals of outputs in a row, from a position on.
    fn reduce<T: Number>(
        &self,
        from: &[T],
        to: &mut [T],
        start: T::Widened,
        step: impl Fn(T::Widened, T) -> T::Widened + Sync,
        finish: impl Fn(&mut [T::Widened], [usize; 3]) + Sync,
    ) {
        let SlidingWindow {
            channels,
            axes: [depths, heights, widths],
            x,
            y,
            ..
        } = self.0;
        let rows = heights.output * depths.output;
        // With the channels last, the outputs of a channel are all over an image.
        let (unit, rows_of_unit) = if y.channel == 1 && channels > 1 {
            (y.batch, channels * rows)
        } else {
            (widths.output, 1)
        };
        let operations = to.len().saturating_mul(self.0.positions());
        for_each_chunk_of(to, unit, operations, |first, to| {
            let start_row = first / unit * rows_of_unit;
            for nth in start_row..start_row + to.len() / widths.output {
                let (batch, channel) = (nth / rows / channels, nth / rows % channels);
                let (d, h) = (nth / heights.output % depths.output, nth % heights.output);
                let image = batch * x.batch + channel * x.channel;
                let out = batch * y.batch + channel * y.channel + y.at([d, h, 0]) - first;
                let rows = depths
                    .positions_inside(d)
                    .flat_map(|kd| heights.positions_inside(h).map(move |kh| [kd, kh]));
                // The first column of the image in each of its rows that the windows read.
                let rows = rows.filter_map(|[kd, kh]| {
                    Some(image + x.at([depths.source(d, kd)?, heights.source(h, kh)?, 0]))
                });
                for column in (0..widths.output).step_by(BLOCK) {
                    let mut totals = [start; BLOCK];
                    let totals = &mut totals[..BLOCK.min(widths.output - column)];
                    self.add_rows(rows.clone(), column, totals, from, &step);
                    finish(totals, [d, h, column]);
                    let step = y.spatial[2];
                    let to = &mut to[out + column * step..];
                    if step == 1 {
                        T::narrows(totals, &mut to[..totals.len()]);
                    } else {
                        let to = to.iter_mut().step_by(step);
                        to.zip(totals)
                            .for_each(|(to, total)| *to = T::narrow(*total));
                    }
                }
            }
        });
    }

    /// Adds the pixels of rows of an image to the totals of the outputs from `column` on.
    fn add_rows<T: Number, A: Copy>(
        &self,
        rows: impl Iterator<Item = usize> + Clone,
        column: usize,
        totals: &mut [A],
        from: &[T],
        step: &impl Fn(A, T) -> A,
    ) {
        let widths = self.0.axes[2];
        let stride = widths.stride * self.0.x.spatial[2];
        // The kernel positions that are inside the image for any of the outputs.
        let last = widths.positions_inside(column + totals.len() - 1);
        for kw in last.start..widths.positions_inside(column).end {
            let inside = widths.outputs_inside(kw);
            let first = inside.start.clamp(column, column + totals.len());
            let end = inside.end.clamp(column, column + totals.len());
            if first >= end {
                continue;
            }
            let totals = &mut totals[first - column..end - column];
            let w = first * widths.stride + kw * widths.dilation - widths.before;
            let end = (totals.len() - 1) * stride + 1;
            vectorized!(for row in rows.clone() {
                stop::checkpoint();
                let start = row + w * self.0.x.spatial[2];
                let from = &from[start..start + end];
                if stride == 1 {
                    for (total, &x) in totals.iter_mut().zip(from) {
                        *total = step(*total, x);
                    }
                } else {
                    let mut at = 0;
                    for total in totals.iter_mut() {
                        *total = step(*total, from[at]);
                        at += stride;
                    }
                }
            });
        }
    }

    /// Calls `body` with the index in the output, the pixels of the window, and the index of the image.
    fn for_each(&self, mut body: impl FnMut(usize, Pixels, usize)) {
        let SlidingWindow {
            batches,
            channels,
            axes: [depths, heights, widths],
            x,
            y,
            ..
        } = self.0;
        for (batch, channel) in pairs(batches, channels) {
            let from = batch * x.batch + channel * x.channel;
            let to = batch * y.batch + channel * y.channel;
            for (d, h) in pairs(depths.output, heights.output) {
                stop::checkpoint();
                for w in 0..widths.output {
                    let at = [d, h, w];
                    body(
                        to + y.at(at),
                        self.pixels(from, at),
                        batch * channels + channel,
                    );
                }
            }
        }
    }

    /// The pixels of a window that are inside the input's image, which starts at `from`.
    fn pixels(&self, from: usize, at: [usize; 3]) -> Pixels {
        let mut pixels = Pixels {
            start: from,
            counts: [0; 3],
            steps: [0; 3],
        };
        for (axis, window) in self.0.axes.iter().enumerate() {
            let inside = window.positions_inside(at[axis]);
            let first = window.source(at[axis], inside.start).unwrap_or(0);
            pixels.counts[axis] = inside.len();
            pixels.start += first * self.0.x.spatial[axis];
            pixels.steps[axis] = window.dilation.wrapping_mul(self.0.x.spatial[axis]);
        }
        pixels
    }
}

/// The pixels of a window as strided loops over depth, height and width.
#[derive(Clone, Copy)]
struct Pixels {
    start: usize,
    counts: [usize; 3],
    steps: [usize; 3],
}

impl Pixels {
    /// Calls `body` with the position of each pixel in the input.
    fn for_each(&self, mut body: impl FnMut(usize)) {
        for (d, h) in pairs(self.counts[0], self.counts[1]) {
            let row = self.start + d * self.steps[0] + h * self.steps[1];
            for w in 0..self.counts[2] {
                body(row + w * self.steps[2]);
            }
        }
    }
}

fn max_pool(node: &Node<'_>, channels_last: bool) -> Result<Kernel, BuildError> {
    let pool = Pool::new(node, channels_last)?;
    let by_columns = node.attributes.flag("storage_order", false)?;
    let [depth, height, width] = pool.0.axes.map(|axis| axis.input);
    let image = (depth * height * width).max(1);
    // Only operators with the channels first have indices.
    let index = move |at: usize| {
        let [d, h, w] = [at / (height * width), at / width % height, at % width];
        if by_columns {
            (w * height + h) * depth + d
        } else {
            at
        }
    };
    numeric!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let from = inputs.slice::<T>(0)?;
        // NaN is the maximum.
        let is_better = |value: T, best: T| value > best || (value.widen().is_nan() && !best.widen().is_nan());
        if let Some(to) = outputs.optional::<T>(0)? {
            let step = |best: <T as Number>::Widened, x: T| x.widen().nan_max(best);
            pool.reduce(from, to, T::LOWEST.widen(), step, |_, _| {});
        }
        let Some(indices) = outputs.optional::<i64>(1)? else { return Ok(()) };
        pool.for_each(|out, pixels, nth| {
            let mut best = T::LOWEST;
            let mut best_at = None;
            pixels.for_each(|at| {
                if is_better(from[at], best) || best_at.is_none() {
                    (best, best_at) = (from[at], Some(at));
                }
            });
            let at = best_at.map(|at| nth * image + index(at % image));
            indices[out] = at.map_or(-1, |at| at as i64);
        });
        Ok(())
    })))
}

fn average_pool(node: &Node<'_>, channels_last: bool) -> Result<Kernel, BuildError> {
    let pool = Pool::new(node, channels_last)?;
    // The pixels of each window that count, axis by axis.
    let padding_counts = node.attributes.flag("count_include_pad", false)?;
    let counts = pool.0.axes.map(|axis| {
        let count = |at| match padding_counts {
            true => axis.padded(at) as f64,
            false => axis.positions_inside(at).len() as f64,
        };
        bounded::collect("positions of a dimension", (0..axis.output).map(count))
    });
    let [d, h, w] = counts;
    let counts = [d?, h?, w?];
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let step = |sum: f64, x: T| sum + x.to_f64();
        pool.reduce(from, to, 0.0, step, |sums, [d, h, w]| {
            let rows = counts[0][d] * counts[1][h];
            vectorized!(for (sum, count) in sums.iter_mut().zip(&counts[2][w..]) {
                *sum /= rows * count;
            });
        });
        Ok(())
    })))
}

fn lp_pool(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let pool = Pool::new(node, false)?;
    let p = exponent(node)?;
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let step = |sum: f64, x: T| sum + power(x.to_f64(), p);
        pool.reduce(from, to, 0.0, step, |sums, _| {
            sums.iter_mut().for_each(|sum| *sum = sum.powf(1.0 / p));
        });
        Ok(())
    })))
}

/// The magnitude to the power `p`.
fn power(x: f64, p: f64) -> f64 {
    if p == 2.0 { x * x } else { x.abs().powf(p) }
}

/// A pool whose window is a whole channel: `prepare` changes elements before they are reduced, `finish` makes an element
/// of the total and the number of pixels.
fn global(
    node: &Node<'_>,
    fold: Fold<f64>,
    prepare: impl Fn(f64) -> f64 + Send + Sync + 'static,
    finish: impl Fn(f64, f64) -> f64 + Send + Sync + 'static,
) -> Result<Kernel, BuildError> {
    let lanes = Lanes::new(node.shape(0)?, |axis| axis > 1);
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        for_each_chunk_of(to, 1, from.len(), |first, to| {
            for (to, nth) in to.iter_mut().zip(first..) {
                let total = lanes.fold_reals(from, lanes.starts.at(nth)[1], fold, |values| {
                    vectorized!(for x in values.iter_mut() { *x = prepare(*x); });
                });
                *to = T::of_f64(finish(total, lanes.len as f64));
            }
        });
        Ok(())
    })))
}

/// Indices are those of MaxPool, in an output of the extents that the attributes imply. A larger
/// `output_shape` pads that output with zeros at the end.
fn max_unpool(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (x, out) = (node.shape(0)?, node.output(0)?.shape());
    let kernel: Vec<usize> = node
        .attributes
        .ints("kernel_shape")?
        .unwrap_or_default()
        .iter()
        .map(|&extent| extent.max(0) as usize)
        .collect();
    let window = Window::transposed(node.attributes, &x[2..], &kernel)?;
    let pooled: Vec<usize> = x[..2].iter().chain(&window.output).copied().collect();
    if pooled.iter().zip(&**out).any(|(pooled, out)| pooled > out) {
        return Err(invalid("input 'output_shape' is smaller than the pooled tensor").into());
    }
    let strides = out.strides();
    let count: usize = pooled.iter().product();
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, indices) = (inputs.slice::<T>(0)?, inputs.slice::<i64>(1)?);
        let to = outputs.slice::<T>(0)?;
        to.fill(T::default());
        for (&value, &index) in from.iter().zip(indices) {
            let mut rest = usize::try_from(index).ok().filter(|&at| at < count).ok_or_else(|| {
                Error::new(ErrorKind::OutOfBounds, "an index is out of the bounds of the output")
                    .expected(format_args!("0 to {}", count as i64 - 1))
                    .found(index)
            })?;
            let mut at = 0;
            for (extent, stride) in pooled.iter().zip(&strides).rev() {
                at += rest % extent * stride;
                rest /= extent;
            }
            to[at] = value;
        }
        Ok(())
    })))
}
