//! `tenon_outputs`: the outputs of an execution.

use crate::arrays::type_code;
use crate::status;
use crate::structs::Array;
use crate::texts::c_text;
use std::ffi::{CString, c_char};
use std::sync::Arc;
use tenon::{Error, ErrorKind, Result, Tensor};
use tenon_c_callers::arguments::{text, write_output};
use tenon_c_callers::handles::{Handle, Handles};

static OUTPUTS: Handles<Arc<Outputs>> = Handles::new(0x4f, "outputs");

/// Tensors with what C reads of them.
struct Outputs(Vec<Output>);

struct Output {
    name: CString,
    extents: Vec<i64>,
    tensor: Tensor,
}

/// Writes the handle of outputs.
///
/// # Safety
/// `to` is null or valid for writing a handle.
pub unsafe fn write_outputs<'a>(
    to: *mut Handle,
    name: &str,
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
) -> Result<()> {
    let output = |(name, tensor): (&str, &Tensor)| Output {
        name: c_text(name),
        extents: tensor.shape().iter().map(|&extent| extent as i64).collect(),
        tensor: tensor.clone(),
    };
    let outputs = Outputs(tensors.into_iter().map(output).collect());
    // SAFETY: the condition of `write_handle` is this function's.
    unsafe { crate::blob::write_handle(to, name, &OUTPUTS, Arc::new(outputs)) }
}

pub unsafe extern "C" fn outputs_count(outputs: Handle, count: *mut usize) -> Handle {
    status::of(|| {
        let Outputs(all) = &*OUTPUTS.find(outputs)?;
        // SAFETY: null or valid for writing (header).
        unsafe { write_output(count, "count", all.len()) }
    })
}

pub unsafe extern "C" fn outputs_get(outputs: Handle, index: usize, array: *mut Array) -> Handle {
    status::of(|| {
        let Outputs(all) = &*OUTPUTS.find(outputs)?;
        let output = all
            .get(index)
            .ok_or_else(|| beyond("outputs", all.len(), index))?;
        let dtype = output.tensor.dtype();
        if dtype.bits() == 0 {
            let name = output.name.to_string_lossy();
            let text = format!("output '{name}': elements of type {dtype} are not exchanged");
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        let bytes = output.tensor.bytes();
        let found = Array {
            name: output.name.as_ptr(),
            dtype: type_code(dtype),
            rank: output.extents.len() as u32,
            extents: output.extents.as_ptr(),
            data: bytes.as_ptr().cast_mut().cast(),
            bytes: bytes.len(),
        };
        // SAFETY: null or valid for writing (header).
        unsafe { write_output(array, "array", found) }
    })
}

pub unsafe extern "C" fn outputs_find(
    outputs: Handle,
    name: *const c_char,
    index: *mut usize,
) -> Handle {
    status::of(|| {
        let Outputs(all) = &*OUTPUTS.find(outputs)?;
        // SAFETY: null or a text (header).
        let name = unsafe { text(name, "name")? };
        let names = all
            .iter()
            .map(|output| output.name.to_str().unwrap_or_default());
        // SAFETY: null or valid for writing (header).
        unsafe { write_output(index, "index", position(names, name, "output")?) }
    })
}

pub extern "C" fn outputs_free(outputs: Handle) -> Handle {
    status::freed(&OUTPUTS, outputs)
}

/// The error of an index that is not below the number of a list.
pub fn beyond(list: &str, count: usize, index: usize) -> Error {
    let error = Error::new(ErrorKind::NotFound, format!("no {list} at this index"));
    error
        .expected(format_args!("an index below {count}"))
        .found(index)
}

/// The position of a name.
pub fn position<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    name: &str,
    kind: &str,
) -> Result<usize> {
    names
        .clone()
        .position(|known| known == name)
        .ok_or_else(|| {
            let known: Vec<&str> = names.collect();
            let error = Error::new(ErrorKind::NotFound, format!("no {kind} has this name"));
            error
                .expected(format_args!("one of {}", known.join(", ")))
                .found(name)
        })
}
