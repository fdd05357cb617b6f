//! Resizing.

use super::rows::*;
use super::shapes::{Inferred, choice, one};
use crate::Inference;
use crate::geometry::resize_axes;

operators! { "resize"
    /// The input resized to other extents. `scales` or `sizes` have one value for each dimension of
    /// `axes`; `roi` (starts, then ends, from 0 to 1) is for mode tf_crop_and_resize only.
    Compute "Resize"
        (required("X", PLAIN), known(optional("roi", FLOATS)), known(optional("scales", F32)),
         known(optional("sizes", I64)))
        -> (required("Y", PLAIN))
        [
            int("antialias", "1: linear and cubic widen their kernel when shrinking; default 0"),
            ints("axes", "the dimensions that are resized; default all"),
            string(
                "coordinate_transformation_mode",
                "half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric \
                 or tf_crop_and_resize; default half_pixel"
            ),
            float("cubic_coeff_a", "the coefficient of mode cubic; default -0.75"),
            int("exclude_outside", "1: weights outside the input are 0; default 0"),
            float("extrapolation_value", "the value outside, tf_crop_and_resize only; default 0"),
            string(
                "keep_aspect_ratio_policy",
                "the policy for `sizes`: stretch, not_larger or not_smaller; default stretch"
            ),
            string("mode", "nearest, linear or cubic; default nearest"),
            string(
                "nearest_mode",
                "round_prefer_floor, round_prefer_ceil, floor or ceil; default round_prefer_floor"
            ),
        ] resize;
}

fn resize(node: &Inference<'_>) -> Inferred {
    choice(node, "mode", "nearest", &["nearest", "linear", "cubic"])?;
    let modes = [
        "half_pixel",
        "half_pixel_symmetric",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "tf_crop_and_resize",
    ];
    choice(node, "coordinate_transformation_mode", "half_pixel", &modes)?;
    let rounding = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"];
    choice(node, "nearest_mode", "round_prefer_floor", &rounding)?;
    let shape: Vec<usize> = resize_axes(node)?.iter().map(|axis| axis.output).collect();
    one(node.input(0)?.dtype(), shape)
}
