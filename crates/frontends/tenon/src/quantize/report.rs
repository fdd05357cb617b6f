//! What was quantised, and what it costs.

use super::Scheme;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use tenon_quantize::{NodeState, PlannedNode};

/// What was quantised, and what it costs on the calibration data. Its `Display` is a few lines.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizationReport {
    /// What became integers.
    pub scheme: Scheme,
    /// Convolutions and matrix products, in order.
    pub nodes: Vec<NodeReport>,
    /// The outputs of floats; empty without samples.
    pub outputs: Vec<OutputReport>,
    /// The share of rows with the right class, in f32 and quantised, where labels are given.
    pub accuracy: Option<[f64; 2]>,
    /// Samples of the calibration data.
    pub samples: usize,
    /// Whether ranges come from so few samples that other inputs may exceed them.
    pub few_samples: bool,
    /// Bytes of the ONNX file before and after.
    pub bytes: [u64; 2],
}

/// A convolution or matrix product.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeReport {
    /// Its name; of a node without a name that of its first output.
    pub name: String,
    /// Its operator.
    pub operator: String,
    /// Why it is computed in f32; `None` if it is quantised.
    pub kept: Option<String>,
    /// The Euclidean norm of the difference between its outputs quantised and in f32 on the same inputs, relative to that of
    /// the output in f32; `None` where it was not measured.
    pub error: Option<f64>,
}

/// An output of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputReport {
    /// The name.
    pub name: String,
    /// The Euclidean norm of the difference, relative to that of the output in f32.
    pub error: f64,
    /// The share of rows, along the last axis, whose greatest element is the same; `None` for rows of one element.
    pub agreement: Option<f64>,
}

impl NodeReport {
    pub(super) fn new(node: &PlannedNode, errors: &BTreeMap<String, f64>) -> Self {
        Self {
            name: node.name.clone(),
            operator: node.operator.clone(),
            kept: match &node.state {
                NodeState::Quantized => None,
                NodeState::Kept(reason) => Some(reason.clone()),
            },
            error: errors.get(&node.name).copied(),
        }
    }
}

impl QuantizationReport {
    /// The quantised nodes.
    pub fn quantized(&self) -> impl Iterator<Item = &NodeReport> {
        self.nodes.iter().filter(|node| node.kept.is_none())
    }

    /// The quantised node with the largest error.
    pub fn worst(&self) -> Option<&NodeReport> {
        let errors = self.quantized().filter(|node| node.error.is_some());
        errors.max_by(|a, b| {
            a.error
                .partial_cmp(&b.error)
                .unwrap_or(std::cmp::Ordering::Equal)
        })
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let nodes = self.nodes.iter().map(|node| {
            json!({"node": node.name, "operator": node.operator, "kept": node.kept, "error": node.error})
        });
        let outputs = self.outputs.iter().map(|output| {
            json!({"output": output.name, "error": output.error, "agreement": output.agreement})
        });
        json!({
            "scheme": match self.scheme {
                Scheme::Int8 => "int8",
                Scheme::Int4 { .. } => "int4",
                Scheme::F16 => "f16",
            },
            "samples": self.samples,
            "few_samples": self.few_samples,
            "bytes": {"f32": self.bytes[0], "quantized": self.bytes[1]},
            "accuracy": self.accuracy.map(|[f32, quantized]| json!({"f32": f32, "quantized": quantized})),
            "outputs": outputs.collect::<Vec<_>>(),
            "nodes": nodes.collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for QuantizationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (quantized, all) = (self.quantized().count(), self.nodes.len());
        let done = match self.scheme {
            Scheme::F16 => "in f16",
            _ => "quantised",
        };
        write!(
            f,
            "{quantized} of {all} convolutions and matrix products {done}"
        )?;
        if let Some(node) = self.worst() {
            let error = node.error.unwrap_or_default();
            write!(
                f,
                "; the largest error is {error:.4} at {} ({})",
                node.name, node.operator
            )?;
        }
        for node in &self.nodes {
            if let Some(reason) = &node.kept {
                write!(f, "\nin f32: {} ({}): {reason}", node.name, node.operator)?;
            }
        }
        for output in &self.outputs {
            write!(f, "\noutput '{}': error {:.4}", output.name, output.error)?;
            if let Some(agreement) = output.agreement {
                write!(
                    f,
                    ", same greatest element in {:.2} % of the rows",
                    agreement * 100.0
                )?;
            }
        }
        if let Some([f32, quantized]) = self.accuracy {
            let [f32, quantized] = [f32 * 100.0, quantized * 100.0];
            write!(f, "\naccuracy {quantized:.2} %, in f32 {f32:.2} %")?;
        }
        match self.samples {
            0 => write!(f, "\nwithout samples: errors are not known"),
            1 => write!(f, "\nfrom 1 sample"),
            count => write!(f, "\nfrom {count} samples"),
        }?;
        if self.few_samples {
            write!(f, ", which are few: other inputs may exceed their ranges")?;
        }
        Ok(())
    }
}
