//! The flags of `tenon quantize`.

use crate::model_flags::{CompileFlags, PictureFlags};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use tenon::Pattern;
use tenon::quantize::{Calibration, Scheme};

/// Quantise an f32 model to integers of 8 or 4 bits, or to f16, and report what that costs.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon quantize model.onnx --calibrate images/ -o model-int8.onnx
  tenon quantize bert.onnx --calibrate x.npz --dim batch=1 -o bert.neff
  tenon quantize model.onnx --calibrate x.npz --method percentile -o q.onnx
  tenon quantize gpt2.onnx --int4 -o gpt2-int4.onnx
  tenon quantize model.onnx --f16 -o model-f16.onnx
  tenon quantize model.onnx --calibrate x.npz --exclude 'head/*' -o q.onnx

Calibration data are typical inputs, for instance 100 samples of the training data: an .npz with an array for \
each input, or a folder of such files (for a model of one input: of files as for tenon run --input). An array \
may have several samples along its first dimension.

The result is an ONNX model with QuantizeLinear and DequantizeLinear, for any runtime, or a package if its name \
ends with .neff. An error is the Euclidean norm of the difference, relative to that of the f32 output.")]
pub struct Quantize {
    /// The ONNX model in f32; - is standard input.
    pub model: PathBuf,
    /// Typical inputs: an .npz, or a folder of files.
    #[arg(long, value_name = "DIR|FILE.npz", required_unless_present_any = ["int4", "f16"])]
    pub calibrate: Option<PathBuf>,
    /// Convolutions and matrix products in 8 bits: weights and activations (the default).
    #[arg(long, conflicts_with_all = ["int4", "f16"])]
    pub int8: bool,
    /// Weights of matrix products in 4 bits; activations stay f32. Needs no calibration data but for the report.
    #[arg(long, conflicts_with = "f16")]
    pub int4: bool,
    /// All values of floating point in f16, between inputs and outputs of f32. Needs no calibration data but for the report.
    #[arg(long)]
    pub f16: bool,
    /// Weights with one scale, along the summed axis; a power of two.
    #[arg(long, value_name = "N", default_value_t = 32, requires = "int4")]
    pub block_size: usize,
    /// How the range of an activation follows from its elements.
    #[arg(long, value_enum, default_value_t = Method::Minmax, conflicts_with_all = ["int4", "f16"])]
    pub method: Method,
    /// Share of the elements in the range, in percent, for --method percentile.
    #[arg(
        long,
        value_name = "P",
        default_value_t = 99.99,
        conflicts_with = "int4"
    )]
    pub percentile: f64,
    /// Use only the first samples.
    #[arg(long, value_name = "N")]
    pub samples: Option<usize>,
    /// Keep the nodes of these names in f32; * matches any characters, ? one. Repeat for several.
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub exclude: Vec<Pattern>,
    /// Keep nodes in f32 whose error is above this.
    #[arg(long, value_name = "E", default_value_t = 0.1)]
    pub max_node_error: f64,
    /// The right class of each row of the first output (integers), for the accuracy in the report.
    #[arg(long, value_name = "FILE.npy", requires = "calibrate")]
    pub labels: Option<PathBuf>,
    /// Where the quantised model goes: an ONNX model, or a package (.neff).
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Print a line for every node.
    #[arg(long, conflicts_with = "json")]
    pub all: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub pictures: PictureFlags,
    #[command(flatten)]
    pub compiling: CompileFlags,
}

/// How ranges are chosen.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// From the least to the greatest element.
    Minmax,
    /// Rare elements at both ends are cut off.
    Percentile,
    /// The least Kullback-Leibler divergence of the quantised distribution.
    Entropy,
}

impl Quantize {
    pub fn scheme(&self) -> Scheme {
        match (self.int4, self.f16) {
            (true, _) => Scheme::Int4 {
                block: self.block_size,
            },
            (_, true) => Scheme::F16,
            _ => Scheme::Int8,
        }
    }

    pub fn calibration(&self) -> Calibration {
        match self.method {
            Method::Minmax => Calibration::MinMax,
            Method::Percentile => Calibration::Percentile(self.percentile),
            Method::Entropy => Calibration::Entropy,
        }
    }
}

fn pattern(text: &str) -> Result<Pattern, String> {
    Ok(Pattern::new(text))
}
