//! The list of the models that this process runs, which `tenon top` and the Prometheus page show.

pub use tenon_runtime::{ActiveModel, Activity, ModelReport};
