//! The tests that compare an operator's results with those of other programs, for docs/operators.md.

use crate::{Result, root};
use std::collections::HashMap;

/// Tests of operators without a node test of ONNX, or whose results are fused from those of others.
const OTHERS: &[(&str, &[&str])] = &[
    (
        "models with outputs of onnxruntime ([reference.py](../crates/frontends/tenon/tests/reference.py))",
        &["GlobalLpPool", "MaxRoiPool", "tenon.Inverse"],
    ),
    (
        "mean, variance and frequencies ([random_values.rs](../crates/frontends/tenon/tests/random_values.rs))",
        &[
            "RandomNormal",
            "RandomNormalLike",
            "RandomUniform",
            "RandomUniformLike",
            "Bernoulli",
            "Multinomial",
        ],
    ),
    (
        "models of which it is fused, with outputs of onnxruntime ([families.rs](../crates/frontends/tenon/tests/families.rs), \
         [host_functions.rs](../crates/frontends/tenon/tests/host_functions.rs))",
        &[
            "tenon.Conv",
            "tenon.MatMul",
            "tenon.MaxPool",
            "tenon.AveragePool",
            "tenon.Attention",
            "tenon.Elementwise",
        ],
    ),
    (
        "[node tests of ConvTranspose](conformance.md), which becomes it in packages",
        &["tenon.ConvTranspose"],
    ),
    (
        "quantised models with outputs of onnx's reference evaluator or onnxruntime \
         ([reference.py](../crates/frontends/tenon/tests/reference.py))",
        &[
            "tenon.QuantizedConv",
            "tenon.QuantizedMatMul",
            "tenon.WeightOnlyMatMul",
        ],
    ),
    (
        "regions of a plugin, beside the nodes that they replace ([plugins.rs](../crates/frontends/cli/tests/plugins.rs))",
        &["tenon.Precompiled"],
    ),
    (
        "models of ai.onnx.ml with outputs of onnxruntime ([reference_ml.py](../crates/frontends/tenon/tests/reference_ml.py))",
        &[
            "tenon.TreeEnsemble",
            "tenon.LookUp",
            "tenon.CoupleProbabilities",
        ],
    ),
];

/// The tests of all operators.
pub(crate) struct OperatorTests {
    /// Passed node tests of ONNX, by operator.
    node_tests: HashMap<String, usize>,
    /// The anchor of their section in docs/conformance.md.
    anchor: String,
}

impl OperatorTests {
    /// Reads the counts of docs/conformance.md.
    pub(crate) fn new() -> Result<Self> {
        let path = root().join("docs/conformance.md");
        let page = std::fs::read_to_string(&path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let section = section(&page, "ONNX node tests");
        let (anchor, section) = section.ok_or("docs/conformance.md has no ONNX node tests")?;
        let rows = section.lines().filter_map(|line| {
            let mut cells = line.split('|').map(str::trim).skip(1);
            let (operator, passed) = (cells.next()?, cells.next()?);
            let (passed, _) = passed.split_once(" of ")?;
            Some((operator.to_owned(), passed.parse().ok()?))
        });
        let node_tests = rows.collect();
        Ok(Self { node_tests, anchor })
    }

    /// The line of an operator; an error for one without a test.
    pub(crate) fn line(&self, operator: &str) -> Result<String> {
        let count = self.node_tests.get(operator).copied().unwrap_or_default();
        let other = OTHERS.iter().find(|row| row.1.contains(&operator));
        let mut parts = Vec::new();
        if count > 0 {
            let plural = if count == 1 { "" } else { "s" };
            parts.push(format!(
                "[{count} node test{plural} of ONNX](conformance.md#{})",
                self.anchor
            ));
        }
        parts.extend(other.map(|(text, _)| (*text).to_owned()));
        if parts.is_empty() {
            return Err(format!(
                "operator {operator} has no test; name it in operator_tests.rs"
            ));
        }
        Ok(format!("- tests: {}\n", parts.join("; ")))
    }
}

/// The section of a page whose title starts with this, and its anchor.
pub(crate) fn section<'a>(page: &'a str, title: &str) -> Option<(String, &'a str)> {
    let section = page.split("\n## ").find(|it| it.starts_with(title))?;
    let title = section.lines().next()?.to_lowercase();
    let anchor = title
        .chars()
        .filter(|c| c.is_alphanumeric() || " -".contains(*c));
    Some((anchor.collect::<String>().replace(' ', "-"), section))
}
