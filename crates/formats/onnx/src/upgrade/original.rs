//! Operators of the sets before 7, the first whose operators are all supported.

use super::OLDEST;
use crate::draft::DraftNode;
use tenon_base::{Error, ErrorKind, Result};

/// Operators whose form in a set before 7 is that of set 7, by the first set with that form. The others had another
/// broadcasting or other attributes.
#[rustfmt::skip]
const UNCHANGED: &[(i64, &[&str])] = &[
    (1, &[
        "ArgMax", "ArgMin", "Conv", "ConvTranspose", "DepthToSpace", "Flatten", "Gather",
        "GlobalAveragePool", "GlobalMaxPool", "Hardmax", "Identity", "LRN", "LogSoftmax",
        "LpNormalization", "MatMul", "MaxPool", "Not", "RandomNormal", "RandomNormalLike",
        "RandomUniform", "RandomUniformLike", "ReduceL1", "ReduceL2", "ReduceLogSum",
        "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
        "ReduceSumSquare", "Shape", "Size", "Slice", "Softmax", "Softplus", "Softsign",
        "SpaceToDepth", "Squeeze", "TopK", "Transpose", "Unsqueeze",
    ]),
    (2, &[
        "GlobalLpPool", "LpPool", "Pad", "Split",
    ]),
    (4, &[
        "Concat",
    ]),
    (5, &[
        "Reshape",
    ]),
    (6, &[
        "Abs", "Cast", "Ceil", "Clip", "Elu", "Exp", "Floor", "HardSigmoid",
        "InstanceNormalization", "LeakyRelu", "Log", "Max", "Mean", "Min", "Neg", "Reciprocal",
        "Relu", "Selu", "Sigmoid", "Sqrt", "Sum", "Tanh", "Tile",
    ]),
];

/// Refuses an operator of a set before 7 in a form that set 7 does not have.
pub(super) fn check(node: &DraftNode) -> Result<()> {
    let operator = node.operator.as_str();
    let is_unchanged = || {
        let mut rows = UNCHANGED.iter();
        rows.any(|(first, names)| *first <= node.version && names.contains(&operator))
    };
    if node.version >= OLDEST || is_unchanged() {
        return Ok(());
    }
    let text = format!(
        "a form from before operator set {OLDEST}, which the converter of the Python package onnx can change"
    );
    Err(Error::new(ErrorKind::Unsupported, text))
}

#[cfg(test)]
#[allow(clippy::print_stderr, reason = "a skipped test reports it")]
mod tests {
    use super::*;
    use crate::upgrade::ADAPTERS;
    use std::collections::BTreeSet;
    use std::process::Command;
    use tenon_graph::operator::operator;

    #[test]
    fn operators_are_listed_once_and_known() {
        let names = UNCHANGED.iter().flat_map(|(_, names)| *names);
        let mut names: Vec<&str> = names.copied().collect();
        for name in &names {
            let is_adapted = ADAPTERS.iter().any(|row| row.0 == *name);
            assert!(operator(name).is_some() || is_adapted, "{name}");
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    /// Prints the operators of set 7 with the first set that has them in the same form.
    const SCHEMAS: &str = "
from onnx import defs
for name in {s.name for s in defs.get_all_schemas_with_history() if s.domain == ''}:
    try:
        first = defs.get_schema(name, 7).since_version
    except defs.SchemaError:
        continue
    if first < 7:
        print(first, name)
";

    #[test]
    fn operators_and_sets_are_those_of_onnx() {
        let Some(python) = std::env::var_os("TENON_PYTHON") else {
            eprintln!("skipped: TENON_PYTHON is not set");
            return;
        };
        let answer = Command::new(python).args(["-c", SCHEMAS]).output().unwrap();
        assert!(answer.status.success());
        // Control flow and constants are imported without adapters; the last one is no operator of Tenon.
        let others = ["Constant", "If", "Loop", "MaxRoiPool"];
        let expected: BTreeSet<String> = String::from_utf8(answer.stdout)
            .unwrap()
            .lines()
            .filter(|line| {
                others
                    .iter()
                    .all(|name| !line.ends_with(&format!(" {name}")))
            })
            .map(str::to_owned)
            .collect();
        let rows = UNCHANGED.iter();
        let found =
            rows.flat_map(|(set, names)| names.iter().map(move |name| format!("{set} {name}")));
        assert_eq!(found.collect::<BTreeSet<String>>(), expected);
    }
}
