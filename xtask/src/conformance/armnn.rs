//! The layer tests of Arm NN: a layer with its parameters, inputs and the output that the test's
//! author wrote down (facts, armnn.md 6). Each becomes a graph of Tenon's operators.

mod build;
mod case;
mod convolution;
mod elementwise;
mod layers;
mod matrix;
mod movement;
mod normalization;
mod pooling;
mod slicing;

use super::numbers::compare;
use super::{Case, Suite, Trial, Unmet};
use crate::Result;
use build::Build;
use case::{ArmType, LayerCase};
use flate2::read::GzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// What is missing in the data, so that a case can be no test: the start of its name, and the gap.
/// The first two are also written in facts, armnn.md 6.
const GAPS: [(&str, &str); 4] = [
    ("Lstm", "the data has no weights"),
    ("QLstm", "the data has no weights"),
    ("UnidirectionalSequenceLstm", "the data has no weights"),
    (
        "L2NormalizationNonDefaultEpsilon",
        "the data rounds the epsilon to 0.000000",
    ),
];

/// The cases of a file.
pub(super) fn suite(path: &Path) -> Result<Suite> {
    let file =
        File::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let mut cases = Vec::new();
    for (index, line) in BufReader::new(GzDecoder::new(file)).lines().enumerate() {
        let here = |error: String| format!("{}, line {}: {error}", path.display(), index + 1);
        let line = line.map_err(|error| here(error.to_string()))?;
        let case = LayerCase::read(&line).map_err(here)?;
        cases.push(translate(case));
    }
    Ok(Suite {
        name: "Arm NN layer tests",
        source: "Arm NN 23.08".into(),
        cases,
        unsupported: Vec::new(),
    })
}

fn translate(case: LayerCase) -> Case {
    let gap = GAPS.iter().find(|(start, _)| case.name.starts_with(start));
    let trials = match gap {
        Some((_, gap)) => Err(Unmet::Skipped((*gap).into())),
        None => trial(&case)
            .map(|trial| vec![trial])
            .map_err(Unmet::Refused),
    };
    Case {
        name: case.name,
        group: case.layer,
        trials,
    }
}

fn trial(case: &LayerCase) -> Result<Trial> {
    let layer = layers::layer(&case.layer)
        .ok_or_else(|| format!("layer {} has no translation", case.layer))?;
    let mut build = Build::new(case);
    let made = layer(&mut build)?;
    let (graph, inputs) = build.finish(made)?;
    let (expected, kind) = (case.output.tensor.clone(), case.output.kind);
    let check = move |outputs: &[_]| match outputs {
        [found] => compare(&expected, found, |expected, found| {
            near(kind, expected, found)
        }),
        _ => Err(format!("{} outputs", outputs.len())),
    };
    Ok(Trial {
        graph,
        inputs,
        check: Box::new(check),
    })
}

/// Arm NN's own rule (facts, armnn.md 5): quantised numbers differ by 1 at most, others by 1 %, or
/// by 1e-6 when one of them is 0.
fn near(kind: ArmType, expected: f64, found: f64) -> bool {
    let difference = (expected - found).abs();
    match kind {
        _ if kind.is_quantised() => difference <= 1.0,
        ArmType::Float32 | ArmType::Float16 | ArmType::BFloat16 => {
            if expected == 0.0 || found == 0.0 {
                difference <= 1e-6
            } else {
                difference <= 0.01 * expected.abs()
            }
        }
        _ => false,
    }
}
