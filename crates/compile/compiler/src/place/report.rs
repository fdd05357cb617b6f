//! The placement report of a package (docs/package.md).

use super::{Crossing, Placement};
use std::collections::BTreeMap;
use tenon_backend::Reason;
use tenon_graph::DataType;
use tenon_neff::{
    ConvertedType, CrossingReport, Crossings, NodePlacement, PlacementReport, RefusalReport,
};

impl Placement {
    /// The report for the package.
    pub fn report(&self) -> PlacementReport {
        let nodes = self.nodes.iter().map(|placed| NodePlacement {
            node: placed.node.clone(),
            operator: placed.operator.to_owned(),
            backend: placed.target.to_string(),
            hint: placed.hint.as_ref().map(ToString::to_string),
            converted: placed.converted.map(converted),
            weights: placed.weights.map(|dtype| dtype.to_string()),
            subgraph: placed.subgraph,
            read: placed.cost.map(|cost| cost.read),
            written: placed.cost.map(|cost| cost.written),
            refusals: placed
                .refusals
                .iter()
                .map(|refused| RefusalReport {
                    backend: refused.backend.to_string(),
                    cause: refused.query.to_string(),
                    reason: refused.refusal.reason.code().to_owned(),
                    arguments: arguments(&refused.refusal.reason),
                    text: refused.refusal.to_string(),
                })
                .collect(),
        });
        PlacementReport {
            backends: self.backends.iter().map(ToString::to_string).collect(),
            nodes: nodes.collect(),
            crossings: Crossings {
                count: self.crossings.len() as u64,
                bytes: self.crossing_bytes(),
                values: self.crossings.iter().map(crossing).collect(),
            },
            notes: self.notes.clone(),
            traffic: self.traffic.clone(),
        }
    }
}

fn crossing(crossing: &Crossing) -> CrossingReport {
    CrossingReport {
        value: crossing.value.clone(),
        from: crossing.producers.iter().map(ToString::to_string).collect(),
        to: crossing.consumer.to_string(),
        way: crossing.kind.to_string(),
        bytes: crossing.bytes,
    }
}

fn converted((from, to): (DataType, DataType)) -> ConvertedType {
    ConvertedType {
        from: from.to_string(),
        to: to.to_string(),
    }
}

/// The arguments of a reason, by name.
fn arguments(reason: &Reason) -> BTreeMap<String, String> {
    let list: Vec<(&str, String)> = match reason {
        Reason::InputType { input, found } => {
            vec![("input", input.to_string()), ("found", found.to_string())]
        }
        Reason::InputRank { input, found } => {
            vec![("input", input.to_string()), ("found", found.to_string())]
        }
        Reason::AttributeValue { attribute, found } => {
            vec![
                ("attribute", attribute.to_string()),
                ("found", found.clone()),
            ]
        }
        Reason::NotConstant { input } => vec![("input", input.to_string())],
        _ => Vec::new(),
    };
    list.into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
