//! Serves models over the Open Inference Protocol v2, REST and gRPC (docs/serving.md).
//!
//! A [`Repository`] loads the models of a folder and replaces them when their files are replaced; a [`Server`] listens.
//! Requests of a model wait in a bounded queue, whose threads join them into executions along the batch of the model.
//! No thread that serves connections computes.

#![forbid(unsafe_code)]

mod access;
mod address;
mod app;
mod body;
mod classification;
mod datatype;
mod exposition;
mod grpc;
mod histogram;
mod infer;
mod json_answer;
mod json_data;
mod json_request;
mod model_files;
mod parameters;
mod path;
mod queue;
mod raw_data;
mod repository;
mod rest;
mod served_model;
mod server;
mod statistics;
mod statistics_json;
mod status;

pub use access::Access;
pub use address::{SocketAddr, parse_address};
pub use queue::BatchOptions;
pub use repository::{IndexRow, Repository, RepositoryEvent, RepositoryOptions};
pub use server::{Server, ServerOptions};
