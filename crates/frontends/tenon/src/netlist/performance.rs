//! Measured times of graphs, the expectations of the netlist, and the estimate of an ideal device
//! (netlist 6.9).

use super::Session;
use std::time::Duration;
use tenon_netlist::{
    Device, GraphEstimate, Measurements, MetricOutcome, Netlist, PerformanceCheck,
};

/// A graph that has run, and the estimate of an ideal device.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphRow {
    /// Its name.
    pub graph: String,
    /// Processed inputs.
    pub inputs: u64,
    /// Measured time; graphs that ran together share it.
    pub time: Duration,
    /// Cycles between two inputs on a device that never waits for data.
    pub estimated_cycles: u64,
    /// The part of the device's cores that would do math at any time, 0 to 1.
    pub estimated_utilisation: Option<f64>,
}

/// A metric of `performance-check`, expected and measured.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricRow {
    /// The block of the section.
    pub block: String,
    /// The expected value, and the value measured on this machine.
    pub outcome: MetricOutcome,
}

impl Session {
    /// The graphs that have run so far, in the order of the netlist; estimates are of `device`.
    pub fn graph_rows(&self, device: &Device) -> Vec<GraphRow> {
        let cores = u64::from(device.rows) * u64::from(device.columns);
        let netlist = self.netlist();
        let graphs = netlist.graphs.iter().filter_map(|graph| {
            let (executes, time) = self.graph_time(&graph.name.value);
            let estimate = GraphEstimate::of(netlist, graph);
            (executes > 0).then(|| GraphRow {
                graph: graph.name.value.clone(),
                inputs: executes * u64::from(graph.input_count.value),
                time,
                estimated_cycles: estimate.cycles,
                estimated_utilisation: estimate.utilisation(cores),
            })
        });
        graphs.collect()
    }

    /// Every metric of the netlist's `performance-check`.
    pub fn metric_rows(&self) -> Vec<MetricRow> {
        let checks = PerformanceCheck::read(self.netlist());
        let rows = checks.iter().flat_map(|check| {
            let outcomes = check.evaluate(self.measured(check)).into_iter();
            outcomes.map(|outcome| MetricRow {
                block: check.name.clone(),
                outcome,
            })
        });
        rows.collect()
    }

    /// The measurements for one block: of its graph on all devices, or of all programs, with the inputs
    /// of the graph that processed most.
    fn measured(&self, check: &PerformanceCheck) -> Measurements {
        let netlist: &Netlist = self.netlist();
        let counts = netlist.graphs.iter().map(|graph| {
            let name = graph.name.value.as_str();
            let (executes, time) = self.graph_time(name);
            (name, executes * u64::from(graph.input_count.value), time)
        });
        let Some(graph) = &check.graph else {
            return Measurements {
                seconds: self.program_time().as_secs_f64(),
                inputs: counts.map(|(_, inputs, _)| inputs).max().unwrap_or(0),
            };
        };
        let is_checked = |name: &str| {
            let base = name.rsplit_once('.').map(|(base, _)| base);
            name == graph || base == Some(graph)
        };
        let own = counts.filter(|(name, ..)| is_checked(name));
        own.fold(Measurements::default(), |all, (_, inputs, time)| {
            Measurements {
                seconds: all.seconds + time.as_secs_f64(),
                inputs: all.inputs + inputs,
            }
        })
    }
}
