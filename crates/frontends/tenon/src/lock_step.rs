//! Two backends in lock step: every operator on both, with the same inputs, until they differ.
//!
//! A package runs as it always does. Behind each workload of one of the two backends, the other
//! computes the same operator on the very inputs that the first one read, so that a difference is
//! that operator's own and not handed down by those before it.

mod listener;
mod original;
mod reproduction;
mod tolerance;
mod values;

pub use reproduction::Reproduction;
pub use tolerance::Tolerance;

use crate::{Decimal, Difference, Element};
use listener::LockStep;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tenon_backend::BackendId;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::Graph;
use tenon_kernels::WorkloadCall;
use tenon_neff::Package;
use tenon_runtime::{ExecuteOptions, LoadOptions, Model, Runtime};
use tenon_tensor::Tensor;

/// What comparing found.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The two backends; the second one's results are what is expected.
    pub backends: [BackendId; 2],
    /// Nodes that both computed, in order, up to the divergence.
    pub compared: Vec<Compared>,
    /// Nodes that only one could compute.
    pub skipped: Vec<Skipped>,
    /// Kernels that belong to neither: data movement, CPU nodes, and nodes of other backends.
    pub others: usize,
    /// The first node whose results differ too much; nothing behind it ran.
    pub divergence: Option<Divergence>,
}

/// A node that both backends computed.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The node.
    pub node: String,
    /// Its operator.
    pub operator: &'static str,
    /// The difference of the output that differs most.
    pub difference: Difference,
}

/// A node that one backend could not compute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The node.
    pub node: String,
    /// Its operator.
    pub operator: &'static str,
    /// The backend that could not, and why.
    pub reason: String,
}

/// The first node whose results differ too much, with everything that shows it.
#[derive(Debug, Clone)]
pub struct Divergence {
    /// The node.
    pub node: String,
    /// Its operator.
    pub operator: &'static str,
    /// The name of the output that differs.
    pub output: String,
    /// How far apart the two are.
    pub difference: Difference,
    /// The worst element, of the first backend and the second.
    pub worst: [Element; 2],
    backends: [BackendId; 2],
    call: WorkloadCall,
    inputs: Named,
    /// The second backend's.
    expected: Named,
}

/// The nodes that a backend took as one, by the name of that one; packages do not tell them.
pub type Originals = BTreeMap<String, Arc<Graph>>;

/// Operands with the names of their variables.
type Named = Vec<Option<(String, Tensor)>>;

/// Runs `package` on the backends of `runtime` and compares every workload of one of the two with
/// the other; where one has taken several nodes as one, with those of `originals` on the other.
/// Stops inside the model where they differ: nothing behind runs.
///
/// # Errors
/// Backends that are not there or are one, inputs that do not fit, a package that does not load,
/// and what an execution answers; a divergence is none.
pub fn compare_backends(
    package: &Package,
    runtime: &Runtime,
    backends: [BackendId; 2],
    inputs: &[(&str, &Tensor)],
    tolerance: &Tolerance,
    originals: &Originals,
    options: &LoadOptions,
) -> Result<Comparison> {
    let [first, second] = &backends;
    if first == second {
        let text = "a backend cannot be compared with itself";
        return Err(Error::new(ErrorKind::Usage, text).found(first));
    }
    let registry = runtime.backends();
    for id in &backends {
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
    let model = Model::load(runtime, package, options)?;
    let lock_step = LockStep::of(package, &model, registry, originals, backends, tolerance)?;
    let options = ExecuteOptions {
        control: Some(&options.control),
        tap: Some(&lock_step),
        ..ExecuteOptions::default()
    };
    let ran = model.run_with(inputs, options);
    let found = lock_step.found();
    match ran {
        // It was stopped there.
        Err(_) if found.divergence.is_some() => Ok(found),
        Err(error) => Err(error),
        Ok(_) => Ok(found),
    }
}

impl Comparison {
    /// The node whose results differ most, of those that agree.
    pub fn largest(&self) -> Option<&Compared> {
        let by = |node: &&Compared| node.difference.relative;
        let nodes = self.compared.iter();
        nodes.max_by(|a, b| by(a).total_cmp(&by(b)))
    }

    /// All of it as JSON; tensors are left out.
    pub fn json(&self) -> Value {
        let compared = |node: &Compared| {
            json!({"node": node.node, "operator": node.operator,
                   "absolute": number(node.difference.absolute),
                   "relative": number(node.difference.relative)})
        };
        let skipped = |node: &Skipped| json!({"node": node.node, "operator": node.operator, "reason": node.reason});
        json!({
            "backends": self.backends.each_ref().map(BackendId::as_str),
            "compared": self.compared.iter().map(compared).collect::<Vec<_>>(),
            "skipped": self.skipped.iter().map(skipped).collect::<Vec<_>>(),
            "others": self.others,
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
            "absolute": number(self.difference.absolute),
            "relative": number(self.difference.relative),
            "element": self.difference.worst,
            "values": self.worst.map(|element| element.json()),
        })
    }
}

fn number(value: f64) -> Value {
    Decimal::from(value).json()
}

#[cfg(test)]
mod tests;
