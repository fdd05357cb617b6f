//! Elementwise operators; operands are broadcast as in NumPy.

use crate::node::Operation;
use crate::proto;
use crate::schema::tflite::ActivationFunctionType as Activation;
use std::f32::consts::PI;
use tenon_base::Result;
use tenon_onnx::proto::data_type;

/// An operator of one operand, without parameters.
pub(super) fn unary(op: &mut Operation<'_, '_>, operator: &str) -> Result<()> {
    let x = op.real(0)?;
    let y = op.emit(operator, &[&x], Vec::new())?;
    op.set(0, y)
}

/// An operator of two operands, and its activation.
pub(super) fn binary(op: &mut Operation<'_, '_>, operator: &str) -> Result<()> {
    let options = op.operator;
    let activation = match operator {
        "Add" => options
            .builtin_options_as_add_options()
            .map(|it| it.fused_activation_function()),
        "Sub" => options
            .builtin_options_as_sub_options()
            .map(|it| it.fused_activation_function()),
        "Mul" => options
            .builtin_options_as_mul_options()
            .map(|it| it.fused_activation_function()),
        "Div" => options
            .builtin_options_as_div_options()
            .map(|it| it.fused_activation_function()),
        _ => None,
    };
    let (a, b) = (op.real(0)?, op.real(1)?);
    let y = op.emit(operator, &[&a, &b], Vec::new())?;
    let y = op.activated(y, activation.unwrap_or(Activation::NONE))?;
    op.set(0, y)
}

/// The sum of all operands.
pub(super) fn sum(op: &mut Operation<'_, '_>) -> Result<()> {
    let mut sum = op.real(0)?;
    for index in 1..op.inputs.len() {
        let next = op.real(index)?;
        sum = op.emit("Add", &[&sum, &next], Vec::new())?;
    }
    op.set(0, sum)
}

/// A comparison: of integers if both operands are quantised alike.
pub(super) fn comparison(op: &mut Operation<'_, '_>, operator: &str) -> Result<()> {
    let y = compared(op, operator)?;
    op.set_stored(0, y)
}

fn compared(op: &mut Operation<'_, '_>, operator: &str) -> Result<String> {
    let (a, b) = if op.has_one_form(&[0, 1], &[])? {
        (op.stored(0)?, op.stored(1)?)
    } else {
        (op.real(0)?, op.real(1)?)
    };
    op.emit(operator, &[&a, &b], Vec::new())
}

pub(super) fn not_equal(op: &mut Operation<'_, '_>) -> Result<()> {
    let equal = compared(op, "Equal")?;
    let y = op.emit("Not", &[&equal], Vec::new())?;
    op.set_stored(0, y)
}

/// Whether the elements of input 0 are integers without a quantisation.
fn is_integer(op: &mut Operation<'_, '_>) -> Result<bool> {
    let info = op.info(0)?;
    let is_float = matches!(
        info.dtype,
        data_type::FLOAT | data_type::FLOAT16 | data_type::BFLOAT16 | data_type::DOUBLE
    );
    Ok(!is_float && info.quantised().is_none())
}

/// The quotient, rounded down.
pub(super) fn floor_div(op: &mut Operation<'_, '_>) -> Result<()> {
    let (mut a, b) = (op.real(0)?, op.real(1)?);
    let y = if is_integer(op)? {
        // Div rounds towards 0; without its remainder the dividend is a multiple of the divisor.
        let rest = op.emit("Mod", &[&a, &b], Vec::new())?;
        a = op.emit("Sub", &[&a, &rest], Vec::new())?;
        op.emit("Div", &[&a, &b], Vec::new())?
    } else {
        let quotient = op.emit("Div", &[&a, &b], Vec::new())?;
        op.emit("Floor", &[&quotient], Vec::new())?
    };
    op.set(0, y)
}

/// The remainder, with the sign of the divisor.
pub(super) fn floor_mod(op: &mut Operation<'_, '_>) -> Result<()> {
    let (a, b) = (op.real(0)?, op.real(1)?);
    if is_integer(op)? {
        let y = op.emit("Mod", &[&a, &b], Vec::new())?;
        return op.set(0, y);
    }
    let info = op.info(0)?;
    let dtype = if info.quantised().is_some() {
        data_type::FLOAT
    } else {
        info.dtype
    };
    let rest = op.emit("Mod", &[&a, &b], vec![proto::int("fmod", 1)])?;
    let zero = op.scalar_of(dtype, 0.0)?;
    let is_zero = op.emit("Equal", &[&rest, &zero], Vec::new())?;
    let signs = [
        op.emit("Less", &[&rest, &zero], Vec::new())?,
        op.emit("Less", &[&b, &zero], Vec::new())?,
    ];
    let same = op.emit("Equal", &[&signs[0], &signs[1]], Vec::new())?;
    let keep = op.emit("Or", &[&is_zero, &same], Vec::new())?;
    let moved = op.emit("Add", &[&rest, &b], Vec::new())?;
    let y = op.emit("Where", &[&keep, &rest, &moved], Vec::new())?;
    op.set(0, y)
}

pub(super) fn square(op: &mut Operation<'_, '_>) -> Result<()> {
    let x = op.real(0)?;
    let y = op.emit("Mul", &[&x, &x], Vec::new())?;
    op.set(0, y)
}

pub(super) fn squared_difference(op: &mut Operation<'_, '_>) -> Result<()> {
    let (a, b) = (op.real(0)?, op.real(1)?);
    let difference = op.emit("Sub", &[&a, &b], Vec::new())?;
    let y = op.emit("Mul", &[&difference, &difference], Vec::new())?;
    op.set(0, y)
}

/// The reciprocal of the square root.
pub(super) fn rsqrt(op: &mut Operation<'_, '_>) -> Result<()> {
    let x = op.real(0)?;
    let root = op.emit("Sqrt", &[&x], Vec::new())?;
    let y = op.emit("Reciprocal", &[&root], Vec::new())?;
    op.set(0, y)
}

/// The input limited to a range.
pub(super) fn limited(op: &mut Operation<'_, '_>, low: f32, high: f32) -> Result<()> {
    let x = op.real(0)?;
    let dtype = op.info(0)?.dtype;
    let y = op.clipped(x, dtype, low, high)?;
    op.set(0, y)
}

pub(super) fn leaky_relu(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_leaky_relu_options();
    let alpha = options.map_or(0.0, |options| options.alpha());
    let x = op.real(0)?;
    let y = op.emit("LeakyRelu", &[&x], vec![proto::float("alpha", alpha)])?;
    op.set(0, y)
}

pub(super) fn prelu(op: &mut Operation<'_, '_>) -> Result<()> {
    let (x, slope) = (op.real(0)?, op.real(1)?);
    let y = op.emit("PRelu", &[&x, &slope], Vec::new())?;
    op.set(0, y)
}

pub(super) fn gelu(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_gelu_options();
    let by_tanh = options.is_some_and(|options| options.approximate());
    let form = if by_tanh { "tanh" } else { "none" };
    let x = op.real(0)?;
    let y = op.emit("Gelu", &[&x], vec![proto::text("approximate", form)])?;
    op.set(0, y)
}

/// The angle of the point (x, y), from -pi to pi; input 0 is y, input 1 is x. Signs of zeros count.
pub(super) fn angle(op: &mut Operation<'_, '_>) -> Result<()> {
    let (y, x) = (op.real(0)?, op.real(1)?);
    let dtype = op.info(0)?.dtype;
    let [zero, pi] = [op.scalar_of(dtype, 0.0)?, op.scalar_of(dtype, PI)?];
    let quotient = op.emit("Div", &[&y, &x], Vec::new())?;
    // 0 / 0 is y, a zero with its sign; of infinite operands only the signs count.
    let is_origin = {
        let zeros = [&y, &x].map(|value| op.emit("Equal", &[value, &zero], Vec::new()));
        let [a, b] = zeros;
        op.emit("And", &[&a?, &b?], Vec::new())?
    };
    let quotient = op.emit("Where", &[&is_origin, &y, &quotient], Vec::new())?;
    let is_diagonal = {
        let [a, b] = [&y, &x].map(|value| op.emit("IsInf", &[value], Vec::new()));
        op.emit("And", &[&a?, &b?], Vec::new())?
    };
    let [a, b] = [&y, &x].map(|value| op.emit("Sign", &[value], Vec::new()));
    let sign = op.emit("Mul", &[&a?, &b?], Vec::new())?;
    let quotient = op.emit("Where", &[&is_diagonal, &sign, &quotient], Vec::new())?;
    let angle = op.emit("Atan", &[&quotient], Vec::new())?;
    let (left, below) = (has_sign(op, &x, &zero)?, has_sign(op, &y, &zero)?);
    let negative = op.emit("Neg", &[&pi], Vec::new())?;
    let half_turn = op.emit("Where", &[&below, &negative, &pi], Vec::new())?;
    let half_turn = op.emit("Where", &[&left, &half_turn, &zero], Vec::new())?;
    let y = op.emit("Add", &[&angle, &half_turn], Vec::new())?;
    op.set(0, y)
}

/// Whether a value is negative or the negative zero.
fn has_sign(op: &mut Operation<'_, '_>, value: &str, zero: &str) -> Result<String> {
    let inverse = op.emit("Reciprocal", &[value], Vec::new())?;
    let [a, b] = [value, &inverse].map(|it| op.emit("Less", &[it, zero], Vec::new()));
    op.emit("Or", &[&a?, &b?], Vec::new())
}
