//! The elements of constant weights.

use crate::index::Index;
use crate::products::Product;
use tenon_base::{Error, ErrorKind, Location, Result};

/// Weights with their elements.
pub(crate) struct Weights {
    pub(crate) dims: Vec<i64>,
    pub(crate) elements: Vec<f32>,
    /// Output channels.
    channels: usize,
    /// Elements from one channel to the next.
    stride: usize,
}

impl Weights {
    pub(crate) fn read(index: &Index<'_>, product: &Product<'_>) -> Result<Self> {
        let elements = elements(index, product.weights)?;
        let dims = index.constant(product.weights).map(|it| it.dims.clone());
        let dims = dims.unwrap_or_default();
        let axis = product.channel_axis;
        // Positive: `product` refuses others, and `elements` has that many elements.
        let stride = dims[axis + 1..].iter().product::<i64>() as usize;
        Ok(Self {
            channels: dims[axis] as usize,
            dims,
            elements,
            stride,
        })
    }

    /// The channel of an element.
    pub(crate) fn channel(&self, at: usize) -> usize {
        at / self.stride % self.channels
    }

    /// The greatest absolute element of each channel.
    pub(crate) fn greatest(&self) -> impl Iterator<Item = f32> {
        let mut greatest = vec![0.0f32; self.channels];
        for (at, element) in self.elements.iter().enumerate() {
            let greatest = &mut greatest[self.channel(at)];
            *greatest = greatest.max(element.abs());
        }
        greatest.into_iter()
    }
}

/// The elements of an f32 constant.
///
/// # Errors
/// Malformed data, and elements that are not finite.
pub(crate) fn elements(index: &Index<'_>, name: &str) -> Result<Vec<f32>> {
    let here = |error: Error| error.at(Location::field(format!("constant '{name}'")));
    let Some(proto) = index.constant(name) else {
        return Err(here(Error::new(ErrorKind::Internal, "not a constant")));
    };
    let tensor = tenon_onnx::tensor(proto).map_err(here)?;
    let elements = tensor.as_slice::<f32>().unwrap_or_default().to_vec();
    if let Some(element) = elements.iter().find(|element| !element.is_finite()) {
        let text = "weights to quantise are not finite";
        return Err(here(
            Error::new(ErrorKind::InvalidModel, text).found(element),
        ));
    }
    Ok(elements)
}
