//! Packages of an unavailable backend run on other backends.

mod common;

use common::{bytes, f32s, node, open, perceptron, random_tensor};
use std::sync::Arc;
use tenon_backend::{
    Backend, BackendContext, BackendId, CpuLevel, CreationOptions, InPlace, Lifecycle, NodeView,
    Reason, Refusal, Registry, Workload, WorkloadPlan, WorkloadSpec,
};
use tenon_base::{Error, ErrorKind, Result};
use tenon_compiler::{Compiled, Options, compile};
use tenon_cpu_acc::CpuAcc;
use tenon_cpu_ref::CpuRef;
use tenon_graph::{Attribute, Attributes, Graph};
use tenon_neff::PlacementReport;
use tenon_runtime::{LoadOptions, Model, Runtime};
use tenon_tensor::{DataType, Tensor, TensorType};

/// A backend with the workloads of another one, whose hardware is unavailable.
struct Npu<B> {
    of: B,
    /// Whether its plans compute in the memory of the first input.
    in_place: bool,
    /// The only operator that it supports, if not all of `of`.
    only: Option<&'static str>,
}

impl<B: Backend> Backend for Npu<B> {
    fn id(&self) -> BackendId {
        BackendId::new("Npu")
    }

    fn description(&self) -> String {
        "an unavailable device".into()
    }

    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal> {
        match self.only {
            Some(only) if node.op.name != only => Err(Reason::UnknownOperator.into()),
            _ => self.of.supports(node),
        }
    }

    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan> {
        let mut plan = self.of.plan(spec, cpu)?;
        if self.in_place {
            plan.in_place = vec![InPlace {
                input: 0,
                output: 0,
            }];
        }
        Ok(plan)
    }

    fn plain(&self, spec: &WorkloadSpec, input: usize) -> Result<Option<Tensor>> {
        self.of.plain(spec, input)
    }

    fn workload(&self, _: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        Err(Error::new(
            ErrorKind::Internal,
            "no workload without the device",
        ))
    }

    fn lifecycle(&self) -> Option<&dyn Lifecycle> {
        Some(self)
    }
}

impl<B: Backend> Lifecycle for Npu<B> {
    fn context(&self, _: &CreationOptions) -> Result<Option<Box<dyn BackendContext>>> {
        Err(Error::new(ErrorKind::Unsupported, "no device /dev/npu0"))
    }
}

fn registry(npu: impl Backend + 'static) -> Registry {
    let mut registry = tenon_builtin::registry();
    registry.register(Arc::new(npu)).unwrap();
    registry
}

fn npu<B>(of: B) -> Npu<B> {
    Npu {
        of,
        in_place: false,
        only: None,
    }
}

/// A runtime without the device.
fn runtime(npu: impl Backend + 'static) -> Runtime {
    let kernels = tenon_builtin::kernels();
    let (runtime, refused) = Runtime::start(registry(npu), kernels, &[], false);
    assert_eq!(refused.len(), 1);
    runtime
}

fn compiled(graph: &Graph, npu: impl Backend + 'static, keep_plain: bool) -> Compiled {
    let registry = registry(npu);
    let mut options = Options::new(&registry);
    options.backends = ["Npu", "CpuAcc", "CpuRef"].map(BackendId::new).to_vec();
    options.keep_plain = keep_plain;
    compile(graph.clone(), &options).unwrap()
}

fn load(compiled: &Compiled, runtime: &Runtime) -> Result<Model> {
    let package = open(&bytes(&compiled.contents)).unwrap();
    Model::load(runtime, &package, &LoadOptions::default())
}

fn run(model: &Model, input: &Tensor) -> Vec<f32> {
    // Twice: results must not depend on the previous contents of the arena.
    model.run(&[("x", input)]).unwrap();
    let outputs = model.run(&[("x", input)]).unwrap();
    outputs[0].as_slice().unwrap().to_vec()
}

/// The same model compiled for the available backends.
fn expected(graph: &Graph, input: &Tensor) -> Vec<f32> {
    let registry = tenon_builtin::registry();
    let compiled = compile(graph.clone(), &Options::new(&registry)).unwrap();
    let runtime = Runtime::new(registry.clone(), tenon_builtin::kernels());
    run(&load(&compiled, &runtime).unwrap(), input)
}

#[test]
fn prepared_constants_are_converted_to_plain_form_for_the_next_backend() {
    let graph = perceptron(&[12, 9, 5]);
    let compiled = compiled(&graph, npu(CpuAcc::new()), false);
    let absent = compiled.contents.variables.iter();
    let absent = absent.filter(|v| matches!(v.role, tenon_neff::Role::Absent));
    assert!(absent.count() > 0);
    let model = load(&compiled, &runtime(npu(CpuAcc::new()))).unwrap();
    let input = random_tensor(&[1, 12], 3);
    assert_eq!(run(&model, &input), expected(&graph, &input));
    let [substitution] = model.substitutions()[..] else {
        panic!("{:?}", model.substitutions());
    };
    assert_eq!(substitution.backend, "Npu");
    assert!(
        substitution.reason.contains("no device /dev/npu0"),
        "{}",
        substitution.reason
    );
    let nodes = model.placement().nodes.iter();
    for node in nodes.filter(|node| node.backend == "CpuAcc") {
        assert_eq!(node.refusals.last().unwrap().backend, "Npu");
    }
    assert!(
        model
            .placement()
            .nodes
            .iter()
            .all(|node| node.backend != "Npu")
    );
}

#[test]
fn without_the_backend_plain_constants_are_needed() {
    let graph = perceptron(&[12, 9, 5]);
    let bare = Runtime::new(tenon_builtin::registry(), tenon_builtin::kernels());
    let prepared = compiled(&graph, npu(CpuAcc::new()), false);
    let error = load(&prepared, &bare).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(text.contains("backend Npu is unavailable"), "{text}");
    assert!(text.contains("install its library"), "{text}");

    let plain = compiled(&graph, npu(CpuAcc::new()), true);
    let model = load(&plain, &bare).unwrap();
    let input = random_tensor(&[1, 12], 3);
    assert_eq!(run(&model, &input), expected(&graph, &input));
}

#[test]
fn scratch_memory_of_the_next_backend_is_appended() {
    let mut graph = Graph::new("conv");
    let x = graph.add_input("x", f32s(&[1, 9, 9, 3]));
    let w = graph.add_constant("w", random_tensor(&[20, 3, 3, 3], 1));
    let pads = Attributes::new().with("pads", Attribute::Ints(vec![1, 1, 1, 1]));
    let y = node(&mut graph, "conv", "tenon.Conv", &[x, w], pads);
    graph.outputs.push(y);
    graph.infer_types().unwrap();
    // The reference needs no scratch memory, CpuAcc pads the image.
    let compiled = compiled(&graph, npu(CpuRef), false);
    let model = load(&compiled, &runtime(npu(CpuRef))).unwrap();
    let input = random_tensor(&[1, 9, 9, 3], 2);
    assert_eq!(run(&model, &input), expected(&graph, &input));
    assert_eq!(model.placement().nodes[0].backend, "CpuAcc");
}

#[test]
fn an_operator_that_does_not_compute_in_place_gets_a_copy_of_its_input() {
    let mut graph = Graph::new("sums");
    let x = graph.add_input("x", f32s(&[4, 6]));
    let axis = graph.add_constant("axis", Tensor::from_slice([], &[1i64]).unwrap());
    let mut value = x;
    for name in ["first", "second", "third"] {
        value = node(
            &mut graph,
            name,
            "CumSum",
            &[value, axis],
            Attributes::new(),
        );
    }
    graph.outputs.push(value);
    graph.infer_types().unwrap();
    let device = || Npu {
        in_place: true,
        ..npu(CpuRef)
    };
    let compiled = compiled(&graph, device(), false);
    let model = load(&compiled, &runtime(device())).unwrap();
    let input = random_tensor(&[4, 6], 2);
    assert_eq!(run(&model, &input), expected(&graph, &input));
}

#[test]
fn all_refusals_of_an_unsupported_node_are_reported() {
    let compiled = compiled(&perceptron(&[12, 9, 5]), npu(CpuAcc::new()), false);
    let kernels = tenon_builtin::kernels();
    // No backend supports protected content.
    let (runtime, refused) = Runtime::start(registry(npu(CpuAcc::new())), kernels, &[], true);
    assert_eq!(refused.len(), 3);
    let error = load(&compiled, &runtime).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(text.contains("no other takes tenon.MatMul"), "{text}");
    assert!(text.contains("cannot keep protected content"), "{text}");
}

#[test]
fn crossings_are_recounted_for_the_substituted_backends() {
    let mut graph = Graph::new("crossings");
    // Of f64, for which only CpuRef has this operator.
    let x = graph.add_input("x", TensorType::new(DataType::F64, [4, 6]).unwrap());
    let none = Attributes::new;
    let first = node(&mut graph, "first", "Hardmax", &[x], none());
    let relu = node(&mut graph, "relu", "Relu", &[first], none());
    // Data movement propagates both makers.
    let axis0 = Attributes::new().with("axis", Attribute::Int(0));
    let both = node(&mut graph, "both", "Concat", &[first, relu], axis0);
    let last = node(&mut graph, "last", "Hardmax", &[both], none());
    graph.outputs.push(last);
    graph.infer_types().unwrap();

    let device = || Npu {
        only: Some("Hardmax"),
        ..npu(CpuRef)
    };
    let on_device = compiled(&graph, device(), false);
    let crossings = |placement: &PlacementReport| placement.crossings.clone();
    let before = crossings(&on_device.contents.tenon.placement);
    assert!(before.values.iter().any(|value| value.to == "Npu"));

    let registry = tenon_builtin::registry();
    let without = compile(graph.clone(), &Options::new(&registry)).unwrap();
    let expected = crossings(&without.contents.tenon.placement);
    assert_eq!(expected.count, 2, "{expected:?}");
    let model = load(&on_device, &runtime(device())).unwrap();
    assert_eq!(crossings(model.placement()), expected);
}
