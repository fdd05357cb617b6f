//! The answer to a request for inference over REST: JSON, and the binary data after it.

use crate::datatype;
use crate::infer::{AnsweredOutput, InferAnswer};
use crate::raw_data;
use crate::status::{Refusal, Status};
use serde_json::{Value, json};
use tenon::tensor::Element;
use tenon::{DataType, Tensor};

/// The bytes of an answer.
#[derive(Debug)]
pub struct JsonAnswer {
    /// JSON, then the data of binary outputs in their order.
    pub body: Vec<u8>,
    /// The length of the JSON, if there is binary data.
    pub json_bytes: Option<usize>,
}

impl JsonAnswer {
    /// Writes an answer.
    ///
    /// # Errors
    /// Outputs of `FP16` and `BF16` that are not requested in binary form.
    pub fn new(answer: &InferAnswer) -> Result<Self, Refusal> {
        let size: usize = answer.outputs.iter().map(|o| o.tensor.bytes().len()).sum();
        let mut body = Vec::with_capacity(size + 512);
        body.extend_from_slice(b"{\"model_name\":");
        write_json(&mut body, &answer.model);
        body.extend_from_slice(b",\"model_version\":");
        write_json(&mut body, &answer.version.to_string());
        if !answer.id.is_empty() {
            body.extend_from_slice(b",\"id\":");
            write_json(&mut body, &answer.id);
        }
        body.extend_from_slice(b",\"outputs\":[");
        let mut binary = Vec::new();
        for (at, output) in answer.outputs.iter().enumerate() {
            if at > 0 {
                body.push(b',');
            }
            write_output(&mut body, &mut binary, output)?;
        }
        body.extend_from_slice(b"]}");
        let is_binary = answer.outputs.iter().any(|output| output.is_binary);
        let json_bytes = is_binary.then_some(body.len());
        body.append(&mut binary);
        Ok(Self { body, json_bytes })
    }
}

fn write_output(
    body: &mut Vec<u8>,
    binary: &mut Vec<u8>,
    output: &AnsweredOutput,
) -> Result<(), Refusal> {
    let tensor = &output.tensor;
    let datatype = datatype::name(tensor.dtype()).unwrap_or_default();
    body.extend_from_slice(b"{\"name\":");
    write_json(body, &output.name);
    body.extend_from_slice(b",\"datatype\":");
    write_json(body, datatype);
    body.extend_from_slice(b",\"shape\":");
    write_json(body, &tensor.shape()[..]);
    if output.region.is_some() {
        // The elements are in shared memory.
    } else if output.is_binary {
        let start = binary.len();
        raw_data::write(tensor, binary);
        let size = json!({"binary_data_size": binary.len() - start});
        body.extend_from_slice(b",\"parameters\":");
        write_json(body, &size);
    } else {
        body.extend_from_slice(b",\"data\":");
        write_data(body, tensor)
            .map_err(|error| error.at(format_args!("output '{}'", output.name)))?;
    }
    body.push(b'}');
    Ok(())
}

/// Writes the elements as a flat array.
fn write_data(body: &mut Vec<u8>, tensor: &Tensor) -> Result<(), Refusal> {
    match tensor.dtype() {
        DataType::Bool => {
            let bools: Vec<bool> = tensor.bytes().iter().map(|&byte| byte != 0).collect();
            write_json(body, &bools);
        }
        DataType::U8 => write_elements::<u8>(body, tensor),
        DataType::U16 => write_elements::<u16>(body, tensor),
        DataType::U32 => write_elements::<u32>(body, tensor),
        DataType::U64 => write_elements::<u64>(body, tensor),
        DataType::I8 => write_elements::<i8>(body, tensor),
        DataType::I16 => write_elements::<i16>(body, tensor),
        DataType::I32 => write_elements::<i32>(body, tensor),
        DataType::I64 => write_elements::<i64>(body, tensor),
        DataType::F32 => write_floats::<f32>(body, tensor, f64::from),
        DataType::F64 => write_floats::<f64>(body, tensor, |value| value),
        DataType::String => {
            let texts: Vec<&str> = tensor.strings().into_iter().flatten().collect();
            write_json(body, &texts);
        }
        other => {
            let name = datatype::name(other).unwrap_or(other.name());
            let text = format!(
                "{name} has no form in JSON; request it as binary data (binary_data or binary_data_output)"
            );
            return Err(Refusal::new(Status::Invalid, text));
        }
    }
    Ok(())
}

fn write_elements<T: Element + serde::Serialize>(body: &mut Vec<u8>, tensor: &Tensor) {
    write_json(body, tensor.as_slice::<T>().unwrap_or_default());
}

/// Floats have as many digits as their type needs; NaN and infinities, which JSON lacks, are strings.
fn write_floats<T: Element + serde::Serialize>(
    body: &mut Vec<u8>,
    tensor: &Tensor,
    wide: impl Fn(T) -> f64,
) {
    let elements = tensor.as_slice::<T>().unwrap_or_default();
    body.push(b'[');
    for (at, &element) in elements.iter().enumerate() {
        if at > 0 {
            body.push(b',');
        }
        let value = wide(element);
        if value.is_finite() {
            write_json(body, &element);
        } else if value.is_nan() {
            body.extend_from_slice(b"\"NaN\"");
        } else {
            body.extend_from_slice(if value > 0.0 { b"\"inf\"" } else { b"\"-inf\"" });
        }
    }
    body.push(b']');
}

fn write_json<T: serde::Serialize + ?Sized>(body: &mut Vec<u8>, value: &T) {
    // Writing to a vector cannot fail, and no value here has keys that are no strings.
    let _ = serde_json::to_writer(body, value);
}

/// The body of a refused request.
pub fn error_body(text: &str) -> Vec<u8> {
    json!({"error": Value::from(text)}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(name: &str, tensor: Tensor, is_binary: bool) -> AnsweredOutput {
        AnsweredOutput {
            name: name.into(),
            tensor,
            is_binary,
            region: None,
        }
    }

    fn answer(outputs: Vec<AnsweredOutput>) -> InferAnswer {
        InferAnswer {
            model: "m\"".into(),
            version: 3,
            id: "7".into(),
            outputs,
        }
    }

    #[test]
    fn json_and_binary_outputs_mix() {
        let a = Tensor::from_slice([1, 2], &[0.1f32, f32::NAN]).unwrap();
        let b = Tensor::from_slice([2], &[1i16, -1]).unwrap();
        let c = Tensor::from_strings([1], &["é"]).unwrap();
        let outputs = vec![
            output("a", a, false),
            output("b", b, true),
            output("c", c, true),
        ];
        let written = JsonAnswer::new(&answer(outputs)).unwrap();
        let length = written.json_bytes.unwrap();
        let (json, binary) = written.body.split_at(length);
        let expected = r#"{"model_name":"m\"","model_version":"3","id":"7","outputs":["#.to_owned()
            + r#"{"name":"a","datatype":"FP32","shape":[1,2],"data":[0.1,"NaN"]},"#
            + r#"{"name":"b","datatype":"INT16","shape":[2],"parameters":{"binary_data_size":4}},"#
            + r#"{"name":"c","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":6}}]}"#;
        assert_eq!(std::str::from_utf8(json).unwrap(), expected);
        assert_eq!(binary, [1, 0, 255, 255, 2, 0, 0, 0, 0xc3, 0xa9]);
    }

    #[test]
    fn half_floats_are_binary_only() {
        let half = || Tensor::zeroed("f16[1]".parse().unwrap()).unwrap();
        let refusal = JsonAnswer::new(&answer(vec![output("h", half(), false)])).unwrap_err();
        assert!(refusal.text.starts_with("output 'h': FP16"), "{refusal}");
        let written = JsonAnswer::new(&answer(vec![output("h", half(), true)])).unwrap();
        assert!(written.body.ends_with(&[0, 0]));
    }

    #[test]
    fn infinities_and_booleans() {
        let floats = Tensor::from_slice([2], &[f64::INFINITY, f64::NEG_INFINITY]).unwrap();
        let bools = Tensor::from_bools([2], &[true, false]).unwrap();
        let outputs = vec![output("f", floats, false), output("b", bools, false)];
        let written = JsonAnswer::new(&answer(outputs)).unwrap();
        assert_eq!(written.json_bytes, None);
        let json: Value = serde_json::from_slice(&written.body).unwrap();
        assert_eq!(json["outputs"][0]["data"], json!(["inf", "-inf"]));
        assert_eq!(json["outputs"][1]["data"], json!([true, false]));
    }
}
