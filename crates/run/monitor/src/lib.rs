//! Watching: the cores of this machine, the processes that run models on them, and what they do
//! (docs/monitoring.md).
//!
//! [`Machine`] is what the machine has. A [`Sample`] is what all processes and the system counted up
//! to one moment; two of them make [`Metrics`], which are told as JSON ([`Metrics::json`]), to
//! Prometheus ([`Metrics::exposition`]), or as a screen ([`Screen`]). Processes tell of themselves
//! through files in a shared folder ([`tenon_runtime::ProcessReport`]).
#![forbid(unsafe_code)]

mod config;
mod devices;
#[cfg_attr(not(feature = "prometheus"), path = "http_absent.rs")]
mod http;
mod latency;
mod machine;
mod metrics;
mod prometheus;
mod sample;
mod screen;
mod system;
mod terminal;
mod units;

pub use config::{Config, MetricGroup};
pub use devices::Devices;
pub use http::MetricsServer;
pub use machine::Machine;
pub use metrics::Metrics;
pub use sample::Sample;
pub use screen::Screen;
pub use terminal::Terminal;
