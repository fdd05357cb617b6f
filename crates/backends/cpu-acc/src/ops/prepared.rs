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
            invertible: true,
        })
    }

    /// The plain form of the constant, from its prepared form; `None` when that is of another
    /// layout. `fill` only moves elements and pads with zeros, so the positions of the elements are
    /// found by preparing their numbers, counted from 1, as bits.
    pub(crate) fn plain(&self, spec: &WorkloadSpec) -> Result<Option<Tensor>> {
        let Some(input) = spec.inputs.get(self.input).and_then(Option::as_ref) else {
            return Ok(None);
        };
        let count = input.ty.elements();
        let (Some(prepared), Ok(last)) = (self.given(spec), u32::try_from(count)) else {
            return Ok(None);
        };
        let numbers = panels::buffer(count, |numbers| {
            for (number, index) in numbers.iter_mut().zip(1..=last) {
                *number = f32::from_bits(index);
            }
        })?;
        let numbers = Weights(numbers);
        let moved = Weights(panels::buffer(self.len, |to| {
            (self.fill)(numbers.numbers(), to);
        })?);
        let mut found = 0;
        let plain = panels::buffer(count, |plain| {
            let pairs = moved.numbers().iter().zip(prepared.numbers());
            for (number, &element) in pairs {
                let index = number.to_bits() as usize;
                if let Some(place) = index.checked_sub(1).and_then(|index| plain.get_mut(index)) {
                    *place = element;
                    found += 1;
                }
            }
        })?;
        if found != count {
            let text = format!("the layout '{}' lost elements of a constant", self.layout);
            return Err(Error::new(ErrorKind::Internal, text)
                .expected(count)
                .found(found));
        }
        Tensor::new(input.ty.clone(), plain).map(Some)
    }

    /// The prepared form: the given one when it is of this layout, else made now.
    pub(crate) fn find(&self, spec: &WorkloadSpec) -> Result<Weights> {
        match self.given(spec) {
            Some(given) => Ok(given),
            None => Ok(Weights(self.prepare(spec)?.data)),
        }
    }

    /// The prepared form that comes with the specification, when it is of this layout.
    fn given(&self, spec: &WorkloadSpec) -> Option<Weights> {
        let input = spec.inputs.get(self.input)?.as_ref()?;
        let (layout, buffer) = input.prepared.as_ref()?;
        let elements = buffer.as_slice::<f32>()?;
        (layout == self.layout && elements.len() == self.len).then(|| Weights(buffer.clone()))
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
