//! Loaded models and their execution.

use crate::core_node::CoreNode;
use crate::host::HostCore;
use crate::integrity::Integrity;
use crate::lifecycle::ModelLifecycle;
use crate::nan_check::NanCheckedTap;
use crate::profile::ExecutionObserver;
use crate::substitute::Substitution;
use crate::symbolic::{PaddedModel, SymbolicCore, known_sizes};
use crate::walker::{Node, Walker};
use crate::{ActiveModel, Bindings, CoreGroup, Profile, Tap, inputs};
use std::collections::BTreeMap;
use std::iter::Empty;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tenon_backend::{BackendId, DeviceTensor};
use tenon_base::trace::TraceSink;
use tenon_base::{Control, Error, ErrorKind, Result, pool};
use tenon_kernels::{BoundPorts, DeviceMemory, Variables};
use tenon_neff::{MemoryPlan, NodeCost, PlacementReport};
use tenon_tensor::size::Symbols;
use tenon_tensor::{BufferMut, BufferPool, MapKeys, ModelValue, Signature, Tensor, TensorType};

/// A loaded package. Clones share it; threads may execute it concurrently.
#[derive(Clone)]
pub struct Model(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub inputs: Vec<Signature>,
    pub outputs: Vec<Signature>,
    pub nodes: Nodes,
    pub plan: MemoryPlan,
    /// The control of executions without one; shared, since creating one allocates.
    pub uncontrolled: Control,
    /// Memory for large outputs, if the model is one of several instances.
    pub pool: Option<Arc<BufferPool>>,
    /// The last field, so that it is dropped after all objects of the backends.
    pub context: ModelContext,
}

/// What a model has in common with its instances.
#[derive(Clone)]
pub(crate) struct ModelContext {
    pub threads: Option<usize>,
    pub nan_check: bool,
    pub shared: Arc<Shared>,
}

/// What a model with symbols has in common with the models for fixed sizes that are made of it.
pub(crate) struct Shared {
    pub name: String,
    pub metadata: BTreeMap<String, String>,
    /// The inputs and outputs that are maps.
    pub maps: BTreeMap<String, Arc<MapKeys>>,
    /// The placement of all subgraphs.
    pub placement: PlacementReport,
    /// Constants that are not verified by digests yet.
    pub integrity: Option<Integrity>,
    /// Lists the model for monitoring.
    pub active: OnceLock<ActiveModel>,
    /// The last field, so that it is dropped after all objects of the backends.
    pub lifecycle: ModelLifecycle,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.lifecycle.leave();
    }
}

/// The nodes of a package.
pub(crate) enum Nodes {
    /// One subgraph, the usual case.
    One(Box<CoreNode>),
    /// Several nodes.
    Several(Walker),
    /// One subgraph with sizes that are known only when the model runs.
    Symbolic(Box<SymbolicCore>),
    /// Actual sizes between buckets.
    Padded(Box<PaddedModel>),
    /// Subgraphs that a host function calls; `true` when the sizes of the inputs are chosen.
    Host(Arc<HostCore>, bool),
}

impl Nodes {
    /// All nodes, in execution order.
    pub fn list(&self) -> Vec<Node<'_>> {
        match self {
            Nodes::One(core) => vec![Node::Core(core)],
            Nodes::Several(walker) => walker.nodes().collect(),
            // It is executed by the models for its sizes.
            Nodes::Symbolic(_) => Vec::new(),
            Nodes::Padded(padded) => padded.instance.0.nodes.list(),
            Nodes::Host(host, _) => host.cores().map(Node::Core).collect(),
        }
    }

    /// The subgraphs.
    pub fn cores(&self) -> impl Iterator<Item = &CoreNode> {
        self.list().into_iter().filter_map(Node::core)
    }

    /// The memory of backends that the subgraphs need.
    pub fn device_memory(&self) -> Vec<DeviceMemory> {
        DeviceMemory::sums(self.cores().flat_map(|core| core.device_memory.clone()))
    }
}

/// The caller's memory in an execution: lists, or bound ports.
pub(crate) enum Caller<'a, I, O> {
    Lists(I, O),
    Bound(&'a mut BoundPorts),
}

/// The bytes of inputs and outputs.
type ByteLists<'a> = (Vec<&'a [u8]>, Vec<&'a mut [u8]>);

impl<'a, I, O> Caller<'a, I, O>
where
    I: Iterator<Item = &'a [u8]>,
    O: Iterator<Item = &'a mut [u8]>,
{
    /// The bytes of inputs and outputs.
    fn lists(self) -> Result<ByteLists<'a>> {
        Ok(match self {
            Self::Lists(inputs, outputs) => (inputs.collect(), outputs.collect()),
            Self::Bound(ports) => {
                let (inputs, outputs) = ports.bytes()?;
                (inputs.collect(), outputs.collect())
            }
        })
    }
}

/// Options of one execution. The default has no control, profile, trace and tap.
#[derive(Default)]
pub struct ExecuteOptions<'a> {
    /// Cancellation and deadline.
    pub control: Option<&'a Control>,
    /// The profile to which this execution is added; from [`Model::profile`].
    pub profile: Option<&'a mut Profile>,
    /// The sink of trace scopes: every kernel and the whole execution.
    pub trace: Option<&'a dyn TraceSink>,
    /// The cores on which the execution runs, exclusively.
    pub cores: Option<&'a CoreGroup>,
    /// The callback for the values of nodes, such as [`NanCheck`](crate::NanCheck).
    pub tap: Option<&'a dyn Tap>,
}

impl Model {
    pub(crate) fn of(mut inner: Inner) -> Self {
        let maps = &inner.context.shared.maps;
        if !maps.is_empty() {
            for port in inner.inputs.iter_mut().chain(&mut inner.outputs) {
                port.keys = maps.get(&port.name).cloned();
            }
        }
        Self(Arc::new(inner))
    }

    /// The model's name.
    pub fn name(&self) -> &str {
        &self.0.context.shared.name
    }

    /// The inputs, in order.
    pub fn inputs(&self) -> &[Signature] {
        &self.0.inputs
    }

    /// The outputs, in order.
    pub fn outputs(&self) -> &[Signature] {
        &self.0.outputs
    }

    /// The metadata of the model: class labels, image scaling (docs/package.md).
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.0.context.shared.metadata
    }

    /// The backend of each node, and why others rejected it.
    pub fn placement(&self) -> &PlacementReport {
        &self.0.context.shared.placement
    }

    /// Unavailable backends for which the package was compiled: their nodes run on other backends,
    /// which is usually slower.
    pub fn substitutions(&self) -> Vec<&Substitution> {
        let cores = self.0.nodes.cores();
        cores.flat_map(|core| &core.substitutions).collect()
    }

    /// The costs of the nodes in one execution, of all subgraphs.
    pub fn costs(&self) -> impl Iterator<Item = &NodeCost> {
        let cores = self.0.nodes.cores();
        cores.flat_map(|core| &core.member().costs)
    }

    /// The memory plan of the arena; that of the largest arena when there are several subgraphs.
    pub fn memory_plan(&self) -> &MemoryPlan {
        &self.0.plan
    }

    /// Name and variables of each subgraph, in execution order.
    pub fn subgraphs(&self) -> impl Iterator<Item = (&str, &Variables)> {
        let cores = self.0.nodes.cores();
        cores.map(|core| (core.name(), &**core.table()))
    }

    /// The memory that the model needs of each backend with separate memory, as far as sizes are known.
    pub fn device_memory(&self) -> Vec<DeviceMemory> {
        self.0.nodes.device_memory()
    }

    /// Bytes of memory held for executions that are not running.
    pub fn idle_bytes(&self) -> usize {
        match &self.0.nodes {
            Nodes::Symbolic(core) => return core.idle_bytes(),
            Nodes::Host(host, _) => return host.idle_bytes(),
            Nodes::One(_) | Nodes::Several(_) | Nodes::Padded(_) => {}
        }
        let cores = self.0.nodes.cores();
        cores.map(|core| core.arenas.free_bytes()).sum()
    }

    /// An empty profile for executions of this model. Kernels that a host function or sizes decide are added when they
    /// first run.
    pub fn profile(&self) -> Profile {
        let nodes = match &self.0.nodes {
            Nodes::Host(..) => Vec::new(),
            nodes => nodes.list(),
        };
        Profile::of(nodes, self.0.context.shared.lifecycle.counters())
    }

    /// Executes on tensors by name; returns the outputs in order.
    pub fn run(&self, inputs: &[(&str, &Tensor)]) -> Result<Vec<Tensor>> {
        self.run_with(inputs, ExecuteOptions::default())
    }

    /// The same with options.
    pub fn run_with(
        &self,
        inputs: &[(&str, &Tensor)],
        options: ExecuteOptions<'_>,
    ) -> Result<Vec<Tensor>> {
        if let Nodes::Host(..) = &self.0.nodes {
            let values = inputs.iter();
            let values = values.map(|(_, tensor)| ModelValue::Tensor((*tensor).clone()));
            let values: Vec<ModelValue> = values.collect();
            let names = inputs.iter().map(|(name, _)| *name);
            let outputs = self.run_values(&names.zip(&values).collect::<Vec<_>>(), options)?;
            return self.tensors(outputs);
        }
        let inputs = inputs::in_order(self.inputs(), inputs)?;
        match &self.0.nodes {
            Nodes::Symbolic(core) => {
                let types: Vec<&TensorType> = inputs.iter().map(|tensor| tensor.ty()).collect();
                let model = core.model_for(&self.0.context, &types)?;
                model.run_in_order(&inputs, options)
            }
            _ => self.run_in_order(&inputs, options),
        }
    }

    /// Executes on values by name, which may be sequences or absent; returns the outputs in order.
    ///
    /// # Errors
    /// As [`Model::run_with`].
    pub fn run_values(
        &self,
        inputs: &[(&str, &ModelValue)],
        options: ExecuteOptions<'_>,
    ) -> Result<Vec<ModelValue>> {
        if let Nodes::Host(host, _) = &self.0.nodes {
            let inputs = inputs::in_order(self.inputs(), inputs)?;
            return self.run_host(host, &inputs, options);
        }
        let mut tensors = Vec::with_capacity(inputs.len());
        for (name, value) in inputs {
            match value {
                ModelValue::Tensor(tensor) => tensors.push((*name, tensor)),
                ModelValue::Sequence(_) | ModelValue::None => {
                    let text = format!("input '{name}' is a tensor");
                    let error = Error::new(ErrorKind::InvalidArgument, text);
                    return Err(error.found(value.description()));
                }
            }
        }
        let outputs = self.run_with(&tensors, options)?;
        Ok(outputs.into_iter().map(ModelValue::Tensor).collect())
    }

    /// The outputs of a model that has tensors only.
    fn tensors(&self, outputs: Vec<ModelValue>) -> Result<Vec<Tensor>> {
        let outputs = outputs.into_iter().zip(self.outputs());
        let tensor = |(output, signature): (ModelValue, &Signature)| match output {
            ModelValue::Tensor(tensor) => Ok(tensor),
            ModelValue::Sequence(_) | ModelValue::None => {
                let text = format!("output '{}' is no tensor", signature.name);
                let error = Error::new(ErrorKind::Unsupported, text);
                Err(error
                    .found(output.description())
                    .help("run the model with values instead of tensors"))
            }
        };
        outputs.map(tensor).collect()
    }

    /// Executes a host function.
    fn run_host(
        &self,
        host: &HostCore,
        inputs: &[&ModelValue],
        options: ExecuteOptions<'_>,
    ) -> Result<Vec<ModelValue>> {
        let control = options.control.unwrap_or(&self.0.uncontrolled);
        let cores = options.cores;
        self.observed(control, options, |watch| {
            let _turn = cores.map(|cores| cores.occupy(control)).transpose()?;
            host.run(inputs, control, watch)
        })
    }

    /// Executes on tensors of the right types, in order.
    fn run_in_order(&self, inputs: &[&Tensor], options: ExecuteOptions<'_>) -> Result<Vec<Tensor>> {
        let mut buffers = self.output_buffers()?;
        self.execute_on(
            inputs.iter().map(|tensor| tensor.bytes()),
            buffers.iter_mut().map(|buffer| &mut buffer[..]),
            options,
        )?;
        let outputs = buffers.into_iter().zip(self.outputs());
        outputs
            .map(|(buffer, signature)| Tensor::new(signature.ty.clone(), buffer.freeze()))
            .collect()
    }

    /// Executes on the caller's memory: inputs and outputs in order, each with the size of its
    /// type. Memory aligned to 64 bytes is used in place, other memory is copied. Does not
    /// allocate, except memory for the first concurrent executions. After an error the contents of
    /// the outputs are unspecified.
    pub fn execute(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<()> {
        self.execute_with(inputs, outputs, ExecuteOptions::default())
    }

    /// The same with options.
    pub fn execute_with(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        options: ExecuteOptions<'_>,
    ) -> Result<()> {
        self.execute_on(
            inputs.iter().copied(),
            outputs.iter_mut().map(|output| &mut **output),
            options,
        )
    }

    /// The dimensions that are known only when the model runs; none if all are fixed.
    pub fn symbols(&self) -> &Symbols {
        static NONE: Symbols = Symbols::none();
        match &self.0.nodes {
            Nodes::Symbolic(core) => core.symbols(),
            Nodes::Host(host, false) => host.symbols(),
            _ => &NONE,
        }
    }

    /// The model for these sizes of its symbolic dimensions. It shares the constants, and is kept for the next
    /// execution with these sizes. A model without symbolic dimensions returns itself for no sizes.
    ///
    /// # Errors
    /// Names of no dimension, dimensions without a size, sizes outside their ranges, and sizes that the operators
    /// refuse.
    pub fn at(&self, sizes: &[(&str, u64)]) -> Result<Model> {
        let symbols = self.symbols();
        let mut errors = Vec::new();
        for (name, _) in sizes {
            if symbols.find(name).is_none() {
                let names: Vec<&str> = symbols.iter().map(|(_, s)| s.name.as_str()).collect();
                let text = format!("the model has no symbolic dimension '{name}'");
                let error = Error::new(ErrorKind::InvalidArgument, text);
                errors.push(error.expected(names.join(", ")));
            }
        }
        let mut values = Vec::with_capacity(symbols.len());
        for (_, symbol) in symbols.iter() {
            match sizes.iter().find(|(name, _)| *name == symbol.name) {
                Some(&(_, size)) => values.push(i64::try_from(size).unwrap_or(i64::MAX)),
                None => {
                    let text = format!("dimension '{}' has no size", symbol.name);
                    let range = format!("a size from {} to {}", symbol.min, symbol.max);
                    errors.push(Error::new(ErrorKind::InvalidArgument, text).expected(range));
                }
            }
        }
        if let Some(error) = Error::from_all(errors) {
            return Err(error);
        }
        match &self.0.nodes {
            Nodes::Symbolic(core) => {
                core.symbols().check(&values)?;
                core.model_at(&self.0.context, &values)
            }
            Nodes::Host(host, false) if !symbols.is_empty() => {
                symbols.check(&values)?;
                let [inputs, outputs] = host.signatures_at(&values)?;
                Ok(Model::of(Inner {
                    inputs,
                    outputs,
                    nodes: Nodes::Host(host.clone(), true),
                    plan: self.0.plan.clone(),
                    uncontrolled: Control::new(),
                    pool: None,
                    context: self.0.context.clone(),
                }))
            }
            _ => Ok(self.clone()),
        }
    }

    /// The model for the sizes of these inputs, by name, and of `sizes`, which decide dimensions that no input
    /// decides.
    ///
    /// # Errors
    /// As [`Model::at`].
    pub fn at_inputs(
        &self,
        inputs: &[(&str, &TensorType)],
        sizes: &[(&str, u64)],
    ) -> Result<Model> {
        let ports = match &self.0.nodes {
            Nodes::Symbolic(core) => core.input_ports().iter().collect(),
            Nodes::Host(host, false) => host.input_ports(),
            _ => return self.at(sizes),
        };
        let mut all = sizes.to_vec();
        let found = known_sizes(&ports, self.symbols(), inputs);
        for (name, size) in &found {
            if !sizes.iter().any(|(given, _)| given == name) {
                all.push((name, *size));
            }
        }
        self.at(&all)
    }

    /// The model for inputs of these types, in order: as [`Model::at`] with the sizes that they have.
    ///
    /// # Errors
    /// As [`Model::run`] and [`Model::at`].
    pub fn for_types(&self, types: &[&TensorType]) -> Result<Model> {
        match &self.0.nodes {
            Nodes::Symbolic(core) => core.model_for(&self.0.context, types),
            _ => Ok(self.clone()),
        }
    }

    /// An error for a model that can only be executed after [`Model::at`], or whose outputs have no known size.
    fn require_fixed(&self) -> Result<()> {
        if matches!(self.0.nodes, Nodes::Host(..)) {
            let text = "sizes of the model depend on data, so that its memory cannot be bound";
            let error = Error::new(ErrorKind::Unsupported, text);
            return Err(error.help("run the model on tensors: outputs of any size are returned"));
        }
        if self.symbols().is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self
            .symbols()
            .iter()
            .map(|(_, s)| s.name.as_str())
            .collect();
        let text = "the sizes of the model's symbolic dimensions are not known";
        Err(Error::new(ErrorKind::InvalidArgument, text)
            .found(names.join(", "))
            .help("choose them with Model::at, or run the model on tensors"))
    }

    /// A tensor of the application in memory of a backend of the model's runtime, to be bound as an input
    /// ([`Bindings::set_device_input`]).
    ///
    /// # Errors
    /// An unknown backend, and one that computes in memory of the host.
    pub fn tensor_on(&self, backend: &BackendId, ty: &TensorType) -> Result<DeviceTensor> {
        let backends = self.0.context.shared.lifecycle.backends();
        let found = backends.find(backend);
        DeviceTensor::new(found.ok_or_else(|| backends.unknown(backend))?, ty)
    }

    /// Inputs and outputs that stay bound between executions.
    pub fn bind(&self) -> Result<Bindings> {
        self.require_fixed()?;
        Bindings::new(self.clone())
    }

    pub(crate) fn execute_on<'a>(
        &self,
        inputs: impl Iterator<Item = &'a [u8]>,
        outputs: impl Iterator<Item = &'a mut [u8]>,
        options: ExecuteOptions<'_>,
    ) -> Result<()> {
        self.execute_for(Caller::Lists(inputs, outputs), options)
    }

    pub(crate) fn execute_bound(
        &self,
        ports: &mut BoundPorts,
        options: ExecuteOptions<'_>,
    ) -> Result<()> {
        type CallerPorts<'a> = Caller<'a, Empty<&'a [u8]>, Empty<&'a mut [u8]>>;
        self.execute_for(CallerPorts::Bound(ports), options)?;
        ports.feed()
    }

    fn execute_for<'a, I, O>(
        &self,
        caller: Caller<'a, I, O>,
        options: ExecuteOptions<'_>,
    ) -> Result<()>
    where
        I: Iterator<Item = &'a [u8]>,
        O: Iterator<Item = &'a mut [u8]>,
    {
        let (trace, cores) = (options.trace, options.cores);
        let control = options.control.unwrap_or(&self.0.uncontrolled);
        let turn = |flops| {
            let since = trace.map(|_| Instant::now());
            let turn = cores.map(|cores| cores.occupy(control)).transpose()?;
            if let (Some(trace), Some(since), true) = (trace, since, turn.is_some()) {
                trace.scope("queue", "wait for a core", since, Instant::now(), 0);
            }
            if let Some(core) = &turn {
                core.computes(flops);
            }
            Ok(turn)
        };
        self.observed(control, options, |watch| {
            self.execute_nodes(caller, control, turn, watch)
        })
    }

    /// Runs `work` as one execution, with the observer of the options.
    fn observed<R>(
        &self,
        control: &Control,
        options: ExecuteOptions<'_>,
        work: impl FnOnce(Option<&mut ExecutionObserver<'_>>) -> Result<R>,
    ) -> Result<R> {
        let checked = NanCheckedTap(options.tap);
        let tap = if self.0.context.nan_check {
            Some(&checked as &dyn Tap)
        } else {
            options.tap
        };
        let lifecycle = &self.0.context.shared.lifecycle;
        let work = || match ExecutionObserver::new(options.profile, options.trace, tap, lifecycle) {
            None => work(None),
            Some(mut watch) => {
                let started = Instant::now();
                let done = work(Some(&mut watch))?;
                watch.executed(&self.0.context.shared.name, started);
                Ok(done)
            }
        };
        self.execution(control, work)
    }

    /// Runs `work` as one execution: with the model's limit of threads, checked and counted.
    fn execution<R>(&self, control: &Control, work: impl FnOnce() -> Result<R>) -> Result<R> {
        let ModelContext {
            threads, shared, ..
        } = &self.0.context;
        if let Some(integrity) = &shared.integrity {
            integrity.constants()?;
        }
        let work = || {
            let done = match threads {
                Some(limit) => pool::with_thread_limit(*limit, work)?,
                None => work()?,
            };
            // A CPU node, or copying outputs, may have passed the deadline.
            control.check()?;
            shared.lifecycle.executed()?;
            Ok(done)
        };
        match shared.active.get() {
            Some(active) => active.execute(work),
            None => work(),
        }
    }

    fn execute_nodes<'a, I, O, T>(
        &self,
        caller: Caller<'a, I, O>,
        control: &Control,
        turn: impl Fn(u64) -> Result<T>,
        watch: Option<&mut ExecutionObserver<'_>>,
    ) -> Result<()>
    where
        I: Iterator<Item = &'a [u8]>,
        O: Iterator<Item = &'a mut [u8]>,
    {
        match &self.0.nodes {
            Nodes::One(core) => {
                let _turn = turn(core.flops())?;
                core.execute(caller, control, watch)
            }
            Nodes::Several(walker) => {
                let (inputs, outputs) = caller.lists()?;
                walker.execute(&inputs, outputs, control, turn, watch)
            }
            Nodes::Padded(padded) => {
                let (inputs, outputs) = caller.lists()?;
                padded.execute(&inputs, outputs, |inputs, outputs| {
                    let caller = Caller::Lists(inputs.into_iter(), outputs.into_iter());
                    let instance = &padded.instance;
                    instance.execute_nodes(caller, control, turn, watch)
                })
            }
            Nodes::Symbolic(_) | Nodes::Host(..) => self.require_fixed(),
        }
    }

    pub(crate) fn output_buffers(&self) -> Result<Vec<BufferMut>> {
        let outputs = 0..self.outputs().len();
        outputs.map(|output| self.output_buffer(output)).collect()
    }

    /// Memory for an output.
    pub(crate) fn output_buffer(&self, output: usize) -> Result<BufferMut> {
        let bytes = self.outputs()[output].ty.bytes();
        match &self.0.pool {
            Some(pool) => pool.take(bytes),
            None => BufferMut::zeroed(bytes),
        }
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("name", &self.0.context.shared.name)
            .field("inputs", &self.0.inputs)
            .field("outputs", &self.0.outputs)
            .finish_non_exhaustive()
    }
}
