//! Constants in the prepared layout that the kernels read: from the package where it has them, else
//! prepared when the workload is created.

use crate::panels;
use crate::simd::typed_gemm::{bytes_mut, bytes_of};
use tenon_backend::{Prepared, WorkloadSpec};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{Buffer, BufferMut, DataType, Tensor, TensorType, convert};

/// The preparation of a constant.
pub(crate) struct Preparation<'a> {
    /// The input's index.
    pub(crate) input: usize,
    /// The tag of the layout.
    pub(crate) layout: &'static str,
    /// Elements of the prepared form, of 32 bits.
    pub(crate) len: usize,
    /// Writes the prepared form of plain elements.
    pub(crate) fill: Fill<'a>,
}

/// How plain elements become the prepared form. Functions only move elements, and pad with zeros.
#[derive(Clone, Copy)]
pub(crate) enum Fill<'a> {
    /// Elements converted to f32.
    Floats(&'a dyn Fn(&[f32], &mut [f32])),
    /// Elements of 8 bits, each of which is then combined with these bits (exclusive or).
    Bytes(&'a dyn Fn(&[u8], &mut [u8]), u8),
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
        let data = match self.fill {
            Fill::Floats(fill) => {
                let constant = convert(constant, DataType::F32)?;
                let elements = constant.as_slice::<f32>().ok_or_else(|| self.missing())?;
                panels::buffer(self.len, |to| fill(elements, to))?
            }
            Fill::Bytes(fill, flip) => {
                let bytes = constant.bytes();
                panels::buffer(self.len, |to| {
                    fill(bytes, bytes_mut(to));
                    bytes_mut(to).iter_mut().for_each(|byte| *byte ^= flip);
                })?
            }
        };
        Ok(Prepared {
            input: self.input,
            layout: self.layout.into(),
            data,
            invertible: true,
        })
    }

    /// The plain form of the constant, from its prepared form; `None` when that has a different layout.
    pub(crate) fn plain(&self, spec: &WorkloadSpec) -> Result<Option<Tensor>> {
        let Some(input) = spec.inputs.get(self.input).and_then(Option::as_ref) else {
            return Ok(None);
        };
        let count = input.ty.elements();
        let (Some(prepared), Ok(last)) = (self.stored(spec), u32::try_from(count)) else {
            return Ok(None);
        };
        let moved = self.moved(last)?;
        let plain = match self.fill {
            Fill::Floats(_) => {
                let plain = panels::buffer(count, |plain| {
                    move_back(&moved, prepared.elements(), plain);
                })?;
                let wide = TensorType::new(DataType::F32, input.ty.shape().clone())?;
                // Exact: the elements were of this type before.
                convert(&Tensor::new(wide, plain)?, input.ty.dtype())?
            }
            Fill::Bytes(_, flip) => {
                let mut plain = BufferMut::zeroed(count)?;
                move_back(&moved, bytes_of(prepared.elements()), &mut plain);
                plain.iter_mut().for_each(|byte| *byte ^= flip);
                Tensor::new(input.ty.clone(), plain.freeze())?
            }
        };
        let found = moved.iter().filter(|&&index| index != 0).count();
        if found != count {
            let text = format!("the layout '{}' lost elements of a constant", self.layout);
            return Err(Error::new(ErrorKind::Internal, text)
                .expected(count)
                .found(found));
        }
        Ok(Some(plain))
    }

    /// For each element of the prepared form the plain element's index, counted from 1 to `last`; 0 for padding. It is
    /// found by preparing the indices: as the bits of f32, or byte after byte.
    fn moved(&self, last: u32) -> Result<Vec<u32>> {
        let count = last as usize;
        let mut moved = Vec::new();
        match self.fill {
            Fill::Floats(fill) => {
                let indices = panels::buffer(count, |indices| {
                    for (bits, index) in indices.iter_mut().zip(1..=last) {
                        *bits = f32::from_bits(index);
                    }
                })?;
                let indices = Weights(indices);
                let to = Weights(panels::buffer(self.len, |to| fill(indices.elements(), to))?);
                moved.extend(to.elements().iter().map(|bits| bits.to_bits()));
            }
            Fill::Bytes(fill, _) => {
                moved.resize(self.len * size_of::<f32>(), 0);
                let mut digits = BufferMut::zeroed(count)?;
                for digit in 0..size_of::<u32>() {
                    for (byte, index) in digits.iter_mut().zip(1..=last) {
                        *byte = index.to_le_bytes()[digit];
                    }
                    let to = panels::buffer(self.len, |to| fill(&digits, bytes_mut(to)))?;
                    for (moved, &byte) in moved.iter_mut().zip(to.iter()) {
                        *moved |= u32::from(byte) << (8 * digit);
                    }
                }
            }
        }
        Ok(moved)
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

/// Moves prepared elements to their plain positions, counted from 1.
fn move_back<T: Copy>(moved: &[u32], from: &[T], to: &mut [T]) {
    for (&index, &element) in moved.iter().zip(from) {
        if let Some(to) = (index as usize)
            .checked_sub(1)
            .and_then(|index| to.get_mut(index))
        {
            *to = element;
        }
    }
}

/// A constant in prepared form: a buffer of f32 or of words.
#[derive(Debug, Clone)]
pub(crate) struct Weights(Buffer);

impl Weights {
    #[inline]
    pub(crate) fn elements(&self) -> &[f32] {
        self.0.as_slice().unwrap_or(&[])
    }
}
