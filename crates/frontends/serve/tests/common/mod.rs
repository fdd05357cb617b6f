//! A server on a folder of models, and a plain client of HTTP/1.1.

#![allow(dead_code, reason = "each test file is a separate program")]

pub mod certificates;

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tenon::{Compiler, LoadOptions, Model, Tensor};
use tenon_serve::{Repository, RepositoryOptions, Server, ServerOptions};

/// A file of the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../..")
        .join(path)
}

/// The package of the digits classifier, whose batch is a symbol.
pub fn digits() -> &'static [u8] {
    static PACKAGE: OnceLock<Vec<u8>> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        let package = Compiler::new().compile_file(repository("models/digits/transformer.onnx"));
        package
            .and_then(|package| package.to_bytes())
            .expect("a package")
    })
}

/// The digits classifier without a server.
pub fn model() -> Model {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), digits()).expect("it is written");
    Model::load_with(file.path(), &LoadOptions::new()).expect("a model")
}

/// Pixels that differ between images.
pub fn pixels(image: usize) -> Vec<f32> {
    (0..64)
        .map(|at| ((at * 7 + image * 13) % 17) as f32)
        .collect()
}

/// The scores of one image.
pub fn scores(model: &Model, image: usize) -> Vec<f32> {
    let tensor = Tensor::from_slice([1, 1, 8, 8], &pixels(image)).expect("an image");
    let outputs = model.run(&[("image", &tensor)]).expect("it runs");
    outputs[0].as_slice::<f32>().expect("floats").to_vec()
}

/// Whether scores are equal up to the order of additions.
pub fn is_close(one: &[f32], other: &[f32]) -> bool {
    let mut pairs = one.iter().zip(other);
    one.len() == other.len() && pairs.all(|(one, other)| (one - other).abs() < 1e-3)
}

/// A server and its folder.
pub struct Served {
    pub folder: TempDir,
    pub server: Option<Server>,
    pub address: SocketAddr,
}

/// Starts a server with the digits classifier as `digits.neff`.
pub fn serve(
    change_server: impl FnOnce(&mut ServerOptions),
    change_models: impl FnOnce(&mut RepositoryOptions),
) -> Served {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("digits.neff"), digits()).expect("it is written");
    serve_folder(folder, change_server, change_models)
}

/// Starts a server on a folder with these files.
pub fn serve_files(files: &[(&str, &[u8])]) -> Served {
    let folder = tempfile::tempdir().expect("a folder");
    for (path, bytes) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
        std::fs::write(path, bytes).expect("it is written");
    }
    serve_folder(folder, |_| {}, |_| {})
}

/// Starts a server on a folder.
pub fn serve_folder(
    folder: TempDir,
    change_server: impl FnOnce(&mut ServerOptions),
    change_models: impl FnOnce(&mut RepositoryOptions),
) -> Served {
    let mut models = RepositoryOptions::default();
    change_models(&mut models);
    let repository = Repository::new(folder.path(), models, |_| {}).expect("a folder");
    let mut options = ServerOptions::new("127.0.0.1:0".parse().expect("an address"));
    options.poll = Some(Duration::from_millis(20));
    change_server(&mut options);
    let server = Server::start(options, Arc::new(repository)).expect("it listens");
    assert!(server.wait_until_loaded(Duration::from_secs(120)));
    Served {
        folder,
        address: server.http_address(),
        server: Some(server),
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The sentence of a refused request.
    pub fn error(&self) -> String {
        self.json()["error"]
            .as_str()
            .expect("a sentence")
            .to_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl Served {
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it connects");
        let limit = Some(Duration::from_secs(60));
        stream.set_read_timeout(limit).expect("a time limit");
        stream
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, body: &[u8]) -> Answer {
        self.send("POST", path, &[], body)
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut stream = self.connect();
        stream
            .write_all(&request(method, path, headers, body))
            .expect("it is sent");
        read(&mut stream)
    }

    /// Infers one image.
    pub fn infer(&self, image: usize) -> Answer {
        self.post("/v2/models/digits/infer", &json_request(image))
    }

    /// The value of a metric.
    pub fn metric(&self, name: &str) -> f64 {
        let page = String::from_utf8(self.get("/metrics").body).expect("text");
        let mut lines = page.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("no {name} in\n{page}"));
        value.parse().expect("a value")
    }

    /// Waits until a metric has a value.
    pub fn wait_for_metric(&self, name: &str, value: f64) {
        wait_until(name, || self.metric(name) == value);
    }
}

/// Waits until a condition is true, at most 30 s.
pub fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_true() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The bytes of a request.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += &format!("Content-Length: {}\r\n\r\n", body.len());
    [text.as_bytes(), body].concat()
}

/// Reads one answer.
pub fn read(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let mut block = [0; 4096];
    loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
            let status = head.split(' ').nth(1).expect("a status");
            let mut answer = Answer {
                status: status.parse().expect("a status"),
                body: bytes[end + 4..].to_vec(),
                head,
            };
            let length = answer
                .header("content-length")
                .map_or(0, |length| length.parse().expect("a length"));
            let have = answer.body.len();
            answer.body.resize(length, 0);
            if have < length {
                stream
                    .read_exact(&mut answer.body[have..])
                    .expect("the body");
            }
            return answer;
        }
        let read = stream.read(&mut block).expect("an answer");
        assert!(read > 0, "the connection ended after {bytes:?}");
        bytes.extend_from_slice(&block[..read]);
    }
}

/// A request for one image in JSON.
pub fn json_request(image: usize) -> Vec<u8> {
    let request = serde_json::json!({
        "id": image.to_string(),
        "inputs": [{"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": pixels(image)}],
    });
    request.to_string().into_bytes()
}

/// The scores in an answer of JSON.
pub fn answered_scores(answer: &Answer) -> Vec<f32> {
    assert_eq!(
        answer.status,
        200,
        "{}",
        String::from_utf8_lossy(&answer.body)
    );
    let json = answer.json();
    let data = json["outputs"][0]["data"].as_array().expect("data");
    data.iter()
        .map(|value| value.as_f64().expect("a float") as f32)
        .collect()
}
