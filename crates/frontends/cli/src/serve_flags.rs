//! Flags of `tenon serve`.

use crate::package_flags::byte_count;
use crate::plugin_flags::BackendFlags;
use crate::thread_flags::{ThreadFlags, positive};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use tenon_serve::{SocketAddr, parse_address};

/// Serve the models of a folder over the Open Inference Protocol: REST and gRPC, Prometheus metrics.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon serve models                        REST and gRPC on 127.0.0.1:8000
  tenon serve models --http :8000 --grpc :8001
  tenon serve models --batch-delay 0.002    wait 2 ms for requests to join
  tenon serve models --http :8443 --tls-cert cert.pem --tls-key key.pem
  tenon serve models --isolate              a process for each model
  curl localhost:8000/v2/models/digits

The folder has NAME.neff, NAME.onnx, NAME.tflite, or NAME/VERSION/ with one such file. New and replaced \
files are loaded while requests are served; a file that cannot be loaded leaves the one before it in \
place.

SIGTERM ends the server after the requests in flight. docs/serving.md has the pages, statuses and \
metrics.")]
pub struct Serve {
    /// The folder of models.
    pub folder: PathBuf,
    /// Where REST is served, and gRPC unless --grpc is given. The host is 127.0.0.1 if it is left out,
    /// as in :8000; port 0 is any that is free.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8000", value_parser = parse_address)]
    pub http: SocketAddr,
    /// Where gRPC is served instead.
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_address)]
    pub grpc: Option<SocketAddr>,
    /// The name of the server in its metadata, for clients that check for "triton".
    #[arg(long, value_name = "NAME", default_value = "tenon")]
    pub server_name: String,
    /// Require the token in the first line of a file: Authorization: Bearer TOKEN.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Let requests with the token in this file load and unload models.
    #[arg(long, value_name = "FILE")]
    pub admin_token_file: Option<PathBuf>,
    /// Let programs of this machine load and unload models without a token; all addresses must be loopback ones.
    #[arg(long, conflicts_with = "admin_token_file")]
    pub allow_model_control: bool,
    /// Let requests with the admin token also bring models, which are written into the folder as NAME/VERSION/.
    #[arg(long, requires = "admin_token_file")]
    pub allow_uploads: bool,
    /// Let programs of this machine register its shared memory for inputs and outputs; all addresses must be loopback
    /// ones.
    #[arg(long)]
    pub allow_shared_memory: bool,
    /// Allow an address that other machines reach without a token.
    #[arg(long)]
    pub insecure: bool,
    /// Encrypt connections (TLS) with the certificate in this PEM file, which those of its issuers
    /// follow. It is read again when it changes, and at SIGHUP.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Accept only clients with a certificate of the authorities in this PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
    /// Join requests up to this many rows, in models whose batch is symbolic; 1 joins none.
    #[arg(long, value_name = "ROWS", default_value_t = 32, value_parser = positive)]
    pub max_batch: usize,
    /// Seconds that a request waits for others to join.
    #[arg(long, value_name = "S", default_value = "0", value_parser = seconds)]
    pub batch_delay: Duration,
    /// Requests that may wait for a model; further ones are refused (429).
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = positive)]
    pub max_waiting: usize,
    /// Concurrent executions of each model.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    pub instances: usize,
    #[command(flatten)]
    pub threading: ThreadFlags,
    /// Execute each model in a separate process: a crash of a plug-in, or of a native node (these run with
    /// TENON_ALLOW_NATIVE_NODES=1), ends that process, which is started again, and not the server.
    #[arg(long)]
    pub isolate: bool,
    #[command(flatten)]
    pub backends: BackendFlags,
    /// Be the process of one model: standard input is a socket of the server.
    #[arg(long, hide = true)]
    pub worker: bool,
    /// The longest time of a request in seconds; without it only that of the caller.
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub request_timeout: Option<Duration>,
    /// Refuse larger requests; K, M and G may follow the number.
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = byte_count)]
    pub max_request: u64,
    /// Refuse requests while those in flight are larger.
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = byte_count)]
    pub max_in_flight: u64,
    /// Open connections; further ones wait.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = positive)]
    pub max_connections: usize,
    /// Threads that serve connections and execute what takes less than 0.1 ms [default: one for each four CPUs]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub connection_threads: Option<usize>,
    /// Seconds for which a connection thread polls for the next request before it sleeps, while nothing is
    /// executed: one that comes meanwhile is answered tens of microseconds sooner. 0 sleeps at once
    /// [default: 0.0001, with one CPU 0]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub busy_poll: Option<Duration>,
    /// Seconds between two looks at the folder and the certificates; 0 looks only at the start.
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    pub poll: Duration,
    /// Seconds after SIGTERM in which the server is not ready but accepts connections.
    #[arg(long, value_name = "S", default_value = "0", value_parser = seconds)]
    pub drain_delay: Duration,
    /// Seconds for the requests in flight after that; then they are cancelled.
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds)]
    pub drain_timeout: Duration,
    /// Print addresses and models as JSON, one object, when the models are loaded.
    #[arg(long)]
    pub json: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    let seconds = seconds.filter(|seconds| (0.0..=1e6).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("'{text}' is no time in seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_not_negative() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["-1", "nan", "inf", "1e9", "x"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
