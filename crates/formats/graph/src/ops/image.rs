//! Images: sampling at computed positions, regions, sums of blocks.

use super::movement::listed;
use super::rows::*;
use super::shapes::{
    Inferred, choice, expect_shape, invalid, one, positive, rank, same_dtype, too_large,
};
use crate::Inference;
use crate::geometry::Window;
use tenon_tensor::Shape;

operators! { "image"
    /// The positions in [-1, 1] to which the matrices theta, [N, 2, 3] or [N, 3, 4], map the pixels of
    /// an image of extents `size`: [N, H, W, 2] or [N, D, H, W, 3].
    Compute "AffineGrid" (required("theta", FLOATS), known(required("size", I64)))
        -> (required("grid", FLOATS))
        [int("align_corners", "1: -1 and 1 are centres of corner pixels; default 0")] affine_grid;
    /// The image X [N, C, spatial...] at the positions of grid [N, spatial..., rank].
    Compute "GridSample" (required("X", FLOATS), required("grid", FLOATS))
        -> (required("Y", FLOATS))
        [
            int("align_corners", "1: -1 and 1 are centres of corner pixels; default 0"),
            string("mode", "linear, nearest or cubic; default linear"),
            string("padding_mode", "zeros, border or reflection; default zeros"),
        ] grid_sample;
    /// Regions [R, 4] of images X [N, C, H, W], each sampled to output_height by output_width.
    Compute "RoiAlign"
        (required("X", FLOATS), required("rois", FLOATS), required("batch_indices", I64))
        -> (required("Y", FLOATS))
        [
            string(
                "coordinate_transformation_mode",
                "half_pixel or output_half_pixel; default half_pixel"
            ),
            string("mode", "avg or max; default avg"),
            int("output_height", "default 1"),
            int("output_width", "default 1"),
            int("sampling_ratio", "samples along each side of a cell, at most 64; 0: adaptive; default 0"),
            float("spatial_scale", "scale from coordinates of regions to those of X; default 1"),
        ] roi_align;
    /// Regions [R, 5] (image, x1, y1, x2, y2) of X [N, C, H, W], the maximum of each cell.
    Compute "MaxRoiPool" (required("X", FLOATS), required("rois", FLOATS))
        -> (required("Y", FLOATS))
        [
            must(ints("pooled_shape", "height and width of the output")),
            float("spatial_scale", "scale from coordinates of regions to those of X; default 1"),
        ] max_roi_pool;
    /// Blocks [N, C prod(block), L] summed to an image [N, C, spatial...].
    Compute "Col2Im"
        (required("input", FLOATS), known(required("image_shape", I64)),
         known(required("block_shape", I64)))
        -> (required("output", FLOATS))
        [
            ints("dilations", "distance between elements of a block; default 1s"),
            ints("pads", "padding before each spatial dimension, then after each; default 0s"),
            ints("strides", "distance between blocks; default 1s"),
        ] col2im;
}

fn affine_grid(node: &Inference<'_>) -> Inferred {
    let theta = node.input(0)?;
    let size = listed(node, 1, "size")?;
    if size.len() != 4 && size.len() != 5 {
        return Err(invalid("input 'size' has the wrong length")
            .expected("4 or 5")
            .found(size.len()));
    }
    let spatial = size.len() - 2;
    expect_shape(theta, "theta", &[size[0], spatial, spatial + 1])?;
    one(theta.dtype(), [&size[..1], &size[2..], &[spatial]].concat())
}

fn grid_sample(node: &Inference<'_>) -> Inferred {
    choice(node, "mode", "linear", &["linear", "nearest", "cubic"])?;
    choice(
        node,
        "padding_mode",
        "zeros",
        &["zeros", "border", "reflection"],
    )?;
    let (x, grid) = (node.input(0)?, node.input(1)?);
    let dims = rank(x, "X", 3..=usize::MAX)?;
    rank(grid, "grid", dims..=dims)?;
    let spatial = &grid.shape()[1..dims - 1];
    expect_shape(
        grid,
        "grid",
        &[&x.shape()[..1], spatial, &[dims - 2]].concat(),
    )?;
    one(x.dtype(), [&x.shape()[..2], spatial].concat())
}

fn roi_align(node: &Inference<'_>) -> Inferred {
    choice(node, "mode", "avg", &["avg", "max"])?;
    let modes = ["half_pixel", "output_half_pixel"];
    choice(node, "coordinate_transformation_mode", "half_pixel", &modes)?;
    let dtype = same_dtype(node, &["X", "rois"])?;
    let (x, rois) = (node.input(0)?, node.input(1)?);
    rank(x, "X", 4..=4)?;
    rank(rois, "rois", 2..=2)?;
    let regions = rois.shape()[0];
    expect_shape(rois, "rois", &[regions, 4])?;
    expect_shape(node.input(2)?, "batch_indices", &[regions])?;
    let height = positive(
        node.attributes.int("output_height", 1)?,
        "attribute 'output_height'",
    )?;
    let width = positive(
        node.attributes.int("output_width", 1)?,
        "attribute 'output_width'",
    )?;
    // The square of it is the work for each output element, whatever the size of the image.
    let ratio = node.attributes.int("sampling_ratio", 0)?;
    if ratio > SAMPLING_RATIO {
        return Err(invalid("attribute 'sampling_ratio' is too large")
            .expected(format_args!("at most {SAMPLING_RATIO}"))
            .found(ratio));
    }
    one(dtype, [regions, x.shape()[1], height, width])
}

/// Most samples along each side of a cell of RoiAlign; models have 0 to 4.
const SAMPLING_RATIO: i64 = 64;

fn max_roi_pool(node: &Inference<'_>) -> Inferred {
    let dtype = same_dtype(node, &["X", "rois"])?;
    let (x, rois) = (node.input(0)?, node.input(1)?);
    rank(x, "X", 4..=4)?;
    rank(rois, "rois", 2..=2)?;
    let regions = rois.shape()[0];
    expect_shape(rois, "rois", &[regions, 5])?;
    let &[height, width] = node.attributes.ints("pooled_shape")?.unwrap_or_default() else {
        return Err(invalid("attribute 'pooled_shape' has the wrong length").expected(2));
    };
    let height = positive(height, "attribute 'pooled_shape'")?;
    let width = positive(width, "attribute 'pooled_shape'")?;
    one(dtype, [regions, x.shape()[1], height, width])
}

fn col2im(node: &Inference<'_>) -> Inferred {
    let input = node.input(0)?;
    rank(input, "input", 3..=3)?;
    let (image, block) = (
        listed(node, 1, "image_shape")?,
        listed(node, 2, "block_shape")?,
    );
    let window = Window::sliding(node.attributes, &image, &block)?;
    let count = |dims: &[usize], name: &str| {
        Shape::new(dims)
            .checked_elements()
            .ok_or_else(|| too_large(name, format_args!("{dims:?}")))
    };
    let elements = count(&block, "input 'block_shape'")?;
    let blocks = count(&window.output, "the number of blocks")?;
    let [batch, columns, length] = [input.shape()[0], input.shape()[1], input.shape()[2]];
    if !columns.is_multiple_of(elements) || length != blocks {
        return Err(invalid("input 'input' has the wrong shape")
            .expected(format_args!("[N, C x {elements}, {blocks}]"))
            .found(input.shape()));
    }
    one(
        input.dtype(),
        [&[batch, columns / elements], &*image].concat(),
    )
}
