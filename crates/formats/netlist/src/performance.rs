//! Expected performance: the section `performance-check` (netlist 6.9), compared with measurements on
//! this machine, and a roofline estimate of an ideal device from the blocking.

use crate::attributes::AttributeKey as Key;
use crate::netlist::{Graph, Netlist, Op};
use crate::testing::fields;
use crate::words::{MathFidelity, OpKind};
use crate::{Findings, yaml::Node};

/// Cycles of the matrix unit for a matmul of two tiles in one pass: 2,048 multiplications per cycle.
/// An assumption of the estimate, like the two constants below: no public document defines them.
const MATMUL_CYCLES: u64 = 16;
/// Cycles of the matrix unit for an elementwise operation on two tiles in one pass.
const ELEMENTWISE_CYCLES: u64 = 8;
/// Cycles of the special-function unit for a tile: 32 lanes, four instructions per element.
const SFPU_CYCLES: u64 = 128;

/// A block of the section.
#[derive(Debug, Clone, PartialEq)]
pub struct PerformanceCheck {
    /// Its name.
    pub name: String,
    /// The graph that it applies to.
    pub graph: Option<String>,
    /// The program that it applies to.
    pub program: Option<String>,
    /// The expected metrics.
    pub metrics: Vec<Metric>,
}

/// An expected metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Its name: `tensors-per-second` and so on.
    pub name: String,
    /// The expected value; 0 if it is defined elsewhere.
    pub expected: f64,
    /// The relative tolerance.
    pub rtol: f64,
}

/// Measurements on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Measurements {
    /// Run time of the programs in seconds.
    pub seconds: f64,
    /// Number of inputs processed.
    pub inputs: u64,
}

/// A metric compared with a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricOutcome {
    /// The expected metric.
    pub metric: Metric,
    /// The measured value; `None` for metrics of devices, such as cycles.
    pub measured: Option<f64>,
    /// Whether it is within the tolerance; `None` where either value is missing.
    pub within: Option<bool>,
}

impl PerformanceCheck {
    /// The blocks of the section; empty without a section.
    pub fn read(netlist: &Netlist) -> Vec<Self> {
        let blocks = fields::section(netlist, "performance-check").into_iter();
        blocks
            .flat_map(fields::entries)
            .map(|(name, node)| Self::block(name, node))
            .collect()
    }

    fn block(name: &str, node: &Node) -> Self {
        let mut check = Self {
            name: name.to_owned(),
            graph: None,
            program: None,
            metrics: Vec::new(),
        };
        for (key, node) in fields::entries(node) {
            let text = || node.text().map(str::to_owned);
            match key {
                "graph-name" => check.graph = text(),
                "program-name" => check.program = text(),
                "target-cores" | "target-ops" | "target-inputs" | "test-group" | "test-name" => {}
                _ => check.metrics.extend(Metric::read(key, node)),
            }
        }
        check
    }

    /// Compares every metric of the block with the measurements.
    pub fn evaluate(&self, measured: Measurements) -> Vec<MetricOutcome> {
        let rate = (measured.seconds > 0.0).then(|| measured.inputs as f64 / measured.seconds);
        let outcome = |metric: &Metric| {
            let measured = match metric.name.as_str() {
                "tensors-per-second" | "backend-samples-per-second" => rate,
                _ => None,
            };
            let within = measured.filter(|_| metric.expected != 0.0).map(|measured| {
                (measured - metric.expected).abs() <= metric.rtol * metric.expected.abs()
            });
            MetricOutcome {
                metric: metric.clone(),
                measured,
                within,
            }
        };
        self.metrics.iter().map(outcome).collect()
    }
}

impl Metric {
    fn read(name: &str, node: &Node) -> Option<Self> {
        let mut findings = Findings::default();
        let (mut expected, mut rtol) = (None, 0.0);
        for (key, node) in fields::entries(node) {
            let number = fields::number(node, &mut findings);
            match key {
                "expected" => expected = number,
                "rtol" => rtol = number.unwrap_or(0.0),
                _ => {}
            }
        }
        expected.map(|expected| Self {
            name: name.to_owned(),
            expected,
            rtol,
        })
    }
}

/// An estimate of one op on an ideal device without stalls for data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpEstimate<'n> {
    /// The op.
    pub op: &'n Op,
    /// Number of its cores.
    pub cores: u64,
    /// Compute cycles of each core per input.
    pub cycles: u64,
}

/// An estimate of a graph on an ideal device, whose ops form a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphEstimate<'n> {
    /// The graph.
    pub graph: &'n Graph,
    /// Its ops, in the order of the file.
    pub ops: Vec<OpEstimate<'n>>,
    /// Cycles between two inputs: the cycles of the slowest op.
    pub cycles: u64,
}

impl<'n> GraphEstimate<'n> {
    /// The estimate of a graph. A fused op has the cycles of all its scheduled ops.
    pub fn of(netlist: &Netlist, graph: &'n Graph) -> Self {
        let estimate = |op: &'n Op| {
            let [rows, columns] = op.blocking.grid_size.value.map(u64::from);
            OpEstimate {
                op,
                cores: rows * columns,
                cycles: op_cycles(netlist, op),
            }
        };
        let ops: Vec<_> = graph.ops.iter().map(estimate).collect();
        let cycles = ops.iter().map(|op| op.cycles).max().unwrap_or(0);
        Self { graph, ops, cycles }
    }

    /// The compute utilisation of `cores` cores, 0 to 1; `None` for a graph without computation.
    pub fn utilisation(&self, cores: u64) -> Option<f64> {
        let busy: f64 = self
            .ops
            .iter()
            .map(|op| op.cores as f64 * op.cycles as f64)
            .sum();
        let all = cores as f64 * self.cycles as f64;
        (all > 0.0).then(|| (busy / all).min(1.0))
    }
}

/// Number of passes of the matrix unit over its operands.
fn passes(fidelity: MathFidelity) -> u64 {
    match fidelity {
        MathFidelity::LoFi => 1,
        MathFidelity::HiFi2 | MathFidelity::HiFi2A | MathFidelity::HiFi2B => 2,
        MathFidelity::HiFi3 => 3,
        MathFidelity::HiFi4 => 4,
    }
}

fn op_cycles(netlist: &Netlist, op: &Op) -> u64 {
    let tiles = op
        .blocking
        .tiles_per_core()
        .saturating_mul(op.blocking.t.value.into());
    let passes = passes(op.math_fidelity.value);
    let inner = |attributes: &crate::Attributes| {
        let size = |key| attributes.integer(key).unsigned_abs().max(1);
        size(Key::MK).saturating_mul(size(Key::UKt))
    };
    let attributes = &op.attributes;
    let one = |kind: OpKind, attributes: &crate::Attributes, tiles: u64| match kind {
        // The number of non-zero tiles of a sparse matmul depends on its encoding.
        OpKind::Matmul if attributes.is(Key::Identity) => tiles.saturating_mul(MATMUL_CYCLES),
        OpKind::Matmul | OpKind::Depthwise => tiles
            .saturating_mul(inner(attributes))
            .saturating_mul(MATMUL_CYCLES * passes),
        OpKind::Multiply => tiles.saturating_mul(ELEMENTWISE_CYCLES * passes),
        OpKind::Reduce => tiles
            .saturating_mul(inner(attributes))
            .saturating_mul(ELEMENTWISE_CYCLES),
        _ if kind.is_binary() || kind.is_copy() => tiles.saturating_mul(ELEMENTWISE_CYCLES),
        _ if kind.is_sfpu() => tiles.saturating_mul(SFPU_CYCLES),
        _ => 0,
    };
    if op.kind.value != OpKind::FusedOp {
        return one(op.kind.value, attributes, tiles);
    }
    let fused = attributes
        .word(Key::FusedOpId)
        .and_then(|id| netlist.fused_op(id));
    let scheduled = fused
        .into_iter()
        .flat_map(|fused| fused.schedules.iter().flatten());
    let cycles = scheduled.map(|scheduled| {
        let sizes = [scheduled.mblock.value, scheduled.ublock.value];
        let tiles = sizes
            .iter()
            .flatten()
            .fold(u64::from(op.blocking.t.value), |all, &size| {
                all.saturating_mul(size.into())
            });
        one(scheduled.kind.value, &scheduled.attributes, tiles)
    });
    cycles.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, read};

    const TEXT: &str = "\
devices: {arch: grayskull}
graphs:
  g:
    target_device: 0
    input_count: 1
    m: {type: matmul, grid_loc: [0, 0], grid_size: [2, 3], inputs: [a, b], in_df: [Float16, Float16], out_df: Float16, intermed_df: Float16, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, t: 4, mblock: [2, 1], ublock: [2, 2], attributes: {m_k: 5, u_kt: 2}}
    n: {type: add, grid_loc: [2, 0], grid_size: [1, 1], inputs: [m, m], in_df: [Float16, Float16], out_df: Float16, intermed_df: Float16, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, t: 4, mblock: [4, 3], ublock: [2, 2]}
performance-check:
  config-0:
    graph-name: g
    tensors-per-second: {expected: 100, rtol: 0.10}
    cycles-per-tensor: {expected: 35500, rtol: 0.10}
  host: {backend-samples-per-second: {expected: 0, rtol: 0.08}, test-name: t}
";

    #[test]
    fn metrics_are_compared_with_measurements() {
        let netlist = read(&Source::new("p.yaml", TEXT)).netlist;
        let checks = PerformanceCheck::read(&netlist);
        assert_eq!(checks[0].graph.as_deref(), Some("g"));
        let outcomes = checks[0].evaluate(Measurements {
            seconds: 2.0,
            inputs: 190,
        });
        assert_eq!(
            (outcomes[0].measured, outcomes[0].within),
            (Some(95.0), Some(true))
        );
        assert_eq!((outcomes[1].measured, outcomes[1].within), (None, None));
        let slow = checks[0].evaluate(Measurements {
            seconds: 2.0,
            inputs: 100,
        });
        assert_eq!(slow[0].within, Some(false));
        let host = checks[1].evaluate(Measurements {
            seconds: 2.0,
            inputs: 100,
        });
        assert_eq!((host[0].measured, host[0].within), (Some(50.0), None));
    }

    #[test]
    fn the_slowest_op_determines_the_cycles_of_a_graph() {
        let netlist = read(&Source::new("p.yaml", TEXT)).netlist;
        let estimate = GraphEstimate::of(&netlist, &netlist.graphs[0]);
        // 4 slices of 8 tiles, 10 inner tiles, 16 cycles, 3 passes; 4 slices of 48 tiles, 8 cycles.
        assert_eq!(estimate.ops[0].cycles, 4 * 8 * 10 * 16 * 3);
        assert_eq!(estimate.ops[1].cycles, 4 * 48 * 8);
        assert_eq!(estimate.cycles, 15_360);
        let utilisation = estimate.utilisation(120).unwrap();
        assert!((utilisation - (6.0 * 15_360.0 + 1_536.0) / (120.0 * 15_360.0)).abs() < 1e-12);
    }
}
