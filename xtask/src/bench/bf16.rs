//! `cargo xtask bench --bf16`: models of f32 compiled with `--precision bf16`, compared with f32 and with OpenVINO's default.

use super::half::alternate;
use super::table::{met, time};
use super::{Comparison, Files, OPENVINO_DEFAULT, agreement, made};
use crate::{Result, markdown, models};

/// Largest latency as a multiple of OpenVINO's.
const LIMIT: f64 = 0.9;

/// The section of the models in bf16.
pub(super) fn section(comparison: &Comparison<'_>) -> Result<String> {
    let options = comparison.options;
    let chosen = options.float_models();
    let folder = models(&Vec::from_iter(
        chosen.iter().map(|name| (*name).to_owned()),
    ))?;
    let mut rows = Vec::new();
    for name in chosen {
        eprintln!("measuring {name}");
        let single = Files::of(&folder, name);
        let narrow = Files {
            package: folder.join(format!("{name}-bf16.neff")),
            ..Files::of(&folder, name)
        };
        comparison.compile(&single)?;
        comparison.compile_with(&narrow, &["--precision", "bf16"])?;
        let difference = agreement(comparison.tenon, &narrow.package, &narrow.arrays)?.difference;
        let size = |files: &Files| -> Result<f64> {
            let file = std::fs::metadata(&files.package).map_err(|error| error.to_string())?;
            Ok(file.len() as f64)
        };
        let package = size(&narrow)? / size(&single)?;
        for &threads in &options.threads {
            let [single, narrow, peer] =
                alternate(comparison, [&single, &narrow], threads, OPENVINO_DEFAULT)?;
            let ratio = narrow.median_us / peer.median_us;
            rows.push(format!(
                "{name} | {threads} | {} | {} | {:.2} | {} | {ratio:.2} | {} | {difference:.0e} | {package:.2}",
                time(single.median_us),
                time(narrow.median_us),
                narrow.median_us / single.median_us,
                time(peer.median_us),
                met(ratio <= LIMIT),
            ));
        }
    }
    Ok(format!(
        "{}.\nModels of f32, compiled for f32 and with `--precision bf16`, and {} without a setting of the precision: bf16 \
         for the whole model where the CPU has AVX512-BF16. They alternate; figures are those of the best round. The \
         difference is that from onnxruntime's outputs in f32, relative to their largest magnitude. Target: at most \
         {LIMIT} of OpenVINO's time.\n\n{}",
        made("--bf16 --write")?,
        OPENVINO_DEFAULT.name,
        markdown::table(
            "model | threads | f32 | bf16 | bf16 ÷ f32 | OpenVINO | bf16 ÷ OpenVINO | met | difference | package",
            rows
        ),
    ))
}
