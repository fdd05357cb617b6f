//! Executions between buckets: inputs are padded to the sizes of an instance, outputs are cut to the actual ones.

use super::{SymbolicCore, SymbolicPort};
use crate::model::Inner;
use crate::{Model, Signature};
use std::sync::Arc;
use tenon_base::stop::checkpoint;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_tensor::size::{SizeExpr, SymbolId};
use tenon_tensor::{BufferMut, BufferPool, TensorType};

/// A model of actual sizes, executed by the instance of a bucket.
pub(crate) struct PaddedModel {
    pub instance: Model,
    inputs: Vec<PaddedPort>,
    outputs: Vec<PaddedPort>,
    pool: Arc<BufferPool>,
}

/// An input or output with its actual type and that of the bucket.
struct PaddedPort {
    actual: Signature,
    bucket: TensorType,
    /// The bytes of the element that an input is padded with; empty for an output.
    element: Box<[u8]>,
}

impl PaddedPort {
    fn is_padded(&self) -> bool {
        self.actual.ty != self.bucket
    }
}

impl SymbolicCore {
    /// The sizes of the smallest buckets that are at least these sizes.
    ///
    /// # Errors
    /// A size above the greatest bucket of its symbol; one that is no bucket, if an input with this symbol has no
    /// padding.
    pub(super) fn bucket_for(&self, sizes: &[i64]) -> Result<Vec<i64>> {
        let mut bucket = sizes.to_vec();
        let mut problems = Vec::new();
        for ((id, symbol), slot) in self.symbols.iter().zip(&mut bucket) {
            let buckets = self.buckets.sizes(id);
            if buckets.is_empty() || buckets.contains(slot) {
                continue;
            }
            let unpadded: Vec<&str> = self.unpadded(id).collect();
            let (text, help) = match buckets.iter().find(|&size| size > slot) {
                Some(&size) if unpadded.is_empty() => {
                    *slot = size;
                    continue;
                }
                Some(_) => (
                    "the size is no bucket of the dimension",
                    Some(format!(
                        "where padding does not change the results, compile the model with --pad {}=VALUE",
                        unpadded.join("=VALUE --pad ")
                    )),
                ),
                None => ("the size is above all buckets of the dimension", None),
            };
            let list: Vec<String> = buckets.iter().map(i64::to_string).collect();
            let error = Error::new(ErrorKind::InvalidArgument, text);
            let error = error.expected(list.join(", ")).found(*slot);
            let error = error.at(Location::field(format!("dimension '{}'", symbol.name)));
            problems.push(match help {
                Some(help) => error.help(help),
                None => error,
            });
        }
        Error::from_all(problems).map_or(Ok(bucket), Err)
    }

    /// Whether a symbol has buckets.
    pub fn has_buckets(&self, symbol: SymbolId) -> bool {
        !self.buckets.sizes(symbol).is_empty()
    }

    /// The largest size of a symbol up to which inputs are padded; `None` if they are not.
    pub fn padded_up_to(&self, symbol: SymbolId) -> Option<u64> {
        let greatest = self.buckets.sizes(symbol).last()?;
        let is_padded = self.unpadded(symbol).next().is_none();
        is_padded.then_some(*greatest as u64)
    }

    /// The inputs with this symbol that have no padding.
    fn unpadded(&self, symbol: SymbolId) -> impl Iterator<Item = &str> {
        let inputs = self.inputs.iter().enumerate();
        let without = inputs.filter(move |(position, port)| {
            self.buckets.padding(*position).is_none() && port.symbols().any(|id| id == symbol)
        });
        without.map(|(_, port)| port.name())
    }

    /// The model of actual sizes that is executed by an instance of larger ones.
    pub(super) fn padded(&self, instance: Model, actual: &[i64], bucket: &[i64]) -> Result<Model> {
        let inputs = self.inputs.iter().enumerate().map(|(position, port)| {
            let element = self.buckets.padding(position).unwrap_or_default();
            padded_port(port, actual, bucket, element)
        });
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let outputs = self.outputs.iter();
        let outputs = outputs.map(|port| padded_port(port, actual, bucket, &[]));
        let outputs = outputs.collect::<Result<Vec<_>>>()?;
        let actual = |ports: &[PaddedPort]| ports.iter().map(|port| port.actual.clone()).collect();
        Ok(Model::of(Inner {
            inputs: actual(&inputs),
            outputs: actual(&outputs),
            plan: instance.0.plan.clone(),
            uncontrolled: Control::new(),
            pool: instance.0.pool.clone(),
            context: instance.0.context.clone(),
            nodes: crate::model::Nodes::Padded(Box::new(PaddedModel {
                instance,
                inputs,
                outputs,
                pool: self.pool.clone(),
            })),
        }))
    }
}

/// A port with both types. An extent may change by at most as much as the symbols do: the padding of `2 * seq`,
/// or of `batch * seq`, is not at the end of the dimension.
fn padded_port(
    port: &SymbolicPort,
    actual: &[i64],
    bucket: &[i64],
    element: &[u8],
) -> Result<PaddedPort> {
    let fixed = port.fixed(actual)?;
    let larger = port.fixed(bucket)?.ty;
    let added = |extent: &SizeExpr| {
        let symbols = extent.symbols().into_iter().map(SymbolId::index);
        symbols
            .map(|index| bucket[index] - actual[index])
            .sum::<i64>()
    };
    let extents = port.extents.iter().zip(fixed.ty.shape().iter());
    for (axis, ((extent, &from), &to)) in extents.zip(larger.shape().iter()).enumerate() {
        let fits = to.checked_sub(from);
        if fits.is_none_or(|more| i64::try_from(more).map_or(true, |more| more > added(extent))) {
            let text = "a dimension whose padding is not at its end cannot be padded or cut";
            return Err(Error::new(ErrorKind::Unsupported, text)
                .expected(format_args!("at most {} more than {from}", added(extent)))
                .found(to)
                .help("run the model at sizes that are buckets")
                .at(Location::field(format!(
                    "'{}', dimension {axis}",
                    port.name
                ))));
        }
    }
    if larger != fixed.ty && larger.dtype().bits() < 8 {
        let text = "a tensor with elements of less than a byte cannot be padded or cut";
        let error = Error::new(ErrorKind::Unsupported, text).found(&larger);
        return Err(error.at(Location::field(format!("'{}'", port.name))));
    }
    Ok(PaddedPort {
        actual: fixed,
        bucket: larger,
        element: element.into(),
    })
}

impl PaddedModel {
    /// Pads the inputs, calls `execute` with the memory of the instance's inputs and outputs, and cuts the outputs.
    pub fn execute(
        &self,
        inputs: &[&[u8]],
        outputs: Vec<&mut [u8]>,
        execute: impl FnOnce(Vec<&[u8]>, Vec<&mut [u8]>) -> Result<()>,
    ) -> Result<()> {
        let given = inputs.iter().map(|bytes| bytes.len());
        check_sizes("input", given, &self.inputs)?;
        check_sizes(
            "output",
            outputs.iter().map(|bytes| bytes.len()),
            &self.outputs,
        )?;
        let mut padded = Vec::with_capacity(inputs.len());
        for (port, bytes) in self.inputs.iter().zip(inputs) {
            padded.push(match port.is_padded() {
                true => Some(self.pad(port, bytes)?),
                false => None,
            });
        }
        let mut whole = Vec::with_capacity(outputs.len());
        for port in &self.outputs {
            whole.push(match port.is_padded() {
                true => Some(self.pool.take(port.bucket.bytes())?),
                false => None,
            });
        }
        let mut outputs = outputs;
        let inputs = padded.iter().zip(inputs);
        let inputs = inputs.map(|(padded, bytes)| padded.as_deref().unwrap_or(bytes));
        let written = whole.iter_mut().zip(&mut outputs);
        let written = written.map(|(whole, bytes)| whole.as_deref_mut().unwrap_or(bytes));
        execute(inputs.collect(), written.collect())?;
        for ((port, whole), bytes) in self.outputs.iter().zip(&whole).zip(&mut outputs) {
            if let Some(whole) = whole {
                copy_common(whole, &port.bucket, bytes, &port.actual.ty);
            }
        }
        Ok(())
    }

    fn pad(&self, port: &PaddedPort, bytes: &[u8]) -> Result<BufferMut> {
        let mut padded = self.pool.take(port.bucket.bytes())?;
        match &*port.element {
            [first, rest @ ..] if rest.iter().all(|byte| byte == first) => padded.fill(*first),
            element => {
                for slot in padded.chunks_exact_mut(element.len()) {
                    slot.copy_from_slice(element);
                }
            }
        }
        copy_common(bytes, &port.actual.ty, &mut padded, &port.bucket);
        Ok(padded)
    }
}

fn check_sizes(
    what: &str,
    sizes: impl ExactSizeIterator<Item = usize>,
    ports: &[PaddedPort],
) -> Result<()> {
    let wrong = |text: String| Error::new(ErrorKind::InvalidArgument, text);
    if sizes.len() != ports.len() {
        let error = wrong(format!(
            "the number of {what}s differs from that of the model"
        ));
        return Err(error.expected(ports.len()).found(sizes.len()));
    }
    for (size, port) in sizes.zip(ports) {
        let ty = &port.actual.ty;
        if size != ty.bytes() {
            let error = wrong(format!("{what} '{}' has the wrong size", port.actual.name));
            let error = error.expected(format_args!("{} bytes ({ty})", ty.bytes()));
            return Err(error.found(size));
        }
    }
    Ok(())
}

/// Copies the elements that two tensors of the same type and rank have in common: the first ones of each dimension.
/// Elements are whole bytes.
fn copy_common(from: &[u8], from_type: &TensorType, to: &mut [u8], to_type: &TensorType) {
    let (a, b) = (from_type.shape(), to_type.shape());
    let common: Vec<usize> = a.iter().zip(b.iter()).map(|(a, b)| *a.min(b)).collect();
    let differing = a.iter().zip(b.iter()).rposition(|(a, b)| a != b);
    let axis = differing.unwrap_or(0);
    let inner = |shape: &[usize]| shape.iter().skip(axis).product::<usize>();
    let width = from_type.dtype().bits() / 8;
    let (from_row, to_row) = (inner(a) * width, inner(b) * width);
    let run = inner(&common) * width;
    let outer = common.get(..axis).unwrap_or_default();
    if run == 0 {
        return;
    }
    for row in 0..outer.iter().product::<usize>() {
        if row % 4096 == 0 {
            checkpoint();
        }
        // The position of the row in both tensors.
        let (mut rest, mut at, mut stride) = (row, [0, 0], [1, 1]);
        for (dimension, &count) in outer.iter().enumerate().rev() {
            let index = rest % count;
            rest /= count;
            at = [at[0] + index * stride[0], at[1] + index * stride[1]];
            stride = [stride[0] * a[dimension], stride[1] * b[dimension]];
        }
        let (start, end) = (at[0] * from_row, at[1] * to_row);
        to[end..end + run].copy_from_slice(&from[start..start + run]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_tensor::{DataType, Tensor};

    fn ty(shape: &[usize]) -> TensorType {
        TensorType::new(DataType::I32, shape).unwrap()
    }

    #[test]
    fn the_common_elements_are_copied() {
        // Compared with slices of NumPy: the first elements of each dimension.
        let values: Vec<i32> = (0..24).collect();
        let whole = Tensor::from_slice([2, 3, 4], &values).unwrap();
        for (shape, expected) in [
            (&[2, 3, 4][..], values.clone()),
            (
                &[2, 2, 4],
                vec![0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15, 16, 17, 18, 19],
            ),
            (&[1, 3, 2], vec![0, 1, 4, 5, 8, 9]),
            (&[2, 1, 1], vec![0, 12]),
            (&[1, 0, 4], vec![]),
        ] {
            let small = ty(shape);
            let mut cut = BufferMut::zeroed(small.bytes()).unwrap();
            copy_common(whole.bytes(), whole.ty(), &mut cut, &small);
            let cut = Tensor::new(small.clone(), cut.freeze()).unwrap();
            assert_eq!(cut.as_slice::<i32>().unwrap(), expected);
            // And back, into zeros.
            let mut padded = BufferMut::zeroed(whole.bytes().len()).unwrap();
            copy_common(cut.bytes(), &small, &mut padded, whole.ty());
            let padded = Tensor::new(whole.ty().clone(), padded.freeze()).unwrap();
            for (position, &found) in padded.as_slice::<i32>().unwrap().iter().enumerate() {
                let index = [position / 12, position / 4 % 3, position % 4];
                let inside = index
                    .iter()
                    .zip(shape)
                    .all(|(index, extent)| index < extent);
                assert_eq!(found, if inside { position as i32 } else { 0 });
            }
        }
    }
}
