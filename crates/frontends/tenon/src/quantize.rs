//! Post-training quantisation: an f32 model becomes an ONNX model of integers, and a report of what that costs.
//!
//! The result is standard ONNX in QDQ form, which other runtimes execute, too. With [`Scheme::Int8`] convolutions and
//! matrix products with constant weights are computed in integers, for activations whose ranges are observed on
//! calibration data. With [`Scheme::Int4`] the weights of matrix products alone are quantised, in blocks; with
//! [`Scheme::F16`] all values of floating point become f16. For these, calibration data is only needed for the report.
//!
//! ```
//! use tenon::quantize::{Quantizer, Scheme, split_samples};
//! use tenon::{Compiler, Control, LoadOptions, OnnxModel, Tensor};
//!
//! # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/digits/digits.onnx");
//! let onnx = OnnxModel::open(file, &Control::new())?;
//! let model = Compiler::new().compile_model(&onnx)?.load(&LoadOptions::new())?;
//! # let pixels: Vec<f32> = (0..32 * 64).map(|k| (k * 7 % 17) as f32 / 16.0).collect();
//! let images = Tensor::from_slice([32, 1, 8, 8], &pixels)?;
//! let samples = split_samples(vec![("image".into(), images)], &model)?;
//! let quantized = Quantizer::new(Scheme::Int8).quantize(&onnx, &samples)?;
//! println!("{}", quantized.report());
//! let bytes = quantized.to_bytes()?;
//! let package = Compiler::new().compile_bytes(bytes)?;
//! # assert!(quantized.report().nodes.iter().all(|node| node.error.is_some_and(|error| error < 0.1)));
//! # assert_eq!(package.load(&LoadOptions::new())?.inputs()[0].name, "image");
//! # Ok::<(), tenon::Error>(())
//! ```

mod calibrate;
mod report;
mod samples;

pub use report::{NodeReport, OutputReport, QuantizationReport};
pub use samples::{Sample, read_samples, split_samples};
pub use tenon_quantize::{Calibration, Scheme};

use crate::{Compiler, LoadOptions, Model};
use calibrate::{OutputErrors, node_errors, ranges};
use prost::Message;
use std::path::Path;
use tenon_base::{Control, Error, ErrorKind, Location, Pattern, Result};
use tenon_onnx::Model as OnnxModel;
use tenon_onnx::proto::ModelProto;
use tenon_quantize::{Exclusions, NodeState, Plan};

/// Fewer samples than these are said to be few in the report.
const FEW_SAMPLES: usize = 16;

/// The largest ONNX file: protobuf has no larger messages.
const GREATEST_FILE: usize = i32::MAX as usize;

/// Quantises models. Set what differs from the defaults, then call [`Self::quantize`].
#[derive(Clone)]
pub struct Quantizer {
    scheme: Scheme,
    calibration: Calibration,
    excluded: Vec<Pattern>,
    max_node_error: f64,
    labels: Option<Vec<i64>>,
    compiler: Compiler,
    control: Control,
}

impl Quantizer {
    /// A quantizer with default options: ranges from the least to the greatest element, and nodes with an error above
    /// 0.1 in f32.
    pub fn new(scheme: Scheme) -> Self {
        Self {
            scheme,
            calibration: Calibration::MinMax,
            excluded: Vec::new(),
            max_node_error: 0.1,
            labels: None,
            compiler: Compiler::new(),
            control: Control::new(),
        }
    }

    setters! {
        /// Sets how ranges of activations follow from the observed elements.
        calibration: Calibration,
        /// Keeps nodes in f32 whose outputs differ by more than this from those in f32 on the same inputs: the
        /// Euclidean norm of the difference, relative to that of the output.
        max_node_error: f64,
        /// Sets how models are compiled for calibration, for instance sizes of dimensions.
        compiler: Compiler,
        /// Reports progress to, and is cancelled by, this control.
        control: Control,
    }

    /// Keeps the nodes whose names match in f32. May be called several times.
    #[must_use]
    pub fn exclude(mut self, nodes: Pattern) -> Self {
        self.excluded.push(nodes);
        self
    }

    /// Sets the index of the right class of each row of the first output, over all samples, for the
    /// accuracy in the report.
    #[must_use]
    pub fn labels(mut self, labels: Vec<i64>) -> Self {
        self.labels = Some(labels);
        self
    }

    /// Quantises a model.
    ///
    /// # Errors
    /// Models that do not compile or have no node to quantise, no samples where ranges are needed, samples that do not
    /// fit the model, activations that are not finite.
    pub fn quantize(&self, model: &OnnxModel, samples: &[Sample]) -> Result<QuantizedModel> {
        self.check(samples)?;
        let proto = model.self_contained(self.compiler.linked_folders())?;
        let mut exclusions = Exclusions {
            patterns: self.excluded.clone(),
            ..Exclusions::default()
        };
        let mut plan = Plan::new(proto.clone(), self.scheme, &exclusions)?;
        let ranges = match plan.observed().next() {
            None => Default::default(),
            Some(_) => {
                let names: Vec<&str> = plan.observed().collect();
                let observed = self.load(plan.observed_model())?;
                ranges(&observed, &names, samples, self.calibration, &self.control)?
            }
        };
        let mut errors = Default::default();
        if !samples.is_empty() && self.scheme != Scheme::F16 && is_any_quantized(&plan) {
            let (isolated, nodes) = plan.isolated_model(&ranges)?;
            let isolated = self.load(isolated)?;
            errors = node_errors(&isolated, &nodes, samples, &self.control)?;
            for (node, &error) in &errors {
                if error.is_nan() || error > self.max_node_error {
                    let reason =
                        format!("its error of {error:.3} is above {}", self.max_node_error);
                    exclusions.nodes.insert(node.clone(), reason);
                }
            }
            if !exclusions.nodes.is_empty() {
                plan = Plan::new(proto.clone(), self.scheme, &exclusions)?;
            }
        }
        if self.scheme != Scheme::F16 && !is_any_quantized(&plan) {
            return Err(no_node(&plan));
        }
        let quantized = plan.quantized_model(&ranges)?;
        let outputs = if samples.is_empty() {
            OutputErrors::default()
        } else {
            let [first, second] = [self.load(proto.clone())?, self.load(quantized.clone())?];
            OutputErrors::measure(
                [&first, &second],
                samples,
                self.labels.as_deref(),
                &self.control,
            )?
        };
        let report = QuantizationReport {
            scheme: self.scheme,
            nodes: plan
                .nodes()
                .iter()
                .map(|node| NodeReport::new(node, &errors))
                .collect(),
            outputs: outputs.outputs,
            accuracy: outputs.accuracy,
            samples: samples.len(),
            few_samples: plan.observed().next().is_some() && samples.len() < FEW_SAMPLES,
            bytes: [proto.encoded_len() as u64, quantized.encoded_len() as u64],
        };
        Ok(QuantizedModel {
            proto: quantized,
            report,
        })
    }

    fn check(&self, samples: &[Sample]) -> Result<()> {
        let wrong = |text: &str| Err(Error::new(ErrorKind::Usage, text));
        match self.scheme {
            Scheme::Int8 if samples.is_empty() => {
                return wrong(
                    "quantisation of activations needs calibration data, and there are no samples",
                );
            }
            Scheme::Int4 { block } if !block.is_power_of_two() || block < 16 => {
                return Err(Error::new(
                    ErrorKind::Usage,
                    "a block size that ONNX runtimes do not support",
                )
                .expected("a power of two of 16 or more")
                .found(block));
            }
            _ => {}
        }
        match self.calibration {
            Calibration::Percentile(percentage) if !(percentage > 50.0 && percentage <= 100.0) => {
                Err(Error::new(ErrorKind::Usage, "a percentile out of range")
                    .expected("more than 50, at most 100")
                    .found(percentage))
            }
            _ if self.labels.is_some() && samples.is_empty() => {
                wrong("labels are of no use without samples")
            }
            _ => Ok(()),
        }
    }

    fn load(&self, proto: ModelProto) -> Result<Model> {
        let model = OnnxModel::from_proto(proto)?;
        let compiler = self.compiler.clone().control(self.control.clone());
        let package = compiler.compile_model(&model)?;
        package.load(&LoadOptions::new().control(self.control.clone()))
    }
}

/// A quantised model and its report.
pub struct QuantizedModel {
    proto: ModelProto,
    report: QuantizationReport,
}

impl QuantizedModel {
    /// What was quantised, and what it costs.
    pub fn report(&self) -> &QuantizationReport {
        &self.report
    }

    /// The bytes of the ONNX file.
    ///
    /// # Errors
    /// A model above 2 GB, which an ONNX file cannot contain.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let bytes = self.proto.encoded_len();
        if bytes > GREATEST_FILE {
            let text = "the quantised model is too large for an ONNX file";
            return Err(Error::new(ErrorKind::Unsupported, text)
                .expected(format_args!("at most {GREATEST_FILE} bytes"))
                .found(bytes)
                .help("write a package"));
        }
        Ok(self.proto.encode_to_vec())
    }

    /// Writes the ONNX file as a whole or not at all.
    ///
    /// # Errors
    /// As [`Self::to_bytes`]; files that cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let bytes = self
            .to_bytes()
            .map_err(|error| error.at(Location::file(path)))?;
        crate::files::write(path, &bytes)
    }

    /// The model, to compile.
    ///
    /// # Errors
    /// None but for defects of Tenon.
    pub fn onnx(&self) -> Result<OnnxModel> {
        OnnxModel::from_proto(self.proto.clone())
    }
}

fn is_any_quantized(plan: &Plan) -> bool {
    plan.nodes()
        .iter()
        .any(|node| node.state == NodeState::Quantized)
}

/// The error of a model without a node that can be quantised.
fn no_node(plan: &Plan) -> Error {
    let text =
        "the model has no node to quantise: none is a Conv, MatMul or Gemm with constant weights";
    let reasons = plan.nodes().iter().filter_map(|node| match &node.state {
        NodeState::Quantized => None,
        NodeState::Kept(reason) => Some(format!("{}: {reason}", node.name)),
    });
    let reasons: Vec<String> = reasons.take(8).collect();
    let error = Error::new(ErrorKind::InvalidArgument, text);
    match reasons.as_slice() {
        [] => error,
        reasons => error.found(reasons.join("; ")),
    }
}
