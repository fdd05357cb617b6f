//! Calls of gRPC, from the bytes of a message to those of the answer.

use super::*;
use crate::access::Access;
use crate::model_loader::RepositoryOptions;
use crate::repository::Repository;
use crate::server::ServerOptions;
use std::sync::atomic::Ordering;
use tenon::Control;
use tonic::Code;

#[test]
fn timeouts_have_units() {
    let of = |text: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-timeout", text.parse().unwrap());
        timeout(&headers)
    };
    assert_eq!(of("1H"), Some(Duration::from_secs(3600)));
    assert_eq!(of("20m"), Some(Duration::from_millis(20)));
    assert_eq!(of("99999999n"), Some(Duration::from_nanos(99_999_999)));
    for text in ["", "S", "5", "5s", "-5S", "+5S", "999999999S", "5SS"] {
        assert_eq!(of(text), None, "{text:?}");
    }
}

/// The state of a server with the digits classifier.
fn app(access: Access) -> Arc<App> {
    let folder = tempfile::tempdir().unwrap();
    let model = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../models/digits/transformer.onnx"
    );
    std::fs::copy(model, folder.path().join("digits.onnx")).unwrap();
    let repository = Repository::new(folder.path(), RepositoryOptions::default(), |_| {}).unwrap();
    repository.update(&Control::new());
    let mut options = ServerOptions::new("127.0.0.1:0".parse().unwrap());
    options.access = access;
    options.max_body_bytes = 1 << 20;
    options.max_total_bytes = 1 << 20;
    options.body_timeout = Duration::from_secs(10);
    let app = App::new(&options, Arc::new(repository));
    app.is_loaded.store(true, Ordering::Relaxed);
    Arc::new(app)
}

/// The status of a call of these bytes, its message, and the bytes of the answer.
fn exchange(
    app: &Arc<App>,
    path: &str,
    headers: &[(&'static str, &str)],
    body: Vec<u8>,
) -> (Code, String, Bytes) {
    let mut request = Request::post(path).header("content-type", "application/grpc");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request
        .header("host", "localhost")
        .body(Full::new(Bytes::from(body)));
    let arrival = Arrival {
        address: "127.0.0.1:0".parse().unwrap(),
        time: Instant::now(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let (head, body) = runtime.block_on(async {
        let (head, body) = respond(app.clone(), request.unwrap(), arrival)
            .await
            .into_parts();
        (head, body.collect().await.unwrap())
    });
    assert_eq!(head.status, 200);
    let trailers = body.trailers().cloned().unwrap_or_default();
    let value = |name: &str| head.headers.get(name).or(trailers.get(name)).cloned();
    let code = value("grpc-status").map_or(Code::Unknown, |code| Code::from_bytes(code.as_bytes()));
    let text = value("grpc-message").map_or(String::new(), |text| {
        text.to_str().unwrap().replace("%20", " ")
    });
    assert_eq!(app.body_memory.used(), 0);
    (code, text, body.to_bytes())
}

/// The status of a call of these bytes, its message, and the answer.
fn call_bytes<R: Message + Default>(
    app: &Arc<App>,
    path: &str,
    headers: &[(&'static str, &str)],
    body: Vec<u8>,
) -> (Code, String, R) {
    let (code, text, bytes) = exchange(app, path, headers, body);
    let message = match bytes.len() {
        0 => R::default(),
        _ => R::decode(bytes.slice(5..)).unwrap(),
    };
    (code, text, message)
}

/// A message after its prefix: not compressed, the length of 4 bytes.
fn framed(message: &impl Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    let length = (bytes.len() as u32).to_be_bytes();
    [&[0][..], &length, &bytes].concat()
}

fn call<R: Message + Default>(
    app: &Arc<App>,
    method: &str,
    message: &impl Message,
) -> (Code, String, R) {
    call_bytes(app, &format!("{SERVICE}{method}"), &[], framed(message))
}

fn infer_request(raw: bool) -> ModelInferRequest {
    let pixels: Vec<f32> = (0..64).map(|at| (at % 17) as f32).collect();
    let bytes: Vec<u8> = pixels
        .iter()
        .flat_map(|pixel| pixel.to_le_bytes())
        .collect();
    let contents = InferTensorContents {
        fp32s: pixels,
        ..InferTensorContents::default()
    };
    ModelInferRequest {
        model_name: "digits".into(),
        id: "7".into(),
        inputs: vec![InferTensor {
            name: "image".into(),
            datatype: "FP32".into(),
            shape: vec![1, 1, 8, 8],
            contents: (!raw).then_some(contents),
            ..InferTensor::default()
        }],
        raw_input_contents: if raw { vec![bytes.into()] } else { Vec::new() },
        ..ModelInferRequest::default()
    }
}

#[test]
fn raw_and_typed_contents_have_one_answer() {
    let app = app(Access::default());
    let [raw, typed] = [true, false].map(|raw| {
        let (code, text, answer) =
            call::<ModelInferResponse>(&app, "ModelInfer", &infer_request(raw));
        assert_eq!(code, Code::Ok, "{text}");
        answer
    });
    assert_eq!(raw, typed);
    assert_eq!((raw.id.as_str(), raw.model_version.as_str()), ("7", "1"));
    assert_eq!(raw.outputs[0].shape, [1, 10]);
    assert_eq!(raw.raw_output_contents[0].len(), 40);
    assert!(raw.raw_output_contents[0].iter().any(|&byte| byte != 0));
}

#[test]
fn calls_that_fail_have_statuses() {
    let app = app(Access::default());
    let mut request = infer_request(true);
    request.model_name = "../digits".into();
    let (code, text, _) = call::<Empty>(&app, "ModelInfer", &request);
    assert_eq!(code, Code::NotFound, "{text}");
    request = infer_request(true);
    request.inputs[0].shape = vec![2, 1, 8, 8];
    let (code, text, _) = call::<Empty>(&app, "ModelInfer", &request);
    assert_eq!(
        (code, text.contains("512")),
        (Code::InvalidArgument, true),
        "{text}"
    );
    let (code, text, _) = call::<Empty>(&app, "TraceSetting", &Empty {});
    assert_eq!(
        (code, text.contains("TraceSetting")),
        (Code::Unimplemented, true)
    );
    let path = format!("{SERVICE}ModelInfer");
    let headers = [("grpc-timeout", "0n")];
    let (code, _, _) = call_bytes::<Empty>(&app, &path, &headers, framed(&infer_request(true)));
    assert_eq!(code, Code::DeadlineExceeded);
    // Messages that are cut, malformed, too long for their prefix, or larger than the limit.
    let whole = framed(&infer_request(true));
    for body in [
        vec![],
        vec![0],
        whole[..whole.len() - 1].to_vec(),
        vec![0, 255, 255, 255, 255, 1],
        vec![0, 0, 0, 0, 1, 0xff],
        vec![1, 0, 0, 0, 0],
    ] {
        let (code, _, _) = call_bytes::<Empty>(&app, &path, &[], body.clone());
        assert_ne!(code, Code::Ok, "{body:?}");
    }
    let (code, _, _) = call_bytes::<Empty>(&app, &path, &[], vec![0, 0, 0x10, 0, 1, 0]);
    assert_eq!(code, Code::ResourceExhausted);
}

#[test]
fn the_server_and_its_models_are_described() {
    let app = app(Access::default());
    let (_, _, live) = call::<ReadyResponse>(&app, "ServerLive", &Empty {});
    assert!(live.ready);
    let named = |name: &str| ModelRequest {
        name: name.into(),
        version: String::new(),
    };
    let (_, _, ready) = call::<ReadyResponse>(&app, "ModelReady", &named("digits"));
    assert!(ready.ready);
    let (_, _, model) = call::<ModelMetadataResponse>(&app, "ModelMetadata", &named("digits"));
    assert_eq!(model.inputs[0].shape, [-1, 1, 8, 8]);
    let (_, _, config) = call::<ModelConfigResponse>(&app, "ModelConfig", &named("digits"));
    let config = config.config.unwrap();
    // TYPE_FP32 is 11.
    assert_eq!(
        (config.input[0].data_type, &config.input[0].dims[..]),
        (11, &[1, 8, 8][..])
    );
    let health = HealthCheckRequest::default();
    let (code, _, health) = call_bytes::<HealthCheckResponse>(&app, HEALTH, &[], framed(&health));
    assert_eq!((code, health.status), (Code::Ok, 1));
    app.is_draining.store(true, Ordering::Relaxed);
    let (_, _, ready) = call::<ReadyResponse>(&app, "ServerReady", &Empty {});
    assert!(!ready.ready);
}

#[test]
fn loading_needs_the_admin_token_and_reads_both_definitions() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "0123456789abcdef").unwrap();
    let app = app(Access::default().admin_token_file(file.path()).unwrap());
    let path = format!("{SERVICE}RepositoryModelUnload");
    let token = [("authorization", "Bearer 0123456789abcdef")];
    // Triton has the name in field 2, kserve in field 1.
    for (repository_name, model_name) in [("", "digits"), ("digits", "")] {
        let request = RepositoryModelRequest {
            repository_name: repository_name.into(),
            model_name: model_name.into(),
            ..RepositoryModelRequest::default()
        };
        let (code, _, _) = call_bytes::<Empty>(&app, &path, &[], framed(&request));
        assert_eq!(code, Code::Unauthenticated);
        let (code, text, _) = call_bytes::<Empty>(&app, &path, &token, framed(&request));
        assert_eq!(code, Code::Ok, "{text}");
    }
    let (code, _, _) = call::<Empty>(&app, "ModelInfer", &infer_request(true));
    assert_eq!(code, Code::Unavailable);
}

/// The messages of an answer.
fn messages<R: Message + Default>(mut bytes: Bytes) -> Vec<R> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let length = u32::from_be_bytes(bytes[1..5].try_into().unwrap()) as usize;
        messages.push(R::decode(bytes.slice(5..5 + length)).unwrap());
        bytes = bytes.slice(5 + length..);
    }
    messages
}

#[test]
fn packed_messages_have_packed_answers() {
    let app = app(Access::default());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &infer_request(true).encode_to_vec()).unwrap();
    let gzip = gzip.finish().unwrap();
    let body = [&[1][..], &(gzip.len() as u32).to_be_bytes(), &gzip].concat();
    let path = format!("{SERVICE}ModelInfer");
    let packed = ("grpc-encoding", "gzip");
    let (code, text, plain) = exchange(&app, &path, &[packed], body.clone());
    assert_eq!((code, plain[0]), (Code::Ok, 0), "{text}");
    let accepted = ("grpc-accept-encoding", "identity, gzip");
    let (_, _, answer) = exchange(&app, &path, &[packed, accepted], body.clone());
    assert_eq!(answer[0], 1);
    let mut unpacked = Vec::new();
    let mut gzip = flate2::read::GzDecoder::new(&answer[5..]);
    std::io::Read::read_to_end(&mut gzip, &mut unpacked).unwrap();
    assert_eq!(unpacked, plain[5..]);
    let (code, text, _) = exchange(&app, &path, &[("grpc-encoding", "br")], body.clone());
    assert_eq!(
        (code, text.contains("gzip")),
        (Code::Unimplemented, true),
        "{text}"
    );
    // A message of 64 MiB in 64 KiB: the limit of the server is 1 MiB.
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut bomb, &vec![0; 64 << 20]).unwrap();
    let bomb = bomb.finish().unwrap();
    let body = [&[1][..], &(bomb.len() as u32).to_be_bytes(), &bomb].concat();
    let (code, text, _) = exchange(&app, &path, &[packed], body);
    assert_eq!(code, Code::ResourceExhausted, "{text}");
}

#[test]
fn each_request_of_a_stream_has_an_answer_or_an_error() {
    let app = app(Access::default());
    let path = format!("{SERVICE}ModelStreamInfer");
    let (_, _, alone) = call::<ModelInferResponse>(&app, "ModelInfer", &infer_request(true));
    let mut body = Vec::new();
    for id in 0..100 {
        let mut request = infer_request(true);
        request.id = id.to_string();
        if id % 10 == 3 {
            request.model_name = "none".into();
        }
        body.extend(framed(&request));
    }
    let (code, text, bytes) = exchange(&app, &path, &[], body.clone());
    assert_eq!(code, Code::Ok, "{text}");
    let mut ids = Vec::new();
    for answer in messages::<ModelStreamInferResponse>(bytes) {
        let response = answer.infer_response.unwrap();
        let id: usize = response.id.parse().unwrap();
        if id % 10 == 3 {
            assert!(
                answer.error_message.contains("no model"),
                "{}",
                answer.error_message
            );
        } else {
            assert_eq!(
                (&*answer.error_message, &response.outputs),
                ("", &alone.outputs)
            );
            assert!(response.parameters.contains_key("triton_final_response"));
        }
        ids.push(id);
    }
    ids.sort();
    assert_eq!(ids, (0..100).collect::<Vec<_>>());
    // What was read before a message that is cut is answered.
    let (code, text, bytes) = exchange(&app, &path, &[], body[..body.len() - 1].to_vec());
    assert_eq!(
        (code, text.contains("ends early")),
        (Code::InvalidArgument, true),
        "{text}"
    );
    assert_eq!(messages::<ModelStreamInferResponse>(bytes).len(), 99);
    let (code, _, _) = exchange(&app, &path, &[("grpc-timeout", "0n")], body);
    assert_eq!(code, Code::DeadlineExceeded);
}

#[test]
fn the_services_are_reflected() {
    let app = app(Access::default());
    // A request for the list of services: field 7, an empty text.
    let queries = [0, 0, 0, 0, 2, 0x3a, 0].repeat(3);
    for path in [REFLECTION, REFLECTION_ALPHA] {
        let (code, text, bytes) = exchange(&app, path, &[], queries.clone());
        assert_eq!(code, Code::Ok, "{text}");
        let answers = messages::<reflection::ReflectionResponse>(bytes);
        assert_eq!((answers.len(), &answers[0]), (3, &answers[2]));
    }
}
