//! Encoding of attributes (bef 1.4).

use super::wire::{PADDING, Writer};
use crate::{Attribute, Dense};
use std::collections::HashMap;
use tenon_base::{Error, ErrorKind, Result};

/// The Attributes section under construction: distinct attributes in the order of first use.
#[derive(Debug, Default)]
pub(crate) struct AttributeSection {
    pub(crate) body: Body,
    /// Offset and type code of every attribute, for AttributeTypes.
    pub(crate) entries: Vec<(u32, u8)>,
    offsets: HashMap<Vec<u8>, u32>,
}

impl AttributeSection {
    /// The offset of `attribute`, which is appended unless an equal one of the same type exists.
    pub(crate) fn offset_of(&mut self, attribute: &Attribute) -> Result<u32> {
        let key = sharing_key(attribute)?;
        if let Some(offset) = self.offsets.get(&key) {
            return Ok(*offset);
        }
        let offset = self.body.write(attribute)?;
        self.entries.push((offset, attribute.type_code()));
        self.offsets.insert(key, offset);
        Ok(offset)
    }
}

/// The key by which attributes share their bytes: type and encoded value. Floats are compared by
/// their bits, as in MLIR.
fn sharing_key(attribute: &Attribute) -> Result<Vec<u8>> {
    let mut alone = Body::default();
    alone.write(attribute)?;
    let mut key = alone.writer.bytes;
    key.push(attribute.type_code());
    Ok(key)
}

/// The bytes of attributes, each aligned as its type requires.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(crate) writer: Writer,
    /// Symbols are numbered in the order of writing.
    symbols: u64,
}

impl Body {
    /// Appends an attribute and returns its offset.
    fn write(&mut self, attribute: &Attribute) -> Result<u32> {
        match attribute {
            Attribute::String(text) => self.string(text),
            Attribute::Array(elements) => self.array(elements),
            Attribute::Aggregate(elements) => self.aggregate(elements),
            Attribute::Shape(extents) => self.shape(extents.as_deref()),
            Attribute::Dense(dense) => self.dense(dense),
            Attribute::Symbol { path, module } => self.symbol(path, module),
            Attribute::Foreign(text) => self.string(text),
            Attribute::Unit => self.offset(),
            number => {
                self.writer.align(number.fixed_size().unwrap_or(1));
                let offset = self.offset()?;
                put_number(&mut self.writer.bytes, number);
                Ok(offset)
            }
        }
    }

    fn offset(&self) -> Result<u32> {
        size(self.writer.position(), "the Attributes section")
    }

    fn string(&mut self, text: &str) -> Result<u32> {
        self.writer.align(4);
        let offset = self.offset()?;
        self.writer.u32(size(text.len(), "a string attribute")?);
        self.writer.raw(text.as_bytes());
        Ok(offset)
    }

    /// The count is placed so that the payload after it is aligned.
    fn array(&mut self, elements: &[Attribute]) -> Result<u32> {
        let alignment = elements
            .first()
            .and_then(Attribute::fixed_size)
            .unwrap_or(1);
        self.writer.align_after(alignment.max(4), 4);
        let offset = self.offset()?;
        self.writer.u32(size(elements.len(), "an array attribute")?);
        elements
            .iter()
            .for_each(|element| put_number(&mut self.writer.bytes, element));
        Ok(offset)
    }

    fn shape(&mut self, extents: Option<&[Option<i64>]>) -> Result<u32> {
        let Some(extents) = extents else {
            self.writer.align(4);
            let offset = self.offset()?;
            self.writer.u32(0);
            return Ok(offset);
        };
        self.writer.align_after(8, 12);
        let offset = self.offset()?;
        self.writer.raw(&[8, 0]);
        self.writer.u16(12);
        self.writer
            .u32(size(12 + 8 * extents.len(), "a shape attribute")?);
        self.writer.u32(size(extents.len(), "a shape attribute")?);
        for extent in extents {
            self.writer.raw(&extent.unwrap_or(-1).to_le_bytes());
        }
        Ok(offset)
    }

    fn dense(&mut self, dense: &Dense) -> Result<u32> {
        let what = "a dense attribute";
        let prefix = 20 + 8 * dense.shape.len();
        let count = dense.count().ok_or_else(|| too_large(what))?;
        self.writer.align_after(8, 20);
        let offset = self.offset()?;
        self.writer.raw(&[8, dense.dtype as u8]);
        self.writer
            .u16(prefix.try_into().map_err(|_| too_large(what))?);
        self.writer.u32(size(prefix + dense.data.len(), what)?);
        self.writer.u32(size(prefix, what)?);
        self.writer.u32(size(count, what)?);
        self.writer.u32(size(dense.shape.len(), what)?);
        for extent in &dense.shape {
            self.writer.raw(&extent.to_le_bytes());
        }
        self.writer.raw(&dense.data);
        Ok(offset)
    }

    /// A header with relative offsets, then the elements, each preceded by its type code.
    fn aggregate(&mut self, elements: &[Attribute]) -> Result<u32> {
        let what = "an aggregate attribute";
        let prefix = 12 + 4 * elements.len();
        let alignment = elements
            .iter()
            .map(alignment_in_aggregate)
            .max()
            .unwrap_or(4)
            .max(4);
        self.writer.align_after(alignment, prefix);
        let offset = self.offset()?;
        let start = self.writer.position();
        self.writer.raw(&[alignment as u8, 0]);
        self.writer
            .u16(prefix.try_into().map_err(|_| too_large(what))?);
        self.writer.raw(&vec![0; prefix - 4]);
        let mut header = Writer::new();
        header.u32(0);
        header.u32(size(elements.len(), what)?);
        for element in elements {
            self.writer.byte(PADDING);
            let element_offset = self.write(element)?;
            if let Some(tag) = self
                .writer
                .bytes
                .get_mut((element_offset as usize).wrapping_sub(1))
            {
                *tag = element.type_code();
            }
            header.u32(element_offset - offset);
        }
        let total = size(self.writer.position() - start, what)?;
        self.writer.bytes[start + 4..start + prefix].copy_from_slice(&header.bytes);
        self.writer.bytes[start + 4..start + 8].copy_from_slice(&total.to_le_bytes());
        Ok(offset)
    }

    fn symbol(&mut self, path: &[String], module: &str) -> Result<u32> {
        let offset = self.offset()?;
        let (root, nested) = path
            .split_first()
            .map_or(("", &[][..]), |(r, n)| (r.as_str(), n));
        self.writer.vbr(self.symbols);
        self.symbols += 1;
        self.writer.vbr(root.len() as u64);
        self.writer.vbr(nested.len() as u64);
        nested
            .iter()
            .for_each(|name| self.writer.vbr(name.len() as u64));
        self.writer.vbr(module.len() as u64);
        path.iter()
            .for_each(|name| self.writer.raw(name.as_bytes()));
        self.writer.raw(module.as_bytes());
        self.writer.byte(0);
        Ok(offset)
    }
}

fn alignment_in_aggregate(element: &Attribute) -> usize {
    match element {
        Attribute::Array(_) | Attribute::Aggregate(_) => 8,
        Attribute::Shape(Some(_)) | Attribute::Dense(_) => 8,
        Attribute::Shape(None) | Attribute::String(_) => 4,
        other => other.fixed_size().unwrap_or(1),
    }
}

/// Appends a number or type code, unaligned.
pub(crate) fn put_number(out: &mut Vec<u8>, number: &Attribute) {
    match number {
        Attribute::I1(value) => out.push(u8::from(*value)),
        Attribute::I8(value) => out.extend(value.to_le_bytes()),
        Attribute::I16(value) => out.extend(value.to_le_bytes()),
        Attribute::I32(value) => out.extend(value.to_le_bytes()),
        Attribute::I64(value) => out.extend(value.to_le_bytes()),
        Attribute::UI8(value) => out.push(*value),
        Attribute::UI16(value) | Attribute::F16(value) | Attribute::BF16(value) => {
            out.extend(value.to_le_bytes());
        }
        Attribute::UI32(value) => out.extend(value.to_le_bytes()),
        Attribute::UI64(value) => out.extend(value.to_le_bytes()),
        Attribute::F32(value) => out.extend(value.to_le_bytes()),
        Attribute::F64(value) => out.extend(value.to_le_bytes()),
        Attribute::Type(dtype) => out.push(*dtype as u8),
        // All other attributes are encoded by `Body::write` itself.
        _ => {}
    }
}

/// A size that the format stores in 32 bits.
pub(crate) fn size(value: usize, what: &str) -> Result<u32> {
    u32::try_from(value).map_err(|_| too_large(what))
}

fn too_large(what: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("{what} is larger than BEF can hold"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    /// The bytes of `attribute` written after one odd byte, from its offset on.
    fn written(attribute: impl Into<Attribute>) -> (u32, Vec<u8>) {
        let mut body = Body::default();
        body.writer.byte(0xEE);
        let offset = body.write(&attribute.into()).unwrap();
        (offset, body.writer.bytes[offset as usize..].to_vec())
    }

    #[test]
    fn scalars_are_naturally_aligned() {
        assert_eq!(written(true), (1, vec![1]));
        assert_eq!(written(1i32), (4, vec![1, 0, 0, 0]));
        assert_eq!(written(-1i64), (8, vec![255; 8]));
        assert_eq!(written(Attribute::BF16(0x3F80)), (2, vec![0x80, 0x3F]));
        assert_eq!(written(DType::Complex64), (1, vec![12]));
    }

    #[test]
    fn strings_and_arrays_have_a_count() {
        assert_eq!(written("ab"), (4, vec![2, 0, 0, 0, b'a', b'b']));
        assert_eq!(written(vec![true, false]), (4, vec![2, 0, 0, 0, 1, 0]));
        let (offset, bytes) = written(vec![5i64]);
        assert_eq!(
            (offset, &bytes[..5]),
            (4, &[1, 0, 0, 0, 5][..]),
            "payload at 8"
        );
        assert_eq!(written(Vec::<i64>::new()), (4, vec![0, 0, 0, 0]));
    }

    #[test]
    fn a_shape_has_a_header() {
        let (offset, bytes) = written(Attribute::Shape(Some(vec![Some(2), None])));
        assert_eq!(offset, 4);
        assert_eq!(bytes[..12], [8, 0, 12, 0, 28, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(bytes[12..], [[2, 0, 0, 0, 0, 0, 0, 0], [255; 8]].concat());
        assert_eq!(written(Attribute::Shape(None)), (4, vec![0; 4]));
    }

    #[test]
    fn a_dense_has_dims_then_data() {
        let dense = Dense {
            dtype: DType::I1,
            shape: vec![3],
            data: vec![1, 0, 1],
        };
        let (offset, bytes) = written(dense);
        assert_eq!(offset, 4);
        let header = [
            8, 5, 28, 0, 31, 0, 0, 0, 28, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0,
        ];
        assert_eq!(bytes[..20], header);
        assert_eq!(bytes[20..], [3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1]);
    }

    #[test]
    fn an_aggregate_tags_its_elements() {
        let aggregate = Attribute::list(vec![1i32.into(), "s".into()]);
        let (offset, bytes) = written(aggregate);
        assert_eq!(offset, 4, "the prefix of 20 ends at 24");
        assert_eq!(bytes[..12], [4, 0, 20, 0, 37, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(bytes[12..20], [24, 0, 0, 0, 32, 0, 0, 0]);
        assert_eq!(bytes[20..28], [PADDING, PADDING, PADDING, 8, 1, 0, 0, 0]);
        assert_eq!(
            bytes[28..],
            [PADDING, PADDING, PADDING, 16, 1, 0, 0, 0, b's']
        );
    }

    #[test]
    fn a_symbol_is_unaligned() {
        let symbol = Attribute::Symbol {
            path: vec!["k".into(), "main".into()],
            module: "\"x\"".into(),
        };
        let (offset, bytes) = written(symbol);
        assert_eq!(offset, 1);
        assert_eq!(bytes, [&[0, 1, 1, 4, 3][..], b"kmain\"x\"\0"].concat());
    }

    #[test]
    fn offsets_out_of_range_are_refused() {
        assert_eq!(size(u32::MAX as usize, "it").unwrap(), u32::MAX);
        let error = size(1 << 32, "the Attributes section").unwrap_err();
        let expected = "the Attributes section is larger than BEF can hold";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn equal_attributes_of_one_type_share_their_bytes() {
        let mut section = AttributeSection::default();
        let first = section.offset_of(&1i32.into()).unwrap();
        let other_type = section.offset_of(&Attribute::UI32(1)).unwrap();
        assert_ne!(first, other_type);
        assert_eq!(section.offset_of(&1i32.into()).unwrap(), first);
        assert_ne!(
            section.offset_of(&0.0f32.into()).unwrap(),
            section.offset_of(&(-0.0f32).into()).unwrap()
        );
        assert_eq!(section.entries.len(), 4);
    }
}
