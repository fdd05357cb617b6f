//! Specialisation of graphs whose sizes are known only when the model runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tenon_backend::{
    Backend, BackendId, Capability, CpuLevel, DYNAMIC_SHAPES, ExtentRange, NodeRanges, NodeView,
    OperandRanges, OptimisationViews, Optimiser, PropertyValue, Reason, Refusal, Registry,
    Substitution, Workload, WorkloadPlan, WorkloadSpec,
};
use tenon_base::Control;
use tenon_compiler::{Compiled, Options, compile, specialise};
use tenon_cpu_ref::CpuRef;
use tenon_graph::Graph;
use tenon_tensor::size::SizeExpr;

/// A graph whose inputs have the symbols `batch` (example 7) and `seq` (example 11).
fn graph(text: &str) -> Graph {
    let mut graph: Graph = text.parse().unwrap();
    let batch = graph.symbols.add("batch", 1..=64).unwrap();
    let seq = graph.symbols.add("seq", 1..=2048).unwrap();
    graph.example_sizes = vec![7, 11];
    for id in graph.inputs.clone() {
        let value = graph.value_mut(id);
        let shape = value.ty.as_ref().unwrap().shape().clone();
        let extents = shape.iter().map(|&extent| match extent {
            7 => SizeExpr::from(batch),
            11 => SizeExpr::from(seq),
            fixed => SizeExpr::from(fixed as i64),
        });
        value.extents = Some(extents.collect());
    }
    graph
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    let reference = std::sync::Arc::new(tenon_cpu_ref::CpuRef);
    registry.register(reference).unwrap();
    registry
}

/// The operators that are left, and the extents of the outputs.
fn specialised(text: &str) -> (String, Vec<String>) {
    let mut graph = graph(text);
    specialise(&mut graph, &registry(), &Control::new()).unwrap();
    tenon_graph::verify(&graph).unwrap();
    let operators: Vec<&str> = graph.nodes.iter().map(|node| node.op.name).collect();
    let extents = graph.outputs.iter().map(|&id| {
        let extents = graph.value(id).extents.as_ref().unwrap();
        let extents: Vec<String> = extents
            .iter()
            .map(|extent| graph.symbols.text(extent))
            .collect();
        extents.join(", ")
    });
    (operators.join(" "), extents.collect())
}

#[test]
fn arithmetic_on_shapes_is_left_to_sizes() {
    // The heads of attention as PyTorch exports them.
    let (operators, extents) = specialised(
        "graph \"g\" (%x: f32[7, 11, 64]) -> (%y) {
           const %zero: i64[1] = [0]
           const %one: i64[1] = [1]
           const %heads: i64[2] = [4, 16]
           %s = Shape(%x)
           %n = Gather(%s, %zero)
           %m = Gather(%s, %one)
           %t = Concat(%n, %m, %heads) {axis = 0}
           %r = Reshape(%x, %t)
           %y = Transpose(%r) {perm = [0, 2, 1, 3]}
         }",
    );
    assert_eq!(operators, "Reshape Transpose");
    assert_eq!(extents, ["batch, 4, seq, 16"]);
}

/// For sequences of the example size, the Slice returns its input.
#[test]
fn a_slice_that_limits_a_size_is_kept() {
    let text = "graph \"limit\" (%x: f32[11, 4]) -> (%y) {
        const %zero: i64[1] = [0]
        const %limit: i64[1] = [300]
        %first = Slice(%x, %zero, %limit)
        %y = Relu(%first)
    }";
    let registry = registry();
    let mut options = Options::new(&registry);
    options.backends = vec![BackendId::new("CpuRef")];
    let compiled = compile(graph(text), &options).unwrap();
    let output = &compiled.contents.tenon.outputs[0];
    assert_eq!(output.shape.to_string(), "[min(300, seq), 4]");
}

/// The nodes of the optimised graph for CpuRef, and the notes of the placement report.
fn optimised(graph: Graph) -> (String, Vec<String>) {
    let registry = registry();
    let mut options = Options::new(&registry);
    options.backends = vec![BackendId::new("CpuRef")];
    let compiled = compile(graph, &options).unwrap();
    let operators: Vec<&str> = compiled.graph.nodes.iter().map(|it| it.op.name).collect();
    (operators.join(" "), compiled.placement.report().notes)
}

/// The extent 3 is no symbol of this example, which the image does not depend on.
#[test]
fn a_fixed_extent_is_no_example_of_another_symbol() {
    let mut graph = graph(
        "graph \"image\" (%x: f32[3, 7, 11]) -> (%y) {
           const %zero: i64[1] = [0]
           %y = Unsqueeze(%x, %zero)
         }",
    );
    graph.symbols.add("k", 0..=100).unwrap();
    graph.example_sizes.push(3);
    assert_eq!(optimised(graph), ("Reshape".into(), Vec::new()));
}

/// In the shape of a Reshape 0 could mean an extent of the input.
#[test]
fn a_view_holds_for_an_extent_of_0() {
    let mut graph = graph(
        "graph \"count\" (%x: f32[13, 4]) -> (%y) {
           const %zero: i64[1] = [0]
           %y = Unsqueeze(%x, %zero)
         }",
    );
    let count = graph.symbols.add("count", 0..=100).unwrap();
    graph.example_sizes.push(13);
    let x = graph.inputs[0];
    graph.value_mut(x).extents = Some(vec![count.into(), 4.into()]);
    assert_eq!(optimised(graph), ("Reshape".into(), Vec::new()));
}

/// Without elements for all sizes, but of different shapes: no constant.
#[test]
fn an_empty_value_of_several_shapes_is_no_constant() {
    let (operators, extents) = specialised(
        "graph \"g\" (%x: f32[7, 11]) -> (%y) {
           const %start: i64[1] = [0]
           const %axes: i64[1] = [0]
           %y = Slice(%x, %start, %start, %axes)
         }",
    );
    assert_eq!(operators, "Slice");
    assert_eq!(extents, ["0, seq"]);
}

#[test]
fn a_size_that_is_computed_with_stays_an_operand() {
    // A mean over the sequence: the size becomes a floating-point divisor.
    let (operators, extents) = specialised(
        "graph \"g\" (%x: f32[7, 11]) -> (%y) {
           const %axes: i64[1] = [1]
           %sum = ReduceSum(%x, %axes) {keepdims = 0}
           %s = Shape(%x) {start = 1}
           %f = Cast(%s) {to = \"f32\"}
           %y = Div(%sum, %f)
         }",
    );
    assert_eq!(operators, "ReduceSum Div");
    assert_eq!(extents, ["batch"]);
}

#[test]
fn fixed_extents_of_a_symbolic_graph_are_folded() {
    let (operators, extents) = specialised(
        "graph \"g\" (%x: f32[7, 64]) -> (%y) {
           const %one: i64[] = [1]
           %s = Shape(%x)
           %n = Gather(%s, %one)
           %f = Cast(%n) {to = \"f32\"}
           %r = Sqrt(%f)
           %y = Div(%x, %r)
         }",
    );
    assert_eq!(operators, "Div");
    assert_eq!(extents, ["batch, 64"]);
}

/// CpuRef with dynamic shapes, which replaces Relu by Abs, Neg by a Reshape to the example sizes, and deletes Slice.
struct Substitutes;

impl Backend for Substitutes {
    fn id(&self) -> BackendId {
        BackendId::new("Substitutes")
    }

    fn description(&self) -> String {
        "replaces nodes".into()
    }

    fn capabilities(&self) -> Vec<Capability> {
        let value = PropertyValue::Bool(true);
        vec![Capability::new(DYNAMIC_SHAPES, value)]
    }

    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal> {
        match node.op.name {
            "tenon.Elementwise" => Err(Reason::UnknownOperator.into()),
            _ => CpuRef.supports(node),
        }
    }

    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> tenon_base::Result<WorkloadPlan> {
        CpuRef.plan(spec, cpu)
    }

    fn workload(&self, spec: &WorkloadSpec) -> tenon_base::Result<Box<dyn Workload>> {
        CpuRef.workload(spec)
    }

    fn optimiser(&self) -> Option<&dyn Optimiser> {
        Some(self)
    }
}

impl Optimiser for Substitutes {
    fn optimise(&self, subgraph: &Graph) -> tenon_base::Result<OptimisationViews> {
        let mut views = OptimisationViews::default();
        for id in subgraph.ids() {
            let node = subgraph.node(id);
            let text = match node.op.name {
                "Relu" => "%y = Abs(%x)",
                "Neg" => "const %shape: i64[2] = [7, 11]\n%y = Reshape(%x, %shape)",
                "Slice" => {
                    views.deleted.push(id);
                    continue;
                }
                _ => {
                    views.untouched.push(id);
                    continue;
                }
            };
            let text = format!("graph \"r\" (%x: f32[7, 11]) -> (%y) {{\n{text}\n}}");
            let mut replacement: Graph = text.parse().unwrap();
            replacement.infer_types().unwrap();
            views.substitutions.push(Substitution {
                nodes: vec![id],
                inputs: node.inputs.iter().flatten().take(1).copied().collect(),
                outputs: node.outputs.iter().flatten().copied().collect(),
                replacement,
            });
        }
        Ok(views)
    }
}

#[test]
fn optimisations_of_backends_that_hold_for_the_examples_alone_are_undone() {
    let text = "graph \"g\" (%x: f32[7, 11]) -> (%y) {
        const %zero: i64[1] = [0]
        const %limit: i64[1] = [300]
        const %one: i64[1] = [1]
        %a = Relu(%x)
        %b = Neg(%a) @negate
        %c = Slice(%b, %zero, %limit, %one) @limit
        %y = Relu(%c)
    }";
    let mut registry = registry();
    registry.register(Arc::new(Substitutes)).unwrap();
    let mut options = Options::new(&registry);
    options.backends = ["Substitutes", "CpuRef"].map(BackendId::new).to_vec();
    let operators = |compiled: &Compiled| {
        let nodes = compiled.graph.nodes.iter();
        nodes.map(|node| node.op.name).collect::<Vec<_>>().join(" ")
    };
    let compiled = compile(graph(text), &options).unwrap();
    assert_eq!(operators(&compiled), "Abs Neg Slice Abs");
    let output = &compiled.contents.tenon.outputs[0];
    assert_eq!(output.shape.to_string(), "[batch, min(300, seq)]");
    let notes = compiled.placement.report().notes;
    let starts = [
        "an optimisation of 'negate' by Substitutes holds for the example sizes alone: ",
        "an optimisation of 'limit' by Substitutes holds for the example sizes alone: ",
    ];
    assert_eq!(notes.len(), starts.len(), "{notes:?}");
    for (note, start) in notes.iter().zip(starts) {
        assert!(note.starts_with(start), "{note}");
        assert!(note.contains("seq = "), "{note}");
    }
    // Of fixed sizes they hold.
    let compiled = compile(text.parse().unwrap(), &options).unwrap();
    assert_eq!(operators(&compiled), "Abs Reshape Abs");
    assert!(compiled.placement.report().notes.is_empty());
}

/// CpuRef for Relu and Neg, which notes the ranges of queries and the subgraphs that it optimises.
struct Recorder {
    takes_ranges: bool,
    /// The greatest extent of a dimension with several sizes that it supports.
    most: u64,
    ranges: Mutex<Vec<NodeRanges>>,
    optimised: AtomicUsize,
}

impl Backend for Recorder {
    fn id(&self) -> BackendId {
        BackendId::new("Recorder")
    }

    fn description(&self) -> String {
        "notes ranges".into()
    }

    fn capabilities(&self) -> Vec<Capability> {
        let value = PropertyValue::Bool(self.takes_ranges);
        vec![Capability::new(DYNAMIC_SHAPES, value)]
    }

    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal> {
        if !["Relu", "Neg"].contains(&node.op.name) {
            return Err(Reason::UnknownOperator.into());
        }
        if let Some(ranges) = node.ranges {
            self.ranges.lock().unwrap().push(ranges.clone());
            let inputs = ranges.inputs.iter().flatten();
            let greatest = inputs.flat_map(|input| &input.extents).map(|it| it.max);
            if let Some(found) = greatest.max().filter(|&max| max > self.most) {
                let text = format!("sizes up to {found} are not supported");
                return Err(Reason::Other { text }.into());
            }
        }
        CpuRef.supports(node)
    }

    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> tenon_base::Result<WorkloadPlan> {
        self.ranges.lock().unwrap().extend(spec.ranges.clone());
        CpuRef.plan(spec, cpu)
    }

    fn workload(&self, spec: &WorkloadSpec) -> tenon_base::Result<Box<dyn Workload>> {
        CpuRef.workload(spec)
    }

    fn optimiser(&self) -> Option<&dyn Optimiser> {
        Some(self)
    }
}

impl Optimiser for Recorder {
    fn optimise(&self, subgraph: &Graph) -> tenon_base::Result<OptimisationViews> {
        self.optimised.fetch_add(1, Ordering::Relaxed);
        Ok(OptimisationViews::untouched(subgraph))
    }
}

/// The backend after compiling Relu(x) for x of `batch` rows and `seq` columns, and the placement report.
fn recorded(takes_ranges: bool, most: u64) -> (Arc<Recorder>, String) {
    let recorder = Arc::new(Recorder {
        takes_ranges,
        most,
        ranges: Mutex::default(),
        optimised: AtomicUsize::new(0),
    });
    let mut registry = registry();
    registry.register(recorder.clone()).unwrap();
    let mut options = Options::new(&registry);
    options.backends = ["Recorder", "CpuRef"].map(BackendId::new).to_vec();
    let graph = graph("graph \"g\" (%x: f32[7, 11]) -> (%y) {\n%y = Relu(%x)\n}");
    let compiled = compile(graph, &options).unwrap();
    let report = format!("{:?}", compiled.placement.nodes);
    (recorder, report)
}

#[test]
fn backends_with_dynamic_shapes_see_ranges() {
    let (recorder, report) = recorded(true, 4096);
    let ranges = recorder.ranges.lock().unwrap();
    let range = |min, max| ExtentRange { min, max };
    let operand = Some(OperandRanges {
        extents: vec![range(1, 64), range(1, 2048)],
        elements_vary: false,
    });
    let expected = NodeRanges {
        inputs: vec![operand.clone()],
        outputs: vec![operand],
    };
    // At least one query, and the plan.
    assert!(ranges.len() >= 2, "{ranges:?}");
    assert!(ranges.iter().all(|found| *found == expected), "{ranges:?}");
    assert!(recorder.optimised.load(Ordering::Relaxed) > 0);
    assert!(report.contains("Backend(") && report.contains("Recorder"));
}

#[test]
fn a_refusal_of_ranges_is_in_the_placement_report() {
    let (_, report) = recorded(true, 1000);
    assert!(
        report.contains("sizes up to 2048 are not supported"),
        "{report}"
    );
}

#[test]
fn backends_without_dynamic_shapes_see_the_example() {
    let (recorder, report) = recorded(false, 0);
    assert_eq!(*recorder.ranges.lock().unwrap(), []);
    // It would optimise for the example alone.
    assert_eq!(recorder.optimised.load(Ordering::Relaxed), 0);
    assert!(!report.contains("refusals: [N"), "{report}");
}
