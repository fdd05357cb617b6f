//! Requests and answers of inference as messages of gRPC.

use super::messages::{
    InferParameter, InferTensor, InferTensorContents, ModelInferRequest, ModelInferResponse,
    ParameterChoice,
};
use crate::datatype;
use crate::infer::{InferAnswer, InferRequest, RequestedOutput};
use crate::json_request::tensor_type;
use crate::parameters::{Parameter, Parameters};
use crate::raw_data;
use crate::shared_memory::{REGION, RequestRegions};
use crate::status::Refusal;
use bytes::Bytes;
use std::collections::BTreeMap;
use tenon::tensor::Element;
use tenon::{DataType, Tensor, TensorType};

/// Reads a request.
///
/// # Errors
/// Tensors that do not fit their shapes; raw contents of some inputs only.
pub fn read(
    request: &ModelInferRequest,
    mut regions: RequestRegions<'_>,
) -> Result<InferRequest, Refusal> {
    let parameters = parameters(&request.parameters);
    parameters.check_of_request()?;
    let raw = &request.raw_input_contents;
    let has_contents = |input: &&InferTensor| input.contents.is_some();
    let has_region = |input: &InferTensor| input.parameters.contains_key(REGION);
    let expected = (request.inputs.iter()).filter(|input| !has_region(input));
    let expected = expected.count();
    if let (false, Some(input)) = (raw.is_empty(), request.inputs.iter().find(has_contents)) {
        let text = format!(
            "contents field must not be specified when using raw_input_contents for '{}' for model '{}': send one of them",
            input.name, request.model_name
        );
        return Err(Refusal::invalid(text));
    }
    if !raw.is_empty() && raw.len() != expected {
        let raw = raw.len();
        let text = format!(
            "{expected} inputs and {raw} raw_input_contents: expected one for each input, or none"
        );
        return Err(Refusal::invalid(text));
    }
    let mut raw = raw.iter();
    let inputs = request.inputs.iter().map(|input| {
        let raw = match has_region(input) {
            true => None,
            false => raw.next(),
        };
        let tensor = tensor(input, raw, &mut regions);
        let tensor = tensor.map_err(|error| error.at(format_args!("input '{}'", input.name)))?;
        Ok((input.name.clone(), tensor))
    });
    let inputs = inputs.collect::<Result<Vec<_>, Refusal>>()?;
    let outputs = request.outputs.iter().map(|output| {
        let own = self::parameters(&output.parameters);
        let place = || format!("output '{}'", output.name);
        let region = regions.output(&own).map_err(|error| error.at(place()))?;
        let classes = own.unsigned("classification");
        Ok(RequestedOutput {
            name: output.name.clone(),
            is_binary: true,
            classes: classes
                .map_err(|error| error.at(place()))?
                .filter(|&classes| classes > 0),
            region,
        })
    });
    let outputs = outputs.collect::<Result<_, Refusal>>()?;
    Ok(InferRequest {
        id: request.id.clone(),
        inputs,
        outputs,
        binary_outputs: true,
        timeout_micros: parameters.unsigned("timeout")?.filter(|&micros| micros > 0),
        priority: parameters.unsigned("priority")?.unwrap_or(0),
        sequence: parameters.sequence()?,
        reservation: regions.into_reservation(),
    })
}

/// Writes an answer; all outputs are raw. Those in shared memory have no bytes.
///
/// # Errors
/// None: the form is that of answers over REST.
pub fn write(answer: &InferAnswer) -> Result<ModelInferResponse, Refusal> {
    let outputs = answer.outputs.iter().map(|output| InferTensor {
        name: output.name.clone(),
        datatype: datatype::name(output.tensor.dtype())
            .unwrap_or_default()
            .to_owned(),
        shape: output
            .tensor
            .shape()
            .iter()
            .map(|&extent| extent as i64)
            .collect(),
        ..InferTensor::default()
    });
    let raw = answer.outputs.iter().map(|output| {
        if output.region.is_some() {
            return Bytes::new();
        }
        let mut bytes = Vec::with_capacity(output.tensor.bytes().len());
        raw_data::write(&output.tensor, &mut bytes);
        Bytes::from(bytes)
    });
    Ok(ModelInferResponse {
        model_name: answer.model.clone(),
        model_version: answer.version.to_string(),
        id: answer.id.clone(),
        outputs: outputs.collect(),
        raw_output_contents: raw.collect(),
        ..ModelInferResponse::default()
    })
}

fn parameters(given: &BTreeMap<String, InferParameter>) -> Parameters {
    let known = given.iter().filter_map(|(name, parameter)| {
        let value = match parameter.choice.as_ref()? {
            ParameterChoice::Bool(value) => Parameter::Bool(*value),
            ParameterChoice::Int64(value) => Parameter::Integer(*value),
            ParameterChoice::Uint64(value) => Parameter::Unsigned(*value),
            ParameterChoice::Double(value) => Parameter::Float(*value),
            ParameterChoice::Text(text) => Parameter::Text(text.clone()),
        };
        Some((name.clone(), value))
    });
    Parameters(known.collect())
}

fn tensor(
    input: &InferTensor,
    raw: Option<&Bytes>,
    regions: &mut RequestRegions<'_>,
) -> Result<Tensor, Refusal> {
    let ty = tensor_type(&input.datatype, &input.shape)?;
    if let Some(tensor) = regions.input(&parameters(&input.parameters), &ty)? {
        return match input.contents {
            None => Ok(tensor),
            Some(_) => Err(Refusal::invalid(format!(
                "both contents and the parameter {REGION}"
            ))),
        };
    }
    match raw {
        Some(raw) => raw_data::read(raw, ty),
        None => {
            let none = InferTensorContents::default();
            typed(input.contents.as_ref().unwrap_or(&none), ty)
        }
    }
}

/// The tensor of typed contents.
fn typed(contents: &InferTensorContents, ty: TensorType) -> Result<Tensor, Refusal> {
    match ty.dtype() {
        DataType::Bool => {
            check_count(contents.bools.len(), &ty)?;
            Ok(Tensor::from_bools(ty.shape().clone(), &contents.bools)?)
        }
        DataType::I8 => narrow::<i8, _>(&contents.ints, &ty),
        DataType::I16 => narrow::<i16, _>(&contents.ints, &ty),
        DataType::I32 => narrow::<i32, _>(&contents.ints, &ty),
        DataType::I64 => narrow::<i64, _>(&contents.int64s, &ty),
        DataType::U8 => narrow::<u8, _>(&contents.uints, &ty),
        DataType::U16 => narrow::<u16, _>(&contents.uints, &ty),
        DataType::U32 => narrow::<u32, _>(&contents.uints, &ty),
        DataType::U64 => narrow::<u64, _>(&contents.uint64s, &ty),
        DataType::F32 => {
            check_count(contents.fp32s.len(), &ty)?;
            Ok(Tensor::from_slice(ty.shape().clone(), &contents.fp32s)?)
        }
        DataType::F64 => {
            check_count(contents.fp64s.len(), &ty)?;
            Ok(Tensor::from_slice(ty.shape().clone(), &contents.fp64s)?)
        }
        DataType::String => {
            check_count(contents.bytes.len(), &ty)?;
            let texts = contents.bytes.iter().map(|bytes| raw_data::text_of(bytes));
            let texts = texts.collect::<Result<Vec<&str>, Refusal>>()?;
            Ok(Tensor::from_strings(ty.shape().clone(), &texts)?)
        }
        other => {
            let name = datatype::name(other).unwrap_or_default();
            let text = format!("{name} has no typed contents; send raw_input_contents");
            Err(Refusal::invalid(text))
        }
    }
}

fn narrow<T: Element + TryFrom<V>, V: Copy>(
    elements: &[V],
    ty: &TensorType,
) -> Result<Tensor, Refusal> {
    check_count(elements.len(), ty)?;
    let narrowed = elements.iter().enumerate().map(|(at, &element)| {
        T::try_from(element).map_err(|_| {
            let name = datatype::name(ty.dtype()).unwrap_or_default();
            Refusal::invalid(format!("element {at} is outside of {name}"))
        })
    });
    let narrowed = narrowed.collect::<Result<Vec<T>, Refusal>>()?;
    Ok(Tensor::from_slice(ty.shape().clone(), &narrowed)?)
}

fn check_count(found: usize, ty: &TensorType) -> Result<(), Refusal> {
    if found == ty.elements() {
        return Ok(());
    }
    let (shape, expected) = (&ty.shape()[..], ty.elements());
    let name = datatype::name(ty.dtype()).unwrap_or_default();
    let text = format!("{name} {shape:?} has {expected} elements, its contents have {found}");
    Err(Refusal::invalid(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::BodyMemory;
    use crate::sequences::SequenceId;
    use crate::shared_memory::SharedMemory;

    fn read(request: &ModelInferRequest) -> Result<InferRequest, Refusal> {
        let shared = SharedMemory::new(false, 0, BodyMemory::new(0));
        super::read(request, RequestRegions::new(&shared))
    }

    fn input(datatype: &str, shape: &[i64], contents: InferTensorContents) -> InferTensor {
        InferTensor {
            name: "x".into(),
            datatype: datatype.into(),
            shape: shape.into(),
            contents: Some(contents),
            ..InferTensor::default()
        }
    }

    fn request(input: InferTensor, raw: &[&'static [u8]]) -> ModelInferRequest {
        ModelInferRequest {
            inputs: vec![input],
            raw_input_contents: raw.iter().map(|raw| Bytes::from_static(raw)).collect(),
            ..ModelInferRequest::default()
        }
    }

    #[test]
    fn typed_contents_become_tensors() {
        let ints = |ints: &[i32]| InferTensorContents {
            ints: ints.into(),
            ..InferTensorContents::default()
        };
        let of = |datatype, contents| read(&request(input(datatype, &[2], contents), &[]));
        let bytes = of("INT8", ints(&[-128, 127])).unwrap();
        assert_eq!(bytes.inputs[0].1.as_slice::<i8>().unwrap(), [-128, 127]);
        let refusal = of("INT8", ints(&[0, 128])).unwrap_err();
        assert_eq!(refusal.text, "input 'x': element 1 is outside of INT8");
        assert!(
            of("INT8", ints(&[0]))
                .unwrap_err()
                .text
                .contains("2 elements")
        );
        // Contents of another type are none of this one.
        assert!(of("FP32", ints(&[0, 1])).is_err());
        assert!(of("FP16", ints(&[0, 1])).unwrap_err().text.contains("raw"));
        let texts = InferTensorContents {
            bytes: vec![Bytes::from_static(b"a"), Bytes::from_static(b"\xff")],
            ..InferTensorContents::default()
        };
        assert!(of("BYTES", texts).unwrap_err().text.contains("UTF-8"));
    }

    #[test]
    fn raw_contents_are_of_all_inputs() {
        let mut raw_input = input("UINT8", &[2], InferTensorContents::default());
        // Before the count of raw contents.
        let both = read(&request(raw_input.clone(), &[&[1, 2], &[3]])).unwrap_err();
        let text = "contents field must not be specified when using raw_input_contents for 'x' for model ''";
        assert!(both.text.starts_with(text), "{both}");
        raw_input.contents = None;
        let read_raw = |raw: &[&'static [u8]]| read(&request(raw_input.clone(), raw));
        assert_eq!(read_raw(&[&[1, 2]]).unwrap().inputs[0].1.bytes(), [1, 2]);
        assert!(read_raw(&[&[1]]).unwrap_err().text.contains("2 bytes"));
        assert!(
            read_raw(&[&[1, 2], &[3]])
                .unwrap_err()
                .text
                .contains("2 raw")
        );
        assert!(read_raw(&[]).unwrap_err().text.contains("elements"));
    }

    #[test]
    fn parameters_are_read() {
        let mut some = ModelInferRequest::default();
        let mut add = |name: &str, choice| {
            let parameter = InferParameter {
                choice: Some(choice),
            };
            some.parameters.insert(name.into(), parameter);
        };
        // As tritonclient sends them.
        add("priority", ParameterChoice::Uint64(3));
        add("timeout", ParameterChoice::Int64(500));
        let read_some = read(&some).unwrap();
        assert_eq!(
            (read_some.priority, read_some.timeout_micros),
            (3, Some(500))
        );
        let sequence = InferParameter {
            choice: Some(ParameterChoice::Int64(9)),
        };
        some.parameters.insert("sequence_id".into(), sequence);
        let position = read(&some).unwrap().sequence.unwrap();
        assert_eq!(position.id, SequenceId::Number(9));
    }
}
