//! The names of values.

use std::collections::HashMap;
use tenon_onnx::proto::GraphProto;

/// Names in use.
#[derive(Default)]
pub(crate) struct Names(HashMap<String, u32>);

impl Names {
    /// Reserves `stem`, or when it is in use, `stem.1`, `stem.2`…
    pub fn unique(&mut self, stem: &str) -> String {
        if !self.0.contains_key(stem) {
            self.0.insert(stem.to_owned(), 0);
            return stem.to_owned();
        }
        loop {
            // The counter is stored with the name: many equal names take linear time.
            let count = self.0.entry(stem.to_owned()).or_default();
            *count = count.saturating_add(1);
            let name = format!("{stem}.{count}");
            if !self.0.contains_key(&name) {
                self.0.insert(name.clone(), 0);
                return name;
            }
        }
    }
}

/// Gives values their final names, in a graph and in the bodies of its nodes.
pub(crate) fn rename(graph: &mut GraphProto, names: &HashMap<String, String>) {
    for node in &mut graph.node {
        for name in node.input.iter_mut().chain(&mut node.output) {
            if let Some(new) = names.get(name) {
                name.clone_from(new);
            }
        }
        for attribute in &mut node.attribute {
            if let Some(body) = &mut attribute.g {
                rename(body, names);
            }
        }
    }
    for value in graph.input.iter_mut().chain(&mut graph.output) {
        if let Some(new) = names.get(&value.name) {
            value.name.clone_from(new);
        }
    }
}
