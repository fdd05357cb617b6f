//! Models on cores: loaded with one or several copies, executed on tensor sets.

mod access;
mod feedback;
mod sizes;

use crate::cores::{CoreGroup, Cores, MemoryUse, Reservation};
use crate::tensors::{CoreTensor, TensorSet};
use crate::{
    ActiveModel, ExecuteOptions, LoadOptions, Model, ModelReport, Runtime, Signature, port_names,
};
use access::{Access, Port, Ports};
use feedback::feedback_pairs;
use sizes::CoreSizes;
use smallvec::SmallVec;
use std::time::{Duration, Instant};
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_neff::Package;
use tenon_tensor::TensorType;

/// Options for loading a model onto cores.
#[derive(Debug, Clone, Default)]
pub struct CoreLoad {
    /// The first core; the least used cores when `None`.
    pub start: Option<u32>,
    /// The number of cores, a multiple of the number that the model requires; one copy when `None`.
    pub count: Option<u32>,
    /// The timeout of one execution.
    pub timeout: Option<Duration>,
    /// The other options; the number of concurrent executions is that of the copies.
    pub options: LoadOptions,
}

/// A model on cores. Threads may execute it concurrently.
pub struct CoreModel {
    model: Model,
    group: CoreGroup,
    /// Counts executions, for monitoring.
    active: ActiveModel,
    /// The total number of cores of all copies.
    cores: u32,
    timeout: Option<Duration>,
    inputs: Vec<CorePort>,
    outputs: Vec<CorePort>,
    /// How the sizes of an execution follow from its tensors; `None` if they are fixed.
    sizes: Option<CoreSizes>,
    _memory: Vec<Reservation>,
}

/// An input or output of a model on cores.
#[derive(Debug, Clone)]
pub struct CorePort {
    /// The assigned name: unique in the model, at most 251 bytes, a valid file name.
    pub name: String,
    /// The model's name, and the type; with the largest size of each symbolic dimension.
    pub signature: Signature,
}

impl CoreModel {
    /// Loads a package onto cores.
    ///
    /// # Errors
    /// Those of [`Model::load`]; `NotEnoughCores` when the process has fewer, `InvalidArgument` for
    /// a count that is not a multiple of the number that the model requires, `OutOfMemory`; `Unsupported` for
    /// symbolic dimensions without bound, or that the byte counts of tensors do not decide.
    pub fn load(
        runtime: &Runtime,
        cores: &Cores,
        package: &Package,
        load: &CoreLoad,
    ) -> Result<Self> {
        let needs = package.header().num_tpb.max(1);
        let count = load.count.unwrap_or(needs);
        if count == 0 || !count.is_multiple_of(needs) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "the number of cores is not a multiple of the number that the model requires",
            )
            .expected(format_args!("a multiple of {needs}"))
            .found(count));
        }
        let start = match load.start {
            Some(start) => start,
            None => cores.least_used(count)?,
        };
        let end = start.saturating_add(count);
        // Each copy executes on the first of its cores; the others are reserved.
        let firsts = cores.group(start..end)?;
        let copies = count / needs;
        let options = LoadOptions {
            in_flight: copies as usize,
            max_in_flight: copies as usize,
            ..load.options.clone()
        };
        let bytes = package.header().data_size;
        let constants = cores.core(start)?.memory();
        let mut memory = vec![constants.reserve(MemoryUse::Constants, bytes)?];
        let model = Model::load(runtime, package, &options)?;
        let group = match needs {
            1 => firsts,
            _ => firsts.every(needs as usize),
        };
        let sizes = CoreSizes::of(&model, &group)?;
        if sizes.is_none() {
            let scratch = model.idle_bytes() as u64 / u64::from(copies);
            for core in group.cores() {
                memory.push(core.memory().reserve(MemoryUse::Scratch, scratch)?);
            }
        }
        let [inputs, outputs] = match &sizes {
            Some(sizes) => sizes.largest(&model)?,
            None => [model.inputs().to_vec(), model.outputs().to_vec()],
        };
        let all = inputs.iter().chain(&outputs);
        let names = port_names::assign_names(all.clone().map(|signature| signature.name.as_str()));
        let port = |(name, signature): (String, &Signature)| CorePort {
            name,
            signature: signature.clone(),
        };
        let mut inputs: Vec<CorePort> = names.into_iter().zip(all).map(port).collect();
        let outputs = inputs.split_off(model.inputs().len());
        group.cores().iter().for_each(|core| core.add_model());
        let on = group
            .cores()
            .iter()
            .map(|core| cores.first() + core.index());
        let active = cores.activity().model(ModelReport {
            name: model.name().to_owned(),
            uuid: package.header().uuid_text(),
            cores: on.collect(),
            bytes: memory.iter().map(Reservation::bytes).sum(),
            ..ModelReport::default()
        });
        Ok(Self {
            active,
            group,
            cores: count,
            timeout: load.timeout,
            inputs,
            outputs,
            sizes,
            _memory: memory,
            model,
        })
    }

    /// A warning about buckets that byte counts do not distinguish.
    pub fn ambiguity(&self) -> Option<String> {
        self.sizes.as_ref()?.ambiguity(&self.model)
    }

    /// The id, unique in the process.
    pub fn id(&self) -> u32 {
        self.active.id()
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The first core of each copy.
    pub fn group(&self) -> &CoreGroup {
        &self.group
    }

    /// The total number of cores of all copies.
    pub fn core_count(&self) -> u32 {
        self.cores
    }

    /// The number of copies, which is the number of threads that can execute concurrently.
    pub fn copies(&self) -> u32 {
        self.group.cores().len() as u32
    }

    /// Its inputs, in order.
    pub fn inputs(&self) -> &[CorePort] {
        &self.inputs
    }

    /// Its outputs, in order.
    pub fn outputs(&self) -> &[CorePort] {
        &self.outputs
    }

    /// Executes once: reads the tensors of `inputs`, writes those of `outputs`, looked up by the
    /// assigned name or the model's name. Inputs may overlap outputs: they are read first. Other
    /// tensors of the sets are not accessed. The byte counts of inputs decide the sizes of symbolic dimensions; then
    /// outputs may be larger than their values, which are written from their first byte on.
    ///
    /// # Errors
    /// `InvalidArgument` for tensors that are missing or have the wrong size, all reported
    /// together; `BadInput` for tensors without memory, of cores that the model is not on, and
    /// overlapping outputs; `InvalidHandle` for freed tensors; errors of the execution.
    pub fn execute(
        &self,
        inputs: &TensorSet,
        outputs: &TensorSet,
        options: ExecuteOptions<'_>,
    ) -> Result<()> {
        self.execute_repeatedly(inputs, outputs, 1, options)
    }

    /// Executes `count` times with feedback: outputs of one execution are inputs of the next. An
    /// output feeds the input of the same name; if no input has the name of an output, the first
    /// output feeds the first input and so on. The tensors of `inputs` are not modified.
    ///
    /// # Errors
    /// Those of [`CoreModel::execute`], and `InvalidArgument` when outputs and inputs do not match.
    pub fn execute_repeatedly(
        &self,
        inputs: &TensorSet,
        outputs: &TensorSet,
        count: u32,
        options: ExecuteOptions<'_>,
    ) -> Result<()> {
        let started = Instant::now();
        self.active
            .execute(|| self.execute_counted(inputs, outputs, count, started, options))
    }

    fn execute_counted(
        &self,
        inputs: &TensorSet,
        outputs: &TensorSet,
        count: u32,
        started: Instant,
        options: ExecuteOptions<'_>,
    ) -> Result<()> {
        let deadline;
        let control = match (options.control, self.timeout) {
            (None, Some(timeout)) => {
                deadline = Control::with_deadline(started + timeout);
                Some(&deadline)
            }
            (control, _) => control,
        };
        let mut written: SmallVec<[CoreTensor; 4]> = SmallVec::new();
        let inputs = self.ports("input", &self.inputs, inputs, None)?;
        let instance = self.instance(&inputs)?;
        let model = instance.as_ref().unwrap_or(&self.model);
        let mut outputs = self.ports("output", &self.outputs, outputs, Some(&mut written))?;
        if instance.is_some() {
            self.shorten(&mut outputs, model.outputs())?;
        }
        let feedback = match count {
            0 | 1 => Vec::new(),
            _ => feedback_pairs(model.inputs(), model.outputs())?,
        };
        let mut access = Access::new(inputs, outputs, control)?;
        let ExecuteOptions {
            mut profile,
            trace,
            tap,
            ..
        } = options;
        for time in 0..count {
            if time > 0 {
                access.feed_back(&feedback)?;
            }
            let options = ExecuteOptions {
                control,
                profile: profile.as_deref_mut(),
                trace,
                tap,
                cores: Some(&self.group),
            };
            let (inputs, outputs) = access.bytes();
            model.execute_on(inputs, outputs, options)?;
        }
        drop(access);
        written.iter().for_each(CoreTensor::complete);
        Ok(())
    }

    /// The types of the outputs of an execution on these inputs, in order.
    ///
    /// # Errors
    /// Those of [`CoreModel::execute`] that concern the inputs.
    pub fn output_types(&self, inputs: &TensorSet) -> Result<Vec<TensorType>> {
        let inputs = self.ports("input", &self.inputs, inputs, None)?;
        let instance = self.instance(&inputs)?;
        let outputs = instance.as_ref().unwrap_or(&self.model).outputs().iter();
        Ok(outputs.map(|signature| signature.ty.clone()).collect())
    }

    /// The model for the byte counts of these inputs; `None` if its sizes are fixed.
    fn instance(&self, inputs: &Ports) -> Result<Option<Model>> {
        let Some(sizes) = &self.sizes else {
            return Ok(None);
        };
        let bytes: SmallVec<[usize; 4]> = inputs.iter().map(|port| port.range.len()).collect();
        sizes.instance(&self.model, &self.group, &bytes).map(Some)
    }

    /// Shortens the memory of outputs to their actual sizes; all problems together.
    fn shorten(&self, outputs: &mut Ports, actual: &[Signature]) -> Result<()> {
        let mut errors = Vec::new();
        for ((port, output), actual) in self.outputs.iter().zip(outputs).zip(actual) {
            let (bytes, found) = (actual.ty.bytes(), output.range.len());
            if found < bytes {
                let text = format!("the tensor of output '{}' is too small", port.name);
                let error = Error::new(ErrorKind::InvalidArgument, text).found(found);
                let expected = format_args!("at least {bytes} bytes ({})", actual.ty);
                errors.push(error.expected(expected));
            }
            output.range.end = output.range.start + bytes.min(found);
        }
        Error::from_all(errors).map_or(Ok(()), Err)
    }

    /// The memory of ports, in order; all problems together.
    fn ports(
        &self,
        what: &str,
        ports: &[CorePort],
        set: &TensorSet,
        mut keep: Option<&mut SmallVec<[CoreTensor; 4]>>,
    ) -> Result<Ports> {
        let mut found = Ports::new();
        let mut errors = Vec::new();
        for port in ports {
            match self.port(what, port, set) {
                Ok((tensor, memory)) => {
                    found.push(memory);
                    if let Some(keep) = &mut keep {
                        keep.push(tensor);
                    }
                }
                Err(error) => errors.push(error),
            }
        }
        Error::from_all(errors).map_or(Ok(found), Err)
    }

    fn port(&self, what: &str, port: &CorePort, set: &TensorSet) -> Result<(CoreTensor, Port)> {
        let found = match set.find(&port.name)? {
            None if port.signature.name != port.name => set.find(&port.signature.name)?,
            found => found,
        };
        let name = &port.name;
        let tensor = found.ok_or_else(|| {
            let text = format!("the set has no tensor for {what} '{name}'");
            Error::new(ErrorKind::InvalidArgument, text)
                .expected(format_args!(
                    "{} ({} bytes)",
                    port.signature.ty,
                    port.signature.ty.bytes()
                ))
                .found(set.names())
        })?;
        let (storage, range) = tensor.memory().map_err(|error| {
            let text = format!("the tensor of {what} '{name}' has no memory");
            Error::new(ErrorKind::BadInput, text).source(error)
        })?;
        if self.sizes.is_none() && range.len() != port.signature.ty.bytes() {
            let text = format!("the tensor of {what} '{name}' has the wrong size");
            return Err(Error::new(ErrorKind::InvalidArgument, text)
                .expected(format_args!(
                    "{} bytes ({})",
                    port.signature.ty.bytes(),
                    port.signature.ty
                ))
                .found(range.len()));
        }
        Ok((tensor, Port { storage, range }))
    }
}

impl Drop for CoreModel {
    fn drop(&mut self) {
        self.group
            .cores()
            .iter()
            .for_each(|core| core.remove_model());
    }
}

impl std::fmt::Debug for CoreModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CoreModel")
            .field("id", &self.id())
            .field("model", &self.model)
            .field("cores", &self.cores)
            .finish_non_exhaustive()
    }
}
