//! How fast netlists run: products beside the arithmetic of the cores, and what an op costs besides
//! its arithmetic. Prints a table in Markdown.

#![allow(clippy::print_stdout, reason = "its table is what it is for")]

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};
use tenon::netlist::Source;
use tenon::{Control, NetlistLoad, NetlistSession, Result, Tensor, multiply_add_ceiling, threads};

/// Runs of which the best counts, for noise only ever adds.
const RUNS: usize = 10;
/// Ops one after the other whose overhead is measured.
const CHAIN: usize = 200;

fn main() -> Result<()> {
    println!("Products of two squares, GFLOP/s; the ceiling is what the cores multiply and add.\n");
    println!("| side | threads | GFLOP/s | ceiling | of the ceiling |");
    println!("|---|---|---|---|---|");
    for count in [1, threads()] {
        for side in [256, 512, 1024, 2048] {
            let best = best(&products(side), count, "x", "y")?;
            let rate = 2.0 * (side as f64).powi(3) * PRODUCTS as f64 / best.as_secs_f64() / 1e9;
            let ceiling = multiply_add_ceiling(count);
            let part = 100.0 * rate / ceiling;
            println!("| {side} | {count} | {rate:.0} | {ceiling:.0} | {part:.0} % |");
        }
    }
    println!("\nA chain of {CHAIN} additions of one tile, microseconds an op.\n");
    println!("| threads | µs |");
    println!("|---|---|");
    for count in [1, threads()] {
        let best = best(&chain(), count, "x", "y")?;
        println!(
            "| {count} | {:.2} |",
            best.as_secs_f64() * 1e6 / CHAIN as f64
        );
    }
    Ok(())
}

/// Products of a netlist, one after the other.
const PRODUCTS: usize = 4;

/// The best time of a run, inputs pushed before.
fn best(source: &Source, threads: usize, input: &str, output: &str) -> Result<Duration> {
    let load = NetlistLoad {
        threads: NonZeroUsize::new(threads),
        ..NetlistLoad::default()
    };
    let session = NetlistSession::load(source, &load)?;
    let ty = session.entry_type(input)?;
    let entry = Tensor::from_slice(ty.shape().clone(), &vec![0.01f32; ty.elements()])?;
    session.feed(input, move |_| Ok(entry.clone()))?;
    let run = || -> Result<Duration> {
        let begun = Instant::now();
        session.run("run", &Default::default(), &Control::new())?;
        let took = begun.elapsed();
        session.pop(output, Duration::ZERO)?;
        Ok(took)
    };
    let mut best = run()?;
    for _ in 0..RUNS {
        best = best.min(run()?);
    }
    Ok(best)
}

fn queue(name: &str, input: &str, tiles: usize) -> String {
    let place = name.bytes().map(usize::from).sum::<usize>() * 0x80_0000;
    format!(
        "  {name}: {{type: queue, input: {input}, entries: 1, grid_size: [1, 1], t: 1, \
         mblock: [{tiles}, {tiles}], ublock: [1, 1], df: Float32, target_device: 0, loc: dram, \
         dram: [[0, {place:#x}]]}}\n"
    )
}

fn netlist(ops: &str, last: &str, tiles: usize) -> Source {
    let text = format!(
        "devices: {{arch: grayskull}}\nqueues:\n{}{}graphs:\n  g:\n    target_device: 0\n    \
         input_count: 1\n{ops}programs:\n  - run:\n    - var: {{$zero: 0}}\n    - execute: \
         {{graph_name: g, queue_settings: {{x: {{prologue: true, epilogue: false, zero: false, \
         rd_ptr_local: $zero, rd_ptr_global: $zero}}}}}}\n",
        queue("x", "HOST", tiles),
        queue("y", last, tiles),
    );
    Source::new("bench.yaml", text)
}

fn op(index: usize, kind: &str, inputs: &str, tiles: usize, rest: &str) -> String {
    format!(
        "    op{index}: {{type: {kind}, grid_loc: [{}, {}], grid_size: [1, 1], inputs: [{inputs}], \
         in_df: [Float32, Float32], acc_df: Float16, out_df: Float32, intermed_df: Float32, \
         ublock_order: r, buf_size_mb: 2, math_fidelity: HiFi4, t: 1, mblock: [{tiles}, {tiles}], \
         ublock: [1, 1]{rest}}}\n",
        index / 12,
        index % 12
    )
}

fn products(side: usize) -> Source {
    let tiles = side / 32;
    let ops: String = (0..PRODUCTS)
        .map(|index| {
            let left = match index {
                0 => "x".to_owned(),
                _ => format!("op{}", index - 1),
            };
            let rest = format!(", attributes: {{m_k: {tiles}, u_kt: 1}}");
            op(index, "matmul", &format!("{left}, x"), tiles, &rest)
        })
        .collect();
    netlist(&ops, &format!("op{}", PRODUCTS - 1), tiles)
}

fn chain() -> Source {
    let ops: String = (0..CHAIN)
        .map(|index| {
            let left = match index {
                0 => "x".to_owned(),
                _ => format!("op{}", index - 1),
            };
            op(index, "add", &format!("{left}, x"), 1, "")
        })
        .collect();
    netlist(&ops, &format!("op{}", CHAIN - 1), 1)
}
