//! Options of stream assignment, and the cost attribute.

use crate::{Attribute, Dictionary, Function, Module};

/// The attribute with the cost of a kernel. It is for the compiler: BEF does not encode it as a
/// kernel attribute.
pub const COST_ATTRIBUTE: &str = "_tfrt_cost";

/// Options of [`assign_streams`](crate::assign_streams).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOptions {
    /// Minimum cost of a separate stream; 0 or less means the cost of the longest path
    /// (`tfrt.cost_threshold`).
    pub cost_threshold: i64,
    /// Whether streams that depend on each other are merged (`tfrt.merge_inter_dependent_streams`).
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
    /// The options in the attributes of a function, with those of the module as defaults. For a
    /// region, the attributes of the module alone.
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
