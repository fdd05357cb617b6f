//! Arm NN's cases of dynamic backends (backends 8.1), and libraries with one defect each.
//!
//! The names of Arm NN's tests are above the tests that cover them.

mod common;

use common::variant;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenon_backend::{
    Backend, BackendId, BackendLibrary, CACHE_BYTES, CpuLevel, InputSpec, LoadError,
    OptimisationViews, Refusal, Registry, Tolerance, UserCache, WorkloadSpec, discover, evaluate,
};
use tenon_base::{Control, ErrorKind};
use tenon_graph::{Attributes, Graph, operator::operator};
use tenon_tensor::{DataType, Tensor, TensorType};
use tenon_test_libraries::example_in_c;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// The error code of a library.
fn problem(path: &Path) -> &'static str {
    let opened = BackendLibrary::open(path).and_then(|library| library.backend());
    opened.map_or_else(|problem| problem.code(), |_| "none")
}

fn spec(op: &str, dtype: DataType) -> WorkloadSpec {
    let ty = TensorType::new(dtype, [2, 3]).unwrap();
    WorkloadSpec {
        op: operator(op).unwrap(),
        attributes: Attributes::new(),
        inputs: vec![Some(InputSpec {
            ty: ty.clone(),
            constant: None,
            prepared: None,
        })],
        outputs: vec![Some(ty)],
        ranges: None,
    }
}

/// The support query for a node with one input and output.
fn support(backend: &dyn Backend, op: &str, dtype: DataType) -> Result<(), Refusal> {
    let spec = spec(op, dtype);
    let ty = spec.outputs[0].as_ref();
    backend.supports(&tenon_backend::NodeView {
        op: spec.op,
        attributes: &spec.attributes,
        inputs: &[ty],
        constants: &[None],
        outputs: &[ty],
        ranges: None,
    })
}

fn negated(backend: &dyn Backend) -> Vec<f32> {
    let x = Tensor::from_slice([3], &[1.0f32, -2.0, 0.5]).unwrap();
    let neg = operator("Neg").unwrap();
    let outputs = evaluate(
        backend,
        neg,
        &Attributes::new(),
        &[Some(&x)],
        &[Some(x.ty().clone())],
    );
    let outputs = outputs.unwrap();
    let output = outputs[0].as_ref().unwrap();
    output.as_slice::<f32>().unwrap().to_vec()
}

/// OpenCloseHandle, CreateValidDynamicBackendObject, GetValidEntryPoint.
#[test]
fn a_valid_library_is_opened_used_and_closed() {
    let folder = folder();
    let path = variant(folder.path(), "Test_Valid_backend.so", &[]);
    let library = BackendLibrary::open(&path).unwrap();
    assert_eq!((library.id(), library.version()), ("Valid", (1, 3)));
    let backend = library.backend().unwrap();
    drop(library);
    assert_eq!(backend.id(), BackendId::new("Valid"));
    assert_eq!(backend.description(), "takes Neg");
    assert_eq!(backend.library(), Some(&*path));
    assert!(support(&*backend, "Neg", DataType::F32).is_ok());
    assert_eq!(
        support(&*backend, "Neg", DataType::I32)
            .unwrap_err()
            .to_string(),
        "only Neg of f32"
    );
    assert_eq!(negated(&*backend), [-1.0, 2.0, -0.5]);
}

/// CloseInvalidHandle and CreateDynamicBackendObjectInvalidHandle have no counterpart: a library
/// that was not opened has no handle. OpenEmptyFileName, OpenNotExistingFile,
/// OpenNotSharedObjectFile.
#[test]
fn files_that_are_not_libraries_are_refused() {
    let folder = folder();
    let text = folder.path().join("Test_Text_backend.so");
    std::fs::write(&text, "not a shared object").unwrap();
    let empty = folder.path().join("Test_Empty_backend.so");
    std::fs::write(&empty, "").unwrap();
    for path in [Path::new("/none/such.so"), &text, &empty] {
        assert_eq!(problem(path), "not-a-library", "{}", path.display());
    }
    assert_eq!(problem(Path::new("")), "empty-path");
    assert_eq!(problem(Path::new("/dev/null")), "not-a-file");
    assert_eq!(problem(folder.path()), "not-a-file");
}

/// GetNameMangledEntryPoint, GetNoExternEntryPoint, GetNotExistingEntryPoint,
/// CreateDynamicBackendObjectInvalidInterface1 to 7, BackendVersioning.
#[test]
fn libraries_with_an_invalid_interface_are_refused() {
    let folder = folder();
    for (index, (definition, expected)) in [
        ("MANGLED", "missing-export"),
        ("NO_ID", "missing-export"),
        ("NO_VERSION", "missing-export"),
        ("NO_FACTORY", "missing-export"),
        ("NULL_ID", "null-id"),
        ("ID=\"\\xff\\xfe\"", "id-is-no-text"),
        ("NULL_FACTORY", "no-backend"),
        ("MAJOR=0", "version"),
        ("MAJOR=2", "version"),
        ("MINOR=99", "version"),
        ("NO_SUPPORTS", "bad-backend"),
        ("SIZE=8", "bad-backend"),
        ("SIZE=0", "bad-backend"),
        ("SIZE=(size_t)-1", "bad-backend"),
        ("UNALIGNED", "bad-backend"),
        ("REFUSES_HOST", "bad-backend"),
        ("BAD_OPTION=9", "bad-backend"),
        ("TOLERANCE=1.5", "bad-backend"),
        ("TOLERANCE=-1", "bad-backend"),
        ("LONG_TARGET", "bad-backend"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("Test_Invalid{index}_backend.so");
        let path = variant(folder.path(), &name, &[definition]);
        assert_eq!(problem(&path), expected, "{definition}");
    }
}

#[test]
fn tolerances_of_a_library_are_read_and_checked() {
    let folder = folder();
    let load = |name: &str, definitions: &[&str]| {
        let path = variant(folder.path(), name, definitions);
        BackendLibrary::open(&path).and_then(|library| library.backend())
    };
    let backend = load("Test_Stated_backend.so", &["TOLERANCE=0.25"]).unwrap();
    let stated = Tolerance {
        dtype: DataType::F32,
        relative: 0.25,
        absolute: 0.0,
    };
    assert_eq!(backend.tolerances(), [stated]);
    // A library whose table ends before the list.
    let size = "SIZE=offsetof(tenon_backend, tolerance_count)";
    let backend = load("Test_Older_backend.so", &["TOLERANCE=0.25", size]).unwrap();
    assert!(backend.tolerances().is_empty());
    for (index, (definition, text)) in [
        ("TOLERANCE_TYPE=77", "unknown element type: found 77"),
        ("TOLERANCE_TYPE=TENON_TYPE_I32", "i32: the type is always"),
        ("TOLERANCE_TYPE=TENON_TYPE_I8", "relative 0.25"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("Test_Wrong{index}_backend.so");
        let problem = load(&name, &["TOLERANCE=0.25", definition]).err().unwrap();
        assert!(problem.to_string().contains(text), "{problem}");
    }
}

#[test]
fn the_target_of_a_library_is_read() {
    let folder = folder();
    let target = |name: &str, definitions: &[&str]| {
        let path = variant(folder.path(), name, definitions);
        let backend = BackendLibrary::open(&path).and_then(|library| library.backend());
        backend.unwrap().target()
    };
    let npu = "TARGET=\"npu 2\"";
    assert_eq!(target("Test_Target_backend.so", &[npu]).unwrap(), "npu 2");
    // None, and of a library whose table ends before it.
    assert_eq!(target("Test_None_backend.so", &[]), None);
    let older = "SIZE=offsetof(tenon_backend, target)";
    assert_eq!(target("Test_Older_backend.so", &[npu, older]), None);
}

#[test]
fn load_errors_are_sentences() {
    let folder = folder();
    let error_text = |name: &str, definitions: &[&str]| {
        let path = variant(folder.path(), name, definitions);
        let opened = BackendLibrary::open(path).and_then(|library| library.backend());
        opened.err().unwrap().to_string()
    };
    assert_eq!(
        error_text("a.so", &["MAJOR=2", "MINOR=3"]),
        "built with version 2.3 of the interface, which 1.3 cannot load"
    );
    assert_eq!(
        error_text("b.so", &["NO_FACTORY"]),
        "does not export BackendFactory"
    );
    let size = std::mem::offset_of!(tenon_backend::abi::Backend, stream);
    assert_eq!(
        error_text("c.so", &["SIZE=16"]),
        format!("the backend's table has size 16: expected at least {size} bytes")
    );
    assert_eq!(
        error_text("d.so", &["REFUSES_HOST"]),
        "backend Valid: the device is asleep"
    );
}

/// In version 1.0, operands end before the control.
#[test]
fn a_library_of_an_older_minor_executes_with_a_control() {
    let folder = folder();
    let path = variant(folder.path(), "Test_Older_backend.so", &["MINOR=0"]);
    let backend = BackendLibrary::open(path).unwrap().backend().unwrap();
    let done = Control::new().run(|| Ok(negated(&*backend)));
    assert_eq!(done.unwrap(), [-1.0, 2.0, -0.5]);
}

#[test]
fn a_workload_observes_cancellation() {
    let folder = folder();
    let path = variant(folder.path(), "Test_Endless_backend.so", &["ENDLESS"]);
    let backend = BackendLibrary::open(path).unwrap().backend().unwrap();
    let x = Tensor::from_slice([1], &[1.0f32]).unwrap();
    let run = || {
        let (neg, outputs) = (operator("Neg").unwrap(), [Some(x.ty().clone())]);
        evaluate(&*backend, neg, &Attributes::new(), &[Some(&x)], &outputs)
    };
    let late = Control::with_deadline(Instant::now() + Duration::from_millis(30));
    let stopped = late.run(run).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::DeadlineExceeded);
    let control = Control::new();
    let stopped = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            control.cancel();
        });
        control.run(run).unwrap_err()
    });
    assert_eq!(stopped.kind(), ErrorKind::Cancelled);
    // Not stopped: without a control.
    let failed = run().unwrap_err().to_string();
    assert!(failed.contains("no control"), "{failed}");
}

/// Unknown members at the end of a struct are ignored.
#[test]
fn unknown_members_of_a_larger_table_are_ignored() {
    let folder = folder();
    let size = "SIZE=sizeof(tenon_backend)+64";
    let path = variant(folder.path(), "Test_Newer_backend.so", &[size]);
    let backend = BackendLibrary::open(path).unwrap().backend().unwrap();
    assert_eq!(negated(&*backend), [-1.0, 2.0, -0.5]);
}

/// GetSharedObjects with real files, GetBackendPaths and GetBackendPathsOverride are in the tests
/// of the discovery. CreateDynamicBackends, CreateDynamicBackendsMixedTypes,
/// RegisterSingleDynamicBackend, RegisterMultipleDynamicBackends, RegisterMixedDynamicBackends,
/// RuntimeDynamicBackends.
#[test]
fn valid_libraries_are_registered_and_the_others_are_warnings() {
    let folder = folder();
    let build = |name: &str, definitions: &[&str]| variant(folder.path(), name, definitions);
    build("Test_Valid_backend.so", &[]);
    build("Test_Valid2_backend.so", &["ID=\"Valid2\""]);
    build("Test_Valid3_backend.so", &["ID=\"Valid3\""]);
    build("Test_Valid4_backend.so", &["ID=\"Valid2\""]);
    build("Test_Valid5_backend.so", &["ID=\"Valid5\""]);
    build(
        "Test_Invalid8_backend.so",
        &["NULL_ID", "MAJOR=0", "MINOR=7"],
    );
    build("Test_Invalid9_backend.so", &["ID=\"Valid2\"", "MINOR=99"]);
    build("Test_InvalidEmpty_backend.so", &["ID=\"\""]);
    build("Test_InvalidName_backend.so", &["ID=\"Unknown\""]);
    build("not_a_name.so", &["ID=\"Hidden\""]);
    let mut registry = Registry::new();
    let warnings = registry.load_backends(Some(folder.path()));
    assert_eq!(registry.names(), "Valid2, Valid3, Valid5, Valid");
    let names: Vec<(String, &str)> = warnings
        .iter()
        .map(|warning| {
            let name = warning.path.file_name().unwrap().to_string_lossy();
            (name.into_owned(), warning.problem.code())
        })
        .collect();
    let codes: Vec<(&str, &str)> = names.iter().map(|(name, code)| (&**name, *code)).collect();
    assert_eq!(
        codes,
        [
            ("Test_Invalid8_backend.so", "null-id"),
            ("Test_Invalid9_backend.so", "version"),
            ("Test_InvalidEmpty_backend.so", "reserved-id"),
            ("Test_InvalidName_backend.so", "reserved-id"),
            ("Test_Valid4_backend.so", "duplicate-id"),
        ]
    );
}

/// CreateDynamicBackendsNoPaths, RuntimeEmpty, RuntimeInvalidOverridePath.
#[test]
fn missing_and_invalid_folders_give_no_backends() {
    let empty = folder();
    let mut registry = Registry::new();
    assert!(registry.load_backends(Some(empty.path())).is_empty());
    let warnings = registry.load_backends(Some(Path::new("relative")));
    assert_eq!(
        warnings[0].to_string(),
        "relative: the path is not absolute"
    );
    assert_eq!(registry.names(), "");
}

/// CreateDynamicBackendsAllInvalid, RegisterMultipleInvalidDynamicBackends,
/// RuntimeInvalidDynamicBackends.
#[test]
fn a_folder_of_invalid_libraries_gives_warnings_only() {
    let folder = folder();
    for (name, definition) in [("A", "NO_ID"), ("B", "NULL_FACTORY"), ("C", "MAJOR=7")] {
        variant(
            folder.path(),
            &format!("Test_{name}_backend.so"),
            &[definition],
        );
    }
    std::fs::write(folder.path().join("Test_D_backend.so"), "text").unwrap();
    let mut registry = Registry::new();
    assert_eq!(registry.load_backends(Some(folder.path())).len(), 4);
    assert_eq!(registry.changes(), (0, 0));
}

/// RuntimeDuplicateDynamicBackends: the same file under several names is one backend, without a
/// warning; another file of the same id is a warning.
#[test]
fn duplicates_are_loaded_once() {
    let folder = folder();
    let path = variant(folder.path(), "Test_Valid_backend.so.1.0", &[]);
    for link in ["Test_Valid_backend.so", "Test_Valid_backend.so.1"] {
        std::os::unix::fs::symlink(&path, folder.path().join(link)).unwrap();
    }
    let found = discover(&[folder.path().canonicalize().unwrap()]);
    assert_eq!(found.libraries.len(), 1);
    let mut registry = Registry::new();
    assert!(registry.load_backends(Some(folder.path())).is_empty());
    assert_eq!(registry.names(), "Valid");
    let again = registry.load_backend(&path).unwrap_err();
    assert!(matches!(again, LoadError::DuplicateId(id) if id == "Valid"));
}

#[test]
fn objects_of_a_backend_outlive_it_its_registry_and_its_file() {
    let folder = folder();
    let path = variant(folder.path(), "Test_Valid_backend.so", &[]);
    let mut registry = Registry::new();
    registry.load_backend(&path).unwrap();
    let backend = registry.deregister(&BackendId::new("Valid")).unwrap();
    drop(registry);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(negated(&*backend), [-1.0, 2.0, -0.5]);
    let workload = backend.workload(&spec("Neg", DataType::F32)).unwrap();
    drop(backend);
    let x = Tensor::from_slice([2, 3], &[1.0f32; 6]).unwrap();
    let ty = Some(x.ty().clone());
    let mut operands = tenon_backend::OwnedOperands::new(&[Some(&x)], &[ty], 0).unwrap();
    operands.execute(&*workload).unwrap();
    let outputs = operands.into_outputs().unwrap();
    assert_eq!(
        outputs[0].as_ref().unwrap().as_slice::<f32>().unwrap(),
        [-1.0; 6]
    );
}

#[test]
fn invalid_return_values_are_refused() {
    let folder = folder();
    let load = |name: &str, definitions: &[&str]| {
        let path = variant(folder.path(), name, definitions);
        BackendLibrary::open(path).unwrap().backend().unwrap()
    };
    let neg = spec("Neg", DataType::F32);
    for (name, definition, expected) in [
        ("a", "NULL_WORKLOAD", "a workload is null"),
        ("b", "WORKLOAD_SIZE=8", "a workload has size 8"),
        ("c", "NO_EXECUTE", "a workload has no function 'execute'"),
    ] {
        let error = load(name, &[definition]).workload(&neg).err().unwrap();
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("backend Valid: {expected}")),
            "{text}"
        );
    }
    for (name, definition, expected) in [
        ("d", "SHORT_FAILURE", "a failure has size 3"),
        ("e", "ENDLESS_TEXT", "the text of a failure is too long"),
        ("f", "NOT_UTF8", "the text of a failure is not UTF-8"),
    ] {
        let backend = load(name, &[definition]);
        let text = support(&*backend, "Abs", DataType::F32)
            .unwrap_err()
            .to_string();
        assert!(text.starts_with(expected), "{text}");
    }
}

#[test]
fn a_library_in_c_uses_the_cache() {
    let folder = folder();
    let neg = spec("Neg", DataType::F32);
    let path = variant(folder.path(), "Test_Caches_backend.so", &["CACHES"]);
    let user = Arc::new(UserCache::new(folder.path().join("cache"), CACHE_BYTES));
    let mut registry = Registry::new();
    registry.load_backend(&path).unwrap();
    let backend = registry.find(&BackendId::new("Valid")).unwrap().clone();
    // There is no cache yet.
    backend.workload(&neg).unwrap();
    assert!(user.entries().unwrap().is_empty());
    registry.set_cache(user.clone());
    backend.workload(&neg).unwrap();
    let again = backend.workload(&neg).err().unwrap();
    assert_eq!(again.to_string(), "backend Valid: found abc");
    let entries = user.entries().unwrap();
    assert_eq!((entries.len(), &*entries[0].key), (1, "key"));
    user.clear().unwrap();
    backend.workload(&neg).unwrap();
    assert!(user.problem().is_none());
}

#[test]
fn invalid_parts_are_refused() {
    let folder = folder();
    let neg = spec("Neg", DataType::F32);
    for (index, expected) in [
        "the parts of a workload has size 3",
        "the name of a part or of its node: count 4, but the pointer is null",
        "the nodes of a part: count 2, but the pointer is null",
        "the nodes of a part are too many",
        "the name of a part or of its node is not UTF-8",
        "the parts of a workload are too many",
        "the parts of a workload: count 1, but the pointer is null",
        "the parts of a workload: a null pointer in the list",
    ]
    .into_iter()
    .enumerate()
    {
        let definition = format!("BAD_PARTS={index}");
        let path = variant(folder.path(), &format!("{index}.so"), &[&definition]);
        let backend = BackendLibrary::open(path).unwrap().backend().unwrap();
        let text = backend.workload(&neg).err().unwrap().to_string();
        assert!(
            text.starts_with(&format!("backend Valid: {expected}")),
            "{index}: {text}"
        );
    }
    let path = variant(folder.path(), "times.so", &["PART_TIME=7"]);
    let backend = BackendLibrary::open(path).unwrap().backend().unwrap();
    let workload = backend.workload(&neg).unwrap();
    let part = tenon_backend::WorkloadPart {
        name: "all".into(),
        nodes: vec!["n".into()],
    };
    assert_eq!(workload.parts(), [part]);
    let mut times = [0];
    workload.part_times(None, &mut times).unwrap();
    assert_eq!(times, [7]);
    assert!(workload.part_times(None, &mut [0, 0]).is_err());
}

#[test]
fn invalid_plans_are_refused() {
    let folder = folder();
    let neg = spec("Neg", DataType::F32);
    for (index, expected) in [
        "output 7 cannot be computed in place of input 0",
        "the places of outputs: count 1, but the pointer is null or not aligned",
        "the scratch memory exceeds the address space",
        "input 0 has a prepared form, but is not constant",
        "the prepared constants: a null pointer in the list",
        "the prepared constants are too many",
        "a plan has size 1",
        "a plan states more memory than a device has",
    ]
    .into_iter()
    .enumerate()
    {
        let definition = format!("BAD_PLAN={index}");
        let path = variant(folder.path(), &format!("{index}.so"), &[&definition]);
        let backend = BackendLibrary::open(path).unwrap().backend().unwrap();
        let text = backend
            .plan(&neg, CpuLevel::Baseline)
            .unwrap_err()
            .to_string();
        assert!(
            text.starts_with(&format!("backend Valid: {expected}")),
            "{text}"
        );
    }
}

#[test]
fn invalid_optimised_subgraphs_are_refused() {
    let folder = folder();
    let mut graph: Graph = "graph \"g\" (%x: f32[2]) -> (%y) {\n%a = Neg(%x)\n%y = Neg(%a)\n}"
        .parse()
        .unwrap();
    graph.infer_types().unwrap();
    for (index, expected) in [
        "the node is in none of the lists",
        "node2 is not a node of the subgraph",
        "the untouched nodes: count 2, but the pointer is null or not aligned",
        "the inputs of a graph name an undefined value",
        "operator 'Unheard' is not known",
        "but is not an output",
        "a replacement is null",
        "the substitutions: a null pointer in the list",
        "an optimised subgraph has size 12",
    ]
    .into_iter()
    .enumerate()
    {
        let definition = format!("BAD_VIEWS={index}");
        let path = variant(folder.path(), &format!("{index}.so"), &[&definition]);
        let backend = BackendLibrary::open(path).unwrap().backend().unwrap();
        let views = backend.optimise(&graph);
        let checked = views.and_then(|views| views.check(&graph));
        let text = checked.unwrap_err().to_string();
        assert!(text.contains(expected), "{index}: {text}");
    }
}

/// CreateSampleDynamicBackend, SampleDynamicBackendEndToEnd: the example in C fuses three nodes,
/// has an option, and uses an allocator of the host.
#[test]
fn the_example_in_c_fuses_three_nodes() {
    let folder = folder();
    let path = example_in_c(folder.path(), "Example_Elementwise_backend.so");
    let backend = BackendLibrary::open(path).unwrap().backend().unwrap();
    let mut graph: Graph = r#"graph "g" (%a: f32[2], %b: f32[2], %c: f32[2]) -> (%y, %z) {
          %z = Add(%a, %b)
          %m = Mul(%a, %b)
          %s = Add(%c, %m)
          %y = Relu(%s)
        }"#
    .parse()
    .unwrap();
    graph.infer_types().unwrap();
    let views: OptimisationViews = backend.optimise(&graph).unwrap();
    views.check(&graph).unwrap();
    assert_eq!((views.substitutions.len(), views.untouched.len()), (1, 1));
    let node = &views.substitutions[0].replacement.nodes[0];
    assert_eq!(node.op.name, "tenon.Precompiled");

    let options = [tenon_backend::OptionSetting {
        name: "Scale".into(),
        value: tenon_backend::PropertyValue::Float(2.0),
    }];
    let doubled = backend.configured(&options).unwrap();
    let tensor = |values: [f32; 2]| Tensor::from_slice([2], &values).unwrap();
    let (a, b, c) = (tensor([1.0, 2.0]), tensor([3.0, -4.0]), tensor([0.5, 0.5]));
    for (backend, expected) in [(&backend, [3.5f32, 0.0]), (&doubled, [7.0, 0.0])] {
        let outputs = evaluate(
            &**backend,
            node.op,
            &node.attributes,
            &[Some(&a), Some(&b), Some(&c)],
            &[Some(a.ty().clone())],
        );
        let outputs = outputs.unwrap();
        assert_eq!(
            outputs[0].as_ref().unwrap().as_slice::<f32>().unwrap(),
            expected
        );
    }
}
