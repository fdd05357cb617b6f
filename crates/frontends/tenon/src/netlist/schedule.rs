//! How the ops of a netlist use threads: one op at a time with its loops on all threads, or several ops
//! concurrently, each on one thread.

use super::table::flops;
use std::collections::HashMap;
use tenon_netlist::{Netlist, Op, OpKind};

/// Nanoseconds from which an op is worth all threads; for a shorter op, waking them takes as long.
const LARGE_OP: f64 = 30_000.0;
/// The least average number of ready ops (work over critical path) for which ops run concurrently.
const LEAST_PARALLELISM: f64 = 1.5;

/// Whether ops run concurrently: they are small, and the critical path is short enough against the
/// total work. Otherwise they run one after the other, the loops of each on all threads.
pub(super) fn run_concurrently(netlist: &Netlist) -> bool {
    let (mut work, mut ops, mut critical_path) = (0.0, 0usize, 0.0);
    for graph in &netlist.graphs {
        let mut ends: HashMap<&str, f64> = HashMap::new();
        let mut end = 0.0f64;
        // Nearly all files list ops in topological order; the estimate ignores other edges.
        for op in &graph.ops {
            let inputs = op.inputs.iter();
            let begins = inputs.filter_map(|input| ends.get(&*input.name.value));
            let own = begins.copied().fold(0.0, f64::max) + nanoseconds(op);
            ends.insert(&op.name.value, own);
            end = end.max(own);
            work += nanoseconds(op);
        }
        ops += graph.ops.len();
        critical_path += end;
    }
    work < LARGE_OP * ops as f64 && work >= LEAST_PARALLELISM * critical_path
}

/// A rough estimate of the time of an op on one thread.
fn nanoseconds(op: &Op) -> f64 {
    let [height, width] = op.blocking.tile();
    let tiles = u64::from(op.blocking.t.value)
        .saturating_mul(op.blocking.rows())
        .saturating_mul(op.blocking.columns());
    let elements = tiles.saturating_mul((height * width).into()) as f64;
    let arithmetic = match op.kind.value {
        OpKind::Matmul | OpKind::Depthwise => flops(op) as f64,
        _ => 0.0,
    };
    // Matmuls at 100 GFLOP/s, other ops at half a nanosecond an element, 1 µs of overhead an op.
    1_000.0 + arithmetic / 100.0 + elements / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_netlist::{Source, read};

    /// Eight nops on `tiles` tiles each, in a chain or all on the queue.
    fn nops(tiles: usize, chained: bool) -> Netlist {
        let op = |index: usize| {
            let input = if chained && index > 0 {
                format!("op{}", index - 1)
            } else {
                "x".to_owned()
            };
            format!(
                "    op{index}: {{type: nop, grid_loc: [0, {index}], grid_size: [1, 1], inputs: [{input}], \
                 in_df: [Float16], out_df: Float16, intermed_df: Float16, math_fidelity: LoFi, buf_size_mb: 2, \
                 ublock_order: r, t: 1, mblock: [1, {tiles}], ublock: [1, 1]}}\n"
            )
        };
        let ops: String = (0..8).map(op).collect();
        let text = format!(
            "devices: {{arch: grayskull}}\nqueues:\n  x: {{type: queue, input: HOST, entries: 1, grid_size: \
             [1, 1], t: 1, mblock: [1, {tiles}], ublock: [1, 1], df: Float16, target_device: 0, loc: dram, dram: \
             [[0, 0x100]]}}\ngraphs:\n  g:\n    target_device: 0\n    input_count: 1\n{ops}"
        );
        read(&Source::new("n.yaml", text)).netlist
    }

    #[test]
    fn small_independent_ops_run_concurrently() {
        assert!(run_concurrently(&nops(1, false)));
        assert!(!run_concurrently(&nops(1, true)));
        assert!(!run_concurrently(&nops(1000, false)));
    }
}
