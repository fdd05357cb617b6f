//! The equation of `Einsum` (Einstein summation), applied to shapes.

use crate::ops::shapes::invalid;
use std::collections::BTreeMap;
use std::fmt;
use tenon_base::Result;
use tenon_tensor::Shape;

/// A dimension of an equation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Label {
    /// The dimension at this position of the ellipsis.
    Ellipsis(usize),
    /// The dimension of this letter.
    Letter(char),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Ellipsis(index) => write!(f, "dimension {index} of '...'"),
            Label::Letter(letter) => write!(f, "'{letter}'"),
        }
    }
}

/// An equation applied to shapes: a label for every dimension, an extent for every label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Equation {
    /// The labels of each input's dimensions.
    pub inputs: Vec<Vec<Label>>,
    /// The labels of the output's dimensions; all others are summed over.
    pub output: Vec<Label>,
    /// The extent of each label. A dimension of an input may be 1 instead and is then broadcast.
    pub extents: BTreeMap<Label, usize>,
}

impl Equation {
    /// Parses `text` and applies it to inputs of these shapes.
    pub fn new(text: &str, shapes: &[&Shape]) -> Result<Self> {
        let text: String = text.chars().filter(|c| *c != ' ').collect();
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (&*text, None),
        };
        let terms: Vec<&str> = left.split(',').collect();
        if terms.len() != shapes.len() {
            return Err(
                invalid("attribute 'equation' has the wrong number of terms")
                    .expected(format_args!("{}, one for each input", shapes.len()))
                    .found(format_args!("'{left}'")),
            );
        }
        let terms = terms
            .into_iter()
            .map(Term::new)
            .collect::<Result<Vec<_>>>()?;
        let ellipsis = ellipsis_rank(&terms, shapes)?;
        let inputs: Vec<Vec<Label>> = terms.iter().map(|term| term.labels(ellipsis)).collect();
        let extents = extents(&inputs, shapes)?;
        let output = match right {
            Some(right) => explicit(&Term::new(right)?.labels(ellipsis), &extents)?,
            None => implicit(&inputs, ellipsis),
        };
        Ok(Self {
            inputs,
            output,
            extents,
        })
    }

    /// The shape of the output.
    pub fn shape(&self) -> Shape {
        let extent = |label| self.extents.get(label).copied().unwrap_or(1);
        Shape::new(self.output.iter().map(extent).collect::<Vec<_>>())
    }
}

/// One side of a comma: letters before and after the ellipsis.
struct Term {
    before: Vec<char>,
    after: Vec<char>,
    ellipsis: bool,
}

impl Term {
    fn new(text: &str) -> Result<Self> {
        let (before, after, ellipsis) = match text.split_once("...") {
            Some((before, after)) => (before, after, true),
            None => (text, "", false),
        };
        if let Some(other) = before
            .chars()
            .chain(after.chars())
            .find(|c| !c.is_ascii_alphabetic())
        {
            return Err(invalid("attribute 'equation' holds an unknown character")
                .expected("letters, '...', ',' and '->'")
                .found(format_args!("'{other}'")));
        }
        Ok(Self {
            before: before.chars().collect(),
            after: after.chars().collect(),
            ellipsis,
        })
    }

    /// The number of dimensions that the ellipsis represents in a tensor of `rank` dimensions.
    fn ellipsis_rank(&self, rank: usize, input: usize) -> Result<usize> {
        let letters = self.before.len() + self.after.len();
        match rank.checked_sub(letters) {
            Some(0) => Ok(0),
            Some(hidden) if self.ellipsis => Ok(hidden),
            _ => Err(
                invalid(format!("input {input} does not fit its term of 'equation'"))
                    .expected(format_args!("{letters} dimensions"))
                    .found(rank),
            ),
        }
    }

    /// The labels, for an ellipsis of `ellipsis` dimensions.
    fn labels(&self, ellipsis: usize) -> Vec<Label> {
        let hidden = if self.ellipsis { 0..ellipsis } else { 0..0 };
        let before = self.before.iter().map(|&letter| Label::Letter(letter));
        let after = self.after.iter().map(|&letter| Label::Letter(letter));
        before
            .chain(hidden.map(Label::Ellipsis))
            .chain(after)
            .collect()
    }
}

/// The number of dimensions that each ellipsis represents, which must be equal (ONNX, Einsum).
fn ellipsis_rank(terms: &[Term], shapes: &[&Shape]) -> Result<usize> {
    let mut common = None;
    for (index, (term, shape)) in terms.iter().zip(shapes).enumerate() {
        let hidden = term.ellipsis_rank(shape.len(), index)?;
        if term.ellipsis && *common.get_or_insert(hidden) != hidden {
            return Err(
                invalid("'...' of 'equation' represents different counts of dimensions")
                    .expected(common.unwrap_or_default())
                    .found(format_args!("{hidden} in input {index}")),
            );
        }
    }
    Ok(common.unwrap_or_default())
}

fn extents(inputs: &[Vec<Label>], shapes: &[&Shape]) -> Result<BTreeMap<Label, usize>> {
    let mut extents = BTreeMap::new();
    for (labels, shape) in inputs.iter().zip(shapes) {
        for (&label, &extent) in labels.iter().zip(shape.iter()) {
            let known = extents.entry(label).or_insert(extent);
            if *known == 1 {
                *known = extent;
            } else if extent != 1 && extent != *known {
                return Err(invalid(format!("{label} of 'equation' has two extents"))
                    .expected(*known)
                    .found(extent));
            }
        }
    }
    Ok(extents)
}

fn explicit(labels: &[Label], extents: &BTreeMap<Label, usize>) -> Result<Vec<Label>> {
    for (index, label) in labels.iter().enumerate() {
        if !extents.contains_key(label) {
            return Err(invalid(format!(
                "{label} of the output of 'equation' is in no input"
            )));
        }
        if labels[..index].contains(label) {
            return Err(invalid(format!(
                "{label} occurs twice in the output of 'equation'"
            )));
        }
    }
    Ok(labels.to_vec())
}

/// Without `->`: the ellipsis, then the letters that occur once, in alphabetical order.
fn implicit(inputs: &[Vec<Label>], ellipsis: usize) -> Vec<Label> {
    let mut counts = BTreeMap::new();
    for label in inputs.iter().flatten() {
        *counts.entry(*label).or_insert(0) += 1;
    }
    let letters = counts
        .into_iter()
        .filter(|(label, count)| matches!(label, Label::Letter(_)) && *count == 1);
    (0..ellipsis)
        .map(Label::Ellipsis)
        .chain(letters.map(|(label, _)| label))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str, shapes: &[&[usize]]) -> Result<Vec<usize>> {
        let shapes: Vec<Shape> = shapes.iter().map(|&dims| Shape::new(dims)).collect();
        let all: Vec<&Shape> = shapes.iter().collect();
        Ok(Equation::new(text, &all)?.shape().to_vec())
    }

    #[test]
    fn equations_determine_the_output_shape() {
        assert_eq!(shape("ij,jk->ik", &[&[2, 3], &[3, 4]]).unwrap(), [2, 4]);
        assert_eq!(shape("ij,jk", &[&[2, 3], &[3, 4]]).unwrap(), [2, 4]);
        assert_eq!(shape("ii->i", &[&[3, 3]]).unwrap(), [3]);
        assert_eq!(shape("ii", &[&[3, 3]]).unwrap(), [0usize; 0]);
        assert_eq!(
            shape("...ij, ...jk -> ...ik", &[&[5, 2, 3], &[1, 3, 4]]).unwrap(),
            [5, 2, 4]
        );
        assert_eq!(shape("b...->...", &[&[5, 2, 3]]).unwrap(), [2, 3]);
        assert_eq!(shape("ba", &[&[2, 3]]).unwrap(), [3, 2]);
    }

    #[test]
    fn equations_that_do_not_fit_are_errors() {
        assert!(shape("ij,jk->ik", &[&[2, 3], &[4, 4]]).is_err());
        assert!(shape("ij->ik", &[&[2, 3]]).is_err());
        assert!(shape("ij->ii", &[&[2, 3]]).is_err());
        assert!(shape("i", &[&[2, 3]]).is_err());
        assert!(shape("i,j", &[&[2]]).is_err());
        assert!(shape("i1", &[&[2, 3]]).is_err());
        assert!(shape("......", &[&[2, 3]]).is_err());
        assert!(shape("...ij,...jk->...ik", &[&[5, 2, 3], &[3, 4]]).is_err());
    }
}
