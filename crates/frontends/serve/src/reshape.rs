//! What Triton's configurations say about an input or output beside its name: `dims`, `reshape` and `format`.

use crate::port::{Format, Port};
use crate::status::{Refusal, Status};
use tenon::{Error, ErrorKind, Result, Tensor};

/// The settings of an input or output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortSettings {
    /// The order of the dimensions of an image.
    pub format: Format,
    /// The extents that callers see, and those of the model, both without the batch; -1 for those that requests choose.
    /// They have as many elements, and as many extents of -1.
    pub reshape: Option<(Vec<i64>, Vec<i64>)>,
}

/// An input or output that has another shape for callers than for the model, of the same elements.
#[derive(Debug)]
pub struct Reshape {
    caller: Vec<i64>,
    model: Vec<i64>,
}

impl PortSettings {
    /// Whether they say nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Changes the port of a model to that of callers. With `has_batch` the batch is before the extents.
    ///
    /// # Errors
    /// A shape that the model does not have.
    pub fn apply(&self, port: &mut Port, has_batch: bool) -> Result<Option<Reshape>> {
        port.format = self.format;
        let Some((dims, shape)) = &self.reshape else {
            return Ok(None);
        };
        let with_batch = |extents: &[i64]| match has_batch {
            true => [&[-1], extents].concat(),
            false => extents.to_vec(),
        };
        let (caller, model) = (with_batch(dims), with_batch(shape));
        let mut pairs = port.shape.iter().zip(&model);
        if port.shape.len() != model.len()
            || !pairs.all(|(&one, &other)| one == -1 || other == -1 || one == other)
        {
            let text = format!(
                "reshape: '{}' of the model has the shape {:?}, the configuration has {model:?}",
                port.name, port.shape
            );
            return Err(Error::new(ErrorKind::BadInput, text));
        }
        port.shape.clone_from(&caller);
        Ok(Some(Reshape { caller, model }))
    }
}

impl Reshape {
    /// The input of the model, without a copy.
    ///
    /// # Errors
    /// None for a tensor of the shape that callers see.
    pub fn for_model(&self, tensor: &Tensor) -> std::result::Result<Tensor, Refusal> {
        reshaped(tensor, &self.caller, &self.model)
    }

    /// The output for callers, without a copy.
    ///
    /// # Errors
    /// An output of another shape than the configuration has.
    pub fn for_caller(&self, tensor: &Tensor) -> std::result::Result<Tensor, Refusal> {
        reshaped(tensor, &self.model, &self.caller)
    }
}

/// Extents of -1 keep their sizes and their order.
fn reshaped(tensor: &Tensor, from: &[i64], to: &[i64]) -> std::result::Result<Tensor, Refusal> {
    let shape = tensor.shape();
    let mut chosen = shape.iter().zip(from).filter(|(_, from)| **from == -1);
    let extents = to.iter().map(|&extent| match usize::try_from(extent) {
        Ok(extent) => extent,
        Err(_) => chosen.next().map_or(1, |(extent, _)| *extent),
    });
    let reshaped = tensor.reshaped(extents.collect::<Vec<_>>());
    reshaped.map_err(|_| {
        let text = format!(
            "reshape: a tensor of shape {:?}, expected {from:?}",
            &shape[..]
        );
        Refusal::new(Status::Internal, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(shape: &[i64]) -> Port {
        Port {
            name: "x".into(),
            dtype: tenon::DataType::F32,
            datatype: "FP32",
            shape: shape.into(),
            format: Format::None,
        }
    }

    #[test]
    fn extents_that_requests_choose_keep_their_order() {
        let settings = PortSettings {
            reshape: Some((vec![-1, 3, -1], vec![1, -1, -1, 3])),
            ..PortSettings::default()
        };
        let mut port = port(&[-1, 1, -1, -1, 3]);
        let reshape = settings.apply(&mut port, true).unwrap().unwrap();
        assert_eq!(port.shape, [-1, -1, 3, -1]);
        let tensor = Tensor::zeroed("f32[2, 4, 3, 5]".parse().unwrap()).unwrap();
        let inner = reshape.for_model(&tensor).unwrap();
        assert_eq!(inner.shape()[..], [2, 1, 4, 5, 3]);
        assert_eq!(
            reshape.for_caller(&inner).unwrap().shape()[..],
            [2, 4, 3, 5]
        );
        let other = Tensor::zeroed("f32[2, 4]".parse().unwrap()).unwrap();
        assert!(reshape.for_caller(&other).is_err());
        // The model has another shape.
        port.shape = vec![-1, 3];
        assert!(settings.apply(&mut port, true).is_err());
    }
}
