//! Profiles, CPU nodes, and the monitoring commands.

mod common;

use common::{Answer, command, done, repository, tenon, tiny};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn a_function_of_a_library_computes_a_node() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let library = tenon_test_libraries::cpu_nodes(folder);
    let flag = format!("twice={}:twice", library.display());
    let model = tiny("own");
    let compile = [
        "compile",
        &model,
        "-o",
        "own.neff",
        "--dim",
        "batch=2",
        "--cpu-node",
        &flag,
    ];
    done(folder, &compile);
    std::fs::write(folder.join("x.csv"), "0,1,-1\n0.5,2,-0.5\n").unwrap();
    let run = ["run", "own.neff", "--input", "x.csv", "--json"];
    let answer = tenon(folder, &run);
    assert_eq!(answer.status, Some(1));
    assert!(
        answer.err.contains("set TENON_ALLOW_NATIVE_NODES=1"),
        "{}",
        answer.err
    );
    let answer = Answer::of(command(folder, &run).env("TENON_ALLOW_NATIVE_NODES", "1"));
    let json: Value = serde_json::from_str(&answer.out).expect("JSON");
    let values = json["outputs"][0]["values"].as_array().unwrap();
    // exp(-2 x), from a table.
    for (found, expected) in values.iter().zip([
        1.0,
        0.135_335,
        7.389_056,
        0.367_879,
        0.018_316,
        std::f64::consts::E,
    ]) {
        let found = found.as_f64().unwrap();
        assert!(
            (found - expected).abs() < 1e-5 * expected.max(1.0),
            "{found} for {expected}"
        );
    }
    several_nodes_are_shown(folder);
    assert!(done(folder, &["verify", "own.neff"]).contains("own.neff"));
}

/// Tensors, nodes and attributes of the package of the test above.
fn several_nodes_are_shown(folder: &Path) {
    let info = done(folder, &["info", "own.neff"]);
    assert!(info.contains("tenon-cpu-nodes"), "{info}");
    for line in [
        "input   x     f32[2, 3]",
        "own.Twice by twice {factor = 2.0, names = [\"a\",\"b\"]}",
        "CPU",
        "kernel",
    ] {
        assert!(info.contains(line), "{line} is not in\n{info}");
    }
    let json: Value = serde_json::from_str(&done(folder, &["info", "own.neff", "--json"])).unwrap();
    assert_eq!(json["kind"], "package of several nodes");
    assert_eq!(json["inputs"][0]["shape"], serde_json::json!([2, 3]));
    let nodes = json["nodes"].as_array().unwrap();
    let on = nodes.iter().map(|node| node["on"].as_str().unwrap());
    assert!(
        on.clone().any(|on| on == "cpu") && on.clone().any(|on| on == "core"),
        "{json:#}"
    );
    let cpu = nodes.iter().find(|node| node["on"] == "cpu").unwrap();
    assert_eq!(cpu["symbol"], "twice");
    assert_eq!(cpu["attributes"]["factor"], 2.0);
    assert!(cpu["library_bytes"].as_u64().unwrap() > 1000);
    let memory = done(folder, &["info", "own.neff", "--memory"]);
    assert!(
        memory.contains("sg00:") && memory.contains("arena"),
        "{memory}"
    );
    let wide = done(folder, &["info", "own.neff", "--wide"]);
    assert!(wide.contains("NEFF Nodes:"), "{wide}");
}

#[test]
fn a_library_that_is_named_runs_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let library = tenon_test_libraries::cpu_nodes(folder);
    let flag = format!("twice={}:twice", library.display());
    std::fs::write(folder.join("x.csv"), "0,1,-1\n0.5,2,-0.5\n").unwrap();
    let model = tiny("own");
    let given = ["--dim", "batch=2", "--cpu-node", &flag];
    let run = ["run", &model, "-i", "x.csv"];
    let text = done(folder, &[&run[..], &given].concat());
    assert!(text.contains("y: f32[2, 3] [1.0, 0.13533"), "{text}");
    assert!(text.contains("\n2 ops: 2 CpuAcc; 1 CPU node\n"), "{text}");
    // The array fixes the batch size, also for the output of the function.
    let x = tenon::Tensor::from_slice([2, 3], &[0.5f32; 6]).unwrap();
    tenon::tensor::npy::write_npy(folder.join("x.npy"), &x).unwrap();
    let run = ["run", &model, "-i", "x.npy", "--cpu-node", &flag];
    assert!(done(folder, &run).contains("y: f32[2, 3]"));
    for command in ["bench", "profile"] {
        let seconds = match command {
            "bench" => ["--seconds", "0"],
            _ => ["--runs", "1"],
        };
        done(folder, &[&[command, &model], &given[..], &seconds].concat());
    }
    let placement = ["compile", &model, "--placement", "-o", "own.neff"];
    let text = done(folder, &[&placement[..], &given].concat());
    assert!(text.contains("2 ops: 2 CpuAcc; 1 CPU node"), "{text}");
    let row = text.lines().find(|line| line.starts_with("twice"));
    assert!(row.is_some_and(|row| row.contains("cpu node")), "{text}");
    // A package contains libraries that another user may have chosen.
    let answer = tenon(folder, &["run", "own.neff", "-i", "x.csv"]);
    assert!(
        answer.err.contains("TENON_ALLOW_NATIVE_NODES"),
        "{}",
        answer.err
    );
}

#[test]
fn cpu_nodes_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let library = tenon_test_libraries::cpu_nodes(folder)
        .display()
        .to_string();
    let refusal = |flag: &str| {
        let answer = tenon(
            folder,
            &[
                "compile",
                &tiny("own"),
                "--dim",
                "batch=2",
                "--cpu-node",
                flag,
            ],
        );
        assert_ne!(answer.status, Some(0));
        answer.err
    };
    let text = refusal(&format!("twice={library}:thrice"));
    assert!(
        text.contains("node 'twice': the library given for it has no symbol 'thrice'"),
        "{text}"
    );
    let text = refusal(&format!("missing={library}:twice"));
    assert!(
        text.contains("node 'missing': the model has no such node to be a CPU node"),
        "{text}"
    );
    // The operator is still unknown without a function that computes it.
    assert!(text.contains("own.Twice"), "{text}");
    let text = refusal(&format!("neg={library}:twice"));
    assert!(
        text.contains("its output 'n' has no type in the model"),
        "{text}"
    );
    assert!(refusal("twice").contains("expected NODE=LIB.so:SYMBOL"));
    assert!(refusal("twice=none.so:twice").contains("none.so: cannot read"));
}

#[test]
fn a_profile_has_every_node() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let model = repository("models/digits/digits.onnx");
    let table = done(folder, &["profile", &model, "--runs", "3"]);
    assert!(table.starts_with("time"), "{table}");
    assert!(
        table.contains("of ceiling") && table.contains("tenon.Conv"),
        "{table}"
    );
    assert!(
        table.contains("an execution, mean of 3; ceiling measured:"),
        "{table}"
    );
    let json = done(
        folder,
        &[
            "profile",
            &model,
            "--runs",
            "2",
            "--json",
            "--trace",
            "trace.json",
        ],
    );
    let json: Value = serde_json::from_str(&json).unwrap();
    let nodes = json["nodes"].as_array().unwrap();
    let share: f64 = nodes
        .iter()
        .map(|node| node["share"].as_f64().unwrap())
        .sum();
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    assert!(
        nodes
            .iter()
            .any(|node| node["flops"].as_u64().unwrap() > 10_000)
    );
    let trace = std::fs::read_to_string(folder.join("trace.json")).unwrap();
    let trace: Value = serde_json::from_str(&trace).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let has = |key: &str, value: &str| events.iter().any(|event| event[key] == value);
    assert!(has("cat", "kernel") && has("cat", "function") && has("cat", "execute"));
    assert!(has("ph", "C") && has("name", "thread_name"));
    let texts = |category: &'static str| {
        let of = events.iter().filter(move |event| event["cat"] == category);
        of.map(|event| &event["args"])
    };
    let conv = texts("kernel").find(|texts| texts["operator"] == "tenon.Conv");
    let conv = conv.expect("a convolution");
    assert_eq!(conv["backend"], "CpuAcc");
    let shapes = conv["shapes"].as_str().unwrap();
    assert!(
        shapes.starts_with("f32[1, 8, 8, 1] ") && shapes.contains(" -> f32[1, "),
        "{shapes}"
    );
    for texts in texts("kernel").chain(texts("dma")) {
        assert!(
            texts["backend"].is_string() && texts["shapes"].is_string(),
            "{texts}"
        );
    }
}

#[test]
fn a_command_that_runs_a_model_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let command = |arguments: &[&str]| {
        let mut command = command(folder, arguments);
        command.env("TENON_CORE_LOCKS", folder.join("shared"));
        command
    };
    let model = repository("models/digits/digits.onnx");
    let bench = ["bench", &model, "--seconds", "60"];
    let mut bench = command(&bench)
        .env("TENON_MONITOR_TAG", "bench\x1b[31m")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = bench.id();
    let watch = |arguments: &[&str]| {
        let output = command(arguments).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let began = Instant::now();
    let json = loop {
        let line = watch(&["monitor", "--period", "0.6", "--count", "1"]);
        let json: Value = serde_json::from_str(&line).unwrap();
        let process = &json["neuron_runtime_data"][0]["report"];
        let completed = &process["execution_stats"]["execution_summary"]["completed"];
        if completed.as_u64() > Some(0) {
            break json["neuron_runtime_data"][0].clone();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{json:#}");
    };
    assert_eq!(json["pid"], pid);
    let report = &json["report"];
    let latency = &report["execution_stats"]["latency_stats"]["total_latency"]["p50"];
    assert!(latency.as_f64().unwrap() > 0.0, "{json:#}");
    let model = &report["memory_used"]["loaded_models"][0];
    assert_eq!(model["name"], "digits");
    let page = watch(&["top", "--once", "--period", "0.6"]);
    assert!(
        page.contains(&format!("{pid} (bench\\u{{1b}}[31m)")),
        "{page}"
    );
    assert!(page.contains("model 1 digits, "), "{page}");
    assert!(watch(&["devices"]).contains(&format!("| {pid} ")));
    // A process that a signal ends leaves no report.
    kill_process(Pid::from_child(&bench), Signal::TERM).unwrap();
    assert_eq!(bench.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
    assert_eq!(folder.join("shared").read_dir().unwrap().count(), 0);
    assert!(!watch(&["devices", "--show-all-procs"]).contains(&format!("| {pid} ")));
}

#[test]
fn a_command_that_ends_soon_writes_no_report() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let model = repository("models/digits/digits.onnx");
    let mut command = command(folder, &["run", &model, "--random", "1"]);
    Answer::text(command.env("TENON_CORE_LOCKS", folder.join("shared")));
    let slow = folder.join("shared").exists();
    assert!(!slow || folder.join("shared").read_dir().unwrap().count() == 0);
}

#[test]
fn this_machine_is_one_device() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let run = |arguments: &[&str]| {
        let mut command = command(folder, arguments);
        command
            .env("TENON_CORES", "3")
            .env("TENON_CORE_LOCKS", folder);
        Answer::text(&mut command)
    };
    let table = run(&["devices", "--topology"]);
    assert!(table.contains("| 0      | 3      | 0-2      |"), "{table}");
    assert!(table.contains("[ 0 ]  3 cores"), "{table}");
    let json: Value = serde_json::from_str(&run(&["devices", "--json-output"])).unwrap();
    assert_eq!(json[0]["nc_count"], 3);
    let lines = run(&["monitor", "--period", "0.05", "--count", "2"]);
    assert_eq!(lines.lines().count(), 2);
    for line in lines.lines() {
        let json: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            json["neuron_hardware_info"]["neuroncore_per_device_count"],
            3
        );
        assert!(
            json["system_data"]["memory_info"]["memory_used_bytes"]
                .as_u64()
                .unwrap()
                > 0
        );
    }
    let page = run(&["top", "--once", "--period", "0.05"]);
    assert!(
        page.starts_with("tenon top") && page.contains("3 cores"),
        "{page}"
    );
    std::fs::write(
        folder.join("config.json"),
        r#"{"system_metrics": [{"type": "rain"}]}"#,
    )
    .unwrap();
    let config = folder.join("config.json").display().to_string();
    let answer = tenon(folder, &["monitor", "-c", &config]);
    assert_eq!(answer.status, Some(2));
    assert!(answer.err.contains("unknown metric type"), "{}", answer.err);
}

#[test]
fn the_page_for_prometheus_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(folder.path(), &["monitor", "--prometheus", "0"]);
    command.env("TENON_CORE_LOCKS", folder.path());
    let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(server.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let address = line
        .trim()
        .strip_prefix("http://")
        .unwrap()
        .strip_suffix("/metrics")
        .unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    write!(client, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut page = String::new();
    client.read_to_string(&mut page).unwrap();
    assert!(
        page.starts_with("HTTP/1.1 200") && page.contains("system_memory_total_bytes "),
        "{page}"
    );
    server.kill().unwrap();
    server.wait().unwrap();
}
