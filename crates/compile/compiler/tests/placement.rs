//! Placement: preference, hints, wider types, subgraphs and their optimisation, and the report.

mod common;

use common::{TEST_BACKEND, TestBackend, with_test_backend as registry};
use std::sync::Arc;
use tenon_backend::{BackendId, FailedPart, OptimisationViews, Reason, Registry, Substitution};
use tenon_compiler::{Compiled, Hint, Options, Target, compile};
use tenon_graph::{DataType, Graph, NodeId, Tensor};
use tenon_tensor::convert;

fn options<'a>(
    registry: &'a Registry,
    backends: &[&'static str],
    hints: &[(&str, &'static str)],
) -> Options<'a> {
    let mut options = Options::new(registry);
    options.backends = backends.iter().map(|id| BackendId::new(id)).collect();
    let hint = |(pattern, id): &(&str, &'static str)| Hint {
        pattern: (*pattern).into(),
        backend: BackendId::new(id),
    };
    options.hints = hints.iter().map(hint).collect();
    options
}

fn parsed(text: &str) -> Graph {
    text.parse().unwrap()
}

/// Four operators in a row.
fn chain() -> Graph {
    parsed(
        "graph \"g\" (%x: f32[8]) -> (%d: f32[8]) {
        %a: f32[8] = Exp(%x) @first
        %b: f32[8] = Relu(%a) @second
        %c: f32[8] = Exp(%b) @third
        %d: f32[8] = Neg(%c) @fourth
    }",
    )
}

fn targets(compiled: &Compiled) -> Vec<(&str, String)> {
    let nodes = compiled.placement.nodes.iter();
    nodes
        .map(|node| (node.operator, node.target.to_string()))
        .collect()
}

fn check(graph: &Graph, compiled: &Compiled, registry: &Registry) {
    let inputs = common::inputs(graph, 3);
    let expected = common::run(graph, &inputs);
    let found = common::execute(compiled, registry, &inputs);
    common::assert_close(&expected, &found, 1e-5, &graph.name);
}

#[test]
fn hints_come_first_and_crossings_are_counted() {
    let registry = registry(TEST_BACKEND);
    let options = options(
        &registry,
        &["CpuRef"],
        &[("sec*", "TestBackend"), ("*", "CpuRef")],
    );
    let compiled = compile(chain(), &options).unwrap();
    check(&chain(), &compiled, &registry);
    let report = compiled.placement.report();
    let backends: Vec<&str> = report.nodes.iter().map(|node| &*node.backend).collect();
    assert_eq!(backends, ["CpuRef", "TestBackend", "CpuRef", "CpuRef"]);
    let hints: Vec<_> = report
        .nodes
        .iter()
        .map(|node| node.hint.as_deref())
        .collect();
    assert_eq!(hints, [Some("*"), Some("sec*"), Some("*"), Some("*")]);
    let subgraphs: Vec<_> = report.nodes.iter().map(|node| node.subgraph).collect();
    assert_eq!(subgraphs, [Some(0), Some(1), Some(2), Some(2)]);
    assert_eq!(
        report.to_string(),
        "4 ops: 3 CpuRef, 1 TestBackend; 2 crossings, 64 B"
    );
    assert_eq!(compiled.contents.tenon.placement, report);
}

#[test]
fn a_refused_hint_is_reported_and_the_next_backend_is_queried() {
    let registry = registry(TestBackend {
        refuses: |node| (node.op.name == "Relu").then_some(Reason::UnknownOperator),
        ..TEST_BACKEND
    });
    let options = options(&registry, &["CpuRef"], &[("*", "TestBackend")]);
    let compiled = compile(chain(), &options).unwrap();
    let report = compiled.placement.report();
    let node = &report.nodes[1];
    assert_eq!((node.backend.as_str(), &node.hint), ("CpuRef", &None));
    let refusal = &node.refusals[0];
    assert_eq!(
        (
            refusal.backend.as_str(),
            refusal.cause.as_str(),
            refusal.reason.as_str()
        ),
        ("TestBackend", "hint *", "unknown-operator")
    );
    assert_eq!(
        report.to_string(),
        "4 ops: 1 CpuRef, 3 TestBackend; 2 crossings, 64 B"
    );
}

#[test]
fn hints_that_match_no_node_are_errors() {
    let registry = registry(TEST_BACKEND);
    let with = |hints: &[(&str, &'static str)]| {
        let options = options(&registry, &["CpuRef"], hints);
        compile(chain(), &options).unwrap_err().to_string()
    };
    let text = with(&[("frst", "TestBackend"), ("*", "TestBackend")]);
    assert!(text.contains("no node is called like 'frst'"), "{text}");
    let text = with(&[("*", "Npu"), ("x", "Gpu")]);
    assert!(text.contains("Npu") && text.contains("Gpu"), "{text}");
}

#[test]
fn a_node_is_converted_where_the_backend_lacks_only_its_type() {
    let registry = registry(TestBackend {
        refuses: |node| {
            let mut types = node.inputs.iter().enumerate();
            let narrow = types.find_map(|(input, ty)| {
                let found = (*ty)?.dtype();
                (found == DataType::F16).then_some(Reason::InputType { input, found })
            });
            // This backend lacks more than the type.
            let never = (node.op.name == "Abs").then_some(Reason::UnknownOperator);
            narrow.or(never)
        },
        ..TEST_BACKEND
    });
    let graph = parsed(
        "graph \"g\" (%x: f16[8], %w: f16[8]) -> (%d: f16[8]) {
        const %k: f16[8] = hex \"00380038003800380038003800380038\"
        %a: f16[8] = Mul(%x, %w) @mul
        %b: f16[8] = Add(%a, %x) @add
        %c: f16[8] = Mul(%b, %k) @scale
        %d: f16[8] = Abs(%c) @abs
    }",
    );
    let options = options(&registry, &["TestBackend", "CpuRef"], &[]);
    let compiled = compile(graph.clone(), &options).unwrap();
    let tensors: Vec<Tensor> = [3u64, 4]
        .iter()
        .map(|&seed| {
            let ty = tenon_graph::TensorType::new(DataType::F32, [8]).unwrap();
            convert(&common::noise(&ty, seed), DataType::F16).unwrap()
        })
        .collect();
    // Rounded to f16 between nodes, as in the model: bit-identical.
    let expected = common::run(&graph, &tensors);
    assert_eq!(common::execute(&compiled, &registry, &tensors), expected);
    let report = compiled.placement.report();
    let of = |name: &str| report.nodes.iter().find(|node| node.node == name).unwrap();
    for name in ["mul", "add", "scale"] {
        let converted = of(name).converted.as_ref().unwrap();
        assert_eq!(
            (converted.from.as_str(), converted.to.as_str()),
            ("f16", "f32")
        );
        assert_eq!(of(name).backend, "TestBackend");
        let refusal = &of(name).refusals[0];
        assert_eq!(refusal.reason, "input-type");
        assert_eq!(refusal.arguments["found"], "f16");
    }
    assert_eq!(
        (of("abs").backend.as_str(), &of("abs").converted),
        ("CpuRef", &None)
    );
    // Casts of x, w, a, b before and of a, b, c after: x is cast once for both of its users, the
    // constant at compile time.
    let casts = report.nodes.iter().filter(|node| node.operator == "Cast");
    assert_eq!(casts.count(), 7, "{report:?}");
}

/// Substitutes Relu by Max with a constant, and rejects Neg.
fn optimisation_of(subgraph: &Graph) -> OptimisationViews {
    let mut views = OptimisationViews::default();
    for id in subgraph.ids() {
        let node = subgraph.node(id);
        match node.op.name {
            "Relu" => views.substitutions.push(Substitution {
                nodes: vec![id],
                inputs: vec![node.inputs[0].unwrap()],
                outputs: vec![node.outputs[0].unwrap()],
                replacement: parsed(
                    "graph \"r\" (%x: f32[8]) -> (%y: f32[8]) {
                    const %z: f32[8] = fill 0.0
                    %y: f32[8] = Max(%x, %z) @better
                }",
                ),
            }),
            "Neg" => views.failed.push(FailedPart::new(vec![id], "too deep")),
            _ => views.untouched.push(id),
        }
    }
    views
}

#[test]
fn only_rejected_parts_are_placed_again() {
    let registry = registry(TestBackend {
        optimises: optimisation_of,
        ..TEST_BACKEND
    });
    let options = options(&registry, &["TestBackend", "CpuRef"], &[]);
    let compiled = compile(chain(), &options).unwrap();
    let expected = [
        ("Exp", "TestBackend"),
        ("Max", "TestBackend"),
        ("Exp", "TestBackend"),
        ("Neg", "CpuRef"),
    ];
    let expected = expected.map(|(operator, backend)| (operator, backend.to_owned()));
    assert_eq!(targets(&compiled), expected);
    check(&chain(), &compiled, &registry);
    let report = compiled.placement.report();
    let refusal = &report.nodes[3].refusals[0];
    assert_eq!(
        (
            refusal.backend.as_str(),
            refusal.cause.as_str(),
            refusal.text.as_str()
        ),
        ("TestBackend", "optimisation", "too deep")
    );
    assert_eq!(
        report.to_string(),
        "4 ops: 3 TestBackend, 1 CpuRef (Neg: too deep); 1 crossing, 32 B"
    );
}

#[test]
fn each_subgraph_is_optimised_separately() {
    let registry = registry(TestBackend {
        optimises: optimisation_of,
        ..TEST_BACKEND
    });
    // The third node is on another backend: the first two are a subgraph, the fourth another, which
    // is rejected.
    let options = options(
        &registry,
        &["TestBackend", "CpuRef"],
        &[("third", "CpuRef")],
    );
    let compiled = compile(chain(), &options).unwrap();
    let backends: Vec<String> = targets(&compiled)
        .into_iter()
        .map(|(_, target)| target)
        .collect();
    assert_eq!(backends, ["TestBackend", "TestBackend", "CpuRef", "CpuRef"]);
    check(&chain(), &compiled, &registry);
}

#[test]
fn rejected_parts_that_no_backend_supports_are_an_error() {
    let registry = registry(TestBackend {
        optimises: optimisation_of,
        ..TEST_BACKEND
    });
    let error = compile(chain(), &options(&registry, &["TestBackend"], &[]))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("'fourth'") && error.contains("no backend takes Neg"),
        "{error}"
    );
}

#[test]
fn invalid_optimisations_are_errors() {
    for optimises in [
        (|_: &Graph| OptimisationViews::default()) as fn(&Graph) -> OptimisationViews,
        |subgraph| {
            let mut views = OptimisationViews::untouched(subgraph);
            views.untouched.push(NodeId(0));
            views
        },
    ] {
        let registry = registry(TestBackend {
            optimises,
            ..TEST_BACKEND
        });
        let options = options(&registry, &["TestBackend"], &[]);
        let error = compile(chain(), &options).unwrap_err().to_string();
        assert!(
            error.contains("'first'")
                && error.contains("backend TestBackend returned an invalid optimisation"),
            "{error}"
        );
    }
}

#[test]
fn data_movement_keeps_the_producers_of_its_inputs() {
    let graph = parsed(
        "graph \"g\" (%x: f32[8]) -> (%d: f32[16]) {
        %a: f32[8] = Exp(%x) @first
        %b: f32[8] = Neg(%a) @second
        %c: f32[16] = Concat(%a, %b) {axis = 0} @both
        %d: f32[16] = Exp(%c) @last
    }",
    );
    let registry = registry(TEST_BACKEND);
    let options = options(&registry, &["CpuRef"], &[("second", "TestBackend")]);
    let compiled = compile(graph.clone(), &options).unwrap();
    check(&graph, &compiled, &registry);
    assert_eq!(compiled.placement.nodes[2].target, Target::Dma);
    // `a` goes to TestBackend, `c` with the half of TestBackend to CpuRef.
    assert_eq!(compiled.placement.crossings.len(), 2);
    assert_eq!(compiled.placement.crossing_bytes(), 32 + 64);
}

/// A backend without its device on this machine.
struct UnavailableBackend;

impl tenon_backend::Backend for UnavailableBackend {
    fn id(&self) -> BackendId {
        BackendId::new("AcmeNpu")
    }

    fn description(&self) -> String {
        "a device that is not there".into()
    }

    fn supports(&self, _: &tenon_backend::NodeView<'_>) -> Result<(), tenon_backend::Refusal> {
        Ok(())
    }

    fn plan(
        &self,
        _: &tenon_backend::WorkloadSpec,
        _: tenon_backend::CpuLevel,
    ) -> tenon_base::Result<tenon_backend::WorkloadPlan> {
        Ok(tenon_backend::WorkloadPlan::default())
    }

    fn workload(
        &self,
        _: &tenon_backend::WorkloadSpec,
    ) -> tenon_base::Result<Box<dyn tenon_backend::Workload>> {
        unreachable!("it is never placed on")
    }

    fn lifecycle(&self) -> Option<&dyn tenon_backend::Lifecycle> {
        Some(self)
    }
}

impl tenon_backend::Lifecycle for UnavailableBackend {
    fn context(
        &self,
        _: &tenon_backend::CreationOptions,
    ) -> tenon_base::Result<Option<Box<dyn tenon_backend::BackendContext>>> {
        let text = "no device /dev/npu0";
        Err(tenon_base::Error::new(
            tenon_base::ErrorKind::Unsupported,
            text,
        ))
    }
}

#[test]
fn an_unavailable_backend_is_skipped() {
    let mut registry = registry(TEST_BACKEND);
    registry.register(Arc::new(UnavailableBackend)).unwrap();
    let (_, refused) = registry.start(&[], false);
    assert_eq!(refused.len(), 1);
    let all = options(
        &registry,
        &["AcmeNpu", "TestBackend"],
        &[("first", "AcmeNpu")],
    );
    let compiled = compile(chain(), &all).unwrap();
    assert_eq!(
        compiled
            .placement
            .count(&Target::Backend("TestBackend".to_owned().into())),
        4
    );
    let [(id, reason)] = &compiled.placement.unavailable[..] else {
        panic!("{:?}", compiled.placement.unavailable);
    };
    assert_eq!(id.as_str(), "AcmeNpu");
    assert!(reason.contains("no device /dev/npu0"), "{reason}");

    let error = compile(chain(), &options(&registry, &["AcmeNpu"], &[])).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("AcmeNpu: ") && text.contains("no device /dev/npu0"),
        "{text}"
    );

    let error = compile(chain(), &options(&registry, &["cpuacc", "Gpu"], &[])).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("did you mean CpuAcc?"), "{text}");
    assert!(text.contains("Gpu"), "{text}");
}
