//! Operators on sequences and optional values.

use super::{HostOperator, HostTensor, TensorList, invalid};
use tenon_base::{Error, ErrorKind, Result, bounded};
use tenon_executor::{Frame, Value};
use tenon_graph::operator::operator;
use tenon_graph::{Attribute, Attributes};
use tenon_tensor::Tensor;

impl HostOperator {
    /// The result of an operator on sequences or optional values.
    pub(super) fn list_result(&self, frame: &Frame<'_>) -> Result<Value> {
        let list = |index| self.list(frame, index);
        match self.op.name {
            "SequenceEmpty" => Ok(sequence(Vec::new())),
            "SequenceConstruct" => {
                let tensors = (0..self.inputs.len()).map(|index| self.tensor(frame, index));
                let tensors = tensors.collect::<Result<Vec<&Tensor>>>()?;
                Ok(sequence(tensors.into_iter().cloned().collect()))
            }
            "SequenceInsert" => {
                let tensors = list(0)?.lock();
                let length = tensors.len();
                let at = self.position(frame, 2, length, 1)?.unwrap_or(length);
                let mut made = bounded::with_capacity("tensors of a sequence", length + 1)?;
                made.extend_from_slice(&tensors[..at]);
                made.push(self.tensor(frame, 1)?.clone());
                made.extend_from_slice(&tensors[at..]);
                Ok(sequence(made))
            }
            "SequenceErase" => {
                let mut tensors = list(0)?.tensors();
                let last = tensors.len().checked_sub(1);
                let given = self.position(frame, 1, tensors.len(), 0)?;
                let at = given
                    .or(last)
                    .ok_or_else(|| wrong("the sequence is empty"))?;
                tensors.remove(at);
                Ok(sequence(tensors))
            }
            "SequenceAt" | "tenon.MapOperand" => {
                let tensors = list(0)?.lock();
                let at = self.position(frame, 1, tensors.len(), 0)?;
                let at = at.ok_or_else(|| invalid("a position is missing"))?;
                Ok(tensor(tensors[at].clone()))
            }
            "SequenceLength" => Ok(tensor(Tensor::scalar(list(0)?.lock().len() as i64)?)),
            "SplitToSequence" => self.split(frame),
            "ConcatFromSequence" => self.concat(&list(0)?.tensors()),
            "Optional" => match self.inputs.first() {
                None | Some(None) => Ok(Value::opaque(TensorList::absent())),
                Some(Some(index)) => {
                    let value = frame.operand(*index);
                    match value.downcast::<HostTensor>() {
                        Some(HostTensor(tensor)) => Ok(sequence(vec![tensor.clone()])),
                        None => Ok(sequence(list(0)?.tensors())),
                    }
                }
            },
            "OptionalHasElement" => {
                let present = match self.inputs.first() {
                    None | Some(None) => false,
                    Some(Some(_)) => list(0)?.is_present(),
                };
                Ok(tensor(Tensor::from_bools([], &[present])?))
            }
            _ => {
                let list = list(0)?;
                if !list.is_present() {
                    return Err(wrong("the optional value is absent"));
                }
                if self.attributes.value("kind").is_none() {
                    return Ok(sequence(list.tensors()));
                }
                let first = list.lock().first().cloned();
                first
                    .map(tensor)
                    .ok_or_else(|| invalid("an optional tensor without a tensor"))
            }
        }
    }

    /// SplitToSequence, by Split.
    fn split(&self, frame: &Frame<'_>) -> Result<Value> {
        let data = self.tensor(frame, 0)?;
        let axis = self.axis(data.shape().len())?;
        let extent = data.shape()[axis];
        let given = self.inputs.get(1).copied().flatten();
        let given = given.map(|_| self.tensor(frame, 1)).transpose()?;
        let sizes = match given {
            None => equal_parts(extent, 1)?,
            Some(given) => {
                let sizes = given.to_i64s().unwrap_or_default();
                match (sizes.as_slice(), given.shape().len()) {
                    (&[size], 0) => {
                        let size = usize::try_from(size).ok().filter(|&size| size > 0);
                        let size = size.ok_or_else(|| {
                            wrong("the size of the parts is not positive").found(sizes[0])
                        })?;
                        equal_parts(extent, size)?
                    }
                    _ => sizes,
                }
            }
        };
        if sizes.is_empty() {
            return Ok(sequence(Vec::new()));
        }
        let list = Tensor::from_slice([sizes.len()], &sizes)?;
        let attributes = Attributes::new().with("axis", Attribute::Int(axis as i64));
        let inputs = [Some(data), Some(&list)];
        let split = operator("Split").ok_or_else(|| invalid("no Split"))?;
        let mut parts = self.compute(split, &attributes, &inputs, &vec![true; sizes.len()])?;
        if given.is_none() && !self.attributes.flag("keepdims", true)? {
            for part in &mut parts {
                let mut shape = part.shape().to_vec();
                shape.remove(axis);
                *part = part.reshaped(shape)?;
            }
        }
        Ok(sequence(parts))
    }

    /// ConcatFromSequence, by Concat.
    fn concat(&self, tensors: &[Tensor]) -> Result<Value> {
        let new_axis = self.attributes.flag("new_axis", false)?;
        let first = tensors.first();
        let first = first.ok_or_else(|| wrong("the sequence is empty"))?;
        let axis = self.axis(first.shape().len() + usize::from(new_axis))?;
        let mut parts = tensors.to_vec();
        if new_axis {
            for part in &mut parts {
                let mut shape = part.shape().to_vec();
                shape.insert(axis.min(shape.len()), 1);
                *part = part.reshaped(shape)?;
            }
        }
        let attributes = Attributes::new().with("axis", Attribute::Int(axis as i64));
        let concat = operator("Concat").ok_or_else(|| invalid("no Concat"))?;
        let inputs: Vec<Option<&Tensor>> = parts.iter().map(Some).collect();
        let mut results = self.compute(concat, &attributes, &inputs, &[true])?;
        results
            .pop()
            .map(tensor)
            .ok_or_else(|| invalid("Concat has no result"))
    }

    /// The attribute `axis`, counted from the start.
    fn axis(&self, rank: usize) -> Result<usize> {
        let given = self.attributes.int("axis", 0)?;
        let axis = if given < 0 {
            given + rank as i64
        } else {
            given
        };
        let axis = usize::try_from(axis).ok().filter(|&axis| axis < rank);
        axis.ok_or_else(|| {
            wrong("attribute 'axis' is no dimension")
                .expected(format_args!("one of {rank} dimensions"))
                .found(given)
        })
    }

    /// The position that an input gives, less than the length plus `beyond`; counted from the end if it is negative.
    fn position(
        &self,
        frame: &Frame<'_>,
        index: usize,
        length: usize,
        beyond: usize,
    ) -> Result<Option<usize>> {
        if self.inputs.get(index).copied().flatten().is_none() {
            return Ok(None);
        }
        let given = self.tensor(frame, index)?.to_i64s();
        let given = given.and_then(|given| given.first().copied());
        let given = given.ok_or_else(|| wrong("a position is no integer"))?;
        let at = if given < 0 {
            given.saturating_add(length as i64)
        } else {
            given
        };
        let at = usize::try_from(at).ok().filter(|&at| at < length + beyond);
        at.map(Some).ok_or_else(|| {
            wrong("a position that the sequence does not have")
                .expected(format_args!("a position in {length} tensors"))
                .found(given)
        })
    }

    fn list<'a>(&self, frame: &'a Frame<'_>, index: usize) -> Result<&'a TensorList> {
        frame.object::<TensorList>(self.operand(index)?)
    }

    fn tensor<'a>(&self, frame: &'a Frame<'_>, index: usize) -> Result<&'a Tensor> {
        let tensor = frame.object::<HostTensor>(self.operand(index)?);
        tensor.map(|tensor| &tensor.0)
    }

    fn operand(&self, index: usize) -> Result<usize> {
        let operand = self.inputs.get(index).copied().flatten();
        operand.ok_or_else(|| invalid(format!("input {index} is missing")))
    }
}

/// The sizes of parts of `size` elements; the last one may be smaller. An extent may be large without any element.
fn equal_parts(extent: usize, size: usize) -> Result<Vec<i64>> {
    let count = extent.div_ceil(size);
    bounded::with_capacity::<Tensor>("parts of a tensor", count)?;
    let starts = (0..count).map(|part| part * size);
    bounded::collect(
        "sizes of parts",
        starts.map(|start| size.min(extent - start) as i64),
    )
}

fn sequence(tensors: Vec<Tensor>) -> Value {
    Value::opaque(TensorList::new(tensors))
}

fn tensor(tensor: Tensor) -> Value {
    Value::opaque(HostTensor(tensor))
}

fn wrong(message: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_bounded() {
        assert_eq!(equal_parts(7, 3).unwrap(), [3, 3, 1]);
        assert!(equal_parts(0, 3).unwrap().is_empty());
        let error = equal_parts(1 << 40, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    }
}
