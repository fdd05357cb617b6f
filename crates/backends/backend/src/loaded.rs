//! Backends behind the C interface: a table of functions as a [`crate::Backend`].

mod backend;
mod core;
mod made;
mod workload;

pub use backend::LoadedBackend;
pub(crate) use core::Core;

#[cfg(test)]
mod tests;
