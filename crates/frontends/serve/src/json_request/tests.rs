//! Requests of JSON and binary data.

use super::*;
use crate::body::BodyMemory;
use crate::sequences::SequenceId;
use crate::shared_memory::SharedMemory;

fn read(body: &Bytes, json_bytes: Option<usize>) -> Result<InferRequest, Refusal> {
    let shared = SharedMemory::new(false, 0, BodyMemory::new(0));
    super::read(body, json_bytes, RequestRegions::new(&shared))
}

fn read_text(json: &str, binary: &[u8]) -> Result<InferRequest, Refusal> {
    let body = [json.as_bytes(), binary].concat();
    read(&body.into(), Some(json.len()))
}

fn refused(json: &str, binary: &[u8]) -> String {
    match read_text(json, binary) {
        Ok(_) => panic!("accepted: {json}"),
        Err(refusal) => {
            assert_eq!(refusal.status, Status::Invalid, "{json}");
            refusal.text
        }
    }
}

/// As tritonclient sends it: one binary input, no outputs.
const BINARY: &str = r#"{"id":"7","inputs":[{"name":"x","shape":[1,2],"datatype":"FP32",
    "parameters":{"binary_data_size":8}}],"parameters":{"binary_data_output":true}}"#;

#[test]
fn binary_data_follows_the_json() {
    let bytes = [1.5f32, -2.0].map(f32::to_le_bytes).concat();
    let request = read_text(BINARY, &bytes).unwrap();
    assert_eq!(request.id, "7");
    assert!(request.binary_outputs);
    let (name, tensor) = &request.inputs[0];
    assert_eq!(name, "x");
    assert_eq!(tensor.as_slice::<f32>().unwrap(), [1.5, -2.0]);
}

#[test]
fn json_and_binary_inputs_mix() {
    let json = r#"{"inputs":[
        {"name":"a","shape":[1],"datatype":"UINT8","parameters":{"binary_data_size":1}},
        {"name":"b","shape":[2],"datatype":"INT64","data":[3,4]},
        {"name":"c","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":5}}],
        "outputs":[{"name":"y","parameters":{"binary_data":true}},{"name":"z"}]}"#;
    let request = read_text(json, &[9, 1, 0, 0, 0, b'q']).unwrap();
    let tensors: Vec<&Tensor> = request.inputs.iter().map(|(_, tensor)| tensor).collect();
    assert_eq!(tensors[0].bytes(), [9]);
    assert_eq!(tensors[1].as_slice::<i64>().unwrap(), [3, 4]);
    assert_eq!(tensors[2].strings().unwrap().next(), Some("q"));
    let binary: Vec<bool> = request
        .outputs
        .iter()
        .map(|output| output.is_binary)
        .collect();
    assert_eq!(binary, [true, false]);
}

#[test]
fn binary_sizes_that_lie_are_refused() {
    assert!(refused(BINARY, &[0; 7]).contains("7 bytes are left"));
    assert!(refused(BINARY, &[0; 9]).contains("1 bytes after"));
    let other = BINARY.replace("\":8", "\":4");
    assert!(refused(&other, &[0; 4]).contains("8 bytes, found 4"));
    let huge = BINARY.replace("\":8", "\":18446744073709551615");
    assert!(refused(&huge, &[0; 8]).contains("are left"));
    let negative = BINARY.replace("\":8", "\":-8");
    assert!(refused(&negative, &[0; 8]).contains("at least 0"));
    assert!(
        read(&Bytes::from("{}"), Some(3))
            .unwrap_err()
            .text
            .contains("2 bytes")
    );
}

#[test]
fn shapes_are_checked() {
    let with_shape = |shape: &str| BINARY.replace("[1,2]", shape);
    for shape in [
        "[-1,2]",
        "[9223372036854775807,9223372036854775807]",
        "[2]x",
        "2",
        "[1.5]",
    ] {
        refused(&with_shape(shape), &[0; 8]);
    }
    let strings = with_shape("[9223372036854775807,9]").replace("FP32", "BYTES");
    refused(&strings, &[0; 8]);
    assert!(refused(&BINARY.replace("FP32", "fp32"), &[0; 8]).contains("fp32"));
}

#[test]
fn malformed_requests_say_where() {
    assert!(refused("{", b"").contains("line 1 column 1"));
    assert!(refused("[]", b"").contains("malformed"));
    assert!(refused("{}", b"").contains("inputs"));
    let twice = r#"{"inputs":[],"inputs":[]}"#;
    assert!(refused(twice, b"").contains("duplicate"));
    let neither = r#"{"inputs":[{"name":"x","shape":[1],"datatype":"FP32"}]}"#;
    assert!(refused(neither, b"").contains("input 'x': neither"));
    assert!(refused(&"[".repeat(100_000), b"").contains("malformed"));
}

#[test]
fn schedules_are_read() {
    let json = r#"{"inputs":[],"parameters":{"priority":2,"timeout":1500}}"#;
    let request = read_text(json, b"").unwrap();
    assert_eq!((request.priority, request.timeout_micros), (2, Some(1500)));
    let sequence = r#"{"inputs":[],"parameters":{"sequence_id":5}}"#;
    let position = read_text(sequence, b"").unwrap().sequence.unwrap();
    assert_eq!(position.id, SequenceId::Number(5));
}

#[test]
fn changed_requests_are_read_or_refused() {
    let json = r#"{"id":"7","inputs":[
        {"name":"a","shape":[2,2],"datatype":"INT8","data":[[1,-2],[3,4]]},
        {"name":"b","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":5}},
        {"name":"c","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}],
        "outputs":[{"name":"y","parameters":{"classification":3}}],
        "parameters":{"binary_data_output":true,"timeout":9,"priority":"1"}}"#;
    let binary = [&[1, 0, 0, 0, b'q'][..], &[0; 8]].concat();
    assert!(read_text(json, &binary).is_ok());
    let body = [json.as_bytes(), &binary].concat();
    // xorshift (Marsaglia 2003); each case changes up to four bytes, cuts, or repeats a part.
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut read_count = 0;
    for _ in 0..20_000 {
        let mut changed = body.clone();
        for _ in 0..random(4) + 1 {
            let at = random(changed.len());
            match random(4) {
                0 => changed[at] = b"0123456789-[]{},:\"eE."[random(21)],
                1 => changed[at] = random(256) as u8,
                2 => drop(changed.drain(at..(at + random(9)).min(body.len() - 40).max(at))),
                _ => changed.insert(at, b"0123456789-[]{},"[random(16)]),
            }
            changed.resize(changed.len().max(1), 0);
        }
        let length = match random(3) {
            0 => None,
            1 => Some(json.len()),
            _ => Some(random(body.len() * 2)),
        };
        match read(&changed.into(), length) {
            Ok(request) => {
                read_count += 1;
                let bytes = request
                    .inputs
                    .iter()
                    .map(|(_, tensor)| tensor.bytes().len());
                assert!(bytes.sum::<usize>() < 16 * body.len());
            }
            Err(refusal) => assert!(!refusal.text.is_empty()),
        }
    }
    assert!(read_count > 100, "{read_count} of them are valid");
}
