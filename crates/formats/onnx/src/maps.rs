//! Maps of `ai.onnx.ml`: a map that a model takes or makes is a tensor whose columns are the keys in the attributes of
//! the operator that reads or makes it. The model's metadata has the keys (docs/package.md).

use crate::attribute;
use crate::import::invalid;
use crate::proto::{GraphProto, NodeProto};
use crate::scope::domain;
use crate::signature::{Dimension, ValueSignature};
use std::collections::{BTreeMap, HashMap};
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::Attributes;
use tenon_tensor::MapKeys;

/// The domain of the operators.
pub(crate) const DOMAIN: &str = "ai.onnx.ml";

/// The most columns of a CastMap.
const COLUMNS: i64 = 1 << 20;

/// Gives inputs that are maps their shape, and adds the keys of inputs and outputs to the metadata.
pub(crate) fn describe(
    graph: &GraphProto,
    inputs: &mut [ValueSignature],
    metadata: &mut BTreeMap<String, String>,
) {
    let mut found: HashMap<&str, MapKeys> = HashMap::new();
    let nodes = graph.node.iter();
    for node in nodes.filter(|node| domain(&node.domain) == DOMAIN) {
        let maps = match node.op_type.as_str() {
            "ZipMap" => &node.output,
            "DictVectorizer" | "CastMap" => &node.input,
            _ => continue,
        };
        // The errors of attributes are reported where the node is read.
        if let (Some(map), Ok(Some(keys))) = (maps.first(), node_keys(node)) {
            found.insert(map, keys);
        }
    }
    for input in inputs.iter_mut().filter(|input| input.keys.is_some()) {
        if !input.kind.is_tensor() {
            input.other = Some("a sequence of maps".into());
        } else if let Some(keys) = found.get(input.name.as_str()) {
            input.shape = Some([1, keys.len()].map(Dimension::Fixed).into());
        } else {
            input.other = Some("a map that no DictVectorizer or CastMap reads".into());
        }
    }
    let inputs = inputs.iter().map(|input| &input.name);
    for name in inputs.chain(graph.output.iter().map(|output| &output.name)) {
        if let Some(keys) = found.get(name.as_str()) {
            metadata.insert(MapKeys::metadata_key(name), keys.to_string());
        }
    }
}

fn node_keys(node: &NodeProto) -> Result<Option<MapKeys>> {
    let mut attributes = Attributes::new();
    for proto in &node.attribute {
        let value = attribute::convert(proto, |_| Err(invalid("an attribute that is a tensor")))?;
        attributes.set(&proto.name, value);
    }
    keys(&node.op_type, &attributes)
}

/// The keys of the map that a node reads or makes; `None` for operators without a map.
pub(crate) fn keys(operator: &str, attributes: &Attributes) -> Result<Option<MapKeys>> {
    match operator {
        "ZipMap" => list(attributes, "classlabels_strings", "classlabels_int64s"),
        "DictVectorizer" => list(attributes, "string_vocabulary", "int64_vocabulary"),
        "CastMap" => sparse(attributes),
        _ => return Ok(None),
    }
    .map(Some)
}

/// The keys in one of two attributes.
fn list(attributes: &Attributes, strings: &str, ints: &str) -> Result<MapKeys> {
    let found_strings = attributes.strings(strings)?.unwrap_or_default();
    let found_ints = attributes.ints(ints)?.unwrap_or_default();
    let (keys, name) = match (found_strings, found_ints) {
        ([_, ..], []) => (MapKeys::strings(found_strings.to_vec()), strings),
        ([], [_, ..]) => (MapKeys::ints(found_ints.to_vec()), ints),
        _ => {
            let text = format!("not one of attributes '{strings}' and '{ints}' has elements");
            return Err(invalid(text));
        }
    };
    keys.map_err(|error| error.at(attribute::place(name)))
}

/// The keys 0, 1, … of a CastMap of form SPARSE.
fn sparse(attributes: &Attributes) -> Result<MapKeys> {
    let form = attributes.string("map_form", "DENSE")?;
    if form != "SPARSE" {
        let text = "form DENSE, whose columns are those keys that a map has";
        let error = Error::new(ErrorKind::Unsupported, text);
        return Err(error.at(attribute::place("map_form")));
    }
    let columns = attributes.int("max_map", 1)?;
    if !(1..=COLUMNS).contains(&columns) {
        let error = invalid("the number of columns is out of range");
        let error = error
            .expected(format_args!("1 to {COLUMNS}"))
            .found(columns);
        return Err(error.at(attribute::place("max_map")));
    }
    MapKeys::ints((0..columns).collect())
}
