//! Decoding of attributes (bef 1.4).

use super::budget::Budget;
use super::wire::Reader;
use crate::attribute::{MAX_NESTING, code};
use crate::{Attribute, DType, Dense};
use tenon_base::Result;

/// Decodes the attribute of type `type_code` at the reader's position. Values are copied, so their
/// alignment is irrelevant.
pub(crate) fn read_attribute(
    reader: Reader<'_>,
    type_code: u8,
    budget: &mut Budget,
) -> Result<Attribute> {
    if Attribute::is_number_code(type_code) {
        return read_number(&mut { reader }, type_code);
    }
    read_nested(reader, type_code, budget, 0)
}

fn read_nested(
    mut reader: Reader<'_>,
    type_code: u8,
    budget: &mut Budget,
    depth: usize,
) -> Result<Attribute> {
    budget.spend_on::<Attribute>(1, 0)?;
    if depth > MAX_NESTING {
        return Err(reader.error(format!("attributes are nested deeper than {MAX_NESTING}")));
    }
    if type_code & code::ARRAY != 0 {
        return read_array(reader, type_code & !code::ARRAY, budget);
    }
    match type_code {
        code::SHAPE => read_shape(reader, budget),
        code::DENSE => read_dense(reader, budget),
        code::SYMBOL => read_symbol(reader, budget),
        code::AGGREGATE => read_aggregate(reader, budget, depth),
        string if string == DType::String as u8 => {
            let length = reader.u32()?;
            read_text(&mut reader, length.into(), budget).map(Attribute::from)
        }
        number => read_number(&mut reader, number),
    }
}

/// Reads a number, or an element type as a value.
pub(crate) fn read_number(reader: &mut Reader<'_>, type_code: u8) -> Result<Attribute> {
    if type_code == code::TYPE {
        let start = *reader;
        let dtype = DType::from_code(reader.byte()?).filter(|t| *t != DType::Invalid);
        return dtype
            .map(Attribute::Type)
            .ok_or_else(|| start.error("an element type with an unknown code"));
    }
    Ok(match DType::from_code(type_code) {
        Some(DType::I1) => Attribute::I1(reader.byte()? != 0),
        Some(DType::I8) => Attribute::I8(reader.byte()? as i8),
        Some(DType::I16) => Attribute::I16(reader.u16()? as i16),
        Some(DType::I32) => Attribute::I32(reader.u32()? as i32),
        Some(DType::I64) => Attribute::I64(reader.i64()?),
        Some(DType::UI8) => Attribute::UI8(reader.byte()?),
        Some(DType::UI16) => Attribute::UI16(reader.u16()?),
        Some(DType::UI32) => Attribute::UI32(reader.u32()?),
        Some(DType::UI64) => Attribute::UI64(reader.u64()?),
        Some(DType::F32) => Attribute::F32(f32::from_bits(reader.u32()?)),
        Some(DType::F64) => Attribute::F64(f64::from_bits(reader.u64()?)),
        Some(DType::F16) => Attribute::F16(reader.u16()?),
        Some(DType::BF16) => Attribute::BF16(reader.u16()?),
        _ => {
            return Err(reader
                .error("an attribute of an unknown type")
                .found(type_code));
        }
    })
}

fn read_text(reader: &mut Reader<'_>, length: u64, budget: &mut Budget) -> Result<String> {
    let start = *reader;
    let length = reader.bounded_count(length, 1)?;
    budget.spend(length)?;
    match std::str::from_utf8(reader.take(length)?) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(start.error("a string that is not UTF-8").source(error)),
    }
}

fn read_array(mut reader: Reader<'_>, element: u8, budget: &mut Budget) -> Result<Attribute> {
    let count = reader.u32()?;
    // An element takes at least a byte, so the count is bounded before memory is allocated.
    let count = reader.bounded_count(count.into(), 1)?;
    budget.spend_on::<Attribute>(count, 0)?;
    let elements = (0..count)
        .map(|_| read_number(&mut reader, element))
        .collect::<Result<_>>()?;
    Ok(Attribute::Array(elements))
}

fn read_shape(mut reader: Reader<'_>, budget: &mut Budget) -> Result<Attribute> {
    let start = reader;
    if reader.byte()? == 0 {
        return Ok(Attribute::Shape(None));
    }
    reader.take(7)?;
    let rank = reader.u32()?;
    let rank = reader.bounded_count(rank.into(), 8)?;
    budget.spend_on::<Option<i64>>(rank, 0)?;
    let mut extents = Vec::with_capacity(rank);
    for _ in 0..rank {
        extents.push(match reader.i64()? {
            -1 => None,
            extent if extent >= 0 => Some(extent),
            extent => return Err(start.error("a shape with a negative extent").found(extent)),
        });
    }
    Ok(Attribute::Shape(Some(extents)))
}

fn read_dense(mut reader: Reader<'_>, budget: &mut Budget) -> Result<Attribute> {
    let start = reader;
    reader.byte()?;
    let dtype = DType::from_code(reader.byte()?);
    let Some((dtype, element_size)) = dtype.and_then(|t| Some((t, t.size()?))) else {
        return Err(start.error("a dense attribute of an unknown element type"));
    };
    reader.take(6)?;
    let (element_offset, count, rank) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let rank = reader.bounded_count(rank.into(), 8)?;
    budget.spend_on::<i64>(rank, 0)?;
    let shape = (0..rank)
        .map(|_| reader.i64())
        .collect::<Result<Vec<_>>>()?;
    let mut data = start.at(start.position() as u64 + u64::from(element_offset))?;
    let count = data.bounded_count(count.into(), element_size)?;
    budget.spend(count * element_size)?;
    let dense = Dense {
        dtype,
        shape,
        data: data.take(count * element_size)?.to_vec(),
    };
    if dense.count() != Some(count) {
        return Err(start
            .error("a dense attribute whose element count differs from its shape")
            .expected(format!("{:?}", dense.shape))
            .found(count));
    }
    Ok(Attribute::Dense(dense))
}

fn read_aggregate(mut reader: Reader<'_>, budget: &mut Budget, depth: usize) -> Result<Attribute> {
    let start = reader;
    reader.take(8)?;
    let count = reader.u32()?;
    let count = reader.bounded_count(count.into(), 4)?;
    budget.spend_on::<Attribute>(count, 0)?;
    let prefix = 12 + 4 * count as u64;
    let mut elements = Vec::with_capacity(count);
    for _ in 0..count {
        let offset = u64::from(reader.u32()?);
        // Elements follow the header, each after its type code: nesting proceeds forwards only, so
        // it terminates.
        if offset <= prefix {
            return Err(start
                .error("an aggregate element inside of the header")
                .found(offset));
        }
        let mut element = start.at(start.position() as u64 + offset - 1)?;
        let type_code = element.byte()?;
        elements.push(read_nested(element, type_code, budget, depth + 1)?);
    }
    Ok(Attribute::list(elements))
}

fn read_symbol(mut reader: Reader<'_>, budget: &mut Budget) -> Result<Attribute> {
    let start = reader;
    reader.vbr()?;
    let root = reader.vbr()?;
    let nested = reader.count(1)?;
    budget.spend_on::<(u64, String)>(nested + 1, 0)?;
    let mut lengths = vec![root];
    for _ in 0..nested {
        lengths.push(reader.vbr()?);
    }
    let module_length = reader.vbr()?;
    let path = lengths
        .into_iter()
        .map(|length| read_text(&mut reader, length, budget))
        .collect::<Result<Vec<_>>>()?;
    // White space around the printed module is insignificant; without it, the text form
    // round-trips.
    let module = read_text(&mut reader, module_length, budget)?
        .trim()
        .to_owned();
    if path.iter().any(String::is_empty) || module.contains('\0') {
        return Err(start.error("a symbol without a name, or a module with a NUL character"));
    }
    Ok(Attribute::Symbol {
        path,
        module: module.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], type_code: u8) -> Result<Attribute> {
        let mut budget = Budget::for_file(bytes.len());
        read_attribute(Reader::new("Attributes", 0, bytes), type_code, &mut budget)
    }

    #[test]
    fn an_aggregate_cannot_contain_itself() {
        // One element whose offset is that of the aggregate's own header.
        let mut bytes = vec![4, 0, 16, 0, 20, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0];
        assert!(
            read(&bytes, code::AGGREGATE)
                .unwrap_err()
                .to_string()
                .contains("header")
        );
        bytes[12] = 200;
        assert!(
            read(&bytes, code::AGGREGATE)
                .unwrap_err()
                .to_string()
                .contains("outside")
        );
    }

    #[test]
    fn overlapping_aggregates_run_out_of_budget() {
        // 40 levels of two elements with the same offset in the next level: 2^40 leaves.
        let mut bytes = Vec::new();
        for _ in 0..40 {
            bytes.extend([
                8, 0, 20, 0, 0, 0, 0, 0, 2, 0, 0, 0, 24, 0, 0, 0, 24, 0, 0, 0,
            ]);
            bytes.extend([0, 0, 0, code::AGGREGATE]);
        }
        bytes.extend([0; 12]);
        let error = read(&bytes, code::AGGREGATE).unwrap_err().to_string();
        assert!(error.contains("expands to more than"), "{error}");
    }

    #[test]
    fn hostile_counts_allocate_nothing() {
        for type_code in [
            0x89,
            code::SHAPE,
            code::DENSE,
            code::AGGREGATE,
            code::SYMBOL,
            16,
        ] {
            assert!(read(&[0xFF; 24], type_code).is_err(), "{type_code}");
        }
    }

    #[test]
    fn unknown_types_are_refused() {
        for type_code in [0, 12, 17, 24, 26, 31, 127, 0x80 | 16, 0x80 | 30] {
            assert!(
                read(&[1, 0, 0, 0, 1, 0, 0, 0], type_code).is_err(),
                "{type_code}"
            );
        }
    }
}
