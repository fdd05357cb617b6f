//! Embeds texts with a BERT encoder and compares them:
//! `cargo run -p tenon --example embed_text [MODEL.onnx]`.
//!
//! The default is the small BERT of the repository, whose weights are random and which has no
//! tokenizer: words are hashed to token ids. With a trained model, replace [`tokens`] by its
//! tokenizer.

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::path::{Path, PathBuf};
use tenon::{Compiler, LoadOptions, Model, Result, Tensor};

/// The size of the small model's vocabulary.
const VOCABULARY: u32 = 200;

/// One token id for each word: the FNV-1a hash of its bytes.
fn tokens(text: &str) -> Vec<i64> {
    let hash = |word: &str| {
        word.bytes().fold(0x811c_9dc5u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        })
    };
    let words = text.split_whitespace();
    words
        .map(|word| i64::from(hash(word) % VOCABULARY))
        .collect()
}

/// The mean of the last hidden states of a text's tokens, of length 1.
fn embed(model: &Model, text: &str) -> Result<Vec<f32>> {
    let length = model.inputs()[0].ty.shape()[1];
    let mut ids = tokens(text);
    ids.truncate(length);
    let count = ids.len();
    ids.resize(length, 0);
    let mask: Vec<i64> = (0..length).map(|at| i64::from(at < count)).collect();
    let ids = Tensor::from_slice([1, length], &ids)?;
    let mask = Tensor::from_slice([1, length], &mask)?;
    let outputs = model.run(&[("input_ids", &ids), ("attention_mask", &mask)])?;
    let hidden = outputs.tensor("hidden")?;
    let width = hidden.shape()[2];
    let states = hidden.as_slice::<f32>().unwrap_or_default();
    let mut mean = vec![0.0; width];
    for state in states.chunks_exact(width).take(count) {
        for (sum, value) in mean.iter_mut().zip(state) {
            *sum += value;
        }
    }
    let norm = mean.iter().map(|value| value * value).sum::<f32>().sqrt();
    mean.iter_mut().for_each(|value| *value /= norm);
    Ok(mean)
}

/// The cosine similarity of each text with the first one.
pub fn similarities(onnx: &Path, texts: &[&str]) -> Result<Vec<f32>> {
    let model = Compiler::new()
        .compile_file(onnx)?
        .load(&LoadOptions::new())?;
    let vectors: Vec<Vec<f32>> = texts
        .iter()
        .map(|text| embed(&model, text))
        .collect::<Result<_>>()?;
    let dot = |vector: &Vec<f32>| vector.iter().zip(&vectors[0]).map(|(a, b)| a * b).sum();
    Ok(vectors.iter().map(dot).collect())
}

fn main() -> Result<()> {
    let small = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/small/bert.onnx");
    let onnx = std::env::args_os().nth(1).map_or(small, PathBuf::from);
    let texts = [
        "the quick brown fox jumps",
        "the quick brown dog jumps",
        "memory plans share one arena",
    ];
    for (text, similarity) in texts.iter().zip(similarities(&onnx, &texts)?) {
        println!("{similarity:.3}  {text}");
    }
    Ok(())
}
