//! Two backends compared operator by operator, on the same inputs, until their outputs differ.
//!
//! The package runs as usual. After each workload of one of the two backends, the other backend
//! computes the same operator on the inputs that the first one read. A difference is therefore caused
//! by that operator and not by those before it. Nodes of the body of a loop are compared in each iteration, nodes with
//! sizes that are known only when the model runs for the sizes of the run.
//!
//! ```
//! use tenon::compare::{CompareOptions, compare_backends};
//! use tenon::{Compiler, Tensor};
//!
//! # let onnx = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/digits/digits.onnx");
//! let compiled = Compiler::new().compile_file(onnx)?;
//! let image = Tensor::from_slice([1, 1, 8, 8], &[0.5f32; 64])?;
//! let options = CompareOptions::new("CpuAcc", "CpuRef").fused_nodes(compiled.fused_nodes());
//! let comparison = compare_backends(&compiled.to_neff()?, &[("image", &image)], &options)?;
//! assert!(comparison.divergence.is_none());
//! # Ok::<(), tenon::Error>(())
//! ```

mod difference;
mod fused;
mod lock_step;
mod reproduction;
mod tolerance;
mod values;

pub use difference::Difference;
pub use reproduction::Reproduction;
pub use tolerance::Tolerance;

use crate::outputs::{Decimal, Element};
use crate::{LoadOptions, Model, RunOptions};
use lock_step::LockStep;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tenon_backend::BackendId;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::Graph;
use tenon_kernels::WorkloadCall;
use tenon_neff::Package;
use tenon_tensor::Tensor;

/// The result of comparing two backends.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The two backends; the outputs of the second one are the expected ones.
    pub backends: [BackendId; 2],
    /// Nodes that both backends computed, in order, up to the divergence; of several runs, as in a loop, the one that
    /// differs most.
    pub compared: Vec<ComparedNode>,
    /// Nodes that only one of them could compute.
    pub skipped: Vec<UncomparedNode>,
    /// Kernels of neither backend: data movement, CPU nodes, operators of host functions, and nodes of other backends.
    pub other_kernels: usize,
    /// The first node whose outputs differ by more than the tolerance; later nodes did not run.
    pub divergence: Option<Divergence>,
}

/// A node that both backends computed.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedNode {
    /// The node.
    pub node: String,
    /// Its operator.
    pub operator: &'static str,
    /// The difference of the output that differs most.
    pub difference: Difference,
}

/// A node that one backend could not compute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncomparedNode {
    /// The node.
    pub node: String,
    /// Its operator.
    pub operator: &'static str,
    /// The backend that could not, and why.
    pub reason: String,
}

/// The first node whose outputs differ by more than the tolerance, and its operands.
#[derive(Debug, Clone)]
pub struct Divergence {
    /// The node.
    pub node: String,
    /// Its operator.
    pub operator: &'static str,
    /// The name of the output that differs.
    pub output: String,
    /// The difference of this output.
    pub difference: Difference,
    /// The element of the largest difference, on the first backend and the second.
    pub worst: [Element; 2],
    backends: [BackendId; 2],
    call: WorkloadCall,
    inputs: OperandTensors,
    /// The outputs of the second backend.
    expected: OperandTensors,
}

/// The subgraphs that backends fused into one node each, by the name of that node. A package does not
/// contain them; see [`CompiledPackage::fused_nodes`](crate::Package::fused_nodes).
pub type FusedNodes = BTreeMap<String, Arc<Graph>>;

/// Operands with the names of their variables; `None` for absent ones.
type OperandTensors = Vec<Option<(String, Tensor)>>;

/// Which backends are compared, and how.
#[derive(Clone)]
#[non_exhaustive]
pub struct CompareOptions {
    /// The two backends; the outputs of the second one are the expected ones.
    pub backends: [BackendId; 2],
    /// The largest difference that counts as agreement.
    pub tolerance: Tolerance,
    /// The fused nodes of the model, which let a backend without the fused operator compute its parts.
    pub fused_nodes: FusedNodes,
    /// How the package is loaded; its control is also that of the execution.
    pub load: LoadOptions,
}

impl CompareOptions {
    /// Compares `first` with `second`, with the tolerances that they state, or the default ones.
    pub fn new(first: impl Into<BackendId>, second: impl Into<BackendId>) -> Self {
        Self {
            backends: [first.into(), second.into()],
            tolerance: Tolerance::default(),
            fused_nodes: FusedNodes::new(),
            load: LoadOptions::new(),
        }
    }

    setters! {
        /// Sets the largest difference that counts as agreement.
        tolerance: Tolerance,
        /// Sets the fused nodes of the model.
        fused_nodes: FusedNodes,
        /// Sets how the package is loaded.
        load: LoadOptions,
    }
}

/// Runs a package and computes every workload of one of two backends on the other one too; a fused
/// node that the other backend does not support is computed node by node. The run ends at the first
/// node whose outputs differ.
///
/// # Errors
/// Unavailable or equal backends, a package that cannot be loaded, and errors of the execution. A
/// divergence is not an error.
pub fn compare_backends(
    package: &Package,
    inputs: &[(&str, &Tensor)],
    options: &CompareOptions,
) -> Result<Comparison> {
    let [first, second] = &options.backends;
    if first == second {
        let text = "a backend cannot be compared with itself";
        return Err(Error::new(ErrorKind::Usage, text).found(first));
    }
    let built_in;
    let registry = match &options.load.runtime {
        Some(runtime) => runtime.backends(),
        None => {
            built_in = tenon_builtin::registry();
            &built_in
        }
    };
    for id in &options.backends {
        if registry.find(id).is_none() {
            return Err(match registry.unavailable(id) {
                Some(reason) => {
                    let text = format!("backend {id} is unavailable: {reason}");
                    Error::new(ErrorKind::Unsupported, text)
                }
                None => registry.unknown(id),
            });
        }
    }
    let model = Model::from_package(package, &options.load)?;
    let lock_step = LockStep::new(package, registry, options)?;
    let run = RunOptions::new()
        .control(options.load.control.clone())
        .tap(&lock_step);
    let ran = model.run_with(inputs, run);
    let comparison = lock_step.into_comparison();
    match ran {
        // The divergence ended the run.
        Err(_) if comparison.divergence.is_some() => Ok(comparison),
        Err(error) => Err(error),
        Ok(_) => Ok(comparison),
    }
}

impl Comparison {
    /// The node with the largest relative difference, of those that agree.
    pub fn largest(&self) -> Option<&ComparedNode> {
        let by = |node: &&ComparedNode| node.difference.relative;
        let nodes = self.compared.iter();
        nodes.max_by(|a, b| by(a).total_cmp(&by(b)))
    }

    /// The comparison as JSON, without tensors.
    pub fn json(&self) -> Value {
        let compared = |node: &ComparedNode| {
            json!({"node": node.node, "operator": node.operator,
                   "absolute": json_number(node.difference.absolute),
                   "relative": json_number(node.difference.relative)})
        };
        let skipped = |node: &UncomparedNode| json!({"node": node.node, "operator": node.operator, "reason": node.reason});
        json!({
            "backends": self.backends.each_ref().map(BackendId::as_str),
            "compared": self.compared.iter().map(compared).collect::<Vec<_>>(),
            "skipped": self.skipped.iter().map(skipped).collect::<Vec<_>>(),
            "others": self.other_kernels,
            "divergence": self.divergence.as_ref().map(Divergence::json),
        })
    }
}

impl Divergence {
    fn json(&self) -> Value {
        json!({
            "node": self.node,
            "operator": self.operator,
            "output": self.output,
            "absolute": json_number(self.difference.absolute),
            "relative": json_number(self.difference.relative),
            "element": self.difference.worst,
            "values": self.worst.each_ref().map(Element::json),
        })
    }
}

fn json_number(value: f64) -> Value {
    Decimal::from(value).json()
}

#[cfg(test)]
mod tests;
