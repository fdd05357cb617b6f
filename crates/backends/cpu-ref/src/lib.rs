//! The backend `CpuRef`: every operator of the table, plain and exact.
//!
//! It is the referee of the others, so it is written to be read: one file a family of operators (as
//! in `tenon-graph`), strided loops over contiguous memory, long sums of floating-point numbers in
//! f64. Each operator has one function that reads its types and attributes and makes the kernel;
//! whether a node is supported, what it needs and the workload itself all come from that one
//! function, so that they cannot disagree.
#![forbid(unsafe_code)]

mod activation;
mod attention;
mod binary;
mod cast;
mod constant;
mod convolution;
mod elements;
mod gather;
mod image;
mod kernel;
mod loss;
mod matmul;
mod movement;
mod nest;
mod normalization;
mod number;
mod pooling;
mod quantize;
mod recurrent;
mod reduction;
mod resize;
mod scatter;
mod selection;
mod signal;
mod stateful;
mod unary;

use kernel::{Build, Kernel, Node, Stop};
use std::collections::HashMap;
use std::sync::OnceLock;
use tenon_backend::{
    Backend, BackendId, CpuLevel, MAX_OUTPUTS, NodeView, Reason, Refusal, Workload, WorkloadPlan,
    WorkloadSpec,
};
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::infer;

/// The name of the backend.
pub const ID: BackendId = BackendId::new("CpuRef");

/// The reference backend.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuRef;

impl Backend for CpuRef {
    fn id(&self) -> BackendId {
        ID
    }

    fn description(&self) -> String {
        format!(
            "reference kernels of {} operators, plain and exact",
            kernels().len()
        )
    }

    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal> {
        build(node).map(drop).map_err(|stop| match stop {
            Stop::Refusal(refusal) => refusal,
            Stop::Error(error) => Reason::Other {
                text: error.to_string(),
            }
            .into(),
        })
    }

    fn plan(&self, spec: &WorkloadSpec, _: CpuLevel) -> Result<WorkloadPlan> {
        let kernel = made(spec)?;
        Ok(WorkloadPlan {
            scratch_bytes: kernel.scratch_bytes,
            in_place: kernel.in_place,
            prepared: Vec::new(),
        })
    }

    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        Ok(made(spec)?.workload)
    }
}

/// The kernel of each operator, by name.
fn kernels() -> &'static HashMap<&'static str, Build> {
    static KERNELS: OnceLock<HashMap<&'static str, Build>> = OnceLock::new();
    KERNELS.get_or_init(|| {
        [
            unary::KERNELS,
            binary::KERNELS,
            activation::KERNELS,
            convolution::KERNELS,
            pooling::KERNELS,
            matmul::KERNELS,
            attention::KERNELS,
            reduction::KERNELS,
            loss::KERNELS,
            normalization::KERNELS,
            recurrent::KERNELS,
            stateful::KERNELS,
            movement::KERNELS,
            gather::KERNELS,
            scatter::KERNELS,
            selection::KERNELS,
            constant::KERNELS,
            cast::KERNELS,
            resize::KERNELS,
            image::KERNELS,
            signal::KERNELS,
            quantize::KERNELS,
        ]
        .into_iter()
        .flatten()
        .copied()
        .collect()
    })
}

fn made(spec: &WorkloadSpec) -> Result<Kernel> {
    let inputs: Vec<_> = spec
        .inputs
        .iter()
        .map(|input| input.as_ref().map(|input| &input.ty))
        .collect();
    let constants: Vec<_> = spec
        .inputs
        .iter()
        .map(|input| input.as_ref().and_then(|input| input.constant.as_ref()))
        .collect();
    let outputs: Vec<_> = spec.outputs.iter().map(Option::as_ref).collect();
    let view = NodeView {
        op: spec.op,
        attributes: &spec.attributes,
        inputs: &inputs,
        constants: &constants,
        outputs: &outputs,
    };
    build(&view).map_err(|stop| match stop {
        Stop::Refusal(refusal) => Error::new(
            ErrorKind::Unsupported,
            format!("{ID}: {}: {refusal}", spec.op.name),
        ),
        Stop::Error(error) => error,
    })
}

fn build(view: &NodeView<'_>) -> Result<Kernel, Stop> {
    let build = kernels()
        .get(view.op.name)
        .ok_or(Stop::from(Reason::UnknownOperator))?;
    if view.outputs.len() > MAX_OUTPUTS {
        return Err(kernel::other(format!(
            "no kernel for more than {MAX_OUTPUTS} outputs"
        )));
    }
    check_outputs(view)?;
    build(&Node::new(view))
}

/// Kernels rely on shape inference: it has checked ranks, axes and attributes, and the outputs have
/// the types that follow. A package may have been written by anybody, so this is asked again.
fn check_outputs(view: &NodeView<'_>) -> Result<(), Stop> {
    for (index, def) in view.op.inputs.iter().enumerate() {
        let given = view.inputs.get(index).is_some_and(Option::is_some);
        let known = view.constants.get(index).is_some_and(Option::is_some);
        if def.compile_time && given && !known {
            return Err(Reason::NotConstant { input: index }.into());
        }
    }
    let inferred = infer(
        view.op,
        view.attributes,
        view.inputs,
        view.constants,
        view.outputs.len(),
    )?;
    for (index, output) in view.outputs.iter().enumerate() {
        let expected = inferred.get(index);
        if let Some(output) = output
            && Some(*output) != expected
        {
            let error = Error::new(
                ErrorKind::InvalidModel,
                format!(
                    "output {index} of {} has another type than follows",
                    view.op.name
                ),
            );
            let expected = expected.map_or("no such output".into(), ToString::to_string);
            return Err(error.expected(expected).found(output).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_of_the_table_has_a_kernel_and_every_kernel_an_operator() {
        let missing: Vec<&str> = tenon_graph::operator::all()
            .map(|operator| operator.name)
            // Only the backend that made one knows what it computes.
            .filter(|name| *name != "tenon.Precompiled" && !kernels().contains_key(name))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
        let unknown: Vec<_> = kernels()
            .keys()
            .filter(|name| tenon_graph::operator::operator(name).is_none())
            .collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
