//! Who gets which node: preference, hints, types in between, subgraphs and what backends make of
//! them, and what the report says.

mod common;

use common::{OTHER, Other, with_other as registry};
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
    let registry = registry(OTHER);
    let options = options(
        &registry,
        &["CpuRef"],
        &[("sec*", "Other"), ("*", "CpuRef")],
    );
    let compiled = compile(chain(), &options).unwrap();
    check(&chain(), &compiled, &registry);
    let report = compiled.placement.report();
    let backends: Vec<&str> = report.nodes.iter().map(|node| &*node.backend).collect();
    assert_eq!(backends, ["CpuRef", "Other", "CpuRef", "CpuRef"]);
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
        "4 ops: 3 CpuRef, 1 Other; 2 crossings, 64 B"
    );
    assert_eq!(compiled.contents.tenon.placement, report);
}

#[test]
fn a_hint_that_is_refused_is_told_and_the_next_is_asked() {
    let registry = registry(Other {
        refuses: |node| (node.op.name == "Relu").then_some(Reason::UnknownOperator),
        ..OTHER
    });
    let options = options(&registry, &["CpuRef"], &[("*", "Other")]);
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
        ("Other", "hint *", "unknown-operator")
    );
    assert_eq!(
        report.to_string(),
        "4 ops: 1 CpuRef, 3 Other; 2 crossings, 64 B"
    );
}

#[test]
fn hints_that_are_of_nothing_are_mistakes() {
    let registry = registry(OTHER);
    let with = |hints: &[(&str, &'static str)]| {
        let options = options(&registry, &["CpuRef"], hints);
        compile(chain(), &options).unwrap_err().to_string()
    };
    let text = with(&[("frst", "Other"), ("*", "Other")]);
    assert!(text.contains("no node is called like 'frst'"), "{text}");
    let text = with(&[("*", "Npu"), ("x", "Gpu")]);
    assert!(text.contains("Npu") && text.contains("Gpu"), "{text}");
}

#[test]
fn where_only_the_type_is_missing_it_is_converted() {
    let registry = registry(Other {
        refuses: |node| {
            let mut types = node.inputs.iter().enumerate();
            let narrow = types.find_map(|(input, ty)| {
                let found = (*ty)?.dtype();
                (found == DataType::F16).then_some(Reason::InputType { input, found })
            });
            // A type is not all that is missing here.
            let never = (node.op.name == "Abs").then_some(Reason::UnknownOperator);
            narrow.or(never)
        },
        ..OTHER
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
    let options = options(&registry, &["Other", "CpuRef"], &[]);
    let compiled = compile(graph.clone(), &options).unwrap();
    let numbers: Vec<Tensor> = [3u64, 4]
        .iter()
        .map(|&seed| {
            let ty = tenon_graph::TensorType::new(DataType::F32, [8]).unwrap();
            convert(&common::noise(&ty, seed), DataType::F16).unwrap()
        })
        .collect();
    // Rounded to f16 between nodes, as the model says: equal to the bit.
    let expected = common::run(&graph, &numbers);
    assert_eq!(common::execute(&compiled, &registry, &numbers), expected);
    let report = compiled.placement.report();
    let of = |name: &str| report.nodes.iter().find(|node| node.node == name).unwrap();
    for name in ["mul", "add", "scale"] {
        let converted = of(name).converted.as_ref().unwrap();
        assert_eq!(
            (converted.from.as_str(), converted.to.as_str()),
            ("f16", "f32")
        );
        assert_eq!(of(name).backend, "Other");
        let refusal = &of(name).refusals[0];
        assert_eq!(refusal.reason, "input-type");
        assert_eq!(refusal.arguments["found"], "f16");
    }
    assert_eq!(
        (of("abs").backend.as_str(), &of("abs").converted),
        ("CpuRef", &None)
    );
    // x, w, a, b before and a, b, c behind: x is cast once for both of its users, the constant not
    // at all when it runs.
    let casts = report.nodes.iter().filter(|node| node.operator == "Cast");
    assert_eq!(casts.count(), 7, "{report:?}");
}

/// Relu becomes Max with a constant; Neg is not taken after all.
fn made_of(subgraph: &Graph) -> OptimisationViews {
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
fn only_the_parts_that_fail_are_placed_again() {
    let registry = registry(Other {
        optimises: made_of,
        ..OTHER
    });
    let options = options(&registry, &["Other", "CpuRef"], &[]);
    let compiled = compile(chain(), &options).unwrap();
    let expected = [
        ("Exp", "Other"),
        ("Max", "Other"),
        ("Exp", "Other"),
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
        ("Other", "optimisation", "too deep")
    );
    assert_eq!(
        report.to_string(),
        "4 ops: 3 Other, 1 CpuRef (Neg: too deep); 1 crossing, 32 B"
    );
}

#[test]
fn each_subgraph_is_optimised_by_itself() {
    let registry = registry(Other {
        optimises: made_of,
        ..OTHER
    });
    // The third runs elsewhere: the first two are a subgraph, the fourth another, which fails.
    let options = options(&registry, &["Other", "CpuRef"], &[("third", "CpuRef")]);
    let compiled = compile(chain(), &options).unwrap();
    let backends: Vec<String> = targets(&compiled)
        .into_iter()
        .map(|(_, target)| target)
        .collect();
    assert_eq!(backends, ["Other", "Other", "CpuRef", "CpuRef"]);
    check(&chain(), &compiled, &registry);
}

#[test]
fn parts_that_nobody_else_takes_are_an_error() {
    let registry = registry(Other {
        optimises: made_of,
        ..OTHER
    });
    let error = compile(chain(), &options(&registry, &["Other"], &[]))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("'fourth'") && error.contains("no backend takes Neg"),
        "{error}"
    );
}

#[test]
fn answers_that_do_not_add_up_are_refused() {
    for optimises in [
        (|_: &Graph| OptimisationViews::default()) as fn(&Graph) -> OptimisationViews,
        |subgraph| {
            let mut views = OptimisationViews::untouched(subgraph);
            views.untouched.push(NodeId(0));
            views
        },
    ] {
        let registry = registry(Other { optimises, ..OTHER });
        let options = options(&registry, &["Other"], &[]);
        let error = compile(chain(), &options).unwrap_err().to_string();
        assert!(
            error.contains("'first'") && error.contains("backend Other answers wrongly"),
            "{error}"
        );
    }
}

#[test]
fn movement_between_backends_passes_on_who_made_it() {
    let graph = parsed(
        "graph \"g\" (%x: f32[8]) -> (%d: f32[16]) {
        %a: f32[8] = Exp(%x) @first
        %b: f32[8] = Neg(%a) @second
        %c: f32[16] = Concat(%a, %b) {axis = 0} @both
        %d: f32[16] = Exp(%c) @last
    }",
    );
    let registry = registry(OTHER);
    let options = options(&registry, &["CpuRef"], &[("second", "Other")]);
    let compiled = compile(graph.clone(), &options).unwrap();
    check(&graph, &compiled, &registry);
    assert_eq!(compiled.placement.nodes[2].target, Target::Dma);
    // `a` goes to Other, `c` with Other's half to CpuRef.
    assert_eq!(compiled.placement.crossings.len(), 2);
    assert_eq!(compiled.placement.crossing_bytes(), 32 + 64);
}

/// A backend whose device is not on this machine.
struct Absent;

impl tenon_backend::Backend for Absent {
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
fn a_preferred_backend_that_is_unavailable_gives_way_to_the_next() {
    let mut registry = registry(OTHER);
    registry.register(Arc::new(Absent)).unwrap();
    let (_, refused) = registry.start(&[], false);
    assert_eq!(refused.len(), 1);
    let all = options(&registry, &["AcmeNpu", "Other"], &[("first", "AcmeNpu")]);
    let compiled = compile(chain(), &all).unwrap();
    assert_eq!(
        compiled
            .placement
            .count(&Target::Backend("Other".to_owned().into())),
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
