//! The configuration of a monitor: the format of `neuron-monitor --config-file`.

use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use tenon_base::{Error, ErrorKind, Location, Result};

/// A group of metrics of the JSON stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricGroup {
    /// Utilization of cores.
    CoreCounters,
    /// Executions and latencies.
    ExecutionStats,
    /// Memory of processes and models.
    MemoryUsed,
    /// Processor time of processes.
    RuntimeCpu,
    /// Counters of the hardware, all zero on a CPU.
    HardwareCounters,
    /// Processor time of the system.
    SystemCpu,
    /// Memory of the system.
    SystemMemory,
}

impl MetricGroup {
    /// Every group with its name in configurations and in the stream.
    pub const NAMES: [(&'static str, Self); 7] = [
        ("neuroncore_counters", Self::CoreCounters),
        ("execution_stats", Self::ExecutionStats),
        ("memory_used", Self::MemoryUsed),
        ("neuron_runtime_vcpu_usage", Self::RuntimeCpu),
        ("neuron_hw_counters", Self::HardwareCounters),
        ("vcpu_usage", Self::SystemCpu),
        ("memory_info", Self::SystemMemory),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(_, group)| *group == self);
        named.map_or("", |(name, _)| name)
    }
}

/// The metrics and the period of a monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The time between two reports.
    pub period: Duration,
    /// The reported groups.
    pub groups: BTreeSet<MetricGroup>,
    /// Selects processes whose tag contains this text; all when empty.
    pub tag: String,
}

impl Default for Config {
    /// All groups, every five seconds.
    fn default() -> Self {
        Self {
            period: Duration::from_secs(5),
            groups: MetricGroup::NAMES.iter().map(|(_, group)| *group).collect(),
            tag: String::new(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    period: Option<String>,
    #[serde(default)]
    neuron_runtimes: Vec<RuntimeEntry>,
    #[serde(default)]
    system_metrics: Vec<MetricEntry>,
}

#[derive(Deserialize)]
struct RuntimeEntry {
    tag_filter: Option<String>,
    #[serde(default)]
    metrics: Vec<MetricEntry>,
}

#[derive(Deserialize)]
struct MetricEntry {
    #[serde(rename = "type")]
    kind: String,
}

impl Config {
    /// Reads a file such as `{"period": "1s", "neuron_runtimes": [{"tag_filter": ".*", "metrics":
    /// [{"type": "execution_stats"}]}], "system_metrics": [{"type": "memory_info"}]}`.
    ///
    /// # Errors
    /// A file of another format; unknown types and invalid values, reported together.
    pub fn open(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::io(path, "read", error))?;
        Self::parse(&text).map_err(|error| error.at(Location::file(path)))
    }

    fn parse(text: &str) -> Result<Self> {
        let file: ConfigFile = serde_json::from_str(text).map_err(|error| {
            usage("not a monitor configuration")
                .found(&error)
                .at(Location::default().line_column(error.line() as u32, error.column() as u32))
        })?;
        let mut config = Self::default();
        let mut problems = Vec::new();
        match file.period.as_deref().map(period) {
            Some(Ok(period)) => config.period = period,
            Some(Err(error)) => problems.push(error),
            None => {}
        }
        let runtimes = file.neuron_runtimes.iter();
        let metrics = runtimes.clone().flat_map(|runtime| &runtime.metrics);
        config.groups.clear();
        for metric in metrics.chain(&file.system_metrics) {
            let known = MetricGroup::NAMES
                .iter()
                .find(|(name, _)| *name == metric.kind);
            match known {
                Some((_, group)) => drop(config.groups.insert(*group)),
                None => {
                    let names = MetricGroup::NAMES.map(|(name, _)| name).join(", ");
                    let error = usage("unknown metric type").expected(names);
                    problems.push(error.found(&metric.kind));
                }
            }
        }
        for filter in runtimes.filter_map(|runtime| runtime.tag_filter.as_deref()) {
            match filter {
                "" | ".*" => {}
                text if text
                    .chars()
                    .all(|char| char.is_alphanumeric() || "_-".contains(char)) =>
                {
                    config.tag = text.to_owned();
                }
                other => problems.push(
                    usage("a tag filter must be plain text")
                        .expected("'.*', or a substring of the tag")
                        .found(other),
                ),
            }
        }
        Error::from_all(problems).map_or(Ok(config), Err)
    }
}

/// `1s`, `500ms`, `2m`
fn period(text: &str) -> Result<Duration> {
    let at = text.find(|char: char| !char.is_ascii_digit() && char != '.');
    let (number, unit) = text.split_at(at.unwrap_or(text.len()));
    let factor = match unit {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => f64::NAN,
    };
    let seconds = number.parse().unwrap_or(f64::NAN) * factor;
    if (0.01..=86_400.0).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(usage("invalid period")
        .expected("such as 1s, 500ms or 2m")
        .found(text))
}

fn usage(message: &str) -> Error {
    Error::new(ErrorKind::Usage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_of_neuron_monitor_are_read() {
        let config = Config::parse(
            r#"{"period": "500ms",
                "neuron_runtimes": [{"tag_filter": ".*", "metrics": [
                    {"type": "neuroncore_counters"}, {"type": "execution_stats"}]}],
                "system_metrics": [{"type": "vcpu_usage"}]}"#,
        );
        let config = config.unwrap();
        assert_eq!(config.period, Duration::from_millis(500));
        let names: Vec<&str> = config.groups.iter().map(|group| group.name()).collect();
        assert_eq!(
            names,
            ["neuroncore_counters", "execution_stats", "vcpu_usage"]
        );
        let tagged = Config::parse(r#"{"neuron_runtimes": [{"tag_filter": "server-1"}]}"#);
        assert_eq!(tagged.unwrap().tag, "server-1");
    }

    #[test]
    fn invalid_values_are_reported_together() {
        let text = r#"{"period": "soon", "neuron_runtimes": [{"tag_filter": "a|b"}],
                       "system_metrics": [{"type": "weather"}]}"#;
        let text = Config::parse(text).unwrap_err().to_string();
        assert!(text.contains("invalid period"), "{text}");
        assert!(
            text.contains("found weather") && text.contains("found a|b"),
            "{text}"
        );
        let error = Config::parse("{\n \"perod\": \"1s\"}").unwrap_err();
        assert!(error.to_string().contains("perod"), "{error}");
        assert!(period("0s").is_err() && period("1d").is_err());
    }
}
