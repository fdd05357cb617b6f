//! Settings of models: batches, rates, kept answers, sequences; and ensembles.

mod common;

use common::{Answer, Served, digits, model, scores, serve_files, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tenon::Compiler;

/// The package of a model of `data/make.py`.
fn package(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let package = Compiler::new().compile_file(path.join(name).with_extension("onnx"));
    package.and_then(|package| package.to_bytes()).unwrap()
}

/// A request with inputs of two columns.
fn request(parameters: Value, inputs: &[(&str, &[f32])]) -> Vec<u8> {
    let inputs = inputs.iter().map(|(name, data)| {
        json!({"name": name, "shape": [data.len() / 2, 2], "datatype": "FP32", "data": data})
    });
    let inputs: Vec<Value> = inputs.collect();
    json!({"parameters": parameters, "inputs": inputs})
        .to_string()
        .into_bytes()
}

fn output(answer: &Answer, name: &str) -> Vec<f64> {
    let json = answer.json();
    let outputs = json["outputs"]
        .as_array()
        .unwrap_or_else(|| panic!("{json}"));
    let output = outputs
        .iter()
        .find(|output| output["name"] == name)
        .unwrap();
    let data = output["data"].as_array().unwrap().iter();
    data.map(|element| element.as_f64().unwrap()).collect()
}

fn reason(served: &Served, name: &str) -> String {
    let index = served.post("/v2/repository/index", b"").json();
    let rows = index.as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == name).unwrap();
    row["reason"].as_str().unwrap().to_owned()
}

const SUM_SETTINGS: &str = "
    [sequence]
    start_input = 'start'
    max = 3
    [[sequence.state]]
    input = 'h'
    output = 'h_next'";

#[test]
fn each_sequence_has_its_states() {
    let sum = package("sum");
    let served = serve_files(&[("sum.neff", &sum), ("sum.toml", SUM_SETTINGS.as_bytes())]);
    let metadata = served.get("/v2/models/sum").json();
    assert_eq!(metadata["inputs"].as_array().unwrap().len(), 1);
    assert_eq!(metadata["outputs"].as_array().unwrap().len(), 2);
    let send = |id: Value, start: bool, end: bool, x: &[f32]| {
        let parameters = json!({"sequence_id": id, "sequence_start": start, "sequence_end": end});
        served.post("/v2/models/sum/infer", &request(parameters, &[("x", x)]))
    };
    let first = send(json!(7), true, false, &[1.0, 2.0]);
    assert_eq!(output(&first, "y"), [-1.0, -2.0]);
    assert_eq!(output(&first, "first"), [-1.0]);
    // Another one, of two rows.
    let other = send(json!("b"), true, false, &[5.0, 5.0, 6.0, 6.0]);
    assert_eq!(output(&other, "y"), [-5.0, -5.0, -6.0, -6.0]);
    let second = send(json!(7), false, false, &[10.0, 20.0]);
    assert_eq!(output(&second, "y"), [-11.0, -22.0]);
    assert_eq!(output(&second, "first"), [0.0]);
    assert_eq!(
        output(&send(json!("b"), false, false, &[1.0; 4]), "y"),
        [-6.0, -6.0, -7.0, -7.0]
    );
    // A failed request leaves the state.
    assert_eq!(send(json!(7), false, false, &[1.0; 4]).status, 400);
    assert_eq!(
        output(&send(json!(7), false, true, &[0.0, 0.0]), "y"),
        [-11.0, -22.0]
    );
    let ended = send(json!(7), false, false, &[1.0, 1.0]);
    assert_eq!(ended.status, 400);
    assert!(ended.error().contains("sequence 7"), "{}", ended.error());
    // A start in the middle begins again.
    assert_eq!(
        output(&send(json!("b"), true, false, &[1.0, 1.0]), "y"),
        [-1.0, -1.0]
    );
    let without = served.post(
        "/v2/models/sum/infer",
        &request(json!({}), &[("x", &[0.0, 0.0])]),
    );
    assert_eq!(without.status, 400);
    assert!(
        without.error().contains("sequence_id"),
        "{}",
        without.error()
    );
    // "b" and two more are the most.
    for id in [1, 2] {
        assert_eq!(send(json!(id), true, false, &[0.0, 0.0]).status, 200);
    }
    assert_eq!(send(json!(3), true, false, &[0.0, 0.0]).status, 429);
    let metrics = String::from_utf8(served.get("/metrics").body).unwrap();
    assert!(
        metrics.contains("tenon_sequences{model=\"sum\",version=\"1\"} 3"),
        "{metrics}"
    );
}

#[test]
fn requests_of_a_sequence_are_in_their_order() {
    let sum = package("sum");
    let served = serve_files(&[("sum.neff", &sum), ("sum.toml", SUM_SETTINGS.as_bytes())]);
    let send = |start: bool, x: f32| {
        let parameters = json!({"sequence_id": 1, "sequence_start": start});
        let request = request(parameters, &[("x", &[x, x])]);
        served.post("/v2/models/sum/infer", &request)
    };
    assert_eq!(send(true, 0.0).status, 200);
    // Concurrent requests: each is added once, whatever their order.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..10).for_each(|_| assert_eq!(send(false, 1.0).status, 200)));
        }
    });
    assert_eq!(output(&send(false, 0.0), "y"), [-80.0, -80.0]);
}

#[test]
fn idle_sequences_are_forgotten() {
    let sum = package("sum");
    let settings = SUM_SETTINGS.replace("max = 3", "idle = 0.05");
    let served = serve_files(&[("sum.neff", &sum), ("sum.toml", settings.as_bytes())]);
    let parameters = json!({"sequence_id": 1, "sequence_start": true});
    let start = request(parameters, &[("x", &[1.0, 1.0])]);
    assert_eq!(served.post("/v2/models/sum/infer", &start).status, 200);
    wait_until("the sequence is forgotten", || {
        let metrics = String::from_utf8(served.get("/metrics").body).unwrap();
        metrics.contains("tenon_sequences{model=\"sum\",version=\"1\"} 0")
    });
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let sum = package("sum");
    let unknown = "[sequence]\nid_input = 'nothing'\n[[sequence.state]]\ninput = 'h'\noutput = 'z'";
    let served = serve_files(&[
        ("sum.neff", &sum),
        ("sum.toml", unknown.as_bytes()),
        ("typing.neff", digits()),
        ("typing.toml", b"max_bach = 1"),
        ("alone.toml", b"max_batch = 1"),
    ]);
    let text = reason(&served, "sum");
    assert!(text.contains("'nothing'") && text.contains("'z'"), "{text}");
    assert!(reason(&served, "typing").contains("max_bach"));
    assert!(reason(&served, "alone").contains("without their model"));
    // They are read again when they change.
    fs::write(served.folder.path().join("sum.toml"), SUM_SETTINGS).unwrap();
    wait_until("the settings are read", || {
        reason(&served, "sum").is_empty()
    });
}

#[test]
fn rates_are_limited() {
    let served = serve_files(&[
        ("digits.neff", digits()),
        ("digits.toml", b"max_rate = 0.01\nburst = 2"),
    ]);
    let answers: Vec<Answer> = (0..3).map(|image| served.infer(image)).collect();
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(answers[2].header("retry-after"), Some("1"));
    let metrics = String::from_utf8(served.get("/metrics").body).unwrap();
    assert!(metrics.contains("tenon_rejected_total{model=\"digits\",reason=\"rate\"} 1"));
}

#[test]
fn equal_requests_have_one_execution() {
    let served = serve_files(&[
        ("digits.neff", digits()),
        ("digits.toml", b"cache_bytes = 1000000"),
    ]);
    let first = served.infer(1);
    assert_eq!(served.infer(1).body, first.body);
    served.infer(2);
    let expected = scores(&model(), 2);
    assert!(common::is_close(
        &common::answered_scores(&served.infer(2)),
        &expected
    ));
    let statistics = served.get("/v2/models/digits/stats").json();
    let row = &statistics["model_stats"][0];
    assert_eq!(row["execution_count"], 2);
    assert_eq!(row["inference_stats"]["cache_hit"]["count"], 2);
    assert_eq!(row["inference_stats"]["cache_miss"]["count"], 2);
    assert_eq!(row["inference_stats"]["success"]["count"], 4);
}

const ENSEMBLE: &str = "
    [ensemble]
    outputs = ['result', 'negated']
    [[ensemble.step]]
    model = 'both'
    inputs = { a = 'negated', b = 'y' }
    outputs = { sum = 'result' }
    [[ensemble.step]]
    model = 'negative'
    inputs = { in = 'x' }
    outputs = { out = 'negated' }";

#[test]
fn ensembles_pass_tensors() {
    let (negative, both) = (package("negative"), package("both"));
    let served = serve_files(&[
        ("negative.neff", &negative),
        ("both.neff", &both),
        ("all.toml", ENSEMBLE.as_bytes()),
    ]);
    let metadata = served.get("/v2/models/all").json();
    assert_eq!(metadata["platform"], "ensemble");
    let names: Vec<&Value> = metadata["inputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["y", "x"]);
    let inputs: [(&str, &[f32]); 2] = [("x", &[1.0, 2.0]), ("y", &[10.0, 10.0])];
    let infer = || served.post("/v2/models/all/infer", &request(json!({}), &inputs));
    let answer = infer();
    assert_eq!(output(&answer, "result"), [9.0, 8.0]);
    assert_eq!(output(&answer, "negated"), [-1.0, -2.0]);
    // The rows of the two inputs differ: the step is named.
    let uneven: [(&str, &[f32]); 2] = [("x", &[1.0, 2.0]), ("y", &[1.0; 4])];
    let refused = served.post("/v2/models/all/infer", &request(json!({}), &uneven));
    assert_eq!(refused.status, 400);
    assert!(refused.error().starts_with("both: "), "{}", refused.error());
    // A model that is replaced serves in the ensemble too; one that is gone ends it until it is back.
    let file = served.folder.path().join("negative.neff");
    fs::write(&file, package("absolute")).unwrap();
    wait_until("the model is replaced", || {
        output(&infer(), "negated") == [1.0, 2.0]
    });
    fs::remove_file(&file).unwrap();
    wait_until("the ensemble is gone", || infer().status == 503);
    assert!(infer().error().contains("negative"), "{}", infer().error());
    fs::write(&file, &negative).unwrap();
    wait_until("the ensemble is back", || infer().status == 200);
}

#[test]
fn a_repository_of_triton_is_served() {
    let (negative, absolute, sum) = (package("negative"), package("absolute"), package("sum"));
    let batching = include_bytes!("data/configs/batching.pbtxt");
    let served = serve_files(&[
        ("digits/1/model.neff", digits()),
        ("digits/config.pbtxt", batching),
        ("digits/classes.txt", b"0\n1\n2\n3\n4\n5\n6\n7\n8\nnine"),
        ("sum/1/model.neff", &sum),
        (
            "sum/config.pbtxt",
            include_bytes!("data/configs/sequence.pbtxt"),
        ),
        ("negative/1/model.neff", &negative),
        (
            "negative/config.pbtxt",
            b"max_batch_size: 8 output { name: 'out' label_filename: 'sides.txt' }",
        ),
        ("negative/sides.txt", b"left\nright"),
        ("absolute/1/model.neff", &absolute),
        ("absolute/config.pbtxt", b"colour: 1"),
        ("absolute/model.toml", b"max_batch = 3"),
        (
            "both_steps/config.pbtxt",
            include_bytes!("data/configs/ensemble.pbtxt"),
        ),
        ("odd/1/model.neff", &negative),
        (
            "odd/config.pbtxt",
            b"name: 'odd'\noutput { name: 'no' label_filename: 'none.txt' }",
        ),
        ("labels/1/model.neff", &negative),
        (
            "labels/config.pbtxt",
            b"output { name: 'no' label_filename: '../digits/classes.txt' }",
        ),
    ]);
    let configuration = |name: &str| served.get(&format!("/v2/models/{name}/config")).json();
    assert_eq!(configuration("digits")["max_batch_size"], 16);
    // Requests of it are not joined, and its configuration has the batch.
    let negative = configuration("negative");
    assert_eq!(negative["max_batch_size"], 8);
    assert_eq!(negative["input"][0]["dims"], json!([2]));
    assert_eq!(negative["input"][0]["format"], "FORMAT_NONE");
    let ensemble = configuration("both_steps");
    assert_eq!(ensemble["max_batch_size"], 8);
    assert_eq!(ensemble["output"][0]["dims"], json!([2]));
    assert_eq!(configuration("absolute")["max_batch_size"], 3);
    let image =
        json!({"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": vec![0.0; 64]});
    let classes = json!({"name": "scores", "parameters": {"classification": 10}});
    let all = json!({"inputs": [image], "outputs": [classes]}).to_string();
    let answer = served
        .post("/v2/models/digits/infer", all.as_bytes())
        .json();
    let classes = answer["outputs"][0]["data"].as_array().unwrap();
    let is_nine = |text: &&Value| text.as_str().unwrap().ends_with(":9:nine");
    assert_eq!(classes.iter().filter(is_nine).count(), 1, "{classes:?}");
    // The running sum of a sequence, and two models one after the other.
    for expected in [[-1.0, -2.0], [-2.0, -4.0]] {
        let parameters = json!({"sequence_id": 1, "sequence_start": expected[0] == -1.0});
        let request = request(parameters, &[("x", &[1.0, 2.0])]);
        let answer = served.post("/v2/models/sum/infer", &request);
        assert_eq!(output(&answer, "y"), expected);
    }
    let request = request(json!({}), &[("x", &[-3.0, 4.0])]);
    let answer = served.post("/v2/models/both_steps/infer", &request);
    assert_eq!(output(&answer, "z"), [-3.0, -4.0]);
    // Its classes have the names of the model that makes the output.
    let mut classes: Value = serde_json::from_slice(&request).unwrap();
    classes["outputs"] = json!([{"name": "z", "parameters": {"classification": 1}}]);
    let answer = served.post(
        "/v2/models/both_steps/infer",
        classes.to_string().as_bytes(),
    );
    assert_eq!(answer.json()["outputs"][0]["data"], json!(["-3:0:left"]));
    let odd = reason(&served, "odd");
    assert!(
        odd.contains("labels of output \"no\": cannot read"),
        "{odd}"
    );
    let labels = reason(&served, "labels");
    assert!(
        labels.ends_with("unknown output: expected out, found no"),
        "{labels}"
    );
}

#[test]
fn shapes_of_callers_become_those_of_the_model() {
    let negative = package("negative");
    let image = "max_batch_size: 4
        input { name: 'in' format: FORMAT_NHWC dims: [1, 2, 1] reshape { shape: [2] } }
        output { name: 'out' dims: [2, 1] reshape { shape: 2 } }";
    let served = serve_files(&[
        ("image/1/model.neff", &negative),
        ("image/config.pbtxt", image.as_bytes()),
        ("other/1/model.neff", &negative),
        (
            "other/config.pbtxt",
            b"input { name: 'in' dims: 3 reshape { shape: [1, 3] } }",
        ),
        ("fixed/1/model.neff", &package("negative")),
        (
            "fixed/config.pbtxt",
            b"max_batch_size: 4 input { name: 'in'\ndims: 3\nreshape { shape: 2 } }",
        ),
    ]);
    let metadata = served.get("/v2/models/image").json();
    assert_eq!(metadata["inputs"][0]["shape"], json!([-1, 1, 2, 1]));
    assert_eq!(metadata["outputs"][0]["shape"], json!([-1, 2, 1]));
    let configuration = served.get("/v2/models/image/config").json();
    assert_eq!(configuration["max_batch_size"], 4);
    assert_eq!(configuration["input"][0]["dims"], json!([1, 2, 1]));
    assert_eq!(configuration["input"][0]["format"], "FORMAT_NHWC");
    let infer = |shape: Value| {
        let data = [1.0, 2.0, 3.0, 4.0];
        let input = json!({"name": "in", "shape": shape, "datatype": "FP32", "data": data});
        let request = json!({"inputs": [input]}).to_string();
        served.post("/v2/models/image/infer", request.as_bytes())
    };
    let answer = infer(json!([2, 1, 2, 1]));
    assert_eq!(output(&answer, "out"), [-1.0, -2.0, -3.0, -4.0]);
    assert_eq!(answer.json()["outputs"][0]["shape"], json!([2, 2, 1]));
    assert!(infer(json!([2, 2])).error().contains("[-1, 1, 2, 1]"));
    assert!(reason(&served, "other").contains("[-1, 2]"));
    let fixed = reason(&served, "fixed");
    assert!(fixed.contains("dims, [3]"), "{fixed}");
}

#[test]
fn texts_have_batches_and_sequences_have_texts() {
    let configuration = include_bytes!("data/configs/numbered.pbtxt");
    let served = serve_files(&[
        ("texts.neff", &package("texts")),
        ("numbered/1/model.neff", &package("numbered")),
        ("numbered/config.pbtxt", configuration),
    ]);
    let texts = served.get("/v2/models/texts/config").json();
    assert_eq!(texts["max_batch_size"], 32, "{}", reason(&served, "texts"));
    assert_eq!(reason(&served, "numbered"), "");
    std::thread::scope(|scope| {
        for at in 0..8 {
            let served = &served;
            scope.spawn(move || {
                let rows: Vec<String> = (0..2 * (1 + at % 3))
                    .map(|it| format!("{at}.{it}"))
                    .collect();
                let shape = [rows.len() / 2, 2];
                let input =
                    json!({"name": "in", "shape": shape, "datatype": "BYTES", "data": rows});
                let request = json!({"inputs": [input]}).to_string();
                for _ in 0..20 {
                    let answer = served.post("/v2/models/texts/infer", request.as_bytes());
                    assert_eq!(answer.json()["outputs"][0]["data"], json!(rows));
                }
            });
        }
    });
    let send = |id: Value, start: bool, x: i32| {
        let input = json!({"name": "x", "shape": [2, 1], "datatype": "INT32", "data": [x, 0]});
        let parameters = json!({"sequence_id": id, "sequence_start": start});
        let request = json!({"parameters": parameters, "inputs": [input]}).to_string();
        served.post("/v2/models/numbered/infer", request.as_bytes())
    };
    // The rows are ready, and have the id of their sequence.
    assert_eq!(output(&send(json!("1000"), true, 5), "y"), [1005.0, 1000.0]);
    assert_eq!(output(&send(json!(2000), true, 1), "y"), [2001.0, 2000.0]);
    assert_eq!(
        output(&send(json!("1000"), false, 2), "y"),
        [1007.0, 1000.0]
    );
}

#[test]
fn a_model_has_a_default_timeout() {
    let served = serve_files(&[("digits.neff", digits()), ("digits.toml", b"timeout = 0.0")]);
    assert_eq!(served.infer(1).status, 504);
    let mut own: Value = serde_json::from_slice(&common::json_request(1)).unwrap();
    own["parameters"] = json!({"timeout": 60_000_000});
    let answer = served.post("/v2/models/digits/infer", own.to_string().as_bytes());
    assert_eq!(answer.status, 200);
}

#[test]
fn ensembles_that_do_not_fit_are_refused() {
    let (negative, both) = (package("negative"), package("both"));
    let broken = "
        [ensemble]
        outputs = ['result', 'none']
        [[ensemble.step]]
        model = 'both'
        inputs = { a = 'x', c = 'y' }
        outputs = { sum = 'result', other = 'z' }
        [[ensemble.step]]
        model = 'negative'
        inputs = { in = 'own' }
        outputs = { out = 'own' }";
    let types = "
        [ensemble]
        outputs = ['s']
        [[ensemble.step]]
        model = 'digits'
        inputs = { image = 'image' }
        outputs = { scores = 'scores' }
        [[ensemble.step]]
        model = 'negative'
        inputs = { in = 'scores' }
        outputs = { out = 's' }";
    let unknown =
        "[ensemble]\noutputs = []\n[[ensemble.step]]\nmodel = 'absent'\ninputs = {}\noutputs = {}";
    let served = serve_files(&[
        ("negative.neff", &negative),
        ("both.neff", &both),
        ("digits.neff", digits()),
        ("broken/model.toml", broken.as_bytes()),
        ("types.toml", types.as_bytes()),
        ("unknown.toml", unknown.as_bytes()),
        (
            "with_model.toml",
            b"max_batch = 2\n[ensemble]\noutputs = []\nstep = []",
        ),
    ]);
    let text = reason(&served, "broken");
    for part in [
        "'c'",
        "'b'",
        "'other'",
        "'none'",
        "waits for its own output",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(
        reason(&served, "types").contains("[-1, 10]"),
        "{}",
        reason(&served, "types")
    );
    assert!(reason(&served, "unknown").contains("absent"));
    assert!(!reason(&served, "with_model").is_empty());
}

#[test]
fn pages_for_people_and_machines() {
    let served = serve_files(&[("digits.neff", digits()), ("<b>.neff", b"broken")]);
    assert_eq!(served.infer(1).status, 200);
    let page = served.get("/");
    assert_eq!(page.status, 200);
    assert!(
        page.header("content-type")
            .unwrap()
            .starts_with("text/html")
    );
    assert!(
        page.header("content-security-policy")
            .unwrap()
            .contains("default-src 'none'")
    );
    let text = String::from_utf8(page.body).unwrap();
    assert!(
        text.contains("<td>digits</td>") && text.contains("&lt;b&gt;"),
        "{text}"
    );
    assert!(!text.contains("<b>"), "{text}");
    let document = served.get("/openapi.json").json();
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    // Every page of the document exists.
    for (path, methods) in document["paths"].as_object().unwrap() {
        // Regions are known to no server yet.
        if path.contains("{region}/status") {
            continue;
        }
        let path = path.replace("{model}", "digits").replace("{version}", "1");
        for method in methods.as_object().unwrap().keys() {
            let answer = served.send(&method.to_uppercase(), &path, &[], b"");
            assert!(
                ![404, 405, 500].contains(&answer.status),
                "{method} {path}: {answer:?}"
            );
        }
    }
    let metrics = String::from_utf8(served.get("/metrics").body).unwrap();
    assert!(
        metrics.contains("\nprocess_resident_memory_bytes "),
        "{metrics}"
    );
}
