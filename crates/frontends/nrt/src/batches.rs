//! Several reads or writes in one call.

use crate::arguments::{invalid, slice, slice_mut};
use crate::call::entry;
use crate::layout::Batch;
use crate::process;
use crate::tensors::tensor;
use std::ffi::c_void;
use tenon_base::{Location, Result};
use tenon_runtime::CoreTensor;

/// Calls `each` for every operation: the tensor, the caller's memory, where and how much.
///
/// # Safety
/// `batches` leads to `count` batches, each of those to its operations.
unsafe fn operations(
    batches: *const Batch,
    count: u64,
    mut each: impl FnMut(&CoreTensor, *mut c_void, usize, usize) -> Result<()>,
) -> Result<()> {
    process::check()?;
    let count = usize::try_from(count).map_err(|_| invalid("too many batches"))?;
    // SAFETY: the caller vouches.
    for (index, batch) in unsafe { slice(batches, count, "batches")? }
        .iter()
        .enumerate()
    {
        let place = |operation: Option<usize>| {
            let operation = operation.map_or_else(String::new, |at| format!(".ops[{at}]"));
            Location::field(format!("batches[{index}]{operation}"))
        };
        let tensor = tensor(batch.tensor).map_err(|error| error.at(place(None)))?;
        // SAFETY: the caller vouches.
        let operations = unsafe { slice(batch.ops, batch.num_ops as usize, "ops") };
        let operations = operations.map_err(|error| error.at(place(None)))?;
        for (at, operation) in operations.iter().enumerate() {
            let size = usize::try_from(operation.size).unwrap_or(usize::MAX);
            let offset = usize::try_from(operation.offset).unwrap_or(usize::MAX);
            each(&tensor, operation.buffer, offset, size)
                .map_err(|error| error.at(place(Some(at))))?;
        }
    }
    Ok(())
}

// The last argument of both, `unsafe`, lets a caller who made the checks leave them out. They cost
// nothing beside the copies: they are made always.
entry! {
    fn nrt_tensor_read_batch(batches: *const Batch, num_batches: u64, _trusted: bool) {
        // SAFETY: the caller's arrays.
        unsafe {
            operations(batches, num_batches, |tensor, buffer, offset, size| {
                tensor.read(offset, slice_mut(buffer.cast(), size, "buffer")?)
            })
        }
    }

    fn nrt_tensor_write_batch(batches: *const Batch, num_batches: u64, _trusted: bool) {
        // SAFETY: the caller's arrays.
        unsafe {
            operations(batches, num_batches, |tensor, buffer, offset, size| {
                tensor.write(offset, slice(buffer.cast(), size, "buffer")?)
            })
        }
    }
}
