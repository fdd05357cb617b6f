//! Distinct elements or slices of a tensor.

use crate::Inference;
use crate::ops::shapes::axis;
use std::cmp::Ordering;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{DataType, Tensor, convert};

/// The result of `Unique`. The input is viewed as `[outer, extent, inner]`, and its slices along the
/// middle are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct UniqueElements {
    /// Elements before the axis.
    pub outer: usize,
    /// The number of slices.
    pub extent: usize,
    /// Elements after the axis.
    pub inner: usize,
    /// Whether there is an axis; otherwise each element is a slice.
    pub by_axis: bool,
    /// The distinct slices in order, each by its first occurrence.
    pub first: Vec<usize>,
    /// For each slice the index of its equal in `first`.
    pub inverse: Vec<usize>,
    /// The number of occurrences of each.
    pub counts: Vec<usize>,
}

/// Evaluates `Unique`; its input must be constant.
pub fn unique_elements(node: &Inference<'_>) -> Result<UniqueElements> {
    let x = node.input(0)?;
    let constant = node.constant(0).ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "input 'X' decides the output's shape, but its value is not known when compiling",
        )
    })?;
    let by_axis = node.attribute("axis").is_some();
    let (outer, extent, inner) = if by_axis {
        let at = node.attributes.int("axis", 0)?;
        let at = axis(at, x.shape().len(), "attribute 'axis'")?;
        let extents = |range: &[usize]| range.iter().product::<usize>();
        let shape = x.shape();
        (extents(&shape[..at]), shape[at], extents(&shape[at + 1..]))
    } else {
        (1, x.elements(), 1)
    };
    if extent > 0 && (outer == 0 || inner == 0) {
        let message = "slices without elements, of which there may be any number";
        return Err(Error::new(ErrorKind::Unsupported, message).found(x));
    }
    let mut found = UniqueElements {
        outer,
        extent,
        inner,
        by_axis,
        first: Vec::new(),
        inverse: vec![0; extent],
        counts: Vec::new(),
    };
    found.fill(&keys(constant)?, node.attributes.flag("sorted", true)?);
    Ok(found)
}

impl UniqueElements {
    fn fill(&mut self, keys: &[i64], sorted: bool) {
        let order = |a: usize, b: usize| -> Ordering {
            for outer in 0..self.outer {
                let row = |at: usize| {
                    let start = (outer * self.extent + at) * self.inner;
                    &keys[start..start + self.inner]
                };
                match row(a).cmp(row(b)) {
                    Ordering::Equal => {}
                    other => return other,
                }
            }
            Ordering::Equal
        };
        let mut places: Vec<usize> = (0..self.extent).collect();
        places.sort_by(|&a, &b| order(a, b));
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for at in places {
            match groups.last_mut() {
                Some(group) if order(group[0], at) == Ordering::Equal => group.push(at),
                _ => groups.push(vec![at]),
            }
        }
        if !sorted {
            groups.sort_by_key(|group| group[0]);
        }
        for (nth, group) in groups.iter().enumerate() {
            self.first.push(group[0]);
            self.counts.push(group.len());
            group.iter().for_each(|&at| self.inverse[at] = nth);
        }
    }
}

/// Integers with the order and equality of the elements; NaN is the largest.
fn keys(tensor: &Tensor) -> Result<Vec<i64>> {
    if let Some(ints) = tensor.to_i64s() {
        return Ok(ints);
    }
    let unfit = || {
        let message = "no order for elements of this type";
        Error::new(ErrorKind::Unsupported, message).found(tensor.dtype())
    };
    if !tensor.dtype().is_float() {
        return Err(unfit());
    }
    let wide = convert(tensor, DataType::F64)?;
    let key = |&value: &f64| {
        if value.is_nan() {
            return i64::MAX;
        }
        // Zeros of both signs are equal; the order of the bits of negative values is reversed.
        let bits = (value + 0.0).to_bits() as i64;
        bits ^ (bits >> 63 & i64::MAX)
    };
    Ok(wide
        .as_slice::<f64>()
        .ok_or_else(unfit)?
        .iter()
        .map(key)
        .collect())
}
