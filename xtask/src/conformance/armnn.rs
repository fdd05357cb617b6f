//! The layer tests of Arm NN: a layer with its parameters, inputs and expected output
//! (backends 8.2). Each is translated to a graph of Tenon's operators.

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

use super::compare::compare;
use super::{Case, NotRun, Suite, Trial};
use crate::Result;
use build::GraphBuilder;
use case::{ArmType, LayerCase};
use flate2::read::GzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use tenon_tensor::ModelValue;

/// Cases that cannot be run because the data is incomplete (backends 8.2): the prefix of their name, and
/// the missing part.
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
        known: Vec::new(),
    })
}

fn translate(case: LayerCase) -> Case {
    let gap = GAPS.iter().find(|(start, _)| case.name.starts_with(start));
    let trials = match gap {
        Some((_, gap)) => Err(NotRun::Skipped((*gap).into())),
        None => trial(&case)
            .map(|trial| vec![trial])
            .map_err(NotRun::Refused),
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
    let mut build = GraphBuilder::new(case);
    let output = layer(&mut build)?;
    let (graph, inputs) = build.finish(output)?;
    let (expected, kind) = (case.output.elements.clone(), case.output.kind);
    let check = move |outputs: &[ModelValue]| match outputs {
        [ModelValue::Tensor(found)] => compare(&expected, found, |expected, found| {
            is_close(kind, expected, found)
        }),
        _ => Err(format!("{} outputs", outputs.len())),
    };
    Ok(Trial {
        graph,
        inputs,
        values: Default::default(),
        check: Box::new(check),
    })
}

/// Arm NN's tolerance (backends 8.3): quantised values differ by at most 1, others by 1 %, or by
/// 1e-6 if one of them is 0.
fn is_close(kind: ArmType, expected: f64, found: f64) -> bool {
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
