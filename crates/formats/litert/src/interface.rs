//! The inputs and outputs of a signature.

use crate::model::invalid;
use crate::schema::tflite as schema;
use tenon_base::{Error, ErrorKind, Result};

/// The inputs and outputs of a signature: a tensor and its name for callers.
pub(crate) struct Interface<'m> {
    pub subgraph: schema::SubGraph<'m>,
    pub inputs: Vec<(i32, String)>,
    pub outputs: Vec<(i32, String)>,
}

impl<'m> Interface<'m> {
    /// The interface of the signature with this name; without a name of the first one, or of the main subgraph.
    pub fn new(model: schema::Model<'m>, name: Option<&str>) -> Result<Self> {
        let signatures: Vec<_> = model.signature_defs().into_iter().flatten().collect();
        let key =
            |signature: &schema::SignatureDef<'m>| signature.signature_key().unwrap_or_default();
        let signature = match name {
            None => signatures.first(),
            Some(name) => {
                let found = signatures.iter().find(|signature| key(signature) == name);
                let names: Vec<_> = signatures.iter().map(key).collect();
                Some(found.ok_or_else(|| {
                    let help = match names.as_slice() {
                        [] => "it has none: leave the name out".to_owned(),
                        names => format!("it has {}", names.join(", ")),
                    };
                    let text = format!("the model has no signature '{name}'");
                    Error::new(ErrorKind::InvalidArgument, text).help(help)
                })?)
            }
        };
        let index = signature.map_or(0, |signature| signature.subgraph_index());
        let subgraph = subgraph(model, index.into())?;
        let named = |list: Option<flatbuffers::Vector<'m, i32>>,
                     maps: Option<
            flatbuffers::Vector<'m, flatbuffers::ForwardsUOffset<schema::TensorMap<'m>>>,
        >| {
            let maps: Vec<_> = maps.into_iter().flatten().collect();
            let list = list.into_iter().flatten();
            let name = |tensor: i32| {
                let map = maps
                    .iter()
                    .find(|map| i64::from(map.tensor_index()) == i64::from(tensor));
                let name = map.and_then(|map| map.name()).unwrap_or_default();
                (tensor, name.to_owned())
            };
            list.map(name).collect::<Vec<_>>()
        };
        Ok(Self {
            subgraph,
            inputs: named(subgraph.inputs(), signature.and_then(|it| it.inputs())),
            outputs: named(subgraph.outputs(), signature.and_then(|it| it.outputs())),
        })
    }
}

/// The names of signatures.
pub(crate) fn names<'m>(model: schema::Model<'m>) -> impl Iterator<Item = &'m str> {
    let signatures = model.signature_defs().into_iter().flatten();
    signatures.map(|signature| signature.signature_key().unwrap_or_default())
}

/// A subgraph of a model.
pub(crate) fn subgraph<'m>(model: schema::Model<'m>, index: i64) -> Result<schema::SubGraph<'m>> {
    let subgraphs = model.subgraphs();
    let count = subgraphs.map_or(0, |list| list.len());
    let found = usize::try_from(index).ok().filter(|&index| index < count);
    found
        .zip(subgraphs)
        .map(|(index, list)| list.get(index))
        .ok_or_else(|| {
            invalid("a subgraph does not exist")
                .expected(format_args!("an index below {count}"))
                .found(index)
        })
}
