//! The placement report: the backend of each node of a model, and the reasons why other backends
//! refused it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use tenon_base::format_bytes;

/// The placement of every node. Its `Display` is a line such as
/// `412 ops: 409 CpuAcc, 3 CpuRef (NonMaxSuppression: no kernel for this operator); 2 crossings, 1.2 MB`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlacementReport {
    /// The backends in order of preference.
    pub backends: Vec<String>,
    /// Every node.
    pub nodes: Vec<NodePlacement>,
    /// Values that pass from one backend to another.
    pub crossings: Crossings,
    /// Optimisations that were left out, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What an execution reads and writes.
    #[serde(default, skip_serializing_if = "MemoryTraffic::is_unknown")]
    pub traffic: MemoryTraffic,
}

/// The bytes that an execution reads and writes, and the tensors that it does not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryTraffic {
    /// The bytes that all nodes read and write. Unknown with symbols, and with several subgraphs, which may be executed
    /// several times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<u64>,
    /// The least possible: inputs and constants read once, outputs written once. Known if `moved` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<u64>,
    /// Intermediate tensors of the model that are in no buffer, because the nodes around them are one node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fused: Vec<String>,
}

impl MemoryTraffic {
    fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// The placement of one node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodePlacement {
    /// The node's name.
    pub node: String,
    /// Its operator.
    pub operator: String,
    /// A backend's name, `dma`, `view` or `cpu node`.
    pub backend: String,
    /// The pattern of the hint that chose the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The data type of its computation, where it differs from the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub converted: Option<ConvertedType>,
    /// The data type of its weights, where it is narrower than that of its other operands (`--precision`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<String>,
    /// The subgraph of its backend that it belongs to, counted from 0 over all backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subgraph: Option<u32>,
    /// The bytes that it reads in an execution, once each; `None` for views, and where sizes are symbolic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<u64>,
    /// The bytes that it writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<u64>,
    /// Why backends that were queried before refused the node.
    #[serde(default)]
    pub refusals: Vec<RefusalReport>,
}

/// A data type in place of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConvertedType {
    /// The model's data type.
    pub from: String,
    /// The data type of the computation.
    pub to: String,
}

/// Why one backend refuses a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RefusalReport {
    /// The backend's name, or `dma`.
    pub backend: String,
    /// Why the backend was queried: `preference`, `hint PATTERN`, `optimisation` or `transfer`; empty in
    /// packages that do not record it.
    #[serde(default, rename = "asked")] // words: allow
    pub cause: String,
    /// The code of the reason.
    pub reason: String,
    /// Arguments of the code by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, String>,
    /// The sentence.
    pub text: String,
}

/// Values that pass from one backend to another.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Crossings {
    /// Their number.
    pub count: u64,
    /// Their total size in bytes.
    pub bytes: u64,
    /// Each value; empty in packages that do not record them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<CrossingReport>,
}

/// One value that passes from one backend to another.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CrossingReport {
    /// The value's name.
    pub value: String,
    /// The backends that produce its bytes.
    pub from: Vec<String>,
    /// The backend that reads it.
    pub to: String,
    /// The transfer: `shared`, `import` or `copy`.
    pub way: String,
    /// Its bytes.
    pub bytes: u64,
}

/// In place of a backend: a function of a library executes the node.
const CPU_NODE: &str = "cpu node";

/// Operators displayed with their reason; further ones are counted.
const REASONS: usize = 2;

impl PlacementReport {
    /// Merges the reports of all subgraphs of a package.
    pub fn of_all<'a>(reports: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        let mut subgraphs = 0;
        for (index, report) in reports.into_iter().enumerate() {
            if all.backends.is_empty() {
                all.backends.clone_from(&report.backends);
            }
            let is_only = index == 0;
            all.traffic.moved = report.traffic.moved.filter(|_| is_only);
            all.traffic.least = report.traffic.least.filter(|_| is_only);
            all.traffic.fused.extend_from_slice(&report.traffic.fused);
            let first = subgraphs;
            for node in &report.nodes {
                let mut node = node.clone();
                node.subgraph = node.subgraph.map(|number| first + number);
                subgraphs = subgraphs.max(node.subgraph.map_or(0, |number| number + 1));
                all.nodes.push(node);
            }
            all.crossings.count += report.crossings.count;
            all.crossings.bytes += report.crossings.bytes;
            let values = report.crossings.values.iter().cloned();
            all.crossings.values.extend(values);
            all.notes.extend_from_slice(&report.notes);
        }
        all
    }

    /// Adds a CPU node, which runs on no backend.
    pub fn add_cpu_node(&mut self, node: &str, operator: &str) {
        self.nodes.push(NodePlacement {
            node: node.to_owned(),
            operator: operator.to_owned(),
            backend: CPU_NODE.to_owned(),
            ..NodePlacement::default()
        });
    }

    /// Number of nodes that a backend (or `dma`, or `view`) executes.
    pub fn count(&self, backend: &str) -> usize {
        let nodes = self.nodes.iter();
        nodes.filter(|node| node.backend == backend).count()
    }

    /// All backends that execute nodes: the preferred ones in their order, then those of hints.
    pub fn used(&self) -> Vec<&str> {
        let mut used: Vec<&str> = self.backends.iter().map(String::as_str).collect();
        for node in &self.nodes {
            if !used.contains(&&*node.backend)
                && !matches!(&*node.backend, "dma" | "view" | CPU_NODE)
            {
                used.push(&node.backend);
            }
        }
        used.retain(|backend| self.count(backend) > 0);
        used
    }

    /// The operators on `backend` that other backends refused, each once, with the first reason.
    fn reasons(&self, backend: &str) -> Vec<(&str, &str)> {
        let mut reasons: Vec<(&str, &str)> = Vec::new();
        for node in self.nodes.iter().filter(|node| node.backend == backend) {
            let known = reasons
                .iter()
                .any(|(operator, _)| *operator == node.operator);
            if let (Some(refusal), false) = (node.refusals.first(), known) {
                reasons.push((&node.operator, &refusal.text));
            }
        }
        reasons
    }
}

impl fmt::Display for PlacementReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moves = self.count("dma");
        let cpu_nodes = self.count(CPU_NODE);
        let total = self.nodes.len() - moves - cpu_nodes - self.count("view");
        write!(f, "{total} {}", if total == 1 { "op" } else { "ops" })?;
        for (index, backend) in self.used().into_iter().enumerate() {
            let before = if index == 0 { ":" } else { "," };
            write!(f, "{before} {} {backend}", self.count(backend))?;
            let first = self.backends.first().is_some_and(|first| first == backend);
            let reasons = self.reasons(backend);
            if first || reasons.is_empty() {
                continue;
            }
            let shown: Vec<String> = reasons
                .iter()
                .take(REASONS)
                .map(|(operator, text)| format!("{operator}: {text}"))
                .collect();
            write!(f, " ({}", shown.join("; "))?;
            match reasons.len().saturating_sub(REASONS) {
                0 => write!(f, ")")?,
                1 => write!(f, "; and 1 more operator)")?,
                more => write!(f, "; and {more} more operators)")?,
            }
        }
        match cpu_nodes {
            0 => {}
            1 => write!(f, "; 1 CPU node")?,
            _ => write!(f, "; {cpu_nodes} CPU nodes")?,
        }
        match moves {
            0 => {}
            1 => write!(f, "; 1 move by dma")?,
            _ => write!(f, "; {moves} moves by dma")?,
        }
        let bytes = format_bytes(self.crossings.bytes);
        match self.crossings.count {
            0 => {}
            1 => write!(f, "; 1 crossing, {bytes}")?,
            count => write!(f, "; {count} crossings, {bytes}")?,
        }
        match self.notes.len() {
            0 => Ok(()),
            1 => write!(f, "; 1 optimisation left out"),
            count => write!(f, "; {count} optimisations left out"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(operator: &str, backend: &str, refusal: Option<&str>) -> NodePlacement {
        let refusal = refusal.map(|text| RefusalReport {
            backend: "CpuAcc".into(),
            cause: "preference".into(),
            reason: "unknown-operator".into(),
            text: text.into(),
            ..RefusalReport::default()
        });
        NodePlacement {
            node: "n".into(),
            operator: operator.into(),
            backend: backend.into(),
            refusals: refusal.into_iter().collect(),
            ..NodePlacement::default()
        }
    }

    #[test]
    fn the_summary_names_backends_and_reasons() {
        let mut report = PlacementReport {
            backends: vec!["CpuAcc".into(), "CpuRef".into()],
            nodes: vec![
                node("Conv", "CpuAcc", None),
                node("Concat", "dma", None),
                node("Reshape", "view", None),
            ],
            ..PlacementReport::default()
        };
        assert_eq!(report.to_string(), "1 op: 1 CpuAcc; 1 move by dma");
        let why = Some("no kernel for this operator");
        for operator in ["Unique", "Unique", "Det"] {
            report.nodes.push(node(operator, "CpuRef", why));
        }
        report.crossings = Crossings {
            count: 2,
            bytes: 1_200_000,
            values: Vec::new(),
        };
        assert_eq!(
            report.to_string(),
            "4 ops: 1 CpuAcc, 3 CpuRef (Unique: no kernel for this operator; Det: no kernel for \
             this operator); 1 move by dma; 2 crossings, 1.2 MB"
        );
        report.nodes.push(node("Hann", "CpuRef", why));
        report.nodes.push(node("Conv", "Other", None));
        report.crossings.count = 1;
        assert_eq!(
            report.to_string(),
            "6 ops: 1 CpuAcc, 4 CpuRef (Unique: no kernel for this operator; Det: no kernel for \
             this operator; and 1 more operator), 1 Other; 1 move by dma; 1 crossing, 1.2 MB"
        );
        assert_eq!(PlacementReport::default().to_string(), "0 ops");
        let mut report = PlacementReport::default();
        report.nodes.push(node("Neg", "CpuAcc", None));
        report.add_cpu_node("twice", "own.Twice");
        report.notes.push("layout of images: ...".into());
        assert_eq!(
            report.to_string(),
            "1 op: 1 CpuAcc; 1 CPU node; 1 optimisation left out"
        );
    }

    #[test]
    fn the_bytes_of_several_subgraphs_are_unknown() {
        let traffic = |name: &str| MemoryTraffic {
            moved: Some(3),
            least: Some(2),
            fused: vec![name.into()],
        };
        let [a, b] = ["a", "b"].map(|name| PlacementReport {
            traffic: traffic(name),
            ..PlacementReport::default()
        });
        assert_eq!(PlacementReport::of_all([&a]).traffic, traffic("a"));
        let both = MemoryTraffic {
            fused: vec!["a".into(), "b".into()],
            ..MemoryTraffic::default()
        };
        assert_eq!(PlacementReport::of_all([&a, &b]).traffic, both);
    }

    #[test]
    fn reports_of_older_packages_are_read() {
        let text = r#"{"backends":[],"nodes":[],"crossings":{"count":0,"bytes":0}}"#;
        let read: PlacementReport = serde_json::from_str(text).unwrap();
        assert_eq!(read, PlacementReport::default());
        let text = r#"{"backend":"CpuAcc","reason":"other","text":"t"}"#;
        let read: RefusalReport = serde_json::from_str(text).unwrap();
        assert_eq!((read.cause.as_str(), read.text.as_str()), ("", "t"));
        let text = r#"{"count":2,"bytes":9}"#;
        let read: Crossings = serde_json::from_str(text).unwrap();
        assert_eq!((read.count, read.bytes, read.values), (2, 9, Vec::new()));
    }
}
