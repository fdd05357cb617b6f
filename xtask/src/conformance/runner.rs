//! A trial on a backend: compiled, and node by node.

use super::Trial;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use tenon_backend::{Backend, BackendId, Registry, evaluate, supports};
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_compiler::{Target, shape_inputs};
use tenon_graph::{Graph, Node, infer};
use tenon_neff::{Limits, Package, WriteOptions};
use tenon_runtime::{ExecuteOptions, LoadOptions, Model, Runtime};
use tenon_tensor::{ModelValue, Tensor, TensorType};

/// The counts of compute nodes of the compiled graph on the backend under test, and on `CpuRef`.
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct Share {
    pub(super) own: usize,
    pub(super) others: usize,
}

/// The reason why a case does not pass.
pub(super) enum Failure {
    /// Compiling, loading or executing failed.
    Refused(String),
    /// The result differs from the expected one.
    Wrong(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Refused(error.to_string().replace('\n', "; "))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(reason) | Failure::Wrong(reason) => f.write_str(reason),
        }
    }
}

/// Runs cases on one backend.
pub(super) struct Runner {
    registry: Registry,
    runtime: Runtime,
    /// The backend under test, then the reference implementation for the nodes that it refuses.
    backends: Vec<BackendId>,
}

/// Whether a host program computes nodes of a graph, which backends do not.
fn needs_host(graph: &Graph) -> bool {
    let on_host = |node: &Node| node.is_control() || graph.is_on_host(node);
    let mut inputs = graph.inputs.iter();
    graph.nodes.iter().any(on_host) || inputs.any(|&id| graph.is_host_value(id))
}

impl Runner {
    pub(super) fn new(registry: &Registry, backend: BackendId) -> Self {
        let reference = registry.reference().map(|reference| reference.id());
        let mut backends = vec![backend];
        backends.extend(reference.filter(|reference| *reference != backends[0]));
        Self {
            registry: registry.clone(),
            runtime: Runtime::new(registry.clone(), tenon_builtin::kernels()),
            backends,
        }
    }

    /// The backend under test.
    pub(super) fn backend(&self) -> &BackendId {
        &self.backends[0]
    }

    /// Runs all trials of a case, compiled and node by node.
    pub(super) fn run(&self, trials: &[Trial]) -> std::result::Result<Share, Failure> {
        let mut share = Share::default();
        for trial in trials {
            let wrong =
                |mode: &'static str| move |error| Failure::Wrong(format!("{mode}: {error}"));
            let outputs = self.compiled(trial, &mut share)?;
            (trial.check)(&outputs).map_err(wrong("compiled"))?;
            if needs_host(&trial.graph) {
                continue;
            }
            let outputs = self.node_by_node(trial)?.into_iter();
            let outputs: Vec<ModelValue> = outputs.map(ModelValue::Tensor).collect();
            (trial.check)(&outputs).map_err(wrong("node by node"))?;
        }
        Ok(share)
    }

    /// Compiles the graph into a package, loads it and executes it.
    fn compiled(&self, trial: &Trial, share: &mut Share) -> Result<Vec<ModelValue>> {
        let control = Control::new();
        let mut options = tenon_compiler::Options::new(&self.registry);
        options.backends.clone_from(&self.backends);
        for name in shape_inputs(&trial.graph) {
            if let Some(tensor) = trial.inputs.get(&name) {
                options.constants.insert(name, tensor.clone());
            }
        }
        let count = trial.graph.outputs.len();
        let compile = |options: &tenon_compiler::Options<'_>| {
            tenon_compiler::compile_nodes(trial.graph.clone(), Vec::new(), count, options)
        };
        let compiled = match compile(&options) {
            // Extents without a rule, for tensors of sequences.
            Err(_) if needs_host(&trial.graph) => {
                options.open_extents = true;
                compile(&options)?
            }
            compiled => compiled?,
        };
        let placed = compiled.parts.iter().flat_map(|part| &part.placement.nodes);
        for node in placed {
            if let Target::Backend(id) = &node.target {
                let own = id == self.backend();
                share.own += usize::from(own);
                share.others += usize::from(!own);
            }
        }
        let bytes = compiled.nodes.to_bytes(WriteOptions::default(), &control)?;
        let package = Package::from_buffer(bytes, &Limits::default(), &control)?;
        let model = Model::load(&self.runtime, &package, &LoadOptions::default())?;
        let tensors = trial.inputs.iter();
        let tensors = tensors.map(|(name, tensor)| (name, ModelValue::Tensor(tensor.clone())));
        let values = trial
            .values
            .iter()
            .map(|(name, value)| (name, value.clone()));
        let values: BTreeMap<&String, ModelValue> = tensors.chain(values).collect();
        let inputs = model.inputs().iter();
        let inputs = inputs.filter_map(|input| values.get_key_value(&input.name));
        let inputs: Vec<(&str, &ModelValue)> =
            inputs.map(|(name, value)| (name.as_str(), value)).collect();
        model.run_values(&inputs, ExecuteOptions::default())
    }

    /// Executes the graph without optimisation, each node on the first backend that supports it.
    fn node_by_node(&self, trial: &Trial) -> Result<Vec<Tensor>> {
        let mut graph = trial.graph.clone();
        for id in std::mem::take(&mut graph.inputs) {
            let value = graph.value_mut(id);
            value.constant = trial.inputs.get(&value.name).cloned();
        }
        for index in 0..graph.nodes.len() {
            let node = graph.nodes[index].clone();
            let name = node.name.clone();
            self.step(&mut graph, &node)
                .map_err(|error| error.at(Location::node(name)))?;
        }
        let output = |&id: &_| {
            let value = graph.value(id).constant.clone();
            value.ok_or_else(|| Error::new(ErrorKind::Internal, "no node computes an output"))
        };
        graph.outputs.iter().map(output).collect()
    }

    /// Executes a node whose inputs are constants and stores its outputs as constants.
    fn step(&self, graph: &mut Graph, node: &Node) -> Result<()> {
        let inputs: Vec<Option<&Tensor>> = node
            .inputs
            .iter()
            .map(|id| id.and_then(|id| graph.value(id).constant.as_ref()))
            .collect();
        let types: Vec<Option<&TensorType>> =
            inputs.iter().map(|input| input.map(Tensor::ty)).collect();
        let count = node.outputs.len();
        let inferred = infer(node.op, &node.attributes, &types, &inputs, count)?;
        let output_types: Vec<Option<TensorType>> = node
            .outputs
            .iter()
            .zip(inferred)
            .map(|(output, ty)| output.is_some().then_some(ty))
            .collect();
        let backend = self.supporting_backend(node, &inputs, &output_types)?;
        let outputs = evaluate(backend, node.op, &node.attributes, &inputs, &output_types)?;
        for (id, tensor) in node.outputs.iter().zip(outputs) {
            if let Some(id) = id {
                graph.value_mut(*id).constant = tensor;
            }
        }
        Ok(())
    }

    /// The first backend that supports a node.
    fn supporting_backend(
        &self,
        node: &Node,
        inputs: &[Option<&Tensor>],
        output_types: &[Option<TensorType>],
    ) -> Result<&dyn Backend> {
        let mut refusals = BTreeMap::new();
        for id in &self.backends {
            let Some(backend) = self.registry.find(id) else {
                continue;
            };
            match supports(&**backend, node.op, &node.attributes, inputs, output_types) {
                Ok(()) => return Ok(&**backend),
                Err(refusal) => refusals.insert(id.as_str(), refusal.to_string()),
            };
        }
        let all: Vec<String> = refusals
            .iter()
            .map(|(id, refusal)| format!("{id}: {refusal}"))
            .collect();
        Err(
            Error::new(ErrorKind::Unsupported, "no backend supports the node")
                .found(all.join(", ")),
        )
    }
}
