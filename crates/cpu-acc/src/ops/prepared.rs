//! Constants in the form that the kernels read: taken from the package where they are there, made
//! otherwise.

use crate::panels;
use tenon_backend::{Prepared, WorkloadSpec};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{Buffer, Tensor};

/// How a constant is prepared.
pub(crate) struct Preparation<'a> {
    /// Which input.
    pub(crate) input: usize,
    /// The tag of the layout.
    pub(crate) layout: &'static str,
    /// Numbers of the prepared form.
    pub(crate) len: usize,
    /// Writes the prepared form of the plain numbers.
    pub(crate) fill: &'a dyn Fn(&[f32], &mut [f32]),
}

impl Preparation<'_> {
    /// Prepares the constant.
    pub(crate) fn prepare(&self, spec: &WorkloadSpec) -> Result<Prepared> {
        let constant = self.constant(spec).ok_or_else(|| self.missing())?;
        let numbers = constant.as_slice::<f32>().ok_or_else(|| self.missing())?;
        let data = panels::buffer(self.len, |to| (self.fill)(numbers, to))?;
        Ok(Prepared {
            input: self.input,
            layout: self.layout.into(),
            data,
        })
    }

    /// The prepared form: the given one when it is of this layout, else made now.
    pub(crate) fn find(&self, spec: &WorkloadSpec) -> Result<Weights> {
        let input = spec.inputs.get(self.input).and_then(Option::as_ref);
        let given = input.and_then(|input| input.prepared.as_ref());
        if let Some((layout, buffer)) = given
            && layout == self.layout
            && buffer
                .as_slice::<f32>()
                .is_some_and(|numbers| numbers.len() == self.len)
        {
            return Ok(Weights(buffer.clone()));
        }
        Ok(Weights(self.prepare(spec)?.data))
    }

    fn constant<'s>(&self, spec: &'s WorkloadSpec) -> Option<&'s Tensor> {
        spec.inputs.get(self.input)?.as_ref()?.constant.as_ref()
    }

    fn missing(&self) -> Error {
        let message = format!(
            "input {} is neither a constant of f32 nor {} numbers in the layout '{}'",
            self.input, self.len, self.layout
        );
        Error::new(ErrorKind::Unsupported, message)
    }
}

/// Numbers in prepared form; a whole number of f32, aligned for them.
#[derive(Debug, Clone)]
pub(crate) struct Weights(Buffer);

impl Weights {
    /// The numbers.
    #[inline]
    pub(crate) fn numbers(&self) -> &[f32] {
        self.0.as_slice().unwrap_or(&[])
    }
}
