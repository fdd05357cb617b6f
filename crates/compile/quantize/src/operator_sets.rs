//! The operator set of ONNX that a quantised model needs.

use crate::edit::int_attribute;
use crate::index::is_standard;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_onnx::proto::{ModelProto, NodeProto, TensorProto, data_type};

/// The first operator set in which DequantizeLinear has an axis.
pub(crate) const WITH_AXIS: i64 = 13;

/// The first operator set with elements of 4 bits and blocks.
pub(crate) const WITH_BLOCKS: i64 = 21;

/// The first version of the file format with elements of 4 bits.
const IR_WITH_BLOCKS: i64 = 10;

/// The version of ONNX's own operator set.
fn version(model: &ModelProto) -> i64 {
    let mut sets = model.opset_import.iter();
    let found = sets.find(|set| matches!(set.domain.as_str(), "" | "ai.onnx"));
    found.map_or(1, |set| set.version)
}

/// Checks that the operators of quantisation can be added.
pub(crate) fn check(model: &ModelProto) -> Result<()> {
    let version = version(model);
    if version >= WITH_AXIS {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        "the operator set of the model has no quantisation of weights by channel",
    )
    .expected(format_args!("ONNX operator set {WITH_AXIS} or newer"))
    .found(version)
    .help("convert the model with onnx.version_converter.convert_version(model, 17)"))
}

/// Changes a model of operator set 13 or newer to one of operator set 21 or newer.
///
/// # Errors
/// Operators whose meaning changed between both, and models with functions.
pub(crate) fn raise(model: &mut ModelProto) -> Result<()> {
    let from = version(model);
    model.ir_version = model.ir_version.max(IR_WITH_BLOCKS);
    if from >= WITH_BLOCKS {
        return Ok(());
    }
    let mut problems = Vec::new();
    if !model.functions.is_empty() {
        problems.push(unsupported("functions of the model"));
    }
    let mut constants = Vec::new();
    let graph = model.graph.as_deref_mut();
    for node in graph.into_iter().flat_map(|graph| &mut graph.node) {
        if node.attribute.iter().any(|attribute| attribute.g.is_some()) {
            problems.push(unsupported("operators with subgraphs").at(Location::node(&node.name)));
        } else if is_standard(node) {
            match node.op_type.as_str() {
                "ReduceL1" | "ReduceL2" | "ReduceLogSum" | "ReduceLogSumExp" | "ReduceMax"
                | "ReduceMean" | "ReduceMin" | "ReduceProd" | "ReduceSumSquare"
                    if from < 18 =>
                {
                    constants.extend(axes_as_input(node));
                }
                "Split" if from < 18 && node.input.len() < 2 => {
                    let outputs = node.output.len() as i64;
                    node.attribute.push(int_attribute("num_outputs", outputs));
                }
                "GroupNormalization" => {
                    let error = unsupported("GroupNormalization of operator set 18");
                    problems.push(error.at(Location::node(&node.name)));
                }
                _ => {}
            }
        }
    }
    if let Some(error) = Error::from_all(problems) {
        return Err(error);
    }
    if let Some(graph) = model.graph.as_deref_mut() {
        graph.initializer.extend(constants);
    }
    for set in &mut model.opset_import {
        if matches!(set.domain.as_str(), "" | "ai.onnx") {
            set.version = WITH_BLOCKS;
        }
    }
    Ok(())
}

fn unsupported(what: &str) -> Error {
    let text = format!(
        "cannot change to ONNX operator set {WITH_BLOCKS}, which weights of 4 bits need: {what}"
    );
    Error::new(ErrorKind::Unsupported, text)
        .help("export the model with operator set 21, or convert it with onnx.version_converter")
}

/// Moves the attribute `axes` to an input, as from operator set 18 on; returns the new constant.
fn axes_as_input(node: &mut NodeProto) -> Option<TensorProto> {
    let at = node
        .attribute
        .iter()
        .position(|attribute| attribute.name == "axes")?;
    let axes = node.attribute.remove(at).ints;
    let name = format!("{}_axes_input", node.output.first()?);
    node.input.push(name.clone());
    Some(TensorProto {
        name,
        data_type: data_type::INT64,
        dims: vec![axes.len() as i64],
        int64_data: axes,
        ..TensorProto::default()
    })
}
