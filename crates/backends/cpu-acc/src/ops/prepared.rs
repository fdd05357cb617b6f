//! Constants in the prepared layout that the kernels read: from the package where it has them, else
//! prepared when the workload is created.

use crate::floats::FloatType;
use crate::panels::{self, WIDTH, pair_rows, split_pairs};
use crate::simd::row_elements::{bytes_mut, bytes_of};
use std::borrow::Cow;
use tenon_backend::{Prepared, WorkloadSpec};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{Buffer, BufferMut, DataType, Packing, Tensor, TensorType, convert};

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
    /// Elements converted to f32, which become panels of `depth` rows; then pairs of rows are rounded to f16 or bf16.
    Pairs {
        fill: &'a dyn Fn(&[f32], &mut [f32]),
        depth: usize,
        float: FloatType,
    },
    /// Integers of at most 8 bits, a byte each; then the offset is subtracted from each (wrapping), and the bits of the
    /// layout are kept: 8 or 4.
    Integers {
        fill: &'a dyn Fn(&[u8], &mut [u8]),
        offset: u8,
        bits: usize,
    },
}

/// Bits of a word.
const WORD: usize = 32;

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
            Fill::Pairs { fill, depth, float } => {
                let constant = convert(constant, DataType::F32)?;
                let elements = constant.as_slice::<f32>().ok_or_else(|| self.missing())?;
                let floats = panels::buffer(self.floats(), |to| fill(elements, to))?;
                panels::buffer(self.len, |to| {
                    pair_rows(float, Weights(floats).elements(), depth, to);
                })?
            }
            Fill::Integers { fill, offset, bits } => {
                let bytes = unpacked(constant)?;
                let mut whole = BufferMut::zeroed(self.integers(bits))?;
                fill(&bytes, &mut whole);
                whole
                    .iter_mut()
                    .for_each(|it| *it = it.wrapping_sub(offset));
                panels::buffer(self.len, |to| pack(&whole, bits, bytes_mut(to)))?
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
            Fill::Floats(_) | Fill::Pairs { .. } => {
                let floats = match self.fill {
                    Fill::Pairs { depth, float, .. } => prepared.widened(float, depth)?,
                    _ => prepared,
                };
                let plain = panels::buffer(count, |plain| {
                    move_back(&moved, floats.elements(), plain);
                })?;
                let wide = TensorType::new(DataType::F32, input.ty.shape().clone())?;
                // Exact: the elements were of this type before.
                convert(&Tensor::new(wide, plain)?, input.ty.dtype())?
            }
            Fill::Integers { offset, bits, .. } => {
                let mut whole = BufferMut::zeroed(self.integers(bits))?;
                unpack(bytes_of(prepared.elements()), bits, &mut whole);
                let mut plain = BufferMut::zeroed(count)?;
                move_back(&moved, &whole, &mut plain);
                plain
                    .iter_mut()
                    .for_each(|it| *it = it.wrapping_add(offset));
                packed(&plain, &input.ty)?
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
            Fill::Floats(fill) | Fill::Pairs { fill, .. } => {
                let indices = panels::buffer(count, |indices| {
                    for (bits, index) in indices.iter_mut().zip(1..=last) {
                        *bits = f32::from_bits(index);
                    }
                })?;
                let indices = Weights(indices);
                let to = Weights(panels::buffer(self.floats(), |to| {
                    fill(indices.elements(), to);
                })?);
                moved.extend(to.elements().iter().map(|bits| bits.to_bits()));
            }
            Fill::Integers { fill, bits, .. } => {
                moved.resize(self.integers(bits), 0);
                let mut digits = BufferMut::zeroed(count)?;
                for digit in 0..size_of::<u32>() {
                    for (byte, index) in digits.iter_mut().zip(1..=last) {
                        *byte = index.to_le_bytes()[digit];
                    }
                    let mut to = BufferMut::zeroed(moved.len())?;
                    fill(&digits, &mut to);
                    for (moved, &byte) in moved.iter_mut().zip(to.iter()) {
                        *moved |= u32::from(byte) << (8 * digit);
                    }
                }
            }
        }
        Ok(moved)
    }

    /// Elements of the panels in f32.
    fn floats(&self) -> usize {
        match self.fill {
            Fill::Pairs { depth, .. } => {
                let panels = self.len / (depth.div_ceil(2) * WIDTH).max(1);
                panels.saturating_mul(depth).saturating_mul(WIDTH)
            }
            _ => self.len,
        }
    }

    /// Integers of the prepared form.
    fn integers(&self, bits: usize) -> usize {
        self.len.saturating_mul(WORD / bits)
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

/// The integers of a tensor, a byte each.
fn unpacked(tensor: &Tensor) -> Result<Cow<'_, [u8]>> {
    match Packing::of(tensor.dtype()) {
        None => Ok(Cow::Borrowed(tensor.bytes())),
        Some(packing) => {
            let mut bytes = vec![0; tensor.ty().elements()];
            packing.unpack(tensor.bytes(), 0, &mut bytes);
            Ok(Cow::Owned(bytes))
        }
    }
}

/// The tensor with the low bits of these bytes.
fn packed(bytes: &[u8], ty: &TensorType) -> Result<Tensor> {
    let packing = Packing::of(ty.dtype());
    let per_byte = packing.map_or(1, Packing::per_byte);
    let mut to = BufferMut::zeroed(bytes.len().div_ceil(per_byte))?;
    match packing {
        None => to.copy_from_slice(bytes),
        Some(packing) => {
            for (at, &byte) in bytes.iter().enumerate() {
                packing.set(&mut to, at, packing.wrapped(byte.into()));
            }
        }
    }
    Tensor::new(ty.clone(), to.freeze())
}

/// Packs the low bits of bytes, 8 or 4 of each.
fn pack(from: &[u8], bits: usize, to: &mut [u8]) {
    if bits == 8 {
        return to.copy_from_slice(from);
    }
    for (to, &[low, high]) in to.iter_mut().zip(from.as_chunks().0) {
        *to = low & 15 | high << 4;
    }
}

/// The reverse, without signs.
fn unpack(from: &[u8], bits: usize, to: &mut [u8]) {
    if bits == 8 {
        return to.copy_from_slice(from);
    }
    for (&byte, to) in from.iter().zip(to.as_chunks_mut().0) {
        *to = [byte & 15, byte >> 4];
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
    /// A buffer of f32.
    pub(crate) fn new(elements: Buffer) -> Self {
        Self(elements)
    }

    /// Panels of `depth` rows of this type in f32.
    pub(crate) fn widened(&self, float: FloatType, depth: usize) -> Result<Self> {
        if float == FloatType::F32 {
            return Ok(self.clone());
        }
        let panels = self.elements().len() / (depth.div_ceil(2) * WIDTH).max(1);
        let len = panels.saturating_mul(depth).saturating_mul(WIDTH);
        let floats = panels::buffer(len, |to| split_pairs(float, self.elements(), depth, to))?;
        Ok(Self(floats))
    }

    #[inline]
    pub(crate) fn elements(&self) -> &[f32] {
        self.0.as_slice().unwrap_or(&[])
    }
}
