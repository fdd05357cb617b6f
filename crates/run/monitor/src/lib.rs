//! Monitoring of the cores of this machine and of the processes that execute models on them
//! (docs/monitoring.md).
//!
//! [`Machine`] describes the hardware. A [`Sample`] has the counters of all processes and the system
//! at one time; the difference of two are [`Metrics`], which are output as JSON ([`Metrics::json`]),
//! for Prometheus ([`Metrics::exposition`]), or as text ([`Screen`]). Processes publish their
//! counters in files of a shared folder ([`tenon_runtime::ProcessReport`]).
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

pub use config::{Config, MetricGroup};
pub use devices::Devices;
pub use http::MetricsServer;
pub use machine::Machine;
pub use metrics::Metrics;
pub use sample::Sample;
pub use screen::Screen;
pub use terminal::{Terminal, restore_terminal};
