//! How fast graphs went here, beside what the netlist expects of a device and what an ideal one
//! would do (facts 6.9).

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
    /// Inputs that went through.
    pub inputs: u64,
    /// How long they took here; graphs that ran together took that time together.
    pub time: Duration,
    /// Cycles between two inputs on a device that never waits for data.
    pub estimated_cycles: u64,
    /// The part of the device's cores that would do math at any time, 0 to 1.
    pub estimated_utilisation: Option<f64>,
}

/// A number of `performance-check` beside what was measured here.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricRow {
    /// The block of the section that expects it.
    pub block: String,
    /// What is expected of a device, and what this machine reached.
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

    /// What one block is about: its graph, on all devices that it is on; else all programs, whose
    /// inputs are those of the graph that took most.
    fn measured(&self, check: &PerformanceCheck) -> Measurements {
        let netlist: &Netlist = self.netlist();
        let counts = netlist.graphs.iter().map(|graph| {
            let name = graph.name.value.as_str();
            let (executes, time) = self.graph_time(name);
            (name, executes * u64::from(graph.input_count.value), time)
        });
        let Some(wanted) = &check.graph else {
            return Measurements {
                seconds: self.program_time().as_secs_f64(),
                inputs: counts.map(|(_, inputs, _)| inputs).max().unwrap_or(0),
            };
        };
        let is_wanted = |name: &str| {
            let base = name.rsplit_once('.').map(|(base, _)| base);
            name == wanted || base == Some(wanted)
        };
        let own = counts.filter(|(name, ..)| is_wanted(name));
        own.fold(Measurements::default(), |all, (_, inputs, time)| {
            Measurements {
                seconds: all.seconds + time.as_secs_f64(),
                inputs: all.inputs + inputs,
            }
        })
    }
}
