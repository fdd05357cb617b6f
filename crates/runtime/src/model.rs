//! A loaded model, and its execution.

use crate::arenas::{Arenas, Execution};
use crate::profile::Watch;
use crate::{Bindings, CoreGroup, Profile, inputs};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use tenon_base::trace::TraceSink;
use tenon_base::{Control, Result, pool};
use tenon_executor::{BoundFunction, Program};
use tenon_neff::{MemoryPlan, PlacementReport, TenonMember};
use tenon_tensor::{BufferMut, Tensor, TensorType};

/// An input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Its name.
    pub name: String,
    /// Its data type and shape.
    pub ty: TensorType,
}

/// A package loaded, ready to execute. Clones share it, threads may execute it at the same time.
#[derive(Clone)]
pub struct Model(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub name: String,
    pub inputs: Vec<Signature>,
    pub outputs: Vec<Signature>,
    pub program: Program,
    /// Position of the function `main`.
    pub main: usize,
    pub arenas: Arenas,
    pub threads: Option<usize>,
    pub member: TenonMember,
    /// For executions without a control of their own; made once, for it takes memory.
    pub uncontrolled: Control,
}

/// How one execution goes. The default is without control, profile and trace.
#[derive(Default)]
pub struct ExecuteOptions<'a> {
    /// Cancel and deadline.
    pub control: Option<&'a Control>,
    /// Adds the times of this execution; made by [`Model::profile`].
    pub profile: Option<&'a mut Profile>,
    /// Hears every kernel and the whole.
    pub trace: Option<&'a dyn TraceSink>,
    /// Takes turns on these cores.
    pub cores: Option<&'a CoreGroup>,
}

impl Model {
    /// The model's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its inputs, in order.
    pub fn inputs(&self) -> &[Signature] {
        &self.0.inputs
    }

    /// Its outputs, in order.
    pub fn outputs(&self) -> &[Signature] {
        &self.0.outputs
    }

    /// The metadata that came with it: class labels, image scaling (docs/package.md).
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.0.member.model.metadata
    }

    /// Which backend each node runs on, and why not on others.
    pub fn placement(&self) -> &PlacementReport {
        &self.0.member.placement
    }

    /// Where values lie in the arena.
    pub fn memory_plan(&self) -> &MemoryPlan {
        &self.0.member.plan
    }

    /// Bytes of memory that executions not in use hold.
    pub fn idle_bytes(&self) -> usize {
        self.0.arenas.free_bytes()
    }

    /// An empty profile for executions of this model.
    pub fn profile(&self) -> Profile {
        Profile::of(self.main())
    }

    /// Executes on tensors by name and answers the outputs in order.
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

    /// Executes on the caller's memory: inputs and outputs in order, each exactly the bytes of its
    /// type. Memory aligned to 64 bytes is used where it lies, other memory is copied. Allocates
    /// nothing, but for memory that the first executions in flight need. After an error the outputs
    /// hold anything.
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

    /// Inputs and outputs that stay bound from one execution to the next.
    pub fn bind(&self) -> Result<Bindings> {
        Bindings::new(self.clone())
    }

    pub(crate) fn execute_on<'a>(
        &self,
        inputs: impl Iterator<Item = &'a [u8]>,
        outputs: impl Iterator<Item = &'a mut [u8]>,
        options: ExecuteOptions<'_>,
    ) -> Result<()> {
        let ExecuteOptions {
            control,
            profile,
            trace,
            cores,
        } = options;
        let control = control.unwrap_or(&self.0.uncontrolled);
        let main = self.main();
        let work = || {
            let _core = cores.map(|cores| cores.occupy(control)).transpose()?;
            self.0
                .arenas
                .lend(main, control, |Execution { memory, registers }| {
                    memory.with(inputs, outputs, |memory| {
                        if profile.is_none() && trace.is_none() {
                            return main.run(registers, &[], memory, control, &mut ());
                        }
                        let started = Instant::now();
                        let mut watch = Watch {
                            main,
                            profile,
                            trace,
                            started,
                        };
                        main.run(registers, &[], memory, control, &mut watch)?;
                        let ended = Instant::now();
                        if let Some(profile) = watch.profile {
                            profile.executions += 1;
                            profile.elapsed += ended - started;
                        }
                        if let Some(trace) = trace {
                            trace.scope("execute", &self.0.name, started, ended, 0);
                        }
                        Ok(())
                    })
                })
        };
        match self.0.threads {
            Some(limit) => pool::with_thread_limit(limit, work),
            None => work(),
        }
    }

    pub(crate) fn output_buffers(&self) -> Result<Vec<BufferMut>> {
        self.outputs()
            .iter()
            .map(|signature| BufferMut::zeroed(signature.ty.bytes()))
            .collect()
    }

    fn main(&self) -> &BoundFunction {
        &self.0.program.functions()[self.0.main]
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
