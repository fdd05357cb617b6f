//! How ops share threads: each by itself with loops on all of them, or several beside each other.

use super::table::flops;
use std::collections::HashMap;
use tenon_netlist::{Netlist, Op, OpKind};

/// Nanoseconds from which an op is worth all threads: below, waking them takes as long.
const LARGE_OP: f64 = 30_000.0;
/// How many ops on average must be ready at a time for them to run beside each other.
const LEAST_WIDTH: f64 = 1.5;

/// Whether ops run beside each other: they are small, and independent enough. Otherwise they run
/// one after the other, the loops of each on all threads.
pub(super) fn beside_each_other(netlist: &Netlist) -> bool {
    let (mut all, mut ops, mut longest) = (0.0, 0usize, 0.0);
    for graph in &netlist.graphs {
        let mut ends: HashMap<&str, f64> = HashMap::new();
        let mut end = 0.0f64;
        // Ops stand behind what they read in nearly all files; an estimate may miss the others.
        for op in &graph.ops {
            let inputs = op.inputs.iter();
            let begins = inputs.filter_map(|input| ends.get(&*input.name.value));
            let own = begins.copied().fold(0.0, f64::max) + nanoseconds(op);
            ends.insert(&op.name.value, own);
            end = end.max(own);
            all += nanoseconds(op);
        }
        ops += graph.ops.len();
        longest += end;
    }
    all < LARGE_OP * ops as f64 && all >= LEAST_WIDTH * longest
}

/// What an op takes on one thread, roughly.
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
    // 100 GFLOP/s of products, half a nanosecond for each element of others, and what each op
    // costs.
    1_000.0 + arithmetic / 100.0 + elements / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_netlist::{Source, read};

    /// Additions of so many tiles, each of the one before or all of the queue.
    fn additions(tiles: usize, chained: bool) -> Netlist {
        let op = |index: usize| {
            let input = match chained && index > 0 {
                true => format!("op{}", index - 1),
                false => "x".to_owned(),
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
    fn small_ops_that_are_independent_run_beside_each_other() {
        assert!(beside_each_other(&additions(1, false)));
        assert!(!beside_each_other(&additions(1, true)));
        assert!(!beside_each_other(&additions(1000, false)));
    }
}
