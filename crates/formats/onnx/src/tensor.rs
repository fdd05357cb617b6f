//! Conversion of `TensorProto`: raw bytes, typed fields, or external data.

use crate::dtype::data_type;
use crate::files::ModelFiles;
use crate::proto::{EXTERNAL, GraphProto, TensorProto};
use bytes::Bytes;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{ALIGNMENT, Buffer, BufferMut, DataType, Tensor, TensorType};

/// The tensor of `proto`. Raw data is copied once, into aligned memory; aligned external data remains in
/// its mapping.
pub(crate) fn read(proto: &TensorProto, files: &ModelFiles) -> Result<Tensor> {
    if proto.segment.is_some() {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "a tensor stored in segments",
        ));
    }
    let ty = tensor_type(proto)?;
    if ty.dtype() == DataType::String {
        return strings(proto, &ty);
    }
    let buffer = if proto.data_location == EXTERNAL {
        aligned(files.data(&proto.external_data, ty.bytes())?)?
    } else {
        inside(proto, &ty, files)?
    };
    Tensor::new(ty, normal(buffer, proto.data_type)?)
}

/// The tensor of a message with its data inside.
pub fn tensor(proto: &TensorProto) -> Result<Tensor> {
    read(proto, &ModelFiles::none())
}

/// Moves external data into the messages of a graph and of its subgraphs.
pub(crate) fn embed(graph: &mut GraphProto, files: &ModelFiles) -> Result<()> {
    let attributes = graph.node.iter_mut().flat_map(|node| &mut node.attribute);
    let (mut tensors, mut subgraphs) = (Vec::new(), Vec::new());
    for attribute in attributes {
        tensors.extend(attribute.t.as_deref_mut());
        subgraphs.extend(attribute.g.as_deref_mut());
    }
    let sparse = graph.sparse_initializer.iter_mut();
    let parts = sparse.flat_map(|it| [it.values.as_deref_mut(), it.indices.as_deref_mut()]);
    tensors.extend(parts.flatten());
    tensors.extend(&mut graph.initializer);
    for tensor in tensors {
        if tensor.data_location == EXTERNAL {
            let bytes = tensor_type(tensor)?.bytes();
            let data = files.data(&tensor.external_data, bytes)?;
            tensor.raw_data = Some(Bytes::from_owner(data));
            tensor.external_data.clear();
            tensor.data_location = 0;
        }
    }
    subgraphs
        .into_iter()
        .try_for_each(|graph| embed(graph, files))
}

/// A tensor of strings.
fn strings(proto: &TensorProto, ty: &TensorType) -> Result<Tensor> {
    let fields = filled_fields(proto);
    if fields.iter().any(|&field| field != "string_data") || proto.data_location == EXTERNAL {
        return Err(misfit(ty, "data that is no string_data"));
    }
    let texts = proto
        .string_data
        .iter()
        .map(|text| std::str::from_utf8(text));
    let texts = texts.collect::<std::result::Result<Vec<&str>, _>>();
    let texts = texts.map_err(|_| invalid("a string that is not UTF-8"))?;
    if texts.len() != ty.elements() {
        return Err(misfit(ty, format!("{} strings", texts.len())));
    }
    Tensor::from_strings(ty.shape().clone(), &texts)
}

/// Data type and shape, the size in bytes checked.
pub(crate) fn tensor_type(proto: &TensorProto) -> Result<TensorType> {
    let dtype = data_type(proto.data_type.into())?;
    let shape = proto.dims.iter().map(|&dim| {
        usize::try_from(dim).map_err(|_| invalid(format!("dimension {dim} of a constant tensor")))
    });
    TensorType::new(dtype, shape.collect::<Result<Vec<usize>>>()?)
        .map_err(|error| invalid(error.message()))
}

/// The bytes of a tensor with its data in the model file.
fn inside(proto: &TensorProto, ty: &TensorType, files: &ModelFiles) -> Result<Buffer> {
    let fields = filled_fields(proto);
    let field = match *fields.as_slice() {
        [] if ty.bytes() == 0 => return Ok(BufferMut::zeroed(0)?.freeze()),
        [] => return Err(misfit(ty, "no data")),
        [one] => one,
        _ => {
            return Err(invalid(format!(
                "a tensor with data twice, in {}",
                fields.join(" and ")
            )));
        }
    };
    if field == "raw_data" {
        let raw = proto.raw_data.as_deref().unwrap_or_default();
        if raw.len() != ty.bytes() {
            return Err(misfit(ty, format!("{} bytes of raw_data", raw.len())));
        }
        return files.copy(raw);
    }
    let right = typed_field(ty.dtype());
    if field != right {
        return Err(
            invalid(format!("a tensor {ty} with its data in the wrong field"))
                .expected(format_args!("{right} or raw_data"))
                .found(field),
        );
    }
    typed(proto, ty)
}

/// The names of the nonempty data fields.
fn filled_fields(proto: &TensorProto) -> Vec<&'static str> {
    [
        (
            "raw_data",
            proto.raw_data.as_ref().is_some_and(|data| !data.is_empty()),
        ),
        ("float_data", !proto.float_data.is_empty()),
        ("double_data", !proto.double_data.is_empty()),
        ("int32_data", !proto.int32_data.is_empty()),
        ("int64_data", !proto.int64_data.is_empty()),
        ("uint64_data", !proto.uint64_data.is_empty()),
        ("string_data", !proto.string_data.is_empty()),
    ]
    .into_iter()
    .filter_map(|(name, filled)| filled.then_some(name))
    .collect()
}

/// The typed field for elements of `dtype`.
fn typed_field(dtype: DataType) -> &'static str {
    match dtype {
        DataType::F32 | DataType::C64 => "float_data",
        DataType::F64 | DataType::C128 => "double_data",
        DataType::I64 => "int64_data",
        DataType::U32 | DataType::U64 => "uint64_data",
        DataType::String => "string_data",
        _ => "int32_data",
    }
}

/// The bytes of a tensor with its elements in the typed field.
fn typed(proto: &TensorProto, ty: &TensorType) -> Result<Buffer> {
    let dtype = ty.dtype();
    match dtype {
        DataType::F32 | DataType::C64 => fill(ty, &proto.float_data, |v| Some(v.to_le_bytes())),
        DataType::F64 | DataType::C128 => fill(ty, &proto.double_data, |v| Some(v.to_le_bytes())),
        DataType::I64 => fill(ty, &proto.int64_data, |v| Some(v.to_le_bytes())),
        DataType::U64 => fill(ty, &proto.uint64_data, |v| Some(v.to_le_bytes())),
        DataType::U32 => fill(ty, &proto.uint64_data, |v| {
            Some(u32::try_from(v).ok()?.to_le_bytes())
        }),
        DataType::I32 => fill(ty, &proto.int32_data, |v| Some(v.to_le_bytes())),
        DataType::I16 => fill(ty, &proto.int32_data, |v| {
            Some(i16::try_from(v).ok()?.to_le_bytes())
        }),
        DataType::I8 => fill(ty, &proto.int32_data, |v| {
            Some(i8::try_from(v).ok()?.to_le_bytes())
        }),
        DataType::Bool => fill(ty, &proto.int32_data, |v| Some([u8::from(v != 0)])),
        // A byte of packed elements in each integer; some writers sign-extend it.
        _ if dtype.bits() < 8 => fill(ty, &proto.int32_data, |v| {
            (-128..256).contains(&v).then(|| [v.to_le_bytes()[0]])
        }),
        // Unsigned integers, or the bits of floats.
        _ if dtype.bits() == 16 => fill(ty, &proto.int32_data, |v| {
            Some(u16::try_from(v).ok()?.to_le_bytes())
        }),
        _ => fill(ty, &proto.int32_data, |v| Some([u8::try_from(v).ok()?])),
    }
}

/// Values as `N` little-endian bytes each; `bytes` returns `None` for a value out of range.
fn fill<T: Copy + std::fmt::Display, const N: usize>(
    ty: &TensorType,
    values: &[T],
    bytes: impl Fn(T) -> Option<[u8; N]>,
) -> Result<Buffer> {
    if values.len().checked_mul(N) != Some(ty.bytes()) {
        return Err(misfit(ty, format!("{} values", values.len())));
    }
    let mut buffer = BufferMut::zeroed(ty.bytes())?;
    for (place, &number) in buffer.as_chunks_mut::<N>().0.iter_mut().zip(values) {
        *place = bytes(number)
            .ok_or_else(|| invalid(format!("{number} is not a value of type {}", ty.dtype())))?;
    }
    Ok(buffer.freeze())
}

/// The bytes at an aligned address.
fn aligned(buffer: Buffer) -> Result<Buffer> {
    if buffer.as_ptr().addr().is_multiple_of(ALIGNMENT) {
        return Ok(buffer);
    }
    let copy = BufferMut::copy_of(&buffer)?.freeze();
    buffer.release_pages();
    Ok(copy)
}

/// Bools normalised to 0 and 1; other types unchanged.
fn normal(buffer: Buffer, number: i32) -> Result<Buffer> {
    if number != crate::proto::data_type::BOOL || buffer.iter().all(|&byte| byte < 2) {
        return Ok(buffer);
    }
    let mut copy = BufferMut::copy_of(&buffer)?;
    copy.iter_mut()
        .for_each(|byte| *byte = u8::from(*byte != 0));
    Ok(copy.freeze())
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidModel, message)
}

fn misfit(ty: &TensorType, found: impl std::fmt::Display) -> Error {
    invalid(format!("the data of a tensor does not fit its type {ty}"))
        .expected(format_args!("{} bytes", ty.bytes()))
        .found(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::data_type as onnx;

    fn read_inside(proto: TensorProto) -> Result<Tensor> {
        read(&proto, &ModelFiles::none())
    }

    fn int32(data_type: i32, dims: &[i64], int32_data: &[i32]) -> TensorProto {
        TensorProto {
            data_type,
            dims: dims.to_vec(),
            int32_data: int32_data.to_vec(),
            ..Default::default()
        }
    }

    #[test]
    fn small_types_are_in_int32_data() {
        let bytes = |data_type, dims: &[i64], data: &[i32]| {
            read_inside(int32(data_type, dims, data))
                .unwrap()
                .bytes()
                .to_vec()
        };
        assert_eq!(bytes(onnx::INT8, &[2], &[-1, 5]), [255, 5]);
        assert_eq!(bytes(onnx::UINT16, &[1], &[65535]), [255, 255]);
        assert_eq!(bytes(onnx::FLOAT16, &[1], &[0x3c00]), [0, 0x3c]);
        assert_eq!(bytes(onnx::BFLOAT16, &[1], &[0x3f80]), [0x80, 0x3f]);
        assert_eq!(bytes(onnx::FLOAT8E5M2, &[1], &[0xfb]), [0xfb]);
        assert_eq!(bytes(onnx::BOOL, &[2], &[0, 7]), [0, 1]);
        assert_eq!(bytes(onnx::INT4, &[3], &[0x21, -1]), [0x21, 0xff]);
        assert_eq!(bytes(onnx::UINT4, &[3], &[0x21, 0xf]), [0x21, 0x0f]);
        assert_eq!(bytes(onnx::INT2, &[5], &[-28, 1]), [0xe4, 1]);
        assert_eq!(bytes(onnx::UINT2, &[4], &[0xe4]), [0xe4]);
        assert_eq!(bytes(onnx::FLOAT4E2M1, &[3], &[0x7a, 1]), [0x7a, 1]);
        assert_eq!(bytes(onnx::FLOAT8E8M0, &[2], &[127, 255]), [127, 255]);
    }

    #[test]
    fn wide_types_have_separate_fields() {
        let proto = TensorProto {
            data_type: onnx::COMPLEX64,
            dims: vec![1],
            float_data: vec![1.0, 2.0],
            ..Default::default()
        };
        assert_eq!(read_inside(proto).unwrap().bytes().len(), 8);
        let proto = TensorProto {
            data_type: onnx::UINT32,
            dims: vec![],
            uint64_data: vec![u64::from(u32::MAX)],
            ..Default::default()
        };
        assert_eq!(
            read_inside(proto.clone()).unwrap().to_i64s().unwrap(),
            [i64::from(u32::MAX)]
        );
        let error = read_inside(TensorProto {
            uint64_data: vec![1 << 32],
            ..proto
        })
        .unwrap_err();
        assert_eq!(error.to_string(), "4294967296 is not a value of type u32");
    }

    #[test]
    fn raw_bools_become_zero_and_one() {
        let raw = |bytes: &'static [u8]| TensorProto {
            data_type: onnx::BOOL,
            dims: vec![3],
            raw_data: Some(bytes.into()),
            ..Default::default()
        };
        assert_eq!(read_inside(raw(&[0, 1, 2])).unwrap().bytes(), [0, 1, 1]);
        let error = read_inside(raw(&[1])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the data of a tensor does not fit its type bool[3]: expected 3 bytes, found 1 bytes of raw_data"
        );
    }

    #[test]
    fn strings_are_utf8() {
        let strings = |list: &[&'static [u8]]| TensorProto {
            data_type: onnx::STRING,
            dims: vec![2],
            string_data: list.iter().map(|&text| text.into()).collect(),
            ..Default::default()
        };
        let tensor = read_inside(strings(&[b"a", "é".as_bytes()])).unwrap();
        assert_eq!(tensor.strings().unwrap().collect::<Vec<_>>(), ["a", "é"]);
        let refused = |list| read_inside(strings(list)).unwrap_err().to_string();
        assert!(refused(&[b"a", b"\xff"]).contains("not UTF-8"));
        assert!(refused(&[b"a"]).contains("found 1 strings"));
    }

    #[test]
    fn data_that_does_not_match_the_type_is_refused() {
        let refused = |proto| read_inside(proto).unwrap_err().to_string();
        assert!(refused(int32(onnx::INT8, &[1], &[128])).contains("128 is not a value of type i8"));
        assert!(refused(int32(onnx::INT32, &[-1], &[])).contains("dimension -1"));
        assert!(refused(int32(onnx::INT32, &[i64::MAX, 8], &[1])).contains("larger than memory"));
        assert!(refused(int32(onnx::INT32, &[1 << 40], &[1])).contains("does not fit"));
        assert!(
            refused(int32(onnx::INT64, &[1], &[1])).contains("expected int64_data or raw_data")
        );
        assert!(refused(int32(onnx::INT32, &[2], &[])).contains("found no data"));
        assert!(refused(int32(onnx::STRING, &[1], &[1])).contains("no string_data"));
        let mut twice = int32(onnx::INT32, &[1], &[1]);
        twice.raw_data = Some(vec![0; 4].into());
        assert!(refused(twice).contains("data twice, in raw_data and int32_data"));
        assert_eq!(
            read_inside(int32(onnx::INT32, &[0], &[]))
                .unwrap()
                .bytes()
                .len(),
            0
        );
    }
}
