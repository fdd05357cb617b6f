//! Resizing of images to the height and width of input 1.

use crate::model::invalid;
use crate::node::Operation;
use crate::proto::{self, Attributes};
use tenon_base::Result;

/// How positions of the output become positions of the input.
fn coordinates(align_corners: bool, half_pixel: bool) -> Result<&'static str> {
    match (align_corners, half_pixel) {
        (false, false) => Ok("asymmetric"),
        (true, false) => Ok("align_corners"),
        (false, true) => Ok("half_pixel"),
        (true, true) => Err(invalid(
            "a resize with both align_corners and half_pixel_centers",
        )),
    }
}

pub(super) fn bilinear(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_resize_bilinear_options();
    let (align, half) = options.map_or((false, false), |it| {
        (it.align_corners(), it.half_pixel_centers())
    });
    op.expect_rank(0, 4)?;
    let x = op.image(0)?;
    let attributes = vec![
        proto::text("mode", "linear"),
        proto::text("coordinate_transformation_mode", coordinates(align, half)?),
    ];
    let y = resized(op, x, attributes)?;
    op.set_image(0, y, 4)
}

pub(super) fn nearest(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op
        .operator
        .builtin_options_as_resize_nearest_neighbor_options();
    let (align, half) = options.map_or((false, false), |it| {
        (it.align_corners(), it.half_pixel_centers())
    });
    op.expect_rank(0, 4)?;
    // The floor of positions that half_pixel shifts by a half is rounding.
    let rounding = if align || half {
        "round_prefer_ceil"
    } else {
        "floor"
    };
    let attributes = vec![
        proto::text("mode", "nearest"),
        proto::text("coordinate_transformation_mode", coordinates(align, half)?),
        proto::text("nearest_mode", rounding),
    ];
    if op.has_one_form(&[0], &[0])? {
        let x = op.stored_image(0)?;
        let y = resized(op, x, attributes)?;
        return op.set_stored_image(0, y, 4);
    }
    let x = op.image(0)?;
    let y = resized(op, x, attributes)?;
    op.set_image(0, y, 4)
}

fn resized(op: &mut Operation<'_, '_>, x: String, mut attributes: Attributes) -> Result<String> {
    attributes.push(proto::ints("axes", vec![2, 3]));
    let size = op.i64_list(1)?;
    op.emit("Resize", &[&x, "", "", &size], attributes)
}
