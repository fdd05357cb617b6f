//! An estimate of the time that nodes on the reference backend take, from the cost table of a package.

use std::collections::HashMap;
use std::fmt;
use tenon_backend::Registry;
use tenon_base::Count;
use tenon_neff::{NodeCost, NodePlacement, PlacementReport};

/// The rates of one kind of backend, on one thread of a current CPU.
struct Rates {
    /// Arithmetic operations a second.
    flops: f64,
    /// Bytes read and written a second.
    bytes: f64,
}

/// Vectorised kernels. Both rates are of the order of what one core reaches; only the ratio to
/// [`REFERENCE`] matters.
const FAST: Rates = Rates {
    flops: 50e9,
    bytes: 8e9,
};

/// Plain loops.
const REFERENCE: Rates = Rates {
    flops: 1e9,
    bytes: 1e9,
};

/// The least share of the time that is reported.
const SHARE: f64 = 0.1;

/// The least time that is reported: an execution this short is dominated by its call.
const SECONDS: f64 = 1e-4;

impl Rates {
    /// The least seconds of a node: the slower of arithmetic and memory.
    fn seconds(&self, cost: &NodeCost) -> f64 {
        let bytes = cost.read as f64 + cost.written as f64;
        (cost.flops as f64 / self.flops).max(bytes / self.bytes)
    }
}

/// Nodes on the reference backend that are likely to take over a tenth of the time. `Display` is a
/// sentence.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceTime {
    /// The estimated share of the time of an execution, from 0 to 1.
    pub share: f64,
    /// The number of nodes on the reference backend.
    pub nodes: usize,
    /// The name of the reference backend.
    pub backend: String,
    /// The operator of the node that takes most of this time.
    pub operator: String,
    /// Its name.
    pub node: String,
    /// Why the backends of higher preference refused it.
    pub reason: String,
}

impl ReferenceTime {
    /// Estimates the time from the placement and the costs of a package. `None` below a tenth, without
    /// costs, and where no other backend was to be used.
    pub fn estimate(
        report: &PlacementReport,
        costs: impl IntoIterator<Item = NodeCost>,
        backends: &Registry,
    ) -> Option<Self> {
        let reference = backends.reference()?.id().to_string();
        if report.backends.iter().all(|name| *name == reference) {
            return None;
        }
        let costs: HashMap<String, NodeCost> = costs
            .into_iter()
            .map(|cost| (cost.node.clone(), cost))
            .collect();
        let (mut total, mut slow, mut nodes) = (0.0, 0.0, 0);
        let mut slowest: Option<(f64, &NodePlacement)> = None;
        for node in &report.nodes {
            let Some(cost) = costs.get(&node.node) else {
                continue;
            };
            if node.backend != reference {
                total += FAST.seconds(cost);
                continue;
            }
            let seconds = REFERENCE.seconds(cost);
            total += seconds;
            slow += seconds;
            nodes += 1;
            if slowest.is_none_or(|(most, _)| seconds > most) {
                slowest = Some((seconds, node));
            }
        }
        let (_, node) = slowest.filter(|_| slow >= SECONDS && slow > SHARE * total)?;
        let reasons = node.refusals.iter();
        let reasons: Vec<String> = reasons
            .map(|refusal| format!("{}: {}", refusal.backend, refusal.text))
            .collect();
        Some(Self {
            share: slow / total,
            nodes,
            backend: reference,
            operator: node.operator.clone(),
            node: node.node.clone(),
            reason: reasons.join("; "),
        })
    }
}

impl fmt::Display for ReferenceTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            share,
            nodes,
            backend,
            operator,
            node,
            reason,
        } = self;
        let verb = if *nodes == 1 { "is" } else { "are" };
        write!(
            f,
            "{} on {backend} {verb} likely to take {:.0} % of the time; the slowest is {operator} '{node}'",
            Count(*nodes, "node"),
            share * 100.0
        )?;
        if reason.is_empty() {
            return Ok(());
        }
        write!(f, " ({reason})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_neff::RefusalReport;

    fn node(name: &str, backend: &str) -> NodePlacement {
        let refused = RefusalReport {
            backend: "CpuAcc".into(),
            text: "no kernel for this operator".into(),
            ..RefusalReport::default()
        };
        NodePlacement {
            node: name.into(),
            operator: "Unique".into(),
            backend: backend.into(),
            hint: None,
            converted: None,
            weights: None,
            read: None,
            written: None,
            subgraph: None,
            refusals: (backend == "CpuRef")
                .then_some(refused)
                .into_iter()
                .collect(),
        }
    }

    fn estimate(backends: &[&str], flops: [u64; 2]) -> Option<ReferenceTime> {
        let report = PlacementReport {
            backends: backends.iter().map(ToString::to_string).collect(),
            nodes: vec![node("fast", "CpuAcc"), node("slow", "CpuRef")],
            ..PlacementReport::default()
        };
        let costs = ["fast", "slow"].into_iter().zip(flops);
        let costs = costs.map(|(node, flops)| NodeCost {
            node: node.into(),
            flops,
            read: 0,
            written: 0,
        });
        ReferenceTime::estimate(&report, costs, &tenon_builtin::registry())
    }

    #[test]
    fn a_tenth_of_the_time_is_reported() {
        let both = ["CpuAcc", "CpuRef"];
        let found = estimate(&both, [50_000_000, 1_000_000]).unwrap();
        assert_eq!(
            found.to_string(),
            "1 node on CpuRef is likely to take 50 % of the time; the slowest is Unique 'slow' \
             (CpuAcc: no kernel for this operator)"
        );
        assert_eq!(
            estimate(&both, [5_000_000_000, 1_000_000]),
            None,
            "a hundredth"
        );
        assert_eq!(estimate(&both, [50, 50_000]), None, "too short");
        assert_eq!(estimate(&["CpuRef"], [0, 1_000_000]), None, "as chosen");
    }
}
