//! Elements or slices that differ from each other.

use crate::Inference;
use crate::ops::shapes::axis;
use std::cmp::Ordering;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{DataType, Tensor, convert};

/// What `Unique` finds in its input. The input counts as `[outer, extent, inner]`; slices along the
/// middle are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct UniqueElements {
    /// Elements before the axis.
    pub outer: usize,
    /// Slices.
    pub extent: usize,
    /// Elements behind the axis.
    pub inner: usize,
    /// Whether there is an axis; without one all elements are slices of one element.
    pub by_axis: bool,
    /// The slices that stay, in order: where each stands first.
    pub first: Vec<usize>,
    /// For each slice which of those it equals.
    pub inverse: Vec<usize>,
    /// How often each occurs.
    pub counts: Vec<usize>,
}

/// What `Unique` finds; its input must be known when compiling.
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

/// Integers in the order of the elements; equal ones are equal, and NaN stands behind all.
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
        // Zeros are equal whatever their sign; negative numbers' bits grow the wrong way.
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
