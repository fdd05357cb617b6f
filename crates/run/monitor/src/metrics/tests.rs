use super::*;
use crate::system::{Memory, Processors};
use std::time::{Duration, Instant};
use tenon_runtime::{Counters, ModelReport, Outcome};

/// Metrics of two seconds, in which core 2 executed half of the time.
pub(crate) fn metrics() -> Metrics {
    let counters = Counters::default();
    let core = |busy_nanos, flops| CoreReport {
        core: 2,
        executions: 1,
        busy_nanos,
        flops,
        busy: true,
        memory: [("constants".to_owned(), 100), ("tensors".to_owned(), 23)].into(),
        memory_limit: 1000,
    };
    let report = |core: CoreReport| ProcessReport {
        format: 1,
        pid: 77,
        started: 5,
        tenon_version: "0.1.0".into(),
        tag: "server-1".into(),
        cores: vec![core],
        models: vec![ModelReport {
            name: "digits".into(),
            uuid: "u".into(),
            id: 1,
            cores: vec![2],
            bytes: 100,
            running: false,
        }],
        executions: ExecutionReport {
            on_core: counters.report().total,
            on_core_nanos: counters.report().total_nanos,
            ..counters.report()
        },
        host_bytes: 9,
    };
    let process = |user| Process {
        command: "client --fast".into(),
        user,
        system: 0,
        resident: 4096,
    };
    let sample = |at, processes| Sample {
        at,
        processors: Processors::default(),
        memory: Memory {
            total: 10,
            used: 4,
            swap_total: 2,
            swap_used: 1,
        },
        processes,
    };
    counters.ended(Outcome::Completed, Duration::from_secs(9));
    let start = Instant::now();
    let earlier = sample(start, vec![(report(core(500, 10)), process(100))]);
    for _ in 0..6 {
        counters.ended(Outcome::Completed, Duration::from_millis(20));
    }
    counters.ended(Outcome::TimedOut, Duration::ZERO);
    counters.ended(Outcome::NumericalError, Duration::ZERO);
    let later = start + Duration::from_secs(2);
    let later = sample(
        later,
        vec![(report(core(1_000_000_500, 4_000_000_010)), process(200))],
    );
    let machine = Machine {
        processor: "Some CPU".into(),
        host: "here".into(),
        cores: 4,
        logical_size: 1,
        memory: 10,
        cpus: "0-3".into(),
        folders: Vec::new(),
    };
    Metrics::between(&machine, earlier, later)
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn the_stream_has_the_shape_of_the_original() {
    let json = metrics().json(&Config::default());
    // nrt 2.2
    assert_eq!(
        keys(&json),
        [
            "neuron_runtime_data",
            "system_data",
            "instance_info",
            "neuron_hardware_info"
        ]
    );
    let process = &json["neuron_runtime_data"][0];
    assert_eq!(
        keys(process),
        ["pid", "address", "neuron_runtime_tag", "error", "report"]
    );
    let report = &process["report"];
    assert_eq!(
        keys(report),
        [
            "neuroncore_counters",
            "execution_stats",
            "memory_used",
            "neuron_runtime_vcpu_usage"
        ]
    );
    for group in report.as_object().unwrap().values() {
        assert_eq!(
            (&group["period"], &group["error"]),
            (&json!(2.0), &json!(""))
        );
    }
    let stats = &report["execution_stats"];
    assert_eq!(
        keys(&stats["error_summary"]),
        [
            "generic",
            "numerical",
            "transient",
            "model",
            "runtime",
            "hardware"
        ]
    );
    assert_eq!(
        keys(&stats["latency_stats"]["total_latency"]),
        ["p0", "p1", "p25", "p50", "p75", "p99", "p100"]
    );
    let memory = &report["memory_used"];
    assert_eq!(
        keys(&memory["neuron_runtime_used_bytes"]),
        ["host", "neuron_device", "usage_breakdown"]
    );
    assert_eq!(
        keys(&memory["loaded_models"][0]),
        ["name", "uuid", "model_id", "is_running", "subgraphs"]
    );
    assert_eq!(
        keys(&json["system_data"]),
        ["neuron_hw_counters", "vcpu_usage", "memory_info"]
    );
}

#[test]
fn metrics_cover_the_time_between_the_samples() {
    let json = metrics().json(&Config::default());
    let report = &json["neuron_runtime_data"][0]["report"];
    let core = &report["neuroncore_counters"]["neuroncores_in_use"]["2"];
    assert_eq!(core, &json!({"neuroncore_utilization": 50.0, "flops": 2e9}));
    let summary = &report["execution_stats"]["execution_summary"];
    assert_eq!(
        (&summary["completed"], &summary["timed_out"]),
        (&json!(6), &json!(1))
    );
    assert_eq!(report["execution_stats"]["error_summary"]["numerical"], 1);
    // The execution of 9 s before the first sample is not included.
    let latency = &report["execution_stats"]["latency_stats"];
    let p100 = latency["total_latency"]["p100"].as_f64().unwrap();
    assert!((p100 / 0.02 - 1.0).abs() < 0.07, "{p100}");
    let p50 = latency["device_latency"]["p50"].as_f64().unwrap();
    assert!((p50 / 0.02 - 1.0).abs() < 0.07, "{p50}");
    let used = &report["memory_used"]["neuron_runtime_used_bytes"];
    assert_eq!(
        (&used["host"], &used["neuron_device"]),
        (&json!(9), &json!(123))
    );
    // 100 ticks of 1/100 s in two seconds.
    let vcpu = &report["neuron_runtime_vcpu_usage"]["vcpu_usage"];
    assert_eq!(vcpu, &json!({"user": 50.0, "system": 0.0}));
}

#[test]
fn only_configured_groups_are_reported() {
    let mut config = Config::default();
    config
        .groups
        .retain(|group| *group == MetricGroup::SystemMemory);
    config.tag = "other".into();
    let json = metrics().json(&config);
    assert_eq!(json["neuron_runtime_data"], json!([]));
    assert_eq!(keys(&json["system_data"]), ["memory_info"]);
    config.tag = "server".into();
    let json = metrics().json(&config);
    assert_eq!(json["neuron_runtime_data"][0]["report"], json!({}));
}
