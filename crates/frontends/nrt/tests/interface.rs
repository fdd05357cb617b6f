//! The functions of the interface, called from C and C++.
#![allow(clippy::print_stderr, reason = "it says what it skips and measures")]

mod common;

use common::{Place, source};
use std::path::Path;
use std::process::Stdio;

const DIGITS: &str = "models/digits/digits.onnx";

/// Builds and runs `tests/c/NAME.c` on the package of the digits model.
fn on_digits(name: &str, environment: &[(&str, &str)]) -> common::Ran {
    let place = Place::new();
    let package = place.package(DIGITS, "digits.neff");
    let program = place.build(name);
    place
        .run(&program, &[package.to_str().unwrap()], environment)
        .done()
}

fn alone(name: &str, environment: &[(&str, &str)]) -> common::Ran {
    let place = Place::new();
    let program = place.build(name);
    place.run(&program, &[], environment).done()
}

#[test]
fn layouts_and_names_of_statuses() {
    alone("layout", &[]);
    let place = Place::new();
    let older = ["-DTENON_NRT_OLD_DTYPES", "-DTENON_NRT_ASYNC_API=2"];
    let flags = ["-std=c11", older[0], older[1], "-lnrt"];
    place.build_with("cc", &[&source("layout.c")], "layout", &flags);
}

#[test]
fn the_runtime_is_started_ended_and_not_carried_over_a_fork() {
    let ran = on_digits(
        "lifecycle",
        &[
            ("NEURON_RT_VISIBLE_CORES", "2-3"),
            ("NEURON_RT_NUM_CORES", "1"),
        ],
    );
    let hash = |hash: &str| hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let given = std::env::var("TENON_GIT_HASH").unwrap_or_default();
    let there = common::repository().join(".git").exists();
    let found = ran.out.trim();
    let expected = if there { "the commit" } else { "unknown" };
    assert!(
        found == given || found == expected || there && hash(found),
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
fn tensors_and_sets() {
    let place = Place::new();
    let program = place.build("tensors");
    let ran = place
        .run(&program, &[], &[("TENON_CORE_MEMORY", "67108864")])
        .done();
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
    let log = std::fs::read_to_string(place.path().join("memlog.csv")).unwrap();
    assert!(log.starts_with("seconds,core,event,bytes,used\n"), "{log}");
    assert!(log.contains(",1,allocate,1048576,"), "{log}");
    let few = [
        ("TENON_CORE_MEMORY", "67108864"),
        ("NEURON_RT_DEBUG_MEMLOG_MAX_SIZE", "3"),
    ];
    place.run(&program, &[], &few).done();
    let log = std::fs::read_to_string(place.path().join("memlog.csv")).unwrap();
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
    // The execution without inputs: its reason is in the log.
    assert!(ran.err.contains("NRT:nrta_execute_schedule"), "{}", ran.err);
}

#[test]
fn programs_of_both_versions_are_told_apart() {
    let place = Place::new();
    let package = place.package(DIGITS, "digits.neff");
    let program = place.build("foreign_requests");
    let name = "TENON_NRT_ASYNC_API";
    for (client, environment) in [
        ("tracker", &[][..]),
        ("none", &[(name, "2")][..]),
        ("three", &[(name, "3")][..]),
    ] {
        let arguments = [package.to_str().unwrap(), client];
        place.run(&program, &arguments, environment).done();
    }
}

#[test]
fn executions_are_queued_and_heard_of() {
    on_digits(
        "asynchronous",
        &[("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", "3")],
    );
}

#[test]
fn what_happens_is_recorded() {
    on_digits("tracing", &[]);
}

#[test]
fn what_executions_make_is_shown() {
    on_digits(
        "debug_stream",
        &[("NEURON_RT_DEBUG_STREAM_BUFFER_SIZE", "3")],
    );
}

#[test]
fn those_tensors_are_shown_that_are_named() {
    let place = Place::new();
    let package = place.package(DIGITS, "digits.neff");
    let program = place.build("taps");
    let shown = |environment: &[(&str, &str)]| -> Vec<String> {
        let ran = place.run(&program, &[package.to_str().unwrap()], environment);
        ran.done().out.lines().map(str::to_owned).collect()
    };
    let all = shown(&[]);
    assert!(all.len() > 3, "{all:?}");
    let list = format!("{}, {},none", all[2], all[0]);
    let some = shown(&[("TENON_DEBUG_TAPS", &list)]);
    assert_eq!(some, [all[0].clone(), all[2].clone()]);
}

#[test]
fn executions_say_how_they_end() {
    let place = Place::new();
    let program = place.build("statuses");
    let check = [("TENON_CHECK_NAN", "1")];
    // All ones are NaN as floats; 0x7F in every byte is no index of anything.
    for (model, byte, status, environment, says) in [
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
        let package = place.package(model, "model.neff");
        let arguments = [package.to_str().unwrap(), byte, status];
        let ran = place.run(&program, &arguments, environment).done();
        assert!(ran.err.contains(says), "{}", ran.err);
    }
}

/// The only file of a name below the folder for profiles.
fn output(place: &Place, folder: &str, file: &str) -> Vec<u8> {
    let folders = std::fs::read_dir(place.path().join("output")).unwrap();
    let folders = folders.map(|entry| entry.unwrap().path());
    let named = |path: &std::path::PathBuf| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(folder)
    };
    let found: Vec<_> = folders.filter(named).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    std::fs::read(found[0].join(file)).unwrap()
}

#[test]
fn an_execution_fails_as_its_node_does() {
    let place = Place::new();
    let package = place.package_with_cpu_nodes("refuses_what_is_below_zero", "twice");
    let program = place.build("failures");
    let arguments = [package.to_str().unwrap(), "1", "0", "-1", "1004", "2", "0"];
    let allowed = ("TENON_ALLOW_NATIVE_NODES", "1");
    let kept = ("NEURON_RT_DBG_DUMP_INPUTS_ON_ERR", "true");
    let ran = place.run(&program, &arguments, &[allowed, kept]).done();
    let says = "the CPU function failed with 7: first: below zero";
    assert!(ran.err.contains(says), "{}", ran.err);
    let inputs = output(&place, "failed_inputs_", "x.bin");
    assert_eq!(inputs, (-1.0f32).to_le_bytes().repeat(4));
    // A link that was planted is neither followed nor written into.
    let planted = place.path().join("planted");
    std::fs::create_dir(&planted).unwrap();
    let text = format!(
        "ln -s {} output/failed_inputs_pid_$$_1; exec \"$@\"",
        planted.display()
    );
    let mut shell = place.command(Path::new("sh"));
    shell
        .args(["-c", &text, "sh"])
        .arg(&program)
        .args(arguments);
    let output = shell.envs([allowed, kept]).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(log.contains("cannot make"), "{log}");
    assert_eq!(planted.read_dir().unwrap().count(), 0);
    let unset = place.run(&program, &arguments, &[allowed]).done();
    assert!(
        !unset.err.contains("inputs of the execution"),
        "{}",
        unset.err
    );
    // Not allowed: refused when it is loaded.
    let ran = place.run(&program, &arguments, &[]);
    assert_eq!(ran.status, Some(1));
    assert!(
        ran.err.contains("set TENON_ALLOW_NATIVE_NODES=1"),
        "{}",
        ran.err
    );
}

#[test]
fn an_execution_that_takes_too_long_is_told() {
    let place = Place::new();
    let package = place.package_with_cpu_nodes("twice", "takes_1100_ms");
    let program = place.build("failures");
    let environment = [
        ("TENON_ALLOW_NATIVE_NODES", "1"),
        ("NEURON_RT_EXEC_TIMEOUT", "1"),
    ];
    let arguments = [package.to_str().unwrap(), "1", "5"];
    place.run(&program, &arguments, &environment).done();
    let unset = [package.to_str().unwrap(), "1", "0"];
    place.run(&program, &unset, &environment[..1]).done();
}

#[test]
fn a_long_kernel_is_stopped_at_the_limit() {
    let place = Place::new();
    // 2^35 products, of which the plain backend makes some 2^30 a second.
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
    let package = place.path().join("long.neff");
    let (options, control) = (tenon::neff::WriteOptions::default(), tenon::Control::new());
    let contents = compiled.contents;
    contents.write(&package, options, &control).unwrap();
    let program = place.build("timeouts");
    let environment = [("NEURON_RT_EXEC_TIMEOUT", "1")];
    let ran = place
        .run(&program, &[package.to_str().unwrap()], &environment)
        .done();
    assert!(ran.err.contains("NRT:nrt_execute"), "{}", ran.err);
}

#[test]
fn the_insides_of_failures_alone_are_inspected() {
    let place = Place::new();
    let package = place.package_with_cpu_nodes("twice", "refuses_what_is_below_zero");
    let program = place.build("failures");
    // What the first node makes of it is no number either.
    let arguments = [package.to_str().unwrap(), "1", "0", "nan", "1003", "2", "0"];
    let environment = [
        ("TENON_ALLOW_NATIVE_NODES", "1"),
        ("TENON_CHECK_NAN", "1"),
        ("NEURON_RT_INSPECT_ON_FAIL", "1"),
    ];
    place.run(&program, &arguments, &environment).done();
    let profile = output(&place, "session_1_", "device_profile.json");
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
    // Every execution is seen by the system's part.
    let system = output(&place, "session_1_", "system_profile.json");
    let system = String::from_utf8(system).unwrap();
    assert_eq!(
        system.matches("\"cat\":\"nrt_execute\"").count(),
        3,
        "{system}"
    );
    assert!(!system.contains("cpu_node"), "{system}");
}

#[test]
fn a_core_may_be_several_of_the_machine() {
    let place = Place::new();
    let source = place.path().join("pairs.c");
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
    let folder = common::source("");
    let include = format!("-I{}", folder.to_str().unwrap());
    let program = place.build_with("cc", &[&source], "pairs", &[&include, "-lnrt"]);
    let pair = ("NEURON_LOGICAL_NC_CONFIG", "2");
    let second = ("NEURON_RT_VISIBLE_CORES", "1");
    place.run(&program, &[], &[pair, second]).done();
    let too_large = ("NEURON_LOGICAL_NC_CONFIG", "5");
    let ran = place.run(&program, &[], &[too_large]);
    assert!(ran.err.contains("NRT_LOAD_NOT_ENOUGH_NC"), "{}", ran.err);
}

#[test]
fn casts_round_by_chance_where_they_are_asked_to() {
    let place = Place::new();
    let graph: tenon_graph::Graph = "graph \"cast\" (%x: f32[4096]) -> (%y) {\n\
                                       %y = Cast(%x) {to = \"bf16\"}\n}"
        .parse()
        .unwrap();
    let backends = tenon::backends::built_in();
    let options = tenon_compiler::Options::new(&backends);
    let compiled = tenon_compiler::compile(graph, &options).unwrap();
    let package = place.path().join("cast.neff");
    let control = tenon::Control::new();
    let options = tenon::neff::WriteOptions::default();
    compiled
        .contents
        .write(&package, options, &control)
        .unwrap();
    let program = place.build("rounding");
    let run = |environment: &[(&str, &str)]| -> Vec<usize> {
        let ran = place
            .run(&program, &[package.to_str().unwrap()], environment)
            .done();
        ran.out
            .split_whitespace()
            .map(|count| count.parse().unwrap())
            .collect()
    };
    // Of 4096 numbers a quarter of the way up, how many go up in each of two executions.
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
    let ran = place.run(&program, &[package.to_str().unwrap()], &[on, bad]);
    assert!(ran.err.contains("NRT_INVALID"), "{}", ran.err);
}

#[test]
fn the_environment_is_followed_or_refused() {
    let place = Place::new();
    let package = place.package(DIGITS, "digits.neff");
    let program = place.build("environment");
    let damaged = place.path().join("damaged.neff");
    let mut bytes = std::fs::read(&package).unwrap();
    // The first byte of the hash (facts, neuron.md 2.1).
    bytes[172] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let check = |package: &std::path::Path, variables: &[(&str, &str)], statuses: &str| {
        let ran = place
            .run(&program, &[package.to_str().unwrap()], variables)
            .done();
        assert_eq!(ran.out.trim(), statuses, "{variables:?}: {}", ran.err);
        // What is refused is named in the log.
        let named = variables.iter().any(|(name, _)| ran.err.contains(name));
        let explains = ["0 0", "0 4", "9 13"].contains(&statuses) || named;
        assert!(
            explains || ran.err.contains("hash"),
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
    // Documented, and without an effect here.
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
    // Words of other runtimes are named, and nothing is refused.
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
fn a_session_is_what_the_environment_wants() {
    let place = Place::new();
    let package = place.package(DIGITS, "digits.neff");
    let program = place.build("failures");
    let arguments = [package.to_str().unwrap(), "1", "0"];
    let variables = [
        ("NEURON_RT_INSPECT_ENABLE", "1"),
        ("NEURON_RT_INSPECT_OUTPUT_DIR", "output"),
        ("NEURON_RT_INSPECT_SYSTEM_PROFILE", "0"),
        ("NEURON_RT_INSPECT_EVENT_FILTER_TYPE", "nrt_execute, kernel"),
        ("NEURON_RT_INSPECT_EVENT_FILTER_NC", "0,1,2,3"),
    ];
    place.run(&program, &arguments, &variables).done();
    let profile = output(&place, "session_1_", "device_profile.json");
    let profile = String::from_utf8(profile).unwrap();
    assert!(profile.contains("\"cat\":\"kernel\"") && profile.contains("\"cat\":\"nrt_execute\""));
    assert!(!profile.contains("\"cat\":\"dma\""), "{profile}");
    let folder = std::fs::read_dir(place.path().join("output"))
        .unwrap()
        .next()
        .unwrap();
    assert!(!folder.unwrap().path().join("system_profile.json").exists());
}

#[test]
fn names_are_unique_and_fit_for_files() {
    let place = Place::new();
    let mut graph = tenon_graph::Graph::new("names");
    let ty = || tenon_tensor::TensorType::new(tenon_tensor::DataType::F32, [2]).unwrap();
    let long = |end: &str| "n".repeat(300) + end;
    let own = [
        "a/b".to_owned(),
        "a_b".to_owned(),
        "..".to_owned(),
        long("x"),
        long("y"),
    ];
    let read: Vec<_> = own.iter().map(|name| graph.add_input(name, ty())).collect();
    let made = graph.add_value("sum/of all", None);
    graph.nodes.push(tenon_graph::Node {
        name: "sum".into(),
        op: tenon_graph::operator::operator("Sum").unwrap(),
        attributes: tenon_graph::Attributes::new(),
        inputs: read.into_iter().map(Some).collect(),
        outputs: vec![Some(made)],
    });
    graph.outputs.push(made);
    let backends = tenon::backends::built_in();
    let compiled = tenon_compiler::compile(graph, &tenon_compiler::Options::new(&backends));
    let package = place.path().join("names.neff");
    let (options, control) = (tenon::neff::WriteOptions::default(), tenon::Control::new());
    compiled
        .unwrap()
        .contents
        .write(&package, options, &control)
        .unwrap();
    let mut arguments = vec![package.to_str().unwrap()];
    arguments.extend(own.iter().map(String::as_str).chain(["sum/of all"]));
    let ran = place.run(&place.build("names"), &arguments, &[]).done();
    let given: Vec<&str> = ran.out.lines().collect();
    assert_eq!(given.len(), 6, "{given:?}");
    for (index, name) in given.iter().enumerate() {
        assert!(!given[..index].contains(name), "{given:?}");
        assert!(
            !name.is_empty() && name.len() <= 251 && !name.contains('/'),
            "{name}"
        );
        // The sample of the interface writes `NAME.out`.
        std::fs::write(place.path().join(format!("{name}.out")), "").unwrap();
    }
}

#[test]
fn packages_of_other_compilers_are_refused_with_a_reason() {
    let place = Place::new();
    let program = place.build("environment");
    let Some(folder) = std::env::var_os("TENON_EXTRA_DATA") else {
        eprintln!("skipped: TENON_EXTRA_DATA is not set");
        return;
    };
    let files = std::fs::read_dir(std::path::Path::new(&folder).join("neff")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let mut seen = 0;
    for file in files.filter(|path| path.extension().is_some_and(|end| end == "neff")) {
        let ran = place.run(&program, &[file.to_str().unwrap()], &[]).done();
        // Features that are not known, or programs of an accelerator's engines.
        let status = if ran.err.contains("bit 11") { 10 } else { 2 };
        assert_eq!(ran.out.trim(), format!("0 {status}"), "{}", ran.err);
        assert!(ran.err.contains("ERROR  NRT:nrt_load"), "{}", ran.err);
        assert!(status == 10 || ran.err.contains("PE.bin"), "{}", ran.err);
        seen += 1;
    }
    assert!(seen > 0);
}

#[test]
fn one_worker_is_a_world() {
    let ran = alone("collectives", &[]);
    assert!(ran.err.contains("needs a network provider"), "{}", ran.err);
}

#[test]
fn what_is_absent_is_answered() {
    alone("absent", &[]);
}

#[test]
fn types_have_two_numberings() {
    let place = Place::new();
    let package = place.package(DIGITS, "digits.neff");
    let program = place.build("dtypes");
    let run = |number: &str, environment: &[(&str, &str)]| {
        let arguments = [package.to_str().unwrap(), number];
        place.run(&program, &arguments, environment).done();
    };
    run("10", &[]);
    run("10", &[("TENON_NRT_OLD_DTYPES", "0")]);
    run("1", &[("TENON_NRT_OLD_DTYPES", "1")]);
}

#[test]
fn a_client_in_cpp() {
    let place = Place::new();
    let program = place.build_with(
        "c++",
        &[&source("client.cpp")],
        "client",
        &["-std=c++17", "-lnrt", "-pthread"],
    );
    place.run(&program, &[], &[]).done();
}

#[test]
fn every_header_stands_by_itself() {
    let place = Place::new();
    let include = common::repository().join("include");
    for folder in ["nrt", "ndl", "tenon/nrt.h"] {
        let path = include.join(folder);
        let headers: Vec<_> = match path.is_dir() {
            true => std::fs::read_dir(path)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect(),
            false => vec![path],
        };
        assert!(!headers.is_empty());
        for header in headers {
            let header = header.strip_prefix(&include).unwrap().to_str().unwrap();
            for (compiler, standard) in [
                ("cc", "-std=c99"),
                ("cc", "-std=c11"),
                ("c++", "-std=c++11"),
            ] {
                let source = place
                    .path()
                    .join(if compiler == "cc" { "one.c" } else { "one.cpp" });
                std::fs::write(&source, format!("#include <{header}>\nint one;\n")).unwrap();
                let flags = [standard, "-Wextra", "-c"];
                place.build_with(compiler, &[&source], "one.o", &flags);
            }
        }
    }
}

#[test]
fn cores_have_one_owner_however_it_ends() {
    let place = Place::new();
    let source = place.path().join("holder.c");
    std::fs::write(
        &source,
        "#include <nrt/nrt.h>\n#include <stdio.h>\n#include <unistd.h>\n\
         int main(void) { int status = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, 0, 0);\n\
         printf(\"%d\\n\", status); fflush(stdout); char c; while (read(0, &c, 1) > 0) {}\n\
         return 0; }\n",
    )
    .unwrap();
    let program = place.build_with("cc", &[&source], "holder", &["-lnrt"]);
    let start = |cores: &str| {
        let mut command = place.command(&program);
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
    // Core 2 is taken: NRT_RESOURCE; core 4 is not there: NRT_LOAD_NOT_ENOUGH_NC.
    for (cores, expected) in [("2-3", 4), ("3-4", 9), ("1,3", 2), ("3", 0), ("0", 0)] {
        let (child, status) = start(cores);
        assert_eq!(status, expected, "{cores}");
        end(child);
    }
    // Killed, it has given nothing back, and yet its cores are free.
    holder.kill().unwrap();
    holder.wait().unwrap();
    let (child, status) = start("0-3");
    assert_eq!(status, 0);
    end(child);
}

/// `TENON_SOAK=1000000` makes it a soak.
#[test]
fn nothing_grows_and_nothing_is_lost() {
    let place = Place::new();
    let package = place.package(DIGITS, "digits.neff");
    let program = place.build("soak");
    let executions = std::env::var("TENON_SOAK").unwrap_or_else(|_| "16000".into());
    let ran = place
        .run(&program, &[package.to_str().unwrap(), &executions], &[])
        .done();
    eprint!("{}", ran.out);
}

/// Whether valgrind is there.
fn has_valgrind() -> bool {
    let found = std::process::Command::new("valgrind")
        .arg("--version")
        .output();
    if found.is_err() {
        eprintln!("skipped: valgrind is not there");
    }
    found.is_ok()
}

/// Runs a program under valgrind: what is used wrongly or lost fails.
fn under_valgrind(place: &Place, program: &std::path::Path, arguments: &[&str]) {
    let flags = ["--quiet", "--error-exitcode=9", "--leak-check=full"];
    let kinds = [
        "--errors-for-leak-kinds=definite",
        program.to_str().unwrap(),
    ];
    let arguments = [&flags[..], &kinds[..], arguments].concat();
    let variables = [("TENON_CORE_MEMORY", "67108864")];
    place
        .run("valgrind".as_ref(), &arguments, &variables)
        .done();
}

#[test]
fn memory_is_used_as_it_should_be() {
    if !has_valgrind() {
        return;
    }
    let place = Place::new();
    for name in ["tensors", "collectives", "absent"] {
        under_valgrind(&place, &place.build(name), &[]);
    }
}

#[test]
fn executions_use_memory_as_they_should() {
    if !has_valgrind() {
        return;
    }
    let place = Place::new();
    let package = place.package(DIGITS, "digits.neff");
    let package = package.to_str().unwrap();
    under_valgrind(&place, &place.build("environment"), &[package]);
    under_valgrind(
        &place,
        &place.build("failures"),
        &[package, "1", "0", "nan", "0"],
    );
}
