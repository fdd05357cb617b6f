//! Image operators: grid sampling, pooling of regions of interest, col2im.

use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, position, scratch, unsupported,
};
use crate::loop_nest::pairs;
use crate::number::Number;
use crate::sliding_window::WindowAxis;
use tenon_backend::Reason;
use tenon_base::{Result, stop};
use tenon_graph::geometry::{RegionSampling, SampledAxis, Window, pooled_pixels};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("AffineGrid", affine_grid),
    ("GridSample", grid_sample),
    ("RoiAlign", roi_align),
    ("MaxRoiPool", max_roi_pool),
    ("Col2Im", col2im),
];

/// Extents of one to three spatial dimensions, extended to three by leading ones.
fn three(spatial: &[usize]) -> Result<[usize; 3], BuildError> {
    match *spatial {
        [w] => Ok([1, 1, w]),
        [h, w] => Ok([1, h, w]),
        [d, h, w] => Ok([d, h, w]),
        _ => Err(Reason::InputRank {
            input: 0,
            found: spatial.len() + 2,
        }
        .into()),
    }
}

/// theta times (x, y, z, 1), where x is along the last dimension.
fn affine_grid(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let out = node.output(0)?.shape();
    let corners = node.attributes.flag("align_corners", false)?;
    let rank = out.len() - 2;
    let spatial = three(&out[1..=rank])?;
    let [depth, height, width] = spatial;
    let at = move |axis: usize, nth: usize| match (corners, spatial[axis]) {
        (true, 1) => 0.0,
        (true, extent) => 2.0 * nth as f64 / (extent - 1) as f64 - 1.0,
        (false, extent) => (2 * nth + 1) as f64 / extent as f64 - 1.0,
    };
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let theta = inputs.slice::<T>(0)?;
        let rows = outputs.slice::<T>(0)?.chunks_exact_mut(width * rank);
        for (row, to) in rows.enumerate() {
            stop::checkpoint();
            let (batch, z, y) = (row / height / depth, row / height % depth, row % height);
            let theta = &theta[batch * rank * (rank + 1)..][..rank * (rank + 1)];
            let others = [at(1, y), at(0, z)];
            for (nth, line) in theta.chunks_exact(rank + 1).enumerate() {
                let others = line[1..rank].iter().zip(others).map(|(t, x)| t.to_f64() * x);
                let rest = others.sum::<f64>() + line[rank].to_f64();
                let slope = line[0].to_f64();
                for (x, to) in to[nth..].iter_mut().step_by(rank).enumerate() {
                    *to = T::of_f64(slope * at(2, x) + rest);
                }
            }
        }
        Ok(())
    })))
}

fn grid_sample(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (shape, out) = (node.shape(0)?, node.output(0)?.shape());
    let rank = shape.len() - 2;
    let extents = three(&shape[2..])?;
    let axis = |extent| SampledAxis::new(node.attributes, extent);
    let [d, h, w] = extents;
    let axes = [axis(d)?, axis(h)?, axis(w)?];
    let image: usize = extents.iter().product();
    let points: usize = out[2..].iter().product();
    let (batches, channels) = (shape[0], shape[1]);
    if image == 0 && points > 0 {
        return Err(unsupported("no kernel for images without pixels"));
    }
    let dtype = node.dtype(1)?;
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let x = inputs.slice::<T>(0)?;
        let grid = crate::elements::Elements::new(&inputs, 1, dtype)?;
        let to = outputs.slice::<T>(0)?;
        for (batch, point) in pairs(batches, points) {
            // Coordinates of the grid start with the last dimension; a missing dimension has one pixel.
            let mut pixels = [[(Some(0), 1.0), (None, 0.0), (None, 0.0), (None, 0.0)]; 3];
            for nth in 0..rank {
                let at = grid.at((batch * points + point) * rank + nth);
                pixels[2 - nth] = axes[2 - nth].weights(at);
            }
            // At most four pixels along each of three axes.
            let (mut samples, mut count) = ([(0, 0.0); 64], 0);
            for (d, d_weight) in pixels[0] {
                for (row, row_weight) in pixels[1] {
                    for (column, weight) in pixels[2] {
                        if let (Some(d), Some(row), Some(column)) = (d, row, column) {
                            samples[count] = ((d * h + row) * w + column, d_weight * row_weight * weight);
                            count += 1;
                        }
                    }
                }
            }
            for channel in 0..channels {
                let plane = &x[(batch * channels + channel) * image..][..image];
                let terms = samples[..count].iter().map(|&(at, weight)| weight * plane[at].to_f64());
                let sum: f64 = terms.sum();
                to[(batch * channels + channel) * points + point] = T::of_f64(sum);
            }
        }
        Ok(())
    })))
}

/// The four pixels around a sample and their bilinear weights; all weights are 0 outside of the image.
fn around([h, w]: [usize; 2], y: f64, x: f64) -> [(usize, f64); 4] {
    if !((-1.0..=h as f64).contains(&y) && (-1.0..=w as f64).contains(&x)) {
        return [(0, 0.0); 4];
    }
    let axis = |at: f64, extent: usize| -> (usize, usize, f64) {
        let at = at.max(0.0);
        let low = at as usize;
        if low + 1 >= extent {
            (extent - 1, extent - 1, 0.0)
        } else {
            (low, low + 1, at - low as f64)
        }
    };
    let ((top, bottom, y), (left, right, x)) = (axis(y, h), axis(x, w));
    [
        (top * w + left, (1.0 - y) * (1.0 - x)),
        (top * w + right, (1.0 - y) * x),
        (bottom * w + left, y * (1.0 - x)),
        (bottom * w + right, y * x),
    ]
}

fn roi_align(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let [images, channels, height, width] = **node.shape(0)? else {
        return Err(Reason::InputRank {
            input: 0,
            found: node.shape(0)?.len(),
        }
        .into());
    };
    let [regions, _, rows, columns] = **node.output(0)?.shape() else {
        return Ok(empty_output());
    };
    let attributes = node.attributes;
    let sampling = RegionSampling::new(attributes)?;
    let greatest = attributes.string("mode", "avg")? == "max";
    if height * width == 0 {
        return Err(unsupported("no kernel for images without pixels"));
    }
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, rois, of) =
            (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?, inputs.slice::<i64>(2)?);
        let to = outputs.slice::<T>(0)?;
        let totals = scratch::<f64>(&mut outputs, channels)?;
        for region in 0..regions {
            let image = position(of[region], images)?;
            let corner = |nth: usize| rois[region * 4 + nth].to_f64();
            let across = sampling.side(corner(0), corner(2), columns)?;
            let down = sampling.side(corner(1), corner(3), rows)?;
            let planes = &x[image * channels * height * width..];
            for cell in 0..rows * columns {
                let start = if greatest { f64::NEG_INFINITY } else { 0.0 };
                totals.fill(start);
                for (iy, ix) in pairs(down.samples(), across.samples()) {
                    let y = down.sample(cell / columns, iy);
                    let x = across.sample(cell % columns, ix);
                    let pixels = around([height, width], y, x);
                    for (total, plane) in totals.iter_mut().zip(planes.chunks_exact(height * width)) {
                        let values = pixels.map(|(at, weight)| weight * plane[at].to_f64());
                        *total = if greatest {
                            values.into_iter().fold(*total, f64::max)
                        } else {
                            *total + values.iter().sum::<f64>()
                        };
                    }
                }
                let samples = (down.samples() * across.samples()).max(1);
                for (channel, &total) in totals.iter().enumerate() {
                    let value = match (greatest, total) {
                        (false, _) => total / samples as f64,
                        (true, f64::NEG_INFINITY) => 0.0,
                        (true, best) => best,
                    };
                    to[(region * channels + channel) * rows * columns + cell] = T::of_f64(value);
                }
            }
        }
        Ok(())
    })
    .with_scratch(channels))
}

/// A kernel of an empty output.
fn empty_output() -> Kernel {
    Kernel::new(|_| Ok(()))
}

/// Regions are rounded to pixels, scaled in the type of their elements.
fn max_roi_pool(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let [images, channels, height, width] = **node.shape(0)? else {
        return Err(Reason::InputRank {
            input: 0,
            found: node.shape(0)?.len(),
        }
        .into());
    };
    let [regions, _, rows, columns] = **node.output(0)?.shape() else {
        return Ok(empty_output());
    };
    let scale = f64::from(node.attributes.float("spatial_scale", 1.0)?);
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, rois) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let to = outputs.slice::<T>(0)?;
        for region in 0..regions {
            let image = position(rois[region * 5].to_f64() as i64, images)?;
            let scaled = |nth: usize| T::of_f64(rois[region * 5 + nth].to_f64() * scale);
            let corner = |nth: usize| scaled(nth).to_f64().round();
            for (channel, at) in pairs(channels, rows * columns) {
                let plane = &x[(image * channels + channel) * height * width..][..height * width];
                let mut best = None;
                for row in pooled_pixels([corner(2), corner(4)], at / columns, rows, height) {
                    for column in pooled_pixels([corner(1), corner(3)], at % columns, columns, width) {
                        let value = plane[row * width + column];
                        best = Some(best.map_or(value, |best| if value > best { value } else { best }));
                    }
                }
                to[(region * channels + channel) * rows * columns + at] = best.unwrap_or_default();
            }
        }
        Ok(())
    })))
}

/// Adds the elements of all blocks to a plane in the scratch memory.
fn col2im(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let out = node.output(0)?.shape();
    let extents = |index| -> Result<Vec<usize>, BuildError> {
        Ok(node
            .ints(index)?
            .unwrap_or_default()
            .iter()
            .map(|&at| at.max(0) as usize)
            .collect())
    };
    let window = Window::sliding(node.attributes, &extents(1)?, &extents(2)?)?;
    let axes = window_axes(&window, &out[2..])?;
    let kernel_positions: usize = axes.iter().map(|axis| axis.kernel).product();
    let blocks: usize = axes.iter().map(|axis| axis.input).product();
    let pixels: usize = out[2..].iter().product();
    let [_, rows, columns] = axes;
    // The pixel of an element of a block along an axis; `None` in the padding.
    let pixel = move |axis: usize, block: usize, element: usize| {
        let WindowAxis {
            stride,
            dilation,
            before,
            output,
            ..
        } = axes[axis];
        let at = (block * stride + element * dilation).checked_sub(before)?;
        (at < output).then_some(at)
    };
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let sums = scratch::<f64>(&mut outputs, pixels)?;
        for (plane, to) in to.chunks_exact_mut(pixels).enumerate() {
            sums.fill(0.0);
            let from = &from[plane * kernel_positions * blocks..][..kernel_positions * blocks];
            for (line, from) in from.chunks_exact(columns.input.max(1)).enumerate() {
                stop::checkpoint();
                let lines = blocks / columns.input;
                let (element, block) = (line / lines, line % lines);
                let d = pixel(0, block / rows.input, element / columns.kernel / rows.kernel);
                let h = pixel(1, block % rows.input, element / columns.kernel % rows.kernel);
                let (Some(d), Some(h)) = (d, h) else {
                    continue;
                };
                let sums = &mut sums[(d * rows.output + h) * columns.output..][..columns.output];
                for (block, from) in from.iter().enumerate() {
                    if let Some(w) = pixel(2, block, element % columns.kernel) {
                        sums[w] += from.to_f64();
                    }
                }
            }
            to.iter_mut().zip(&*sums).for_each(|(to, &sum)| *to = T::of_f64(sum));
        }
        Ok(())
    })
    .with_scratch(pixels))
}

/// The window from blocks (input) to pixels (output).
fn window_axes(window: &Window, image: &[usize]) -> Result<[WindowAxis; 3], BuildError> {
    let pixels = three(image)?;
    let mut axes = pixels.map(|output| WindowAxis {
        output,
        ..WindowAxis::NONE
    });
    let first = 3 - window.rank();
    for axis in 0..window.rank() {
        axes[first + axis] = WindowAxis {
            input: window.output[axis],
            output: image[axis],
            kernel: window.kernel[axis],
            stride: window.strides[axis],
            dilation: window.dilations[axis],
            before: window.pads_begin[axis],
            after: window.pads_end[axis],
        };
    }
    Ok(axes)
}
