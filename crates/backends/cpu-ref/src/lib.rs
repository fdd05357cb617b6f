//! The backend `CpuRef`: every operator of the table, plain and exact.
//!
//! Other backends are compared with it, so it is written to be read: one file for each family of
//! operators (as in `tenon-graph`), which computes in f64 or wide integers. Elements are converted to these
//! in blocks, whose loops the compiler vectorizes ([`tenon_base::vectorized!`]); the results are the same
//! at every CPU level and for every number of threads. Each operator has one function that reads its types and attributes and creates the kernel.
//! Support queries, plans and workloads all call that function, so that they cannot disagree.
#![forbid(unsafe_code)]

mod activation;
mod attention;
mod binary;
mod cast;
mod chunks;
mod constant;
mod convolution;
mod einsum;
mod elementary;
mod elements;
mod elementwise;
mod gather;
mod image;
mod kernel;
mod lanes;
mod loop_nest;
mod loss;
mod matmul;
mod movement;
mod normalization;
mod number;
mod pooling;
mod product;
mod quantize;
mod random;
mod recurrent;
mod reduction;
mod resize;
mod rotary;
mod scatter;
mod selection;
mod signal;
mod sliding_window;
mod stateful;
mod text;
mod trees;
mod unary;

use kernel::{BuildError, BuildKernel, Kernel, Node};
use std::collections::HashMap;
use std::sync::OnceLock;
use tenon_backend::{
    Backend, BackendId, Capability, CpuLevel, DYNAMIC_SHAPES, MAX_OUTPUTS, NodeView, PropertyValue,
    REFERENCE_IMPLEMENTATION, Reason, Refusal, Workload, WorkloadPlan, WorkloadSpec,
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

    fn capabilities(&self) -> Vec<Capability> {
        let names = [REFERENCE_IMPLEMENTATION, DYNAMIC_SHAPES].into_iter();
        names
            .map(|name| Capability::new(name, PropertyValue::Bool(true)))
            .collect()
    }

    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal> {
        build(node).map(drop).map_err(|stop| match stop {
            BuildError::Refusal(refusal) => refusal,
            BuildError::Error(error) => Reason::Other {
                text: error.to_string(),
            }
            .into(),
        })
    }

    fn plan(&self, spec: &WorkloadSpec, _: CpuLevel) -> Result<WorkloadPlan> {
        self.planned_workload(spec).map(|(plan, _)| plan)
    }

    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        self.planned_workload(spec).map(|(_, workload)| workload)
    }

    fn planned_workload(&self, spec: &WorkloadSpec) -> Result<(WorkloadPlan, Box<dyn Workload>)> {
        let kernel = kernel_for(spec)?;
        let plan = WorkloadPlan {
            scratch_bytes: kernel.scratch_bytes,
            in_place: kernel.in_place,
            ..WorkloadPlan::default()
        };
        Ok((plan, kernel.workload))
    }
}

/// The kernel of each operator, by name.
fn kernels() -> &'static HashMap<&'static str, BuildKernel> {
    static KERNELS: OnceLock<HashMap<&'static str, BuildKernel>> = OnceLock::new();
    KERNELS.get_or_init(|| {
        [
            unary::KERNELS,
            binary::KERNELS,
            activation::KERNELS,
            convolution::KERNELS,
            pooling::KERNELS,
            matmul::KERNELS,
            einsum::KERNELS,
            attention::KERNELS,
            rotary::KERNELS,
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
            random::KERNELS,
            cast::KERNELS,
            resize::KERNELS,
            image::KERNELS,
            signal::KERNELS,
            text::KERNELS,
            quantize::KERNELS,
            elementwise::KERNELS,
            trees::KERNELS,
        ]
        .into_iter()
        .flatten()
        .copied()
        .collect()
    })
}

fn kernel_for(spec: &WorkloadSpec) -> Result<Kernel> {
    let built = spec.with_view(build);
    built.map_err(|stop| match stop {
        BuildError::Refusal(refusal) => Error::new(
            ErrorKind::Unsupported,
            format!("{ID}: {}: {refusal}", spec.op.name),
        ),
        BuildError::Error(error) => error,
    })
}

fn build(view: &NodeView<'_>) -> Result<Kernel, BuildError> {
    let build = kernels()
        .get(view.op.name)
        .ok_or(BuildError::from(Reason::UnknownOperator))?;
    if view.outputs.len() > MAX_OUTPUTS {
        return Err(kernel::unsupported(format!(
            "no kernel for more than {MAX_OUTPUTS} outputs"
        )));
    }
    check_outputs(view)?;
    build(&Node::new(view))
}

/// Kernels rely on shape inference: it checks ranks, axes and attributes, and the outputs have the
/// inferred types. A package is not trusted, so that this is checked here again.
fn check_outputs(view: &NodeView<'_>) -> Result<(), BuildError> {
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
                    "output {index} of {} differs from the inferred type",
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
    fn the_kernels_are_those_of_the_operator_table() {
        let missing: Vec<&str> = tenon_graph::operator::all()
            .map(|operator| operator.name)
            // Only the backend that created one can execute it.
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
