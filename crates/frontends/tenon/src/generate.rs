//! Greedy generation of tokens with a decoder whose key-value cache is the state of a [`Session`].
//!
//! The inputs are recognised by their names, as exporters of transformers write them: token ids (`input_ids`, or the
//! only input of integers that has no other role), positions (`position_ids`, `cache_position`), masks
//! (`attention_mask`: ones for all tokens so far) and `use_cache_branch`. Other inputs keep their first value. The
//! next token is the largest of the logits (`logits`, or the first output of floats) at the last position.

mod ports;

use crate::{OnnxModel, RunOptions, Session};
use ports::DecoderPorts;
use std::time::{Duration, Instant};
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_onnx::Dimension as ModelDimension;
use tenon_tensor::{DataType, Tensor, convert};

/// How tokens are generated. By default there is neither a last token nor a deadline.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct GenerateOptions {
    /// A token that ends the sequence, as its last one.
    pub end: Option<i64>,
    /// Cancellation and deadline, checked in each step.
    pub control: Control,
}

impl GenerateOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the token that ends the sequence.
    #[must_use]
    pub fn end(mut self, token: i64) -> Self {
        self.end = Some(token);
        self
    }

    /// Sets cancellation and deadline.
    #[must_use]
    pub fn control(mut self, control: Control) -> Self {
        self.control = control;
        self
    }
}

/// Generated tokens, and the times.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Generated {
    /// The tokens of each sequence of the batch.
    pub tokens: Vec<Vec<i64>>,
    /// Tokens of the prompt, of one sequence.
    pub prompt: usize,
    /// The time of the first execution, of the whole prompt.
    pub prefill: Duration,
    /// The time of all other executions.
    pub decode: Duration,
}

impl Generated {
    /// Tokens of the prompt, of one sequence, a second.
    pub fn prefill_rate(&self) -> f64 {
        self.prompt as f64 / self.prefill.as_secs_f64()
    }

    /// Tokens of one sequence a second, after the first.
    pub fn decode_rate(&self) -> f64 {
        let steps = self.tokens.first().map_or(0, Vec::len).saturating_sub(1);
        steps as f64 / self.decode.as_secs_f64()
    }
}

/// The inputs that [`generate`] fills if they are not given.
pub fn derived_inputs(session: &Session) -> Vec<String> {
    DecoderPorts::of(session).map_or(Vec::new(), |ports| ports.derived())
}

/// The input of token ids.
///
/// # Errors
/// No input or several inputs that can be it.
pub fn token_input(session: &Session) -> Result<String> {
    DecoderPorts::of(session).map(|ports| ports.tokens)
}

/// The symbol for the number of sequences, if the input of token ids has one: `batch` of `i64[batch, new]`. A model
/// compiled for one sequence (`batch` = 1) keeps a cache that grows in place.
pub fn batch_symbol(model: &OnnxModel) -> Option<String> {
    let inputs = &model.signature().inputs;
    let roles = inputs.iter().map(|input| {
        let rank = input.shape.as_ref().map(Vec::len);
        (&*input.name, input.dtype, rank)
    });
    let tokens = ports::token_position(roles)?;
    match inputs[tokens].shape.as_deref() {
        Some([ModelDimension::Named(symbol), _]) => Some(symbol.clone()),
        _ => None,
    }
}

/// Generates up to `count` tokens for each sequence, beginning with the token ids among `inputs`; `on_step` receives
/// the tokens of each step. No execution has read the last token yet.
///
/// # Errors
/// A model without an input of token ids or output of logits; those of [`Session::run`].
pub fn generate(
    session: &mut Session,
    inputs: &[(&str, &Tensor)],
    count: usize,
    options: &GenerateOptions,
    mut on_step: impl FnMut(&[i64]),
) -> Result<Generated> {
    let ports = DecoderPorts::of(session)?;
    let prompt = inputs.iter().find(|(name, _)| *name == ports.tokens);
    let Some(&(_, prompt)) = prompt else {
        let text = format!("input '{}', the token ids, is missing", ports.tokens);
        return Err(Error::new(ErrorKind::InvalidArgument, text));
    };
    let shape = prompt.shape().to_vec();
    let (rows, length) = match shape[..] {
        [length] => (1, length),
        [rows, length] => (rows, length),
        _ => {
            let text = format!("input '{}', the token ids, has another rank", ports.tokens);
            return Err(Error::new(ErrorKind::InvalidArgument, text)
                .expected("[batch, length] or [length]")
                .found(prompt.ty()));
        }
    };
    let mut generated = Generated {
        tokens: vec![Vec::new(); rows],
        prompt: length,
        prefill: Duration::ZERO,
        decode: Duration::ZERO,
    };
    let before = session.steps().unwrap_or(0);
    let mut tokens = prompt.clone();
    let mut past = before;
    for step in 0..count {
        options.control.check()?;
        let new = tokens.shape().last().copied().unwrap_or(0);
        let derived = ports.fill(session, inputs, step == 0, [rows, past, new])?;
        let mut all: Vec<(&str, &Tensor)> = vec![(&ports.tokens, &tokens)];
        all.extend(derived.iter().map(|(name, tensor)| (name.as_str(), tensor)));
        for (name, tensor) in inputs {
            if !all.iter().any(|(known, _)| known == name) {
                all.push((name, tensor));
            }
        }
        let start = Instant::now();
        let run = RunOptions::new().control(options.control.clone());
        let outputs = session.run_with(&all, run)?;
        let next = largest_at_end(outputs.tensor(&ports.logits)?, rows)?;
        let time = start.elapsed();
        match step {
            0 => generated.prefill = time,
            _ => generated.decode += time,
        }
        for (row, &token) in generated.tokens.iter_mut().zip(&next) {
            row.push(token);
        }
        on_step(&next);
        if options
            .end
            .is_some_and(|end| next.iter().all(|&token| token == end))
        {
            break;
        }
        past += new;
        let shape = match shape.len() {
            1 => vec![1],
            _ => vec![rows, 1],
        };
        let next = Tensor::from_slice(shape, &next)?;
        tokens = convert(&next, prompt.dtype())?;
    }
    Ok(generated)
}

/// The position of the largest element of each row of logits `[rows, positions, vocabulary]` at the last position;
/// without positions, `[rows, vocabulary]`.
fn largest_at_end(logits: &Tensor, rows: usize) -> Result<Vec<i64>> {
    let vocabulary = logits.shape().last().copied().unwrap_or(0);
    let elements = logits.ty().elements();
    let positions = elements.checked_div(rows * vocabulary).unwrap_or(0);
    if positions == 0 || positions * rows * vocabulary != elements {
        let text = "the logits do not have an element for each token of the vocabulary";
        return Err(Error::new(ErrorKind::InvalidArgument, text)
            .expected(format_args!("[{rows}, positions, vocabulary]"))
            .found(logits.ty()));
    }
    let wide;
    let values = match logits.as_slice::<f32>() {
        Some(values) => values,
        None => {
            wide = convert(logits, DataType::F32)?;
            wide.as_slice::<f32>().unwrap_or_default()
        }
    };
    let largest = |row: usize| {
        let last = &values[((row + 1) * positions - 1) * vocabulary..][..vocabulary];
        let best = last
            .iter()
            .enumerate()
            .max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
        best.map_or(0, |(token, _)| token as i64)
    };
    Ok((0..rows).map(largest).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModelFile, OpenOptions};

    #[test]
    fn the_batch_of_a_decoder_is_a_symbol_of_its_tokens() {
        let batch = |name: &str| {
            let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/small");
            let file = OpenOptions::new().open(format!("{models}/{name}.onnx"));
            let Ok(ModelFile::Onnx(model)) = file else {
                panic!("{name} is no model");
            };
            batch_symbol(&model)
        };
        assert_eq!(batch("speech-decoder").as_deref(), Some("batch"));
        // A fixed batch, and no tokens.
        assert_eq!(batch("gpt2-dynamic"), None);
        assert_eq!(batch("vad"), None);
    }

    #[test]
    fn the_largest_logit_of_the_last_position_is_the_next_token() {
        let logits = [
            1.0f32, 9.0, 2.0, 7.0, 3.0, 7.0, 0.0, 0.0, 9.0, -1.0, -3.0, -2.0,
        ];
        let logits = Tensor::from_slice([2, 2, 3], &logits).unwrap();
        assert_eq!(largest_at_end(&logits, 2).unwrap(), [0, 0]);
        let error = largest_at_end(&logits, 5).unwrap_err().to_string();
        assert!(
            error.contains("expected [5, positions, vocabulary], found f32[2, 2, 3]"),
            "{error}"
        );
    }
}
