//! `cargo xtask bench --half`: models in half precision, compared with the same models in f32 and with onnxruntime.

use super::table::{met, time};
use super::{Comparison, Files, Measurement, NO_ROUND, ONNXRUNTIME, Peer, agreement, best, made};
use crate::{Result, markdown, models};

/// Largest latency in half precision as a multiple of that in f32.
const LIMIT: f64 = 1.1;

/// The section of the models in half precision.
pub(super) fn section(comparison: &Comparison<'_>) -> Result<String> {
    let options = comparison.options;
    let chosen = options.float_models();
    let half = |name: &str| format!("{name}-f16");
    let singles: Vec<String> = chosen.iter().map(|name| (*name).to_owned()).collect();
    models(&singles)?;
    let folder = models(&chosen.iter().map(|name| half(name)).collect::<Vec<_>>())?;
    let mut rows = Vec::new();
    for name in chosen {
        eprintln!("measuring {name}");
        let (single, half) = (Files::of(&folder, name), Files::of(&folder, &half(name)));
        for files in [&single, &half] {
            comparison.compile(files)?;
        }
        // The greatest element may be another one, as of two that round to the same f16.
        let agreement = agreement(comparison.tenon, &half.package, &half.arrays)?;
        let difference = agreement.difference;
        for &threads in &options.threads {
            let [single, half, peer] =
                alternate(comparison, [&single, &half], threads, ONNXRUNTIME)?;
            let ratio = half.median_us / single.median_us;
            rows.push(format!(
                "{name} | {threads} | {} | {} | {ratio:.2} | {} | {} | {:.2} | {difference:.0e}",
                time(single.median_us),
                time(half.median_us),
                met(ratio <= LIMIT),
                time(peer.median_us),
                half.median_us / peer.median_us,
            ));
        }
    }
    Ok(format!(
        "{}.\nEvery tensor of the model is f16; sums and functions are computed in f32. Tenon in both types and {} in \
         f16 alternate; figures are those of the best round. The difference is that from onnxruntime's outputs \
         in f16, relative to their largest magnitude. Target: at most {LIMIT} of the time in f32.\n\n{}",
        made("--half --write")?,
        ONNXRUNTIME.name,
        markdown::table(
            "model | threads | f32 | f16 | f16 ÷ f32 | met | onnxruntime, f16 | f16 ÷ onnxruntime | difference",
            rows
        ),
    ))
}

/// Measures Tenon on two models and a peer on the second one, which alternate.
pub(super) fn alternate(
    comparison: &Comparison<'_>,
    [first, second]: [&Files; 2],
    threads: usize,
    peer: Peer,
) -> Result<[Measurement; 3]> {
    let mut rounds: [Vec<Measurement>; 3] = Default::default();
    let peers = [peer];
    for _ in 0..comparison.options.rounds {
        let measured = comparison.round(first, threads, &[])?.into_iter();
        let measured = measured.chain(comparison.round(second, threads, &peers)?);
        for (all, measured) in rounds.iter_mut().zip(measured) {
            all.push(measured);
        }
    }
    let [Some(first), Some(second), Some(peer)] = rounds.map(|all| best(all.iter())) else {
        return Err(NO_ROUND.into());
    };
    Ok([first, second, peer])
}
