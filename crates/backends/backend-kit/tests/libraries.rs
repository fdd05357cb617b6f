//! The kit on the example libraries, on defective ones, and on the built-in backends.

use std::path::Path;
use std::sync::Arc;
use tenon_backend::{Backend, Registry};
use tenon_backend_kit::{Outcome, Report, check_backend, check_library};
use tenon_test_libraries::{
    compiled, cpu_ref, device_in_c, example_async, example_in_c, example_in_rust,
    example_of_version, repository,
};

/// The library with one defect, selected by a macro.
const VARIANT: &str = "crates/backends/backend/tests/fixtures/variant.c";

fn check(report: &Report, name: &str) -> (Outcome, String) {
    let found = report.checks.iter().find(|check| check.name == name);
    let found = found.unwrap_or_else(|| panic!("no check '{name}':\n{report}"));
    (found.outcome, found.text.clone())
}

fn passes(report: &Report) {
    assert_eq!(report.count(Outcome::Failed), 0, "{report}");
}

/// CreateReferenceDynamicBackend (backends 8.1): `CpuRef` as a library.
#[test]
fn cpu_ref_as_a_library_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let path = cpu_ref(folder.path(), "Tenon_CpuRef_backend.so");
    let report = check_library(&path);
    passes(&report);
    assert_eq!(report.backend, "CpuRef");
    let (_, text) = check(&report, "support, and reasons of refusals");
    assert!(text.contains("Conv, Equal"), "{text}");
    assert_eq!(
        check(&report, "workloads outlive their backend").0,
        Outcome::Passed
    );
}

#[test]
fn the_example_in_rust_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let path = example_in_rust(folder.path(), "Example_Rust_backend.so.1.0");
    let report = check_library(&path);
    passes(&report);
    let (_, counters) = check(&report, "counters");
    assert!(counters.starts_with("executions ") && counters.contains(", models 0, "));
    assert_eq!(check(&report, "tensors pass").1, "to the backend by Copy");
    let memory = "ExampleHeap (imports none, exports Malloc)";
    assert_eq!(check(&report, "tensor memory").1, memory);
    for name in [
        "memory manager",
        "context",
        "context of another runtime",
        "context outlives its backend",
        "threads share a workload",
    ] {
        assert_eq!(check(&report, name).0, Outcome::Passed, "{name}");
    }
}

#[test]
fn the_example_in_c_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let path = example_in_c(folder.path(), "Example_Elementwise_backend.so");
    let report = check_library(&path);
    passes(&report);
    assert_eq!(
        check(&report, "an optimised subgraph"),
        (Outcome::Passed, "3 nodes became 1".into())
    );
    assert_eq!(check(&report, "options").1, "Scale");
    assert_eq!(check(&report, "its allocator").1, "Malloc memory");
    assert!(check(&report, "memory is freed").1.ends_with("all freed"));
}

/// Libraries built with older headers have smaller structs.
#[test]
fn libraries_of_published_versions_conform() {
    let folder = tempfile::tempdir().unwrap();
    for version in ["1.0", "1.1", "1.2"] {
        let name = format!("Example_Elementwise_backend.so.{version}");
        let report = check_library(&example_of_version(version, folder.path(), &name));
        passes(&report);
        let optimised = check(&report, "an optimised subgraph");
        assert_eq!(optimised, (Outcome::Passed, "3 nodes became 1".into()));
    }
}

#[test]
fn the_asynchronous_example_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let library = example_async(folder.path(), "Example_SimAsync_backend.so");
    let report = device_passes(&library, "SimDevice");
    assert_eq!(check(&report, "entries of the cache").0, Outcome::Passed);
}

#[test]
fn the_device_in_c_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let library = device_in_c(folder.path(), "Example_Device_backend.so");
    device_passes(&library, "ExampleDevice");
}

/// Checks a device with tensor memory of this name, and returns the report.
#[track_caller]
fn device_passes(library: &Path, memory: &str) -> Report {
    let report = check_library(library);
    passes(&report);
    let memory = format!("{memory} (imports Device, exports Device)");
    assert_eq!(check(&report, "tensor memory").1, memory);
    for name in [
        "commands of a stream",
        "events of streams",
        "tensors pass",
        "memory of the device in plans",
        "parts of workloads",
    ] {
        assert_eq!(check(&report, name).0, Outcome::Passed, "{name}");
    }
    report
}

#[test]
fn the_loader_registers_the_example_libraries() {
    let folder = tempfile::tempdir().unwrap();
    cpu_ref(folder.path(), "Tenon_CpuRef_backend.so");
    example_in_rust(folder.path(), "Example_Rust_backend.so");
    example_in_c(folder.path(), "Example_C_backend.so");
    let mut registry = Registry::new();
    let warnings = registry.load_backends(Some(folder.path()));
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(registry.names(), "ExampleC, ExampleRust, CpuRef");
}

#[test]
fn built_in_backends_conform() {
    let backends: [Arc<dyn Backend>; 2] = [
        Arc::new(tenon_cpu_ref::CpuRef),
        Arc::new(tenon_cpu_acc::CpuAcc::new()),
    ];
    for backend in backends {
        passes(&check_backend(&backend, || Some(backend.clone())));
    }
}

#[test]
fn defects_of_libraries_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.so");
    std::fs::write(&text, "text").unwrap();
    let report = check_library(&text);
    assert_eq!(check(&report, "exports and version").0, Outcome::Failed);
    for (definition, name) in [
        ("MINOR=9", "exports and version"),
        ("ID=\"Unknown\"", "id"),
        ("SIZE=9", "table"),
        ("BAD_VIEWS=0", "an optimised subgraph"),
        ("NULL_WORKLOAD", "results against CpuRef"),
        ("BAD_PLAN=0", "plans are deterministic"),
        ("BAD_PLAN=7", "memory of the device in plans"),
        ("BAD_PLAN=8", "memory of the device in plans"),
        ("ADDS_UP", "results with arbitrary memory contents"),
        ("WRONG_IN_PLACE", "results in place"),
        ("ONE_MODEL", "context"),
        ("INEXACT=0.05f", "results against CpuRef"),
        ("PART_TIME=(uint64_t)1<<50", "parts of workloads"),
    ] {
        let library = folder.path().join(format!("{name}.so"));
        let path = compiled(&repository(VARIANT), &library, &[definition]);
        let report = check_library(&path);
        assert_eq!(
            check(&report, name).0,
            Outcome::Failed,
            "{definition}:\n{report}"
        );
    }
}

/// A library whose results differ by 5 % of the largest element.
#[test]
fn results_are_right_within_the_tolerance_of_the_backend() {
    let folder = tempfile::tempdir().unwrap();
    for (tolerance, outcome) in [("0.06", Outcome::Passed), ("0.03", Outcome::Failed)] {
        let definitions = ["INEXACT=0.05f", &format!("TOLERANCE={tolerance}")];
        let library = folder.path().join(format!("{tolerance}.so"));
        let report = check_library(&compiled(&repository(VARIANT), &library, &definitions));
        let stated = format!("f32 {tolerance} relative, 0 absolute");
        assert_eq!(check(&report, "numeric tolerances").1, stated);
        let (found, text) = check(&report, "results against CpuRef");
        assert_eq!(found, outcome, "{text}");
        let is_named = text.contains(&format!("(stated tolerance: {stated})"));
        assert_eq!(is_named, outcome == Outcome::Failed, "{text}");
        assert_eq!(check(&report, "threads share a workload").0, outcome);
    }
}
