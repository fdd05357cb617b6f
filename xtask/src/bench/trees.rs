//! `cargo xtask bench --trees`: ensembles of decision trees, compared with onnxruntime and with compilers of trees.

use super::table::{met, time};
use super::{Comparison, Files, Measurement, NO_ROUND, ONNXRUNTIME, Peer, agreement, best, made};
use crate::python as environments;
use crate::{Result, markdown, root, run, target};
use std::path::PathBuf;
use std::process::Command;

/// Largest latency as a multiple of onnxruntime's.
const LIMIT: f64 = 0.7;

/// Trees, their depth, the largest latency as a multiple of the faster compiler's, and how many of [`PEERS`] are measured:
/// lleaves had not compiled 27,000 leaves in 13 minutes, and treelite takes many minutes for 270,000.
const ENSEMBLES: [(usize, usize, f64, usize); 4] = [
    (100, 6, 1.0, 3),
    (1000, 6, 1.0, 3),
    (100, 12, 1.5, 2),
    (1000, 12, 1.5, 1),
];

const BATCHES: [usize; 3] = [1, 100, 10_000];

const PEERS: [Peer; 3] = [
    ONNXRUNTIME,
    Peer {
        name: "treelite 4.8.1",
        script: "tree_bench.py",
        arguments: &["treelite"],
    },
    Peer {
        name: "lleaves 1.3.0",
        script: "tree_bench.py",
        arguments: &["lleaves"],
    },
];

/// The section of the tree ensembles.
pub(super) fn section(comparison: &Comparison<'_>) -> Result<String> {
    let comparison = &Comparison {
        python: &environments::for_tree_benches()?,
        ..*comparison
    };
    let folder = models(comparison)?;
    let mut rows = Vec::new();
    for (trees, depth, limit, measured) in ENSEMBLES {
        let peers = &PEERS[..measured];
        for batch in BATCHES {
            let name = format!("trees-{trees}-{depth}-{batch}");
            eprintln!("measuring {name}");
            let files = Files::of(&folder, &name);
            comparison.compile(&files)?;
            agreement(comparison.tenon, &files.package, &files.arrays)?;
            for &threads in &comparison.options.threads {
                let measured = rounds(comparison, &files, threads, peers)?;
                let columns = columns(&measured, limit);
                rows.push(format!(
                    "{trees} | {depth} | {batch} | {threads} | {columns}"
                ));
            }
        }
    }
    Ok(format!(
        "{}.\nRegressions on 50 features, made by `xtask/python/tree_models.py`: trees grow by random splits of 10,000 \
         random rows while a node has 20, so that those of depth 12 have 270 leaves. {} is called with bound \
         tensors; treelite (through tl2cgen) and lleaves compile each model and are called from Python, with one \
         thread below 1,000 rows. They alternate with Tenon; figures are those of the best round. Targets: {LIMIT} \
         of onnxruntime, and of the faster compiler 1.0 at depth 6 and 1.5 at depth 12. Not measured (–): lleaves had \
         not compiled 100 trees of depth 12, 27,000 leaves, in 13 minutes; both compilers take many minutes for 1,000 of \
         them.\n\n\
         The layout is that of VPred ([Asadi, Lin and de Vries, \"Runtime Optimizations for Prediction with Tree-Based \
         Models\"](https://arxiv.org/abs/1212.2287)): nodes in breadth order, walks without branches, several at a time. \
         Beside it, the first six levels of each tree are a complete tree, whose thresholds and columns vector \
         permutations look up. Rows are in vectors, trees where there are at most 6 rows. Sums are in f64 in the order of \
         the trees: they equal those of `CpuRef`, with the same bits for every level and number of threads.\n\n{}",
        made("--trees --write")?,
        ONNXRUNTIME.name,
        markdown::table(
            &format!(
                "trees | depth | rows | threads | Tenon | {} | ÷ onnxruntime | met | ÷ compiler | met",
                PEERS.map(|peer| peer.name).join(" | ")
            ),
            rows
        ),
    ))
}

/// The folder of the models, which are made once.
fn models(comparison: &Comparison<'_>) -> Result<PathBuf> {
    let folder = target().join("bench-trees");
    if !folder.join("trees-1000-12-10000.npz").exists() {
        let mut script = Command::new(comparison.python);
        script.arg(root().join("xtask/python/tree_models.py"));
        run(script.arg(&folder))?;
    }
    Ok(folder)
}

/// The best rounds of Tenon and each peer, which alternate.
fn rounds(
    comparison: &Comparison<'_>,
    files: &Files,
    threads: usize,
    peers: &[Peer],
) -> Result<Vec<Measurement>> {
    let rounds: Vec<_> = (0..comparison.options.rounds)
        .map(|_| comparison.round(files, threads, peers))
        .collect::<Result<_>>()?;
    let runtimes = 0..=peers.len();
    let best_of = |runtime: usize| best(rounds.iter().filter_map(|round| round.get(runtime)));
    runtimes
        .map(|runtime| best_of(runtime).ok_or(NO_ROUND.into()))
        .collect()
}

/// The columns of a row from Tenon's time on.
fn columns(measured: &[Measurement], limit: f64) -> String {
    let medians: Vec<f64> = measured.iter().map(|one| one.median_us).collect();
    let mut cells: Vec<String> = medians.iter().map(|&median| time(median)).collect();
    cells.resize(1 + PEERS.len(), "–".into());
    let of_onnxruntime = medians[0] / medians[1];
    cells.push(format!("{of_onnxruntime:.2}"));
    cells.push(met(of_onnxruntime <= LIMIT).into());
    let compiler = medians[2..].iter().copied().reduce(f64::min);
    match compiler.map(|compiler| medians[0] / compiler) {
        Some(ratio) => cells.extend([format!("{ratio:.2}"), met(ratio <= limit).into()]),
        None => cells.extend(["–".into(), "–".into()]),
    }
    cells.join(" | ")
}
