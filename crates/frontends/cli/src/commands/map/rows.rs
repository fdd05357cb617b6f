//! A model that is executed on the rows of arrays, a batch at a time.

use super::arrays::NamedArray;
use std::ops::Range;
use tenon::tensor::BufferMut;
use tenon::{
    Control, DataType, Dimension, Error, ErrorKind, Location, Model, Outputs, Result, RunOptions,
    Signature, Tensor, TensorType,
};

/// A model with its batch.
pub struct RowModel {
    model: Model,
    batch: Batch,
    /// For each input whether its first dimension is the batch.
    has_rows: Vec<bool>,
}

/// The first dimension of all outputs and of some inputs.
enum Batch {
    /// Of any size from `least`; at most `size` rows are executed at a time.
    Symbolic { least: usize, size: usize },
    /// Of this size.
    Fixed(usize),
    /// There is none: arrays have the shapes of the model, and are executed once.
    Absent,
}

/// The outputs of all rows of a file.
pub struct RowOutputs {
    pub tensors: Vec<Tensor>,
    /// The number of rows; 1 for a model without a batch.
    pub rows: usize,
}

/// An output, of which rows are added.
struct OutputRows {
    ty: TensorType,
    buffer: BufferMut,
}

impl RowModel {
    /// The model with batches of at most `size` rows, if its batch is symbolic.
    ///
    /// # Errors
    /// Outputs that `.npz` cannot contain.
    pub fn new(model: Model, size: usize) -> Result<Self> {
        let unstored = model.outputs().iter().filter(|output| !is_stored(output));
        let problem = |output: &Signature| {
            let text = format!(
                "output '{}' is {output}, which .npz cannot contain",
                output.name
            );
            Error::new(ErrorKind::Unsupported, text).expected("a tensor of numeric elements")
        };
        if let Some(error) = Error::from_all(unstored.map(problem)) {
            return Err(error);
        }
        let batch = symbolic_batch(&model, size).or_else(|| fixed_batch(&model));
        let (batch, first) = match batch {
            Some((batch, first)) => (batch, Some(first)),
            None => (Batch::Absent, None),
        };
        let inputs = model.inputs().iter();
        let has_rows = inputs.map(|input| first.is_some() && input.shape.first() == first.as_ref());
        Ok(Self {
            has_rows: has_rows.collect(),
            batch,
            model,
        })
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Executes the model on the rows of arrays, and calls `on_rows` with the rows of each execution.
    ///
    /// # Errors
    /// Arrays that are missing, unknown or do not fit, all together; a failed execution.
    pub fn run(
        &self,
        arrays: Vec<NamedArray>,
        control: &Control,
        mut on_rows: impl FnMut(usize),
    ) -> Result<RowOutputs> {
        let inputs = self.in_order(arrays)?;
        let Some(rows) = self.rows(&inputs)? else {
            let tensors = self.execute(inputs.iter().map(|it| it.array.clone()), control)?;
            on_rows(1);
            return Ok(RowOutputs {
                tensors: tensors.into_tensors(),
                rows: 1,
            });
        };
        let mut outputs: Vec<OutputRows> = Vec::new();
        let mut start = 0;
        loop {
            let size = self.execution_size(rows - start);
            let range = start..rows.min(start + size);
            let inputs = inputs.iter().zip(&self.has_rows);
            let tensors = inputs.map(|(input, has_rows)| match has_rows {
                true => part(&input.array, range.clone(), size),
                false => Ok(input.array.clone()),
            });
            let tensors = self.execute(tensors.collect::<Result<Vec<_>>>()?, control)?;
            on_rows(range.len());
            if range.len() == rows && size == rows {
                // One execution of exactly these rows.
                self.check_rows(&tensors, size)?;
                let tensors = tensors.into_tensors();
                return Ok(RowOutputs { tensors, rows });
            }
            self.add_rows(&mut outputs, &tensors, range.clone(), size, rows)?;
            start = range.end;
            if start == rows {
                break;
            }
        }
        let tensors = outputs.into_iter();
        let tensors = tensors.map(|output| Tensor::new(output.ty, output.buffer.freeze()));
        Ok(RowOutputs {
            tensors: tensors.collect::<Result<_>>()?,
            rows,
        })
    }

    /// The arrays in the order of the inputs.
    fn in_order(&self, arrays: Vec<NamedArray>) -> Result<Vec<NamedArray>> {
        let signatures = self.model.inputs();
        let mut ordered: Vec<Option<NamedArray>> = signatures.iter().map(|_| None).collect();
        let mut problems = Vec::new();
        let file = arrays.first().map(|array| array.file.clone());
        for array in arrays {
            let index = signatures.iter().position(|it| it.name == array.name);
            match index.and_then(|index| ordered.get_mut(index)) {
                Some(place @ None) => *place = Some(array),
                Some(Some(_)) => problems.push(array.problem("there are two arrays of this name")),
                None => {
                    let names: Vec<&str> = signatures.iter().map(|it| &*it.name).collect();
                    let error = array.problem("the model has no input of this name");
                    problems.push(error.expected(names.join(", ")));
                }
            }
        }
        for (index, signature) in signatures.iter().enumerate() {
            match &ordered[index] {
                Some(array) => problems.extend(self.check(index, array).err()),
                None => {
                    let text = format!("the array '{}' is missing", signature.name);
                    let error = Error::new(ErrorKind::InvalidArgument, text);
                    let place = file.as_ref().map(Location::file).unwrap_or_default();
                    problems.push(error.expected(self.accepted(index)).at(place));
                }
            }
        }
        match Error::from_all(problems) {
            Some(error) => Err(error),
            None => Ok(ordered.into_iter().flatten().collect()),
        }
    }

    /// Whether an array fits an input, but for the number of its rows.
    fn check(&self, index: usize, array: &NamedArray) -> Result<()> {
        let signature = &self.model.inputs()[index];
        let shape = array.array.shape();
        let skipped = usize::from(self.has_rows[index]);
        let fits = |(extent, dimension): (&usize, &Dimension)| match dimension {
            Dimension::Fixed(size) => size == extent,
            Dimension::Symbolic { min, max, .. } => (*min..=*max).contains(&(*extent as u64)),
        };
        let is_fit = array.array.dtype() == signature.ty.dtype()
            && shape.len() == signature.shape.len()
            && shape.iter().zip(&signature.shape).skip(skipped).all(fits);
        if is_fit {
            return Ok(());
        }
        let error = array.problem("the array does not fit the input");
        Err(error.expected(self.accepted(index)).found(array.array.ty()))
    }

    /// The types of arrays for an input.
    fn accepted(&self, index: usize) -> String {
        let signature = &self.model.inputs()[index];
        match (&self.batch, self.has_rows[index]) {
            (Batch::Fixed(_), true) => {
                let rest = signature.shape.iter().skip(1).map(Dimension::to_string);
                let extents: Vec<String> = std::iter::once("N".to_owned()).chain(rest).collect();
                format!("{}[{}]", signature.ty.dtype(), extents.join(", "))
            }
            _ => signature.to_string(),
        }
    }

    /// The number of rows of all arrays with rows; `None` if the model has no batch.
    fn rows(&self, inputs: &[NamedArray]) -> Result<Option<usize>> {
        let mut arrays = inputs
            .iter()
            .zip(&self.has_rows)
            .filter_map(|(array, has_rows)| has_rows.then_some(array));
        let rows = |array: &NamedArray| array.array.shape().first().copied().unwrap_or(0);
        let Some(first) = arrays.next() else {
            return Ok(None);
        };
        let differing = arrays.filter(|array| rows(array) != rows(first));
        let problem = |array: &NamedArray| {
            let error = array.problem("the array has another number of rows");
            let expected = format!("{}, as '{}'", rows(first), first.name);
            error.expected(expected).found(rows(array))
        };
        match Error::from_all(differing.map(problem)) {
            Some(error) => Err(error),
            None => Ok(Some(rows(first))),
        }
    }

    /// The rows of the next execution when this many are left; more if the model needs them.
    fn execution_size(&self, left: usize) -> usize {
        match self.batch {
            Batch::Symbolic { least, size } => left.min(size).max(least),
            Batch::Fixed(size) => size,
            Batch::Absent => left,
        }
    }

    fn execute(
        &self,
        inputs: impl IntoIterator<Item = Tensor>,
        control: &Control,
    ) -> Result<Outputs> {
        let tensors: Vec<Tensor> = inputs.into_iter().collect();
        let names = self.model.inputs().iter().map(|input| &*input.name);
        let named: Vec<(&str, &Tensor)> = names.zip(&tensors).collect();
        let options = RunOptions::new().control(control.clone());
        self.model.run_with(&named, options)
    }

    /// Copies the first rows of an execution of `size` rows to their range of the outputs.
    fn add_rows(
        &self,
        outputs: &mut Vec<OutputRows>,
        tensors: &Outputs,
        range: Range<usize>,
        size: usize,
        rows: usize,
    ) -> Result<()> {
        self.check_rows(tensors, size)?;
        if outputs.is_empty() {
            let all = tensors.iter().map(|tensor| OutputRows::new(tensor, rows));
            *outputs = all.collect::<Result<_>>()?;
        }
        for (index, (output, tensor)) in outputs.iter_mut().zip(tensors.iter()).enumerate() {
            let added = output.add(tensor, range.clone());
            added.map_err(|error| error.at(self.output_place(index)))?;
        }
        Ok(())
    }

    /// Whether every output has a row for each row of the inputs.
    fn check_rows(&self, tensors: &Outputs, size: usize) -> Result<()> {
        for (index, tensor) in tensors.iter().enumerate() {
            if tensor.shape().first() != Some(&size) {
                let text = "the output has another number of rows than the inputs";
                let error = Error::new(ErrorKind::Unsupported, text);
                let error = error.expected(size).found(tensor.ty());
                return Err(error.at(self.output_place(index)));
            }
        }
        Ok(())
    }

    fn output_place(&self, index: usize) -> Location {
        let name = self.model.outputs().get(index).map(|it| it.name.as_str());
        Location::field(format!("output '{}'", name.unwrap_or_default()))
    }
}

impl OutputRows {
    /// Space for this number of rows of a tensor.
    fn new(tensor: &Tensor, rows: usize) -> Result<Self> {
        let mut shape = tensor.shape().to_vec();
        shape[0] = rows;
        let ty = TensorType::new(tensor.dtype(), shape)?;
        let buffer = BufferMut::zeroed(ty.bytes())?;
        Ok(Self { ty, buffer })
    }

    /// Copies the first rows of a tensor to a range.
    fn add(&mut self, tensor: &Tensor, range: Range<usize>) -> Result<()> {
        if tensor.shape()[1..] != self.ty.shape()[1..] || tensor.dtype() != self.ty.dtype() {
            let text = "rows of different batches have different shapes";
            let error = Error::new(ErrorKind::Unsupported, text);
            return Err(error.expected(&self.ty).found(tensor.ty()));
        }
        let row = row_bytes(tensor);
        let target = self.buffer.get_mut(range.start * row..range.end * row);
        let source = tensor.bytes().get(..range.len() * row);
        let (Some(target), Some(source)) = (target, source) else {
            let text = "the rows of an output have another size than its tensor";
            return Err(Error::new(ErrorKind::Internal, text));
        };
        target.copy_from_slice(source);
        Ok(())
    }
}

/// The batch of a model where it is a symbol, and its dimension.
fn symbolic_batch(model: &Model, size: usize) -> Option<(Batch, Dimension)> {
    let name = model.batch_dimension()?;
    let inputs = model.inputs().iter();
    let first = inputs.filter_map(|input| input.shape.first()).find(
        |first| matches!(first, Dimension::Symbolic { expression, .. } if expression == name),
    )?;
    let Dimension::Symbolic { min, max, .. } = first else {
        return None;
    };
    let bound = |bound: u64| usize::try_from(bound).unwrap_or(usize::MAX);
    let least = bound(*min).max(1);
    let size = size.min(bound(*max)).max(least);
    Some((Batch::Symbolic { least, size }, first.clone()))
}

/// The batch of a model where it is fixed: the same first dimension of all outputs and of some inputs.
fn fixed_batch(model: &Model) -> Option<(Batch, Dimension)> {
    let first = model.outputs().first()?.shape.first()?;
    let Dimension::Fixed(size @ 1..) = *first else {
        return None;
    };
    let has = |signature: &Signature| signature.shape.first() == Some(first);
    let rows_are_bytes = |input: &Signature| !has(input) || is_stored(input);
    let is_batch = model.outputs().iter().all(has)
        && model.inputs().iter().any(has)
        && model.inputs().iter().all(rows_are_bytes);
    is_batch.then(|| (Batch::Fixed(size), first.clone()))
}

/// Whether `.npz` can contain a value, and rows of it are whole bytes.
fn is_stored(signature: &Signature) -> bool {
    let dtype = signature.ty.dtype();
    signature.kind.is_tensor() && dtype != DataType::String && dtype.bits() >= 8
}

/// A range of rows, with zeros up to `size` rows.
fn part(array: &Tensor, range: Range<usize>, size: usize) -> Result<Tensor> {
    let row = row_bytes(array);
    let mut shape = array.shape().to_vec();
    shape[0] = size;
    let ty = TensorType::new(array.dtype(), shape)?;
    let bytes = range.start * row..range.end * row;
    let buffer = array.buffer().slice(bytes).ok_or_else(|| {
        let text = "the rows of an array have another size than its tensor";
        Error::new(ErrorKind::Internal, text)
    })?;
    if range.len() == size {
        return Tensor::new(ty, buffer);
    }
    let mut padded = BufferMut::zeroed(ty.bytes())?;
    padded[..buffer.len()].copy_from_slice(&buffer);
    Tensor::new(ty, padded.freeze())
}

/// The bytes of a row.
fn row_bytes(tensor: &Tensor) -> usize {
    let row = tensor.shape()[1..].iter().product::<usize>();
    row * tensor.dtype().bits() / 8
}
