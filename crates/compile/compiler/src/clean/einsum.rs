//! Einsum as transposes, sums, elementwise products and matrix products, which backends have fast kernels
//! for. Terms are multiplied from left to right. A label twice in a term selects a
//! diagonal, a Slice with steps.

use crate::rewrite::{Outcome, Rewriter};
use std::collections::BTreeMap;
use tenon_base::Result;
use tenon_graph::geometry::{Equation, Label};
use tenon_graph::{Attribute, Attributes, Node, Tensor, ValueId};

/// A tensor with a label for each dimension, all of them of extents other than 1.
struct Term {
    value: ValueId,
    labels: Vec<Label>,
}

/// One rewrite of an Einsum.
struct Expansion<'r, 'g> {
    rewriter: &'r mut Rewriter<'g>,
    /// The name of the emitted nodes.
    name: String,
    extents: BTreeMap<Label, usize>,
    output: Vec<Label>,
}

pub(crate) fn einsum(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    if node.op.name != "Einsum" {
        return Ok(Outcome::Keep);
    }
    let inputs: Option<Vec<ValueId>> = node.inputs.iter().copied().collect();
    let (Some(inputs), Some(&Some(output))) = (inputs, node.outputs.first()) else {
        return Ok(Outcome::Keep);
    };
    let mut shapes = Vec::new();
    for &input in &inputs {
        shapes.push(rewriter.shape(input)?.clone());
    }
    let text = node.attributes.string("equation", "")?.to_owned();
    let equation = Equation::new(&text, &shapes.iter().collect::<Vec<_>>())?;
    let shape = rewriter.shape(output)?.to_vec();
    let mut expansion = Expansion {
        rewriter,
        name: node.name.clone(),
        extents: equation.extents,
        output: equation.output,
    };
    let mut terms = Vec::new();
    for ((value, labels), shape) in inputs.into_iter().zip(equation.inputs).zip(&shapes) {
        let labels = labels.into_iter().zip(shape.iter());
        let labels = labels.filter(|&(_, &extent)| extent != 1);
        let labels = labels.map(|(label, _)| label).collect();
        let term = expansion.reshaped(Term { value, labels })?;
        terms.push(expansion.diagonals(term)?);
    }
    let mut terms = terms.into_iter();
    let Some(mut result) = terms.next() else {
        return Ok(Outcome::Keep);
    };
    let mut later: Vec<Term> = terms.collect();
    result = expansion.summed(result, &later)?;
    while !later.is_empty() {
        let next = later.remove(0);
        // Labels of this term alone; those that it shares are summed by the product.
        let others: Vec<&Term> = later.iter().chain([&result]).collect();
        let next = expansion.summed_over(next, |label| {
            others.iter().any(|term| term.labels.contains(&label))
        })?;
        result = expansion.product(result, next, &later)?;
    }
    let order: Vec<Label> = expansion.output.clone();
    let order = order
        .into_iter()
        .filter(|label| result.labels.contains(label));
    let result = expansion.transposed(&result, &order.collect::<Vec<_>>())?;
    if **rewriter.shape(result.value)? == shape {
        return Ok(Outcome::Forward(vec![Some(result.value)]));
    }
    rewriter
        .reshaped_node(node, result.value, &shape)
        .map(Outcome::Replace)
}

impl Expansion<'_, '_> {
    fn extents(&self, labels: &[Label]) -> Vec<usize> {
        let extent = |label| self.extents.get(label).copied().unwrap_or(1);
        labels.iter().map(extent).collect()
    }

    /// The elements of the dimensions of `labels`.
    fn elements(&self, labels: &[Label]) -> usize {
        self.extents(labels).iter().product()
    }

    fn reshape(&mut self, value: ValueId, shape: &[usize]) -> Result<ValueId> {
        if **self.rewriter.shape(value)? == *shape {
            return Ok(value);
        }
        self.rewriter.reshape(&self.name, value, shape)
    }

    /// The term with exactly the dimensions of its labels.
    fn reshaped(&mut self, term: Term) -> Result<Term> {
        let shape = self.extents(&term.labels);
        let value = self.reshape(term.value, &shape)?;
        Ok(Term { value, ..term })
    }

    /// The term with each label once: two dimensions of a label are the last ones of the transposed
    /// term, merged to one, whose elements `extent + 1` apart are the diagonal.
    fn diagonals(&mut self, mut term: Term) -> Result<Term> {
        let repeated = |labels: &[Label]| {
            let mut pairs = (0..labels.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
            pairs.find(|&(a, b)| labels[a] == labels[b])
        };
        while let Some((a, b)) = repeated(&term.labels) {
            let label = term.labels[a];
            let others = (0..term.labels.len()).filter(|&axis| axis != a && axis != b);
            let perm: Vec<usize> = others.clone().chain([a, b]).collect();
            let mut value = term.value;
            if !perm.is_sorted() {
                value = self.rewriter.transpose(&self.name, value, &perm)?;
            }
            let mut labels: Vec<Label> = others.map(|axis| term.labels[axis]).collect();
            let extent = self.elements(&[label]);
            let merged = [self.extents(&labels), vec![extent * extent]].concat();
            value = self.reshape(value, &merged)?;
            let axis = labels.len() as i64;
            let parameters = [
                ("starts", 0),
                ("ends", (extent * extent) as i64),
                ("axes", axis),
                ("steps", extent as i64 + 1),
            ];
            let mut inputs = vec![Some(value)];
            for (name, number) in parameters {
                let tensor = Tensor::from_slice([1], &[number])?;
                let base = format!("{}.{name}", self.name);
                inputs.push(Some(self.rewriter.add_constant(&base, tensor)));
            }
            let value = self
                .rewriter
                .emit(&self.name, "Slice", Attributes::new(), &inputs)?;
            labels.push(label);
            term = Term { value, labels };
        }
        Ok(term)
    }

    fn transposed(&mut self, term: &Term, order: &[Label]) -> Result<Term> {
        let position = |label| term.labels.iter().position(|own| own == label);
        let perm: Vec<usize> = order.iter().filter_map(position).collect();
        let value = if perm.is_sorted() {
            term.value
        } else {
            self.rewriter.transpose(&self.name, term.value, &perm)?
        };
        let labels = order.to_vec();
        Ok(Term { value, labels })
    }

    /// The sum over the labels that neither the output nor a later term has.
    fn summed(&mut self, term: Term, later: &[Term]) -> Result<Term> {
        self.summed_over(term, |label| {
            later.iter().any(|term| term.labels.contains(&label))
        })
    }

    fn summed_over(&mut self, term: Term, is_needed: impl Fn(Label) -> bool) -> Result<Term> {
        let keeps = |label: &Label| self.output.contains(label) || is_needed(*label);
        let axes = term.labels.iter().enumerate();
        let axes = axes.filter(|(_, label)| !keeps(label));
        let axes: Vec<i64> = axes.map(|(axis, _)| axis as i64).collect();
        if axes.is_empty() {
            return Ok(term);
        }
        let labels = term.labels.iter().copied().filter(keeps).collect();
        let axes = Tensor::from_slice([axes.len()], &axes)?;
        let axes = self
            .rewriter
            .add_constant(&format!("{}.axes", self.name), axes);
        let attributes = Attributes::new().with("keepdims", Attribute::Int(0));
        let inputs = [Some(term.value), Some(axes)];
        let value = self
            .rewriter
            .emit(&self.name, "ReduceSum", attributes, &inputs)?;
        Ok(Term { value, labels })
    }

    /// Labels in the order of the output; others after them.
    fn sorted(&self, mut labels: Vec<Label>) -> Vec<Label> {
        labels.sort_by_key(|label| {
            let position = self.output.iter().position(|own| own == label);
            position.unwrap_or(usize::MAX)
        });
        labels
    }

    /// The product of two terms, summed over the shared labels that are not needed later.
    fn product(&mut self, a: Term, b: Term, later: &[Term]) -> Result<Term> {
        let needed = |label: &Label| {
            self.output.contains(label) || later.iter().any(|term| term.labels.contains(label))
        };
        let shared = |label: &&Label| a.labels.contains(label) && b.labels.contains(label);
        let all = || a.labels.iter().filter(shared).copied();
        let batch = self.sorted(all().filter(needed).collect());
        let contracted: Vec<Label> = all().filter(|label| !needed(label)).collect();
        let own = |term: &Term, other: &Term| -> Vec<Label> {
            let labels = term.labels.iter().copied();
            labels
                .filter(|label| !other.labels.contains(label))
                .collect()
        };
        let (own_a, own_b) = (own(&a, &b), own(&b, &a));
        if contracted.is_empty() {
            let labels = self.sorted(batch.into_iter().chain(own_a).chain(own_b).collect());
            let left = self.broadcast(&a, &labels)?;
            let right = self.broadcast(&b, &labels)?;
            let inputs = [Some(left), Some(right)];
            let value = self
                .rewriter
                .emit(&self.name, "Mul", Attributes::new(), &inputs)?;
            return Ok(Term { value, labels });
        }
        // The operand whose labels come first in the output is the left one.
        let first = |labels: &[Label]| {
            let position = |label| self.output.iter().position(|own| own == label);
            labels.iter().filter_map(position).min()
        };
        let swap = first(&own_b).is_some_and(|b| first(&own_a).is_none_or(|a| b < a));
        let ((a, own_a), (b, own_b)) = if swap {
            ((b, own_b), (a, own_a))
        } else {
            ((a, own_a), (b, own_b))
        };
        let left = self.matrices(&a, &batch, &own_a, &contracted)?;
        let right = self.matrices(&b, &batch, &contracted, &own_b)?;
        let inputs = [Some(left), Some(right)];
        let value = self
            .rewriter
            .emit(&self.name, "MatMul", Attributes::new(), &inputs)?;
        let labels = batch.into_iter().chain(own_a).chain(own_b).collect();
        self.reshaped(Term { value, labels })
    }

    /// The term with dimensions in the order of `labels`, of extent 1 where it has no such label.
    fn broadcast(&mut self, term: &Term, labels: &[Label]) -> Result<ValueId> {
        let own = |label: &&Label| term.labels.contains(label);
        let order: Vec<Label> = labels.iter().filter(own).copied().collect();
        let value = self.transposed(term, &order)?.value;
        let extents = labels.iter().map(|label| {
            if own(&label) {
                self.elements(&[*label])
            } else {
                1
            }
        });
        let shape: Vec<usize> = extents.collect();
        self.reshape(value, &shape)
    }

    /// The term as matrices, `[batch.., rows, columns]`.
    fn matrices(
        &mut self,
        term: &Term,
        batch: &[Label],
        rows: &[Label],
        columns: &[Label],
    ) -> Result<ValueId> {
        let shape = |first: &[Label], second: &[Label]| {
            let mut shape = self.extents(batch);
            shape.extend([self.elements(first), self.elements(second)]);
            shape
        };
        let (whole, swapped) = (shape(rows, columns), shape(columns, rows));
        let is_swapped = term.labels == [batch, columns, rows].concat();
        if is_swapped && !rows.is_empty() && !columns.is_empty() {
            // A transposed operand, which a matrix product reads in place.
            let value = self.reshape(term.value, &swapped)?;
            let mut perm: Vec<usize> = (0..swapped.len()).collect();
            perm.swap(swapped.len() - 1, swapped.len() - 2);
            return self.rewriter.transpose(&self.name, value, &perm);
        }
        let value = self
            .transposed(term, &[batch, rows, columns].concat())?
            .value;
        self.reshape(value, &whole)
    }
}
