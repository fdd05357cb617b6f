//! Metrics in the text format of Prometheus (exposition format 0.0.4).

use crate::Metrics;
use crate::metrics::ProcessMetrics;
use std::fmt::{Display, Write};
use std::ops::RangeInclusive;
use tenon_runtime::CoreReport;

type Labels = Vec<(&'static str, String)>;

impl Metrics {
    /// All metrics with their labels. Counters start with their process.
    pub fn exposition(&self) -> String {
        let mut page = String::new();
        let memory = &self.later.memory;
        let mut family = |name: &str, kind: &str, help: &str, samples: Vec<(Labels, f64)>| {
            // Writing to a String cannot fail.
            let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
            for (labels, value) in samples {
                let _ = writeln!(page, "{name}{} {value}", format_labels(&labels));
            }
        };
        family(
            "system_memory_total_bytes",
            "gauge",
            "Memory of the machine.",
            vec![(Vec::new(), memory.total as f64)],
        );
        family(
            "system_memory_used_bytes",
            "gauge",
            "Memory that is not available.",
            vec![(Vec::new(), memory.used as f64)],
        );
        family(
            "neuroncore_utilization_ratio",
            "gauge",
            "Fraction of the last period in which a core executed.",
            self.cores(|process, core| vec![(Vec::new(), process.core(core).0 / 100.0)]),
        );
        family(
            "neuroncore_flops",
            "gauge",
            "Arithmetic operations a second.",
            self.cores(|process, core| vec![(Vec::new(), process.core(core).1)]),
        );
        family(
            "neuroncore_executions_total",
            "counter",
            "Executions on a core.",
            self.cores(|_, core| vec![(Vec::new(), core.executions as f64)]),
        );
        family(
            "neuroncore_memory_used_bytes",
            "gauge",
            "Memory of a core by use.",
            self.cores(|_, core| {
                let uses = core.memory.iter();
                uses.map(|(what, bytes)| (vec![("use", what.clone())], *bytes as f64))
                    .collect()
            }),
        );
        family(
            "execution_status_total",
            "counter",
            "Executions by status.",
            self.of_processes(statuses),
        );
        family(
            "neuron_runtime_memory_used_bytes",
            "gauge",
            "Memory of a process.",
            self.of_processes(memory_used),
        );
        self.latency_histograms(&mut page);
        page
    }

    /// Histograms of the times of completed executions since the start of each process.
    fn latency_histograms(&self, page: &mut String) {
        const NAME: &str = "execution_latency_seconds";
        let _ = write!(
            page,
            "# HELP {NAME} Time of completed executions, total and on cores.\n\
             # TYPE {NAME} histogram\n"
        );
        for process in self.processes() {
            let executions = &process.report.executions;
            for (kind, times, nanos) in [
                ("total", &executions.total, executions.total_nanos),
                ("device", &executions.on_core, executions.on_core_nanos),
            ] {
                let labels = [process.labels(), vec![("latency", kind.to_owned())]].concat();
                let mut line = |suffix: &str, labels: &Labels, value: &dyn Display| {
                    let _ = writeln!(page, "{NAME}_{suffix}{} {value}", format_labels(labels));
                };
                let mut bucket = |bound: String, count: u64| {
                    let labels = [labels.clone(), vec![("le", bound)]].concat();
                    line("bucket", &labels, &count);
                };
                for power in POWERS {
                    bucket(bound(power), times.below_power(power));
                }
                bucket("+Inf".to_owned(), times.count());
                line("sum", &labels, &(nanos as f64 * 1e-9));
                line("count", &labels, &times.count());
            }
        }
    }

    /// Samples of every process, its labels before those of the sample.
    fn of_processes(
        &self,
        samples: impl Fn(&ProcessMetrics<'_>) -> Vec<(Labels, f64)>,
    ) -> Vec<(Labels, f64)> {
        let of_process = |process: ProcessMetrics<'_>| {
            let labels = process.labels();
            let samples = samples(&process).into_iter();
            samples
                .map(|(own, value)| ([labels.clone(), own].concat(), value))
                .collect::<Vec<_>>()
        };
        self.processes().flat_map(of_process).collect()
    }

    /// Samples of every core, the labels of process and core before those of the sample.
    fn cores(
        &self,
        samples: impl Fn(&ProcessMetrics<'_>, &CoreReport) -> Vec<(Labels, f64)>,
    ) -> Vec<(Labels, f64)> {
        self.of_processes(|process| {
            let of_core = |core: &CoreReport| {
                let number = vec![("neuroncore", core.core.to_string())];
                let samples = samples(process, core).into_iter();
                samples
                    .map(|(own, value)| ([number.clone(), own].concat(), value))
                    .collect::<Vec<_>>()
            };
            process.report.cores.iter().flat_map(of_core).collect()
        })
    }
}

fn statuses(process: &ProcessMetrics<'_>) -> Vec<(Labels, f64)> {
    let executions = &process.report.executions;
    let counts = [
        ("completed", executions.completed),
        ("completed_with_err", executions.completed_with_err),
        ("completed_with_num_err", executions.completed_with_num_err),
        ("timed_out", executions.timed_out),
        ("incorrect_input", executions.incorrect_input),
        ("failed_to_queue", executions.failed_to_queue),
    ];
    let sample =
        |(status, count): (&str, u64)| (vec![("status_type", status.to_owned())], count as f64);
    counts.map(sample).into()
}

fn memory_used(process: &ProcessMetrics<'_>) -> Vec<(Labels, f64)> {
    let device = process.device_bytes();
    let of =
        |location: &str, bytes: u64| (vec![("memory_location", location.to_owned())], bytes as f64);
    vec![
        of("host", process.report.host_bytes),
        of("neuron_device", device),
    ]
}

impl ProcessMetrics<'_> {
    fn labels(&self) -> Labels {
        vec![
            ("pid", self.report.pid.to_string()),
            ("runtime_tag", self.report.tag.clone()),
        ]
    }
}

/// Bounds of the histogram's buckets: powers of two of nanoseconds, 1 us to 69 s.
const POWERS: RangeInclusive<u32> = 10..=36;

/// The longest time below 2^`power` nanoseconds in seconds: buckets include their bound.
fn bound(power: u32) -> String {
    let nanos = (1u64 << power) - 1;
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

fn format_labels(labels: &Labels) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let escaped = |text: &str| {
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    let labels: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    format!("{{{}}}", labels.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::metrics;

    #[test]
    fn every_line_is_a_sample_or_a_comment() {
        let page = metrics().exposition();
        for line in [
            "system_memory_used_bytes 4",
            "neuroncore_utilization_ratio{pid=\"77\",runtime_tag=\"server-1\",neuroncore=\"2\"} 0.5",
            "neuroncore_memory_used_bytes{pid=\"77\",runtime_tag=\"server-1\",neuroncore=\"2\",use=\"tensors\"} 23",
            "execution_status_total{pid=\"77\",runtime_tag=\"server-1\",status_type=\"completed\"} 7",
            "# TYPE execution_status_total counter",
            "neuron_runtime_memory_used_bytes{pid=\"77\",runtime_tag=\"server-1\",memory_location=\"neuron_device\"} 123",
        ] {
            assert!(
                page.lines().any(|found| found == line),
                "{line} is not in\n{page}"
            );
        }
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(
                name.starts_with(|char: char| char.is_ascii_lowercase()),
                "{line}"
            );
        }
    }

    #[test]
    fn latencies_are_histograms() {
        // Seven executions that completed: one of 9 s and six of 20 ms.
        let page = metrics().exposition();
        let labels = "{pid=\"77\",runtime_tag=\"server-1\",latency=\"total\"";
        let sample = |suffix: &str, more: &str| -> f64 {
            let start = format!("execution_latency_seconds_{suffix}{labels}{more}}} ");
            let mut lines = page.lines().filter_map(|line| line.strip_prefix(&start));
            let value = lines
                .next()
                .unwrap_or_else(|| panic!("no {start}in\n{page}"));
            assert_eq!(lines.next(), None);
            value.parse().unwrap()
        };
        assert!(page.contains("# TYPE execution_latency_seconds histogram\n"));
        assert_eq!(sample("count", ""), 7.0);
        assert!((sample("sum", "") - 9.12).abs() < 1e-9);
        let bucket = |bound: &str| sample("bucket", &format!(",le=\"{bound}\""));
        assert_eq!(bucket("0.016777215"), 0.0);
        assert_eq!(bucket("0.033554431"), 6.0);
        assert_eq!(bucket("8.589934591"), 6.0);
        assert_eq!(bucket("17.179869183"), 7.0);
        assert_eq!(bucket("+Inf"), 7.0);
        let bounds = POWERS.map(bound).collect::<Vec<_>>();
        assert_eq!((bounds[0].as_str(), bounds.len()), ("0.000001023", 27));
        let counts: Vec<f64> = bounds.iter().map(|bound| bucket(bound)).collect();
        assert!(counts.is_sorted(), "{counts:?}");
    }

    #[test]
    fn labels_are_escaped() {
        let labels = vec![("runtime_tag", "a\"b\\c\nd".to_owned())];
        assert_eq!(format_labels(&labels), "{runtime_tag=\"a\\\"b\\\\c\\nd\"}");
    }
}
