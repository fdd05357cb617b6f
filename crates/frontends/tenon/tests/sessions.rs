//! Models with state: sessions compared with onnxruntime, whose outputs are fed to its inputs (`sessions.py`).

#![allow(clippy::print_stderr, reason = "a skipped test prints the reason")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tenon::generate::{GenerateOptions, derived_inputs, generate, token_input};
use tenon::tensor::npy;
use tenon::{Compiler, ErrorKind, LoadOptions, Model, Session, StatePair, Tensor};

fn decoder_file() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    root.join("models/small/gpt2-dynamic.onnx")
}

fn load(path: &Path) -> Model {
    let package = Compiler::new().compile_file(path).unwrap();
    package.load(&LoadOptions::new()).unwrap()
}

fn decoder() -> Model {
    load(&decoder_file())
}

/// What onnxruntime computes, or `None` without Python.
fn expected() -> Option<tempfile::TempDir> {
    let Some(python) = std::env::var_os("TENON_PYTHON") else {
        eprintln!("skipped: TENON_PYTHON is not set");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sessions.py");
    let done = Command::new(python)
        .arg(script)
        .arg(decoder_file())
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(done.success());
    Some(folder)
}

fn arrays(file: &Path) -> BTreeMap<String, Tensor> {
    npy::read_npz(file).unwrap().into_iter().collect()
}

fn assert_close(found: &Tensor, expected: &Tensor) {
    assert_eq!(found.ty(), expected.ty());
    let pairs = found.as_slice::<f32>().unwrap().iter();
    for (a, b) in pairs.zip(expected.as_slice::<f32>().unwrap()) {
        assert!(
            (a - b).abs() <= 1e-4 * (1.0 + b.abs()),
            "{a} instead of {b}"
        );
    }
}

fn ids(ids: &[i64]) -> Tensor {
    Tensor::from_slice([1, ids.len()], ids).unwrap()
}

/// Runs the decoder on tokens after those of the session; returns the logits.
fn step(session: &mut Session, tokens: &[i64]) -> tenon::Result<Tensor> {
    let past = session.steps().unwrap() as i64;
    let positions: Vec<i64> = (past..past + tokens.len() as i64).collect();
    let inputs = [
        ("input_ids", &ids(tokens)),
        ("position_ids", &ids(&positions)),
    ];
    Ok(session.run(&inputs)?[0].clone())
}

#[test]
fn a_decoder_generates_the_tokens_of_onnxruntime() {
    let Some(folder) = expected() else { return };
    let expected = arrays(&folder.path().join("decoder.npz"));
    let mut session = decoder().session().unwrap();
    assert_eq!(token_input(&session).unwrap(), "input_ids");
    assert_eq!(derived_inputs(&session), ["position_ids"]);
    let mut seen = Vec::new();
    let made = generate(
        &mut session,
        &[("input_ids", &expected["prompt"])],
        12,
        &GenerateOptions::new(),
        |tokens| seen.extend_from_slice(tokens),
    )
    .unwrap();
    assert_eq!(
        made.tokens[0],
        expected["tokens"].as_slice::<i64>().unwrap()
    );
    assert_eq!((&seen, made.prompt), (&made.tokens[0], 5));
    assert_eq!(session.steps(), Some(5 + 11));
    assert_close(session.value("past").unwrap().unwrap(), &expected["past"]);
    // The last logits, computed again after going back one step.
    session.truncate(15).unwrap();
    let logits = step(&mut session, &made.tokens[0][10..11]).unwrap();
    assert_close(&logits, &expected["logits"]);
    // The token that ends a sequence is its last one.
    session.reset();
    let end = GenerateOptions::new().end(made.tokens[0][3]);
    let inputs = [("input_ids", &expected["prompt"])];
    let shorter = generate(&mut session, &inputs, 12, &end, |_| {}).unwrap();
    assert!(made.tokens[0].starts_with(&shorter.tokens[0]) && shorter.tokens[0].len() <= 4);
}

#[test]
fn states_of_fixed_size_begin_at_zero() {
    let Some(folder) = expected() else { return };
    let expected = arrays(&folder.path().join("recurrent.npz"));
    let mut session = load(&folder.path().join("recurrent.onnx"))
        .session()
        .unwrap();
    let states: Vec<String> = session.states().iter().map(StatePair::to_string).collect();
    assert_eq!(states, ["hn=h0", "cn=c0"]);
    assert_eq!(session.outputs().len(), 1);
    for index in 0..4 {
        let outputs = session
            .run(&[("x", &expected[&format!("x{index}")])])
            .unwrap();
        assert_close(
            outputs.tensor("y").unwrap(),
            &expected[&format!("y{index}")],
        );
    }
    assert_eq!(session.steps(), None);
    let error = session.truncate(0).unwrap_err().to_string();
    assert!(error.contains("state 'h0' does not grow"), "{error}");
}

#[test]
fn forks_continue_by_themselves() {
    let mut session = decoder().session().unwrap();
    step(&mut session, &[1, 2, 3]).unwrap();
    let mut other = session.fork();
    let shared = |session: &Session| session.value("present").unwrap().unwrap().bytes().as_ptr();
    assert_eq!(shared(&session), shared(&other));
    let a = step(&mut session, &[4]).unwrap();
    step(&mut other, &[9, 8]).unwrap();
    assert_eq!([session.steps(), other.steps()], [Some(4), Some(5)]);
    // Going back to the shared steps, the fork computes what the first one has.
    other.truncate(3).unwrap();
    assert_close(&step(&mut other, &[4]).unwrap(), &a);
}

#[test]
fn a_failed_execution_changes_nothing() {
    let mut session = decoder().session().unwrap();
    step(&mut session, &[1, 2, 3]).unwrap();
    let before = session.value("past").unwrap().unwrap().clone();
    // Two inputs contradict each other; a token outside the vocabulary.
    let inputs = [("input_ids", &ids(&[1])), ("position_ids", &ids(&[3, 4]))];
    assert_eq!(
        session.run(&inputs).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert!(step(&mut session, &[100_000]).is_err());
    let error = session.truncate(4).unwrap_err().to_string();
    assert!(error.contains("expected at most 3, found 4"), "{error}");
    assert_eq!(session.value("past").unwrap().unwrap(), &before);
    step(&mut session, &[4]).unwrap();
}

#[test]
fn states_can_be_set_and_are_checked() {
    let model = decoder();
    let mut session = model.session().unwrap();
    step(&mut session, &[1, 2, 3]).unwrap();
    let value = session.value("past").unwrap().unwrap().clone();
    let logits = step(&mut session, &[7]).unwrap();
    let mut other = model.session().unwrap();
    other.set_value("present", value).unwrap();
    assert_eq!(step(&mut other, &[7]).unwrap(), logits);
    assert!(other.set_value("past", ids(&[1])).is_err());
    assert!(other.value("logits").is_err());
    let pair = ["logits=past".parse().unwrap()];
    let error = model.session_with(&pair).unwrap_err().to_string();
    assert!(
        error.contains("output 'logits' cannot be the next value of input 'past'"),
        "{error}"
    );
}
