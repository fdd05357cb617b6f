//! Matrix multiplications.

use super::build::{GraphBuilder, LayerResult, LayerValue};
use tenon_graph::{Attribute, ValueId};
use tenon_tensor::{DataType, Tensor};

/// An operand of a matrix multiplication, with its matrices in the last two dimensions.
struct MatrixOperand {
    value: ValueId,
    /// The number of columns, and of rows if the matrices are square.
    extent: usize,
    rank: usize,
    /// Whether the case has channels in the last dimension, after those of the matrices.
    channels_last: bool,
}

pub(super) fn batch_mat_mul(build: &mut GraphBuilder<'_>) -> LayerResult {
    let wide = build.compute_type() == DataType::F16 && build.case.flag("AdjointX")?;
    let x = matrix_operand(build, 0, "X", wide)?;
    let y = matrix_operand(build, 1, "Y", wide)?;
    let mut product = build.node("MatMul", &[x.value, y.value], &[])?;
    if x.channels_last {
        let rank = x.rank.max(y.rank) as i64;
        let order: Vec<i64> = (0..rank - 3)
            .chain([rank - 2, rank - 1, rank - 3])
            .collect();
        product = build.transpose(product, &order)?;
    }
    if wide {
        product = build.cast(product, DataType::F16)?;
    }
    Ok(LayerValue::Real(product))
}

/// Input `index`, transposed or replaced by its adjugate if the parameters require it. `wide`: in f32,
/// the type of Arm NN's computations.
fn matrix_operand(
    build: &mut GraphBuilder<'_>,
    index: usize,
    name: &str,
    wide: bool,
) -> Result<MatrixOperand, String> {
    let case = build.case;
    let rank = build.rank(index)?;
    let shape = build.input(index)?.shape();
    let mut value = build.real_input(index)?;
    if wide {
        value = build.cast(value, DataType::F32)?;
    }
    let layout = case.text(&format!("DataLayout{name}"))?;
    let channels_last = rank > 3 && matches!(layout, "NHWC" | "NDHWC");
    let mut extent = shape[rank - 1];
    if channels_last {
        extent = shape[rank - 2];
        let last = rank as i64 - 1;
        let order: Vec<i64> = (0..last - 2).chain([last, last - 2, last - 1]).collect();
        value = build.transpose(value, &order)?;
    }
    if case.flag(&format!("Transpose{name}"))? {
        let last = rank as i64 - 1;
        let order: Vec<i64> = (0..last - 1).chain([last, last - 1]).collect();
        value = build.transpose(value, &order)?;
    }
    let mut operand = MatrixOperand {
        value,
        extent,
        rank,
        channels_last,
    };
    if case.flag(&format!("Adjoint{name}"))? {
        operand.value = adjugate(build, &operand)?;
    }
    Ok(operand)
}

/// The adjugates of square matrices, by the Faddeev–LeVerrier algorithm: from M = I, n - 1 times
/// M = A M - trace(A M) / k I; then (-1)^(n-1) M.
fn adjugate(build: &mut GraphBuilder<'_>, operand: &MatrixOperand) -> Result<ValueId, String> {
    let n = operand.extent;
    let unit: Vec<f32> = (0..n * n).map(|at| f32::from(at % (n + 1) == 0)).collect();
    let unit = Tensor::from_slice([n, n], &unit).map_err(|error| error.to_string())?;
    let unit = build.constant(unit);
    let axes = build.int_list(&[-2, -1])?;
    let mut product = operand.value;
    let mut m = unit;
    for k in 1..n {
        let diagonal = build.node("Mul", &[product, unit], &[])?;
        let trace = build.node("ReduceSum", &[diagonal, axes], &[])?;
        let share = build.scalar_of(DataType::F32, 1.0 / k as f32)?;
        let share = build.node("Mul", &[trace, share], &[])?;
        let shift = build.node("Mul", &[unit, share], &[])?;
        m = build.node("Sub", &[product, shift], &[])?;
        if k + 1 < n {
            product = build.node("MatMul", &[operand.value, m], &[])?;
        }
    }
    match n % 2 {
        0 => build.node("Neg", &[m], &[]),
        _ => Ok(m),
    }
}

pub(super) fn fully_connected(build: &mut GraphBuilder<'_>) -> LayerResult {
    let weights = build.input(1)?;
    let transpose = build.case.flag("TransposeWeightMatrix")?;
    let features = weights.shape()[usize::from(transpose)] as i64;
    let x = build.real_input(0)?;
    let x = build.reshape(x, &[-1, features])?;
    let w = if build.case.flag("ConstantWeights")? {
        build.real_constant(weights)?
    } else {
        build.real_input(1)?
    };
    let mut inputs = vec![x, w];
    if build.case.flag("BiasEnabled")? {
        let bias = build.input(2)?;
        inputs.push(build.bias_constant(bias)?);
    }
    let transpose = Attribute::Int(transpose.into());
    build
        .node("Gemm", &inputs, &[("transB", transpose)])
        .map(LayerValue::Real)
}
