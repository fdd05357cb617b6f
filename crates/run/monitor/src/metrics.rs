//! The metrics between two samples in the format of `neuron-monitor` (nrt 2.2).

use crate::system::Process;
use crate::{Config, Machine, MetricGroup, Sample, latency};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tenon_runtime::{CoreReport, ExecutionReport, ProcessReport};

/// Ticks of a second in `/proc` (USER_HZ of the kernel's interface, which is 100 on Linux).
const TICKS: f64 = 100.0;

/// The metrics between two samples.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(crate) machine: Machine,
    pub(crate) earlier: Sample,
    pub(crate) later: Sample,
}

/// The metrics of one process between two samples.
pub(crate) struct ProcessMetrics<'a> {
    pub report: &'a ProcessReport,
    pub process: &'a Process,
    earlier: Option<&'a (ProcessReport, Process)>,
    seconds: f64,
}

impl Metrics {
    /// Between `earlier` and `later`.
    pub fn between(machine: &Machine, earlier: Sample, later: Sample) -> Self {
        Self {
            machine: machine.clone(),
            earlier,
            later,
        }
    }

    /// Seconds between both samples.
    pub(crate) fn seconds(&self) -> f64 {
        let time = self.later.at.saturating_duration_since(self.earlier.at);
        time.as_secs_f64().max(1e-3)
    }

    /// The processes of the later sample.
    pub(crate) fn processes(&self) -> impl Iterator<Item = ProcessMetrics<'_>> {
        let seconds = self.seconds();
        self.later
            .processes
            .iter()
            .map(move |(report, process)| ProcessMetrics {
                report,
                process,
                earlier: self.earlier.process(report),
                seconds,
            })
    }

    /// One object of the stream.
    pub fn json(&self, config: &Config) -> Value {
        let processes = self.processes();
        let processes = processes.filter(|it| it.report.tag.contains(&config.tag));
        json!({
            "neuron_runtime_data": processes.map(|it| it.json(config)).collect::<Vec<_>>(),
            "system_data": self.system(config),
            "instance_info": {
                "instance_name": self.machine.host,
                "instance_id": self.machine.host,
                "instance_type": self.machine.processor,
                "instance_availability_zone": "",
                "instance_availability_zone_id": "",
                "instance_region": "",
                "ami_id": "",
                "subnet_id": "",
                "error": "",
            },
            "neuron_hardware_info": {
                "neuron_device_type": "cpu",
                "neuron_device_version": "",
                "neuroncore_version": "",
                "neuron_device_count": 1,
                "neuron_device_memory_size": self.machine.memory,
                "neuroncore_per_device_count": self.machine.cores,
                "logical_neuroncore_config": self.machine.logical_size,
                "error": "",
            },
        })
    }

    fn system(&self, config: &Config) -> Value {
        let (now, before) = (&self.later.processors, &self.earlier.processors);
        let each = (0..).zip(now.each.iter().zip(&before.each));
        let usage: Map<String, Value> = each
            .map(|(cpu, (now, before)): (u32, _)| {
                (cpu.to_string(), json!(now.percent_since(*before)))
            })
            .collect();
        let memory = &self.later.memory;
        let groups = [
            (
                MetricGroup::HardwareCounters,
                json!({"neuron_devices": [{
                    "neuron_device_index": 0, "mem_ecc_corrected": 0, "mem_ecc_uncorrected": 0,
                    "sram_ecc_uncorrected": 0, "sram_ecc_corrected": 0,
                }]}),
            ),
            (
                MetricGroup::SystemCpu,
                json!({
                    "average_usage": now.all.percent_since(before.all),
                    "usage_data": usage,
                    "context_switch_count": now.switches.saturating_sub(before.switches),
                }),
            ),
            (
                MetricGroup::SystemMemory,
                json!({
                    "memory_total_bytes": memory.total,
                    "memory_used_bytes": memory.used,
                    "swap_total_bytes": memory.swap_total,
                    "swap_used_bytes": memory.swap_used,
                }),
            ),
        ];
        grouped(groups, config, self.seconds())
    }
}

impl ProcessMetrics<'_> {
    /// Percent of the time that a core executed, and operations a second.
    pub fn core(&self, core: &CoreReport) -> (f64, f64) {
        let before = self.earlier.and_then(|(report, _)| {
            let mut cores = report.cores.iter();
            cores.find(|known| known.core == core.core)
        });
        let since = |now: u64, count: fn(&CoreReport) -> u64| {
            now.saturating_sub(before.map_or(0, count)) as f64 / self.seconds
        };
        let busy = since(core.busy_nanos, |core| core.busy_nanos) * 1e-9;
        let flops = since(core.flops, |core| core.flops);
        ((busy * 100.0).min(100.0), flops)
    }

    /// Executions since the earlier sample.
    pub fn executions(&self) -> ExecutionReport {
        let now = &self.report.executions;
        let zero = ExecutionReport::default();
        let before = self.earlier.map_or(&zero, |(report, _)| &report.executions);
        let since = |count: fn(&ExecutionReport) -> u64| count(now).saturating_sub(count(before));
        ExecutionReport {
            completed: since(|report| report.completed),
            completed_with_num_err: since(|report| report.completed_with_num_err),
            completed_with_err: since(|report| report.completed_with_err),
            timed_out: since(|report| report.timed_out),
            incorrect_input: since(|report| report.incorrect_input),
            failed_to_queue: since(|report| report.failed_to_queue),
            total: now.total.since(&before.total),
            total_nanos: since(|report| report.total_nanos),
            on_core: now.on_core.since(&before.on_core),
            on_core_nanos: since(|report| report.on_core_nanos),
        }
    }

    /// Completed executions a second.
    pub fn rate(&self) -> f64 {
        self.executions().completed as f64 / self.seconds
    }

    /// Bytes of its cores.
    pub fn device_bytes(&self) -> u64 {
        let cores = self.report.cores.iter();
        // Reports of other processes are not trusted: the sum may overflow.
        cores
            .flat_map(|core| core.memory.values())
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Percent of one processor in user and system mode.
    pub fn vcpu(&self) -> (f64, f64) {
        let share = |now: u64, before: Option<u64>| {
            let ticks = now.saturating_sub(before.unwrap_or(now)) as f64;
            ticks / TICKS / self.seconds * 100.0
        };
        let before = self.earlier.map(|(_, process)| process);
        (
            share(self.process.user, before.map(|process| process.user)),
            share(self.process.system, before.map(|process| process.system)),
        )
    }

    fn json(&self, config: &Config) -> Value {
        let report = self.report;
        let groups = [
            (MetricGroup::CoreCounters, self.core_counters()),
            (MetricGroup::ExecutionStats, self.execution_stats()),
            (MetricGroup::MemoryUsed, self.memory_used()),
            (MetricGroup::RuntimeCpu, {
                let (user, system) = self.vcpu();
                json!({"vcpu_usage": {"user": user, "system": system}})
            }),
        ];
        json!({
            "pid": report.pid,
            "address": "",
            "neuron_runtime_tag": report.tag,
            "error": "",
            "report": grouped(groups, config, self.seconds),
        })
    }

    fn core_counters(&self) -> Value {
        let core = |core: &CoreReport| {
            let (utilization, flops) = self.core(core);
            let counters = json!({"neuroncore_utilization": utilization, "flops": flops});
            (core.core.to_string(), counters)
        };
        let cores: Map<String, Value> = self.report.cores.iter().map(core).collect();
        json!({"neuroncores_in_use": cores})
    }

    fn execution_stats(&self) -> Value {
        let executions = self.executions();
        json!({
            "error_summary": {
                "generic": executions.completed_with_err,
                "numerical": executions.completed_with_num_err,
                "transient": 0,
                "model": executions.incorrect_input,
                "runtime": executions.timed_out.saturating_add(executions.failed_to_queue),
                "hardware": 0,
            },
            "execution_summary": {
                "completed": executions.completed,
                "completed_with_err": executions.completed_with_err,
                "completed_with_num_err": executions.completed_with_num_err,
                "timed_out": executions.timed_out,
                "incorrect_input": executions.incorrect_input,
                "failed_to_queue": executions.failed_to_queue,
            },
            "latency_stats": {
                "total_latency": latency::json(&executions.total),
                "device_latency": latency::json(&executions.on_core),
            },
        })
    }

    fn memory_used(&self) -> Value {
        let report = self.report;
        let device = self.device_bytes();
        let core = |core: &CoreReport| {
            let used = |name: &str| core.memory.get(name).copied().unwrap_or(0);
            let memory = json!({
                "constants": used("constants"),
                "model_code": used("code"),
                "model_shared_scratchpad": used("scratch"),
                "runtime_memory": 0,
                "tensors": used("tensors"),
            });
            (core.core.to_string(), memory)
        };
        let cores: Map<String, Value> = report.cores.iter().map(core).collect();
        let models: Vec<Value> = report
            .models
            .iter()
            .map(|model| self.model(model))
            .collect();
        json!({
            "neuron_runtime_used_bytes": {
                "host": report.host_bytes,
                "neuron_device": device,
                "usage_breakdown": {
                    "host": {
                        "application_memory": self.process.resident,
                        "constants": 0,
                        "dma_buffers": 0,
                        "tensors": report.host_bytes,
                    },
                    "neuroncore_memory_usage": cores,
                },
            },
            "loaded_models": models,
        })
    }

    fn model(&self, model: &tenon_runtime::ModelReport) -> Value {
        let is_on = |core: &&CoreReport| model.cores.contains(&core.core);
        let on_cores = self.report.cores.iter().filter(is_on).any(|core| core.busy);
        let running = on_cores || (model.cores.is_empty() && model.running);
        let subgraphs: BTreeMap<String, Value> = model
            .cores
            .iter()
            .enumerate()
            .map(|(index, core)| {
                let bytes = model.bytes / model.cores.len().max(1) as u64;
                let subgraph = json!({
                    "memory_used_bytes": {"host": 0, "neuron_device": bytes},
                    "neuroncore_index": core,
                    "neuron_device_index": 0,
                });
                (format!("sg_{index:02}"), subgraph)
            })
            .collect();
        json!({
            "name": model.name,
            "uuid": model.uuid,
            "model_id": model.id,
            "is_running": running,
            "subgraphs": subgraphs,
        })
    }
}

/// The configured groups, each with its period and without an error.
fn grouped<const N: usize>(
    groups: [(MetricGroup, Value); N],
    config: &Config,
    seconds: f64,
) -> Value {
    let mut included = Map::new();
    for (group, fields) in groups {
        if !config.groups.contains(&group) {
            continue;
        }
        let mut all = Map::from_iter([("period".to_owned(), json!(seconds))]);
        if let Value::Object(fields) = fields {
            all.extend(fields);
        }
        all.insert("error".to_owned(), json!(""));
        included.insert(group.name().to_owned(), Value::Object(all));
    }
    Value::Object(included)
}

#[cfg(test)]
pub(crate) mod tests;
