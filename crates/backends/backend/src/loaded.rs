//! Loaded backends: a function table of the C interface as a [`crate::Backend`].

mod backend;
mod core;
mod host;
mod objects;
mod stream;
mod workload;

pub use backend::LoadedBackend;
pub(crate) use core::Core;

#[cfg(test)]
mod tests;
