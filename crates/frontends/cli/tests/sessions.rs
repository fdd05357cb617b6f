//! `tenon run` of models with state.

mod common;

use common::{done, folder, repository, tenon};
use serde_json::Value;
use tenon::tensor::npy;

const GPT2: &str = "models/small/gpt2-dynamic.onnx";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_decoder_generates_tokens_from_a_package() {
    let folder = folder();
    let folder = folder.path();
    common::package(folder, GPT2);
    let run = ["run", "model.neff", "--prompt", "5,117,42", "--steps", "6"];
    let text = done(folder, &[&run[..], &["-o", "out"]].concat());
    for part in [
        "tokens: ",
        "states: present=past",
        "prefill: 3 tokens in",
        "decode: 5 tokens in",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let made = json(&done(folder, &[&run[..], &["--json"]].concat()));
    let tokens = npy::read_npy(folder.join("out/tokens.npy")).unwrap();
    assert_eq!(
        made["tokens"][0],
        serde_json::json!(tokens.as_slice::<i64>().unwrap())
    );
    assert_eq!(made["steps_in_states"], 3 + 5);
    // The prompt as a file; a token that ends it.
    let prompt = tenon::Tensor::from_slice([1, 3], &[5i64, 117, 42]).unwrap();
    npy::write_npy(folder.join("ids.npy"), &prompt).unwrap();
    let end = made["tokens"][0][0].to_string();
    let run = [
        "run",
        "model.neff",
        "-i",
        "ids.npy",
        "--steps",
        "6",
        "--end-token",
        &end,
        "--json",
    ];
    assert_eq!(
        json(&done(folder, &run))["tokens"][0]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_package_declares_its_states() {
    let folder = folder();
    let folder = folder.path();
    let model = repository(GPT2);
    let compile = ["compile", &model, "-o", "states.neff", "--json"];
    let made = json(&done(folder, &[&compile[..], &["--auto-state"]].concat()));
    assert_eq!(made["states"], serde_json::json!(["present=past"]));
    let made = json(&done(
        folder,
        &[&compile[..], &["--state", "present=past"]].concat(),
    ));
    assert_eq!(made["states"], serde_json::json!(["present=past"]));
    let run = [
        "run",
        "states.neff",
        "--prompt",
        "5,117",
        "--steps",
        "2",
        "--json",
    ];
    let run = json(&done(folder, &run));
    assert_eq!(run["states"], serde_json::json!(["present=past"]));
    // States are those of the package, except in a session.
    let bench = tenon(
        folder,
        &["bench", "states.neff", "--random", "0", "--auto-state"],
    );
    assert_eq!(bench.status, Some(2));
    assert!(bench.err.contains("--state"), "{}", bench.err);
    let compile = ["compile", &model, "-o", "x.neff", "--state", "logits=past"];
    let wrong = tenon(folder, &compile);
    let text = "output 'logits' cannot be the next value of input 'past'";
    assert!(wrong.err.contains(text), "{}", wrong.err);
    assert!(!folder.join("x.neff").exists());
}

#[test]
fn a_model_with_state_runs_several_times() {
    let folder = folder();
    let folder = folder.path();
    let model = repository(GPT2);
    let run = [
        "run",
        &model,
        "--state",
        "present=past",
        "--dim",
        "new=2",
        "--random",
        "0",
    ];
    let text = done(folder, &run);
    assert!(
        text.contains("logits: f32[1, 2, 200]") && text.contains("states: present=past"),
        "{text}"
    );
}

#[test]
fn mistakes_of_states_are_reported() {
    let folder = folder();
    let folder = folder.path();
    let gpt2 = repository(GPT2);
    let bert = repository("models/small/bert.onnx");
    for (arguments, part) in [
        (
            &[&bert, "--auto-state", "--random", "0"][..],
            "name the states with --state OUTPUT=INPUT",
        ),
        (
            &[&gpt2, "--state", "present=pest"],
            "the model has no input 'pest': expected 'input_ids', 'position_ids', 'past'",
        ),
        (&[&gpt2, "--state", "present"], "OUTPUT=INPUT"),
        (&[&gpt2, "--steps", "2"], "the size of 'new' is not known"),
        (&[&gpt2, "--steps", "2", "--profile"], "cannot be used with"),
        (
            &[&gpt2, "--prompt", "1,2", "--steps", "40"],
            "an index is out of the bounds of its dimension",
        ),
    ] {
        let answer = tenon(folder, &[&["run"], arguments].concat());
        assert_ne!(answer.status, Some(0), "{arguments:?}");
        assert!(answer.err.contains(part), "{arguments:?}: {}", answer.err);
    }
}
