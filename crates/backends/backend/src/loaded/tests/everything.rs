//! A backend with every optional feature, which logs its calls.

#![allow(unsafe_code, reason = "calls of the C interface under test")]

use crate::*;
use std::alloc::{Layout, alloc, dealloc};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{Graph, NodeId};
use tenon_tensor::{Buffer, BufferMut, DataType, TensorType};

/// The calls of the backend.
#[derive(Default)]
pub(super) struct CallLog {
    notes: Mutex<Vec<String>>,
    pub count: AtomicU64,
}

impl CallLog {
    fn note(&self, what: impl Into<String>) {
        self.notes.lock().unwrap().push(what.into());
    }

    pub fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.lock().unwrap())
    }
}

#[derive(Clone, Default)]
pub(super) struct Everything {
    pub seen: Arc<CallLog>,
    pub factor: f32,
    pub allocator: Option<Arc<dyn Allocator>>,
}

fn refused(text: &str) -> Error {
    Error::new(ErrorKind::Unsupported, text)
}

impl Backend for Everything {
    fn id(&self) -> BackendId {
        BackendId::new("Everything")
    }

    fn description(&self) -> String {
        format!("factor {}", self.factor)
    }

    fn capabilities(&self) -> Vec<Capability> {
        vec![
            Capability::new("A", PropertyValue::Bool(true)),
            Capability::new("B", PropertyValue::Int(-3)),
            Capability::new("C", PropertyValue::Unsigned(u64::MAX)),
            Capability::new("D", PropertyValue::Float(0.5)),
            Capability::new("E", PropertyValue::String("NHWC".into())),
        ]
    }

    fn target(&self) -> Option<String> {
        Some(format!("device {}", self.factor))
    }

    fn tolerances(&self) -> Vec<Tolerance> {
        let of = |dtype, relative, absolute| Tolerance {
            dtype,
            relative,
            absolute,
        };
        vec![of(DataType::F16, 0.01, 0.5), of(DataType::I8, 0.0, 2.0)]
    }

    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal> {
        self.seen.note(format!(
            "{} {:?} {:?} {:?}",
            node.op.name, node.attributes, node.inputs, node.outputs
        ));
        Err(match node.op.name {
            "Add" => return Ok(()),
            "Neg" => Reason::InputType {
                input: 1,
                found: DataType::Bool,
            },
            "Abs" => Reason::InputRank { input: 0, found: 7 },
            "Concat" => Reason::AttributeValue {
                attribute: "axis",
                found: "9".into(),
            },
            "Gather" => Reason::NotConstant { input: 1 },
            "Relu" => Reason::Other {
                text: "not on Sundays".into(),
            },
            "Exp" => panic!("supports panics"),
            _ => Reason::UnknownOperator,
        }
        .into())
    }

    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan> {
        let constant = spec.inputs[1]
            .as_ref()
            .and_then(|input| input.constant.clone());
        let constant = constant.ok_or_else(|| refused("a plan needs a constant"))?;
        Ok(WorkloadPlan {
            scratch_bytes: 100,
            in_place: vec![InPlace {
                input: 0,
                output: 0,
            }],
            prepared: vec![Prepared {
                invertible: false,
                input: 1,
                layout: format!("{cpu:?}"),
                data: BufferMut::copy_of(&reversed(constant.bytes()))?.freeze(),
            }],
            device_bytes: 5 << 30,
        })
    }

    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        let prepared = spec.inputs[1]
            .as_ref()
            .and_then(|input| input.prepared.clone());
        let (layout, weights) = prepared.ok_or_else(|| refused("nothing is prepared"))?;
        self.seen.note(layout);
        Ok(Box::new(Product {
            weights,
            factor: self.factor,
        }))
    }

    fn configure(&self) -> Option<&dyn Configure> {
        Some(self)
    }

    fn optimiser(&self) -> Option<&dyn Optimiser> {
        Some(self)
    }

    fn tensor_memory(&self) -> Option<&dyn TensorMemory> {
        Some(self)
    }

    fn workload_memory(&self) -> Option<&dyn WorkloadMemory> {
        Some(self)
    }

    fn allocators(&self) -> Option<&dyn Allocators> {
        Some(self)
    }

    fn lifecycle(&self) -> Option<&dyn Lifecycle> {
        Some(self)
    }
}

impl Configure for Everything {
    fn options(&self) -> Vec<OptionDef> {
        let option = |name: &'static str, scope, default| OptionDef {
            name: name.into(),
            scope,
            default,
            doc: "a doc".into(),
        };
        vec![
            option("Factor", OptionScope::Model, PropertyValue::Float(1.0)),
            option(
                "Device",
                OptionScope::Creation,
                PropertyValue::String("0".into()),
            ),
        ]
    }

    fn configured(&self, options: &[OptionSetting]) -> Result<Arc<dyn Backend>> {
        match options {
            [
                OptionSetting {
                    name,
                    value: PropertyValue::Float(factor),
                },
            ] if name == "Factor" => Ok(Arc::new(Self {
                factor: *factor,
                ..self.clone()
            })),
            _ => Err(refused("other options")),
        }
    }
}

impl Optimiser for Everything {
    fn optimise(&self, subgraph: &Graph) -> Result<OptimisationViews> {
        let mut replacement = Graph::new("r");
        let ty = subgraph.value(subgraph.inputs[0]).ty.clone();
        let input = replacement.add_value("in", ty.clone());
        replacement.inputs.push(input);
        let output = replacement.add_value("out", ty);
        replacement.outputs.push(output);
        let mut node = subgraph.nodes[0].clone();
        (node.inputs, node.outputs) = (vec![Some(input)], vec![Some(output)]);
        replacement.nodes.push(node);
        Ok(OptimisationViews {
            substitutions: vec![Substitution {
                nodes: vec![NodeId(0)],
                inputs: subgraph.inputs.clone(),
                outputs: subgraph.nodes[0]
                    .outputs
                    .iter()
                    .flatten()
                    .copied()
                    .collect(),
                replacement,
            }],
            failed: vec![FailedPart::new(vec![NodeId(1)], "too hard")],
            untouched: vec![NodeId(2)],
            deleted: vec![NodeId(3)],
        })
    }
}

impl TensorMemory for Everything {
    fn handle_factories(&self) -> Vec<HandleFactory> {
        vec![HandleFactory {
            id: "Heap".into(),
            import: MemorySources(1),
            export: MemorySources(6),
            map: true,
            padding: true,
            device: None,
        }]
    }

    fn tensor_handle(&self, factory: &str, ty: &TensorType) -> Result<Box<dyn TensorHandle>> {
        self.seen.note(format!("{factory} {ty}"));
        Ok(Box::new(Elements(BufferMut::zeroed(ty.bytes())?)))
    }

    unsafe fn import_tensor(
        &self,
        factory: &str,
        ty: &TensorType,
        memory: ImportedMemory,
    ) -> Result<Box<dyn TensorHandle>> {
        let (stays, is_read) = (memory.is_long_lived, memory.is_read_only);
        let source = memory.source;
        self.seen
            .note(format!("{factory} {ty} {source:?} {stays} {is_read}"));
        // SAFETY: the memory is valid for reads of `bytes` bytes (requirement); it is only read
        // here.
        let bytes = unsafe { std::slice::from_raw_parts(memory.start, memory.bytes) };
        Ok(Box::new(Elements(BufferMut::copy_of(bytes)?)))
    }
}

impl WorkloadMemory for Everything {
    fn memory_manager(&self) -> Result<Option<Arc<dyn MemoryManager>>> {
        Ok(Some(Arc::new(LoggedObject(self.seen.clone()))))
    }

    fn workload_in(
        &self,
        spec: &WorkloadSpec,
        memory: &Arc<dyn MemoryManager>,
    ) -> Result<Box<dyn Workload>> {
        let own = memory.as_any().downcast_ref::<LoggedObject>();
        own.ok_or_else(|| refused("memory of another"))?;
        self.seen.note("its own memory");
        self.workload(spec)
    }
}

impl Allocators for Everything {
    fn allocator(&self) -> Option<Arc<dyn Allocator>> {
        Some(
            self.allocator
                .clone()
                .unwrap_or_else(|| Arc::new(LoggedObject(self.seen.clone()))),
        )
    }

    fn with_allocator(&self, allocator: Arc<dyn Allocator>) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(Self {
            allocator: Some(allocator),
            ..self.clone()
        }))
    }
}

impl Lifecycle for Everything {
    fn context(&self, options: &CreationOptions) -> Result<Option<Box<dyn BackendContext>>> {
        self.seen.note(format!("{options:?}"));
        if options.protected_content {
            Err(refused("no vault here"))
        } else {
            Ok(Some(Box::new(LoggedObject(self.seen.clone()))))
        }
    }

    fn profiling(&self) -> Result<Option<Box<dyn ProfilingContext>>> {
        let counter = |name: &str| CounterDef {
            name: name.into(),
            doc: "counts".into(),
            unit: "bytes".into(),
        };
        Ok(Some(Box::new(Counting {
            seen: self.seen.clone(),
            counters: vec![counter("one"), counter("two")],
        })))
    }
}

pub(super) fn reversed(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().rev().copied().collect()
}

/// A workload: the input times the retained constant, times the factor.
struct Product {
    weights: Buffer,
    factor: f32,
}

impl Workload for Product {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let weight = f32::from_le_bytes(reversed(&self.weights).try_into().unwrap());
        let (inputs, mut outputs) = operands.split();
        let x = inputs.slice::<f32>(0)?;
        let y = outputs.slice::<f32>(0)?;
        if outputs.scratch::<u8>()?.len() < 100 {
            return Err(refused("scratch memory is missing"));
        }
        for (x, y) in x.iter().zip(y) {
            if *x < 0.0 {
                panic!("a negative number");
            }
            *y = x * weight * self.factor;
        }
        Ok(())
    }

    fn reads(&self, input: usize) -> bool {
        input != 1
    }
}

/// A memory manager, context and allocator that log their calls.
pub(super) struct LoggedObject(pub Arc<CallLog>);

impl MemoryManager for LoggedObject {
    fn acquire(&self) -> Result<()> {
        self.0.note("acquire");
        Ok(())
    }

    fn release(&self) {
        self.0.note("release");
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl BackendContext for LoggedObject {
    fn before_load(&self, network: NetworkId) -> Result<()> {
        self.0.note(format!("before {network}"));
        Ok(())
    }

    fn after_unload(&self, network: NetworkId) -> Result<()> {
        Err(refused("still there").found(network))
    }
}

impl Allocator for LoggedObject {
    fn allocate(&self, bytes: usize, alignment: usize) -> Result<NonNull<u8>> {
        self.0.note(format!("{bytes} bytes by {alignment}"));
        let layout = Layout::from_size_align(256, 64).unwrap();
        if bytes > 256 || alignment > 64 {
            return Err(refused("too much"));
        }
        // SAFETY: the size of the layout is not zero (checked above).
        Ok(NonNull::new(unsafe { alloc(layout) }).unwrap())
    }

    unsafe fn free(&self, start: NonNull<u8>) {
        self.0.note("free");
        // SAFETY: `allocate` returned `start` for this layout.
        unsafe { dealloc(start.as_ptr(), Layout::from_size_align(256, 64).unwrap()) }
    }

    fn source(&self) -> MemorySource {
        MemorySource::DmaBuf
    }
}

struct Counting {
    seen: Arc<CallLog>,
    counters: Vec<CounterDef>,
}

impl ProfilingContext for Counting {
    fn counters(&self) -> &[CounterDef] {
        &self.counters
    }

    fn enable(&self, on: bool) -> Result<()> {
        self.seen.count.store(u64::from(on), Ordering::Relaxed);
        Ok(())
    }

    fn sample(&self, values: &mut [u64]) -> Result<()> {
        values.copy_from_slice(&[self.seen.count.load(Ordering::Relaxed), u64::MAX]);
        Ok(())
    }
}

struct Elements(BufferMut);

// SAFETY: the memory of a buffer has a stable address and is aligned.
unsafe impl TensorHandle for Elements {
    fn copy_in(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.copy_from_slice(bytes);
        Ok(())
    }

    fn copy_out(&self, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(&self.0);
        Ok(())
    }

    fn start(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut()
    }
}
