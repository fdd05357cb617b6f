//! Normalizations along the last dimension.

use crate::node::Operation;
use crate::proto;
use crate::schema::tflite::ActivationFunctionType as Activation;
use tenon_base::Result;
use tenon_onnx::proto::data_type;

/// The least norm that L2_NORMALIZATION divides by.
const LEAST_NORM: f32 = 1e-6;

/// Softmax of beta times the input.
pub(super) fn softmax(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_softmax_options();
    let beta = options.map_or(1.0, |options| options.beta());
    let mut x = op.real(0)?;
    if beta != 1.0 {
        let info = op.info(0)?;
        let dtype = if info.quantised().is_some() {
            data_type::FLOAT
        } else {
            info.dtype
        };
        let beta = op.scalar_of(dtype, beta)?;
        x = op.emit("Mul", &[&x, &beta], Vec::new())?;
    }
    let y = op.emit("Softmax", &[&x], vec![proto::int("axis", -1)])?;
    op.set(0, y)
}

pub(super) fn log_softmax(op: &mut Operation<'_, '_>) -> Result<()> {
    let x = op.real(0)?;
    let y = op.emit("LogSoftmax", &[&x], vec![proto::int("axis", -1)])?;
    op.set(0, y)
}

/// The input divided by its 2-norm.
pub(super) fn l2(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_l2_norm_options();
    let activation = options.map_or(Activation::NONE, |options| {
        options.fused_activation_function()
    });
    let x = op.real(0)?;
    let axes = op.i64_constant(&[-1]);
    let norm = op.emit("ReduceL2", &[&x, &axes], vec![proto::int("keepdims", 1)])?;
    let least = op.scalar_of(data_type::FLOAT, LEAST_NORM)?;
    let norm = op.emit("Max", &[&norm, &least], Vec::new())?;
    let y = op.emit("Div", &[&x, &norm], Vec::new())?;
    let y = op.activated(y, activation)?;
    op.set(0, y)
}

/// The input divided by (bias + alpha times the sum of squares of channels within the radius) to the power beta.
pub(super) fn local_response(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op
        .operator
        .builtin_options_as_local_response_normalization_options();
    let (radius, bias, alpha, beta) = options.map_or((0, 0.0, 0.0, 0.0), |it| {
        (it.radius(), it.bias(), it.alpha(), it.beta())
    });
    op.expect_rank(0, 4)?;
    let x = op.image(0)?;
    let size = i64::from(radius).saturating_mul(2).saturating_add(1);
    let attributes = vec![
        proto::int("size", size),
        proto::float("bias", bias),
        // ONNX divides by the size.
        proto::float("alpha", alpha * size as f32),
        proto::float("beta", beta),
    ];
    let y = op.emit("LRN", &[&x], attributes)?;
    op.set_image(0, y, 4)
}
