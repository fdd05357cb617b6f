//! Backends that are loaded from libraries, through the command line.

mod common;

use common::{Answer, done, folder, tenon, tiny};
use std::path::Path;
use std::process::Command;

fn example(folder: &Path) {
    tenon_test_libraries::example_in_c(folder, "Example_C_backend.so");
}

/// A fused node of the example is compared with its parts.
#[test]
fn a_fused_node_is_compared() {
    let folder = folder();
    example(folder.path());
    let here = folder.path().to_str().unwrap().to_owned();
    let model = tiny("chain");
    let loading = ["--backend-path", &here];
    let pair = ["--backends", "ExampleC,CpuRef"];
    let compare = [&["compare", &model, "--random", "0"], &loading[..], &pair].concat();
    let agree = done(folder.path(), &compare);
    assert!(agree.contains("1 operator agrees"), "{agree}");

    let twice = ["--backend-option", "ExampleC.Scale=2.0"];
    let answer = tenon(folder.path(), &[&compare[..], &twice].concat());
    assert_eq!(answer.status, Some(1), "{}", answer.err);
    let differs = "chain (tenon.Precompiled) differs";
    assert!(answer.out.contains(differs), "{}", answer.out);
    let arrays = ["--input", "chain.npz", "--compare", "chain.npz"];
    let again = [&["run", "chain.neff"], &arrays[..], &loading].concat();
    done(folder.path(), &again);
    let again = tenon(folder.path(), &[&again[..], &twice].concat());
    assert_eq!(again.status, Some(1), "{}{}", again.out, again.err);
    // The printed command loads the same backend with the same option.
    let rerun = answer.out.lines().last().unwrap().split_whitespace();
    let rerun: Vec<&str> = rerun.skip(1).collect();
    let rerun = tenon(folder.path(), &rerun);
    assert_eq!(rerun.status, Some(1), "{}", rerun.err);
    assert_eq!(rerun.out.lines().last(), again.out.lines().last());
}

/// The main thread, on which the command checks, reports the heap in use.
#[test]
fn leaks_are_found() {
    let folder = folder();
    let source =
        tenon_test_libraries::repository("crates/backends/backend/tests/fixtures/variant.c");
    for (definition, expected) in [
        ("CLEAN", "passed  nothing leaks: of backends, "),
        ("LEAKS", "FAILED  nothing leaks: workloads: 1"),
    ] {
        let library = folder.path().join("Test_Leak_backend.so");
        tenon_test_libraries::compiled(&source, &library, &[definition]);
        let answer = tenon(folder.path(), &["plugin", "check", "Test_Leak_backend.so"]);
        let row = answer
            .out
            .lines()
            .find(|line| line.contains("nothing leaks"));
        let row = row.unwrap_or_else(|| panic!("{}{}", answer.out, answer.err));
        assert!(row.contains(expected), "{row}");
    }
}

#[test]
fn a_model_runs_on_a_loaded_backend() {
    let folder = folder();
    example(folder.path());
    let here = folder.path().to_str().unwrap().to_owned();
    let model = tiny("chain");
    let loading = [
        "--backend-path",
        &here,
        "--backends",
        "ExampleC,CpuAcc,CpuRef",
    ];
    let run = ["run", &model, "--random", "1", "--json"];
    let answer = |flags: &[&str]| {
        let all: Vec<&str> = run.iter().chain(flags).copied().collect();
        let text = done(folder.path(), &all);
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    let (plain, loaded) = (answer(&[]), answer(&loading));
    let placement = loaded["placement"].as_str().unwrap();
    assert!(placement.contains("ExampleC"), "{placement}");
    let values = |answer: &serde_json::Value| -> Vec<f64> {
        let list = answer["outputs"][0]["values"].as_array().unwrap();
        list.iter().map(|value| value.as_f64().unwrap()).collect()
    };
    for (plain, loaded) in values(&plain).iter().zip(values(&loaded)) {
        assert!(
            (plain - loaded).abs() <= 1e-4 * plain.abs().max(1.0),
            "{plain} {loaded}"
        );
    }

    let mut compile = vec!["compile", &model, "-o", "chain.neff"];
    compile.extend(loading);
    done(folder.path(), &compile);
    let run = ["run", "chain.neff", "--random", "1", "--quiet"];
    let answer = tenon(folder.path(), &run);
    assert_eq!(answer.status, Some(1));
    assert!(
        answer.err.contains("backend ExampleC is unavailable"),
        "{}",
        answer.err
    );
    let found: Vec<&str> = run.into_iter().chain(["--backend-path", &here]).collect();
    done(folder.path(), &found);
}

#[test]
fn options_are_listed_taken_and_refused() {
    let folder = folder();
    example(folder.path());
    let here = folder.path().to_str().unwrap().to_owned();
    let text = done(folder.path(), &["backends", "--backend-path", &here]);
    assert!(
        text.contains("ExampleC.Scale: factor of the result of a chain (model, float, default 1)"),
        "{text}"
    );
    let flags = ["backends", "--backend-path", &here, "--backend-option"];
    let with = |option: &str| {
        let flags: Vec<&str> = flags.into_iter().chain([option]).collect();
        tenon(folder.path(), &flags)
    };
    assert_eq!(with("ExampleC.Scale=2.5").status, Some(0));
    let wrong = with("ExampleC.Scale=big");
    assert_eq!(wrong.status, Some(1));
    let expected = "option ExampleC.Scale: the value is of another kind: expected float, found big";
    assert!(wrong.err.contains(expected), "{}", wrong.err);
    assert_eq!(with("Scale").status, Some(2));
}

#[test]
fn libraries_are_listed_with_those_that_are_skipped() {
    let folder = folder();
    example(folder.path());
    std::fs::write(folder.path().join("Broken_Text_backend.so"), "text").unwrap();
    let here = folder.path().to_str().unwrap().to_owned();
    let text = done(folder.path(), &["plugin", "list", "--backend-path", &here]);
    assert!(
        text.contains("ExampleC") && text.contains("cannot be opened"),
        "{text}"
    );
    let text = done(
        folder.path(),
        &["plugin", "list", "--backend-path", &here, "--json"],
    );
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list["libraries"][0]["problem"], "not-a-library");
    assert_eq!(list["libraries"][1]["id"], "ExampleC");
    let text = done(folder.path(), &["plugin", "list", "--backend-path", "here"]);
    assert!(
        text.contains("skipped: here: the path is not absolute"),
        "{text}"
    );

    let listed = tenon(folder.path(), &["backends", "--backend-path", &here]);
    assert_eq!(listed.status, Some(0));
    assert!(listed.err.contains("warning: ") && listed.out.contains("ExampleC"));
}

#[test]
fn the_folders_of_the_environment_are_looked_in() {
    let folder = folder();
    example(folder.path());
    let mut command = common::command(folder.path(), &["backends", "--json"]);
    let text = Answer::text(command.env("TENON_BACKEND_PATH", folder.path()));
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    let ids: Vec<&str> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|b| b["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["CpuAcc", "CpuRef", "ExampleC"]);
}

#[test]
fn a_library_is_checked_and_a_crash_is_a_failed_check() {
    let folder = folder();
    example(folder.path());
    let text = done(folder.path(), &["plugin", "check", "Example_C_backend.so"]);
    assert!(text.contains("passed  results against CpuRef: "), "{text}");
    assert!(text.contains(" 0 failed, "), "{text}");

    let source = "#include <stdlib.h>\n#include <stdint.h>\n\
        const char *GetBackendId(void) { return \"Crash\"; }\n\
        void GetVersion(uint32_t *a, uint32_t *b) { *a = 1; *b = 0; }\n\
        void *BackendFactory(void) { abort(); }\n";
    std::fs::write(folder.path().join("crash.c"), source).unwrap();
    let library = folder.path().join("Test_Crash_backend.so");
    tenon_test_libraries::compiled(&folder.path().join("crash.c"), &library, &[]);
    let answer = tenon(folder.path(), &["plugin", "check", "Test_Crash_backend.so"]);
    assert_eq!(answer.status, Some(1));
    assert!(
        answer.out.contains("FAILED  the process survives: "),
        "{}",
        answer.out
    );
    let check = ["plugin", "check", "Test_Crash_backend.so", "--json"];
    let answer = tenon(folder.path(), &check);
    let report: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(report["failed"], 1);

    let answer = tenon(folder.path(), &["plugin", "check", "none.so", "--json"]);
    assert_eq!(answer.status, Some(1));
    let report: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(report["checks"][0]["check"], "exports and version");
}

/// The fixture of the loader's tests, with these definitions.
fn variant(folder: &Path, name: &str, definitions: &[&str]) {
    let source =
        tenon_test_libraries::repository("crates/backends/backend/tests/fixtures/variant.c");
    tenon_test_libraries::compiled(&source, &folder.join(name), definitions);
}

/// docs/backends.md, "Search path": libraries that loading refuses are listed with the reason.
#[test]
fn the_list_has_the_reason_of_each_library_that_is_not_loaded() {
    let folder = folder();
    let libraries = [
        ("Test_A_backend.so", "ID=\"Valid\"", "Valid"),
        (
            "Test_B_backend.so",
            "ID=\"Valid\"",
            "backend Valid is already registered",
        ),
        (
            "Test_C_backend.so",
            "ID=\"CpuRef\"",
            "backend CpuRef is already registered",
        ),
        ("Test_D_backend.so", "ID=\"\"", "the id '' is reserved"),
        (
            "Test_E_backend.so",
            "ID=\"Unknown\"",
            "the id 'Unknown' is reserved",
        ),
        (
            "Test_F_backend.so",
            "NULL_FACTORY ID=\"F\"",
            "BackendFactory returns null",
        ),
        ("Test_G_backend.so", "SIZE=16 ID=\"G\"", "has size 16"),
        (
            "Test_H_backend.so",
            "CRASHES ID=\"H\"",
            "the library ended its process",
        ),
        ("Test_I_backend.so", "ID=\"Last\"", "Last"),
    ];
    for (name, definition, _) in libraries {
        let definitions: Vec<&str> = definition.split(' ').collect();
        variant(folder.path(), name, &definitions);
    }
    let here = folder.path().to_str().unwrap();
    let list = ["plugin", "list", "--backend-path", here];
    let text = done(folder.path(), &list);
    for (name, _, expected) in libraries {
        let row = text.lines().find(|line| line.contains(name));
        assert!(
            row.is_some_and(|row| row.contains(expected)),
            "{name}: {text}"
        );
    }
    let text = done(folder.path(), &[&list[..], &["--json"]].concat());
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    let codes = list["libraries"].as_array().unwrap().iter();
    let codes: Vec<&str> = codes.filter_map(|one| one["problem"].as_str()).collect();
    let expected = [
        "duplicate-id",
        "duplicate-id",
        "reserved-id",
        "reserved-id",
        "no-backend",
        "bad-backend",
        "crash",
    ];
    assert_eq!(codes, expected);
}

#[test]
fn libraries_that_do_not_answer_are_skipped() {
    let folder = folder();
    variant(folder.path(), "Test_Sleeps_backend.so", &["SLEEPS"]);
    variant(folder.path(), "Test_Valid_backend.so", &[]);
    let pipe = folder.path().join("Test_Pipe_backend.so");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let here = folder.path().to_str().unwrap();
    let list = [
        "plugin",
        "list",
        "--backend-path",
        here,
        "--time-limit",
        "1",
    ];
    let text = done(folder.path(), &list);
    let has = |name: &str, expected: &str| {
        let mut lines = text.lines().filter(|line| line.contains(name));
        assert!(lines.any(|line| line.contains(expected)), "{name}: {text}");
    };
    has("Test_Sleeps", "no answer within 1s");
    has("Test_Valid", "Valid");
    has("Test_Pipe", "not a regular file");

    let check = [
        "plugin",
        "check",
        "Test_Sleeps_backend.so",
        "--time-limit",
        "1",
    ];
    let answer = tenon(folder.path(), &check);
    assert_eq!(answer.status, Some(1));
    let ended = "FAILED  the process survives: the check did not end within 1s";
    assert!(answer.out.contains(ended), "{}", answer.out);

    // A pipe with the name of a library is not opened.
    let answer = tenon(folder.path(), &["plugin", "check", "Test_Pipe_backend.so"]);
    assert_eq!(answer.status, Some(1));
    assert!(answer.out.contains("not a regular file"), "{}", answer.out);
    let pipe = pipe.to_str().unwrap();
    let node = format!("relu={pipe}:function");
    for command in [
        &[
            "compile",
            &tiny("chain"),
            "-o",
            "x.neff",
            "--cpu-node",
            &node,
        ][..],
        &["exec", "none.mlir", "--shared_libs", pipe],
    ] {
        let answer = tenon(folder.path(), command);
        assert_ne!(answer.status, Some(0), "{command:?}");
    }
    // A pipe in a folder of backends does not block.
    std::fs::remove_file(folder.path().join("Test_Sleeps_backend.so")).unwrap();
    let answer = tenon(folder.path(), &["backends", "--backend-path", here]);
    assert_eq!(answer.status, Some(0));
    assert!(answer.err.contains("not a regular file"), "{}", answer.err);
}

/// A crash in a callback on a thread of the library.
#[test]
fn a_crash_on_a_thread_of_a_library_is_a_failed_check() {
    let folder = folder();
    let source = "#include <pthread.h>\n#include <stdlib.h>\n#include <tenon/backend.h>\n\
        static void *crash(void *x) { (void)x; abort(); }\n\
        static const tenon_failure *supports(const tenon_backend *b, const tenon_node *n) {\n\
            pthread_t t; (void)b; (void)n;\n\
            pthread_create(&t, NULL, crash, NULL); pthread_join(t, NULL); return NULL; }\n\
        static const tenon_failure *workload(const tenon_backend *b, const tenon_node *n,\n\
            const tenon_memory_manager *m, const tenon_workload **w) {\n\
            (void)m; (void)w; return supports(b, n); }\n\
        static const tenon_backend table = {.size = sizeof table, .supports = supports,\n\
            .workload = workload};\n\
        const char *GetBackendId(void) { return \"Crash\"; }\n\
        void GetVersion(uint32_t *a, uint32_t *b) { *a = 1; *b = 0; }\n\
        void *BackendFactory(void) { return (void *)&table; }\n";
    std::fs::write(folder.path().join("crash.c"), source).unwrap();
    let library = folder.path().join("Test_Crash_backend.so");
    tenon_test_libraries::compiled(&folder.path().join("crash.c"), &library, &[]);
    let check = ["plugin", "check", "Test_Crash_backend.so", "--json"];
    let answer = tenon(folder.path(), &check);
    assert_eq!(answer.status, Some(1));
    let report: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(report["checks"][0]["check"], "the process survives");
    // Packages without it are not affected.
    let here = folder.path().to_str().unwrap();
    let flags = [
        "run",
        &tiny("chain"),
        "--random",
        "1",
        "--quiet",
        "--backend-path",
        here,
    ];
    done(folder.path(), &flags);
}

#[test]
fn protected_content_does_without_backends_that_cannot_keep_it() {
    let folder = folder();
    let model = tiny("chain");
    let flags = ["run", &model, "--random", "1", "--protected-content"];
    let answer = tenon(folder.path(), &flags);
    assert_eq!(answer.status, Some(1), "{}", answer.err);
    for id in ["CpuAcc", "CpuRef"] {
        let message = format!(
            "warning: without backend {id}: backend {id} cannot keep protected content: \
             expected capability ProtectedContentAllocation = true"
        );
        assert!(answer.err.contains(&message), "{}", answer.err);
    }
    assert!(
        answer.err.contains("no backend to place the model on"),
        "{}",
        answer.err
    );
}

#[test]
fn a_loaded_backend_is_compared_with_another() {
    let folder = folder();
    example(folder.path());
    let here = folder.path().to_str().unwrap();
    let flags = [
        "compare",
        &tiny("batch"),
        "--dim",
        "batch=2",
        "--random",
        "1",
        "--backend-path",
        here,
        "--backends",
        "ExampleC,CpuRef",
    ];
    let text = done(folder.path(), &flags);
    let expected = "1 operator agrees on ExampleC and CpuRef; the largest difference is 0";
    assert!(text.contains(expected), "{text}");
}

/// A library for another device of the backend, and one of an older version that states none.
#[test]
fn a_package_is_refused_on_another_device() {
    let folder = folder();
    let source =
        tenon_test_libraries::repository("crates/backends/backend/tests/fixtures/variant.c");
    let here = folder.path().to_str().unwrap().to_owned();
    let library = folder.path().join("Test_Npu_backend.so");
    let npu = |definitions: &[&str]| {
        // Another file: a loaded library is not written.
        std::fs::remove_file(&library).ok();
        tenon_test_libraries::compiled(&source, &library, definitions);
    };
    npu(&["ID=\"Npu\"", "TARGET=\"npu-1\""]);
    let model = tiny("chain");
    let loading = ["--backend-path", &here];
    let compile = [
        "compile",
        &model,
        "-o",
        "m.neff",
        "--backends",
        "Npu,CpuRef",
    ];
    done(folder.path(), &[&compile[..], &loading].concat());
    let info = done(folder.path(), &["info", "m.neff"]);
    assert!(info.contains("compiled for npu-1 (Npu)"), "{info}");
    let run = ["run", "m.neff", "--random", "0"];
    let run = [&run[..], &loading].concat();
    done(folder.path(), &run);
    for (definitions, found) in [
        (&["ID=\"Npu\"", "TARGET=\"npu-2\""][..], "found 'npu-2'"),
        (&["ID=\"Npu\""], "found none"),
    ] {
        npu(definitions);
        let answer = tenon(folder.path(), &run);
        assert_eq!(answer.status, Some(1), "{}", answer.out);
        assert!(answer.err.contains("target 'npu-1'"), "{}", answer.err);
        assert!(answer.err.contains(found), "{}", answer.err);
    }
}

/// The memory of a device that a package needs, and a limit below it.
#[test]
fn the_memory_of_a_device_is_shown_and_limited() {
    let folder = folder();
    tenon_test_libraries::example_async(folder.path(), "Example_SimAsync_backend.so");
    let here = folder.path().to_str().unwrap().to_owned();
    let model = tiny("chain");
    let loading = ["--backend-path", &here];
    let backends = ["--backends", "SimAsync,CpuRef"];
    let compile = [
        &["compile", &model, "-o", "m.neff"],
        &backends[..],
        &loading,
    ]
    .concat();
    done(folder.path(), &compile);

    let info = ["info", "m.neff", "--memory"];
    let text = done(folder.path(), &[&info[..], &loading].concat());
    assert!(text.contains("\nSimAsync: "), "{text}");
    assert!(
        text.contains(" of its memory for the values of an execution, "),
        "{text}"
    );
    let text = done(folder.path(), &[&info[..], &["--json"], &loading].concat());
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let device = &json["devices"][0];
    assert_eq!(device["backend"], "SimAsync");
    let bytes = |name: &str| device[name].as_u64().unwrap();
    let needed = bytes("value_bytes") + bytes("workload_bytes");
    assert!(
        bytes("value_bytes") > 0 && bytes("workload_bytes") > 0,
        "{text}"
    );
    let text = done(folder.path(), &info);
    assert!(
        text.contains("the memory of SimAsync is not known: "),
        "{text}"
    );

    let run = |limit: &str| {
        let limit = ["--device-memory-limit", limit];
        let run = ["run", "m.neff", "--random", "0", "--quiet"];
        tenon(folder.path(), &[&run[..], &limit, &loading].concat())
    };
    assert_eq!(run(&format!("SimAsync={needed}")).status, Some(0));
    let refused = run(&format!("SimAsync={}", needed - 1));
    assert_eq!(refused.status, Some(1));
    assert!(
        refused.err.contains("memory of backend SimAsync"),
        "{}",
        refused.err
    );
    assert!(
        refused.err.contains(&format!("{needed} bytes")),
        "{}",
        refused.err
    );
    let unknown = run("SimAsinc=1G");
    assert!(
        unknown.err.contains("did you mean SimAsync?"),
        "{}",
        unknown.err
    );
    assert_eq!(run("SimAsync").status, Some(2));
}

/// What a device compiles at load is in the cache of the user, which is listed and cleared.
#[test]
fn the_cache_is_used_listed_and_cleared() {
    let folder = folder();
    tenon_test_libraries::example_async(folder.path(), "Example_SimAsync_backend.so");
    let here = folder.path().to_str().unwrap().to_owned();
    let tenon = |cache: &str, arguments: &[&str]| {
        Answer::of(common::command(folder.path(), arguments).env("TENON_CACHE_DIR", cache))
    };
    let entries = |cache: &str| {
        let answer = tenon(cache, &["cache", "list", "--json"]);
        let list: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
        list["entries"].as_array().unwrap().clone()
    };
    let model = tiny("chain");
    let run = [
        "run",
        &model,
        "--random",
        "0",
        "--quiet",
        "--backends",
        "SimAsync,CpuRef",
        "--backend-path",
        &here,
    ];
    assert!(entries("cache").is_empty());
    for _ in 0..2 {
        let answer = tenon("cache", &run);
        assert_eq!((answer.status, &*answer.err), (Some(0), ""));
    }
    let found = entries("cache");
    assert!(!found.is_empty());
    assert_eq!(found[0]["backend"], "SimAsync");
    let listed = tenon("cache", &["cache", "list"]).out;
    assert!(
        listed.contains("sim-1: ") && listed.contains("of at most 1.1 GB"),
        "{listed}"
    );
    let cleared = tenon("cache", &["cache", "clear"]).out;
    assert!(cleared.contains(" deleted, "), "{cleared}");
    assert!(entries("cache").is_empty());

    // A file where the folder would be: one warning.
    std::fs::write(folder.path().join("file"), "").unwrap();
    let answer = tenon("file", &run);
    assert_eq!(answer.status, Some(0), "{}", answer.err);
    assert_eq!(answer.err.matches("warning: ").count(), 1, "{}", answer.err);
    assert!(answer.err.contains("TENON_CACHE_DIR"), "{}", answer.err);
    // Turned off.
    assert_eq!(tenon("", &run).err, "");
    let answer = tenon("", &["cache", "list"]);
    assert_eq!(answer.status, Some(1));
    assert!(answer.err.contains("there is no cache"), "{}", answer.err);
}

/// The parts of a device's workloads are below their nodes.
#[test]
fn parts_of_workloads_are_shown() {
    let folder = folder();
    tenon_test_libraries::example_async(folder.path(), "Example_SimAsync_backend.so");
    let here = folder.path().to_str().unwrap().to_owned();
    let model = tiny("chain");
    let flags = [
        model.as_str(),
        "--random",
        "0",
        "--backends",
        "SimAsync,CpuRef",
        "--backend-path",
        &here,
    ];
    let with = |first: &[&str], last: &[&str]| done(folder.path(), &[first, &flags, last].concat());
    let text = with(&["profile"], &["--runs", "2", "--trace", "trace.json"]);
    assert!(
        text.contains("  compute\n") && text.contains("  delay\n"),
        "{text}"
    );
    let trace = std::fs::read_to_string(folder.path().join("trace.json")).unwrap();
    assert!(
        trace.contains("\"part\"") && trace.contains("\"compute\""),
        "{trace}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&with(&["profile"], &["--runs", "2", "--json"])).unwrap();
    let nodes = json["nodes"].as_array().unwrap();
    let parts = nodes
        .iter()
        .map(|node| (node["us"].as_f64(), node["parts"].as_array()));
    for (time, parts) in parts {
        let parts = parts.unwrap();
        assert_eq!(parts[0]["name"], "compute");
        let sum: f64 = parts.iter().map(|part| part["us"].as_f64().unwrap()).sum();
        assert!(sum <= time.unwrap() + 0.1, "{json}");
    }
    let text = with(&["run"], &["--tap", "*", "--profile"]);
    assert!(
        text.contains(": compute ") && text.contains("  delay\n"),
        "{text}"
    );
}
