//! The kernels, one file for each family of operators.

mod arithmetic;
mod attention;
mod axis_extents;
mod binary;
mod blocks;
mod broadcast;
mod cast;
mod col2im;
mod columns;
mod conditional;
mod conv;
mod conv_pairs;
mod conv_parts;
mod deformable;
mod depthwise;
mod determinant;
mod element_types;
mod elements;
mod elementwise;
mod extremes;
mod float_gemm;
mod gather;
mod gathered_sum;
mod grid;
mod indices;
mod local_response;
mod loss;
mod matmul;
mod normalization;
mod number;
mod pairs;
mod plain_matmul;
mod pool;
mod power;
mod prepared;
mod quantize;
mod quantized;
mod random;
mod recurrent;
mod reduction;
mod regions;
mod resize;
mod rotary;
mod scan;
mod scatter;
mod selection;
mod signal;
mod softmax;
mod stateful;
mod top_k;
mod trees;
mod unary;
mod weight_only;
mod winograd;

use crate::signature::Signature;
use std::fmt::Display;
use tenon_backend::{Outputs, Reason, Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{Element, Tensor};

/// A supported operator, with its types and attributes.
pub(crate) trait Kernel {
    /// The requirements of the workload.
    fn plan(&self, spec: &WorkloadSpec) -> Result<WorkloadPlan>;

    /// The plain form of a constant that [`Kernel::plan`] prepares; `None` where it does not prepare
    /// `input`, or the prepared form has a different layout.
    fn plain(&self, spec: &WorkloadSpec, input: usize) -> Result<Option<Tensor>> {
        let _ = (spec, input);
        Ok(None)
    }

    /// Creates the workload.
    fn bind(self: Box<Self>, spec: &WorkloadSpec) -> Result<Box<dyn Workload>>;
}

/// A workload without prepared constants, which is its kernel as well.
pub(crate) trait UnpreparedWorkload: Workload + Sized + 'static {
    /// The requirements of the workload; none by default.
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::default()
    }
}

impl<T: UnpreparedWorkload> Kernel for T {
    fn plan(&self, _spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        Ok(self.workload_plan())
    }

    fn bind(self: Box<Self>, _spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        Ok(self)
    }
}

/// `len` elements of scratch memory; an error when the package provides fewer.
fn scratch<'a, T: Element>(outputs: &mut Outputs<'a>, len: usize) -> Result<&'a mut [T]> {
    let scratch = outputs.scratch::<T>()?;
    let found = scratch.len();
    scratch.get_mut(..len).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidPackage,
            "the scratch memory of a workload is too short",
        )
        .expected(format_args!("{len} elements"))
        .found(found)
    })
}

/// The elements of all parts of scratch memory. Saturating: the allocation reports what exceeds memory.
fn total_len<const COUNT: usize>(sizes: [usize; COUNT]) -> usize {
    sizes.into_iter().fold(0, usize::saturating_add)
}

/// Divides scratch memory into parts of `sizes`; those that do not fit are empty.
fn split_scratch<T, const COUNT: usize>(
    scratch: &mut [T],
    sizes: [usize; COUNT],
) -> [&mut [T]; COUNT] {
    let mut rest = scratch;
    sizes.map(|size| rest.split_off_mut(..size).unwrap_or_default())
}

/// Refuses to execute with a length of a sequence, read at run time, beyond `most`.
fn check_lengths<T: Copy + TryInto<usize> + Display>(lengths: &[T], most: usize) -> Result<()> {
    let fits = |length: T| length.try_into().is_ok_and(|length| length <= most);
    match lengths.iter().find(|&&length| !fits(length)) {
        None => Ok(()),
        Some(length) => Err(
            Error::new(ErrorKind::OutOfBounds, "a length is out of range")
                .expected(format_args!("0 to {most}"))
                .found(length),
        ),
    }
}

/// Rows of each chunk of `rows`: all, or when `parallel` a quarter of a thread's share, so that threads
/// which work at different speeds finish together.
fn chunk_rows(rows: usize, parallel: bool) -> usize {
    let chunks = if parallel {
        4 * tenon_base::pool::threads()
    } else {
        1
    };
    rows.div_ceil(chunks)
}

/// The kernel of an operator, or the reason that there is none.
pub(crate) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    match signature.op.name {
        // The past may be empty.
        "Attention" => {}
        "CausalConvWithState" => signature.check_inferred()?,
        _ => {
            signature.refuse_empty()?;
            signature.check_inferred()?;
        }
    }
    match signature.op.name {
        "tenon.MatMul" => matmul::fused(signature),
        "MatMul" => matmul::plain(signature),
        "Gemm" => matmul::gemm(signature),
        "MatMulInteger" | "QLinearMatMul" => quantized::matmul(signature),
        "ConvInteger" | "QLinearConv" => quantized::convolution(signature),
        "tenon.QuantizedConv" => quantized::fused_convolution(signature),
        "tenon.QuantizedMatMul" => quantized::fused_matmul(signature),
        "tenon.WeightOnlyMatMul" => weight_only::kernel(signature),
        "DeformConv" => deformable::kernel(signature),
        "Det" => determinant::kernel(signature),
        "Cast" => cast::kernel(signature),
        "tenon.Conv" | "tenon.ConvTranspose" => conv::kernel(signature),
        "Softmax" | "LogSoftmax" => softmax::kernel(signature),
        "LayerNormalization" | "RMSNormalization" => normalization::layer(signature),
        "BatchNormalization" => normalization::batch(signature),
        "tenon.Attention" => attention::fused(signature),
        "Attention" => attention::onnx(signature),
        "InstanceNormalization" | "GroupNormalization" => normalization::channels(signature),
        "LpNormalization" | "MeanVarianceNormalization" => normalization::plain(signature),
        "LRN" => local_response::kernel(signature),
        "ArgMax" | "ArgMin" => extremes::kernel(signature),
        "Hardmax" => extremes::hardmax(signature),
        "CumSum" | "CumProd" => scan::kernel(signature),
        "NegativeLogLikelihoodLoss" | "SoftmaxCrossEntropyLoss" => loss::kernel(signature),
        "MaxPool" | "AveragePool" | "LpPool" | "tenon.MaxPool" | "tenon.AveragePool" => {
            pool::kernel(signature)
        }
        "MaxUnpool" => pool::unpool(signature),
        "Gather" | "GatherElements" | "GatherND" => gather::kernel(signature),
        "ScatterElements" | "ScatterND" | "TensorScatter" => scatter::kernel(signature),
        "Resize" => resize::kernel(signature),
        "QuantizeLinear" | "DequantizeLinear" => quantize::kernel(signature),
        "DynamicQuantizeLinear" => quantize::dynamic(signature),
        "GridSample" => grid::sample(signature),
        "AffineGrid" => grid::affine(signature),
        "RoiAlign" => regions::align(signature),
        "MaxRoiPool" => regions::max_pool(signature),
        "Col2Im" => col2im::kernel(signature),
        "TopK" => top_k::kernel(signature),
        "DFT" => signal::dft(signature),
        "STFT" => signal::stft(signature),
        "MelWeightMatrix" => signal::mel(signature),
        "RotaryEmbedding" => rotary::kernel(signature),
        "CausalConvWithState" => stateful::causal_convolution(signature),
        "LinearAttention" => stateful::linear_attention(signature),
        "tenon.TreeEnsemble" => trees::kernel(signature),
        "LSTM" | "GRU" | "RNN" => recurrent::kernel(signature),
        "Where" => conditional::kernel(signature),
        "tenon.Elementwise" => elementwise::kernel(signature),
        _ => unary::kernel(signature)
            .or_else(|| binary::kernel(signature))
            .or_else(|| reduction::kernel(signature))
            .or_else(|| selection::kernel(signature))
            .or_else(|| random::kernel(signature))
            .unwrap_or_else(|| Err(Reason::UnknownOperator.into())),
    }
}
