//! The operators of `ai.onnx.ml`, composed of operators of ONNX and of the operator table's family `trees`. Where the
//! specification is silent, results are those of onnxruntime.

mod classes;
mod features;
mod labels;
mod linear;
mod maps;
mod post_transform;
mod trees;
mod vectors;

use crate::draft::{Draft, DraftNode};
use crate::import::invalid;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::{DataType, Tensor};

pub(super) use crate::maps::DOMAIN;

/// Emits the operators of a node, and returns its outputs.
type Compose = fn(&mut Composition<'_>) -> Result<Vec<ValueId>>;

#[rustfmt::skip]
const COMPOSITIONS: &[(&str, Compose)] = &[
    ("ArrayFeatureExtractor",  features::extractor),
    ("Binarizer",              features::binarizer),
    ("CastMap",                maps::cast_map),
    ("CategoryMapper",         labels::category_mapper),
    ("DictVectorizer",         maps::dict_vectorizer),
    ("FeatureVectorizer",      features::vectorizer),
    ("Imputer",                features::imputer),
    ("LabelEncoder",           labels::label_encoder),
    ("LinearClassifier",       linear::classifier),
    ("LinearRegressor",        linear::regressor),
    ("Normalizer",             features::normalizer),
    ("OneHotEncoder",          labels::one_hot_encoder),
    ("SVMClassifier",          vectors::classifier),
    ("SVMRegressor",           vectors::regressor),
    ("Scaler",                 features::scaler),
    ("TreeEnsemble",           trees::ensemble),
    ("TreeEnsembleClassifier", trees::classifier),
    ("TreeEnsembleRegressor",  trees::regressor),
    ("ZipMap",                 maps::zip_map),
];

/// The operators of a node of the domain; other nodes are unchanged.
pub(super) fn newest(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    let Some((_, compose)) = COMPOSITIONS.iter().find(|row| row.0 == node.operator) else {
        return Ok(node);
    };
    let mut composition = Composition { draft, node: &node };
    let results = compose(&mut composition)?;
    let outputs = node.outputs.iter().zip(results);
    let mut outputs: Vec<(ValueId, ValueId)> = outputs
        .filter_map(|(output, result)| Some(((*output)?, result)))
        .collect();
    let (last, result) = outputs
        .pop()
        .ok_or_else(|| invalid("a node without outputs"))?;
    for (output, result) in outputs {
        draft.step_into(
            &node,
            "Identity",
            Attributes::new(),
            &[Some(result)],
            output,
        );
    }
    Ok(DraftNode {
        domain: String::new(),
        operator: "Identity".to_owned(),
        version: super::NEWEST,
        attributes: Attributes::new(),
        inputs: vec![Some(result)],
        outputs: vec![Some(last)],
        ..node
    })
}

/// Emits the operators of a node.
struct Composition<'a> {
    draft: &'a mut Draft,
    node: &'a DraftNode,
}

impl<'a> Composition<'a> {
    fn attributes(&self) -> &'a Attributes {
        &self.node.attributes
    }

    fn input(&self, index: usize) -> Result<ValueId> {
        let input = self.node.inputs.get(index).copied().flatten();
        input.ok_or_else(|| invalid(format!("input {index} is missing")))
    }

    fn dtype(&self, value: ValueId) -> Option<DataType> {
        self.draft.info(value).dtype
    }

    /// An operator without attributes.
    fn op(&mut self, operator: &str, inputs: &[ValueId]) -> ValueId {
        self.op_with(operator, Attributes::new(), inputs)
    }

    fn op_with(&mut self, operator: &str, attributes: Attributes, inputs: &[ValueId]) -> ValueId {
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        self.draft.step(self.node, operator, attributes, &inputs)
    }

    fn constant(&mut self, what: &str, tensor: Tensor) -> ValueId {
        self.draft.constant_for(self.node, what, tensor)
    }

    fn scalar(&mut self, what: &str, value: f32) -> Result<ValueId> {
        Ok(self.constant(what, Tensor::scalar(value)?))
    }

    fn ints(&mut self, what: &str, values: &[i64]) -> Result<ValueId> {
        self.draft.ints_for(self.node, what, values)
    }

    fn cast(&mut self, value: ValueId, to: DataType) -> ValueId {
        let attributes = Attributes::new().with("to", Attribute::String(to.name().into()));
        self.op_with("Cast", attributes, &[value])
    }

    /// A value as f32.
    fn as_f32(&mut self, value: ValueId) -> ValueId {
        match self.dtype(value) {
            Some(DataType::F32) => value,
            _ => self.cast(value, DataType::F32),
        }
    }

    /// A row of features as a matrix of one row.
    fn as_rows(&mut self, value: ValueId) -> Result<ValueId> {
        match self.draft.info(value).rank {
            Some(1) => {
                let axes = self.ints("axes", &[0])?;
                Ok(self.op("Unsqueeze", &[value, axes]))
            }
            _ => Ok(value),
        }
    }

    /// A column of a matrix.
    fn column(&mut self, matrix: ValueId, index: i64) -> Result<ValueId> {
        let index = self.constant("column", Tensor::scalar(index)?);
        let axis = Attributes::new().with("axis", Attribute::Int(1));
        Ok(self.op_with("Gather", axis, &[matrix, index]))
    }

    /// Columns as a matrix.
    fn concat(&mut self, columns: &[ValueId]) -> ValueId {
        let axis = Attributes::new().with("axis", Attribute::Int(1));
        self.op_with("Concat", axis, columns)
    }

    /// The floating-point values of attribute `name`, or those of the tensor `name_as_tensor`.
    fn floats(&self, name: &str) -> Result<Option<Vec<f64>>> {
        let as_tensor = format!("{name}_as_tensor");
        let list = self
            .attributes()
            .floats(name)?
            .filter(|list| !list.is_empty());
        match (list, self.attributes().tensor(&as_tensor)?) {
            (Some(_), Some(_)) => Err(invalid(format!(
                "attributes '{name}' and '{as_tensor}' are both given"
            ))),
            (Some(list), None) => Ok(Some(list.iter().map(|&value| value.into()).collect())),
            (None, Some(tensor)) => Ok(Some(wide(tensor)?)),
            (None, None) => Ok(None),
        }
    }
}

/// The elements of a tensor in f64.
fn wide(tensor: &Tensor) -> Result<Vec<f64>> {
    let wide = tenon_tensor::convert(tensor, DataType::F64)?;
    Ok(wide.as_slice::<f64>().unwrap_or_default().to_vec())
}

fn unsupported(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, text)
}

/// All problems, or none.
fn checked(problems: Vec<Error>) -> Result<()> {
    Error::from_all(problems).map_or(Ok(()), Err)
}

/// A list has the wrong length.
fn wrong_length(name: &str, expected: usize, found: usize) -> Error {
    invalid(format!(
        "attribute '{name}' has the wrong number of elements"
    ))
    .expected(expected)
    .found(found)
}
