//! The suites on the built-in backends and on backends of libraries.

use super::*;

/// Runs a suite on every built-in backend: no case fails, and the page has the results.
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
        "docs/conformance.md differs from the results; if these are right, run `cargo xtask conformance \
         --write` with both suites and commit it:\n{section}"
    );
}

/// The cases of Arm NN, if `TENON_EXTRA_DATA` is set.
fn arm_nn() -> Option<Suite> {
    let Some(folder) = std::env::var_os("TENON_EXTRA_DATA").map(PathBuf::from) else {
        println!("skipped: TENON_EXTRA_DATA is not set");
        return None;
    };
    Some(armnn::suite(&folder.join("armnn-cases/cases.jsonl.gz")).unwrap())
}

/// The node tests of ONNX, if `TENON_PYTHON` is set: a script generates them.
fn onnx() -> Option<Suite> {
    let python = PathBuf::from(tenon_test_data::interpreter()?);
    Some(onnx_node::suite(&python).unwrap())
}

#[test]
fn the_page_has_the_results_of_arm_nn() {
    arm_nn().iter().for_each(check);
}

#[test]
fn the_page_has_the_results_of_onnx() {
    onnx().iter().for_each(check);
}

/// The registry of a folder with the example libraries: `CpuRef`, which replaces the built-in
/// one, the examples in Rust and in C, and the asynchronous device.
fn libraries() -> Registry {
    let folder = tempfile::tempdir().unwrap();
    tenon_test_libraries::cpu_ref(folder.path(), "Tenon_CpuRef_backend.so");
    tenon_test_libraries::example_in_rust(folder.path(), "Example_Rust_backend.so");
    tenon_test_libraries::example_in_c(folder.path(), "Example_C_backend.so");
    tenon_test_libraries::example_async(folder.path(), "Example_SimAsync_backend.so");
    let registry = backends(Some(folder.path())).unwrap();
    let names = "ExampleC, ExampleRust, SimAsync, CpuRef, CpuAcc";
    assert_eq!(registry.names(), names);
    registry
}

/// The results of the cases, in order.
fn verdicts(report: &Report) -> Vec<serde_json::Value> {
    let rows = report.rows.iter();
    rows.map(|row| serde_json::to_value(row).unwrap()).collect()
}

/// Runs a suite on the backends of the libraries: the library `CpuRef` has the same results as the
/// built-in one, case by case; the others have no failures and compute some nodes.
fn check_libraries(suite: &Suite) {
    let loaded = libraries();
    let on = |registry: &Registry, id: &'static str| {
        suite.run(&Runner::new(registry, BackendId::new(id)), "")
    };
    let (from_library, built_in) = (
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
    assert!(from_library.passed() > 0);
    assert_eq!(verdicts(&from_library), verdicts(&built_in));
    for id in ["ExampleC", "ExampleRust", "SimAsync"] {
        let report = on(&loaded, id);
        assert_eq!(report.failed(), 0, "{report}");
        assert_eq!(report.passed(), built_in.passed(), "{report}");
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
