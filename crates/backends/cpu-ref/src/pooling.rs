//! Pooling: one element for each window, or for each whole channel.

use crate::convolution::{SlidingWindow, pairs};
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, invalid, numeric, unsupported_value,
};
use crate::loop_nest::Lanes;
use crate::number::{Number, WidenedArithmetic};
use tenon_backend::Reason;
use tenon_base::{Error, ErrorKind, Result, stop};
use tenon_graph::geometry::Window;

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("MaxPool", |node| max_pool(node, false)),
    ("tenon.MaxPool", |node| max_pool(node, true)),
    ("AveragePool", |node| average_pool(node, false)),
    ("tenon.AveragePool", |node| average_pool(node, true)),
    ("LpPool", lp_pool),
    ("GlobalMaxPool", global_max),
    ("GlobalAveragePool", |node| {
        global(node, |all, x| all + x, |all, count| all / count)
    }),
    ("GlobalLpPool", |node| {
        let p = exponent(node)?;
        global(
            node,
            move |all, x| all + power(x, p),
            move |all, _| all.powf(1.0 / p),
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

    /// Calls `body` with the index in the output, the pixels of the window, the index of the image, and
    /// the output's coordinates.
    fn for_each(&self, mut body: impl FnMut(usize, Pixels, usize, [usize; 3])) {
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
                    let pixels = self.pixels(from, at);
                    body(to + y.at(at), pixels, batch * channels + channel, at);
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

    /// The number of pixels of a window, including padding, but not those beyond the padding.
    fn padded(&self, at: [usize; 3]) -> usize {
        let axes = self.0.axes.iter().zip(at);
        axes.map(|(axis, at)| axis.padded(at)).product()
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
    fn len(&self) -> usize {
        self.counts.iter().product()
    }

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
        let mut to = outputs.optional::<T>(0)?;
        let mut indices = outputs.optional::<i64>(1)?;
        pool.for_each(|out, pixels, nth, _| {
            let mut best = T::LOWEST;
            let mut best_at = None;
            pixels.for_each(|at| {
                let value = from[at];
                // NaN is the maximum.
                let better = value > best || (value.widen().is_nan() && !best.widen().is_nan());
                if better || best_at.is_none() {
                    (best, best_at) = (value, Some(at));
                }
            });
            if let Some(to) = &mut to {
                to[out] = best;
            }
            if let Some(indices) = &mut indices {
                let at = best_at.map(|at| nth * image + index(at % image));
                indices[out] = at.map_or(-1, |at| at as i64);
            }
        });
        Ok(())
    })))
}

fn average_pool(node: &Node<'_>, channels_last: bool) -> Result<Kernel, BuildError> {
    let pool = Pool::new(node, channels_last)?;
    let padding_counts = node.attributes.flag("count_include_pad", false)?;
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        pool.for_each(|out, pixels, _, at| {
            let mut sum = 0.0;
            pixels.for_each(|at| sum += from[at].to_f64());
            let count = if padding_counts { pool.padded(at) } else { pixels.len() };
            to[out] = T::from_f64(sum / count as f64);
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
        pool.for_each(|out, pixels, _, _| {
            let mut sum = 0.0;
            pixels.for_each(|at| sum += power(from[at].to_f64(), p));
            to[out] = T::from_f64(sum.powf(1.0 / p));
        });
        Ok(())
    })))
}

/// The magnitude to the power `p`.
fn power(x: f64, p: f64) -> f64 {
    if p == 2.0 { x * x } else { x.abs().powf(p) }
}

/// A pool whose window is a whole channel.
fn global(
    node: &Node<'_>,
    step: impl Fn(f64, f64) -> f64 + Send + Sync + 'static,
    finish: impl Fn(f64, f64) -> f64 + Send + Sync + 'static,
) -> Result<Kernel, BuildError> {
    let lanes = Lanes::new(node.shape(0)?, |axis| axis > 1);
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        lanes.starts.for_each(|[out, start]| {
            let mut all = 0.0;
            lanes.lane.for_each(|[at]| all = step(all, from[start + at].to_f64()));
            to[out] = T::from_f64(finish(all, lanes.len as f64));
        });
        Ok(())
    })))
}

fn global_max(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let lanes = Lanes::new(node.shape(0)?, |axis| axis > 1);
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        lanes.starts.for_each(|[out, start]| {
            let mut best = f64::NEG_INFINITY;
            lanes.lane.for_each(|[at]| best = best.nan_max(from[start + at].to_f64()));
            to[out] = T::from_f64(best);
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
