//! Tensors between memory of several backends: shared, imported or copied.

#![allow(unsafe_code, reason = "raw memory of the tests")]

mod common;

use common::*;
use std::sync::{Arc, Mutex};
use tenon_backend::{
    Backend, BackendId, CpuLevel, HandleFactory, ImportedMemory, MemorySource, MemorySources,
    NodeView, Reason, Refusal, TensorHandle, TensorMemory, Workload, WorkloadPlan, WorkloadSpec,
};
use tenon_base::Result;
use tenon_graph::Graph;
use tenon_runtime::{ExecuteOptions, LoadOptions, Model, Runtime};
use tenon_tensor::{BufferMut, Tensor, TensorType};

/// A log of events, in order.
type EventLog = Arc<Mutex<Vec<String>>>;

/// The reference for one operator, with tensors in private memory.
struct Device {
    id: &'static str,
    operator: &'static str,
    factory: HandleFactory,
    log: EventLog,
}

/// Tensors in a private buffer, or in imported memory.
struct Elements {
    id: &'static str,
    start: *mut u8,
    bytes: usize,
    log: EventLog,
    _own: Option<BufferMut>,
}

// SAFETY: the pointer is to the buffer, which the value owns, or to imported memory, which outlives
// it and is not accessed concurrently (contract of `import_tensor`).
unsafe impl Send for Elements {}

impl Elements {
    fn note(&self, what: &str) {
        self.log.lock().unwrap().push(format!("{} {what}", self.id));
    }
}

// SAFETY: `start` is the address of a buffer or of imported memory, both aligned and of `bytes`
// bytes, and readable by the reference, which runs on the CPU.
unsafe impl TensorHandle for Elements {
    fn copy_in(&mut self, bytes: &[u8]) -> Result<()> {
        self.note("copies in");
        assert_eq!(bytes.len(), self.bytes);
        // SAFETY: both ranges have `self.bytes` bytes (asserted above), and `&mut self` gives
        // exclusive access to the target.
        unsafe { self.start.copy_from(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    fn copy_out(&self, bytes: &mut [u8]) -> Result<()> {
        self.note("copies out");
        assert_eq!(bytes.len(), self.bytes);
        // SAFETY: both ranges have `self.bytes` bytes, and `bytes` is borrowed mutably.
        unsafe { bytes.as_mut_ptr().copy_from(self.start, bytes.len()) };
        Ok(())
    }

    fn start(&self) -> *mut u8 {
        self.start
    }
}

fn reference() -> Arc<dyn Backend> {
    let registry = tenon_builtin::registry();
    registry.find(&BackendId::new("CpuRef")).unwrap().clone()
}

impl Backend for Device {
    fn id(&self) -> BackendId {
        BackendId::new(self.id)
    }

    fn description(&self) -> String {
        "a device with memory".into()
    }

    fn supports(&self, node: &NodeView<'_>) -> std::result::Result<(), Refusal> {
        if node.op.name == self.operator {
            reference().supports(node)
        } else {
            Err(Reason::UnknownOperator.into())
        }
    }

    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan> {
        reference().plan(spec, cpu)
    }

    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        reference().workload(spec)
    }

    fn tensor_memory(&self) -> Option<&dyn TensorMemory> {
        Some(self)
    }
}

impl TensorMemory for Device {
    fn handle_factories(&self) -> Vec<HandleFactory> {
        vec![self.factory.clone()]
    }

    fn tensor_handle(&self, _: &str, ty: &TensorType) -> Result<Box<dyn TensorHandle>> {
        let mut own = BufferMut::zeroed(ty.bytes())?;
        Ok(Box::new(Elements {
            id: self.id,
            start: own.as_mut_ptr(),
            bytes: ty.bytes(),
            log: self.log.clone(),
            _own: Some(own),
        }))
    }

    unsafe fn import_tensor(
        &self,
        _: &str,
        _: &TensorType,
        memory: ImportedMemory,
    ) -> Result<Box<dyn TensorHandle>> {
        let imported = Elements {
            id: self.id,
            start: memory.start,
            bytes: memory.bytes,
            log: self.log.clone(),
            _own: None,
        };
        let long_lived = if memory.is_long_lived {
            ", long-lived"
        } else {
            ""
        };
        let read_only = if memory.is_read_only {
            ", read-only"
        } else {
            ""
        };
        let source = memory.source;
        imported.note(&format!("imports {source:?}{long_lived}{read_only}"));
        Ok(Box::new(imported))
    }
}

const NONE: u32 = 0;
const DMA: u32 = MemorySource::DmaBuf.bit();

fn factory(id: &str, import: u32, export: u32, map: bool) -> HandleFactory {
    HandleFactory {
        id: id.into(),
        import: MemorySources(import),
        export: MemorySources(export),
        map,
        padding: false,
        device: None,
    }
}

/// -x on `a`, then |-x| on `b`, and the events.
fn model(a: HandleFactory, b: HandleFactory) -> (Model, EventLog) {
    let log = EventLog::default();
    let mut registry = tenon_builtin::registry();
    for (id, operator, factory) in [("A", "Neg", a), ("B", "Abs", b)] {
        let device = Device {
            id,
            operator,
            factory,
            log: log.clone(),
        };
        registry.register(Arc::new(device)).unwrap();
    }
    let runtime = Runtime::new(registry, tenon_builtin::kernels());
    let mut options = tenon_compiler::Options::new(runtime.backends());
    options.backends = ["A", "B", "CpuRef"].map(BackendId::new).to_vec();
    let text = "graph \"g\" (%x: f32[2, 3]) -> (%y) {\n%n = Neg(%x)\n%y = Abs(%n)\n}";
    let mut graph: Graph = text.parse().unwrap();
    graph.infer_types().unwrap();
    let compiled = tenon_compiler::compile(graph, &options).unwrap();
    let package = open(&bytes(&compiled.contents)).unwrap();
    let model = Model::load(&runtime, &package, &LoadOptions::default()).unwrap();
    (model, log)
}

fn x() -> Tensor {
    Tensor::from_slice([2, 3], &[1.0f32, -2.0, 0.5, -0.25, 3.0, -4.0]).unwrap()
}

/// The events of two executions; the first creates the tensors.
fn passed(a: HandleFactory, b: HandleFactory) -> (Vec<String>, Vec<String>) {
    let (model, log) = model(a, b);
    let run = || {
        let outputs = model.run(&[("x", &x())]).unwrap();
        let y = outputs[0].as_slice::<f32>().unwrap();
        assert_eq!(y, [1.0, 2.0, 0.5, 0.25, 3.0, 4.0]);
        std::mem::take(&mut *log.lock().unwrap())
    };
    (run(), run())
}

#[test]
fn tensors_are_copied_between_incompatible_memories() {
    let (first, second) = passed(
        factory("a", NONE, NONE, true),
        factory("b", NONE, NONE, true),
    );
    let expected = ["A copies in", "A copies out", "B copies in", "B copies out"];
    assert_eq!(
        (&first, &second),
        (&expected.map(String::from).to_vec(), &first)
    );
}

#[test]
fn tensors_of_the_same_memory_are_shared() {
    let both = || factory("shared", NONE, NONE, true);
    let (first, second) = passed(both(), both());
    // The result is a private tensor of B.
    assert_eq!(first, ["A copies in", "B copies out"]);
    assert_eq!(second, first);
}

#[test]
fn exported_memory_is_imported() {
    let (first, second) = passed(factory("a", NONE, DMA, true), factory("b", DMA, NONE, true));
    assert_eq!(
        first,
        [
            "A copies in",
            "B imports DmaBuf, long-lived",
            "B copies out"
        ]
    );
    // The imported tensor is reused.
    assert_eq!(second, ["A copies in", "B copies out"]);
}

#[test]
fn imports_say_whether_memory_stays_and_is_written() {
    let plain = MemorySource::Malloc.bit();
    let factories = || {
        (
            factory("a", plain, NONE, true),
            factory("b", plain, NONE, true),
        )
    };
    let (a, b) = factories();
    let (first, second) = passed(a, b);
    let passing = ["A imports Malloc, read-only", "B imports Malloc"];
    let arena = [
        "A imports Malloc, long-lived",
        "B imports Malloc, long-lived",
    ];
    assert_eq!(first, [passing[0], arena[0], arena[1], passing[1]]);
    assert_eq!(second, passing);
    // Ports that stay bound.
    let (a, b) = factories();
    let (model, log) = model(a, b);
    let mut bindings = model.bind().unwrap();
    bindings.set_input("x", &x()).unwrap();
    let mut run = || {
        bindings.execute(ExecuteOptions::default()).unwrap();
        std::mem::take(&mut *log.lock().unwrap())
    };
    let port = "A imports Malloc, long-lived, read-only";
    assert_eq!(run(), [port, arena[0], arena[1], arena[1]]);
    assert!(run().is_empty());
}

#[test]
fn a_backend_with_unreachable_memory_gets_no_nodes() {
    let dark = || factory("dark", DMA, DMA, false);
    let (first, _) = passed(dark(), dark());
    assert!(first.is_empty(), "{first:?}");
}
