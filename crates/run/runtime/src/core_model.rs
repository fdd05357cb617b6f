//! A model on cores: loaded once or several times, executed on tensor sets.

mod access;
mod feedback;

use crate::cores::{CoreGroup, Cores, MemoryUse, Reservation};
use crate::tensors::{CoreTensor, TensorSet};
use crate::{
    ActiveModel, ExecuteOptions, LoadOptions, Model, ModelReport, Runtime, Signature, port_names,
};
use access::{Access, Port, Ports};
use feedback::feedback_pairs;
use smallvec::SmallVec;
use std::time::{Duration, Instant};
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_neff::Package;

/// Where and how a model is put on cores.
#[derive(Debug, Clone, Default)]
pub struct CoreLoad {
    /// The first core; where the fewest models are when `None`.
    pub start: Option<u32>,
    /// How many cores, a multiple of what the model needs; one copy when `None`.
    pub count: Option<u32>,
    /// How long one execution may take.
    pub timeout: Option<Duration>,
    /// The rest; the number of executions at a time is that of the copies.
    pub options: LoadOptions,
}

/// A model on cores. Threads may execute it at the same time.
pub struct CoreModel {
    model: Model,
    group: CoreGroup,
    /// Counts what happens, for those who watch the process.
    active: ActiveModel,
    /// Cores of all copies together.
    cores: u32,
    timeout: Option<Duration>,
    inputs: Vec<CorePort>,
    outputs: Vec<CorePort>,
    _memory: Vec<Reservation>,
}

/// An input or output of a model on cores.
#[derive(Debug, Clone)]
pub struct CorePort {
    /// The name that it is given: unique in the model, at most 251 bytes, fit for a file.
    pub name: String,
    /// The model's own name, and the type.
    pub signature: Signature,
}

impl CoreModel {
    /// Loads a package onto cores.
    ///
    /// # Errors
    /// Those of [`Model::load`]; `NotEnoughCores` when the process has fewer, `InvalidArgument` for
    /// a count that is no multiple of what the model needs, `OutOfMemory`.
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
                "the number of cores is no multiple of what the model needs",
            )
            .expected(format_args!("a multiple of {needs}"))
            .found(count));
        }
        let start = match load.start {
            Some(start) => start,
            None => cores.least_used(count)?,
        };
        let end = start.saturating_add(count);
        // Each copy executes on the first of its cores; the others are its room.
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
        let scratch = model.idle_bytes() as u64 / u64::from(copies);
        for core in firsts.cores().iter().step_by(needs as usize) {
            memory.push(core.memory().reserve(MemoryUse::Scratch, scratch)?);
        }
        let group = match needs {
            1 => firsts,
            _ => firsts.every(needs as usize),
        };
        let all = model.inputs().iter().chain(model.outputs());
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
            _memory: memory,
            model,
        })
    }

    /// A number that no other model of the process has had.
    pub fn id(&self) -> u32 {
        self.active.id()
    }

    /// The model itself.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The first core of each copy.
    pub fn group(&self) -> &CoreGroup {
        &self.group
    }

    /// Cores of all copies together.
    pub fn core_count(&self) -> u32 {
        self.cores
    }

    /// How many copies there are: as many threads may well execute it at a time.
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

    /// Executes once: reads the tensors of `inputs`, writes those of `outputs`, found by the name
    /// that they were given or by the model's own. Inputs may share bytes with outputs: they are
    /// read first. Other tensors of the sets are left alone.
    ///
    /// # Errors
    /// `InvalidArgument` for tensors that are missing or have the wrong size, all of them told;
    /// `BadInput` for tensors without memory, of cores where the model is not, and outputs that
    /// share bytes; `InvalidHandle` for tensors that were freed; what the execution says.
    pub fn execute(
        &self,
        inputs: &TensorSet,
        outputs: &TensorSet,
        options: ExecuteOptions<'_>,
    ) -> Result<()> {
        self.execute_repeatedly(inputs, outputs, 1, options)
    }

    /// Executes `count` times, what one time put out being read by the next. An output is read by
    /// the input of its own name; where no input has the name of an output, the first output is
    /// read by the first input and so on. The tensors of `inputs` stay as they are.
    ///
    /// # Errors
    /// Those of [`CoreModel::execute`], and `InvalidArgument` when no output fits an input.
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
        let outputs = self.ports("output", &self.outputs, outputs, Some(&mut written))?;
        let feedback = match count {
            0 | 1 => Vec::new(),
            _ => feedback_pairs(&self.inputs, &self.outputs)?,
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
            self.model.execute_on(inputs, outputs, options)?;
        }
        drop(access);
        written.iter().for_each(CoreTensor::complete);
        Ok(())
    }

    /// Memory of ports, in order; every problem at once.
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
        if range.len() != port.signature.ty.bytes() {
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
