//! Image operators: grid sampling, pooling of regions of interest, col2im.

use crate::convolution::{WindowAxis, pairs};
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, position, unsupported, unsupported_value,
};
use crate::number::Number;
use tenon_backend::Reason;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::geometry::Window;

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
    let [_, height, width] = spatial;
    let at = move |axis: usize, nth: usize| match (corners, spatial[axis]) {
        (true, 1) => 0.0,
        (true, extent) => 2.0 * nth as f64 / (extent - 1) as f64 - 1.0,
        (false, extent) => (2 * nth + 1) as f64 / extent as f64 - 1.0,
    };
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let theta = inputs.slice::<T>(0)?;
        let points = spatial.iter().product::<usize>();
        for (nth, to) in outputs.slice::<T>(0)?.chunks_exact_mut(rank).enumerate() {
            let (batch, point) = (nth / points, nth % points);
            let (z, y, x) = (point / width / height, point / width % height, point % width);
            let coordinates = [at(2, x), at(1, y), at(0, z)];
            let theta = &theta[batch * rank * (rank + 1)..][..rank * (rank + 1)];
            for (to, row) in to.iter_mut().zip(theta.chunks_exact(rank + 1)) {
                let moved: f64 = row.iter().zip(coordinates).take(rank).map(|(t, x)| t.to_f64() * x).sum();
                *to = T::from_f64(moved + row[rank].to_f64());
            }
        }
        Ok(())
    })))
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Sampling {
    Nearest,
    Linear,
    Cubic,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// One axis of a sampled image.
#[derive(Debug, Clone, Copy)]
struct SampledAxis {
    extent: usize,
    corners: bool,
    padding: Padding,
}

impl SampledAxis {
    /// From [-1, 1] to pixels.
    fn pixel(&self, x: f64) -> f64 {
        let extent = self.extent as f64;
        if self.corners {
            (x + 1.0) / 2.0 * (extent - 1.0)
        } else {
            ((x + 1.0) * extent - 1.0) / 2.0
        }
    }

    fn border(&self) -> [f64; 2] {
        let extent = self.extent as f64;
        if self.corners {
            [0.0, extent - 1.0]
        } else {
            [-0.5, extent - 0.5]
        }
    }

    /// Reflects a coordinate at the borders until it is between them.
    fn reflected(&self, x: f64) -> f64 {
        let [low, high] = self.border();
        let span = high - low;
        if span <= 0.0 || !x.is_finite() {
            return 0.0;
        }
        let over = (x - low).rem_euclid(2.0 * span);
        low + if over > span { 2.0 * span - over } else { over }
    }

    /// The coordinate after padding by border or reflection.
    fn padded(&self, x: f64) -> f64 {
        let [low, high] = self.border();
        match self.padding {
            _ if (low..=high).contains(&x) => x,
            Padding::Zeros => x,
            Padding::Border if x.is_nan() => 0.0,
            Padding::Border => x.clamp(0.0, self.extent as f64 - 1.0),
            Padding::Reflection => self.reflected(x),
        }
    }

    /// The pixel at an integer coordinate; `None` in zero padding.
    fn pixel_at(&self, at: f64) -> Option<usize> {
        let last = self.extent as f64 - 1.0;
        let at = match self.padding {
            Padding::Zeros => at,
            Padding::Border => at.clamp(0.0, last),
            Padding::Reflection if (0.0..=last).contains(&at) => at,
            Padding::Reflection => self.reflected(at).trunc().clamp(0.0, last),
        };
        (0.0..=last).contains(&at).then_some(at as usize)
    }

    /// The pixels around a coordinate, and their weights.
    fn weights(&self, sampling: Sampling, x: f64) -> [(Option<usize>, f64); 4] {
        let mut pixels = [(None, 0.0); 4];
        if sampling == Sampling::Nearest {
            pixels[0] = (self.pixel_at(self.padded(x.round_ties_even())), 1.0);
            return pixels;
        }
        let x = self.padded(x);
        let below = x.floor();
        let ratio = x - below;
        let (first, weights) = match sampling {
            Sampling::Cubic => (-1.0, cubic(ratio)),
            _ => (0.0, [1.0 - ratio, ratio, 0.0, 0.0]),
        };
        for (nth, weight) in weights
            .into_iter()
            .enumerate()
            .filter(|(_, weight)| *weight != 0.0)
        {
            pixels[nth] = (self.pixel_at(below + first + nth as f64), weight);
        }
        pixels
    }
}

/// Weights of the cubic convolution kernel (Keys 1981) with coefficient -0.75.
fn cubic(ratio: f64) -> [f64; 4] {
    const A: f64 = -0.75;
    let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    [
        far(ratio + 1.0),
        near(ratio),
        near(1.0 - ratio),
        far(2.0 - ratio),
    ]
}

fn grid_sample(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (shape, out) = (node.shape(0)?, node.output(0)?.shape());
    let rank = shape.len() - 2;
    let extents = three(&shape[2..])?;
    let corners = node.attributes.flag("align_corners", false)?;
    let sampling = match node.attributes.string("mode", "linear")? {
        "linear" => Sampling::Linear,
        "nearest" => Sampling::Nearest,
        "cubic" => Sampling::Cubic,
        other => return Err(unsupported_value("mode", other)),
    };
    let padding = match node.attributes.string("padding_mode", "zeros")? {
        "zeros" => Padding::Zeros,
        "border" => Padding::Border,
        "reflection" => Padding::Reflection,
        other => return Err(unsupported_value("padding_mode", other)),
    };
    let axes = extents.map(|extent| SampledAxis {
        extent,
        corners,
        padding,
    });
    let [_, h, w] = extents;
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
                let axis = &axes[2 - nth];
                let at = grid.at((batch * points + point) * rank + nth);
                pixels[2 - nth] = axis.weights(sampling, axis.pixel(at));
            }
            for channel in 0..channels {
                let plane = &x[(batch * channels + channel) * image..][..image];
                let mut sum = 0.0;
                for (d, d_weight) in pixels[0] {
                    for (row, row_weight) in pixels[1] {
                        for (column, weight) in pixels[2] {
                            let (Some(d), Some(row), Some(column)) = (d, row, column) else {
                                continue;
                            };
                            let pixel = plane[(d * h + row) * w + column].to_f64();
                            sum += d_weight * row_weight * weight * pixel;
                        }
                    }
                }
                to[(batch * channels + channel) * points + point] = T::from_f64(sum);
            }
        }
        Ok(())
    })))
}

/// Most samples along a side of a cell: bounds the time of a region that is read at run time.
const MAX_SAMPLES: f64 = 65536.0;

/// One side of a region: its start, the size of a cell, and the samples of a cell.
fn side(start: f64, end: f64, cells: usize, ratio: usize, least: f64) -> Result<(f64, f64, usize)> {
    let cell = (end - start).max(least) / cells as f64;
    let samples = if ratio > 0 {
        ratio as f64
    } else {
        cell.ceil().max(0.0)
    };
    if !(start.is_finite() && samples <= MAX_SAMPLES) {
        return Err(
            Error::new(ErrorKind::OutOfBounds, "a region is too large or NaN")
                .expected(format_args!(
                    "at most {MAX_SAMPLES} samples along a side of a cell"
                ))
                .found(format_args!("{start} to {end}")),
        );
    }
    Ok((start, cell, samples as usize))
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
    let mode = attributes.string("coordinate_transformation_mode", "half_pixel")?;
    // Without the shift by half a pixel, regions have at least the size of a pixel.
    let (shift, least) = if mode == "half_pixel" {
        (0.5, f64::MIN)
    } else {
        (0.0, 1.0)
    };
    let greatest = attributes.string("mode", "avg")? == "max";
    let ratio = attributes.int("sampling_ratio", 0)?.max(0) as usize;
    let scale = f64::from(attributes.float("spatial_scale", 1.0)?);
    if height * width == 0 {
        return Err(unsupported("no kernel for images without pixels"));
    }
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, rois, of) =
            (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?, inputs.slice::<i64>(2)?);
        let to = outputs.slice::<T>(0)?;
        for region in 0..regions {
            let image = position(of[region], images)?;
            let corner = |nth: usize| rois[region * 4 + nth].to_f64() * scale - shift;
            let (left, wide, across) = side(corner(0), corner(2), columns, ratio, least)?;
            let (top, high, down) = side(corner(1), corner(3), rows, ratio, least)?;
            for (channel, cell) in pairs(channels, rows * columns) {
                let plane = &x[(image * channels + channel) * height * width..][..height * width];
                let (mut sum, mut best) = (0.0, f64::NEG_INFINITY);
                for (iy, ix) in pairs(down, across) {
                    let inside = |nth: usize, count: usize| (nth as f64 + 0.5) / count as f64;
                    let y = top + ((cell / columns) as f64 + inside(iy, down)) * high;
                    let x = left + ((cell % columns) as f64 + inside(ix, across)) * wide;
                    for (at, weight) in around([height, width], y, x) {
                        let value = weight * plane[at].to_f64();
                        sum += value;
                        best = best.max(value);
                    }
                }
                let samples = (down * across).max(1);
                let value = match (greatest, best) {
                    (false, _) => sum / samples as f64,
                    (true, f64::NEG_INFINITY) => 0.0,
                    (true, best) => best,
                };
                to[(region * channels + channel) * rows * columns + cell] = T::from_f64(value);
            }
        }
        Ok(())
    })))
}

/// A kernel of an empty output.
fn empty_output() -> Kernel {
    Kernel::new(|_| Ok(()))
}

/// Regions are rounded to pixels; cells overlap where they are not divisible.
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
    // The pixels of a cell along one side.
    let cell = |start: f64, end: f64, nth: usize, cells: usize, extent: usize| {
        let size = (end - start + 1.0).max(1.0) / cells as f64;
        let pixel = |at: f64| (at + start).clamp(0.0, extent as f64) as usize;
        pixel((nth as f64 * size).floor())..pixel(((nth + 1) as f64 * size).ceil())
    };
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, rois) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let to = outputs.slice::<T>(0)?;
        for region in 0..regions {
            let image = position(rois[region * 5].to_f64() as i64, images)?;
            let corner = |nth: usize| (rois[region * 5 + nth].to_f64() * scale).round();
            for (channel, at) in pairs(channels, rows * columns) {
                let plane = &x[(image * channels + channel) * height * width..][..height * width];
                let mut best = None;
                for row in cell(corner(2), corner(4), at / columns, rows, height) {
                    for column in cell(corner(1), corner(3), at % columns, columns, width) {
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

/// Computes each pixel from the blocks that contain it.
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
    let planes = out[0] * out[1];
    let [_, rows, columns] = axes;
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        for (plane, pixel) in pairs(planes, pixels) {
            let coordinates = [
                pixel / columns.output / rows.output,
                pixel / columns.output % rows.output,
                pixel % columns.output,
            ];
            let mut sum = 0.0;
            for position in 0..kernel_positions {
                let element = [
                    position / columns.kernel / rows.kernel,
                    position / columns.kernel % rows.kernel,
                    position % columns.kernel,
                ];
                let origin = |axis: usize| axes[axis].origin(coordinates[axis], element[axis]);
                let (Some(d), Some(h), Some(w)) = (origin(0), origin(1), origin(2)) else {
                    continue;
                };
                let block = (d * rows.input + h) * columns.input + w;
                sum += from[(plane * kernel_positions + position) * blocks + block].to_f64();
            }
            to[plane * pixels + pixel] = T::from_f64(sum);
        }
        Ok(())
    })))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_reflect_at_borders() {
        let axis = SampledAxis {
            extent: 3,
            corners: true,
            padding: Padding::Reflection,
        };
        let pixels: Vec<_> = (-3..6)
            .map(|at| axis.pixel_at(f64::from(at)).unwrap())
            .collect();
        assert_eq!(pixels, [1, 2, 1, 0, 1, 2, 1, 0, 1]);
        assert_eq!(axis.padded(f64::NAN), 0.0);
    }

    #[test]
    fn regions_of_too_many_samples_are_refused() {
        assert!(side(0.0, 1e30, 1, 0, 0.0).is_err());
        assert!(side(f64::NAN, 1.0, 1, 2, 0.0).is_err());
        assert_eq!(side(1.0, 5.0, 2, 0, 0.0).unwrap(), (1.0, 2.0, 2));
    }
}
