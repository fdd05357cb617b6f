//! The compiler: a graph becomes a package.
//!
//! Stages, one module each: [`specialise`] (types and constants), [`optimise`] (cleaning, fusing,
//! layout), [`place`] (who computes), [`memory`] (where values live), [`lower`] (the host program),
//! [`pack`] (the package's contents). Everything is deterministic: equal graphs and options give
//! equal bytes.

#![forbid(unsafe_code)]

mod arena;
mod clean;
mod compile;
mod fuse;
mod infer;
mod layout;
mod lower;
mod memory;
mod movement;
mod optimise;
mod outputs;
mod pack;
mod place;
mod rewrite;
mod shape_inputs;
mod specialise;

pub use compile::{Compiled, DEFAULT_BACKENDS, Options, compile};
pub use place::{NodePlacement, Placement, Target};
pub use shape_inputs::shape_inputs;
