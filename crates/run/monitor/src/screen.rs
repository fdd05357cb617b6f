//! The page of `tenon top`: cores, executions, memory, latencies, by core and by process.

use crate::{Machine, Metrics};
use std::fmt::Write;
use std::time::Duration;
use tenon_base::{Count, escape_controls, format_bytes as bytes, format_duration as duration};

/// A page of text for a terminal.
pub struct Screen<'a> {
    metrics: &'a Metrics,
    width: usize,
}

impl<'a> Screen<'a> {
    /// A page `width` characters wide.
    pub fn new(metrics: &'a Metrics, width: usize) -> Self {
        Self {
            metrics,
            width: width.clamp(40, 200),
        }
    }

    /// Its lines.
    pub fn text(&self) -> String {
        let mut text = self.head(&self.metrics.machine);
        self.cores(&mut text);
        self.processes(&mut text);
        let lines = text.lines().map(|line| truncated(line, self.width));
        lines.collect::<Vec<_>>().join("\n") + "\n"
    }

    fn head(&self, machine: &Machine) -> String {
        let (now, before) = (
            &self.metrics.later.processors,
            &self.metrics.earlier.processors,
        );
        let idle = now.all.percent_since(before.all)["idle"];
        let busy = if now.all.sum() > before.all.sum() {
            100.0 - idle
        } else {
            0.0
        };
        let memory = &self.metrics.later.memory;
        format!(
            "tenon top  {}, {}, {}\nCPU {busy:5.1} %   memory {} of {}\n",
            escape_controls(&machine.host),
            escape_controls(&machine.processor),
            Count(machine.cores, "core"),
            bytes(memory.used),
            bytes(memory.total)
        )
    }

    fn cores(&self, text: &mut String) {
        const BAR: usize = 20;
        let mut lines = Vec::new();
        for process in self.metrics.processes() {
            for core in &process.report.cores {
                let (utilization, flops) = process.core(core);
                let filled = (utilization / 100.0 * BAR as f64).round() as usize;
                let bar: String = "#".repeat(filled) + &" ".repeat(BAR - filled.min(BAR));
                let used = core
                    .memory
                    .values()
                    .fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
                let line = format!(
                    "{:>4} [{bar}] {utilization:5.1} % {:>9} {:>10} of {:<10} {:>7}",
                    core.core,
                    format!("{:.1}", flops / 1e9),
                    bytes(used),
                    bytes(core.memory_limit),
                    process.report.pid
                );
                lines.push((core.core, line));
            }
        }
        lines.sort();
        if lines.is_empty() {
            text.push_str("\nno process owns a core\n");
            return;
        }
        text.push_str(
            "\ncore  busy                            GFLOP/s     memory                      pid\n",
        );
        for (_, line) in lines {
            text.push_str(&line);
            text.push('\n');
        }
    }

    fn processes(&self, text: &mut String) {
        for process in self.metrics.processes() {
            let executions = process.executions();
            let (user, system) = process.vcpu();
            let failed = [
                executions.completed_with_err,
                executions.completed_with_num_err,
                executions.timed_out,
                executions.incorrect_input,
                executions.failed_to_queue,
            ];
            let failed = failed.into_iter().fold(0, u64::saturating_add);
            let at = |share| {
                let seconds = executions.total.percentile(share);
                let time = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
                seconds.map_or_else(|| "-".to_owned(), |seconds| duration(time(seconds)))
            };
            let tag = match process.report.tag.as_str() {
                "" => String::new(),
                tag => format!(" ({})", escape_controls(tag)),
            };
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "\n{}{tag}  {}\n  {:.1} executions/s, {failed} failed   latency p50 {} p99 {} max {}\n  \
                 CPU {:.0} %   resident {}\n",
                process.report.pid,
                escape_controls(&process.process.command),
                process.rate(),
                at(0.5),
                at(0.99),
                at(1.0),
                user + system,
                bytes(process.process.resident)
            );
            for model in &process.report.models {
                let cores: Vec<String> = model.cores.iter().map(u32::to_string).collect();
                let on = if cores.is_empty() {
                    String::new()
                } else {
                    format!(" on core {}", cores.join(","))
                };
                let name = escape_controls(&model.name);
                let _ = writeln!(
                    text,
                    "  model {} {name}{on}, {}",
                    model.id,
                    bytes(model.bytes)
                );
            }
        }
    }
}

fn truncated(line: &str, width: usize) -> String {
    line.chars()
        .take(width)
        .collect::<String>()
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::metrics;

    #[test]
    fn the_page_shows_cores_and_processes() {
        let metrics = metrics();
        let text = Screen::new(&metrics, 100).text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "tenon top  here, Some CPU, 4 cores");
        assert!(
            lines[4].starts_with("   2 [##########          ]  50.0 %       2.0"),
            "{text}"
        );
        assert!(lines[4].ends_with("77"), "{text}");
        assert!(
            text.contains("77 (server-1)  client --fast\n  3.0 executions/s, 2 failed"),
            "{text}"
        );
        assert!(
            text.contains("  model 1 digits on core 2, 100 B\n"),
            "{text}"
        );
        let narrow = Screen::new(&metrics, 40).text();
        assert!(narrow.lines().all(|line| line.chars().count() <= 40));
    }

    #[test]
    fn names_cannot_move_the_cursor() {
        let mut metrics = metrics();
        let (report, process) = &mut metrics.later.processes[0];
        process.command = "a\x1b[2Jb\nc".into();
        report.tag = "t\u{9b}31m".into();
        report.models[0].name = "m\u{202e}x".into();
        metrics.machine.host = "h\x07".into();
        let text = Screen::new(&metrics, 100).text();
        for shown in [
            "a\\u{1b}[2Jb\\u{a}c",
            "(t\\u{9b}31m)",
            "model 1 m\\u{202e}x",
            "h\\u{7}",
        ] {
            assert!(text.contains(shown), "{shown} is not in\n{text}");
        }
        let others = text.replace('\n', "");
        assert_eq!(escape_controls(&others), others);
    }

    #[test]
    fn extreme_values_of_a_report_do_not_overflow() {
        let mut metrics = metrics();
        let report = &mut metrics.later.processes[0].0;
        let core = &mut report.cores[0];
        (core.core, core.busy_nanos, core.flops, core.memory_limit) =
            (u32::MAX, u64::MAX, u64::MAX, u64::MAX);
        core.memory = ["a", "b"].map(|name| (name.to_owned(), u64::MAX)).into();
        let executions = &mut report.executions;
        executions.completed = u64::MAX;
        executions.timed_out = u64::MAX;
        executions.failed_to_queue = u64::MAX;
        executions.total_nanos = u64::MAX;
        let buckets = r#"{"0":18446744073709551615,"7":18446744073709551615,"4294967295":1}"#;
        executions.total = serde_json::from_str(buckets).unwrap();
        (report.host_bytes, report.models[0].bytes) = (u64::MAX, u64::MAX);
        let text = Screen::new(&metrics, 100).text();
        assert!(
            text.contains("4294967295 [####################] 100.0 %"),
            "{text}"
        );
        assert!(metrics.exposition().contains("le=\"+Inf\""));
        assert!(metrics.json(&crate::Config::default()).is_object());
    }

    #[test]
    fn a_page_without_processes_is_complete() {
        let mut metrics = metrics();
        metrics.later.processes.clear();
        assert!(
            Screen::new(&metrics, 100)
                .text()
                .contains("no process owns a core")
        );
    }
}
