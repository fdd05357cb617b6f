//! The functions of the interface, called from C and C++.
#![allow(clippy::print_stderr, reason = "prints skipped tests and measurements")]

mod common;

use common::{TestFolder, source};
use std::path::Path;
use std::process::Stdio;

const DIGITS: &str = "models/digits/digits.onnx";

/// Builds `tests/c/NAME.c` and runs it on the package of the digits model.
fn on_digits(name: &str, environment: &[(&str, &str)]) -> common::Answer {
    let folder = TestFolder::new();
    let package = folder.package(DIGITS, "digits.neff");
    let program = folder.build(name);
    folder
        .run(&program, &[package.to_str().unwrap()], environment)
        .assert_success()
}

fn without_model(name: &str, environment: &[(&str, &str)]) -> common::Answer {
    let folder = TestFolder::new();
    let program = folder.build(name);
    folder.run(&program, &[], environment).assert_success()
}

#[test]
fn layouts_of_structs_and_names_of_statuses_match_the_headers() {
    without_model("layout", &[]);
    let folder = TestFolder::new();
    let older = ["-DTENON_NRT_OLD_DTYPES", "-DTENON_NRT_ASYNC_API=2"];
    let flags = ["-std=c11", older[0], older[1], "-lnrt"];
    folder.build_with("cc", &[&source("layout.c")], "layout", &flags);
}

#[test]
fn the_runtime_starts_closes_and_is_unusable_after_a_fork() {
    let ran = on_digits(
        "lifecycle",
        &[
            ("NEURON_RT_VISIBLE_CORES", "2-3"),
            ("NEURON_RT_NUM_CORES", "1"),
        ],
    );
    let hash = |hash: &str| hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let from_environment = std::env::var("TENON_GIT_HASH").unwrap_or_default();
    let is_repository = common::repository().join(".git").exists();
    let found = ran.out.trim();
    let expected = if is_repository {
        "the commit"
    } else {
        "unknown"
    };
    assert!(
        found == from_environment || found == expected || is_repository && hash(found),
        "{found}"
    );
    assert!(ran.err.contains("nrt_init was not called"), "{}", ran.err);
    assert!(
        ran.err.contains("the runtime was ended by nrt_close"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("fork before nrt_init"), "{}", ran.err);
}

#[test]
fn tensors_and_sets_follow_the_interface() {
    let folder = TestFolder::new();
    let program = folder.build("tensors");
    let ran = folder
        .run(&program, &[], &[("TENON_CORE_MEMORY", "67108864")])
        .assert_success();
    assert!(
        ran.err
            .contains("NRT:nrt_tensor_read  the tensor was freed before"),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("core 0 has insufficient memory"),
        "{}",
        ran.err
    );
    let log = std::fs::read_to_string(folder.path().join("memlog.csv")).unwrap();
    assert!(log.starts_with("seconds,core,event,bytes,used\n"), "{log}");
    assert!(log.contains(",1,allocate,1048576,"), "{log}");
    let few = [
        ("TENON_CORE_MEMORY", "67108864"),
        ("NEURON_RT_DEBUG_MEMLOG_MAX_SIZE", "3"),
    ];
    folder.run(&program, &[], &few).assert_success();
    let log = std::fs::read_to_string(folder.path().join("memlog.csv")).unwrap();
    assert_eq!(log.lines().count(), 4, "{log}");
}

#[test]
fn models_are_loaded_and_executed_by_threads() {
    on_digits("models", &[]);
}

#[test]
fn requests_are_queued() {
    on_digits("requests", &[]);
    on_digits(
        "requests",
        &[("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", "4")],
    );
}

#[test]
fn requests_have_statuses_and_events() {
    let ran = on_digits("requests_3", &[]);
    // The log has the reason of the execution without inputs.
    assert!(ran.err.contains("NRT:nrta_execute_schedule"), "{}", ran.err);
}

#[test]
fn programs_of_both_versions_are_distinguished() {
    let folder = TestFolder::new();
    let package = folder.package(DIGITS, "digits.neff");
    let program = folder.build("foreign_requests");
    let name = "TENON_NRT_ASYNC_API";
    for (client, environment) in [
        ("tracker", &[][..]),
        ("none", &[(name, "2")][..]),
        ("three", &[(name, "3")][..]),
    ] {
        let arguments = [package.to_str().unwrap(), client];
        folder
            .run(&program, &arguments, environment)
            .assert_success();
    }
}

#[test]
fn queued_executions_call_the_callback() {
    on_digits(
        "asynchronous",
        &[("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", "3")],
    );
}

#[test]
fn traces_profiles_and_inspections_are_recorded() {
    on_digits("tracing", &[]);
}

#[test]
fn debug_streams_send_tensors_of_executions() {
    on_digits(
        "debug_stream",
        &[("NEURON_RT_DEBUG_STREAM_BUFFER_SIZE", "3")],
    );
}

#[test]
fn debug_streams_send_named_tensors_only() {
    let folder = TestFolder::new();
    let package = folder.package(DIGITS, "digits.neff");
    let program = folder.build("taps");
    let shown = |environment: &[(&str, &str)]| -> Vec<String> {
        let ran = folder.run(&program, &[package.to_str().unwrap()], environment);
        ran.assert_success()
            .out
            .lines()
            .map(str::to_owned)
            .collect()
    };
    let all = shown(&[]);
    assert!(all.len() > 3, "{all:?}");
    let list = format!("{}, {},none", all[2], all[0]);
    let some = shown(&[("TENON_DEBUG_TAPS", &list)]);
    assert_eq!(some, [all[0].clone(), all[2].clone()]);
}

#[test]
fn executions_return_the_status_of_their_error() {
    let folder = TestFolder::new();
    let program = folder.build("statuses");
    let check = [("TENON_CHECK_NAN", "1")];
    // All bits set are NaN as floats; 0x7F in every byte is an index out of bounds.
    for (model, byte, status, environment, message) in [
        (DIGITS, "255", "1003", &check[..], "holds NaN"),
        (DIGITS, "255", "0", &[][..], ""),
        (
            "models/small/gpt2.onnx",
            "127",
            "1006",
            &[][..],
            "NRT:nrt_execute",
        ),
    ] {
        let package = folder.package(model, "model.neff");
        let arguments = [package.to_str().unwrap(), byte, status];
        let ran = folder
            .run(&program, &arguments, environment)
            .assert_success();
        assert!(ran.err.contains(message), "{}", ran.err);
    }
}

/// The file `file` in the only folder of profiles whose name starts with `prefix`.
fn output(folder: &TestFolder, prefix: &str, file: &str) -> Vec<u8> {
    let folders = std::fs::read_dir(folder.path().join("output")).unwrap();
    let folders = folders.map(|entry| entry.unwrap().path());
    let named = |path: &std::path::PathBuf| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(prefix)
    };
    let found: Vec<_> = folders.filter(named).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    std::fs::read(found[0].join(file)).unwrap()
}

#[test]
fn an_execution_fails_with_the_error_of_its_cpu_node() {
    let folder = TestFolder::new();
    let package = folder.package_with_cpu_nodes("refuses_what_is_below_zero", "twice");
    let program = folder.build("failures");
    let arguments = [package.to_str().unwrap(), "1", "0", "-1", "1004", "2", "0"];
    let allowed = ("TENON_ALLOW_NATIVE_NODES", "1");
    let dumped = ("NEURON_RT_DBG_DUMP_INPUTS_ON_ERR", "true");
    let ran = folder
        .run(&program, &arguments, &[allowed, dumped])
        .assert_success();
    let message = "the CPU function failed with 7: first: below zero";
    assert!(ran.err.contains(message), "{}", ran.err);
    let inputs = output(&folder, "failed_inputs_", "x.bin");
    assert_eq!(inputs, (-1.0f32).to_le_bytes().repeat(4));
    // A planted link is not followed.
    let planted = folder.path().join("planted");
    std::fs::create_dir(&planted).unwrap();
    let text = format!(
        "ln -s {} output/failed_inputs_pid_$$_1; exec \"$@\"",
        planted.display()
    );
    let mut shell = folder.command(Path::new("sh"));
    shell
        .args(["-c", &text, "sh"])
        .arg(&program)
        .args(arguments);
    let output = shell.envs([allowed, dumped]).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(log.contains("cannot make"), "{log}");
    assert_eq!(planted.read_dir().unwrap().count(), 0);
    let unset = folder
        .run(&program, &arguments, &[allowed])
        .assert_success();
    assert!(
        !unset.err.contains("inputs of the execution"),
        "{}",
        unset.err
    );
    // CPU nodes are not allowed: loading fails.
    let ran = folder.run(&program, &arguments, &[]);
    assert_eq!(ran.status, Some(1));
    assert!(
        ran.err.contains("set TENON_ALLOW_NATIVE_NODES=1"),
        "{}",
        ran.err
    );
}

#[test]
fn an_execution_beyond_the_time_limit_returns_a_timeout() {
    let folder = TestFolder::new();
    let package = folder.package_with_cpu_nodes("twice", "takes_1100_ms");
    let program = folder.build("failures");
    let environment = [
        ("TENON_ALLOW_NATIVE_NODES", "1"),
        ("NEURON_RT_EXEC_TIMEOUT", "1"),
    ];
    let arguments = [package.to_str().unwrap(), "1", "5"];
    folder
        .run(&program, &arguments, &environment)
        .assert_success();
    let unset = [package.to_str().unwrap(), "1", "0"];
    folder
        .run(&program, &unset, &environment[..1])
        .assert_success();
}

#[test]
fn a_long_kernel_is_stopped_at_the_limit() {
    let folder = TestFolder::new();
    // 2^35 multiplications; the reference backend executes about 2^30 a second.
    let graph: tenon_graph::Graph = "graph \"long\" (%a: f32[1024, 8192], %b: f32[8192, 4096]) -> \
                                     (%y) {\n  %y = MatMul(%a, %b)\n}"
        .parse()
        .unwrap();
    let backends = tenon::backends::built_in();
    let options = tenon_compiler::Options {
        backends: vec![tenon::BackendId::new("CpuRef")],
        ..tenon_compiler::Options::new(&backends)
    };
    let compiled = tenon_compiler::compile(graph, &options).unwrap();
    let package = folder.path().join("long.neff");
    let (options, control) = (tenon::neff::WriteOptions::default(), tenon::Control::new());
    let contents = compiled.contents;
    contents.write(&package, options, &control).unwrap();
    let program = folder.build("timeouts");
    let environment = [("NEURON_RT_EXEC_TIMEOUT", "1")];
    let ran = folder
        .run(&program, &[package.to_str().unwrap()], &environment)
        .assert_success();
    assert!(ran.err.contains("NRT:nrt_execute"), "{}", ran.err);
}

#[test]
fn inspection_on_failure_records_events_inside_of_failed_executions_only() {
    let folder = TestFolder::new();
    let package = folder.package_with_cpu_nodes("twice", "refuses_what_is_below_zero");
    let program = folder.build("failures");
    // The first node maps NaN to NaN.
    let arguments = [package.to_str().unwrap(), "1", "0", "nan", "1003", "2", "0"];
    let environment = [
        ("TENON_ALLOW_NATIVE_NODES", "1"),
        ("TENON_CHECK_NAN", "1"),
        ("NEURON_RT_INSPECT_ON_FAIL", "1"),
    ];
    folder
        .run(&program, &arguments, &environment)
        .assert_success();
    let profile = output(&folder, "session_1_", "device_profile.json");
    let profile: serde_json::Value = serde_json::from_slice(&profile).unwrap();
    let events = profile["traceEvents"].as_array().unwrap();
    let statuses = |category: &str| -> Vec<u64> {
        let events = events.iter().filter(|event| event["cat"] == category);
        events
            .map(|event| event["args"]["status"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(statuses("nrt_execute"), [0, 1003, 0], "{profile:#}");
    assert_eq!(statuses("cpu_node"), [1003], "{profile:#}");
    // The system profile has every execution.
    let system = output(&folder, "session_1_", "system_profile.json");
    let system = String::from_utf8(system).unwrap();
    assert_eq!(
        system.matches("\"cat\":\"nrt_execute\"").count(),
        3,
        "{system}"
    );
    assert!(!system.contains("cpu_node"), "{system}");
}

#[test]
fn a_logical_core_may_consist_of_several_machine_cores() {
    let folder = TestFolder::new();
    let source = folder.path().join("pairs.c");
    std::fs::write(
        &source,
        "#include \"check.h\"\n\
         int main(void) {\n\
         uint32_t count = 0;\n\
         OK(nrt_get_total_vnc_count(&count));\n    CHECK(count == 2);\n\
         OK(nrt_get_visible_vnc_count(&count));\n    CHECK(count == 1);\n\
         OK(nec_get_virtual_core_size(&count));\n    CHECK(count == 2);\n\
         OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, 0, 0));\n\
         OK(nrt_get_visible_vnc_count(&count));\n    CHECK(count == 1);\n\
         nrt_vnc_memory_stats_t stats;\n    size_t size;\n\
         OK(nrt_get_vnc_memory_stats(0, &stats, sizeof stats, &size));\n\
         IS(NRT_LOAD_NOT_ENOUGH_NC, nrt_get_vnc_memory_stats(1, &stats, sizeof stats, &size));\n\
         nrt_close();\n    return 0;\n}\n",
    )
    .unwrap();
    let sources = common::source("");
    let include = format!("-I{}", sources.to_str().unwrap());
    let program = folder.build_with("cc", &[&source], "pairs", &[&include, "-lnrt"]);
    let pair = ("NEURON_LOGICAL_NC_CONFIG", "2");
    let second = ("NEURON_RT_VISIBLE_CORES", "1");
    folder.run(&program, &[], &[pair, second]).assert_success();
    let too_large = ("NEURON_LOGICAL_NC_CONFIG", "5");
    let ran = folder.run(&program, &[], &[too_large]);
    assert!(ran.err.contains("NRT_LOAD_NOT_ENOUGH_NC"), "{}", ran.err);
}

#[test]
fn casts_round_stochastically_if_the_environment_enables_it() {
    let folder = TestFolder::new();
    let graph: tenon_graph::Graph = "graph \"cast\" (%x: f32[4096]) -> (%y) {\n\
                                       %y = Cast(%x) {to = \"bf16\"}\n}"
        .parse()
        .unwrap();
    let backends = tenon::backends::built_in();
    let options = tenon_compiler::Options::new(&backends);
    let compiled = tenon_compiler::compile(graph, &options).unwrap();
    let package = folder.path().join("cast.neff");
    let control = tenon::Control::new();
    let options = tenon::neff::WriteOptions::default();
    compiled
        .contents
        .write(&package, options, &control)
        .unwrap();
    let program = folder.build("rounding");
    let run = |environment: &[(&str, &str)]| -> Vec<usize> {
        let ran = folder
            .run(&program, &[package.to_str().unwrap()], environment)
            .assert_success();
        ran.out
            .split_whitespace()
            .map(|count| count.parse().unwrap())
            .collect()
    };
    // The number of 4096 elements that round up in each of two executions.
    assert_eq!(run(&[]), [0, 0]);
    let on = ("NEURON_RT_STOCHASTIC_ROUNDING_EN", "true");
    let first = run(&[on]);
    // Six standard deviations of a binomial distribution are 166.
    assert!(
        first.iter().all(|count| (858..1190).contains(count)),
        "{first:?}"
    );
    assert_ne!(first[0], first[1]);
    assert_eq!(run(&[on]), first);
    let seed = ("NEURON_RT_STOCHASTIC_ROUNDING_SEED", "7");
    assert_ne!(run(&[on, seed]), first);
    assert_eq!(run(&[seed]), [0, 0]);
    let bad = ("NEURON_RT_STOCHASTIC_ROUNDING_SEED", "x");
    let ran = folder.run(&program, &[package.to_str().unwrap()], &[on, bad]);
    assert!(ran.err.contains("NRT_INVALID"), "{}", ran.err);
}

#[test]
fn environment_variables_are_applied_or_rejected() {
    let folder = TestFolder::new();
    let package = folder.package(DIGITS, "digits.neff");
    let program = folder.build("environment");
    let damaged = folder.path().join("damaged.neff");
    let mut bytes = std::fs::read(&package).unwrap();
    // The first byte of the hash (neff 1.1).
    bytes[172] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let check = |package: &std::path::Path, variables: &[(&str, &str)], statuses: &str| {
        let ran = folder
            .run(&program, &[package.to_str().unwrap()], variables)
            .assert_success();
        assert_eq!(ran.out.trim(), statuses, "{variables:?}: {}", ran.err);
        // The log names the rejected variable.
        let named = variables.iter().any(|(name, _)| ran.err.contains(name));
        let is_explained = ["0 0", "0 4", "9 13"].contains(&statuses) || named;
        assert!(
            is_explained || ran.err.contains("hash"),
            "{variables:?}: {}",
            ran.err
        );
        ran.err
    };
    let each = |name: &str, values: &[(&str, &str)]| {
        for (value, statuses) in values {
            check(&package, &[(name, value)], statuses);
        }
    };
    check(&damaged, &[], "0 0");
    let validate = "NEURON_RT_VALIDATE_HASH";
    check(&damaged, &[(validate, "true")], "0 2");
    each(
        validate,
        &[("true", "0 0"), ("FALSE", "0 0"), ("perhaps", "0 2")],
    );
    let seconds = [("1", "0 0"), ("0", "0 2"), ("-5", "0 2"), ("soon", "0 2")];
    each("NEURON_RT_EXEC_TIMEOUT", &seconds);
    each(
        "NEURON_RT_NUM_CORES",
        &[("4", "0 0"), ("5", "9 13"), ("0", "2 13")],
    );
    each(
        "NEURON_RT_VISIBLE_CORES",
        &[("3", "0 0"), ("4", "9 13"), ("1,3", "2 13")],
    );
    each(
        "NEURON_LOGICAL_NC_CONFIG",
        &[("4", "0 0"), ("5", "9 13"), ("0", "2 13")],
    );
    let requests = [("0", "0 0"), ("7", "0 0"), ("many", "2 13")];
    each("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", &requests);
    each(
        "NEURON_RT_DBG_DUMP_INPUTS_ON_ERR",
        &[("1", "0 0"), ("x", "2 13")],
    );
    each(
        "NEURON_RT_INSPECT_ON_FAIL",
        &[("true", "0 0"), ("x", "2 13")],
    );
    each("TENON_NRT_ASYNC_API", &[("3", "0 0"), ("4", "2 13")]);
    each("TENON_NRT_OLD_DTYPES", &[("1", "0 0"), ("x", "2 13")]);
    each("TENON_CPU", &[("avx2", "0 0"), ("axv2", "2 13")]);
    each("TENON_CORE_MEMORY", &[("1000", "0 4"), ("0", "2 13")]);
    each("TENON_CORES", &[("1", "0 0"), ("none", "2 13")]);
    each(
        "NEURON_RT_DEBUG_MEMLOG_MAX_SIZE",
        &[("10", "0 0"), ("many", "2 13")],
    );
    each(
        "NEURON_RT_STOCHASTIC_ROUNDING_EN",
        &[("0", "0 0"), ("x", "0 2")],
    );
    // Documented variables without an effect.
    each("NEURON_RT_ROOT_COMM_ID", &[("10.0.1.2:46820", "0 0")]);
    each("NEURON_RT_ALLOW_LEGACY_NEFF", &[("1", "0 0")]);
    each(
        "NEURON_RT_MULTI_INSTANCE_SHARED_WEIGHTS",
        &[("true", "0 0")],
    );
    let wrong_list = [
        ("NEURON_RT_INSPECT_ENABLE", "1"),
        ("NEURON_RT_INSPECT_EVENT_FILTER_NC", "x"),
    ];
    check(&package, &wrong_list, "2 13");
    // Unknown entries, as for other runtimes, are logged and ignored.
    let filter = "NEURON_RT_INSPECT_EVENT_FILTER_TYPE";
    for words in [
        "hardware",
        "software",
        "^kernel,^dma",
        "hardware,^kernel",
        "x",
        ",",
        "^",
    ] {
        let variables = [
            ("NEURON_RT_INSPECT_ENABLE", "1"),
            ("NEURON_RT_LOG_LEVEL", "WARNING"),
            (filter, words),
        ];
        let log = check(&package, &variables, "0 0");
        assert_eq!(
            log.contains(filter),
            ["x", "^"].contains(&words),
            "{words}: {log}"
        );
    }
    let log = check(&package, &[("NEURON_RT_LOG_LEVEL", "LOUD")], "0 0");
    assert!(
        log.contains("NEURON_RT_LOG_LEVEL is 'LOUD'") && log.contains("WARN"),
        "{log}"
    );
    let log = check(&package, &[("NEURON_RT_LOG_LEVEL", "info")], "0 0");
    assert!(
        log.contains("INFO") && log.contains("NRT:nrt_init") && log.contains("NMGR:nrt_load"),
        "{log}"
    );
    let log = check(&package, &[("NEURON_RT_LOG_LEVEL_NMGR", "info")], "0 0");
    assert!(
        !log.contains("NRT:nrt_init") && log.contains("NMGR:nrt_load"),
        "{log}"
    );
    let quiet = [
        ("NEURON_RT_LOG_LEVEL", "QUIET"),
        ("TENON_CORE_MEMORY", "1000"),
    ];
    assert_eq!(check(&package, &quiet, "0 4"), "");
    let nowhere = [("NEURON_RT_LOG_LOCATION", "printer")];
    let log = check(&package, &nowhere, "0 0");
    assert!(log.contains("expected console or syslog"), "{log}");
    check(&package, &[("NEURON_RT_LOG_LOCATION", "SYSLOG")], "0 0");
}

#[test]
fn the_environment_configures_inspection_sessions() {
    let folder = TestFolder::new();
    let package = folder.package(DIGITS, "digits.neff");
    let program = folder.build("failures");
    let arguments = [package.to_str().unwrap(), "1", "0"];
    let variables = [
        ("NEURON_RT_INSPECT_ENABLE", "1"),
        ("NEURON_RT_INSPECT_OUTPUT_DIR", "output"),
        ("NEURON_RT_INSPECT_SYSTEM_PROFILE", "0"),
        ("NEURON_RT_INSPECT_EVENT_FILTER_TYPE", "nrt_execute, kernel"),
        ("NEURON_RT_INSPECT_EVENT_FILTER_NC", "0,1,2,3"),
    ];
    folder
        .run(&program, &arguments, &variables)
        .assert_success();
    let profile = output(&folder, "session_1_", "device_profile.json");
    let profile = String::from_utf8(profile).unwrap();
    assert!(profile.contains("\"cat\":\"kernel\"") && profile.contains("\"cat\":\"nrt_execute\""));
    assert!(!profile.contains("\"cat\":\"dma\""), "{profile}");
    let folder = std::fs::read_dir(folder.path().join("output"))
        .unwrap()
        .next()
        .unwrap();
    assert!(!folder.unwrap().path().join("system_profile.json").exists());
}

#[test]
fn names_are_unique_and_valid_file_names() {
    let folder = TestFolder::new();
    let mut graph = tenon_graph::Graph::new("names");
    let ty = || tenon_tensor::TensorType::new(tenon_tensor::DataType::F32, [2]).unwrap();
    let long = |end: &str| "n".repeat(300) + end;
    let input_names = [
        "a/b".to_owned(),
        "a_b".to_owned(),
        "..".to_owned(),
        long("x"),
        long("y"),
    ];
    let read: Vec<_> = input_names
        .iter()
        .map(|name| graph.add_input(name, ty()))
        .collect();
    let sum = graph.add_value("sum/of all", None);
    graph.nodes.push(tenon_graph::Node {
        name: "sum".into(),
        op: tenon_graph::operator::operator("Sum").unwrap(),
        attributes: tenon_graph::Attributes::new(),
        inputs: read.into_iter().map(Some).collect(),
        outputs: vec![Some(sum)],
    });
    graph.outputs.push(sum);
    let backends = tenon::backends::built_in();
    let compiled = tenon_compiler::compile(graph, &tenon_compiler::Options::new(&backends));
    let package = folder.path().join("names.neff");
    let (options, control) = (tenon::neff::WriteOptions::default(), tenon::Control::new());
    compiled
        .unwrap()
        .contents
        .write(&package, options, &control)
        .unwrap();
    let mut arguments = vec![package.to_str().unwrap()];
    arguments.extend(input_names.iter().map(String::as_str).chain(["sum/of all"]));
    let ran = folder
        .run(&folder.build("names"), &arguments, &[])
        .assert_success();
    let names: Vec<&str> = ran.out.lines().collect();
    assert_eq!(names.len(), 6, "{names:?}");
    for (index, name) in names.iter().enumerate() {
        assert!(!names[..index].contains(name), "{names:?}");
        assert!(
            !name.is_empty() && name.len() <= 251 && !name.contains('/'),
            "{name}"
        );
        // The sample program of the interface writes `NAME.out`.
        std::fs::write(folder.path().join(format!("{name}.out")), "").unwrap();
    }
}

#[test]
fn packages_of_other_compilers_are_refused_with_a_reason() {
    let folder = TestFolder::new();
    let program = folder.build("environment");
    let Some(data) = std::env::var_os("TENON_EXTRA_DATA") else {
        eprintln!("skipped: TENON_EXTRA_DATA is not set");
        return;
    };
    let files = std::fs::read_dir(std::path::Path::new(&data).join("neff")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let mut seen = 0;
    for file in files.filter(|path| path.extension().is_some_and(|end| end == "neff")) {
        let ran = folder
            .run(&program, &[file.to_str().unwrap()], &[])
            .assert_success();
        // Unknown features, or programs of an accelerator's engines.
        let status = if ran.err.contains("bit 11") { 10 } else { 2 };
        assert_eq!(ran.out.trim(), format!("0 {status}"), "{}", ran.err);
        assert!(ran.err.contains("ERROR  NRT:nrt_load"), "{}", ran.err);
        assert!(status == 10 || ran.err.contains("PE.bin"), "{}", ran.err);
        seen += 1;
    }
    assert!(seen > 0);
}

#[test]
fn collectives_of_one_worker_succeed() {
    let ran = without_model("collectives", &[]);
    assert!(ran.err.contains("needs a network provider"), "{}", ran.err);
}

#[test]
fn functions_that_require_an_accelerator_fail() {
    without_model("absent", &[]);
}

#[test]
fn element_types_have_two_numberings() {
    let folder = TestFolder::new();
    let package = folder.package(DIGITS, "digits.neff");
    let program = folder.build("dtypes");
    let run = |number: &str, environment: &[(&str, &str)]| {
        let arguments = [package.to_str().unwrap(), number];
        folder
            .run(&program, &arguments, environment)
            .assert_success();
    };
    run("10", &[]);
    run("10", &[("TENON_NRT_OLD_DTYPES", "0")]);
    run("1", &[("TENON_NRT_OLD_DTYPES", "1")]);
}

#[test]
fn a_cpp_client_compiles_and_runs() {
    let folder = TestFolder::new();
    let program = folder.build_with(
        "c++",
        &[&source("client.cpp")],
        "client",
        &["-std=c++17", "-lnrt", "-pthread"],
    );
    folder.run(&program, &[], &[]).assert_success();
}

#[test]
fn every_header_is_self_contained() {
    let folder = TestFolder::new();
    let include = common::repository().join("include");
    for name in ["nrt", "ndl", "tenon/nrt.h"] {
        let path = include.join(name);
        let headers: Vec<_> = if path.is_dir() {
            let entries = std::fs::read_dir(path).unwrap();
            entries.map(|entry| entry.unwrap().path()).collect()
        } else {
            vec![path]
        };
        assert!(!headers.is_empty());
        for header in headers {
            let header = header.strip_prefix(&include).unwrap().to_str().unwrap();
            for (compiler, standard) in [
                ("cc", "-std=c99"),
                ("cc", "-std=c11"),
                ("c++", "-std=c++11"),
            ] {
                let source = folder
                    .path()
                    .join(if compiler == "cc" { "one.c" } else { "one.cpp" });
                std::fs::write(&source, format!("#include <{header}>\nint one;\n")).unwrap();
                let flags = [standard, "-Wextra", "-c"];
                folder.build_with(compiler, &[&source], "one.o", &flags);
            }
        }
    }
}

#[test]
fn cores_have_one_owner_until_it_exits_or_is_killed() {
    let folder = TestFolder::new();
    let source = folder.path().join("holder.c");
    std::fs::write(
        &source,
        "#include <nrt/nrt.h>\n#include <stdio.h>\n#include <unistd.h>\n\
         int main(void) { int status = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, 0, 0);\n\
         printf(\"%d\\n\", status); fflush(stdout); char c; while (read(0, &c, 1) > 0) {}\n\
         return 0; }\n",
    )
    .unwrap();
    let program = folder.build_with("cc", &[&source], "holder", &["-lnrt"]);
    let start = |cores: &str| {
        let mut command = folder.command(&program);
        command.env("NEURON_RT_VISIBLE_CORES", cores);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        (child, line.trim().parse::<i32>().unwrap())
    };
    let end = |mut child: std::process::Child| {
        drop(child.stdin.take());
        child.wait().unwrap();
    };
    let (mut holder, status) = start("1-2");
    assert_eq!(status, 0);
    // Core 2 is owned: NRT_RESOURCE; core 4 does not exist: NRT_LOAD_NOT_ENOUGH_NC.
    for (cores, expected) in [("2-3", 4), ("3-4", 9), ("1,3", 2), ("3", 0), ("0", 0)] {
        let (child, status) = start(cores);
        assert_eq!(status, expected, "{cores}");
        end(child);
    }
    // The cores of a killed process are free.
    holder.kill().unwrap();
    holder.wait().unwrap();
    let (child, status) = start("0-3");
    assert_eq!(status, 0);
    end(child);
}

/// `TENON_SOAK` sets the number of executions.
#[test]
fn memory_does_not_grow_over_many_executions() {
    let folder = TestFolder::new();
    let package = folder.package(DIGITS, "digits.neff");
    let program = folder.build("soak");
    let executions = std::env::var("TENON_SOAK").unwrap_or_else(|_| "16000".into());
    let ran = folder
        .run(&program, &[package.to_str().unwrap(), &executions], &[])
        .assert_success();
    eprint!("{}", ran.out);
}

/// Whether valgrind is installed.
fn has_valgrind() -> bool {
    let found = std::process::Command::new("valgrind")
        .arg("--version")
        .output();
    if found.is_err() {
        eprintln!("skipped: valgrind is not installed");
    }
    found.is_ok()
}

/// Runs a program under valgrind, which fails on invalid accesses and leaks.
fn under_valgrind(folder: &TestFolder, program: &std::path::Path, arguments: &[&str]) {
    let flags = ["--quiet", "--error-exitcode=9", "--leak-check=full"];
    let kinds = [
        "--errors-for-leak-kinds=definite",
        program.to_str().unwrap(),
    ];
    let arguments = [&flags[..], &kinds[..], arguments].concat();
    let variables = [("TENON_CORE_MEMORY", "67108864")];
    folder
        .run("valgrind".as_ref(), &arguments, &variables)
        .assert_success();
}

#[test]
fn valgrind_reports_no_error_for_tensors_and_collectives() {
    if !has_valgrind() {
        return;
    }
    let folder = TestFolder::new();
    for name in ["tensors", "collectives", "absent"] {
        under_valgrind(&folder, &folder.build(name), &[]);
    }
}

#[test]
fn valgrind_reports_no_error_for_executions() {
    if !has_valgrind() {
        return;
    }
    let folder = TestFolder::new();
    let package = folder.package(DIGITS, "digits.neff");
    let package = package.to_str().unwrap();
    under_valgrind(&folder, &folder.build("environment"), &[package]);
    under_valgrind(
        &folder,
        &folder.build("failures"),
        &[package, "1", "0", "nan", "0"],
    );
}

#[test]
fn a_state_stays_in_a_tensor_of_both_sets() {
    const STEPS: usize = 3;
    let folder = TestFolder::new();
    let graph: tenon_graph::Graph = "graph \"step\" (%x: f32[64], %state: f32[64]) -> (%y, %next) {\n  \
                                     %a = Mul(%state, %x)\n  %next = Add(%a, %x)\n  %y = Neg(%next)\n}"
        .parse()
        .unwrap();
    let backends = tenon::backends::built_in();
    let options = tenon_compiler::Options::new(&backends);
    let compiled = tenon_compiler::compile(graph, &options).unwrap();
    let package = folder.path().join("step.neff");
    let (options, control) = (tenon::neff::WriteOptions::default(), tenon::Control::new());
    let contents = compiled.contents;
    contents.write(&package, options, &control).unwrap();
    let x: Vec<f32> = (0..64).map(|at| at as f32 / 16.0 - 2.0).collect();
    let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(folder.path().join("x.bin"), bytes).unwrap();

    let program = folder.build("state");
    let steps = STEPS.to_string();
    let arguments = ["step.neff", ".", "state", "next", &*steps];
    folder.run(&program, &arguments, &[]).assert_success();

    let mut state = vec![0f32; 64];
    for _ in 0..STEPS {
        for (state, x) in state.iter_mut().zip(&x) {
            *state = *state * x + x;
        }
    }
    let found = |name: &str| -> Vec<f32> {
        let bytes = std::fs::read(folder.path().join(name)).unwrap();
        let (words, _) = bytes.as_chunks();
        words.iter().map(|&word| f32::from_le_bytes(word)).collect()
    };
    assert_eq!(found("next.out"), state);
    assert_eq!(found("y.out"), state.iter().map(|x| -x).collect::<Vec<_>>());
}
