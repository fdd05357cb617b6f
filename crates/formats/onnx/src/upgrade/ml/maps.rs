//! Maps: tensors with a column for each key ([`crate::maps`]).

use super::{Composition, unsupported};
use crate::maps;
use tenon_base::Result;
use tenon_graph::{Attributes, ValueId};
use tenon_tensor::{DataType, MapKeys, Tensor};

/// The scores of classes, as a map of each row.
pub(super) fn zip_map(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let output = composition.node.outputs.first().copied().flatten();
    if let Some(output) = output {
        composition.check_map(output, "an output")?;
    }
    let scores = composition.input(0)?;
    Ok(vec![composition.as_f32(scores)])
}

/// A map that the model takes, as a row.
pub(super) fn dict_vectorizer(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let map = composition.input(0)?;
    composition.check_map(map, "an input")?;
    Ok(vec![map])
}

/// The same with keys that are positions, and with another type.
pub(super) fn cast_map(composition: &mut Composition<'_>) -> Result<Vec<ValueId>> {
    let mut map = composition.input(0)?;
    composition.check_map(map, "an input")?;
    let attributes = composition.attributes();
    let to = match attributes.string("cast_to", "TO_FLOAT")? {
        "TO_FLOAT" => DataType::F32,
        "TO_INT64" => DataType::I64,
        "TO_STRING" => DataType::String,
        other => {
            let text = "attribute 'cast_to' has an unknown value";
            return Err(super::invalid(text)
                .expected("TO_FLOAT, TO_INT64 or TO_STRING")
                .found(other));
        }
    };
    if composition.dtype(map) == Some(DataType::String) && to != DataType::String {
        // Keys that the map does not have are empty strings.
        let empty = composition.constant("empty", Tensor::from_strings([], &[""])?);
        let zero = composition.constant("zero", Tensor::from_strings([], &["0"])?);
        let is_absent = composition.op("Equal", &[map, empty]);
        map = composition.op("Where", &[is_absent, zero, map]);
    }
    Ok(vec![composition.cast(map, to)])
}

impl Composition<'_> {
    /// Fails unless a value is an input or output of the model whose keys are those of this node.
    fn check_map(&self, value: ValueId, what: &str) -> Result<()> {
        let attributes: &Attributes = self.attributes();
        let keys = maps::keys(&self.node.operator, attributes)?;
        let graph = &self.draft.graph;
        let name = &graph.value(value).name;
        let known = graph.metadata.get(&MapKeys::metadata_key(name));
        match known {
            None => Err(unsupported(format!(
                "a map that is not {what} of the model"
            ))),
            Some(known) if keys.is_none_or(|keys| keys.to_string() != *known) => Err(unsupported(
                format!("input '{name}' is a map with other keys for another node"),
            )),
            Some(_) => Ok(()),
        }
    }
}
