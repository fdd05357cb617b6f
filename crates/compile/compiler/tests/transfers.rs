//! Placement with transfer costs: subgraphs between two memories.

use std::sync::Arc;
use tenon_backend::{
    Backend, BackendId, CpuLevel, HandleFactory, MemorySources, NodeView, Reason, Refusal,
    Registry, TensorHandle, TensorMemory, Workload, WorkloadPlan, WorkloadSpec,
};
use tenon_base::{Error, ErrorKind, Result};
use tenon_compiler::{Compiled, Hint, Options, compile};
use tenon_cpu_ref::CpuRef;
use tenon_graph::Graph;
use tenon_tensor::TensorType;

/// CpuRef under another name, with dedicated memory.
struct Device {
    id: &'static str,
    memory: &'static str,
    /// Sources of memory that it exchanges without a copy.
    shared: u32,
    operators: &'static [&'static str],
}

impl Backend for Device {
    fn id(&self) -> BackendId {
        BackendId::new(self.id)
    }

    fn description(&self) -> String {
        "CpuRef with other memory".into()
    }

    fn supports(&self, node: &NodeView<'_>) -> std::result::Result<(), Refusal> {
        match self.operators.contains(&node.op.name) {
            true => CpuRef.supports(node),
            false => Err(Reason::UnknownOperator.into()),
        }
    }

    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan> {
        CpuRef.plan(spec, cpu)
    }

    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        CpuRef.workload(spec)
    }

    fn tensor_memory(&self) -> Option<&dyn TensorMemory> {
        Some(self)
    }
}

impl TensorMemory for Device {
    fn handle_factories(&self) -> Vec<HandleFactory> {
        vec![HandleFactory {
            id: self.memory.into(),
            import: MemorySources(self.shared),
            export: MemorySources(self.shared),
            map: true,
            padding: false,
            device: None,
        }]
    }

    fn tensor_handle(&self, _: &str, _: &TensorType) -> Result<Box<dyn TensorHandle>> {
        Err(Error::new(ErrorKind::Internal, "not executed"))
    }
}

const DEVICE: Device = Device {
    id: "Dev",
    memory: "DevMemory",
    shared: 0,
    operators: &["Neg", "Abs", "MatMul", "Reshape"],
};

fn compiled(devices: Vec<Device>, hints: &[(&str, &'static str)], text: &str) -> Compiled {
    let mut registry = Registry::new();
    let mut ids: Vec<BackendId> = devices.iter().map(Backend::id).collect();
    for device in devices {
        registry.register(Arc::new(device)).unwrap();
    }
    registry.register(Arc::new(CpuRef)).unwrap();
    ids.push(BackendId::new("CpuRef"));
    let mut options = Options::new(&registry);
    options.backends = ids;
    options.hints = hints
        .iter()
        .map(|(pattern, id)| Hint {
            pattern: (*pattern).into(),
            backend: BackendId::new(id),
        })
        .collect();
    let mut graph: Graph = text.parse().unwrap();
    graph.infer_types().unwrap();
    compile(graph, &options).unwrap()
}

/// The backends of the nodes in order.
fn backends(compiled: &Compiled) -> Vec<String> {
    let nodes = compiled.placement.nodes.iter();
    nodes.map(|node| node.target.to_string()).collect()
}

/// A graph whose ends are on the host, with `middle` from %a to %b.
fn bounce(middle: &str) -> String {
    format!(
        "graph \"g\" (%x: f32[8, 8], %w: f32[8, 8]) -> (%d) {{
        %a = Softmax(%x) @first
        {middle}
        %c = Softmax(%b) @second
        %d = Neg(%c) @last
    }}"
    )
}

#[test]
fn a_node_that_would_bounce_between_two_memories_stays() {
    let graph = bounce("%b = Neg(%a) @between");
    let compiled = compiled(vec![DEVICE], &[], &graph);
    // The last one returns nothing: it is not between two memories.
    assert_eq!(backends(&compiled), ["CpuRef", "CpuRef", "CpuRef", "Dev"]);
    let report = compiled.placement.report();
    assert_eq!(report.crossings.count, 1);
    let refusal = &report.nodes[1].refusals[0];
    assert_eq!(
        (&*refusal.backend, &*refusal.cause, &*refusal.reason),
        ("Dev", "transfer", "other")
    );
    assert!(
        refusal
            .text
            .contains("memory of CpuRef: copying 512 bytes would"),
        "{}",
        refusal.text
    );
    assert_eq!(compiled.contents.tenon.placement, report);
}

#[test]
fn a_subgraph_moves_as_a_whole_or_not() {
    let graph = bounce("%i = Neg(%a)\n %b = Abs(%i)");
    let whole = compiled(vec![DEVICE], &[], &graph);
    assert_eq!(whole.placement.crossings.len(), 1, "{}", whole.placement);
    // The product of larger matrices is worth the copies.
    let graph = bounce("%i = Neg(%a)\n %b = MatMul(%i, %w)");
    let worth = compiled(vec![DEVICE], &[], &graph.replace("8, 8", "64, 64"));
    let expected = ["CpuRef", "Dev", "Dev", "CpuRef", "Dev"];
    assert_eq!(backends(&worth), expected);
}

#[test]
fn the_memory_around_may_be_that_of_a_device() {
    // The host comes first, and supports all but MatMul.
    let host = Device {
        id: "Host",
        memory: "HostMemory",
        shared: 0,
        operators: &["Neg", "Softmax"],
    };
    let graph = "graph \"g\" (%x: f32[8, 8], %w: f32[8, 8]) -> (%d) {
        %a = MatMul(%x, %w)
        %b = Neg(%a)
        %d = MatMul(%b, %w)
    }";
    let compiled = compiled(vec![host, DEVICE], &[], graph);
    assert_eq!(backends(&compiled), ["Dev", "Dev", "Dev"]);
    assert!(compiled.placement.crossings.is_empty());
}

#[test]
fn nodes_remain_where_a_move_saves_nothing() {
    let graph = bounce("%b = Neg(%a) @between");
    let expected = ["CpuRef", "Dev", "CpuRef", "Dev"];
    // A hint.
    let hinted = compiled(vec![DEVICE], &[("between", "Dev")], &graph);
    assert_eq!(backends(&hinted), expected);
    // Memory that is exchanged in place.
    let shared = Device {
        shared: 1,
        ..DEVICE
    };
    let shared = compiled(vec![shared], &[], &graph);
    assert_eq!(backends(&shared), expected);
    // A consumer in a third memory.
    let third = Device {
        id: "Third",
        memory: "ThirdMemory",
        shared: 0,
        operators: &["Erf"],
    };
    let graph = graph
        .replace("(%d) {", "(%d, %e) {")
        .replace("@between", "@between\n %e = Erf(%b) @third");
    let third = compiled(vec![DEVICE, third], &[], &graph);
    assert!(backends(&third).contains(&"Third".to_owned()));
    let nodes = &third.placement.nodes;
    let between = nodes.iter().find(|node| node.node == "between").unwrap();
    assert_eq!(between.target.to_string(), "Dev");
}
