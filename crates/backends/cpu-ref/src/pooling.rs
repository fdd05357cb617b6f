//! Pools: one number for each window, or for each whole channel.

use crate::convolution::{Images, pairs};
use crate::kernel::{Build, Kernel, Node, Stop, floats, invalid, no_value, numbers};
use crate::nest::Lanes;
use crate::number::{Number, Wide};
use tenon_backend::Reason;
use tenon_base::{Error, ErrorKind, Result, stop};
use tenon_graph::geometry::Window;

pub(crate) static KERNELS: &[(&str, Build)] = &[
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
            move |all, x| all + x.abs().powf(p),
            move |all, _| all.powf(1.0 / p),
        )
    }),
    ("MaxUnpool", max_unpool),
];

fn exponent(node: &Node<'_>) -> Result<f64, Stop> {
    match node.attributes.int("p", 2)? {
        p if p > 0 => Ok(p as f64),
        p => Err(no_value("p", p)),
    }
}

/// The windows of a pool.
struct Pool(Images);

impl Pool {
    fn new(node: &Node<'_>, channels_last: bool) -> Result<Self, Stop> {
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
        Ok(Self(Images::new(node, &window, channels_last)?))
    }

    /// Calls `body` with the output's position, the start of the channel's image in the input, the
    /// number of the image, and the output's place in its own.
    fn for_each(&self, mut body: impl FnMut(usize, usize, usize, [usize; 3])) {
        let Images {
            batches,
            channels,
            slides: [depths, heights, widths],
            x,
            y,
            ..
        } = self.0;
        for (batch, channel) in pairs(batches, channels) {
            let from = batch * x.batch + channel * x.channel;
            let to = batch * y.batch + channel * y.channel;
            for (d, h) in pairs(depths.output, heights.output) {
                for w in 0..widths.output {
                    stop::checkpoint();
                    let at = [d, h, w];
                    body(to + y.at(at), from, batch * channels + channel, at);
                }
            }
        }
    }

    /// The places in the input's image that a window sees.
    fn seen(&self, [d, h, w]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
        let [depths, heights, widths] = self.0.slides;
        let inside = [depths.seen(d), heights.seen(h), widths.seen(w)];
        let [ds, hs, ws] = inside.map(|range| (range.start, range.len()));
        pairs(ds.1, hs.1).flat_map(move |(kd, kh)| {
            (0..ws.1).filter_map(move |kw| {
                Some([
                    depths.source(d, ds.0 + kd)?,
                    heights.source(h, hs.0 + kh)?,
                    widths.source(w, ws.0 + kw)?,
                ])
            })
        })
    }

    /// Elements of a window, padding included; what lies behind the padding is not.
    fn padded(&self, at: [usize; 3]) -> usize {
        let slides = self.0.slides.iter().zip(at);
        slides.map(|(slide, at)| slide.padded(at)).product()
    }
}

fn max_pool(node: &Node<'_>, channels_last: bool) -> Result<Kernel, Stop> {
    let pool = Pool::new(node, channels_last)?;
    let by_columns = node.attributes.flag("storage_order", false)?;
    let [depth, height, width] = pool.0.slides.map(|slide| slide.input);
    let image = depth * height * width;
    let place = move |[d, h, w]: [usize; 3]| {
        if by_columns {
            (w * height + h) * depth + d
        } else {
            (d * height + h) * width + w
        }
    };
    numbers!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let from = inputs.slice::<T>(0)?;
        let mut to = outputs.optional::<T>(0)?;
        let mut places = outputs.optional::<i64>(1)?;
        pool.for_each(|out, start, nth, at| {
            let mut best = T::LOWEST;
            let mut best_at = None;
            for at in pool.seen(at) {
                let value = from[start + pool.0.x.at(at)];
                // NaN wins and stays.
                let better = value > best || (value.wide().is_nan() && !best.wide().is_nan());
                if better || best_at.is_none() {
                    (best, best_at) = (value, Some(at));
                }
            }
            if let Some(to) = &mut to {
                to[out] = best;
            }
            if let Some(places) = &mut places {
                places[out] = best_at.map_or(-1, |at| (nth * image + place(at)) as i64);
            }
        });
        Ok(())
    })))
}

fn average_pool(node: &Node<'_>, channels_last: bool) -> Result<Kernel, Stop> {
    let pool = Pool::new(node, channels_last)?;
    let padding_counts = node.attributes.flag("count_include_pad", false)?;
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        pool.for_each(|out, start, _, at| {
            let (mut sum, mut count) = (0.0, 0);
            for at in pool.seen(at) {
                sum += from[start + pool.0.x.at(at)].to_f64();
                count += 1;
            }
            let count = if padding_counts { pool.padded(at) } else { count };
            to[out] = T::from_f64(sum / count as f64);
        });
        Ok(())
    })))
}

fn lp_pool(node: &Node<'_>) -> Result<Kernel, Stop> {
    let pool = Pool::new(node, false)?;
    let p = exponent(node)?;
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        pool.for_each(|out, start, _, at| {
            let value = |at| from[start + pool.0.x.at(at)].to_f64().abs().powf(p);
            to[out] = T::from_f64(pool.seen(at).map(value).sum::<f64>().powf(1.0 / p));
        });
        Ok(())
    })))
}

/// All of a channel is one window.
fn global(
    node: &Node<'_>,
    step: impl Fn(f64, f64) -> f64 + Send + Sync + 'static,
    finish: impl Fn(f64, f64) -> f64 + Send + Sync + 'static,
) -> Result<Kernel, Stop> {
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

fn global_max(node: &Node<'_>) -> Result<Kernel, Stop> {
    let lanes = Lanes::new(node.shape(0)?, |axis| axis > 1);
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        lanes.starts.for_each(|[out, start]| {
            let mut best = f64::NEG_INFINITY;
            lanes.lane.for_each(|[at]| best = best.greatest(from[start + at].to_f64()));
            to[out] = T::from_f64(best);
        });
        Ok(())
    })))
}

/// Positions are those that MaxPool counted in an output of the extents that the attributes imply.
/// A greater `output_shape` is that one's plane with zeros around it, at the ends.
fn max_unpool(node: &Node<'_>) -> Result<Kernel, Stop> {
    let (x, out) = (node.shape(0)?, node.output(0)?.shape());
    let kernel: Vec<usize> = node
        .attributes
        .ints("kernel_shape")?
        .unwrap_or_default()
        .iter()
        .map(|&extent| extent.max(0) as usize)
        .collect();
    let window = Window::transposed(node.attributes, &x[2..], &kernel)?;
    let counted: Vec<usize> = x[..2].iter().chain(&window.output).copied().collect();
    if counted
        .iter()
        .zip(&**out)
        .any(|(counted, out)| counted > out)
    {
        return Err(invalid("input 'output_shape' is smaller than what was pooled").into());
    }
    let strides = out.strides();
    let room: usize = counted.iter().product();
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, places) = (inputs.slice::<T>(0)?, inputs.slice::<i64>(1)?);
        let to = outputs.slice::<T>(0)?;
        to.fill(T::default());
        for (&value, &place) in from.iter().zip(places) {
            let mut rest = usize::try_from(place).ok().filter(|&at| at < room).ok_or_else(|| {
                Error::new(ErrorKind::OutOfBounds, "a position lies outside the output")
                    .expected(format_args!("0 to {}", room as i64 - 1))
                    .found(place)
            })?;
            let mut at = 0;
            for (extent, stride) in counted.iter().zip(&strides).rev() {
                at += rest % extent * stride;
                rest /= extent;
            }
            to[at] = value;
        }
        Ok(())
    })))
}
