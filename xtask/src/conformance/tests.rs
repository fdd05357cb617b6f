//! The suites, on the backends that are built in and on those of libraries.

use super::*;

/// A suite on every built-in backend: no case fails, and the page says what passes.
fn check(suite: &Suite) {
    let registry = tenon_builtin::registry();
    let mut reports = Vec::new();
    for backend in chosen(&registry, None).unwrap() {
        let report = suite.run(&Runner::new(&registry, backend), "");
        assert_eq!(report.failed(), 0, "{report}");
        reports.push(report);
    }
    let section = page::section(suite, &reports);
    let page = std::fs::read_to_string(page::path()).unwrap();
    assert!(
        page.contains(&section),
        "docs/conformance.md says otherwise; if it is right, run `cargo xtask conformance --write` \
         with both suites and commit it:\n{section}"
    );
}

/// The cases of Arm NN, where they are there.
fn arm_nn() -> Option<Suite> {
    let Some(folder) = std::env::var_os("TENON_EXTRA_DATA").map(PathBuf::from) else {
        println!("skipped: TENON_EXTRA_DATA is not set");
        return None;
    };
    Some(armnn::suite(&folder.join("armnn-cases/cases.jsonl.gz")).unwrap())
}

/// The node tests of ONNX, where there is a Python that makes them.
fn onnx() -> Option<Suite> {
    let Some(python) = std::env::var_os("TENON_PYTHON").map(PathBuf::from) else {
        println!("skipped: TENON_PYTHON is not set");
        return None;
    };
    Some(onnx_node::suite(&python).unwrap())
}

#[test]
fn the_page_tells_of_arm_nn() {
    arm_nn().iter().for_each(check);
}

#[test]
fn the_page_tells_of_onnx() {
    onnx().iter().for_each(check);
}

/// The registry of a folder with the three example libraries: `CpuRef` as one, which takes the
/// place of the built-in one, the example in Rust and the one in C.
fn libraries() -> Registry {
    let folder = tempfile::tempdir().unwrap();
    tenon_test_libraries::cpu_ref(folder.path(), "Tenon_CpuRef_backend.so");
    tenon_test_libraries::example_in_rust(folder.path(), "Example_Rust_backend.so");
    tenon_test_libraries::example_in_c(folder.path(), "Example_C_backend.so");
    let registry = backends(Some(folder.path())).unwrap();
    assert_eq!(registry.names(), "ExampleC, ExampleRust, CpuRef, CpuAcc");
    registry
}

/// What came of each case, in order.
fn verdicts(report: &Report) -> Vec<serde_json::Value> {
    let rows = report.rows.iter();
    rows.map(|row| serde_json::to_value(row).unwrap()).collect()
}

/// A suite on the backends of the libraries: `CpuRef` as one does what it does built in, case by
/// case; the others fail nothing and compute something themselves.
fn check_libraries(suite: &Suite) {
    let loaded = libraries();
    let on = |registry: &Registry, id: &'static str| {
        suite.run(&Runner::new(registry, BackendId::new(id)), "")
    };
    let (there, here) = (
        on(&loaded, "CpuRef"),
        on(&tenon_builtin::registry(), "CpuRef"),
    );
    assert!(
        loaded
            .find(&BackendId::new("CpuRef"))
            .unwrap()
            .library()
            .is_some()
    );
    assert!(there.passed() > 0);
    assert_eq!(verdicts(&there), verdicts(&here));
    for id in ["ExampleC", "ExampleRust"] {
        let report = on(&loaded, id);
        assert_eq!(report.failed(), 0, "{report}");
        assert_eq!(report.passed(), here.passed(), "{report}");
        let (all, some) = report.shares();
        assert!(all + some > 0, "{report}");
    }
}

#[test]
fn arm_nn_on_backends_of_libraries() {
    arm_nn().iter().for_each(check_libraries);
}

#[test]
fn onnx_on_backends_of_libraries() {
    onnx().iter().for_each(check_libraries);
}
