//! A simulated device with separate memory that works asynchronously: the example of an asynchronous backend, and the judge of how
//! Tenon uses one.
//!
//! The device is a thread with a queue. Its memory has two addresses: that in the operands of workloads, at which the
//! host faults, and that of the device. Workloads and copies are commands of streams, computed by `CpuRef`; they can
//! be slow, run in random order among streams, fail, or lose the device, by options. Programs of workloads are compiled
//! at load, or found in the cache.

#![allow(unsafe_code, reason = "a backend that imports memory")]

mod device;
mod memory;
mod stream;

use device::{Device, Faults};
use memory::DeviceMemory;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use stream::DeviceStream;
use tenon_backend::{
    Backend, BackendId, Cache, Capability, Configure, CpuLevel, HandleFactory, ImportedMemory,
    MemoryManager, MemorySource, MemorySources, NodeView, Operands, OptionDef, OptionScope,
    OptionSetting, PropertyValue, RawOperand, Refusal, Stream, TensorHandle, TensorMemory,
    Workload, WorkloadPart, WorkloadPlan, WorkloadSpec,
};
use tenon_base::{Error, ErrorKind, Result};
use tenon_cpu_ref::CpuRef;
use tenon_tensor::{TensorType, dlpack};

/// The id of the backend.
pub const ID: BackendId = BackendId::new("SimAsync");

/// The name of its tensor memory.
const FACTORY: &str = "SimDevice";

/// The type of the device for DLPack: that of extensions, `kDLExtDev`.
const DEVICE_TYPE: i32 = 12;

tenon_backend::export_backend!(c"SimAsync", AsyncBackend::default());

/// The backend. Devices are shared by the models of equal options.
#[derive(Clone)]
pub struct AsyncBackend {
    device: Arc<Device>,
    faults: Faults,
    target: String,
    /// Has the compiled programs of workloads, if there is one.
    cache: Arc<OnceLock<Arc<dyn Cache>>>,
}

/// The device that it compiles for if the option does not name another.
const TARGET: &str = "sim-1";

impl Default for AsyncBackend {
    fn default() -> Self {
        Self {
            device: Device::start(),
            faults: Faults::default(),
            target: TARGET.into(),
            cache: Arc::default(),
        }
    }
}

/// What a device has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Commands of workloads.
    pub workloads: u64,
    /// Commands that copied from and to the host, and their bytes.
    pub copies: u64,
    /// Bytes copied.
    pub copied_bytes: u64,
    /// Calls of `finish` that waited for at least one command.
    pub finishes: u64,
    /// The time of all commands.
    pub busy: Duration,
    /// Programs that were compiled, instead of found in the cache.
    pub compiled: u64,
}

impl AsyncBackend {
    /// The same with options, on a separate device, so that faults are not those of other models.
    pub fn with_options<'a>(&self, options: impl IntoIterator<Item = (&'a str, u64)>) -> Self {
        let mut faults = self.faults;
        for (name, value) in options {
            match name {
                "CompileMicros" => faults.compile = Duration::from_micros(value),
                "CommandMicros" => faults.command = Duration::from_micros(value),
                "Seed" => faults.seed = value,
                "FailWorkload" => faults.fail = value,
                "HangWorkload" => faults.hang = value,
                "LoseDevice" => faults.lose = value,
                "MemoryBytes" => faults.memory_bytes = value,
                _ => {}
            }
        }
        Self {
            device: Device::with_faults(faults),
            faults,
            target: self.target.clone(),
            cache: self.cache.clone(),
        }
    }

    /// The same as a device of another kind, which shares its memory and commands.
    pub fn with_target(&self, target: &str) -> Self {
        Self {
            target: target.to_owned(),
            ..self.clone()
        }
    }

    /// What the device has done since it was started.
    pub fn work(&self) -> Work {
        self.device.work()
    }

    /// Bytes of device memory in use.
    pub fn used_bytes(&self) -> usize {
        self.device.memory.used()
    }

    /// The program of a workload, compiled for the device: a text that says what it computes, of which the device
    /// checks that it has one.
    fn program(&self, spec: &WorkloadSpec) -> Arc<str> {
        let inputs = spec.inputs.iter().flatten().map(|input| &input.ty);
        let outputs = spec.outputs.iter().flatten();
        let types: Vec<String> = inputs.chain(outputs).map(ToString::to_string).collect();
        // All that the program depends on.
        let attributes = spec.attributes.iter();
        let attributes: Vec<String> = attributes
            .map(|(name, value)| format!("{name} = {value:?}"))
            .collect();
        let key = format!(
            "{}: {} {{{}}} {}",
            self.target,
            spec.op.name,
            attributes.join(", "),
            types.join(", ")
        );
        let compiled = format!("{}{key}", device::PROGRAM);
        let cache = self.cache.get();
        let found = cache.and_then(|cache| cache.get(&key));
        if found.is_none_or(|found| *found != *compiled.as_bytes()) {
            self.device.compile();
            if let Some(cache) = cache {
                cache.put(&key, compiled.as_bytes());
            }
        }
        compiled.into()
    }
}

impl Backend for AsyncBackend {
    fn id(&self) -> BackendId {
        ID
    }

    fn description(&self) -> String {
        "a simulated asynchronous device that computes as CpuRef does".into()
    }

    fn capabilities(&self) -> Vec<Capability> {
        let value = PropertyValue::Bool(true);
        vec![Capability::new(tenon_backend::DYNAMIC_SHAPES, value)]
    }

    fn target(&self) -> Option<String> {
        Some(self.target.clone())
    }

    fn set_cache(&self, cache: Arc<dyn Cache>) {
        let _ = self.cache.set(cache);
    }

    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal> {
        CpuRef.supports(node)
    }

    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan> {
        let plan = CpuRef.plan(spec, cpu)?;
        // Scratch memory is the device's own.
        Ok(WorkloadPlan {
            scratch_bytes: 0,
            device_bytes: DeviceMemory::size(plan.scratch_bytes) as u64,
            ..plan
        })
    }

    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        let (plan, workload) = CpuRef.planned_workload(spec)?;
        let scratch = DeviceMemory::allocate(&self.device.memory, plan.scratch_bytes)?;
        Ok(Box::new(DeviceWorkload {
            device: self.device.clone(),
            workload: workload.into(),
            scratch: Arc::new(scratch),
            program: self.program(spec),
            parts: device::PARTS.map(|name| WorkloadPart {
                name: name.into(),
                nodes: Vec::new(),
            }),
            id: WORKLOADS.fetch_add(1, Ordering::Relaxed),
        }))
    }

    fn configure(&self) -> Option<&dyn Configure> {
        Some(self)
    }

    fn tensor_memory(&self) -> Option<&dyn TensorMemory> {
        Some(self)
    }
}

impl Configure for AsyncBackend {
    fn options(&self) -> Vec<OptionDef> {
        let option = |name: &'static str, default: u64, doc: &'static str| OptionDef {
            name: name.into(),
            default: PropertyValue::Unsigned(default),
            scope: OptionScope::Model,
            doc: doc.into(),
        };
        let target = OptionDef {
            default: PropertyValue::String(TARGET.into()),
            ..option("Target", 0, "the device to compile for")
        };
        vec![
            target,
            option(
                "CompileMicros",
                0,
                "the time of compiling a workload that is not in the cache, in microseconds",
            ),
            option(
                "CommandMicros",
                0,
                "the least time of a command, in microseconds",
            ),
            option("Seed", 0, "not 0: streams take turns in random order"),
            option(
                "FailWorkload",
                0,
                "the workload that fails, counted from 1; 0: none",
            ),
            option(
                "HangWorkload",
                0,
                "the workload that ends only when the stream is stopped",
            ),
            option(
                "LoseDevice",
                0,
                "the workload with which the device is lost",
            ),
            option(
                "MemoryBytes",
                0,
                "the size of the device's memory; 0: 64 GiB",
            ),
        ]
    }

    fn configured(&self, options: &[OptionSetting]) -> Result<Arc<dyn Backend>> {
        let values = options.iter().filter_map(|option| match option.value {
            PropertyValue::Unsigned(value) => Some((&*option.name, value)),
            _ => None,
        });
        let mut configured = self.clone();
        // A separate device only for options of the device.
        if values.clone().next().is_some() {
            configured = configured.with_options(values);
        }
        for option in options {
            if let (PropertyValue::String(target), "Target") = (&option.value, &*option.name) {
                configured.target = target.clone().into_owned();
            }
        }
        Ok(Arc::new(configured))
    }
}

impl TensorMemory for AsyncBackend {
    fn handle_factories(&self) -> Vec<HandleFactory> {
        vec![HandleFactory {
            id: FACTORY.into(),
            import: MemorySources(MemorySource::Device.bit()),
            export: MemorySources(MemorySource::Device.bit()),
            map: true,
            padding: false,
            device: Some(dlpack::Device {
                kind: DEVICE_TYPE,
                index: self.device.memory.index(),
            }),
        }]
    }

    unsafe fn import_tensor(
        &self,
        factory: &str,
        ty: &TensorType,
        memory: ImportedMemory,
    ) -> Result<Box<dyn TensorHandle>> {
        if factory != FACTORY || memory.source != MemorySource::Device || memory.bytes != ty.bytes()
        {
            let text = format!("SimAsync cannot import a tensor {ty} of '{factory}'");
            let error = Error::new(ErrorKind::InvalidArgument, text);
            let found = format!("{} bytes of {:?}", memory.bytes, memory.source);
            return Err(error.expected(FACTORY).found(found));
        }
        let memory = DeviceMemory::at(&self.device.memory, memory.start, memory.bytes)?;
        Ok(Box::new(stream::DeviceTensor::new(
            self.device.clone(),
            memory,
        )))
    }

    fn tensor_handle(&self, factory: &str, ty: &TensorType) -> Result<Box<dyn TensorHandle>> {
        if factory != FACTORY {
            let text = format!("SimAsync has no tensor memory '{factory}'");
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        let memory = DeviceMemory::allocate(&self.device.memory, ty.bytes())?;
        Ok(Box::new(stream::DeviceTensor::new(
            self.device.clone(),
            memory,
        )))
    }

    fn stream(&self, _: Option<&Arc<dyn MemoryManager>>) -> Result<Option<Box<dyn Stream>>> {
        Ok(Some(Box::new(DeviceStream::new(self.device.clone()))))
    }
}

/// A workload of `CpuRef` on the device, with scratch memory there: the device runs one command at a time.
struct DeviceWorkload {
    device: Arc<Device>,
    workload: Arc<dyn Workload>,
    scratch: Arc<DeviceMemory>,
    program: Arc<str>,
    parts: [WorkloadPart; device::PARTS.len()],
    /// Its number, by which streams keep the times of its parts.
    id: u64,
}

/// The number of workloads so far.
static WORKLOADS: AtomicU64 = AtomicU64::new(0);

impl Workload for DeviceWorkload {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, outputs, _) = operands.raw();
        let read = |(index, &operand): (usize, &RawOperand)| {
            let is_read = self.workload.reads(index);
            if is_read { operand } else { RawOperand::NONE }
        };
        let command = device::Execute {
            workload: self.workload.clone(),
            inputs: inputs.iter().enumerate().map(read).collect(),
            outputs: outputs.to_vec(),
            scratch: self.scratch.clone(),
            program: self.program.clone(),
            times: operands.is_timed().then(Arc::default),
        };
        match operands.stream() {
            Some(stream) => {
                let stream = stream::of(stream)?;
                if let Some(times) = &command.times {
                    stream.time(self.id, times);
                }
                stream.enqueue(device::Task::Execute(command))
            }
            // A caller without streams, such as one built for an older version of the interface.
            None => {
                let mut stream = DeviceStream::new(self.device.clone());
                stream.enqueue(device::Task::Execute(command))?;
                stream.finish()
            }
        }
    }

    fn reads(&self, input: usize) -> bool {
        self.workload.reads(input)
    }

    fn parts(&self) -> &[WorkloadPart] {
        &self.parts
    }

    fn part_times(&self, stream: Option<&mut dyn Stream>, nanoseconds: &mut [u64]) -> Result<()> {
        let untimed = || {
            let text = "the workload was not timed on this stream";
            Error::new(ErrorKind::InvalidArgument, text)
        };
        let stream = stream::of(stream.ok_or_else(untimed)?)?;
        let times = stream.times(self.id).ok_or_else(untimed)?;
        for (nanoseconds, time) in nanoseconds.iter_mut().zip(&**times) {
            *nanoseconds = time.load(Ordering::Acquire);
        }
        Ok(())
    }
}
