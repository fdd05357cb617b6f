//! A request for inference over REST: JSON, and the binary data after it.

use crate::datatype;
use crate::infer::{InferRequest, RequestedOutput};
use crate::json_data::JsonData;
use crate::parameters::Parameters;
use crate::raw_data;
use crate::shared_memory::{REGION, RequestRegions};
use crate::status::{Refusal, Status};
use bytes::Bytes;
use serde::Deserialize;
use tenon::{DataType, Shape, Tensor, TensorType};

#[derive(Deserialize)]
struct JsonRequest<'a> {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    parameters: Option<Parameters>,
    #[serde(borrow)]
    inputs: Vec<JsonInput<'a>>,
    #[serde(default)]
    outputs: Option<Vec<JsonOutput>>,
}

#[derive(Deserialize)]
struct JsonInput<'a> {
    name: String,
    shape: Vec<i64>,
    datatype: String,
    #[serde(default)]
    parameters: Option<Parameters>,
    #[serde(default, borrow)]
    data: Option<JsonData<'a>>,
}

#[derive(Deserialize)]
struct JsonOutput {
    name: String,
    #[serde(default)]
    parameters: Option<Parameters>,
}

/// Reads a request. `json_bytes` is the length of the JSON at the start of the body; without it all of the
/// body is JSON.
///
/// # Errors
/// Malformed JSON; tensors that do not fit their shapes; binary data whose sizes do not add up to the body.
pub fn read(
    body: &Bytes,
    json_bytes: Option<usize>,
    mut regions: RequestRegions<'_>,
) -> Result<InferRequest, Refusal> {
    let length = json_bytes.unwrap_or(body.len());
    let Some((json, binary)) = body.split_at_checked(length) else {
        let text = format!(
            "Inference-Header-Content-Length is {length}, the body has {} bytes",
            body.len()
        );
        return Err(Refusal::invalid(text));
    };
    if json.is_empty() && json_bytes.is_some() {
        return Err(Refusal::new(
            Status::Unsupported,
            "a request without JSON is not supported: its inputs have no shapes",
        ));
    }
    let request: JsonRequest<'_> = serde_json::from_slice(json)
        .map_err(|error| Refusal::invalid(format!("the request is malformed: {error}")))?;
    let parameters = request.parameters.unwrap_or_default();
    parameters.check_of_request()?;
    let mut binary = Binary(binary);
    let inputs = request.inputs.into_iter().map(|input| {
        let place = format!("input '{}'", input.name);
        let tensor = input
            .tensor(&mut binary, &mut regions)
            .map_err(|error| error.at(place))?;
        Ok((input.name, tensor))
    });
    let inputs = inputs.collect::<Result<Vec<_>, Refusal>>()?;
    if !binary.0.is_empty() {
        let text = format!(
            "{} bytes after the data of the last input: no binary_data_size counts them",
            binary.0.len()
        );
        return Err(Refusal::invalid(text));
    }
    let binary_outputs = parameters.bool("binary_data_output")?.unwrap_or(false);
    let outputs = request.outputs.unwrap_or_default().into_iter();
    let outputs = outputs.map(|output| output.requested(binary_outputs, &regions));
    let outputs = outputs.collect::<Result<_, _>>()?;
    Ok(InferRequest {
        id: request.id.unwrap_or_default(),
        inputs,
        outputs,
        binary_outputs,
        timeout_micros: parameters.unsigned("timeout")?.filter(|&micros| micros > 0),
        priority: parameters.unsigned("priority")?.unwrap_or(0),
        sequence: parameters.sequence()?,
        reservation: regions.into_reservation(),
    })
}

/// The binary data that no input has taken.
struct Binary<'a>(&'a [u8]);

impl<'a> Binary<'a> {
    fn take(&mut self, size: u64) -> Result<&'a [u8], Refusal> {
        let size_here = usize::try_from(size).ok();
        let parts = size_here.and_then(|size| self.0.split_at_checked(size));
        let Some((taken, rest)) = parts else {
            let left = self.0.len();
            let text = format!("binary_data_size is {size}, {left} bytes are left in the body");
            return Err(Refusal::invalid(text));
        };
        self.0 = rest;
        Ok(taken)
    }
}

impl JsonInput<'_> {
    fn tensor(
        &self,
        binary: &mut Binary<'_>,
        regions: &mut RequestRegions<'_>,
    ) -> Result<Tensor, Refusal> {
        let ty = tensor_type(&self.datatype, &self.shape)?;
        let (size, tensor) = match &self.parameters {
            None => (None, None),
            Some(parameters) => (
                parameters.unsigned("binary_data_size")?,
                regions.input(parameters, &ty)?,
            ),
        };
        if let Some(tensor) = tensor {
            return match (&self.data, size) {
                (None, None) => Ok(tensor),
                _ => Err(Refusal::invalid(format!(
                    "both data and the parameter {REGION}"
                ))),
            };
        }
        match (&self.data, size) {
            (Some(data), None) => data.to_tensor(ty),
            (None, Some(size)) => raw_data::read(binary.take(size)?, ty),
            (None, None) => Err(Refusal::invalid(
                "neither data nor the parameter binary_data_size or shared_memory_region",
            )),
            (Some(_), Some(_)) => Err(Refusal::invalid(
                "both data and the parameter binary_data_size",
            )),
        }
    }
}

impl JsonOutput {
    fn requested(
        self,
        binary_outputs: bool,
        regions: &RequestRegions<'_>,
    ) -> Result<RequestedOutput, Refusal> {
        let parameters = self.parameters.unwrap_or_default();
        let place = format_args!("output '{}'", self.name).to_string();
        let read = || {
            let region = regions.output(&parameters)?;
            let is_binary = parameters.bool("binary_data")?.unwrap_or(binary_outputs);
            let classes = parameters.unsigned("classification")?;
            let is_binary = is_binary && region.is_none();
            Ok((is_binary, classes.filter(|&classes| classes > 0), region))
        };
        let (is_binary, classes, region) = read().map_err(|error: Refusal| error.at(place))?;
        Ok(RequestedOutput {
            name: self.name,
            is_binary,
            classes,
            region,
        })
    }
}

/// The type of a tensor of a request.
///
/// # Errors
/// An unknown data type, a negative extent, a shape of more elements than memory can have.
pub fn tensor_type(datatype: &str, shape: &[i64]) -> Result<TensorType, Refusal> {
    let dtype = datatype::from_name(datatype).ok_or_else(|| {
        let text = format!("the protocol has no data type {datatype:?}: FP32, INT64 and so on");
        Refusal::invalid(text)
    })?;
    let extents = shape.iter().map(|&extent| usize::try_from(extent));
    let extents = extents.collect::<Result<Vec<usize>, _>>();
    let extents = extents
        .map_err(|_| Refusal::invalid(format!("the shape {shape:?} has a negative extent")))?;
    // Strings have no fixed size: their count is bounded by the bytes of the request.
    if dtype == DataType::String && Shape::new(&extents).checked_elements().is_none() {
        return Err(Refusal::invalid(format!(
            "the shape {shape:?} is too large"
        )));
    }
    TensorType::new(dtype, extents).map_err(Refusal::from)
}

#[cfg(test)]
mod tests;
