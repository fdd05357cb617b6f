//! The metrics in the text format of Prometheus (exposition format 0.0.4).

use crate::app::App;
use crate::histogram::Histogram;
use crate::process::Process;
use crate::served_model::ServedModel;
use crate::statistics::Counts;
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// A model and its counts.
type Row = (Arc<ServedModel>, Counts);

/// The page of all metrics. Counters start with the server.
pub fn page(app: &App) -> String {
    let models = app.repository.served().into_iter();
    let rows: Vec<Row> = models
        .map(|model| {
            let counts = model.statistics().counts();
            (model, counts)
        })
        .collect();
    let mut page = Page(String::new());
    requests(&mut page, app, &rows);
    histograms(&mut page, &rows);
    models_now(&mut page, &rows);
    server(&mut page, app);
    process(&mut page);
    triton(&mut page, &rows);
    page.0
}

/// The text of the page.
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            self.0.push(if at == 0 { '{' } else { ',' });
            let value = value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(self.0, "{label}=\"{value}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    /// A family with one sample of each model.
    fn of_models<V: Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        rows: &[Row],
        value: impl Fn(&Row) -> V,
    ) {
        self.family(name, kind, help);
        for row in rows {
            let version = row.0.version().to_string();
            let labels = [("model", row.0.name()), ("version", &version)];
            self.sample(name, &labels, value(row));
        }
    }
}

fn requests(page: &mut Page, app: &App, rows: &[Row]) {
    const TOTAL: &str = "tenon_request_total";
    page.family(
        TOTAL,
        "counter",
        "Requests for inference by status of HTTP.",
    );
    for (model, counts) in rows {
        let version = model.version().to_string();
        let mut sample = |code: &str, count: u64| {
            let labels = [
                ("model", model.name()),
                ("version", &version),
                ("code", code),
            ];
            page.sample(TOTAL, &labels, count);
        };
        sample("200", counts.success.count);
        for (status, &count) in &counts.refused {
            sample(&status.http().to_string(), count);
        }
    }
    const REJECTED: &str = "tenon_rejected_total";
    page.family(
        REJECTED,
        "counter",
        "Refused requests by reason; without a model those refused before it was known.",
    );
    for (model, counts) in rows {
        for (status, &count) in &counts.refused {
            let labels = [("model", model.name()), ("reason", status.reason())];
            page.sample(REJECTED, &labels, count);
        }
    }
    let refused = app.refused.lock().unwrap_or_else(PoisonError::into_inner);
    for (status, count) in refused.iter() {
        page.sample(
            REJECTED,
            &[("model", ""), ("reason", status.reason())],
            count,
        );
    }
}

fn histograms(page: &mut Page, rows: &[Row]) {
    type Of = fn(&Counts) -> &Histogram;
    let families: [(&str, &str, Of); 4] = [
        ("tenon_request_seconds", "Time of answered requests.", |c| {
            &c.request_seconds
        }),
        (
            "tenon_queue_seconds",
            "Time of answered requests in the queue.",
            |c| &c.queue_seconds,
        ),
        ("tenon_compute_seconds", "Time of executions.", |c| {
            &c.compute_seconds
        }),
        ("tenon_batch_size", "Rows of executions.", |c| &c.batch_rows),
    ];
    for (name, help, of) in families {
        page.family(name, "histogram", help);
        for (model, counts) in rows {
            let histogram = of(counts);
            let version = model.version().to_string();
            let labels = [("model", model.name()), ("version", &version)];
            let bucket = format!("{name}_bucket");
            let mut bounded = |bound: &str, count: u64| {
                let labels = [labels[0], labels[1], ("le", bound)];
                page.sample(&bucket, &labels, count);
            };
            for (bound, count) in histogram.cumulative() {
                bounded(&bound.to_string(), count);
            }
            bounded("+Inf", histogram.count());
            page.sample(&format!("{name}_sum"), &labels, histogram.sum());
            page.sample(&format!("{name}_count"), &labels, histogram.count());
        }
    }
}

fn models_now(page: &mut Page, rows: &[Row]) {
    page.of_models(
        "tenon_queue_depth",
        "gauge",
        "Requests that wait.",
        rows,
        |row| row.0.waiting(),
    );
    page.of_models(
        "tenon_executing",
        "gauge",
        "Requests that are executed.",
        rows,
        |row| row.0.running(),
    );
    page.of_models(
        "tenon_sequences",
        "gauge",
        "Sequences that have not ended.",
        rows,
        |row| row.0.sequences(),
    );
    page.of_models(
        "tenon_cache_hits_total",
        "counter",
        "Requests whose answers were kept.",
        rows,
        |row| row.1.found.count,
    );
    page.of_models(
        "tenon_cache_misses_total",
        "counter",
        "Requests whose answers were not kept.",
        rows,
        |row| row.1.kept.count,
    );
    page.of_models(
        "tenon_worker_restarts_total",
        "counter",
        "Starts of the process of a model after it had ended.",
        rows,
        |row| row.0.restarts(),
    );
    page.of_models(
        "tenon_model_bytes",
        "gauge",
        "Size of the package.",
        rows,
        |row| row.0.bytes(),
    );
}

fn server(page: &mut Page, app: &App) {
    let mut value = |name: &str, kind: &str, help: &str, value: u64| {
        page.family(name, kind, help);
        page.sample(name, &[], value);
    };
    let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    let in_flight = read(&app.in_flight);
    value(
        "tenon_in_flight",
        "gauge",
        "Requests for inference without an answer.",
        in_flight,
    );
    let cancelled = read(&app.cancelled);
    value(
        "tenon_cancelled_total",
        "counter",
        "Requests for inference whose callers went away.",
        cancelled,
    );
    value(
        "tenon_connections",
        "gauge",
        "Open connections.",
        read(&app.connections),
    );
    let bodies = app.body_memory.used() as u64;
    value(
        "tenon_body_bytes",
        "gauge",
        "Memory of the bodies of requests.",
        bodies,
    );
    value(
        "tenon_ready",
        "gauge",
        "1 if the server is ready.",
        app.is_ready().into(),
    );
}

/// The metrics of processes that Prometheus names.
fn process(page: &mut Page) {
    let Some(process) = Process::now() else {
        return;
    };
    let mut value = |name: &str, kind: &str, help: &str, value: f64| {
        page.family(name, kind, help);
        page.sample(name, &[], value);
    };
    let (resident, size) = (process.resident_bytes, process.virtual_bytes);
    let (open, most) = (process.open_files, process.max_files);
    let bytes = "process_resident_memory_bytes";
    value(bytes, "gauge", "Memory in use.", resident as f64);
    let bytes = "process_virtual_memory_bytes";
    value(bytes, "gauge", "Address space in use.", size as f64);
    let cpu = "process_cpu_seconds_total";
    value(cpu, "counter", "Time of the CPU.", process.cpu_seconds);
    let start = "process_start_time_seconds";
    let help = "Start since 1970.";
    value(start, "gauge", help, process.start_seconds);
    value("process_open_fds", "gauge", "Open files.", open as f64);
    value("process_max_fds", "gauge", "The most open files.", most);
    value(
        "process_threads",
        "gauge",
        "Threads.",
        process.threads as f64,
    );
}

/// The names that dashboards for Triton have.
fn triton(page: &mut Page, rows: &[Row]) {
    type Of = fn(&Row) -> u64;
    let counters: [(&str, &str, Of); 8] = [
        (
            "nv_inference_request_success",
            "Answered requests.",
            |row| row.1.success.count,
        ),
        ("nv_inference_count", "Rows of executions.", |row| {
            row.1.inferences
        }),
        ("nv_inference_exec_count", "Executions.", |row| {
            row.1.executions
        }),
        (
            "nv_inference_request_duration_us",
            "Time of answered requests.",
            |row| row.1.success.nanos / 1000,
        ),
        (
            "nv_inference_queue_duration_us",
            "Time in the queue.",
            |row| row.1.queue.nanos / 1000,
        ),
        (
            "nv_inference_compute_input_duration_us",
            "Time to read inputs.",
            |row| row.1.input.nanos / 1000,
        ),
        (
            "nv_inference_compute_infer_duration_us",
            "Time of executions.",
            |row| row.1.compute.nanos / 1000,
        ),
        (
            "nv_inference_compute_output_duration_us",
            "Time to write outputs.",
            |row| row.1.output.nanos / 1000,
        ),
    ];
    for (name, help, value) in counters {
        page.of_models(name, "counter", help, rows, value);
    }
    page.of_models(
        "nv_inference_request_failure",
        "counter",
        "Refused requests.",
        rows,
        |row| row.1.fail.count,
    );
    page.of_models(
        "nv_inference_pending_request_count",
        "gauge",
        "Requests that wait.",
        rows,
        |row| row.0.waiting(),
    );
}
