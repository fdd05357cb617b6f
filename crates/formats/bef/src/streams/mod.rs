//! Streams: which kernels run one after the other on a thread (facts 2.5).

mod analysis;
mod remarks;
#[cfg(test)]
mod tests;

use crate::{Attribute, Dictionary, Function, Module};
use analysis::Analysis;
pub use remarks::stream_remarks;

/// How streams are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOptions {
    /// The cost from which a stream is worth a thread; 0 or less takes the cost of the longest
    /// path (`tfrt.cost_threshold`).
    pub cost_threshold: i64,
    /// Whether streams that wait for each other are merged (`tfrt.merge_inter_dependent_streams`).
    pub merge_inter_dependent: bool,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            cost_threshold: -1,
            merge_inter_dependent: false,
        }
    }
}

impl StreamOptions {
    /// What the attributes of a function of `module` say, and where they say nothing those of the
    /// module. A region asks the module alone.
    pub fn of(module: &Module, function: &Function) -> Self {
        let find = |name: &str| {
            let own = find(&function.attributes, name).filter(|_| !function.is_region());
            own.or_else(|| find(&module.attributes, name))
        };
        let default = Self::default();
        let threshold = find("tfrt.cost_threshold").and_then(Attribute::as_i64);
        let merge = match find("tfrt.merge_inter_dependent_streams") {
            Some(Attribute::I1(merge)) => Some(*merge),
            _ => None,
        };
        Self {
            cost_threshold: threshold.unwrap_or(default.cost_threshold),
            merge_inter_dependent: merge.unwrap_or(default.merge_inter_dependent),
        }
    }
}

fn find<'a>(attributes: &'a Dictionary, name: &str) -> Option<&'a Attribute> {
    let found = attributes.iter().find(|(other, _)| *other == name);
    found.map(|(_, attribute)| attribute)
}

/// The streams of a function's kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streams {
    /// The stream that starts the function; it holds the return, too.
    pub root: u32,
    /// The stream of every kernel, in block order.
    pub kernels: Vec<u32>,
}

/// The attribute that says what a kernel costs. It is for the compiler: BEF does not hand it to
/// the kernel.
pub const COST_ATTRIBUTE: &str = "_tfrt_cost";

/// Assigns streams to the kernels of `function`.
pub fn assign_streams(function: &Function, options: StreamOptions) -> Streams {
    let analysis = Analysis::of(function, options);
    let stream = |op| analysis.stream_of(op) as u32;
    Streams {
        root: stream(analysis.root()),
        kernels: (0..function.kernels.len()).map(stream).collect(),
    }
}
