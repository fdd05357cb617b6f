//! Products of matrices.

use super::build::{Build, Flow, Made};
use tenon_graph::{Attribute, ValueId};
use tenon_tensor::{DataType, Tensor};

/// A side of a product with its matrices in the last two dimensions.
struct Side {
    value: ValueId,
    /// Rows or columns, where they are equally many.
    extent: usize,
    rank: usize,
    /// Whether the matrices stood before the channels.
    channels_last: bool,
}

pub(super) fn batch_mat_mul(build: &mut Build<'_>) -> Made {
    let wide = build.computes_in() == DataType::F16 && build.case.flag("AdjointX")?;
    let x = side(build, 0, "X", wide)?;
    let y = side(build, 1, "Y", wide)?;
    let mut product = build.node("MatMul", &[x.value, y.value], &[])?;
    if x.channels_last {
        let rank = x.rank.max(y.rank) as i64;
        let order: Vec<i64> = (0..rank - 3)
            .chain([rank - 2, rank - 1, rank - 3])
            .collect();
        product = build.transposed(product, &order)?;
    }
    if wide {
        product = build.cast(product, DataType::F16)?;
    }
    Ok(Flow::Numbers(product))
}

/// Input `index`, transposed or turned into its adjugate as the parameters say. `wide`: in f32, as
/// Arm NN computes everything.
fn side(build: &mut Build<'_>, index: usize, name: &str, wide: bool) -> Result<Side, String> {
    let case = build.case;
    let rank = build.rank(index)?;
    let shape = build.given(index)?.shape();
    let mut value = build.numbers(index)?;
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
        value = build.transposed(value, &order)?;
    }
    if case.flag(&format!("Transpose{name}"))? {
        let last = rank as i64 - 1;
        let order: Vec<i64> = (0..last - 1).chain([last, last - 1]).collect();
        value = build.transposed(value, &order)?;
    }
    let mut side = Side {
        value,
        extent,
        rank,
        channels_last,
    };
    if case.flag(&format!("Adjoint{name}"))? {
        side.value = adjugate(build, &side)?;
    }
    Ok(side)
}

/// The adjugates of square matrices, by the recursion of Faddeev and LeVerrier: from M = I, n - 1
/// times M = A M - trace(A M) / k I; then (-1)^(n-1) M.
fn adjugate(build: &mut Build<'_>, side: &Side) -> Result<ValueId, String> {
    let n = side.extent;
    let unit: Vec<f32> = (0..n * n).map(|at| f32::from(at % (n + 1) == 0)).collect();
    let unit = Tensor::from_slice([n, n], &unit).map_err(|error| error.to_string())?;
    let unit = build.constant(unit);
    let axes = build.list(&[-2, -1])?;
    let mut product = side.value;
    let mut made = unit;
    for k in 1..n {
        let diagonal = build.node("Mul", &[product, unit], &[])?;
        let trace = build.node("ReduceSum", &[diagonal, axes], &[])?;
        let share = build.number_of(DataType::F32, 1.0 / k as f32)?;
        let share = build.node("Mul", &[trace, share], &[])?;
        let shift = build.node("Mul", &[unit, share], &[])?;
        made = build.node("Sub", &[product, shift], &[])?;
        if k + 1 < n {
            product = build.node("MatMul", &[side.value, made], &[])?;
        }
    }
    match n % 2 {
        0 => build.node("Neg", &[made], &[]),
        _ => Ok(made),
    }
}

pub(super) fn fully_connected(build: &mut Build<'_>) -> Made {
    let weights = build.given(1)?;
    let transpose = build.case.flag("TransposeWeightMatrix")?;
    let features = weights.shape()[usize::from(transpose)] as i64;
    let x = build.numbers(0)?;
    let x = build.reshaped(x, &[-1, features])?;
    let w = match build.case.flag("ConstantWeights")? {
        true => build.known(weights)?,
        false => build.numbers(1)?,
    };
    let mut inputs = vec![x, w];
    if build.case.flag("BiasEnabled")? {
        let bias = build.given(2)?;
        inputs.push(build.bias(bias)?);
    }
    let transpose = Attribute::Int(transpose.into());
    build
        .node("Gemm", &inputs, &[("transB", transpose)])
        .map(Flow::Numbers)
}
