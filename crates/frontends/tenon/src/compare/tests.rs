//! A faulty operator in the middle of a model is found, and reproduced alone.

use super::*;
use crate::inputs::random_tensor;
use crate::{Compiler, OnnxModel};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tenon_backend::{
    Backend, CpuLevel, NodeView, Operands, Refusal, Registry, Workload, WorkloadPlan, WorkloadSpec,
};
use tenon_base::Control;
use tenon_compiler::{CpuNode, compile_nodes};
use tenon_graph::Graph;
use tenon_tensor::{BufferMut, DataType, npy};

/// CpuRef under another name, with one faulty operator.
struct Planted {
    inner: Arc<dyn Backend>,
    operator: &'static str,
    /// Added to the first element of the output.
    error: f32,
    /// Executions of the operator.
    executions: Arc<AtomicU32>,
    tolerances: Vec<tenon_backend::Tolerance>,
}

struct Wrong {
    inner: Box<dyn Workload>,
    error: f32,
    executions: Arc<AtomicU32>,
}

impl Workload for Wrong {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        self.inner.execute(operands)?;
        self.executions.fetch_add(1, Ordering::Relaxed);
        operands.split().1.slice::<f32>(0)?[0] += self.error;
        Ok(())
    }
}

impl Backend for Planted {
    fn id(&self) -> BackendId {
        BackendId::new("Planted")
    }

    fn description(&self) -> String {
        format!("CpuRef with a wrong {}", self.operator)
    }

    fn tolerances(&self) -> Vec<tenon_backend::Tolerance> {
        self.tolerances.clone()
    }

    fn supports(&self, node: &NodeView<'_>) -> std::result::Result<(), Refusal> {
        self.inner.supports(node)
    }

    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan> {
        self.inner.plan(spec, cpu)
    }

    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        let inner = self.inner.workload(spec)?;
        if spec.op.name != self.operator {
            return Ok(inner);
        }
        Ok(Box::new(Wrong {
            inner,
            error: self.error,
            executions: self.executions.clone(),
        }))
    }
}

fn registry(operator: &'static str, error: f32) -> Registry {
    counted(operator, error).0
}

fn counted(operator: &'static str, error: f32) -> (Registry, Arc<AtomicU32>) {
    let executions = Arc::new(AtomicU32::new(0));
    let mut registry = tenon_builtin::registry();
    let inner = registry.find(&BackendId::new("CpuRef")).unwrap().clone();
    let planted = Planted {
        inner,
        operator,
        error,
        executions: executions.clone(),
        tolerances: Vec::new(),
    };
    registry.register(Arc::new(planted)).unwrap();
    (registry, executions)
}

fn runtime(registry: &Registry) -> crate::backends::Runtime {
    crate::backends::runtime(registry.clone())
}

const BOTH: [BackendId; 2] = [BackendId::new("Planted"), BackendId::new("CpuRef")];

/// The small BERT for these backends, and inputs.
fn bert(registry: &Registry, backends: &[BackendId]) -> (Package, Vec<(String, Tensor)>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/small/bert.onnx");
    let control = Control::new();
    let model = OnnxModel::open(path, &control).unwrap();
    let compiler = Compiler::new()
        .backends(backends.to_vec())
        .registry(registry.clone());
    let types = compiler.input_types(&model, &BTreeMap::new()).unwrap();
    let inputs = types
        .into_iter()
        .map(|(name, ty)| (name, random_tensor(&ty, 3).unwrap()));
    let compiled = compiler.compile_model(&model).unwrap();
    (compiled.to_neff().unwrap(), inputs.collect())
}

fn compare(
    package: &Package,
    registry: &Registry,
    backends: [BackendId; 2],
    inputs: &[(String, Tensor)],
) -> Result<Comparison> {
    let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(name, x)| (name.as_str(), x)).collect();
    let options = LoadOptions::new().native_nodes(true);
    let [first, second] = backends;
    let options = CompareOptions::new(first, second).load(options.runtime(runtime(registry)));
    compare_backends(package, &inputs, &options)
}

#[test]
fn a_planted_operator_is_found_and_written_as_a_package() {
    let (registry, executions) = counted("tenon.Attention", 0.5);
    let (package, inputs) = bert(&registry, &BOTH);
    let found = compare(&package, &registry, BOTH, &inputs).unwrap();
    let divergence = found.divergence.as_ref().expect("the planted operator");
    // The second one did not run.
    assert_eq!(executions.load(Ordering::Relaxed), 1);
    assert_eq!(divergence.operator, "tenon.Attention");
    // The first of two, with operators before it that agree to the bit.
    assert!(found.compared.len() > 3, "{:?}", found.compared);
    assert!(
        found
            .compared
            .iter()
            .all(|node| node.operator != "tenon.Attention")
    );
    assert!(
        found
            .compared
            .iter()
            .all(|node| node.difference.absolute == 0.0)
    );
    let [wrong, right] = worst(divergence.worst.clone());
    assert!((wrong - right - 0.5).abs() < 1e-6, "{wrong} {right}");
    assert_eq!(divergence.difference.worst, 0);

    let folder = tempfile::tempdir().unwrap();
    let written = divergence
        .write(&folder.path().join("new"), &registry)
        .unwrap();
    let arrays = npy::read_npz(&written.arrays).unwrap();
    let inputs = crate::inputs::read_npz_inputs(&written.arrays).unwrap();
    let expected = crate::inputs::read_npz_outputs(&written.arrays).unwrap();
    assert_eq!(arrays.len(), inputs.len() + expected.len());
    let one = Package::open(&written.package, &Control::new()).unwrap();
    let model = Model::from_package(&one, &LoadOptions::new().runtime(runtime(&registry))).unwrap();
    assert_eq!(model.placement().nodes.len(), 1);
    assert_eq!(model.placement().nodes[0].backend, "Planted");
    let named: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, x)| (n.as_str(), x)).collect();
    let outputs = model.run(&named).unwrap();
    let difference = Difference::between(&outputs[0], &expected[0].1).unwrap();
    assert_eq!(difference, divergence.difference);
    // Compared again, the reproduction differs at its only node.
    let again = compare(&one, &registry, BOTH, &inputs).unwrap();
    assert!(again.compared.is_empty());
    assert_eq!(again.divergence.unwrap().difference, divergence.difference);
}

#[test]
fn the_package_may_be_of_either_backend() {
    let registry = registry("tenon.Attention", 0.5);
    let (package, inputs) = bert(&registry, &BOTH[1..]);
    let found = compare(&package, &registry, BOTH, &inputs).unwrap();
    let divergence = found.divergence.expect("the planted operator");
    let [wrong, right] = worst(divergence.worst);
    assert!((wrong - right - 0.5).abs() < 1e-6, "{wrong} {right}");
}

/// Two elements as f64.
fn worst(elements: [Element; 2]) -> [f64; 2] {
    elements.map(|element| element.to_string().parse().unwrap())
}

/// x -> MatMul -> `twice`, a function of a library -> Sigmoid -> y
fn of_several_nodes(registry: &Registry) -> Package {
    let folder = tempfile::tempdir().unwrap();
    let file = tenon_test_libraries::cpu_nodes(folder.path());
    let library = std::fs::read(file).unwrap();
    let mut graph: Graph =
        r#"graph "cut" (%x: f32[2, 3], %w: f32[3, 3], %d: f32[2, 3]) -> (%y, %m) {
          %m = MatMul(%x, %w)
          %y = Sigmoid(%d)
        }"#
        .parse()
        .unwrap();
    graph.infer_types().unwrap();
    let twice = CpuNode {
        attributes: tenon_graph::Attributes::new(),
        name: "twice".into(),
        operator: "test.Twice".into(),
        inputs: vec!["m".into()],
        outputs: vec!["d".into()],
        library: BufferMut::copy_of(&library).unwrap().freeze(),
        symbol: "twice".into(),
    };
    let mut options = tenon_compiler::Options::new(registry);
    options.backends = BOTH.to_vec();
    let compiled = compile_nodes(graph, vec![twice], 1, &options).unwrap();
    let compiled = crate::Package::new(compiled, Control::new());
    compiled.to_neff().unwrap()
}

#[test]
fn a_package_of_several_nodes_is_compared_through_all_of_them() {
    let ramp = |shape: [usize; 2], scale: f32| {
        let all: Vec<f32> = (0..shape[0] * shape[1]).map(|i| i as f32 * scale).collect();
        Tensor::from_slice(shape, &all).unwrap()
    };
    let inputs = [
        ("x".to_owned(), ramp([2, 3], 0.25)),
        ("w".to_owned(), ramp([3, 3], -0.5)),
    ];
    let right = registry("Sigmoid", 0.0);
    let found = compare(&of_several_nodes(&right), &right, BOTH, &inputs).unwrap();
    assert!(found.divergence.is_none());
    let operators: Vec<&str> = found.compared.iter().map(|node| node.operator).collect();
    assert_eq!(operators, ["tenon.MatMul", "Sigmoid"]);
    assert_eq!(found.other_kernels, 1);

    let wrong = registry("Sigmoid", 0.5);
    let found = compare(&of_several_nodes(&wrong), &wrong, BOTH, &inputs).unwrap();
    let divergence = found.divergence.expect("the planted operator");
    assert_eq!((divergence.operator, found.compared.len()), ("Sigmoid", 1));
}

#[test]
fn backends_that_agree_are_compared_to_the_end() {
    let registry = registry("tenon.Attention", 0.0);
    let (package, inputs) = bert(&registry, &Compiler::default_backends());
    let pair = [BackendId::new("CpuAcc"), BackendId::new("CpuRef")];
    let found = compare(&package, &registry, pair, &inputs).unwrap();
    assert!(found.divergence.is_none(), "{:?}", found.divergence);
    assert!(found.skipped.is_empty(), "{:?}", found.skipped);
    assert!(found.compared.len() > 10);
    assert!(found.largest().unwrap().difference.relative < 1e-4);
}

#[test]
fn operators_that_one_backend_refuses_are_skipped() {
    let mut graph: Graph = r#"graph "g" (%x: f64[2, 3]) -> (%y) {
          %m = Hardmax(%x)
          %y = Neg(%m)
        }"#
    .parse()
    .unwrap();
    graph.infer_types().unwrap();
    let registry = tenon_builtin::registry();
    let options = tenon_compiler::Options::new(&registry);
    let compiled = compile_nodes(graph, Vec::new(), 1, &options).unwrap();
    let compiled = crate::Package::new(compiled, Control::new());
    let x = Tensor::from_slice([2, 3], &[0.5f64, 2.0, -1.0, 3.0, 0.0, 1.0]).unwrap();
    let pair = [BackendId::new("CpuAcc"), BackendId::new("CpuRef")];
    let package = compiled.to_neff().unwrap();
    let found = compare(&package, &registry, pair, &[("x".into(), x)]).unwrap();
    let skipped: Vec<&str> = found.skipped.iter().map(|node| node.operator).collect();
    assert_eq!(skipped, ["Hardmax"]);
    let reason = &found.skipped[0].reason;
    assert!(reason.starts_with("CpuAcc: "), "{reason}");
    assert_eq!(found.compared.len(), 1);
}

#[test]
fn backends_that_cannot_be_compared_are_refused() {
    let registry = registry("Neg", 0.0);
    let (package, inputs) = bert(&registry, &BOTH[1..]);
    let same = [BOTH[1].clone(), BOTH[1].clone()];
    let unknown = [BackendId::new("GpuAcc"), BOTH[1].clone()];
    for pair in [same, unknown] {
        assert!(compare(&package, &registry, pair, &inputs).is_err());
    }
}

fn reference() -> Arc<dyn Backend> {
    let registry = tenon_builtin::registry();
    registry.reference().unwrap().clone()
}

/// Whether the difference is accepted between the reference and a backend that states these tolerances.
fn accepts(
    tolerance: Tolerance,
    stated: &[tenon_backend::Tolerance],
    (absolute, relative): (f64, f64),
    dtype: DataType,
) -> bool {
    let difference = Difference {
        absolute,
        relative,
        same_top: true,
        worst: 0,
    };
    let reference = reference();
    let planted = Planted {
        inner: reference.clone(),
        operator: "Neg",
        error: 0.0,
        executions: Arc::default(),
        tolerances: stated.to_vec(),
    };
    let one_order = tolerance.accepts(&difference, dtype, [&planted, &*reference]);
    let other_order = tolerance.accepts(&difference, dtype, [&*reference, &planted]);
    assert_eq!(one_order, other_order);
    one_order
}

#[test]
fn tolerances_go_by_type() {
    for (difference, dtype, accepted) in [
        ((0.1, 1e-3), DataType::F32, true),
        ((0.1, 2e-3), DataType::F32, false),
        ((1e-7, 1.0), DataType::F32, true),
        ((0.1, 5e-3), DataType::BF16, true),
        ((0.1, 5e-3), DataType::F16, false),
        ((1.0, 1.0), DataType::I8, true),
        ((2.0, 0.01), DataType::U8, false),
        ((1.0, 1e-6), DataType::I64, false),
        ((1.0, 1.0), DataType::Bool, false),
        ((f64::INFINITY, f64::INFINITY), DataType::F32, false),
    ] {
        let found = accepts(Tolerance::default(), &[], difference, dtype);
        assert_eq!(found, accepted, "{difference:?} {dtype}");
    }
}

#[test]
fn tolerances_are_those_that_backends_state_or_the_caller_gives() {
    let stated = [
        (DataType::F32, 0.05, 0.0),
        (DataType::F16, 1e-6, 0.0),
        (DataType::I8, 0.0, 3.0),
    ]
    .map(|(dtype, relative, absolute)| tenon_backend::Tolerance {
        dtype,
        relative,
        absolute,
    });
    let by_default = Tolerance::default();
    for (difference, dtype, accepted) in [
        ((0.1, 0.04), DataType::F32, true),
        ((0.1, 0.06), DataType::F32, false),
        // The stated absolute bound replaces the default one, too.
        ((1e-7, 1.0), DataType::F32, false),
        // A unit in the last place is always accepted.
        ((0.1, 9e-4), DataType::F16, true),
        ((3.0, 1.0), DataType::I8, true),
        ((4.0, 1.0), DataType::I8, false),
        // Not stated.
        ((0.1, 2e-3), DataType::F64, false),
    ] {
        let found = accepts(by_default, &stated, difference, dtype);
        assert_eq!(found, accepted, "{difference:?} {dtype}");
    }
    let given = Tolerance {
        relative: Some(1e-4),
        steps: Some(0),
        ..by_default
    };
    assert!(!accepts(given, &stated, (0.1, 0.04), DataType::F32));
    assert!(!accepts(given, &stated, (1.0, 1.0), DataType::I8));
}

#[test]
fn a_difference_within_a_stated_tolerance_is_agreement() {
    for (tolerance, agree) in [(0.9, true), (1e-6, false)] {
        let stated = tenon_backend::Tolerance {
            dtype: DataType::F32,
            relative: tolerance,
            absolute: 0.0,
        };
        let mut registry = tenon_builtin::registry();
        registry
            .register(Arc::new(Planted {
                inner: reference(),
                operator: "tenon.Attention",
                error: 0.01,
                executions: Arc::default(),
                tolerances: vec![stated],
            }))
            .unwrap();
        let (package, inputs) = bert(&registry, &BOTH);
        let found = compare(&package, &registry, BOTH, &inputs).unwrap();
        assert_eq!(found.divergence.is_none(), agree);
    }
}

#[test]
fn products_of_narrower_weights_are_compared_with_those_of_f32() {
    let onnx = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/digits/digits.onnx");
    let compiler = Compiler::new().precision(crate::Precision::Bf16);
    let compiled = compiler.compile_file(onnx).unwrap();
    let image = random_tensor(
        &tenon_tensor::TensorType::new(DataType::F32, [1, 1, 8, 8]).unwrap(),
        7,
    )
    .unwrap();
    let compare = |options: CompareOptions| {
        let package = compiled.to_neff().unwrap();
        compare_backends(&package, &[("image", &image)], &options).unwrap()
    };
    let options = CompareOptions::new("CpuAcc", "CpuRef");
    let loss = compare(options.clone().fused_nodes(compiled.fused_nodes()));
    assert!(
        loss.divergence.is_none(),
        "{:?}",
        loss.divergence.map(|it| it.difference)
    );
    let rounded = |node: &&ComparedNode| matches!(node.operator, "tenon.Conv" | "tenon.MatMul");
    let products: Vec<_> = loss.compared.iter().filter(rounded).collect();
    assert_eq!(products.len(), 5);
    assert!(loss.skipped.is_empty(), "{:?}", loss.skipped);
    // Weights of bf16 have 8 bits.
    let seen = |node: &&ComparedNode| (1e-5..2e-2).contains(&node.difference.relative);
    assert!(products.iter().all(seen), "{products:?}");
    // A package alone has no other weights.
    let alone = compare(options);
    assert!(alone.divergence.is_none());
}
