//! The kit on the three example libraries, on broken ones, and on the built-in backends.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tenon_backend::{Backend, Registry};
use tenon_backend_kit::{Outcome, Report, check_backend, check_library};

/// A library that the build put beside this test, under a backend's file name in `folder`.
fn built(folder: &Path, library: &str, name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let path = program.parent().unwrap().join(library);
    assert!(path.is_file(), "{} is not built", path.display());
    let link = folder.join(name);
    std::os::unix::fs::symlink(path, &link).unwrap();
    link
}

fn compiled(folder: &Path, source: &str, name: &str, definitions: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let library = folder.join(name);
    let done = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-shared", "-fPIC", "-I"])
        .arg(root.join("include"))
        .args(
            definitions
                .iter()
                .map(|definition| format!("-D{definition}")),
        )
        .arg(root.join(source))
        .arg("-o")
        .arg(&library)
        .status();
    assert!(done.expect("a C compiler called cc").success());
    library
}

const EXAMPLE_IN_C: &str = "examples/backend-c/example_backend.c";
const VARIANT: &str = "crates/backend/tests/fixtures/variant.c";

fn check(report: &Report, name: &str) -> (Outcome, String) {
    let found = report.checks.iter().find(|check| check.name == name);
    let found = found.unwrap_or_else(|| panic!("no check '{name}':\n{report}"));
    (found.outcome, found.text.clone())
}

fn passes(report: &Report) {
    assert_eq!(report.count(Outcome::Failed), 0, "{report}");
}

/// CreateReferenceDynamicBackend (facts, armnn.md 5): `CpuRef` as a library.
#[test]
fn cpu_ref_as_a_library_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let name = "Tenon_CpuRef_backend.so";
    let path = built(folder.path(), "libtenon_cpu_ref_backend.so", name);
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
    let name = "Example_Rust_backend.so.1.0";
    let path = built(folder.path(), "libtenon_example_backend.so", name);
    let report = check_library(&path);
    passes(&report);
    let (_, counters) = check(&report, "counters");
    assert!(counters.starts_with("executions ") && counters.ends_with(", models 0"));
    assert_eq!(check(&report, "tensors pass").1, "to it by Copy");
    let memory = "ExampleHeap (imports none, exports Malloc)";
    assert_eq!(check(&report, "tensor memory").1, memory);
    for name in ["memory manager", "context", "threads share a workload"] {
        assert_eq!(check(&report, name).0, Outcome::Passed, "{name}");
    }
}

#[test]
fn the_example_in_c_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let name = "Example_Elementwise_backend.so";
    let report = check_library(&compiled(folder.path(), EXAMPLE_IN_C, name, &[]));
    passes(&report);
    assert_eq!(
        check(&report, "an optimised subgraph"),
        (Outcome::Passed, "3 nodes became 1".into())
    );
    assert_eq!(check(&report, "options").1, "Scale");
    assert_eq!(check(&report, "its allocator").1, "Malloc memory");
    assert!(
        check(&report, "memory given back")
            .1
            .ends_with("all given back")
    );
}

#[test]
fn the_three_are_registered_by_the_loader() {
    let folder = tempfile::tempdir().unwrap();
    let one = "libtenon_cpu_ref_backend.so";
    built(folder.path(), one, "Tenon_CpuRef_backend.so");
    built(
        folder.path(),
        "libtenon_example_backend.so",
        "Example_Rust_backend.so",
    );
    compiled(folder.path(), EXAMPLE_IN_C, "Example_C_backend.so", &[]);
    let mut registry = Registry::new();
    let warnings = registry.load_backends(Some(folder.path()));
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(registry.names(), "ExampleC, ExampleRust, CpuRef");
}

#[test]
fn built_in_backends_conform_as_libraries_do() {
    let backends: [Arc<dyn Backend>; 2] = [
        Arc::new(tenon_cpu_ref::CpuRef),
        Arc::new(tenon_cpu_acc::CpuAcc::new()),
    ];
    for backend in backends {
        passes(&check_backend(&backend, || Some(backend.clone())));
    }
}

#[test]
fn what_is_wrong_with_a_library_is_told() {
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
        ("NULL_WORKLOAD", "results beside CpuRef"),
        ("BAD_PLAN=0", "plans are deterministic"),
    ] {
        let library = format!("{name}.so");
        let path = compiled(folder.path(), VARIANT, &library, &[definition]);
        let report = check_library(&path);
        assert_eq!(
            check(&report, name).0,
            Outcome::Failed,
            "{definition}:\n{report}"
        );
    }
}
