//! Pooling of images, and of volumes by custom operators.

use crate::flexbuffer::Options;
use crate::model::{invalid, unsupported};
use crate::node::Operation;
use crate::proto::{self, Attributes};
use crate::schema::tflite as schema;
use schema::{ActivationFunctionType as Activation, Padding};
use tenon_base::Result;
use tenon_onnx::proto::AttributeProto;

/// The attributes of padding: where the padding depends on the size, it is larger at the end.
pub(super) fn padding(padding: Padding) -> Result<AttributeProto> {
    match padding {
        Padding::SAME => Ok(proto::text("auto_pad", "SAME_UPPER")),
        Padding::VALID => Ok(proto::text("auto_pad", "VALID")),
        other => Err(invalid("the padding does not exist")
            .expected("SAME (0) or VALID (1)")
            .found(other.0)),
    }
}

/// The attributes of a window, and the activation.
fn window(op: &mut Operation<'_, '_>) -> Result<(Attributes, Activation)> {
    let options = op.operator.builtin_options_as_pool_2_doptions();
    let options =
        options.ok_or_else(|| unsupported("a pooling without options is not supported"))?;
    op.expect_rank(0, 4)?;
    let kernel = vec![
        options.filter_height().into(),
        options.filter_width().into(),
    ];
    let strides = vec![options.stride_h().into(), options.stride_w().into()];
    let attributes = vec![
        proto::ints("kernel_shape", kernel),
        proto::ints("strides", strides),
        padding(options.padding())?,
    ];
    Ok((attributes, options.fused_activation_function()))
}

/// The mean of the elements of a window inside the image.
pub(super) fn average(op: &mut Operation<'_, '_>) -> Result<()> {
    let (attributes, activation) = window(op)?;
    let x = op.image(0)?;
    let y = op.emit("AveragePool", &[&x], attributes)?;
    let y = op.activated(y, activation)?;
    op.set_image(0, y, 4)
}

/// The maximum of a window, of the integers of quantised images.
pub(super) fn max(op: &mut Operation<'_, '_>) -> Result<()> {
    let (attributes, activation) = window(op)?;
    let is_quantised = op.info(0)?.quantised().is_some();
    if activation == Activation::NONE && is_quantised && op.has_one_form(&[0], &[0])? {
        let x = op.stored_image(0)?;
        let y = op.emit("MaxPool", &[&x], attributes)?;
        return op.set_stored_image(0, y, 4);
    }
    let x = op.image(0)?;
    let y = op.emit("MaxPool", &[&x], attributes)?;
    let y = op.activated(y, activation)?;
    op.set_image(0, y, 4)
}

/// The root of the mean of squares.
pub(super) fn l2(op: &mut Operation<'_, '_>) -> Result<()> {
    let (attributes, activation) = window(op)?;
    let x = op.image(0)?;
    let squares = op.emit("Mul", &[&x, &x], Vec::new())?;
    let mean = op.emit("AveragePool", &[&squares], attributes)?;
    let y = op.emit("Sqrt", &[&mean], Vec::new())?;
    let y = op.activated(y, activation)?;
    op.set_image(0, y, 4)
}

/// A custom operator of volumes [N, D, H, W, C] with the options of TensorFlow's operator: `ksize`, `strides`, `padding` and
/// `data_format`.
pub(super) fn of_volumes(op: &mut Operation<'_, '_>, operator: &str) -> Result<()> {
    let bytes = op.operator.custom_options().map(|it| it.bytes());
    let options = Options::parse(bytes.unwrap_or_default())?;
    let sizes = |name: &str| match options.integers(name) {
        Some(&[1, depth, height, width, 1]) if depth.min(height).min(width) > 0 => {
            Ok(vec![depth, height, width])
        }
        found => Err(invalid(format!("option {name} is missing or out of range"))
            .expected("[1, depth, height, width, 1], all greater than 0")
            .found(format_args!("{:?}", found.unwrap_or_default()))),
    };
    let padding = match options.text("padding") {
        Some("SAME") => Padding::SAME,
        Some("VALID") => Padding::VALID,
        found => {
            let error = invalid("option padding is missing or unknown").expected("SAME or VALID");
            return Err(error.found(format_args!("{found:?}")));
        }
    };
    if let Some(found) = options
        .text("data_format")
        .filter(|&found| found != "NDHWC")
    {
        return Err(unsupported("option data_format is not supported")
            .expected("NDHWC")
            .found(found));
    }
    let attributes = vec![
        proto::ints("kernel_shape", sizes("ksize")?),
        proto::ints("strides", sizes("strides")?),
        self::padding(padding)?,
    ];
    op.expect_rank(0, 5)?;
    let x = op.image(0)?;
    let y = op.emit(operator, &[&x], attributes)?;
    op.set_image(0, y, 5)
}
