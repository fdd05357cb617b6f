//! Tensors that pass between two loaded libraries, each with separate memory.

use std::path::Path;
use tenon::backends::{BackendSetup, Runtime};
use tenon::neff::Package;
use tenon::{BackendId, LoadOptions, Model, RunOptions, Tensor};
use tenon_backend::CrossingKind;
use tenon_base::Control;
use tenon_compiler::{Options, Placement, compile};
use tenon_graph::Graph;
use tenon_neff::{Limits, WriteOptions};

/// The bits of `TENON_MEMORY_*`.
const MALLOC: u32 = 1;
const DMA_BUF: u32 = 2;

/// The name of a library's memory, its imports and exports, and further definitions.
struct Memory<'a>(&'a str, u32, u32, &'a [&'a str]);

/// Builds the backend of an operator, such as `OwnNeg`.
fn library(folder: &Path, op: &str, result: &str, memory: &Memory<'_>) {
    let Memory(heap, imports, exports, more) = memory;
    let definitions = [
        format!("OP=\"{op}\""),
        format!("RESULT={result}"),
        format!("HEAP=\"{heap}\""),
        format!("IMPORTS={imports}"),
        format!("EXPORTS={exports}"),
    ];
    let mut all: Vec<&str> = definitions.iter().map(String::as_str).collect();
    all.extend(*more);
    let source = tenon_test_libraries::repository("crates/frontends/tenon/tests/data/heap.c");
    let library = folder.join(format!("Own_{op}_backend.so"));
    tenon_test_libraries::compiled(&source, &library, &all);
}

/// x -> Neg -> n -> Abs -> a -> Neg -> y
const BOTH: &str = "graph \"both\" (%x: f32[2, 3]) -> (%y) {
    %n = Neg(%x)
    %a = Abs(%n)
    %y = Neg(%a)
}";

/// x -> Neg -> n -> Exp, which only `CpuRef` supports -> y
const WITH_REFERENCE: &str = "graph \"one\" (%x: f32[2, 3]) -> (%y) {
    %n = Neg(%x)
    %y = Exp(%n)
}";

/// A model on the libraries of a folder.
fn model(folder: &Path, graph: &str) -> (Model, Placement) {
    let setup = BackendSetup::new().folder(folder.to_owned());
    let found = setup.load().unwrap();
    assert!(found.skipped.is_empty(), "{:?}", found.skipped);
    let (runtime, refused): (Runtime, _) = setup.start_runtime(found.registry);
    assert!(refused.is_empty(), "{refused:?}");
    let mut graph: Graph = graph.parse().unwrap();
    graph.infer_types().unwrap();
    let mut options = Options::new(runtime.backends());
    let ids = ["OwnNeg", "OwnAbs", "CpuRef"].map(BackendId::new);
    let there = |id: &BackendId| runtime.backends().find(id).is_some();
    options.backends = ids.into_iter().filter(there).collect();
    let compiled = compile(graph, &options).unwrap();
    let bytes = compiled
        .contents
        .to_bytes(WriteOptions::default(), &Control::new());
    let package =
        Package::from_buffer(bytes.unwrap(), &Limits::default(), &Control::new()).unwrap();
    let model =
        Model::from_package(&package, &LoadOptions::new().runtime(runtime.clone())).unwrap();
    (model, compiled.placement)
}

/// Executes twice; returns the last outputs, and the copies and imports of each library.
fn execute(model: &Model) -> (Vec<f32>, Vec<(String, u64, u64)>) {
    let x = Tensor::from_slice([2, 3], &[1.5f32, -2.0, 0.0, 4.0, -0.25, 3.0]).unwrap();
    let (mut outputs, mut profile) = (Vec::new(), model.profile());
    for _ in 0..2 {
        profile = model.profile();
        let options = RunOptions::new().profile(&mut profile);
        let all = model.run_with(&[("x", &x)], options).unwrap();
        outputs = all.into_tensors();
    }
    let pairs = profile.counters.chunks(2).map(|pair| {
        assert_eq!((&*pair[0].name, &*pair[1].name), ("copies", "imports"));
        (pair[0].backend.clone(), pair[0].change, pair[1].change)
    });
    (outputs[0].as_slice().unwrap().to_vec(), pairs.collect())
}

/// The transfer of each value, in order.
fn ways(placement: &Placement) -> Vec<(&str, &str, CrossingKind)> {
    let all = placement.crossings.iter();
    all.map(|crossing| {
        (
            crossing.value.as_str(),
            crossing.consumer.as_str(),
            crossing.kind,
        )
    })
    .collect()
}

fn counted(neg: (u64, u64), abs: (u64, u64)) -> Vec<(String, u64, u64)> {
    vec![
        ("OwnAbs".into(), abs.0, abs.1),
        ("OwnNeg".into(), neg.0, neg.1),
    ]
}

const NEGATED: [f32; 6] = [-1.5, -2.0, -0.0, -4.0, -0.25, -3.0];

/// `BOTH` on two libraries with these memories.
fn both(neg: &Memory<'_>, abs: &Memory<'_>) -> (Model, Placement) {
    let folder = tempfile::tempdir().unwrap();
    library(folder.path(), "Neg", "-x", neg);
    library(folder.path(), "Abs", "fabsf(x)", abs);
    model(folder.path(), BOTH)
}

/// `WITH_REFERENCE` on a library with this memory.
fn with_reference(neg: &Memory<'_>) -> (Model, Placement) {
    let folder = tempfile::tempdir().unwrap();
    library(folder.path(), "Neg", "-x", neg);
    model(folder.path(), WITH_REFERENCE)
}

#[test]
fn exports_of_one_library_are_imported_by_the_other() {
    let (model, placement) = both(
        &Memory("NegHeap", DMA_BUF, DMA_BUF, &[]),
        &Memory("AbsHeap", DMA_BUF, DMA_BUF, &[]),
    );
    let expected = [
        ("n", "OwnAbs", CrossingKind::Import),
        ("a", "OwnNeg", CrossingKind::Import),
    ];
    assert_eq!(ways(&placement), expected);
    // x goes in and y comes out; the tensors between were imported in the first execution.
    let (y, counts) = execute(&model);
    assert_eq!(y, NEGATED);
    assert_eq!(counts, counted((2, 0), (0, 0)));
}

#[test]
fn memory_of_one_name_is_shared() {
    let memory = Memory("OneHeap", 0, 0, &[]);
    let (model, placement) = both(&memory, &memory);
    let expected = [
        ("n", "OwnAbs", CrossingKind::Shared),
        ("a", "OwnNeg", CrossingKind::Shared),
    ];
    assert_eq!(ways(&placement), expected);
    let (y, counts) = execute(&model);
    assert_eq!(y, NEGATED);
    assert_eq!(counts, counted((2, 0), (0, 0)));
}

#[test]
fn memory_of_no_kind_in_common_is_copied() {
    let (model, placement) = both(
        &Memory("OneHeap", 0, 0, &[]),
        &Memory("Another", DMA_BUF, 0, &[]),
    );
    let expected = [
        ("n", "OwnAbs", CrossingKind::Copy),
        ("a", "OwnNeg", CrossingKind::Copy),
    ];
    assert_eq!(ways(&placement), expected);
    // n is copied out of one library and into the other, a in the other direction.
    let (y, counts) = execute(&model);
    assert_eq!(y, NEGATED);
    assert_eq!(counts, counted((4, 0), (2, 0)));
}

#[test]
fn exported_plain_memory_is_not_copied() {
    for (exports, way, copies) in [
        (0, CrossingKind::Copy, 2),
        (MALLOC, CrossingKind::Shared, 1),
    ] {
        let (model, placement) = with_reference(&Memory("NegHeap", 0, exports, &[]));
        assert_eq!(ways(&placement), [("n", "CpuRef", way)]);
        let (y, counts) = execute(&model);
        assert_eq!(y[1], 2f32.exp());
        assert_eq!(counts, [("OwnNeg".to_owned(), copies, 0)]);
    }
}

/// A library that also imports plain memory imports tensors of the other library, not of the arena.
#[test]
fn a_tensor_that_is_exported_is_preferred_to_plain_memory() {
    let (model, placement) = both(
        &Memory("NegHeap", 0, MALLOC, &[]),
        &Memory("AbsHeap", MALLOC, MALLOC, &[]),
    );
    let expected = [
        ("n", "OwnAbs", CrossingKind::Import),
        ("a", "OwnNeg", CrossingKind::Copy),
    ];
    assert_eq!(ways(&placement), expected);
    let (y, counts) = execute(&model);
    assert_eq!(y, NEGATED);
    // x and a go into one, y comes out; the other copies nothing.
    assert_eq!(counts, counted((3, 0), (0, 0)));
}

/// The first reachable kind of memory is used.
#[test]
fn unreachable_memory_is_skipped() {
    let (model, placement) = with_reference(&Memory("NegHeap", 0, MALLOC, &["DARK_FIRST"]));
    assert_eq!(ways(&placement), [("n", "CpuRef", CrossingKind::Shared)]);
    assert_eq!(execute(&model).0[1], 2f32.exp());
}
