//! What backends hear of models, and the memory they keep for them.

mod common;

use common::*;
use std::any::Any;
use std::sync::{Arc, Mutex};
use tenon_backend::{
    Backend, BackendContext, BackendId, CpuLevel, CreationOptions, MemoryManager, NetworkId,
    NodeView, Refusal, Registry, Workload, WorkloadPlan, WorkloadSpec,
};
use tenon_base::{Error, ErrorKind, Result};
use tenon_runtime::{LoadOptions, Model, Runtime};

/// What happened, in order.
type Diary = Arc<Mutex<Vec<String>>>;

fn write(diary: &Diary, what: impl Into<String>) {
    diary.lock().unwrap().push(what.into());
}

/// The reference under another name, which keeps a diary.
struct Told {
    diary: Diary,
    /// What it fails at.
    fails: &'static str,
}

impl Backend for Told {
    fn id(&self) -> BackendId {
        BackendId::new("Told")
    }

    fn description(&self) -> String {
        "keeps a diary".into()
    }

    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal> {
        reference().supports(node)
    }

    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan> {
        reference().plan(spec, cpu)
    }

    fn workload(&self, _: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        Err(Error::new(ErrorKind::Internal, "asked without its memory"))
    }

    fn workload_in(
        &self,
        spec: &WorkloadSpec,
        _: &Arc<dyn MemoryManager>,
    ) -> Result<Box<dyn Workload>> {
        reference().workload(spec)
    }

    fn memory_manager(&self) -> Result<Option<Arc<dyn MemoryManager>>> {
        write(&self.diary, "memory");
        Ok(Some(Arc::new(Memory(self.diary.clone()))))
    }

    fn context(&self, _: &CreationOptions) -> Result<Option<Box<dyn BackendContext>>> {
        Ok(Some(Box::new(Context {
            diary: self.diary.clone(),
            fails: self.fails,
        })))
    }
}

fn reference() -> Arc<dyn Backend> {
    let registry = tenon_builtin::registry();
    registry.find(&BackendId::new("CpuRef")).unwrap().clone()
}

struct Memory(Diary);

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
    diary: Diary,
    fails: &'static str,
}

impl Context {
    fn hear(&self, what: &'static str, network: NetworkId) -> Result<()> {
        write(&self.diary, format!("{what} {network}"));
        match what == self.fails {
            true => Err(Error::new(ErrorKind::ExecutionFailed, "no more room")),
            false => Ok(()),
        }
    }
}

impl BackendContext for Context {
    fn before_load(&self, network: NetworkId) -> Result<()> {
        self.hear("before load", network)
    }

    fn after_load(&self, network: NetworkId) -> Result<()> {
        self.hear("after load", network)
    }

    fn before_unload(&self, network: NetworkId) -> Result<()> {
        self.hear("before unload", network)
    }

    fn after_unload(&self, network: NetworkId) -> Result<()> {
        self.hear("after unload", network)
    }

    fn after_enqueue(&self, network: NetworkId) -> Result<()> {
        self.hear("after enqueue", network)
    }
}

fn runtime_with(diary: &Diary, fails: &'static str) -> Runtime {
    let mut registry: Registry = tenon_builtin::registry();
    let told = Told {
        diary: diary.clone(),
        fails,
    };
    registry.register(Arc::new(told)).unwrap();
    let (runtime, refused) = Runtime::start(registry, tenon_builtin::kernels(), &[], false);
    assert!(refused.is_empty());
    runtime
}

fn load(runtime: &Runtime) -> Result<Model> {
    let mut options = tenon_compiler::Options::new(runtime.backends());
    options.backends = vec![BackendId::new("Told")];
    let compiled = tenon_compiler::compile(perceptron(&[8, 4]), &options).unwrap();
    let package = open(&bytes(&compiled.contents))?;
    Model::load(runtime, &package, &LoadOptions::default())
}

fn run(model: &Model) -> Result<()> {
    model.run(&[("x", &numbers(&[1, 8], 1))]).map(drop)
}

#[test]
fn backends_hear_of_models_in_order_and_give_their_memory_back_last() {
    let diary = Diary::default();
    let runtime = runtime_with(&diary, "");
    for _ in 0..2 {
        let model = load(&runtime).unwrap();
        run(&model).unwrap();
        run(&model.clone()).unwrap();
        drop(model);
    }
    let all = diary.lock().unwrap().clone();
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
fn what_a_context_fails_at_is_told_and_ends_only_that() {
    for (fails, loads) in [
        ("before load", false),
        ("after load", false),
        ("after enqueue", true),
    ] {
        let diary = Diary::default();
        let runtime = runtime_with(&diary, fails);
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
        assert!(error.to_string().contains("Told: no more room"), "{error}");
        let all = diary.lock().unwrap().join(", ");
        // What was acquired is given back.
        assert_eq!(all.contains("acquire"), all.contains("release"), "{all}");
    }
    let diary = Diary::default();
    let model = load(&runtime_with(&diary, "before unload")).unwrap();
    drop(model);
    assert!(
        diary
            .lock()
            .unwrap()
            .contains(&"after unload network0".to_owned())
    );
}
