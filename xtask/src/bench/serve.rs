//! `cargo xtask bench --serve`: `tenon serve` beside servers in Python, on one machine with the program that makes the load.

use super::table::{met, time};
use super::{Comparison, Files, Measurement, made};
use crate::python as environments;
use crate::{Result, markdown, output, root, run, target, tools};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The version of oha, which makes the load.
const OHA: &str = "1.16.0";

/// Least requests a second, and greatest 99th percentile, as multiples of the best server's in Python.
const LEAST_RATE: f64 = 10.0;
const MOST_TAIL: f64 = 0.3;

/// The most microseconds that a request takes longer than the model, with one client.
const MOST_ADDED: f64 = 100.0;

/// Least throughput of joined requests as a multiple of single ones.
const LEAST_JOINED: [(&str, usize, f64); 2] = [("wide", 32, 3.0), ("resnet50", 8, 1.0)];

/// Idle connections, and the most memory of the server with them.
const IDLE: usize = 10_000;
const MOST_IDLE_MEMORY: f64 = 200e6;

/// The longest time until a server is ready.
const START: Duration = Duration::from_secs(120);

/// What requests are sent.
#[derive(Clone, Copy)]
enum Form {
    Json,
    Binary,
}

/// What a load has measured.
#[derive(Debug, Clone, Copy)]
struct Load {
    /// Requests a second.
    rate: f64,
    /// Microseconds.
    median: f64,
    /// Microseconds.
    tail: f64,
}

/// A server that runs; dropping it ends it.
struct Server {
    child: Child,
    port: u16,
}

struct Bench<'a> {
    comparison: &'a Comparison<'a>,
    python: PathBuf,
    folder: PathBuf,
    oha: PathBuf,
}

/// The section of the page.
pub(super) fn section(comparison: &Comparison<'_>) -> Result<String> {
    let python = environments::for_serve_benches()?;
    let folder = target().join("bench-serve");
    let resnet = crate::models(&["resnet50".to_owned()])?.join("resnet50.onnx");
    let mut script = Command::new(&python);
    script.arg(root().join("xtask/python/serve_models.py"));
    run(script.arg(&folder).arg(resnet))?;
    let bench = Bench {
        comparison,
        python,
        folder,
        oha: tools::installed("oha", OHA, &[])?,
    };
    Ok(format!(
        "{}.\nRequests over loopback, made by [oha](https://crates.io/crates/oha) {OHA} on the same CPUs; the servers take turns, \
         and the best of {} rounds of {} s counts. `mlp` has layers of 784, 256, 256 and 10 (`xtask/python/serve_models.py`); a \
         request has one row as JSON, 16 KB. FastAPI 0.115.14 with uvicorn 0.54.0 and mlserver 1.7.1 execute \
         onnxruntime 1.31.1 (`xtask/python/serve_fastapi.py`, `serve_mlserver.py`). OpenVINO Model Server has no \
         package for Python or Debian and was not measured.\n\n{}\n{}\n{}\n{}",
        made("--serve --write")?,
        comparison.options.rounds,
        comparison.options.seconds,
        bench.beside_python()?,
        bench.forms()?,
        bench.joined()?,
        bench.idle()?
    ))
}

impl Bench<'_> {
    /// Requests of JSON, beside the servers in Python.
    fn beside_python(&self) -> Result<String> {
        let mut rows = Vec::new();
        for clients in [1, 16] {
            let mut best: [Option<Load>; 3] = [None; 3];
            for _ in 0..self.comparison.options.rounds {
                for (server, best) in best.iter_mut().enumerate() {
                    let running = match server {
                        0 => self.tenon(&[])?,
                        1 => self.script("serve_fastapi.py")?,
                        _ => self.script("serve_mlserver.py")?,
                    };
                    let load = self.load(&running, "mlp", Form::Json, clients)?;
                    *best = Some(faster(*best, load));
                }
            }
            let [Some(tenon), Some(fastapi), Some(mlserver)] = best else {
                return Err(super::NO_ROUND.into());
            };
            let rate = tenon.rate / fastapi.rate.max(mlserver.rate);
            let tail = tenon.tail / fastapi.tail.min(mlserver.tail);
            let cells = [tenon, fastapi, mlserver].map(|load| load.cells());
            rows.push(format!(
                "{clients} | {} | {rate:.1} | {} | {tail:.2} | {}",
                cells.join(" | "),
                met(rate >= LEAST_RATE),
                met(tail <= MOST_TAIL)
            ));
        }
        let head = "clients | Tenon: requests/s | median | 99 % | FastAPI: requests/s | median | 99 % | mlserver: requests/s | median \
                    | 99 % | rate | met | 99 % | met";
        Ok(format!(
            "Targets: {LEAST_RATE} times the requests a second of the faster server in Python, and {MOST_TAIL} of its 99th \
             percentile.\n\n{}",
            markdown::table(head, rows)
        ))
    }

    /// The forms of requests, and what a request takes beside its execution.
    fn forms(&self) -> Result<String> {
        let files = Files {
            package: self.folder.join("mlp.neff"),
            ..Files::of(&self.folder, "mlp")
        };
        self.comparison.compile(&files)?;
        let mut bench = Command::new(self.comparison.tenon);
        bench.args(["bench", "--json", "--dim", "N=1", "--threads", "1"]);
        bench.args(["--seconds", &self.comparison.options.seconds.to_string()]);
        let measured: Measurement = super::parsed(bench.arg(&files.package))?;
        let measured = measured.median_us;
        std::fs::remove_file(&files.package).map_err(|error| error.to_string())?;
        let mut rows = Vec::new();
        for (name, form) in [("JSON", Form::Json), ("binary data", Form::Binary)] {
            for clients in [1, 16] {
                let server = self.tenon(&["--threads", "1"])?;
                let load = self.best(&server, "mlp", form, clients)?;
                let added = load.median - measured;
                let (added, is_met) = match (form, clients) {
                    (Form::Binary, 1) => (time(added), met(added <= MOST_ADDED)),
                    (Form::Json, 1) => (time(added), "–"),
                    _ => ("–".into(), "–"),
                };
                rows.push(format!(
                    "{name} | {clients} | {} | {added} | {is_met}",
                    load.cells()
                ));
            }
        }
        let server = self.tenon(&["--threads", "1"])?;
        let idle = self.idle_page(&server)?;
        Ok(format!(
            "Forms of a request of `mlp`, whose execution takes {} (`tenon bench`). Target: with one client at most \
             {MOST_ADDED} µs more as binary data.\n\n{}\n\
             A page without an execution (`/v2/health/live`), with one client: median {}. Most of it is the network, the \
             program that makes the load, and threads that sleep and wake up.\n\n{}\n",
            time(measured),
            markdown::table(
                "form | clients | requests/s | median | 99 % | more than the execution | met",
                rows
            ),
            time(idle.median),
            self.over_http2(&server)?
        ))
    }

    /// Requests for a page that executes no model.
    fn idle_page(&self, server: &Server) -> Result<Load> {
        let url = format!("http://127.0.0.1:{}/v2/health/live", server.port);
        let mut best = None;
        for _ in 0..self.comparison.options.rounds {
            best = Some(faster(best, self.oha(1, &[], &url)?));
        }
        best.ok_or_else(|| super::NO_ROUND.into())
    }

    /// Requests over HTTP/2.
    fn over_http2(&self, server: &Server) -> Result<String> {
        let url = format!("http://127.0.0.1:{}/v2/models/mlp/infer", server.port);
        let length = self.head_length("mlp")?;
        let mut h2load = Command::new("h2load");
        h2load.args(["-c", "1", "-m", "16", "--warm-up-time", "0", "-D"]);
        h2load.arg(self.comparison.options.seconds.ceil().to_string());
        h2load.args(["-H", &length, "-d"]);
        h2load.arg(self.folder.join("mlp.bin")).arg(url);
        let text = output(&mut h2load)
            .map_err(|error| format!("{error} (Debian: apt-get install nghttp2-client)"))?;
        let number = |before: &str, after: &str| {
            let start = text.split_once(before)?.1;
            start.split_once(after)?.0.trim().parse::<f64>().ok()
        };
        let (Some(rate), Some(total), Some(good)) = (
            number("s, ", " req/s"),
            number("requests: ", " total"),
            number("status codes: ", " 2xx"),
        ) else {
            return Err(format!("h2load: no figures in {text}"));
        };
        if total == 0.0 || good < total {
            return Err(format!("h2load: {good} answers of 200 to {total} requests"));
        }
        Ok(format!(
            "Over HTTP/2, made by [h2load](https://nghttp2.org/documentation/h2load-howto.html), as binary data: {rate:.0} requests/s on \
             one connection with 16 streams."
        ))
    }

    /// The header with the length of the JSON before binary data.
    fn head_length(&self, model: &str) -> Result<String> {
        let length = std::fs::read_to_string(self.folder.join(format!("{model}.head")));
        let length = length.map_err(|error| error.to_string())?;
        Ok(format!("Inference-Header-Content-Length: {length}"))
    }

    /// Joined requests beside single ones.
    fn joined(&self) -> Result<String> {
        let mut rows = Vec::new();
        for (model, clients, target) in LEAST_JOINED {
            let single = self.tenon(&["--max-batch", "1"])?;
            let single = self.best(&single, model, Form::Binary, clients)?;
            let joined = self.tenon(&["--max-batch", "32"])?;
            let joined = self.best(&joined, model, Form::Binary, clients)?;
            let ratio = joined.rate / single.rate;
            rows.push(format!(
                "{model} | {clients} | {} | {} | {ratio:.2} | {target} | {}",
                single.cells(),
                joined.cells(),
                met(ratio >= target)
            ));
        }
        Ok(format!(
            "Joined requests beside single ones (`--max-batch 1`), as binary data. `wide` has layers of 1024, 4096, 4096 and 1024, \
             whose weights are read once for each execution.\n\n{}",
            markdown::table(
                "model | clients | single: requests/s | median | 99 % | joined: requests/s | median | 99 % | rate | target | met",
                rows
            )
        ))
    }

    /// The memory of idle connections.
    fn idle(&self) -> Result<String> {
        let folder = tempdir("idle")?;
        let copy = |name: &str| std::fs::copy(self.folder.join(name), folder.join(name));
        copy("mlp.onnx").map_err(|error| error.to_string())?;
        let server = self.tenon_of(&folder, &[])?;
        let before = memory(server.child.id())?;
        let mut script = Command::new(&self.python);
        script.arg(root().join("xtask/python/serve_idle.py"));
        script.args([server.port.to_string(), IDLE.to_string()]);
        let mut script = script
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut line = [0; 5];
        let stdout = script.stdout.as_mut().ok_or("no output")?;
        stdout
            .read_exact(&mut line)
            .map_err(|_| "the idle connections were not opened")?;
        let after = memory(server.child.id())?;
        drop(script.stdin.take());
        let _ = script.wait();
        Ok(format!(
            "A server with {IDLE} idle connections, which have had one request each, takes {:.0} MB of memory; without them \
             {:.0} MB. Target {:.0} MB: {}.\n",
            after / 1e6,
            before / 1e6,
            MOST_IDLE_MEMORY / 1e6,
            met(after <= MOST_IDLE_MEMORY)
        ))
    }

    fn tenon(&self, flags: &[&str]) -> Result<Server> {
        self.tenon_of(&self.folder, flags)
    }

    fn tenon_of(&self, folder: &Path, flags: &[&str]) -> Result<Server> {
        let port = free_port()?;
        // Connections are files.
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n $(ulimit -Hn); exec \"$@\"", "sh"]);
        command.arg(self.comparison.tenon).arg("serve").arg(folder);
        command.args(["--http", &format!("127.0.0.1:{port}")]);
        Server::start(command.args(flags), port)
    }

    /// A server in Python.
    fn script(&self, name: &str) -> Result<Server> {
        let port = free_port()?;
        let mut command = Command::new(&self.python);
        command.arg(root().join("xtask/python").join(name));
        command.arg(&self.folder).arg(port.to_string());
        Server::start(command.arg(tempdir(name)?), port)
    }

    /// The best of some rounds.
    fn best(&self, server: &Server, model: &str, form: Form, clients: usize) -> Result<Load> {
        let mut best = None;
        for _ in 0..self.comparison.options.rounds {
            best = Some(faster(best, self.load(server, model, form, clients)?));
        }
        best.ok_or_else(|| super::NO_ROUND.into())
    }

    fn load(&self, server: &Server, model: &str, form: Form, clients: usize) -> Result<Load> {
        let url = format!("http://127.0.0.1:{}/v2/models/{model}/infer", server.port);
        let file = |ending: &str| self.folder.join(format!("{model}.{ending}"));
        let data = |ending: &str| file(ending).display().to_string();
        match form {
            Form::Json => {
                let data = data("json");
                let arguments = ["-m", "POST", "-T", "application/json", "-D", &data];
                self.oha(clients, &arguments, &url)
            }
            Form::Binary => {
                let (length, data) = (self.head_length(model)?, data("bin"));
                self.oha(clients, &["-m", "POST", "-H", &length, "-D", &data], &url)
            }
        }
    }

    fn oha(&self, clients: usize, arguments: &[&str], url: &str) -> Result<Load> {
        let mut oha = Command::new(&self.oha);
        oha.args(["--no-tui", "--output-format", "json"]);
        oha.args(["-c", &clients.to_string()]);
        oha.args(["-z", &format!("{}s", self.comparison.options.seconds)]);
        let text = output(oha.args(arguments).arg(url))?;
        let report: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| format!("oha: {error}: {text}"))?;
        let statuses = report["statusCodeDistribution"].as_object();
        if !statuses.is_some_and(|statuses| statuses.keys().all(|status| status == "200")) {
            return Err(format!(
                "{url}: answers other than 200: {}",
                report["statusCodeDistribution"]
            ));
        }
        let number = |value: &serde_json::Value| value.as_f64().ok_or("oha: a number is missing");
        Ok(Load {
            rate: number(&report["summary"]["requestsPerSec"])?,
            median: number(&report["latencyPercentiles"]["p50"])? * 1e6,
            tail: number(&report["latencyPercentiles"]["p99"])? * 1e6,
        })
    }
}

impl Server {
    /// Starts a server and waits until it is ready.
    fn start(command: &mut Command, port: u16) -> Result<Self> {
        let log = target().join("bench-serve.log");
        let log = std::fs::File::create(log).map_err(|error| error.to_string())?;
        let copy = log.try_clone().map_err(|error| error.to_string())?;
        let child = command
            .stdin(Stdio::null())
            .stdout(copy)
            .stderr(log)
            .spawn();
        let child = child.map_err(|error| format!("a server cannot be started: {error}"))?;
        let mut server = Self { child, port };
        let limit = Instant::now() + START;
        while !server.is_ready() {
            if Instant::now() > limit || !matches!(server.child.try_wait(), Ok(None)) {
                return Err("a server is not ready: target/bench-serve.log says why".into());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(server)
    }

    fn is_ready(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else {
            return false;
        };
        let request =
            "GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let mut start = [0; 12];
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        stream.write_all(request.as_bytes()).is_ok()
            && stream.read_exact(&mut start).is_ok()
            && start == *b"HTTP/1.1 200"
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Load {
    fn cells(&self) -> String {
        let (median, tail) = (time(self.median), time(self.tail));
        format!("{:.0} | {median} | {tail}", self.rate)
    }
}

fn faster(best: Option<Load>, load: Load) -> Load {
    best.filter(|best| best.rate >= load.rate).unwrap_or(load)
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    Ok(listener.map_err(|error| error.to_string())?.port())
}

/// An empty folder under the target folder.
fn tempdir(name: &str) -> Result<PathBuf> {
    let folder = target().join("bench-serve-files").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    Ok(folder)
}

/// The memory of a process in bytes.
fn memory(process: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    let status = status.map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    Ok(kilobytes.ok_or("the memory of the server is unknown")? * 1024.0)
}
