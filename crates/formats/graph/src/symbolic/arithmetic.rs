//! Operators on small integer tensors whose elements are sizes: shapes of tensors, their parts and arithmetic.

use super::{MAX_ELEMENTS, SymbolicNode, position};
use tenon_base::Result;
use tenon_tensor::size::SizeExpr;
use tenon_tensor::{DataType, TensorType};

/// The elements of one tensor; `None` if they are no sizes.
type Elements = Option<Vec<SizeExpr>>;

impl SymbolicNode<'_> {
    /// The elements of the outputs that depend on sizes alone.
    pub(super) fn elements(&self) -> Result<Vec<Elements>> {
        let fits = |dtype: DataType| dtype == DataType::Bool || is_number(dtype);
        let small = self
            .outputs
            .iter()
            .all(|ty| ty.elements() <= MAX_ELEMENTS && fits(ty.dtype()));
        if !small {
            return Ok(Vec::new());
        }
        if self.op.name == "Split" {
            return self.split_elements();
        }
        Ok(vec![self.single()?])
    }

    fn single(&self) -> Result<Elements> {
        let symbols = self.symbols;
        // A quotient of floating-point values is not rounded.
        let is_float = |ty: &TensorType| matches!(ty.dtype(), DataType::F32 | DataType::F64);
        let floats = self.inputs.iter().flatten().any(|input| is_float(input.ty));
        if floats && matches!(self.op.name, "Div" | "Mod") {
            return Ok(None);
        }
        Ok(match self.op.name {
            "Floor" | "Ceil" | "Round" => self.of(0).map(<[SizeExpr]>::to_vec),
            "Shape" => Some(self.shape_elements()?),
            "Size" => Some(vec![self.product(&self.input(0)?.extents)?]),
            "Identity" | "Cast" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => {
                self.kept_elements()?
            }
            "Add" => self.elementwise(|a, b| a.plus(b).map(Some))?,
            "Sub" => self.elementwise(|a, b| a.minus(b).map(Some))?,
            "Mul" => self.elementwise(|a, b| a.times(b).map(Some))?,
            "Min" => self.elementwise(|a, b| symbols.min(a, b).map(Some))?,
            "Max" => self.elementwise(|a, b| symbols.max(a, b).map(Some))?,
            // Integer division truncates; it is the floor for operands that are not negative.
            "Div" => self.elementwise(|a, b| {
                let exact = symbols.range(a).is_at_least(0) && symbols.range(b).is_at_least(1);
                exact.then(|| symbols.floor_div(a, b)).transpose()
            })?,
            "Mod" => self.elementwise(|a, b| {
                let exact = symbols.range(a).is_at_least(0) && symbols.range(b).is_at_least(1);
                let rest = || a.minus(&symbols.floor_div(a, b)?.times(b)?);
                exact.then(rest).transpose()
            })?,
            "Equal" => self.elementwise(|a, b| self.compared(a, b, Comparison::Equal))?,
            "Less" => self.elementwise(|a, b| self.compared(a, b, Comparison::Less))?,
            "Greater" => self.elementwise(|a, b| self.compared(b, a, Comparison::Less))?,
            "GreaterOrEqual" => self.elementwise(|a, b| self.negated(a, b))?,
            "LessOrEqual" => self.elementwise(|a, b| self.negated(b, a))?,
            "Not" => self.mapped(|a| SizeExpr::from(1).minus(a))?,
            "Neg" => self.mapped(|a| SizeExpr::from(0).minus(a))?,
            "Where" => self.where_elements()?,
            "Concat" => self.concat_elements()?,
            "Gather" => self.gather_elements()?,
            "Slice" => self.slice_elements()?,
            "Expand" => self.expand_elements()?,
            "ReduceProd" => self.reduced(|a, b| a.times(b))?,
            "ReduceSum" => self.reduced(|a, b| a.plus(b))?,
            "ReduceMax" => self.reduced(|a, b| symbols.max(a, b))?,
            "ReduceMin" => self.reduced(|a, b| symbols.min(a, b))?,
            _ => None,
        })
    }

    /// The elements of an input, if they are known.
    fn of(&self, index: usize) -> Option<&[SizeExpr]> {
        self.optional(index)?.elements.as_deref()
    }

    fn shape_elements(&self) -> Result<Vec<SizeExpr>> {
        let extents = &self.input(0)?.extents;
        let rank = extents.len() as i64;
        let bound = |value: i64| (if value < 0 { value + rank } else { value }).clamp(0, rank);
        let start = bound(self.attributes.int("start", 0)?);
        let end = bound(self.attributes.int("end", rank)?).max(start);
        Ok(extents[start as usize..end as usize].to_vec())
    }

    /// The same elements in another shape, or of another data type.
    fn kept_elements(&self) -> Result<Elements> {
        let from = self.input(0)?.ty.dtype();
        let keeps =
            self.op.name != "Cast" || (is_number(from) && is_number(self.outputs[0].dtype()));
        Ok(self.of(0).filter(|_| keeps).map(<[SizeExpr]>::to_vec))
    }

    /// An operator on each pair of elements: of equal shapes, or with one element on a side.
    fn elementwise(
        &self,
        apply: impl Fn(&SizeExpr, &SizeExpr) -> Result<Option<SizeExpr>>,
    ) -> Result<Elements> {
        let Some(mut result) = self.of(0).map(<[SizeExpr]>::to_vec) else {
            return Ok(None);
        };
        for index in 1..self.inputs.len() {
            let Some(other) = self.of(index) else {
                return Ok(None);
            };
            let Some(pairs) = paired(&result, other) else {
                return Ok(None);
            };
            let results = pairs.into_iter().map(|(a, b)| apply(a, b));
            let results = results.collect::<Result<Option<Vec<_>>>>()?;
            let Some(results) = results else {
                return Ok(None);
            };
            result = results;
        }
        Ok(Some(result).filter(|result| result.len() == self.outputs[0].elements()))
    }

    fn mapped(&self, apply: impl Fn(&SizeExpr) -> Result<SizeExpr>) -> Result<Elements> {
        let elements = self.of(0);
        elements
            .map(|elements| elements.iter().map(apply).collect())
            .transpose()
    }

    /// 1 or 0, if the ranges decide it.
    fn compared(&self, a: &SizeExpr, b: &SizeExpr, by: Comparison) -> Result<Option<SizeExpr>> {
        let range = self.symbols.range(&a.minus(b)?);
        let (is, never) = match by {
            Comparison::Equal => (
                range.is_at_least(0) && range.is_at_most(0),
                range.is_at_least(1) || range.is_at_most(-1),
            ),
            Comparison::Less => (range.is_at_most(-1), range.is_at_least(0)),
        };
        Ok(match (is, never) {
            (true, _) => Some(1.into()),
            (_, true) => Some(0.into()),
            _ => None,
        })
    }

    /// Not less.
    fn negated(&self, a: &SizeExpr, b: &SizeExpr) -> Result<Option<SizeExpr>> {
        let less = self.compared(a, b, Comparison::Less)?;
        less.map(|less| SizeExpr::from(1).minus(&less)).transpose()
    }

    fn where_elements(&self) -> Result<Elements> {
        let (Some(condition), Some(yes), Some(no)) = (self.of(0), self.of(1), self.of(2)) else {
            return Ok(None);
        };
        let count = self.outputs[0].elements();
        let at = |list: &[SizeExpr], index: usize| match list {
            [one] => Some(one.clone()),
            _ if list.len() == count => Some(list[index].clone()),
            _ => None,
        };
        let element = |index: usize| match at(condition, index)?.constant()? {
            0 => at(no, index),
            _ => at(yes, index),
        };
        Ok((0..count).map(element).collect())
    }

    fn concat_elements(&self) -> Result<Elements> {
        if self.outputs[0].shape().len() != 1 {
            return Ok(None);
        }
        let lists = (0..self.inputs.len()).map(|index| self.of(index));
        let lists: Option<Vec<&[SizeExpr]>> = lists.collect();
        Ok(lists.map(|lists| lists.concat()))
    }

    fn gather_elements(&self) -> Result<Elements> {
        let (Some(data), Some(indices)) = (self.of(0), self.of(1)) else {
            return Ok(None);
        };
        if self.input(0)?.ty.shape().len() != 1 {
            return Ok(None);
        }
        let element = |index: &SizeExpr| {
            let index = index.constant()?;
            data.get(position(index, data.len())).cloned()
        };
        Ok(indices.iter().map(element).collect())
    }

    fn slice_elements(&self) -> Result<Elements> {
        let Some(data) = self.of(0) else {
            return Ok(None);
        };
        let one = |index: usize, default: i64| match self.of(index) {
            None => Some(default),
            Some([one]) => one.constant(),
            Some(_) => None,
        };
        let (start, end, step) = (one(1, 0), one(2, 0), one(4, 1));
        let (Some(start), Some(end), Some(step)) = (start, end, step) else {
            return Ok(None);
        };
        if self.input(0)?.ty.shape().len() != 1 || step < 1 {
            return Ok(None);
        }
        let length = data.len() as i64;
        let at = |index: i64| {
            let index = if index < 0 {
                index.saturating_add(length)
            } else {
                index
            };
            index.clamp(0, length) as usize
        };
        let (start, end) = (at(start), at(end));
        let part = data.get(start..end.max(start)).unwrap_or_default();
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        Ok(Some(part.iter().step_by(step).cloned().collect()))
    }

    fn expand_elements(&self) -> Result<Elements> {
        let fixed = self
            .of(1)
            .is_some_and(|shape| shape.iter().all(|extent| extent.constant().is_some()));
        Ok(match self.of(0) {
            Some([one]) if fixed => Some(vec![one.clone(); self.outputs[0].elements()]),
            _ => None,
        })
    }

    /// A reduction of all elements of a vector.
    fn reduced(
        &self,
        combine: impl Fn(&SizeExpr, &SizeExpr) -> Result<SizeExpr>,
    ) -> Result<Elements> {
        let vector = self.input(0)?.ty.shape().len() == 1 && self.outputs[0].elements() == 1;
        let Some([first, rest @ ..]) = self.of(0).filter(|_| vector) else {
            return Ok(None);
        };
        let reduced = rest
            .iter()
            .try_fold(first.clone(), |reduced, element| combine(&reduced, element));
        Ok(Some(vec![reduced?]))
    }

    fn split_elements(&self) -> Result<Vec<Elements>> {
        let Some(data) = self.of(0) else {
            return Ok(Vec::new());
        };
        if self.input(0)?.ty.shape().len() != 1 {
            return Ok(Vec::new());
        }
        let mut rest = data;
        let mut parts = Vec::new();
        for ty in self.outputs {
            let Some((part, after)) = rest.split_at_checked(ty.elements()) else {
                return Ok(Vec::new());
            };
            parts.push(Some(part.to_vec()));
            rest = after;
        }
        Ok(parts)
    }
}

/// Types of sizes: integers, and floating-point values that are integers.
fn is_number(dtype: DataType) -> bool {
    matches!(
        dtype,
        DataType::I64 | DataType::I32 | DataType::F32 | DataType::F64
    )
}

#[derive(Clone, Copy)]
enum Comparison {
    Equal,
    Less,
}

/// The pairs of elements of two tensors of the same shape, or of one element and a tensor.
fn paired<'a>(a: &'a [SizeExpr], b: &'a [SizeExpr]) -> Option<Vec<(&'a SizeExpr, &'a SizeExpr)>> {
    Some(match (a, b) {
        _ if a.len() == b.len() => a.iter().zip(b).collect(),
        ([a], _) => b.iter().map(|b| (a, b)).collect(),
        (_, [b]) => a.iter().map(|a| (a, b)).collect(),
        _ => return None,
    })
}
