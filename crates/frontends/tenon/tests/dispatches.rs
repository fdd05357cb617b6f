//! One executor: a compiled function dispatches the same kernels, whether the model runtime or the
//! driver of programs executes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tenon::host_program::{
    AllocatorKind, ExecOptions, KernelDef, Log, ProgramInput, Registry, execute,
};
use tenon::inspect::Contents;
use tenon::neff::Package;
use tenon::profile::TraceSink;
use tenon::{Compiler, Control, LoadOptions, Model, Result, RunOptions};
use tenon_executor::{Frame, Kernel, Signature};

const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../models/digits/digits.onnx"
);

/// A kernel that only counts.
struct Counting(Arc<AtomicUsize>);

impl Kernel for Counting {
    fn run(&self, _: &mut Frame<'_>) -> Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Counts the scopes of kernels.
#[derive(Default)]
struct Scopes(AtomicUsize);

impl TraceSink for Scopes {
    fn scope(&self, category: &'static str, _: &str, _: Instant, _: Instant, _: u64) {
        if category == "kernel" {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn by_the_runtime(package: &Package) -> usize {
    let model = Model::from_package(package, &LoadOptions::default()).unwrap();
    let inputs: Vec<_> = model
        .inputs()
        .iter()
        .map(|input| {
            (
                input.name.as_str(),
                tenon::inputs::random_tensor(&input.ty, 1).unwrap(),
            )
        })
        .collect();
    let inputs: Vec<_> = inputs
        .iter()
        .map(|(name, tensor)| (*name, tensor))
        .collect();
    let scopes = Scopes::default();
    let options = RunOptions::new().trace(&scopes);
    model.run_with(&inputs, options).unwrap();
    scopes.0.into_inner()
}

fn by_the_driver(package: &Package) -> usize {
    let program = Contents::read(package).unwrap().program.to_vec();
    let dispatched = Arc::new(AtomicUsize::new(0));
    let mut registry = Registry::new();
    for name in ["tenon.workload", "tenon.dma"] {
        let dispatched = dispatched.clone();
        let signature = Signature::default();
        let counting = KernelDef::new(name, signature, move |_| {
            Ok(Box::new(Counting(dispatched.clone())) as Box<dyn Kernel>)
        });
        registry.register(counting).unwrap();
    }
    let options = ExecOptions::new().allocator(AllocatorKind::LeakCheck);
    let input = ProgramInput::new("program.bef", program);
    let log = Log::new(|_, _| ());
    let done = execute(&input, &registry, &options, std::io::sink(), log).unwrap();
    assert_eq!(done.diagnostics, []);
    assert!(done.succeeded);
    dispatched.load(Ordering::Relaxed)
}

#[test]
fn the_runtime_and_the_driver_dispatch_the_same_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.neff");
    let compiled = Compiler::new().compile_file(MODEL).unwrap();
    compiled.write(&path).unwrap();
    let package = Package::open(&path, &Control::new()).unwrap();
    let module = tenon::inspect::decode_program(&Contents::read(&package).unwrap()).unwrap();
    let kernels: usize = module
        .functions
        .iter()
        .map(|function| function.kernels.len())
        .sum();
    assert!(kernels > 3, "a model of several kernels");
    assert_eq!(by_the_runtime(&package), kernels);
    assert_eq!(by_the_driver(&package), kernels);
}
