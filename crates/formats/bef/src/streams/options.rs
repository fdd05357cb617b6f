//! Options of the assignment of kernels to streams, and the attribute of costs.

use crate::{Attribute, Dictionary, Function, Module};

/// The attribute that says what a kernel costs. It is for the compiler: BEF does not hand it to
/// the kernel.
pub const COST_ATTRIBUTE: &str = "_tfrt_cost";

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
