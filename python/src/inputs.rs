//! The inputs of a model, read from values of Python.

use crate::arrays;
use crate::error::{Failure, class_name, invalid};
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString, PyTuple};
use tenon::tensor::convert;
use tenon::{DataType, Error, MapKey, MapKeys, ModelValue, Result, Signature, Tensor};

/// The values of some inputs, by name.
pub type Inputs = Vec<(String, ModelValue)>;

/// Reads the values of inputs from a mapping by name or a sequence in order.
pub fn read_inputs(signatures: &[Signature], inputs: &Bound<'_, PyAny>) -> PyResult<Inputs> {
    if let Ok(named) = inputs.cast::<PyDict>() {
        let pairs = named
            .iter()
            .map(|(name, value)| Ok((name.extract()?, value)));
        return named_inputs(signatures, pairs);
    }
    if let Ok(named) = inputs.cast::<PyMapping>() {
        let items = named.items()?;
        let pairs = items.iter().map(|pair| pair.extract());
        return named_inputs(signatures, pairs);
    }
    if inputs.is_instance_of::<PyList>() || inputs.is_instance_of::<PyTuple>() {
        let values: PyResult<Vec<_>> = inputs.try_iter()?.collect();
        return ordered_inputs(signatures, &values?);
    }
    let error = invalid("the inputs are no dict by name and no list in order");
    let error = error.found(class_name(inputs));
    Err(Failure::from(error).into())
}

/// Reads the values of a call: in order, by name, or in one dictionary.
pub fn call_inputs(
    signatures: &[Signature],
    arrays: &Bound<'_, PyTuple>,
    named: Option<&Bound<'_, PyDict>>,
) -> PyResult<Inputs> {
    match (arrays.len(), named) {
        (0, Some(named)) => read_inputs(signatures, named),
        (_, Some(_)) => {
            let error = invalid("inputs are given in order and by name");
            Err(Failure::from(error.expected("one of both")).into())
        }
        (1, None) => {
            let only = arrays.get_item(0)?;
            match only.is_instance_of::<PyDict>() || only.cast::<PyMapping>().is_ok() {
                true => read_inputs(signatures, &only),
                false => ordered_inputs(signatures, &[only]),
            }
        }
        _ => ordered_inputs(signatures, &arrays.iter().collect::<Vec<_>>()),
    }
}

/// Reads values by name.
fn named_inputs<'py>(
    signatures: &[Signature],
    pairs: impl Iterator<Item = PyResult<(String, Bound<'py, PyAny>)>>,
) -> PyResult<Inputs> {
    let mut reader = InputReader::default();
    for pair in pairs {
        let (name, value) = pair?;
        match signatures.iter().find(|input| input.name == name) {
            Some(input) => reader.read(input, &value)?,
            None => {
                let error = invalid(format!("the model has no input '{name}'"));
                reader.errors.push(error.expected(names(signatures)));
            }
        }
    }
    reader.finish()
}

/// Reads values in the order of the inputs.
fn ordered_inputs(signatures: &[Signature], values: &[Bound<'_, PyAny>]) -> PyResult<Inputs> {
    if values.len() != signatures.len() {
        let error = invalid("the number of arrays is not that of the inputs");
        let expected = format!("{} ({})", signatures.len(), names(signatures));
        return Err(Failure::from(error.expected(expected).found(values.len())).into());
    }
    let mut reader = InputReader::default();
    for (input, value) in signatures.iter().zip(values) {
        reader.read(input, value)?;
    }
    reader.finish()
}

fn names(signatures: &[Signature]) -> String {
    let names: Vec<&str> = signatures.iter().map(|input| input.name.as_str()).collect();
    names.join(", ")
}

/// Reads values of inputs and collects their problems.
#[derive(Default)]
struct InputReader {
    inputs: Inputs,
    errors: Vec<Error>,
}

impl InputReader {
    fn read(&mut self, input: &Signature, value: &Bound<'_, PyAny>) -> PyResult<()> {
        match read_value(input, value) {
            Ok(value) => self.inputs.push((input.name.clone(), value)),
            Err(Failure::Unsuitable(error)) => self.errors.push(error),
            Err(Failure::Raised(error)) => return Err(error),
        }
        Ok(())
    }

    fn finish(self) -> PyResult<Inputs> {
        match Error::from_all(self.errors) {
            Some(error) => Err(Failure::from(error).into()),
            None => Ok(self.inputs),
        }
    }
}

fn read_value(
    input: &Signature,
    value: &Bound<'_, PyAny>,
) -> std::result::Result<ModelValue, Failure> {
    if input.kind.is_optional() && value.is_none() {
        return Ok(ModelValue::None);
    }
    if let (Some(keys), Ok(map)) = (&input.keys, value.cast::<PyDict>()) {
        return Ok(map_row(input, keys, map)?.into());
    }
    if !input.kind.is_sequence() {
        return Ok(arrays::read_input(value, input)?.into());
    }
    if !value.is_instance_of::<PyList>() && !value.is_instance_of::<PyTuple>() {
        let error = invalid(format!("input '{}' is a sequence", input.name));
        let error = error.expected("a list of arrays").found(class_name(value));
        return Err(error.into());
    }
    let mut tensors = Vec::new();
    for item in value.try_iter()? {
        tensors.push(arrays::read_input(&item?, input)?);
    }
    Ok(tensors.into())
}

/// The row of a map: keys that it does not have are 0 or the empty string, other keys are left out.
fn map_row(
    input: &Signature,
    keys: &MapKeys,
    map: &Bound<'_, PyDict>,
) -> std::result::Result<Tensor, Failure> {
    let mut columns = vec![None; keys.len()];
    for (key, value) in map {
        let column = match key.cast::<PyString>() {
            Ok(text) => keys.column(MapKey::String(text.to_str()?)),
            Err(_) => keys.column(MapKey::Int(key.extract()?)),
        };
        if let Some(column) = column {
            columns[column] = Some(value);
        }
    }
    fn values<'py, T: FromPyObjectOwned<'py> + Default>(
        columns: &[Option<Bound<'py, PyAny>>],
    ) -> PyResult<Vec<T>> {
        let value = |value: &Option<Bound<'py, PyAny>>| match value {
            Some(value) => value.extract().map_err(Into::into),
            None => Ok(T::default()),
        };
        columns.iter().map(value).collect()
    }
    let (dtype, shape) = (input.ty.dtype(), input.ty.shape().clone());
    if dtype == DataType::String {
        return Ok(Tensor::from_strings(shape, &values::<String>(&columns)?)?);
    }
    let wide = match dtype.is_float() {
        true => Tensor::from_slice(shape, &values::<f64>(&columns)?)?,
        false => Tensor::from_slice(shape, &values::<i64>(&columns)?)?,
    };
    Ok(convert(&wide, dtype)?)
}

/// The tensors of inputs that are all tensors.
pub fn tensors(inputs: &Inputs) -> Result<Vec<(&str, &Tensor)>> {
    let tensor = |(name, value): &'_ (String, ModelValue)| match value {
        ModelValue::Tensor(_) => Ok(()),
        other => {
            let error = invalid(format!("input '{name}' is no tensor"));
            Err(error.found(other.description()))
        }
    };
    inputs.iter().try_for_each(tensor)?;
    let pairs = inputs.iter().filter_map(|(name, value)| match value {
        ModelValue::Tensor(tensor) => Some((name.as_str(), tensor)),
        _ => None,
    });
    Ok(pairs.collect())
}
