//! Streams: sequences of kernels that run on one thread (bef 2.5).

mod analysis;
mod options;
mod remarks;
#[cfg(test)]
mod tests;

use crate::Function;
use analysis::Analysis;
pub use options::{COST_ATTRIBUTE, StreamOptions};
pub use remarks::stream_remarks;

/// The streams of a function's kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streams {
    /// The stream that starts the function; it holds the return, too.
    pub root: u32,
    /// The stream of every kernel, in block order.
    pub kernels: Vec<u32>,
}

/// Assigns streams to the kernels of `function`.
pub fn assign_streams(function: &Function, options: StreamOptions) -> Streams {
    let analysis = Analysis::of(function, options);
    let stream = |op| analysis.stream_of(op) as u32;
    Streams {
        root: stream(analysis.root()),
        kernels: (0..function.kernels.len()).map(stream).collect(),
    }
}
