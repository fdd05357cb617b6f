//! Models with state: sessions compared with onnxruntime, whose outputs are fed to its inputs (`sessions.py`).

mod common;

use common::assert_close;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tenon::generate::{GenerateOptions, derived_inputs, generate, token_input};
use tenon::tensor::npy;
use tenon::{Compiler, ErrorKind, LoadOptions, Model, Session, StatePair, StateSelection, Tensor};
use tenon_test_data::{Answer, python, repository};

fn decoder_file() -> PathBuf {
    repository("models/small/gpt2-dynamic.onnx")
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
    let mut python = python("crates/frontends/tenon/tests/sessions.py")?;
    let folder = tempfile::tempdir().unwrap();
    Answer::text(python.arg(decoder_file()).arg(folder.path()));
    Some(folder)
}

fn arrays(file: &Path) -> BTreeMap<String, Tensor> {
    npy::read_npz(file).unwrap().into_iter().collect()
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
    assert_close(&session.value("past").unwrap().unwrap(), &expected["past"]);
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
    let before = session.value("past").unwrap().unwrap();
    // Two inputs contradict each other; a token outside the vocabulary.
    let inputs = [("input_ids", &ids(&[1])), ("position_ids", &ids(&[3, 4]))];
    assert_eq!(
        session.run(&inputs).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert!(step(&mut session, &[100_000]).is_err());
    let error = session.truncate(4).unwrap_err().to_string();
    assert!(error.contains("expected at most 3, found 4"), "{error}");
    assert_eq!(session.value("past").unwrap().unwrap(), before);
    step(&mut session, &[4]).unwrap();
}

#[test]
fn states_can_be_set_and_are_checked() {
    let model = decoder();
    let mut session = model.session().unwrap();
    step(&mut session, &[1, 2, 3]).unwrap();
    let value = session.value("past").unwrap().unwrap();
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

/// A decoder with a cache for each layer, its states declared.
fn with_cache(folder: &Path) -> Model {
    let compiler = Compiler::new().states(StateSelection::Automatic);
    let package = compiler.compile_file(folder.join("cache.onnx")).unwrap();
    assert_eq!(package.states().len(), 4);
    package.load(&LoadOptions::new()).unwrap()
}

/// [1, positions, heads, width] of [1, heads, positions, width].
fn positions_first(tensor: &Tensor) -> Tensor {
    let shape = tensor.shape().to_vec();
    let [heads, positions, width] = [shape[1], shape[2], shape[3]];
    let elements = tensor.as_slice::<f32>().unwrap();
    let mut moved = Vec::new();
    for position in 0..positions {
        for head in 0..heads {
            let at = (head * positions + position) * width;
            moved.extend_from_slice(&elements[at..at + width]);
        }
    }
    Tensor::from_slice([1, positions, heads, width], &moved).unwrap()
}

/// The address of a state's memory.
fn address(session: &Session, name: &str) -> usize {
    let value = session.value(name).unwrap().unwrap();
    value.bytes().as_ptr() as usize
}

#[test]
fn a_cache_grows_in_place() {
    let Some(folder) = expected() else { return };
    let expected = arrays(&folder.path().join("cache.npz"));
    let model = with_cache(folder.path());
    let mut session = model.session().unwrap();
    assert_eq!(session.states().len(), 4);
    let mut addresses = Vec::new();
    for index in 0..6 {
        let tokens = &expected[&format!("tokens{index}")];
        let outputs = session.run(&[("input_ids", tokens)]).unwrap();
        assert_eq!(outputs.len(), 1);
        assert_close(&outputs[0], &expected[&format!("logits{index}")]);
        let key = session.value("present.1.key").unwrap().unwrap();
        assert_close(&key, &positions_first(&expected[&format!("key{index}")]));
        drop(key);
        addresses.push(address(&session, "present.0.value"));
    }
    assert_eq!(session.steps(), Some(11));
    assert!(addresses.iter().all(|address| *address == addresses[0]));
    // Nothing but the Concat moves the cache: attention reads it where it is.
    let nodes = &model.placement().nodes;
    let moved = nodes.iter().filter(|node| node.backend == "dma");
    let moved: Vec<&str> = moved.map(|node| node.operator.as_str()).collect();
    assert_eq!(moved, ["Concat"; 4]);
    // Without a session the same package takes and returns all of the cache.
    let cache = Tensor::from_slice([1, 0, 3, 8], &[0f32; 0]).unwrap();
    let mut inputs = vec![("input_ids", &expected["tokens0"])];
    let names = model.inputs().iter().skip(1).map(|input| &input.name);
    inputs.extend(names.map(|name| (name.as_str(), &cache)));
    let outputs = model.run(&inputs).unwrap();
    assert_close(&outputs[0], &expected["logits0"]);
    let key = outputs.tensor("present.1.key").unwrap();
    assert_close(key, &positions_first(&expected["key0"]));
}

#[test]
fn a_growing_cache_is_copied_where_it_is_shared() {
    let Some(folder) = expected() else { return };
    let model = with_cache(folder.path());
    let run = |session: &mut Session, tokens: &[i64]| {
        let tokens = ids(tokens);
        Ok::<_, tenon::Error>(session.run(&[("input_ids", &tokens)])?[0].clone())
    };
    let mut session = model.session().unwrap();
    run(&mut session, &[1, 2, 3]).unwrap();
    let mut fork = session.fork();
    let names = ["present.0.key", "present.1.value"];
    assert_eq!(address(&session, names[0]), address(&fork, names[0]));
    let forked = run(&mut fork, &[4]).unwrap();
    let straight = run(&mut session, &[9, 8]).unwrap();
    assert_ne!(address(&session, names[1]), address(&fork, names[1]));
    let mut other = model.session().unwrap();
    run(&mut other, &[1, 2, 3]).unwrap();
    assert_eq!(run(&mut other, &[4]).unwrap(), forked);
    // Going back copies nothing.
    let before = address(&other, names[0]);
    other.truncate(3).unwrap();
    assert_eq!(
        (address(&other, names[0]), other.steps()),
        (before, Some(3))
    );
    assert_eq!(run(&mut other, &[9, 8]).unwrap(), straight);
    assert_eq!(address(&other, names[0]), before);
    // A value that is held is not overwritten, and one that is set is not changed.
    let held = session.value(names[0]).unwrap().unwrap();
    let elements = held.as_slice::<f32>().unwrap().to_vec();
    session.truncate(1).unwrap();
    run(&mut session, &[7, 7, 7]).unwrap();
    assert_eq!(held.as_slice::<f32>().unwrap(), elements);
    let mut set = model.session().unwrap();
    run(&mut set, &[1, 2, 3, 9, 8]).unwrap();
    set.truncate(2).unwrap();
    set.set_value(names[0], held.clone()).unwrap();
    assert!(run(&mut set, &[4]).is_err(), "extents of the states differ");
    assert_eq!(set.value(names[0]).unwrap().unwrap(), held);
    // After an error a session is as before.
    let before = session.value(names[1]).unwrap().unwrap();
    assert!(run(&mut session, &[1, 1_000]).is_err());
    assert_eq!(session.value(names[1]).unwrap().unwrap(), before);
    assert_eq!(session.steps(), Some(4));
    let again = run(&mut session, &[5]).unwrap();
    let mut fresh = model.session().unwrap();
    run(&mut fresh, &[1, 2, 3]).unwrap();
    fresh.truncate(1).unwrap();
    run(&mut fresh, &[7, 7, 7]).unwrap();
    assert_eq!(run(&mut fresh, &[5]).unwrap(), again);
}
