//! Serves models over the Open Inference Protocol v2, REST and gRPC (docs/serving.md).
//!
//! A [`Repository`] loads the models of a folder and replaces them when their files are replaced; a [`Server`] listens.
//! Requests of a model wait in a bounded queue, whose threads join them into executions along the batch of the model.
//! Threads that serve connections execute only what takes less than a tenth of a millisecond.

#![forbid(unsafe_code)]

mod access;
mod address;
mod answer_cache;
mod app;
mod body;
mod busy_poll;
mod class_labels;
mod classification;
mod connection;
mod datatype;
mod ensemble;
mod executor;
mod exposition;
mod first;
#[doc(hidden)]
pub mod fuzzing;
mod grpc;
mod histogram;
mod infer;
mod json_answer;
mod json_data;
mod json_request;
mod loaded_model;
mod model_files;
mod model_loader;
mod model_package;
mod overview;
mod parameters;
mod path;
mod port;
mod process;
mod queue;
mod rate_limit;
mod raw_data;
mod repository;
mod reshape;
mod rest;
mod sequences;
mod served_model;
mod server;
mod settings;
mod shared_memory;
mod shared_memory_page;
mod statistics;
mod statistics_json;
mod status;
mod text_format;
mod tls;
mod triton_config;
mod unread;
mod upload;
mod worker;
mod worker_message;
mod worker_service;

pub use access::Access;
pub use address::{SocketAddr, parse_address};
pub use model_loader::RepositoryOptions;
pub use queue::BatchOptions;
pub use repository::{IndexRow, Repository, RepositoryEvent};
pub use server::{Server, ServerOptions};
pub use tls::{Tls, TlsEvent, TlsFiles};
pub use worker::WorkerCommand;
pub use worker_service::serve_worker;

#[cfg(test)]
#[path = "../tests/common/certificates.rs"]
mod test_certificates;
