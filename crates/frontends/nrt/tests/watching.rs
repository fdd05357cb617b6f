//! Monitors of a process that executes a model.

mod common;

use common::TestFolder;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tenon_monitor::{Config, Devices, Machine, Metrics, Sample, Screen};

/// The metrics of the first period in which the process reports executions.
fn metrics(machine: &Machine) -> Metrics {
    let started = Instant::now();
    loop {
        let earlier = Sample::now(machine);
        std::thread::sleep(Duration::from_millis(600));
        let metrics = Metrics::between(machine, earlier, Sample::now(machine));
        let json = metrics.json(&Config::default());
        let summary =
            &json["neuron_runtime_data"][0]["report"]["execution_stats"]["execution_summary"];
        if summary["completed"].as_u64() > Some(0) {
            return metrics;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{json:#}");
    }
}

#[test]
fn monitors_observe_a_process_that_executes() {
    let folder = TestFolder::new();
    let package = folder.package("models/digits/digits.onnx", "digits.neff");
    let program = folder.build("watched");
    let mut command = folder.command(&program);
    command
        .arg(&package)
        .env("NEURON_RT_VISIBLE_CORES", "1-2")
        .env("TENON_MONITOR_TAG", "a tag")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let pid = child.id();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let machine = Machine {
        cores: 4,
        folders: vec![folder.path().join("locks")],
        ..Machine::this().unwrap()
    };

    let metrics = metrics(&machine);
    let json = metrics.json(&Config::default());
    let process = &json["neuron_runtime_data"][0];
    assert_eq!(json["neuron_runtime_data"].as_array().unwrap().len(), 1);
    assert_eq!(process["pid"], pid);
    assert_eq!(process["neuron_runtime_tag"], "a tag");
    let report = &process["report"];
    let cores = report["neuroncore_counters"]["neuroncores_in_use"]
        .as_object()
        .unwrap();
    assert_eq!(cores.keys().collect::<Vec<_>>(), ["1", "2"]);
    let busy = |core: &str| cores[core]["neuroncore_utilization"].as_f64().unwrap();
    assert!(busy("2") > 0.0 && busy("1") == 0.0, "{json:#}");
    assert!(cores["2"]["flops"].as_f64().unwrap() > 0.0, "{json:#}");
    let latency = &report["execution_stats"]["latency_stats"];
    for kind in ["total_latency", "device_latency"] {
        assert!(latency[kind]["p50"].as_f64().unwrap() > 0.0, "{json:#}");
    }
    let models = report["memory_used"]["loaded_models"].as_array().unwrap();
    assert_eq!(models.len(), 1);
    assert_eq!(models[0]["subgraphs"]["sg_00"]["neuroncore_index"], 2);
    let used = &report["memory_used"]["neuron_runtime_used_bytes"]["usage_breakdown"];
    let used = &used["neuroncore_memory_usage"]["2"]["constants"];
    assert!(used.as_u64().unwrap() > 1000, "{json:#}");

    let devices = Devices::now(machine.clone());
    let json: Value = devices.json();
    assert_eq!(json[0]["nc_count"], 4);
    let processes = json[0]["neuron_processes"].as_array().unwrap();
    assert_eq!(processes.len(), 1);
    assert_eq!(processes[0]["pid"], pid);
    assert!(
        processes[0]["command"]
            .as_str()
            .unwrap()
            .contains("watched"),
        "{json:#}"
    );
    assert_eq!(
        processes[0]["neuron_runtime_version"],
        env!("CARGO_PKG_VERSION")
    );
    let owner = |core| machine.owner(core);
    assert_eq!([0, 1, 2, 3].map(owner), [None, Some(pid), Some(pid), None]);

    let page = Screen::new(&metrics, 120).text();
    let core = |number: u32| {
        let start = format!("{number:>4} [");
        page.lines()
            .find(|line| line.starts_with(&start))
            .unwrap_or_default()
    };
    assert!(
        core(1).ends_with(&pid.to_string()) && core(2).ends_with(&pid.to_string()),
        "{page}"
    );
    assert!(
        page.contains(&format!("{pid} (a tag)")) && page.contains("on core 2"),
        "{page}"
    );
    let exposition = metrics.exposition();
    assert!(
        exposition.contains(&format!("pid=\"{pid}\"")),
        "{exposition}"
    );

    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(
        Devices::now(machine.clone()).json()[0]["neuron_processes"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    let now = Sample::now(&machine);
    let ended = Metrics::between(&machine, now.clone(), now).json(&Config::default());
    assert!(ended["neuron_runtime_data"].as_array().unwrap().is_empty());
}

#[test]
fn a_folder_that_other_users_can_write_is_not_used() {
    let folder = TestFolder::new();
    let package = folder.package("models/digits/digits.onnx", "digits.neff");
    let program = folder.build("watched");
    let shared = folder.path().join("locks");
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o777)).unwrap();
    let private = folder.path().join("own");
    let mut child = folder
        .command(&program)
        .arg(&package)
        .env("NEURON_RT_VISIBLE_CORES", "1-2")
        .env("NEURON_RT_LOG_LEVEL", "WARNING")
        .env("XDG_RUNTIME_DIR", &private)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n", "nrt_init must not fail");
    let machine = Machine {
        cores: 4,
        folders: vec![private.join("tenon-cores")],
        ..Machine::this().unwrap()
    };
    assert_eq!(machine.owner(1), Some(child.id()));
    metrics(&machine);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let mut log = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut log)
        .unwrap();
    let warnings = log.lines().filter(|line| line.contains("  WARN "));
    assert_eq!(warnings.count(), 1, "{log}");
    assert!(log.contains("others may replace files in it"), "{log}");
    assert!(log.contains("own/tenon-cores is used instead"), "{log}");
    assert_eq!(shared.read_dir().unwrap().count(), 0);
}
