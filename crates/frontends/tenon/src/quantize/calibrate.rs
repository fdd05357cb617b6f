//! Executions on calibration data: ranges of activations, errors of nodes and outputs.

use super::{Calibration, OutputReport, Sample};
use crate::{Model, Outputs, RunOptions};
use std::collections::BTreeMap;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_quantize::{Histogram, IsolatedNode, Range};
use tenon_tensor::{DataType, Tensor, convert};

/// Samples on which the errors of nodes are measured.
const NODE_SAMPLES: usize = 16;

/// Runs a model on a sample.
fn run(model: &Model, (number, sample): (usize, &Sample), control: &Control) -> Result<Outputs> {
    let inputs = sample.iter().map(|(name, tensor)| (name.as_str(), tensor));
    // An optimised package may lack inputs that its outputs do not depend on.
    let known = |name: &str| model.inputs().iter().any(|input| input.name == name);
    let inputs: Vec<(&str, &Tensor)> = inputs.filter(|(name, _)| known(name)).collect();
    let outputs = model.run_with(&inputs, RunOptions::new().control(control.clone()));
    outputs.map_err(|error| error.at(Location::field(format!("sample {number}"))))
}

/// The ranges of activations, outputs or inputs of a model.
pub(super) fn ranges(
    model: &Model,
    activations: &[&str],
    samples: &[Sample],
    calibration: Calibration,
    control: &Control,
) -> Result<BTreeMap<String, Range>> {
    let passes = if calibration == Calibration::MinMax {
        1
    } else {
        2
    };
    let total = (passes * samples.len()) as u64;
    let observe = |done: usize, number: usize, see: &mut dyn FnMut(&str, &[f32]) -> Result<()>| {
        control.progress("calibrate", done as u64, total)?;
        let sample = &samples[number];
        let outputs = run(model, (number, sample), control)?;
        for &name in activations {
            let given = sample.iter().find(|(input, _)| input == name);
            let tensor = match given {
                Some((_, tensor)) => tensor,
                None => outputs.tensor(name)?,
            };
            let elements = tensor.as_slice::<f32>().ok_or_else(|| {
                Error::new(
                    ErrorKind::Unsupported,
                    "an activation to quantise is not f32",
                )
                .found(tensor.ty())
                .at(Location::field(name))
            })?;
            let place = || format!("sample {number}, activation '{name}'");
            let here = |error: Error| error.at(Location::field(place()));
            see(name, elements).map_err(here)?;
        }
        Ok::<(), Error>(())
    };
    let mut ranges: BTreeMap<String, Range> = BTreeMap::new();
    for number in 0..samples.len() {
        observe(number, number, &mut |name, elements| {
            let range = ranges.entry(name.to_owned()).or_insert(Range::EMPTY);
            *range = range.union(Range::of(elements)?);
            Ok(())
        })?;
    }
    if passes == 2 {
        let histograms = ranges
            .into_iter()
            .map(|(name, range)| (name, Histogram::new(range)));
        let mut histograms: BTreeMap<String, Histogram> = histograms.collect();
        for number in 0..samples.len() {
            observe(samples.len() + number, number, &mut |name, elements| {
                if let Some(histogram) = histograms.get_mut(name) {
                    histogram.add(elements);
                }
                Ok(())
            })?;
        }
        let calibrated = histograms
            .into_iter()
            .map(|(name, histogram)| (name, histogram.calibrated(calibration)));
        ranges = calibrated.collect();
    }
    control.progress("calibrate", total, total)?;
    Ok(ranges)
}

/// The sum of squares of differences, and that of the expected elements.
#[derive(Default, Clone, Copy)]
struct Squares {
    difference: f64,
    expected: f64,
}

impl Squares {
    fn add(&mut self, expected: &[f32], found: &[f32]) {
        for (&expected, &found) in expected.iter().zip(found) {
            let (expected, found) = (f64::from(expected), f64::from(found));
            self.difference += (expected - found).powi(2);
            self.expected += expected.powi(2);
        }
    }

    fn relative(self) -> f64 {
        match self.expected {
            0.0 if self.difference == 0.0 => 0.0,
            expected => (self.difference / expected).sqrt(),
        }
    }
}

/// The relative error of each node, by name.
pub(super) fn node_errors(
    model: &Model,
    nodes: &[IsolatedNode],
    samples: &[Sample],
    control: &Control,
) -> Result<BTreeMap<String, f64>> {
    let mut squares = vec![Squares::default(); nodes.len()];
    // Evenly spread: neighbours may be alike.
    let count = samples.len().min(NODE_SAMPLES);
    for nth in 0..count {
        control.progress("measure nodes", nth as u64, count as u64)?;
        let number = nth * samples.len() / count;
        let outputs = run(model, (number, &samples[number]), control)?;
        for (node, squares) in nodes.iter().zip(&mut squares) {
            let (expected, found) = (
                outputs.tensor(&node.output)?,
                outputs.tensor(&node.quantized)?,
            );
            if let (Some(expected), Some(found)) = (expected.as_slice(), found.as_slice()) {
                squares.add(expected, found);
            }
        }
    }
    control.progress("measure nodes", count as u64, count as u64)?;
    let names = nodes.iter().map(|node| node.name.clone());
    Ok(names
        .zip(squares.into_iter().map(Squares::relative))
        .collect())
}

/// What quantisation costs at the outputs.
#[derive(Default)]
pub(super) struct OutputErrors {
    pub(super) outputs: Vec<OutputReport>,
    /// The share of rows with the right class, in f32 and quantised.
    pub(super) accuracy: Option<[f64; 2]>,
}

impl OutputErrors {
    /// Compares the outputs of two models on all samples; the first one is in f32.
    pub(super) fn measure(
        models: [&Model; 2],
        samples: &[Sample],
        labels: Option<&[i64]>,
        control: &Control,
    ) -> Result<Self> {
        let total = samples.len() as u64;
        let names: Vec<String> = models[0]
            .outputs()
            .iter()
            .map(|it| it.name.clone())
            .collect();
        let mut squares = vec![Squares::default(); names.len()];
        let mut agreement = vec![(0u64, 0u64); names.len()];
        let (mut right, mut row) = ([0u64; 2], 0);
        for (number, sample) in samples.iter().enumerate() {
            control.progress("measure outputs", number as u64, total)?;
            let [expected, found] = [
                run(models[0], (number, sample), control)?,
                run(models[1], (number, sample), control)?,
            ];
            for (at, name) in names.iter().enumerate() {
                let [expected, found] = [
                    floats(expected.tensor(name)?)?,
                    floats(found.tensor(name)?)?,
                ];
                let (Some((expected, classes)), Some((found, _))) = (expected, found) else {
                    continue;
                };
                squares[at].add(&expected, &found);
                if classes < 2 {
                    continue;
                }
                let rows = expected.chunks(classes).zip(found.chunks(classes));
                for (expected, found) in rows {
                    let classes = [greatest(expected), greatest(found)];
                    agreement[at].0 += u64::from(classes[0] == classes[1]);
                    agreement[at].1 += 1;
                    if at == 0 {
                        if let Some(&label) = labels.and_then(|labels| labels.get(row)) {
                            for (right, class) in right.iter_mut().zip(classes) {
                                *right += u64::from(class as i64 == label);
                            }
                        }
                        row += 1;
                    }
                }
            }
        }
        control.progress("measure outputs", total, total)?;
        if let Some(labels) = labels
            && labels.len() != row
        {
            let text = "labels that do not fit the samples";
            return Err(Error::new(ErrorKind::InvalidArgument, text)
                .expected(format_args!("{row}, one for each row of the first output"))
                .found(labels.len()));
        }
        let outputs = names.into_iter().zip(squares).zip(agreement);
        let outputs = outputs.map(|((name, squares), (same, rows))| OutputReport {
            name,
            error: squares.relative(),
            agreement: (rows > 0).then(|| same as f64 / rows as f64),
        });
        Ok(Self {
            outputs: outputs.collect(),
            accuracy: labels.map(|_| right.map(|right| right as f64 / row.max(1) as f64)),
        })
    }
}

/// The elements of a float tensor and its last extent; `None` of other types.
fn floats(tensor: &Tensor) -> Result<Option<(Vec<f32>, usize)>> {
    if !tensor.dtype().is_float() {
        return Ok(None);
    }
    let converted = convert(tensor, DataType::F32)?;
    let elements = converted.as_slice::<f32>().unwrap_or_default().to_vec();
    Ok(Some((
        elements,
        tensor.shape().last().copied().unwrap_or(1),
    )))
}

/// The position of the greatest element.
fn greatest(row: &[f32]) -> usize {
    let mut greatest = 0;
    for (at, element) in row.iter().enumerate() {
        if *element > row[greatest] {
            greatest = at;
        }
    }
    greatest
}
