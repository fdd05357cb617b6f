//! Shared test code: backends, and evaluation of a graph node by node.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;
use tenon_backend::{
    Backend, BackendId, Capability, CpuLevel, NodeView, OptimisationViews, Optimiser,
    PropertyValue, Reason, Refusal, Registry, Workload, WorkloadPlan, WorkloadSpec, evaluate,
};
use tenon_base::{Control, Result};
use tenon_compiler::Compiled;
use tenon_cpu_ref::CpuRef;
use tenon_graph::{DataType, Graph, Tensor, TensorType, infer};
use tenon_neff::{Limits, Package, WriteOptions};
use tenon_runtime::{LoadOptions, Model, Runtime};
use tenon_tensor::{Buffer, convert};

/// CpuRef under another name, with a preference for channels-last images and bytes of u8.
pub struct ChannelsLast(pub CpuRef);

impl Backend for ChannelsLast {
    fn id(&self) -> BackendId {
        BackendId::new("CpuAcc")
    }

    fn description(&self) -> String {
        "CpuRef that prefers channels last".into()
    }

    fn capabilities(&self) -> Vec<Capability> {
        [("PreferredLayout", "nhwc"), ("PreferredByteType", "u8")]
            .map(|(name, value)| Capability::new(name, PropertyValue::String(value.into())))
            .into()
    }

    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal> {
        if node.op.class == tenon_graph::operator::OperatorClass::Movement {
            return Err(tenon_backend::Reason::UnknownOperator.into());
        }
        self.0.supports(node)
    }

    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan> {
        self.0.plan(spec, cpu)
    }

    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        self.0.workload(spec)
    }
}

/// A preferred channels-last backend, and CpuRef.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.register(Arc::new(ChannelsLast(CpuRef))).unwrap();
    registry.register(Arc::new(CpuRef)).unwrap();
    registry
}

/// CpuRef without programs of elementwise operators, with the differences of a test.
pub struct TestBackend {
    /// Its name.
    pub id: &'static str,
    /// Its reason to refuse a node.
    pub refuses: fn(&NodeView<'_>) -> Option<Reason>,
    /// Its optimisation of a subgraph.
    pub optimises: fn(&Graph) -> OptimisationViews,
}

impl Backend for TestBackend {
    fn id(&self) -> BackendId {
        BackendId::new(self.id)
    }

    fn description(&self) -> String {
        "CpuRef with a difference".into()
    }

    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal> {
        match (self.refuses)(node) {
            Some(reason) => Err(reason.into()),
            None if node.op.name == "tenon.Elementwise" => Err(Reason::UnknownOperator.into()),
            None => CpuRef.supports(node),
        }
    }

    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan> {
        CpuRef.plan(spec, cpu)
    }

    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        CpuRef.workload(spec)
    }

    fn optimiser(&self) -> Option<&dyn Optimiser> {
        Some(self)
    }
}

impl Optimiser for TestBackend {
    fn optimise(&self, subgraph: &Graph) -> Result<OptimisationViews> {
        Ok((self.optimises)(subgraph))
    }
}

/// Supports all other operators of CpuRef.
pub const TEST_BACKEND: TestBackend = TestBackend {
    id: "TestBackend",
    refuses: |_| None,
    optimises: OptimisationViews::untouched,
};

/// The built-in backends and another.
pub fn with_test_backend(other: TestBackend) -> Registry {
    let mut registry = tenon_builtin::registry();
    registry.register(Arc::new(other)).unwrap();
    registry
}

/// The graph's outputs, every node evaluated by CpuRef.
pub fn run(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    let mut values: Vec<Option<Tensor>> = graph
        .values
        .iter()
        .map(|value| value.constant.clone())
        .collect();
    for (id, tensor) in graph.inputs.iter().zip(inputs) {
        assert_eq!(graph.value(*id).ty.as_ref(), Some(tensor.ty()));
        values[id.index()] = Some(tensor.clone());
    }
    let backend = CpuRef;
    for node in &graph.nodes {
        let inputs: Vec<Option<&Tensor>> = node
            .inputs
            .iter()
            .map(|id| id.and_then(|id| values[id.index()].as_ref()))
            .collect();
        // All values are known here, shape-determining ones included.
        let types: Vec<Option<&TensorType>> =
            inputs.iter().map(|tensor| tensor.map(Tensor::ty)).collect();
        let types = infer(
            node.op,
            &node.attributes,
            &types,
            &inputs,
            node.outputs.len(),
        )
        .unwrap_or_else(|error| panic!("{} '{}': {error}", node.op.name, node.name));
        let outputs: Vec<Option<TensorType>> = node
            .outputs
            .iter()
            .zip(types)
            .map(|(id, ty)| id.map(|_| ty))
            .collect();
        let made = evaluate(&backend, node.op, &node.attributes, &inputs, &outputs)
            .unwrap_or_else(|error| panic!("{} '{}': {error}", node.op.name, node.name));
        for (id, tensor) in node.outputs.iter().zip(made) {
            if let Some(id) = id {
                values[id.index()] = tensor;
            }
        }
    }
    graph
        .outputs
        .iter()
        .map(|id| values[id.index()].clone().unwrap())
        .collect()
}

/// A tensor of pseudo-random elements from -1 to 1 (or small integers).
pub fn noise(ty: &TensorType, seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let count = ty.elements();
    let shape = ty.shape().clone();
    match ty.dtype() {
        DataType::F32 => {
            let elements: Vec<f32> = (0..count)
                .map(|_| (next() % 20001) as f32 / 10000.0 - 1.0)
                .collect();
            Tensor::from_slice(shape, &elements).unwrap()
        }
        half @ (DataType::F16 | DataType::BF16) => {
            let wide = noise(&TensorType::new(DataType::F32, shape).unwrap(), seed);
            convert(&wide, half).unwrap()
        }
        DataType::I64 => {
            let elements: Vec<i64> = (0..count).map(|_| (next() % 2) as i64).collect();
            Tensor::from_slice(shape, &elements).unwrap()
        }
        DataType::Bool => {
            let bits: Vec<bool> = (0..count).map(|_| next() % 2 == 0).collect();
            Tensor::from_bools(shape, &bits).unwrap()
        }
        DataType::U8 => {
            let elements: Vec<u8> = (0..count).map(|_| next() as u8).collect();
            Tensor::from_slice(shape, &elements).unwrap()
        }
        DataType::I8 => {
            let elements: Vec<i8> = (0..count).map(|_| next() as i8).collect();
            Tensor::from_slice(shape, &elements).unwrap()
        }
        other => panic!("no noise of {other}"),
    }
}

/// Inputs for a graph.
pub fn inputs(graph: &Graph, seed: u64) -> Vec<Tensor> {
    graph
        .inputs
        .iter()
        .enumerate()
        .map(|(index, &id)| noise(graph.value(id).ty.as_ref().unwrap(), seed + index as u64))
        .collect()
}

/// Asserts that two results agree: floating point within `tolerance` of the largest element, others exactly.
pub fn assert_close(expected: &[Tensor], found: &[Tensor], tolerance: f32, what: &str) {
    assert_eq!(expected.len(), found.len(), "{what}");
    for (expected, found) in expected.iter().zip(found) {
        assert_eq!(expected.ty(), found.ty(), "{what}");
        let (Some(a), Some(b)) = (elements(expected), elements(found)) else {
            assert_eq!(expected, found, "{what}");
            continue;
        };
        let largest = a.iter().fold(1.0f32, |largest, x| largest.max(x.abs()));
        for (index, (x, y)) in a.iter().zip(b).enumerate() {
            let same = (x - y).abs() <= tolerance * largest || (x.is_nan() && y.is_nan());
            assert!(same, "{what}: element {index}: expected {x}, found {y}");
        }
    }
}

/// The elements of a floating-point tensor.
fn elements(tensor: &Tensor) -> Option<Vec<f32>> {
    let wide = tensor
        .dtype()
        .is_float()
        .then(|| convert(tensor, DataType::F32))?;
    wide.unwrap().as_slice::<f32>().map(<[f32]>::to_vec)
}

/// The package of a compiled graph.
pub fn bytes(compiled: &Compiled) -> Buffer {
    compiled
        .contents
        .to_bytes(WriteOptions::default(), &Control::new())
        .unwrap()
}

/// The outputs of a compiled graph, run from its package.
pub fn execute(compiled: &Compiled, registry: &Registry, inputs: &[Tensor]) -> Vec<Tensor> {
    let package =
        Package::from_buffer(bytes(compiled), &Limits::default(), &Control::new()).unwrap();
    let runtime = Runtime::new(registry.clone(), tenon_builtin::kernels());
    let model = Model::load(&runtime, &package, &LoadOptions::default()).unwrap();
    let named: Vec<(&str, &Tensor)> = model
        .inputs()
        .iter()
        .map(|input| input.name.as_str())
        .zip(inputs)
        .collect();
    // Twice: the second execution must not depend on the contents of the arena.
    model.run(&named).unwrap();
    model.run(&named).unwrap()
}
