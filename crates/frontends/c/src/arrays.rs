//! `tenon_array`: tensors in memory of the caller.

use crate::structs::Array;
use crate::texts::optional;
use std::ffi::c_char;
use tenon::tensor::BufferMut;
use tenon::{DataType, Error, ErrorKind, Result, Shape, Signature, Tensor, TensorType};
use tenon_backend_abi::TYPES;
use tenon_c_callers::arguments::{self, invalid};

/// The greatest rank of an array.
const MAX_RANK: u32 = 64;

/// The `tenon_type` of a data type: those of the backend interface.
pub fn type_code(dtype: DataType) -> i32 {
    let position = TYPES.iter().position(|name| *name == dtype.name());
    position.map_or(0, |at| at as i32 + 1)
}

fn data_type(code: i32) -> Result<DataType> {
    let at = usize::try_from(code)
        .ok()
        .and_then(|code| code.checked_sub(1));
    let name = at.and_then(|at| TYPES.get(at));
    let unknown = || {
        let error = invalid("no element type has this code");
        error.expected("a tenon_type").found(code)
    };
    name.ok_or_else(unknown)?.parse()
}

/// The type of an array; `name` is how messages call it.
///
/// # Safety
/// `array.extents` is null or points to `array.rank` extents.
pub unsafe fn array_type(array: &Array, name: &str) -> Result<TensorType> {
    let named = |error: Error| {
        let text = format!("{name}: {}", error.message());
        let error = match (error.expected_text(), error.found_text()) {
            (Some(expected), Some(found)) => invalid(text).expected(expected).found(found),
            _ => invalid(text),
        };
        error.help("see tenon_array in tenon/tenon.h")
    };
    let dtype = data_type(array.dtype).map_err(named)?;
    if dtype.bits() == 0 {
        let text = format!("{name}: elements of type {dtype} are not exchanged");
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    if array.rank > MAX_RANK {
        let error = invalid("too many dimensions").expected(format_args!("at most {MAX_RANK}"));
        return Err(named(error.found(array.rank)));
    }
    // SAFETY: the condition of `slice` is this function's.
    let extents = unsafe { arguments::slice(array.extents, array.rank as usize, "extents") };
    let extents: Option<Vec<usize>> = extents
        .map_err(named)?
        .iter()
        .map(|&extent| usize::try_from(extent).ok())
        .collect();
    let negative = || named(invalid("an extent is negative"));
    let ty = TensorType::new(dtype, Shape::new(extents.ok_or_else(negative)?)).map_err(named)?;
    if ty.bytes() != array.bytes {
        let error = invalid("the memory is of another size than the type");
        let expected = format!("{} bytes of {ty}", ty.bytes());
        return Err(named(error.expected(expected).found(array.bytes)));
    }
    Ok(ty)
}

/// The bytes of an array of this type.
///
/// # Safety
/// `array.data` is null or points to `ty.bytes()` bytes, which are not written for `'a`.
pub unsafe fn array_bytes<'a>(array: &Array, ty: &TensorType, name: &str) -> Result<&'a [u8]> {
    // SAFETY: the condition of `slice` is this function's.
    unsafe {
        arguments::slice(
            array.data.cast::<u8>().cast_const(),
            ty.bytes(),
            &format!("{name}: data"),
        )
    }
}

/// A copy of an array.
///
/// # Safety
/// The pointers of the array are null or valid for the sizes that it states, and nothing writes there.
pub unsafe fn tensor(array: &Array, name: &str) -> Result<Tensor> {
    // SAFETY: the conditions of both are this function's.
    let (ty, bytes) = unsafe {
        let ty = array_type(array, name)?;
        let bytes = array_bytes(array, &ty, name)?;
        (ty, bytes)
    };
    Tensor::new(ty, BufferMut::copy_of(bytes)?.freeze())
}

/// The name of an array, or how messages call the one at a position.
///
/// # Safety
/// `name` is null or a text.
unsafe fn name_of(name: *const c_char, kind: &str, at: usize) -> Result<(Option<String>, String)> {
    let place = format!("{kind}[{at}]");
    // SAFETY: the condition of `optional` is this function's.
    let name = unsafe { optional(name, &format!("{place}.name"))? };
    Ok(match name {
        Some(name) => (Some(name.to_owned()), format!("{kind} '{name}'")),
        None => (None, place),
    })
}

/// Reads each array of the caller with its name; all errors together.
///
/// # Safety
/// `start` is null or points to `count` arrays, whose pointers are null or valid for the sizes that they state.
unsafe fn each<T>(
    start: *const Array,
    count: usize,
    kind: &str,
    mut read: impl FnMut(usize, &Array, Option<String>, &str) -> Result<T>,
) -> Result<Vec<T>> {
    // SAFETY: the condition of `slice` is this function's.
    let arrays = unsafe { arguments::slice(start, count, kind)? };
    let (mut values, mut errors) = (Vec::with_capacity(arrays.len()), Vec::new());
    for (at, array) in arrays.iter().enumerate() {
        // SAFETY: the name is null or a text (requirement).
        let named = unsafe { name_of(array.name, kind, at) };
        match named.and_then(|(name, place)| read(at, array, name, &place)) {
            Ok(value) => values.push(value),
            Err(error) => errors.push(error),
        }
    }
    match Error::from_all(errors) {
        None => Ok(values),
        Some(error) => Err(error),
    }
}

/// Copies of arrays that have names.
///
/// # Safety
/// As for [`inputs`].
pub unsafe fn named(
    start: *const Array,
    count: usize,
    kind: &str,
) -> Result<Vec<(String, Tensor)>> {
    // SAFETY: the condition of `each` is this function's.
    unsafe {
        each(start, count, kind, |_, array, name, place| {
            let missing = || invalid(format!("{place}.name is NULL"));
            let name = name.ok_or_else(missing)?;
            Ok((name, tensor(array, place)?))
        })
    }
}

/// Copies of the inputs of a call, with the name of their port where they have none.
///
/// # Safety
/// `start` is null or points to `count` arrays, whose pointers are null or valid for the sizes that they state and not
/// written during the call.
pub unsafe fn inputs(
    ports: &[Signature],
    start: *const Array,
    count: usize,
) -> Result<Vec<(String, Tensor)>> {
    // SAFETY: the condition of `each` is this function's.
    unsafe {
        each(start, count, "inputs", |at, array, name, place| {
            let missing = || {
                let error = invalid(format!("{place}: there are more arrays than inputs"));
                error
                    .expected(format_args!("at most {}", ports.len()))
                    .found(count)
            };
            let name = match name {
                Some(name) => name,
                None => ports.get(at).ok_or_else(missing)?.name.clone(),
            };
            Ok((name, tensor(array, place)?))
        })
    }
}

/// The types and addresses of all ports of a call, in order.
///
/// # Safety
/// As for [`inputs`].
pub unsafe fn all_in_order(
    ports: &[Signature],
    start: *const Array,
    count: usize,
    kind: &str,
) -> Result<Vec<(TensorType, *mut u8)>> {
    if count != ports.len() {
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        let expected = format!("{}: {}", ports.len(), names.join(", "));
        let error = invalid(format!("{kind} are not those of the model"));
        return Err(error.expected(expected).found(count));
    }
    // SAFETY: the condition of `each` is this function's.
    unsafe {
        each(start, count, kind, |at, array, name, place| {
            let port = &ports[at].name;
            if let Some(name) = name.filter(|name| name != port) {
                let error = invalid(format!("{kind}[{at}] is another one"));
                return Err(error
                    .expected(format_args!("'{port}'"))
                    .found(format_args!("'{name}'")));
            }
            let ty = array_type(array, place)?;
            array_bytes(array, &ty, place)?;
            Ok((ty, array.data.cast()))
        })
    }
}

/// Tensors by name, as executions take them.
pub fn by_name(tensors: &[(String, Tensor)]) -> Vec<(&str, &Tensor)> {
    let pairs = tensors.iter();
    pairs
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect()
}
