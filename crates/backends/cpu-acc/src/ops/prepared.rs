//! Constants in the prepared layout that the kernels read: from the package where it has them, else
//! prepared when the workload is created.

use crate::panels;
use tenon_backend::{Prepared, WorkloadSpec};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{Buffer, DataType, Tensor, TensorType, convert};

/// The preparation of a constant.
pub(crate) struct Preparation<'a> {
    /// The input's index.
    pub(crate) input: usize,
    /// The tag of the layout.
    pub(crate) layout: &'static str,
    /// Elements of the prepared form.
    pub(crate) len: usize,
    /// Writes the prepared form of plain elements.
    pub(crate) fill: &'a dyn Fn(&[f32], &mut [f32]),
}

impl Preparation<'_> {
    /// The prepared form for a plan; `None` if the specification has it.
    pub(crate) fn planned(&self, spec: &WorkloadSpec) -> Result<Option<Prepared>> {
        if self.stored(spec).is_some() {
            return Ok(None);
        }
        self.prepare(spec).map(Some)
    }

    /// Prepares the constant.
    fn prepare(&self, spec: &WorkloadSpec) -> Result<Prepared> {
        let constant = self.constant(spec).ok_or_else(|| self.missing())?;
        let constant = convert(constant, DataType::F32)?;
        let elements = constant.as_slice::<f32>().ok_or_else(|| self.missing())?;
        let data = panels::buffer(self.len, |to| (self.fill)(elements, to))?;
        Ok(Prepared {
            input: self.input,
            layout: self.layout.into(),
            data,
            invertible: true,
        })
    }

    /// The plain form of the constant, from its prepared form; `None` when that has a different
    /// layout. `fill` only moves elements and pads with zeros, so the inverse is found by preparing
    /// the elements' indices, counted from 1, as the bits of f32.
    pub(crate) fn plain(&self, spec: &WorkloadSpec) -> Result<Option<Tensor>> {
        let Some(input) = spec.inputs.get(self.input).and_then(Option::as_ref) else {
            return Ok(None);
        };
        let count = input.ty.elements();
        let (Some(prepared), Ok(last)) = (self.stored(spec), u32::try_from(count)) else {
            return Ok(None);
        };
        let indices = panels::buffer(count, |indices| {
            for (bits, index) in indices.iter_mut().zip(1..=last) {
                *bits = f32::from_bits(index);
            }
        })?;
        let indices = Weights(indices);
        let moved = Weights(panels::buffer(self.len, |to| {
            (self.fill)(indices.elements(), to);
        })?);
        let mut found = 0;
        let plain = panels::buffer(count, |plain| {
            let pairs = moved.elements().iter().zip(prepared.elements());
            for (bits, &element) in pairs {
                let index = bits.to_bits() as usize;
                if let Some(to) = index.checked_sub(1).and_then(|index| plain.get_mut(index)) {
                    *to = element;
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
        let wide = TensorType::new(DataType::F32, input.ty.shape().clone())?;
        // Exact: the elements were of this type before.
        convert(&Tensor::new(wide, plain)?, input.ty.dtype()).map(Some)
    }

    /// The prepared form: that of the specification when it has this layout, else prepared now.
    pub(crate) fn find(&self, spec: &WorkloadSpec) -> Result<Weights> {
        match self.stored(spec) {
            Some(stored) => Ok(stored),
            None => Ok(Weights(self.prepare(spec)?.data)),
        }
    }

    /// The prepared form of the specification, when it has this layout.
    fn stored(&self, spec: &WorkloadSpec) -> Option<Weights> {
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
            "input {} requires a constant of f32, or {} elements in the layout '{}'",
            self.input, self.len, self.layout
        );
        Error::new(ErrorKind::Unsupported, message)
    }
}

/// A constant in prepared form: a buffer of f32.
#[derive(Debug, Clone)]
pub(crate) struct Weights(Buffer);

impl Weights {
    #[inline]
    pub(crate) fn elements(&self) -> &[f32] {
        self.0.as_slice().unwrap_or(&[])
    }
}
