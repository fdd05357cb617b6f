//! Loading: from a package to a model.

use crate::core_node::{CoreNode, fixed_type};
use crate::cpu_node::allowed_by_environment;
use crate::host::HostCore;
use crate::integrity::Integrity;
use crate::lifecycle::ModelLifecycle;
use crate::model::{Inner, ModelContext, Nodes, Shared};
use crate::symbolic::SymbolicCore;
use crate::walker::Walker;
use crate::{
    Activity, DeviceMemoryLimit, Dimension, Model, ModelReport, Runtime, Signature, device_memory,
    nan_check,
};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use tenon_base::{Control, Error, ErrorKind, Location, Result, pool};
use tenon_neff::{GraphPort, NodeGraph, Package, PlacementReport, TenonMember};
use tenon_tensor::MapKeys;

/// Options of loading a model.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Progress, cancellation and deadline of the load.
    pub control: Control,
    /// The maximum number of threads of one execution; all CPUs when `None`.
    pub threads: Option<usize>,
    /// The number of concurrent executions for which memory is allocated at load.
    pub in_flight: usize,
    /// The maximum number of concurrent executions; memory beyond `in_flight` is allocated on
    /// demand, further executions wait.
    pub max_in_flight: usize,
    /// The maximum number of instances that a model with symbolic dimensions keeps: one for each set of sizes, the
    /// least recently used ones are dropped.
    pub instance_count: usize,
    /// The maximum size of the large arenas and outputs that are kept for executions of all instances.
    pub instance_bytes: usize,
    /// The most memory of backends that the model may need: its workloads and the values of executions, for which
    /// `max_in_flight` is lowered. A model with symbolic dimensions may need it for each set of sizes.
    pub device_memory_limits: Vec<DeviceMemoryLimit>,
    /// Whether native code of the package's CPU nodes may run in this process.
    pub native_nodes: bool,
    /// Whether every execution checks the values of all nodes for NaN
    /// ([`NanCheck`](crate::NanCheck)).
    pub nan_check: bool,
    /// The seed of stochastic rounding in casts to `f16`, `bf16` and the `f8` types
    /// ([`StochasticRounding`](tenon_dma::StochasticRounding)), restarted per subgraph; round to
    /// nearest when `None`. Casts and results of backends always round to nearest.
    pub stochastic_rounding: Option<u64>,
    /// Whether the package is verified by its digests: members that loading reads at load,
    /// constants before the first execution.
    pub check_digests: bool,
    /// The activity in which the model and its executions are listed for monitoring; none when
    /// `None`. Models on cores are listed by their cores.
    pub activity: Option<Activity>,
}

impl Default for LoadOptions {
    /// Memory for one execution, for at most one per CPU. Native nodes run, and NaN is checked,
    /// only if the environment enables it (`TENON_ALLOW_NATIVE_NODES=1`, `TENON_CHECK_NAN=1`).
    fn default() -> Self {
        Self {
            control: Control::new(),
            threads: None,
            in_flight: 1,
            max_in_flight: std::thread::available_parallelism().map_or(1, |count| count.get()),
            instance_count: 64,
            instance_bytes: 1 << 30,
            device_memory_limits: Vec::new(),
            native_nodes: allowed_by_environment(),
            nan_check: nan_check::is_enabled_by_environment(),
            stochastic_rounding: None,
            check_digests: false,
            activity: None,
        }
    }
}

impl Model {
    /// Loads a package. Constants are used in the mapped file without a copy.
    ///
    /// # Errors
    /// A package of another compiler, a malformed package, or one that requires backends or kernels
    /// that the runtime does not have. All problems of the program are reported together.
    pub fn load(runtime: &Runtime, package: &Package, options: &LoadOptions) -> Result<Self> {
        let load = || {
            let graph = NodeGraph::read(package)?;
            let integrity = options
                .check_digests
                .then(|| Integrity::of(package, &graph));
            load_graph(runtime, graph, integrity.transpose()?, options)
        };
        let loaded = match options.threads {
            Some(limit) => pool::with_thread_limit(limit, load),
            None => load(),
        };
        let listed = loaded.inspect(|model| {
            if let Some(activity) = &options.activity {
                let bytes = model.idle_bytes() as u64;
                let header = package.header();
                let report = ModelReport {
                    name: model.name().to_owned(),
                    uuid: header.uuid_text(),
                    bytes: header.data_size.saturating_add(bytes),
                    ..ModelReport::default()
                };
                model
                    .0
                    .context
                    .shared
                    .active
                    .get_or_init(|| activity.model(report));
            }
        });
        listed.map_err(|error| located(error, package))
    }

    /// Checks that a package can be loaded, with the same errors as [`Model::load`]. No memory is
    /// allocated for executions, no library of a CPU node is opened, and constants are not verified
    /// by digests.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn check(runtime: &Runtime, package: &Package, control: &Control) -> Result<()> {
        let check = || {
            let graph = NodeGraph::read(package)?;
            let (backends, _) = runtime.backends.for_model()?;
            let options = LoadOptions {
                control: control.clone(),
                in_flight: 0,
                ..LoadOptions::default()
            };
            let runtime = &runtime.with_backends(backends);
            match graph.into_one_core() {
                Ok((name, contents)) if contents.tenon.is_symbolic() => {
                    SymbolicCore::load(&name, contents, runtime, &options).map(drop)
                }
                Ok((name, contents)) => {
                    CoreNode::load(&name, contents, runtime, &options).map(drop)
                }
                Err(graph) if graph.host().is_some() => {
                    HostCore::load(graph, runtime, &options).map(drop)
                }
                Err(graph) => Walker::check(graph, runtime, &options),
            }
        };
        check().map_err(|error| located(error, package))
    }
}

fn located(error: Error, package: &Package) -> Error {
    match package.path() {
        Some(path) => error.at(Location::file(path)),
        None => error,
    }
}

fn load_graph(
    runtime: &Runtime,
    graph: NodeGraph,
    integrity: Option<Integrity>,
    options: &LoadOptions,
) -> Result<Model> {
    let (backends, memories) = runtime.backends.for_model()?;
    device_memory::check_names(&options.device_memory_limits, &backends)?;
    let mut lifecycle = ModelLifecycle::begin(runtime, memories)?;
    let runtime = &runtime.with_backends(backends);
    let cpu_nodes: Vec<(String, String)> = graph
        .cpu_nodes()
        .map(|(name, function)| (name.to_owned(), function.operator.clone()))
        .collect();
    let hosted = graph
        .host()
        .map(|host| (host.model.clone(), graph.placement()));
    let (nodes, inputs, outputs) = match graph.into_one_core() {
        Ok((name, contents)) if contents.tenon.is_symbolic() => {
            let core = SymbolicCore::load(&name, contents, runtime, options)?;
            let (inputs, outputs) = (core.inputs()?, core.outputs()?);
            (Nodes::Symbolic(Box::new(core)), inputs, outputs)
        }
        Ok((name, contents)) => {
            let core = CoreNode::load(&name, contents, runtime, options)?;
            let (inputs, outputs) = (core.inputs.clone(), core.outputs.clone());
            (Nodes::One(Box::new(core)), inputs, outputs)
        }
        Err(graph) if hosted.is_some() => {
            let host = HostCore::load(graph, runtime, options)?;
            let (inputs, outputs) = (host.inputs()?, host.outputs()?);
            (Nodes::Host(Arc::new(host), false), inputs, outputs)
        }
        Err(graph) => {
            let inputs = graph.inputs.iter().map(signature).collect::<Result<_>>()?;
            let outputs = graph.outputs.iter().filter_map(|&wire| graph.port(wire));
            let outputs = outputs
                .map(|port| signature(&port))
                .collect::<Result<_>>()?;
            let walker = Walker::load(graph, runtime, options)?;
            (Nodes::Several(walker), inputs, outputs)
        }
    };
    // Each subgraph is within the limits already.
    device_memory::max_executions(&nodes.device_memory(), options)?;
    let members: Vec<&TenonMember> = match &nodes {
        Nodes::Symbolic(core) => vec![core.member()],
        _ => nodes.cores().map(CoreNode::member).collect(),
    };
    let model = members.first().map(|member| member.model.clone());
    let model = model.unwrap_or_default();
    let mut placement = PlacementReport::of_all(members.iter().map(|member| &member.placement));
    for (node, operator) in cpu_nodes {
        placement.add_cpu_node(&node, &operator);
    }
    let (model, placement) = hosted.unwrap_or((model, placement));
    let plans = nodes.cores().map(|core| &core.plan);
    let plan = plans.max_by_key(|plan| plan.arena_bytes).cloned();
    let used = placement.nodes.iter().map(|node| node.backend.clone());
    lifecycle.settle(used.collect())?;
    let maps = map_keys(&model.metadata, inputs.iter().chain(&outputs))?;
    let context = ModelContext {
        threads: options.threads,
        nan_check: options.nan_check,
        shared: Arc::new(Shared {
            name: model.name,
            maps,
            metadata: model.metadata,
            placement,
            integrity,
            active: OnceLock::new(),
            lifecycle,
        }),
    };
    if let Nodes::Host(host, _) = &nodes {
        host.set_context(context.clone());
    }
    Ok(Model::of(Inner {
        pool: None,
        plan: plan.unwrap_or_default(),
        inputs,
        outputs,
        nodes,
        uncontrolled: Control::new(),
        context,
    }))
}

/// Name and type of a tensor between nodes.
pub(crate) fn signature(port: &GraphPort) -> Result<Signature> {
    let ty = fixed_type(port.dtype, &port.shape)?;
    Ok(Signature::fixed(port.name.clone(), ty))
}

/// The inputs and outputs that the metadata calls maps.
fn map_keys<'a>(
    metadata: &BTreeMap<String, String>,
    ports: impl Iterator<Item = &'a Signature>,
) -> Result<BTreeMap<String, Arc<MapKeys>>> {
    let maps = MapKeys::of_metadata(metadata)?;
    let mut problems = Vec::new();
    for port in ports {
        let (Some(keys), Some(Dimension::Fixed(columns))) =
            (maps.get(&port.name), port.shape.last())
        else {
            continue;
        };
        if keys.len() != *columns {
            let text = format!("'{}' does not have a column for each key", port.name);
            let error = Error::new(ErrorKind::InvalidModel, text);
            problems.push(error.expected(keys.len()).found(columns));
        }
    }
    let maps = maps.into_iter();
    let maps = maps.map(|(name, keys)| (name, Arc::new(keys))).collect();
    Error::from_all(problems).map_or(Ok(maps), Err)
}
