//! Loaded models and their execution.

use crate::core_node::CoreNode;
use crate::integrity::Integrity;
use crate::lifecycle::ModelLifecycle;
use crate::nan_check::NanCheckedTap;
use crate::profile::ExecutionObserver;
use crate::substitute::Substitution;
use crate::walker::{Node, Walker};
use crate::{ActiveModel, Bindings, CoreGroup, Profile, Tap, inputs};
use std::collections::BTreeMap;
use std::iter::Empty;
use std::sync::Arc;
use std::time::Instant;
use tenon_base::trace::TraceSink;
use tenon_base::{Control, Result, pool};
use tenon_kernels::{BoundPorts, Variables};
use tenon_neff::{MemoryPlan, NodeCost, PlacementReport};
use tenon_tensor::{BufferMut, Tensor, TensorType};

/// An input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The name.
    pub name: String,
    /// The data type and shape.
    pub ty: TensorType,
}

/// A loaded package. Clones share it; threads may execute it concurrently.
#[derive(Clone)]
pub struct Model(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub name: String,
    pub inputs: Vec<Signature>,
    pub outputs: Vec<Signature>,
    pub nodes: Nodes,
    pub metadata: BTreeMap<String, String>,
    /// The placement of all subgraphs.
    pub placement: PlacementReport,
    pub plan: MemoryPlan,
    pub threads: Option<usize>,
    pub nan_check: bool,
    /// Constants that are not verified by digests yet.
    pub integrity: Option<Integrity>,
    /// Lists the model for monitoring.
    pub active: Option<ActiveModel>,
    /// The control of executions without one; shared, since creating one allocates.
    pub uncontrolled: Control,
    /// The last field, so that it is dropped after all objects of the backends.
    pub lifecycle: ModelLifecycle,
}

impl Drop for Inner {
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
}

impl Nodes {
    /// All nodes, in execution order.
    pub fn list(&self) -> Vec<Node<'_>> {
        match self {
            Nodes::One(core) => vec![Node::Core(core)],
            Nodes::Several(walker) => walker.nodes().collect(),
        }
    }

    /// The subgraphs.
    pub fn cores(&self) -> impl Iterator<Item = &CoreNode> {
        self.list().into_iter().filter_map(Node::core)
    }
}

/// The caller's memory in an execution: lists, or bound ports.
pub(crate) enum Caller<'a, I, O> {
    Lists(I, O),
    Bound(&'a mut BoundPorts),
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
    /// The model's name.
    pub fn name(&self) -> &str {
        &self.0.name
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
        &self.0.metadata
    }

    /// The backend of each node, and why others rejected it.
    pub fn placement(&self) -> &PlacementReport {
        &self.0.placement
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
        cores.flat_map(|core| &core.member.costs)
    }

    /// The memory plan of the arena; that of the largest arena when there are several subgraphs.
    pub fn memory_plan(&self) -> &MemoryPlan {
        &self.0.plan
    }

    /// Name and variables of each subgraph, in execution order.
    pub fn subgraphs(&self) -> impl Iterator<Item = (&str, &Variables)> {
        let cores = self.0.nodes.cores();
        cores.map(|core| (core.name.as_str(), core.outputs_by_kernel.table()))
    }

    /// Bytes of memory held for executions that are not running.
    pub fn idle_bytes(&self) -> usize {
        self.0
            .nodes
            .cores()
            .map(|core| core.arenas.free_bytes())
            .sum()
    }

    /// An empty profile for executions of this model.
    pub fn profile(&self) -> Profile {
        Profile::of(self.0.nodes.list(), self.0.lifecycle.counters())
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
        let inputs = inputs::in_order(self.inputs(), inputs)?;
        let mut buffers = self.output_buffers()?;
        self.execute_on(
            inputs.into_iter().map(Tensor::bytes),
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

    /// Inputs and outputs that stay bound between executions.
    pub fn bind(&self) -> Result<Bindings> {
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
        self.execute_for(CallerPorts::Bound(ports), options)
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
        let ExecuteOptions {
            control,
            profile,
            trace,
            tap,
            cores,
        } = options;
        if let Some(integrity) = &self.0.integrity {
            integrity.constants()?;
        }
        let control = control.unwrap_or(&self.0.uncontrolled);
        let checked = NanCheckedTap(tap);
        let tap = if self.0.nan_check {
            Some(&checked as &dyn Tap)
        } else {
            tap
        };
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
        let work = || match ExecutionObserver::new(profile, trace, tap, &self.0.lifecycle) {
            None => self.execute_nodes(caller, control, turn, None),
            Some(mut watch) => {
                let started = Instant::now();
                self.execute_nodes(caller, control, turn, Some(&mut watch))?;
                watch.executed(&self.0.name, started);
                Ok(())
            }
        };
        let work = || {
            match self.0.threads {
                Some(limit) => pool::with_thread_limit(limit, work)?,
                None => work()?,
            }
            // A CPU node, or copying outputs, may have passed the deadline.
            control.check()?;
            self.0.lifecycle.executed()
        };
        match &self.0.active {
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
                let (inputs, outputs): (Vec<&[u8]>, Vec<&mut [u8]>) = match caller {
                    Caller::Lists(inputs, outputs) => (inputs.collect(), outputs.collect()),
                    Caller::Bound(ports) => {
                        let (inputs, outputs) = ports.bytes();
                        (inputs.collect(), outputs.collect())
                    }
                };
                walker.execute(&inputs, outputs, control, turn, watch)
            }
        }
    }

    pub(crate) fn output_buffers(&self) -> Result<Vec<BufferMut>> {
        self.outputs()
            .iter()
            .map(|signature| BufferMut::zeroed(signature.ty.bytes()))
            .collect()
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("name", &self.0.name)
            .field("inputs", &self.0.inputs)
            .field("outputs", &self.0.outputs)
            .finish_non_exhaustive()
    }
}
