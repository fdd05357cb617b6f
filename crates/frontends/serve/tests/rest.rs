//! The REST protocol over sockets.

mod common;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use common::{
    Answer, Served, answered_scores, digits, is_close, json_request, model, pixels, read,
    repository, request, scores, serve,
};
use serde_json::{Value, json};
use std::io::Write;
use tenon_serve::{Access, ServerOptions};

fn plain() -> Served {
    serve(|_| {}, |_| {})
}

#[test]
fn the_server_and_its_models_are_described() {
    let served = plain();
    let server = served.get("/v2");
    assert_eq!(server.json()["name"], "tenon");
    assert_eq!(served.get("/v2/").json(), server.json());
    assert_eq!(served.get("/v2/health/live").json(), json!({"live": true}));
    assert_eq!(
        served.get("/v2/health/ready").json(),
        json!({"ready": true})
    );
    assert_eq!(
        served.get("/v2/models").json(),
        json!({"models": ["digits"]})
    );
    let expected = json!({
        "name": "digits",
        "versions": ["1"],
        "platform": "tenon_neff",
        "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 1, 8, 8]}],
        "outputs": [{"name": "scores", "datatype": "FP32", "shape": [-1, 10]}],
    });
    assert_eq!(served.get("/v2/models/digits").json(), expected);
    assert_eq!(served.get("/v2/models/digits/versions/1").json(), expected);
    let ready = json!({"name": "digits", "ready": true});
    assert_eq!(served.get("/v2/models/digits/ready").json(), ready);
    let config = served.get("/v2/models/digits/config").json();
    assert_eq!(config["max_batch_size"], 32);
    let input = json!([{"name": "image", "data_type": "TYPE_FP32", "dims": [1, 8, 8], "format": "FORMAT_NONE"}]);
    assert_eq!(config["input"], input);
    let index = served.post("/v2/repository/index", b"").json();
    let row = json!([{"name": "digits", "version": "1", "state": "READY", "reason": ""}]);
    assert_eq!(index, row);
    assert_eq!(
        served
            .post("/v2/repository/index", b"{\"ready\":true}")
            .json(),
        row
    );
}

#[test]
fn images_are_classified_in_json() {
    let served = plain();
    let model = model();
    for image in 0..3 {
        let answer = served.infer(image);
        assert!(is_close(&answered_scores(&answer), &scores(&model, image)));
        let json = answer.json();
        assert_eq!(json["id"], image.to_string());
        assert_eq!(json["model_name"], "digits");
        assert_eq!(json["model_version"], "1");
        assert_eq!(json["outputs"][0]["shape"], json!([1, 10]));
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
}

/// A request as tritonclient sends it, and the length of its JSON.
fn binary_request(image: usize) -> (Vec<u8>, usize) {
    let json = json!({
        "inputs": [{"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32",
            "parameters": {"binary_data_size": 256}}],
        "parameters": {"binary_data_output": true},
    });
    let json = json.to_string();
    let bytes: Vec<u8> = pixels(image).iter().flat_map(|p| p.to_le_bytes()).collect();
    ([json.as_bytes(), &bytes].concat(), json.len())
}

#[test]
fn images_are_classified_in_binary_form() {
    let served = plain();
    let (body, length) = binary_request(5);
    let length = length.to_string();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&body).unwrap();
    let packed = packed.finish().unwrap();
    let header = ("Inference-Header-Content-Length", &*length);
    let path = "/v2/models/digits/versions/1/infer";
    // The header counts JSON before packing.
    let answers = [
        served.send("POST", path, &[header], &body),
        served.send(
            "POST",
            path,
            &[header, ("Content-Encoding", "gzip")],
            &packed,
        ),
    ];
    for answer in answers {
        assert_eq!(
            answer.status,
            200,
            "{}",
            String::from_utf8_lossy(&answer.body)
        );
        assert_eq!(
            answer.header("content-type"),
            Some("application/octet-stream")
        );
        let length = answer.header("inference-header-content-length").unwrap();
        let (json, binary) = answer.body.split_at(length.parse().unwrap());
        let json: serde_json::Value = serde_json::from_slice(json).unwrap();
        assert_eq!(json["outputs"][0]["parameters"]["binary_data_size"], 40);
        let floats: Vec<f32> = binary
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect();
        assert!(is_close(&floats, &scores(&model(), 5)));
    }
}

#[test]
fn classes_are_returned_instead_of_scores() {
    let served = plain();
    let mut request: serde_json::Value = serde_json::from_slice(&json_request(4)).unwrap();
    request["outputs"] = json!([{"name": "scores", "parameters": {"classification": 1}}]);
    let answer = served.post("/v2/models/digits/infer", request.to_string().as_bytes());
    let output = &answer.json()["outputs"][0];
    assert_eq!(
        (&output["datatype"], &output["shape"]),
        (&json!("BYTES"), &json!([1, 1]))
    );
    let scores = scores(&model(), 4);
    let best = (0..10)
        .max_by(|&a, &b| scores[a].total_cmp(&scores[b]))
        .unwrap();
    let text = output["data"][0].as_str().unwrap();
    assert!(text.split(':').nth(1) == Some(&best.to_string()), "{text}");
}

#[test]
fn bad_requests_are_refused_with_a_sentence() {
    let served = plain();
    let infer = "/v2/models/digits/infer";
    let with = |from: &str, to: &str| {
        let text = String::from_utf8(json_request(0)).unwrap();
        assert!(text.contains(from), "{text}");
        text.replace(from, to).into_bytes()
    };
    let cases: [(&str, &str, Vec<u8>, u16, &str); 17] = [
        (
            "POST",
            "/v2/models/none/infer",
            json_request(0),
            404,
            "\"none\"",
        ),
        (
            "POST",
            "/v2/models/..%2f..%2fetc/infer",
            json_request(0),
            404,
            "no model",
        ),
        (
            "POST",
            "/v2/models/digits/versions/2/infer",
            json_request(0),
            404,
            "no version",
        ),
        (
            "POST",
            "/v2/models/digits/versions/../infer",
            json_request(0),
            400,
            "failed to get model version from specified version string '..'",
        ),
        ("POST", infer, b"{".to_vec(), 400, "line 1"),
        ("POST", infer, b"".to_vec(), 400, "line 1"),
        ("POST", infer, b"\xff\xfe".to_vec(), 400, "malformed"),
        (
            "POST",
            infer,
            b"{\"inputs\":[]}".to_vec(),
            400,
            "'image' is missing",
        ),
        (
            "POST",
            infer,
            with("\"image\"", "\"picture\""),
            400,
            "no input 'picture'",
        ),
        (
            "POST",
            infer,
            with("[1,1,8,8]", "[1,1,4,16]"),
            400,
            "[-1, 1, 8, 8]",
        ),
        (
            "POST",
            infer,
            with("[1,1,8,8]", "[64]"),
            400,
            "[-1, 1, 8, 8]",
        ),
        (
            "POST",
            infer,
            with("[1,1,8,8]", "[2,1,8,8]"),
            400,
            "its shape",
        ),
        (
            "POST",
            infer,
            with("FP32", "FP64"),
            400,
            "expected FP32, found FP64",
        ),
        ("POST", infer, with("FP32", "FP16"), 400, "binary"),
        ("GET", infer, b"".to_vec(), 405, "POST"),
        ("GET", "/v3", b"".to_vec(), 404, "/openapi.json"),
        (
            "POST",
            "/v2/repository/models/digits/load",
            b"".to_vec(),
            403,
            "--admin-token-file",
        ),
    ];
    for (method, path, body, status, part) in cases {
        let answer = served.send(method, path, &[], &body);
        let error = answer.error();
        assert_eq!(answer.status, status, "{path}: {error}");
        assert!(error.contains(part), "{path}: {error}");
    }
    let unknown = r#"{"outputs":[{"name":"y"}],"inputs":"#;
    let answer = served.post(infer, &with("{\"id\":\"0\",\"inputs\":", unknown));
    assert!(
        answer.error().contains("no output 'y'"),
        "{}",
        answer.error()
    );
    let host = "GET /v2 HTTP/1.1\r\nHost: example.com\r\n\r\n";
    let mut stream = served.connect();
    stream.write_all(host.as_bytes()).unwrap();
    assert_eq!(read(&mut stream).status, 421);
    // After all of that it serves.
    assert_eq!(served.infer(1).status, 200);
}

#[test]
fn heads_are_limited() {
    let served = plain();
    let many: Vec<(String, String)> = (0..100_000)
        .map(|at| (format!("x-{at}"), "v".to_owned()))
        .collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(n, v)| (&**n, &**v)).collect();
    let mut stream = served.connect();
    // The server may close the connection before it has read all of them.
    let _ = stream.write_all(&request("GET", "/v2", &many, b""));
    let mut bytes = [0; 32];
    if let Ok(length @ 1..) = std::io::Read::read(&mut stream, &mut bytes) {
        let text = String::from_utf8_lossy(&bytes[..length]);
        assert!(text.starts_with("HTTP/1.1 431"), "{text}");
    }
    assert_eq!(served.infer(1).status, 200);
}

#[test]
fn one_connection_serves_many_requests() {
    let served = plain();
    let model = model();
    let mut stream = served.connect();
    for image in 0..20 {
        let bytes = request("POST", "/v2/models/digits/infer", &[], &json_request(image));
        stream.write_all(&bytes).unwrap();
        let answer = read(&mut stream);
        assert!(is_close(&answered_scores(&answer), &scores(&model, image)));
    }
    let statistics = served.get("/v2/models/digits/stats").json();
    let of_model = &statistics["model_stats"][0];
    assert_eq!(of_model["inference_count"], 20);
    assert_eq!(of_model["inference_stats"]["success"]["count"], 20);
    assert_eq!(of_model["batch_stats"][0]["batch_size"], 1);
    assert_eq!(served.get("/v2/models/stats").json(), statistics);
}

#[test]
fn metrics_count_requests() {
    let served = plain();
    served.infer(0);
    served.post("/v2/models/digits/infer", b"{");
    served.post("/v2/models/none/infer", b"{");
    let labels = "{model=\"digits\",version=\"1\"";
    let value = |name: &str| served.metric(name);
    assert_eq!(
        value(&format!("tenon_request_total{labels},code=\"200\"}}")),
        1.0
    );
    assert_eq!(
        value(&format!("tenon_request_total{labels},code=\"400\"}}")),
        1.0
    );
    let rejected = "tenon_rejected_total{model=\"\",reason=\"not_found\"}";
    assert_eq!(value(rejected), 1.0);
    assert_eq!(
        value(&format!("tenon_request_seconds_count{labels}}}")),
        1.0
    );
    assert_eq!(
        value(&format!("tenon_batch_size_bucket{labels},le=\"1\"}}")),
        1.0
    );
    assert_eq!(
        value(&format!("nv_inference_request_success{labels}}}")),
        1.0
    );
    assert_eq!(
        (value("tenon_in_flight"), value("tenon_body_bytes")),
        (0.0, 0.0)
    );
    // Every line is a comment or a sample.
    let page = String::from_utf8(served.get("/metrics").body).unwrap();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn models_are_loaded_and_unloaded_with_the_admin_token() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "0123456789abcdef").unwrap();
    let access = Access::default().admin_token_file(file.path()).unwrap();
    let served = serve(|options| options.access = access, |_| {});
    let load = "/v2/repository/models/digits/load";
    let unload = "/v2/repository/models/digits/unload";
    assert_eq!(served.post(unload, b"").status, 401);
    let token = [("Authorization", "Bearer 0123456789abcdef")];
    let send = |path: &str, body: &[u8]| served.send("POST", path, &token, body);
    assert_eq!(send(unload, b"{}").status, 200);
    let refused = served.infer(0);
    assert_eq!(
        (refused.status, refused.error().contains("unloaded")),
        (503, true)
    );
    assert_eq!(served.get("/v2/models/digits/ready").status, 503);
    let index = served.post("/v2/repository/index", b"").json();
    assert_eq!(index[0]["state"], "UNAVAILABLE");
    let upload = br#"{"parameters":{"file:1/model.onnx":"AAAA"}}"#;
    let refused = send(load, upload);
    assert_eq!(
        (refused.status, refused.error().contains("--allow-uploads")),
        (501, true)
    );
    assert_eq!(send("/v2/repository/models/none/load", b"").status, 404);
    assert_eq!(send(load, b"").status, 200);
    assert_eq!(served.infer(0).status, 200);
}

/// A request to load `model` with files.
fn upload(served: &Served, model: &str, files: &[(&str, &[u8])]) -> Answer {
    let files = files
        .iter()
        .map(|(name, bytes)| (name.to_string(), STANDARD.encode(bytes).into()));
    let mut parameters: serde_json::Map<String, Value> = files.collect();
    parameters.insert("config".into(), "{\"backend\": \"tenon\"}".into());
    let body = json!({"parameters": parameters}).to_string();
    let token = [("Authorization", "Bearer 0123456789abcdef")];
    let path = format!("/v2/repository/models/{model}/load");
    served.send("POST", &path, &token, body.as_bytes())
}

#[test]
fn models_are_uploaded_with_the_admin_token() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "0123456789abcdef").unwrap();
    let access = Access::default().admin_token_file(file.path()).unwrap();
    let change = |options: &mut ServerOptions| {
        options.access = access;
        options.has_uploads = true;
    };
    let served = serve(change, |_| {});
    let onnx = std::fs::read(repository("models/digits/transformer.onnx")).unwrap();
    let answer = upload(&served, "new", &[("file:3/model.onnx", &onnx)]);
    assert_eq!(answer.status, 200, "{}", answer.error());
    let metadata = served.get("/v2/models/new").json();
    assert_eq!(metadata["versions"], json!(["3"]));
    assert!(served.folder.path().join("new/3/model.onnx").exists());
    // Another one takes its place, and one that cannot be loaded does not.
    assert_eq!(
        upload(&served, "new", &[("file:3/a.neff", digits())]).status,
        200
    );
    let answer = upload(
        &served,
        "new",
        &[("file:3/b.neff", b"none"), ("file:4/c.neff", digits())],
    );
    assert_eq!(answer.status, 400);
    assert!(
        answer.error().contains("version 3 of 'new'"),
        "{}",
        answer.error()
    );
    let files = std::fs::read_dir(served.folder.path().join("new/3")).unwrap();
    let names: Vec<_> = files.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a.neff"]);
    assert_eq!(
        served.get("/v2/models/new").json()["versions"],
        json!(["3"])
    );
    // Nothing is left of what was refused.
    let entries = std::fs::read_dir(served.folder.path()).unwrap();
    assert_eq!(entries.count(), 2);
    let refused = |model: &str, name: &str, part: &str| {
        let answer = upload(&served, model, &[(name, digits())]);
        assert_eq!(answer.status, 400, "{model} {name}");
        assert!(answer.error().contains(part), "{}", answer.error());
    };
    refused("digits", "file:2/a.neff", "no versions");
    refused("..", "file:1/a.neff", "no name");
    refused("a%2Fb", "file:1/a.neff", "no name");
    refused("new", "file:1/../../a.neff", "name of a file");
    let parameters = json!({"parameters": {"file:1/a.neff": "?"}}).to_string();
    let token = [("Authorization", "Bearer 0123456789abcdef")];
    let path = "/v2/repository/models/new/load";
    let answer = served.send("POST", path, &token, parameters.as_bytes());
    assert_eq!(
        (answer.status, answer.error().contains("base64")),
        (400, true)
    );
    // Without the token nothing is read.
    assert_eq!(served.post(path, parameters.as_bytes()).status, 401);
}

#[test]
fn a_token_is_required() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "0123456789abcdef\n").unwrap();
    let access = Access::default().token_file(file.path()).unwrap();
    let served = serve(|options| options.access = access, |_| {});
    let refused = served.infer(0);
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    assert_eq!(served.get("/v2/health/ready").status, 200);
    let token = [("Authorization", "Bearer 0123456789abcdef")];
    let infer = "/v2/models/digits/infer";
    assert_eq!(
        served.send("POST", infer, &token, &json_request(0)).status,
        200
    );
}
