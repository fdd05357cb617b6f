//! Models are found, replaced and dropped while requests are served.

mod common;

use common::{
    Served, answered_scores, digits, is_close, model, scores, serve_files, serve_folder, wait_until,
};
use serde_json::Value;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tenon_serve::{Access, ServerOptions};

/// Writes beside a file, then renames.
fn replace(served: &Served, path: &str, bytes: &[u8]) {
    let aside = served.folder.path().join(".aside");
    fs::write(&aside, bytes).unwrap();
    fs::rename(aside, served.folder.path().join(path)).unwrap();
}

fn row(served: &Served, name: &str, version: &str) -> Value {
    let index = served.post("/v2/repository/index", b"").json();
    let rows = index.as_array().unwrap().iter();
    let mut rows = rows.filter(|row| row["name"] == name && row["version"] == version);
    rows.next().cloned().unwrap_or_default()
}

#[test]
fn versions_are_served_side_by_side() {
    let served = serve_files(&[
        ("many/1/model.neff", digits()),
        ("many/12/model.neff", digits()),
        ("many/3/model.neff", b"broken"),
        ("plain.neff", digits()),
        ("notes.txt", b"text"),
    ]);
    let versions = |path: &str| served.get(path).json()["versions"].clone();
    assert_eq!(versions("/v2/models/many"), serde_json::json!(["1", "12"]));
    let infer = |path: &str| served.post(path, &common::json_request(1));
    assert_eq!(infer("/v2/models/many/infer").json()["model_version"], "12");
    let first = infer("/v2/models/many/versions/1/infer");
    assert_eq!(first.json()["model_version"], "1");
    assert!(is_close(&answered_scores(&first), &scores(&model(), 1)));
    let broken = infer("/v2/models/many/versions/3/infer");
    assert_eq!(broken.status, 503);
    let reason = row(&served, "many", "3")["reason"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        broken.error().contains(&reason) && !reason.is_empty(),
        "{reason}"
    );
    assert!(
        !reason.contains(served.folder.path().to_str().unwrap()),
        "{reason}"
    );
    assert_eq!(infer("/v2/models/plain/infer").status, 200);
}

#[test]
fn an_onnx_model_is_compiled() {
    let bytes = fs::read(common::repository("models/digits/transformer.onnx")).unwrap();
    let served = serve_files(&[("digits.onnx", &bytes)]);
    let answer = served.infer(2);
    assert!(is_close(&answered_scores(&answer), &scores(&model(), 2)));
}

#[test]
fn a_broken_replacement_leaves_the_old_one() {
    let served = serve_files(&[("digits.neff", digits())]);
    // In place, as by cp: the package is not mapped.
    fs::write(
        served.folder.path().join("digits.neff"),
        &digits()[..digits().len() / 2],
    )
    .unwrap();
    wait_until("the broken file is seen", || {
        row(&served, "digits", "1")["reason"] != ""
    });
    let found = row(&served, "digits", "1");
    assert_eq!(found["state"], "READY");
    assert!(
        found["reason"]
            .as_str()
            .unwrap()
            .contains("the one before is served")
    );
    assert!(is_close(
        &answered_scores(&served.infer(3)),
        &scores(&model(), 3)
    ));
    replace(&served, "digits.neff", digits());
    wait_until("the good file is loaded", || {
        row(&served, "digits", "1")["reason"] == ""
    });
    // The counts continue.
    let statistics = served.get("/v2/models/digits/stats").json();
    assert_eq!(statistics["model_stats"][0]["inference_count"], 1);
}

#[test]
fn models_appear_and_disappear() {
    let served = serve_files(&[]);
    assert_eq!(served.get("/v2/health/ready").status, 200);
    assert_eq!(served.infer(0).status, 404);
    replace(&served, "digits.neff", digits());
    wait_until("the model is loaded", || served.infer(0).status == 200);
    fs::remove_file(served.folder.path().join("digits.neff")).unwrap();
    wait_until("the model is dropped", || served.infer(0).status == 404);
}

#[test]
fn replacing_under_load_loses_no_request() {
    let served = serve_files(&[("digits.neff", digits())]);
    let expected = scores(&model(), 7);
    let is_ended = AtomicBool::new(false);
    let answered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_ended.load(Ordering::Relaxed) {
                    assert!(is_close(&answered_scores(&served.infer(7)), &expected));
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..5 {
            let before = answered.load(Ordering::Relaxed);
            replace(&served, "digits.neff", digits());
            wait_until("requests are answered", || {
                answered.load(Ordering::Relaxed) > before + 10
            });
        }
        is_ended.store(true, Ordering::Relaxed);
    });
}

#[test]
fn models_that_the_protocol_lacks_are_refused() {
    let served = serve_files(&[("empty.neff", b""), ("text.onnx", b"no model")]);
    for name in ["empty", "text"] {
        let found = row(&served, name, "1");
        assert_eq!(found["state"], "UNAVAILABLE", "{name}");
        assert_ne!(found["reason"], "", "{name}");
    }
}

#[test]
fn programs_of_this_machine_may_load_and_unload() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("digits.neff"), digits()).unwrap();
    fs::write(folder.path().join("broken.neff"), b"none").unwrap();
    let allow = |options: &mut ServerOptions| {
        options.access = Access::default().model_control(true);
    };
    let served = serve_folder(folder, allow, |_| {});
    let send = |action: &str, config: &str| {
        let body = serde_json::json!({"parameters": {"config": config}}).to_string();
        served.post(&format!("/v2/repository/models/{action}"), body.as_bytes())
    };
    let rows = || served.get("/v2/models/digits/config").json()["max_batch_size"].clone();
    assert_eq!(
        send("digits/load", "{\"max_batch_size\": \"16\"}").status,
        200
    );
    assert_eq!(rows(), 16);
    // It is in effect until the next time.
    assert_eq!(send("digits/load", "{}").status, 200);
    assert_eq!(rows(), 32);
    for (model, config, status) in [
        ("digits", "{{", 400),
        ("digits", "{\"max_batch_size\": \"many\"}", 400),
        ("broken", "{}", 400),
        ("absent", "{}", 404),
    ] {
        let answer = send(&format!("{model}/load"), config);
        assert_eq!(answer.status, status, "{}", answer.error());
        let text = format!("failed to load '{model}': ");
        assert!(answer.error().starts_with(&text), "{}", answer.error());
    }
    assert_eq!(rows(), 32);
    assert_eq!(send("digits/unload", "{}").status, 200);
    assert_eq!(served.get("/v2/models/digits/ready").status, 503);
    assert_eq!(send("digits/load", "{}").status, 200);
    assert_eq!(served.get("/v2/models/digits/ready").status, 200);
}
