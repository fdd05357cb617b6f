//! `tenon run` of a model with state: --state, --auto-state, --steps.

use super::input_files::{InputFiles, once};
use super::load::{self, Loaded, ModelSource};
use super::run::{
    RunResults, compare, outputs_as_json, print_outputs, print_summary, write_outputs,
};
use crate::flags::Run;
use crate::model_flags::{CompileFlags, DimensionSize};
use crate::output::{self, say};
use crate::progress;
use crate::table::duration;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};
use tenon::generate::{self, GenerateOptions, Generated};
use tenon::inputs::ImageOptions;
use tenon::{
    Dimension, Error, ErrorKind, LoadOptions, Location, ModelFile, OnnxModel, Outputs, Result,
    RunOptions, Session, Signature, StatePair, Tensor, TensorType,
};

pub fn run(flags: &Run) -> Result<()> {
    let control = progress::control();
    let options = LoadOptions::new()
        .threads(flags.threading.threads)
        .check_digests(flags.check_digests)
        .control(control.clone());
    let mut model = flags.model.clone();
    // Without --state the states are found.
    model.compiling.auto_state = model.compiling.states.is_empty();
    let file = load::open(&flags.file, &flags.model, &control)?;
    if let (ModelFile::Onnx(onnx), false) = (&file, flags.session.prompt.is_empty()) {
        fix_batch(onnx, &mut model.compiling);
    }
    let source = ModelSource {
        file: &flags.file,
        inputs: &flags.inputs,
        flags: &model,
        any_size: true,
    };
    let (loaded, mut given) = load::load_opened(file, &source, options)?;
    let here = |error: Error| error.at(Location::file(&flags.file));
    let mut session = open(&loaded, flags).map_err(here)?;
    let steps = flags.session.steps;
    let decoder = steps.is_some() && session.inputs().iter().any(|it| it.ty.dtype().is_integer());
    let mut derived = Vec::new();
    let mut tensors = BTreeMap::new();
    if let Some(folder) = &flags.output {
        output::reserve(folder, flags.json)?;
    }
    if decoder {
        if flags.compare.is_some() {
            let text = "--compare has no meaning for generated tokens";
            return Err(Error::new(ErrorKind::Usage, text));
        }
        derived = generate::derived_inputs(&session);
        let tokens = generate::token_input(&session).map_err(here)?;
        if !flags.session.prompt.is_empty() {
            let input = session.inputs().iter().find(|input| input.name == tokens);
            let rank = input.map_or(2, |input| input.shape.len());
            let prompt = prompt(&flags.session.prompt, rank, input)?;
            tensors.insert(tokens.clone(), prompt);
        }
    }
    let image =
        load::image_options(loaded.model.metadata(), &flags.inputs.pictures).map_err(here)?;
    let required: Vec<&Signature> = session
        .inputs()
        .iter()
        .filter(|input| !tensors.contains_key(&input.name))
        .collect();
    tensors.extend(read_inputs(&mut given, &required, &derived, flags, &image)?);
    let inputs: Vec<(&str, &Tensor)> = tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect();
    if decoder {
        let mut options = GenerateOptions::new().control(control);
        options.end = flags.session.end_token;
        // Progress for a person; the result has all tokens.
        let shown = !flags.json && !flags.quiet && std::io::stderr().is_terminal();
        let on_step = |tokens: &[i64]| {
            if shown && let [token] = tokens {
                let _ = write!(std::io::stderr(), "{token} ");
            }
        };
        let count = steps.unwrap_or(1);
        let made = generate::generate(&mut session, &inputs, count, &options, on_step);
        if shown {
            let _ = writeln!(std::io::stderr());
        }
        return print_generated(&loaded, &session, &made.map_err(here)?, flags);
    }
    let mut times = Vec::new();
    let mut outputs = None;
    for _ in 0..steps.unwrap_or(1) {
        let start = Instant::now();
        let options = RunOptions::new().control(control.clone());
        outputs = Some(session.run_with(&inputs, options).map_err(here)?);
        times.push(start.elapsed());
    }
    match outputs {
        Some(outputs) => print_executed(&loaded, &session, &outputs, &times, flags),
        None => Ok(()),
    }
}

/// Compiles for one sequence, as the prompt is one, so that the cache grows in place.
fn fix_batch(model: &OnnxModel, compiling: &mut CompileFlags) {
    let Some(batch) = generate::batch_symbol(model) else {
        return;
    };
    if compiling.dims.iter().all(|(name, _)| *name != batch) {
        compiling.dims.push((batch, DimensionSize::Fixed(1)));
    }
}

/// The session with the states of the flags.
fn open(loaded: &Loaded, flags: &Run) -> Result<Session> {
    let model = &loaded.model;
    if !flags.model.compiling.states.is_empty() {
        return model.session_with(&flags.model.compiling.states);
    }
    let session = model.session()?;
    if session.states().is_empty() {
        let names = |ports: &[Signature]| {
            let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
            names.join(", ")
        };
        let text = "no output and input of the model have names, types and shapes of a state";
        let found = format!(
            "inputs {}; outputs {}",
            names(model.inputs()),
            names(model.outputs())
        );
        let error = Error::new(ErrorKind::Usage, text).found(found);
        return Err(error.help("name the states with --state OUTPUT=INPUT"));
    }
    Ok(session)
}

/// The token ids of the flag, as the input takes them.
fn prompt(ids: &[i64], rank: usize, input: Option<&Signature>) -> Result<Tensor> {
    let shape = match rank {
        1 => vec![ids.len()],
        _ => vec![1, ids.len()],
    };
    let tokens = Tensor::from_slice(shape, ids)?;
    match input {
        Some(input) => tenon::tensor::convert(&tokens, input.ty.dtype()),
        None => Ok(tokens),
    }
}

/// Tensors for inputs: from files, or random. Those of `derived` may be missing.
fn read_inputs(
    given: &mut InputFiles,
    required: &[&Signature],
    derived: &[String],
    flags: &Run,
    image: &ImageOptions,
) -> Result<BTreeMap<String, Tensor>> {
    let declared: Vec<(String, &Signature)> = required
        .iter()
        .map(|input| (input.name.clone(), *input))
        .collect();
    let needed: Vec<(String, &Signature)> = declared
        .iter()
        .filter(|(name, _)| !derived.contains(name))
        .cloned()
        .collect();
    given.assign_unnamed(&needed)?;
    given.read_arrays(&declared)?;
    let types: BTreeMap<String, TensorType> = given.types().collect();
    let dims = once("--dim", &flags.model.compiling.dims)?;
    let mut errors = Vec::new();
    let mut signature = Vec::new();
    for input in required {
        let is_given = given.has_file(&input.name);
        if derived.contains(&input.name) && !is_given {
            continue;
        }
        match types.get(&input.name) {
            Some(ty) => signature.push((input.name.clone(), ty.clone())),
            None => match sized(input, &dims, &types, required) {
                Ok(ty) => signature.push((input.name.clone(), ty)),
                Err(error) => errors.push(error),
            },
        }
    }
    if let Some(error) = Error::from_all(errors) {
        return Err(error.at(Location::file(&flags.file)));
    }
    given.tensors(&signature, &flags.inputs, image)
}

/// The type of an input for the sizes of flags and of other inputs.
fn sized(
    input: &Signature,
    dims: &BTreeMap<String, DimensionSize>,
    types: &BTreeMap<String, TensorType>,
    all: &[&Signature],
) -> Result<TensorType> {
    let known = |symbol: &str| {
        if let Some(DimensionSize::Fixed(size)) = dims.get(symbol) {
            return Some(*size);
        }
        all.iter().find_map(|other| {
            let ty = types.get(&other.name)?;
            let named = |dimension: &Dimension| dimension.to_string() == symbol;
            let axis = other.shape.iter().position(named)?;
            ty.shape().get(axis).copied()
        })
    };
    let mut shape = Vec::new();
    for dimension in &input.shape {
        shape.push(match dimension {
            Dimension::Fixed(size) => *size,
            Dimension::Symbolic { expression, .. } => known(expression).ok_or_else(|| {
                let text = format!(
                    "input '{}': the size of '{expression}' is not known",
                    input.name
                );
                Error::new(ErrorKind::Usage, text)
                    .help("give it with --dim NAME=N, or an array with --input NAME=FILE.npy")
            })?,
        });
    }
    TensorType::new(input.ty.dtype(), shape)
}

fn state_list(session: &Session) -> String {
    let states: Vec<String> = session.states().iter().map(StatePair::to_string).collect();
    states.join(", ")
}

fn print_generated(
    loaded: &Loaded,
    session: &Session,
    made: &Generated,
    flags: &Run,
) -> Result<()> {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    if let Some(folder) = &flags.output {
        let rows = made.tokens.len();
        let all: Vec<i64> = made.tokens.iter().flatten().copied().collect();
        let tokens = Tensor::from_slice([rows, all.len().checked_div(rows).unwrap_or(0)], &all)?;
        let ty = tokens.ty().clone();
        write_outputs(folder, &[Signature::fixed("tokens".into(), ty)], &[tokens])?;
    }
    if flags.json {
        let states: Vec<String> = session.states().iter().map(StatePair::to_string).collect();
        let text = json!({
            "tokens": made.tokens,
            "states": states,
            "steps_in_states": session.steps(),
            "prompt": made.prompt,
            "prefill_ms": ms(made.prefill),
            "decode_ms": ms(made.decode),
            "prefill_tokens_per_second": made.prefill_rate(),
            "decode_tokens_per_second": (made.decode > Duration::ZERO).then(|| made.decode_rate()),
            "compile_ms": loaded.compile_time.map(ms),
            "load_ms": ms(loaded.load_time),
        });
        return output::json(text.to_string());
    }
    if flags.quiet {
        return Ok(());
    }
    for tokens in &made.tokens {
        let tokens: Vec<String> = tokens.iter().map(i64::to_string).collect();
        say!("tokens: {}", tokens.join(" "))?;
    }
    say!("states: {}", state_list(session))?;
    say!(
        "prefill: {} tokens in {}, {:.1} tokens/s",
        made.prompt,
        duration(made.prefill),
        made.prefill_rate()
    )?;
    if made.decode > Duration::ZERO {
        let steps = made.tokens.first().map_or(0, Vec::len).saturating_sub(1);
        say!(
            "decode: {steps} tokens in {}, {:.1} tokens/s",
            duration(made.decode),
            made.decode_rate()
        )?;
    }
    print_summary(loaded, made.prefill + made.decode)
}

fn print_executed(
    loaded: &Loaded,
    session: &Session,
    outputs: &Outputs,
    times: &[Duration],
    flags: &Run,
) -> Result<()> {
    let total: Duration = times.iter().sum();
    let metadata = loaded.model.metadata();
    let files = match &flags.output {
        Some(folder) => write_outputs(folder, session.outputs(), outputs)?,
        None => Vec::new(),
    };
    if flags.json {
        let ms = |time: &Duration| time.as_secs_f64() * 1e3;
        let states: Vec<String> = session.states().iter().map(StatePair::to_string).collect();
        let results = RunResults {
            outputs,
            files: &files,
            tapped: &[],
            parts: &[],
            top: flags.top,
        };
        let text = json!({
            "outputs": outputs_as_json(metadata, session.outputs(), &results)?,
            "states": states,
            "steps": times.len(),
            "run_ms": ms(&total),
            "step_ms": times.iter().map(ms).collect::<Vec<_>>(),
            "compile_ms": loaded.compile_time.as_ref().map(ms),
            "load_ms": ms(&loaded.load_time),
        });
        output::json(text.to_string())?;
    } else if !flags.quiet {
        print_outputs(metadata, session.outputs(), outputs, flags.top)?;
        say!("states: {}", state_list(session))?;
        print_times(loaded, times)?;
    }
    match &flags.compare {
        Some(file) => compare(
            session.outputs(),
            outputs,
            file,
            flags.tolerance,
            flags.quiet,
        ),
        None => Ok(()),
    }
}

fn print_times(loaded: &Loaded, times: &[Duration]) -> Result<()> {
    if let [_, later @ ..] = times
        && !later.is_empty()
    {
        let mean = later.iter().sum::<Duration>() / later.len() as u32;
        say!(
            "{} executions, {} each after the first",
            times.len(),
            duration(mean)
        )?;
    }
    print_summary(loaded, times.iter().sum())
}
