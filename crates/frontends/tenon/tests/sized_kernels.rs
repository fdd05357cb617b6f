//! The workloads of instances are shared: by kernels that are alike, and by instances with equal sizes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tenon::backends::{self, BackendId};
use tenon::{Compiler, LoadOptions, Result};
use tenon_backend::{
    Backend, Capability, CpuLevel, DYNAMIC_SHAPES, NodeView, PropertyValue, Refusal, Workload,
    WorkloadPlan, WorkloadSpec,
};

/// The reference backend under another name, which counts the workloads of instances.
struct Counting {
    inner: Arc<dyn Backend>,
    made: Arc<AtomicUsize>,
}

impl Backend for Counting {
    fn id(&self) -> BackendId {
        BackendId::new("Counting")
    }

    fn description(&self) -> String {
        "counts workloads".into()
    }

    fn capabilities(&self) -> Vec<Capability> {
        vec![Capability::new(DYNAMIC_SHAPES, PropertyValue::Bool(true))]
    }

    fn supports(&self, node: &NodeView<'_>) -> std::result::Result<(), Refusal> {
        self.inner.supports(node)
    }

    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan> {
        self.inner.plan(spec, cpu)
    }

    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        self.made.fetch_add(1, Ordering::Relaxed);
        self.inner.workload(spec)
    }
}

#[test]
fn only_kernels_whose_sizes_are_new_are_made() {
    let made = Arc::new(AtomicUsize::new(0));
    let mut registry = backends::built_in();
    let inner = registry.find(&BackendId::new("CpuRef")).unwrap().clone();
    let counting = Counting {
        inner,
        made: made.clone(),
    };
    registry.register(Arc::new(counting)).unwrap();
    let file = tenon_test_data::repository("models/small/gpt2-cache.onnx");
    let compiler = Compiler::new()
        .registry(registry.clone())
        .backends(["Counting", "CpuRef"]);
    let compiled = compiler.compile_file(file).unwrap();
    let kernels = compiled.placement_report().nodes.iter();
    let kernels = kernels.filter(|node| node.backend == "Counting").count();
    let options = LoadOptions::new()
        .runtime(backends::runtime(registry))
        .instance_count(1);
    let model = compiled.load(&options).unwrap();
    let names: Vec<String> = model
        .symbols()
        .iter()
        .map(|(_, s)| s.name.clone())
        .collect();
    let instance = |past: u64| {
        let size = |name: &String| match name.contains("past") {
            true => past,
            false => 1,
        };
        let sizes: Vec<(&str, u64)> = names
            .iter()
            .map(|name| (name.as_str(), size(name)))
            .collect();
        let before = made.load(Ordering::Relaxed);
        model.at(&sizes).unwrap();
        made.load(Ordering::Relaxed) - before
    };
    let first = instance(3);
    assert!(first > 0 && first < kernels, "{first} of {kernels}");
    // The kernels that depend on the length of the cache.
    let second = instance(4);
    assert!(second > 0 && second < first / 2, "{second} of {first}");
    // One instance is kept, but of its kernels those of several sizes.
    assert_eq!(instance(3), 0);
}
