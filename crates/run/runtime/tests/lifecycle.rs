//! Lifecycle callbacks of backends, and the memory that they hold for models.

mod common;

use common::*;
use std::any::Any;
use std::sync::{Arc, Mutex};
use tenon_backend::{
    Backend, BackendContext, BackendId, CpuLevel, CreationOptions, Lifecycle, MemoryManager,
    NetworkId, NodeView, Refusal, Registry, Workload, WorkloadMemory, WorkloadPlan, WorkloadSpec,
};
use tenon_base::{Error, ErrorKind, Result};
use tenon_runtime::{LoadOptions, Model, Runtime};

/// A log of events, in order.
type EventLog = Arc<Mutex<Vec<String>>>;

fn write(log: &EventLog, what: impl Into<String>) {
    log.lock().unwrap().push(what.into());
}

/// The reference backend under another name, which logs its calls.
struct LoggingBackend {
    log: EventLog,
    /// The callback that fails.
    fails: &'static str,
}

impl Backend for LoggingBackend {
    fn id(&self) -> BackendId {
        BackendId::new("Logging")
    }

    fn description(&self) -> String {
        "logs its calls".into()
    }

    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal> {
        reference().supports(node)
    }

    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan> {
        reference().plan(spec, cpu)
    }

    fn workload(&self, _: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        Err(Error::new(ErrorKind::Internal, "called without its memory"))
    }

    fn workload_memory(&self) -> Option<&dyn WorkloadMemory> {
        Some(self)
    }

    fn lifecycle(&self) -> Option<&dyn Lifecycle> {
        Some(self)
    }
}

impl WorkloadMemory for LoggingBackend {
    fn workload_in(
        &self,
        spec: &WorkloadSpec,
        _: &Arc<dyn MemoryManager>,
    ) -> Result<Box<dyn Workload>> {
        reference().workload(spec)
    }

    fn memory_manager(&self) -> Result<Option<Arc<dyn MemoryManager>>> {
        write(&self.log, "memory");
        Ok(Some(Arc::new(Memory(self.log.clone()))))
    }
}

impl Lifecycle for LoggingBackend {
    fn context(&self, _: &CreationOptions) -> Result<Option<Box<dyn BackendContext>>> {
        Ok(Some(Box::new(Context {
            log: self.log.clone(),
            fails: self.fails,
        })))
    }
}

fn reference() -> Arc<dyn Backend> {
    let registry = tenon_builtin::registry();
    registry.find(&BackendId::new("CpuRef")).unwrap().clone()
}

struct Memory(EventLog);

impl MemoryManager for Memory {
    fn acquire(&self) -> Result<()> {
        write(&self.0, "acquire");
        Ok(())
    }

    fn release(&self) {
        write(&self.0, "release");
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct Context {
    log: EventLog,
    fails: &'static str,
}

impl Context {
    fn record(&self, what: &'static str, network: NetworkId) -> Result<()> {
        write(&self.log, format!("{what} {network}"));
        if what == self.fails {
            Err(Error::new(ErrorKind::ExecutionFailed, "out of resources"))
        } else {
            Ok(())
        }
    }
}

impl BackendContext for Context {
    fn before_load(&self, network: NetworkId) -> Result<()> {
        self.record("before load", network)
    }

    fn after_load(&self, network: NetworkId) -> Result<()> {
        self.record("after load", network)
    }

    fn before_unload(&self, network: NetworkId) -> Result<()> {
        self.record("before unload", network)
    }

    fn after_unload(&self, network: NetworkId) -> Result<()> {
        self.record("after unload", network)
    }

    fn after_enqueue(&self, network: NetworkId) -> Result<()> {
        self.record("after enqueue", network)
    }
}

fn runtime_with(log: &EventLog, fails: &'static str) -> Runtime {
    let mut registry: Registry = tenon_builtin::registry();
    let backend = LoggingBackend {
        log: log.clone(),
        fails,
    };
    registry.register(Arc::new(backend)).unwrap();
    let (runtime, refused) = Runtime::start(registry, tenon_builtin::kernels(), &[], false);
    assert!(refused.is_empty());
    runtime
}

fn load(runtime: &Runtime) -> Result<Model> {
    let mut options = tenon_compiler::Options::new(runtime.backends());
    options.backends = vec![BackendId::new("Logging")];
    let compiled = tenon_compiler::compile(perceptron(&[8, 4]), &options).unwrap();
    let package = open(&bytes(&compiled.contents))?;
    Model::load(runtime, &package, &LoadOptions::default())
}

fn run(model: &Model) -> Result<()> {
    model.run(&[("x", &random_tensor(&[1, 8], 1))]).map(drop)
}

#[test]
fn callbacks_are_called_in_order_and_memory_is_released_last() {
    let log = EventLog::default();
    let runtime = runtime_with(&log, "");
    for _ in 0..2 {
        let model = load(&runtime).unwrap();
        run(&model).unwrap();
        run(&model.clone()).unwrap();
        drop(model);
    }
    let all = log.lock().unwrap().clone();
    let one = |network| {
        [
            "memory".to_owned(),
            format!("before load network{network}"),
            "acquire".to_owned(),
            format!("after load network{network}"),
            format!("after enqueue network{network}"),
            format!("after enqueue network{network}"),
            format!("before unload network{network}"),
            "release".to_owned(),
            format!("after unload network{network}"),
        ]
    };
    assert_eq!(all, [one(0), one(1)].concat());
    let counters = runtime.counters();
    assert_eq!(
        (counters.loads, counters.unloads, counters.executions),
        (2, 2, 4)
    );
    assert_eq!((counters.registered, counters.deregistered), (3, 0));
}

#[test]
fn an_error_of_a_callback_fails_only_that_operation() {
    for (fails, loads) in [
        ("before load", false),
        ("after load", false),
        ("after enqueue", true),
    ] {
        let log = EventLog::default();
        let runtime = runtime_with(&log, fails);
        let model = load(&runtime);
        let error = match model {
            Ok(model) => {
                assert!(loads, "{fails}");
                run(&model).unwrap_err()
            }
            Err(error) => {
                assert!(!loads, "{fails}");
                error
            }
        };
        assert!(
            error.to_string().contains("Logging: out of resources"),
            "{error}"
        );
        let all = log.lock().unwrap().join(", ");
        // Acquired memory is released.
        assert_eq!(all.contains("acquire"), all.contains("release"), "{all}");
    }
    let log = EventLog::default();
    let model = load(&runtime_with(&log, "before unload")).unwrap();
    drop(model);
    assert!(
        log.lock()
            .unwrap()
            .contains(&"after unload network0".to_owned())
    );
}
