//! Several runs joined into one execution along the batch, the first dimension of inputs and outputs.

use crate::inputs::in_order;
use crate::model::Nodes;
use crate::{Dimension, ExecuteOptions, Model, Signature};
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType};

/// The tensors of a run, by the names of inputs.
pub type NamedTensors<'a> = &'a [(&'a str, &'a Tensor)];

/// The batch of a model: a symbol that is the first dimension of all outputs and of some inputs, and occurs nowhere
/// else.
struct Batch {
    symbol: String,
    /// Its largest size.
    max: u64,
    /// For each input whether it has the dimension.
    inputs: Vec<bool>,
}

impl Model {
    /// The dimension along which [`Model::run_batch`] joins runs, by name; `None` if it executes them one after the
    /// other.
    pub fn batch_dimension(&self) -> Option<&str> {
        let batch = self.batch()?;
        let mut symbols = self.symbols().iter();
        symbols.find_map(|(_, symbol)| (symbol.name == batch.symbol).then_some(&*symbol.name))
    }

    fn batch(&self) -> Option<Batch> {
        let first = |signature: &Signature| match signature.shape.first()? {
            Dimension::Symbolic { expression, .. } => Some(expression.clone()),
            Dimension::Fixed(_) => None,
        };
        let symbol = first(self.outputs().first()?)?;
        let id = self.symbols().find(&symbol)?;
        let max = match &self.0.nodes {
            // Joined runs need a bucket as any other.
            Nodes::Symbolic(core) if core.has_buckets(id) => core.padded_up_to(id)?,
            _ => self.symbols().symbol(id)?.max,
        };
        let mut inputs = Vec::with_capacity(self.inputs().len());
        for input in self.inputs() {
            inputs.push(first(input).is_some_and(|first| first == symbol));
        }
        let only_first = |signature: &Signature| {
            let mut others = signature.shape.iter().skip(1);
            let dtype = signature.ty.dtype();
            let whole = dtype == DataType::String || dtype.bits() >= 8;
            signature.kind.is_tensor()
                && whole
                && !others.any(|dimension| mentions(dimension, &symbol))
        };
        let is_output = |output: &Signature| first(output).as_ref() == Some(&symbol);
        let free = |(input, has): (&Signature, &bool)| {
            *has || !input
                .shape
                .iter()
                .any(|dimension| mentions(dimension, &symbol))
        };
        let fits = self.outputs().iter().all(is_output)
            && inputs.contains(&true)
            && self.inputs().iter().chain(self.outputs()).all(only_first)
            && self.inputs().iter().zip(&inputs).all(free);
        fits.then_some(Batch {
            symbol,
            max,
            inputs,
        })
    }

    /// Runs several times, and returns the outputs of each run. Runs are joined into executions along the first
    /// dimension where the model has a batch ([`Model::batch_dimension`]) and their other sizes are equal: the inputs
    /// are copied once, the outputs of the runs are parts of the same memory. The rows of a batch must not depend on
    /// each other, as in models that are trained with batches.
    ///
    /// # Errors
    /// As [`Model::run`]; the inputs of all runs are checked first.
    pub fn run_batch(
        &self,
        runs: &[NamedTensors<'_>],
        control: Option<&Control>,
    ) -> Result<Vec<Vec<Tensor>>> {
        let mut checked = Vec::with_capacity(runs.len());
        let mut errors = Vec::new();
        for (index, run) in runs.iter().enumerate() {
            match in_order(self.inputs(), run) {
                Ok(tensors) => checked.push(tensors),
                Err(error) => errors.push(error.at(Location::field(format!("run {index}")))),
            }
        }
        if let Some(error) = Error::from_all(errors) {
            return Err(error);
        }
        let mut outputs: Vec<Vec<Tensor>> = vec![Vec::new(); runs.len()];
        let options = || ExecuteOptions {
            control,
            ..ExecuteOptions::default()
        };
        let Some(batch) = self.batch() else {
            for (run, outputs) in runs.iter().zip(&mut outputs) {
                *outputs = self.run_with(run, options())?;
            }
            return Ok(outputs);
        };
        for group in groups(&checked, &batch) {
            let joined = match &group[..] {
                [run] => {
                    outputs[*run] = self.run_with(runs[*run], options())?;
                    continue;
                }
                group => join(group, &checked, &batch)?,
            };
            let named = self.inputs().iter().zip(&joined);
            let named: Vec<(&str, &Tensor)> = named
                .map(|(input, tensor)| (&*input.name, tensor))
                .collect();
            let results = self.run_with(&named, options())?;
            for result in results {
                let mut row = 0;
                for &run in &group {
                    let rows = rows(&checked[run], &batch);
                    outputs[run].push(part(&result, row, rows)?);
                    row += rows;
                }
            }
        }
        Ok(outputs)
    }
}

/// Whether an extent depends on a symbol.
fn mentions(dimension: &Dimension, symbol: &str) -> bool {
    let Dimension::Symbolic { expression, .. } = dimension else {
        return false;
    };
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    expression
        .split(|c: char| !is_name(c))
        .any(|word| word == symbol)
}

/// The size of a run's batch.
fn rows(inputs: &[&Tensor], batch: &Batch) -> usize {
    let mut with_batch = inputs.iter().zip(&batch.inputs);
    let found = with_batch.find(|(_, has)| **has);
    found.map_or(0, |(tensor, _)| tensor.shape()[0])
}

/// The runs by execution: of the same sizes, and of the same inputs without a batch.
fn groups(runs: &[Vec<&Tensor>], batch: &Batch) -> Vec<Vec<usize>> {
    struct Group {
        runs: Vec<usize>,
        rows: usize,
    }
    let max = usize::try_from(batch.max).unwrap_or(usize::MAX);
    let mut groups: Vec<Group> = Vec::new();
    for (index, inputs) in runs.iter().enumerate() {
        let count = rows(inputs, batch);
        let joins = |group: &&mut Group| {
            let other = runs[group.runs[0]].iter();
            let mut pairs = other.zip(inputs).zip(&batch.inputs);
            // Sizes that contradict each other are an error of a run by itself.
            let is_consistent = |tensor: &Tensor| tensor.shape().first() == Some(&count);
            group.rows.saturating_add(count) <= max
                && pairs.all(|((a, b), has)| match has {
                    true => a.shape()[1..] == b.shape()[1..] && is_consistent(b),
                    false => a == b,
                })
        };
        match groups.iter_mut().find(joins) {
            Some(group) => {
                group.runs.push(index);
                group.rows += count;
            }
            None => groups.push(Group {
                runs: vec![index],
                rows: count,
            }),
        }
    }
    groups.into_iter().map(|group| group.runs).collect()
}

/// The inputs of several runs, one after the other along the batch.
fn join(group: &[usize], runs: &[Vec<&Tensor>], batch: &Batch) -> Result<Vec<Tensor>> {
    let first = &runs[group[0]];
    let mut joined = Vec::with_capacity(first.len());
    for (input, has) in batch.inputs.iter().enumerate() {
        if !has {
            joined.push(first[input].clone());
            continue;
        }
        let mut shape = first[input].shape().to_vec();
        shape[0] = group.iter().map(|&run| rows(&runs[run], batch)).sum();
        let ty = TensorType::new(first[input].dtype(), shape)?;
        if ty.dtype() == DataType::String {
            let texts = group.iter().filter_map(|&run| runs[run][input].strings());
            let texts: Vec<&str> = texts.flatten().collect();
            joined.push(Tensor::from_strings(ty.shape().clone(), &texts)?);
            continue;
        }
        let mut buffer = BufferMut::zeroed(ty.bytes())?;
        let mut at = 0;
        for &run in group {
            let bytes = runs[run][input].bytes();
            let end = at + bytes.len();
            let to = buffer.get_mut(at..end).ok_or_else(other_size)?;
            to.copy_from_slice(bytes);
            at = end;
        }
        joined.push(Tensor::new(ty, buffer.freeze())?);
    }
    Ok(joined)
}

/// The rows of one run in an output.
fn part(result: &Tensor, row: usize, rows: usize) -> Result<Tensor> {
    let mut shape = result.shape().to_vec();
    let all = shape[0].max(1);
    shape[0] = rows;
    if let Some(texts) = result.strings() {
        let width = result.ty().elements() / all;
        let texts: Vec<&str> = texts.skip(row * width).take(rows * width).collect();
        return Tensor::from_strings(shape, &texts);
    }
    let ty = TensorType::new(result.dtype(), shape)?;
    let row_bytes = result.bytes().len() / all;
    let range = row * row_bytes..(row + rows) * row_bytes;
    let buffer = result.buffer().slice(range).ok_or_else(other_size)?;
    Tensor::new(ty, buffer)
}

fn other_size() -> Error {
    let text = "the rows of joined runs have another size than their tensors";
    Error::new(ErrorKind::Internal, text)
}
