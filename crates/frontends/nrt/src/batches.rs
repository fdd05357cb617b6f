//! Several reads or writes in one call.

use crate::call::entry;
use crate::layout::Batch;
use crate::process;
use crate::tensors::tensor;
use std::ffi::c_void;
use tenon_base::{Location, Result};
use tenon_c_callers::arguments::{invalid, slice, slice_mut};
use tenon_runtime::CoreTensor;

/// Calls `each` for every operation: tensor, caller's memory, offset and size.
///
/// # Safety
/// `batches` is null or points to `count` batches, whose `ops` are null or point to `num_ops`
/// operations; none is written during the call.
unsafe fn operations(
    batches: *const Batch,
    count: u64,
    mut each: impl FnMut(&CoreTensor, *mut c_void, usize, usize) -> Result<()>,
) -> Result<()> {
    process::check()?;
    let count = usize::try_from(count).map_err(|_| invalid("too many batches"))?;
    // SAFETY: `batches` has `count` entries by this function's condition.
    for (index, batch) in unsafe { slice(batches, count, "batches")? }
        .iter()
        .enumerate()
    {
        let place = |operation: Option<usize>| {
            let operation = operation.map_or_else(String::new, |at| format!(".ops[{at}]"));
            Location::field(format!("batches[{index}]{operation}"))
        };
        let tensor = tensor(batch.tensor).map_err(|error| error.at(place(None)))?;
        // SAFETY: `ops` has `num_ops` entries by this function's condition.
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

// The last argument of both, `unsafe` in the header, allows to skip the checks. They are always made:
// their cost is negligible compared with the copies.
entry! {
    fn nrt_tensor_read_batch(batches: *const Batch, num_batches: u64, _trusted: bool) {
        // SAFETY: `batches` has `num_batches` entries with their operations, whose buffers have
        // `size` writable bytes (header).
        unsafe {
            operations(batches, num_batches, |tensor, buffer, offset, size| {
                tensor.read(offset, slice_mut(buffer.cast(), size, "buffer")?)
            })
        }
    }

    fn nrt_tensor_write_batch(batches: *const Batch, num_batches: u64, _trusted: bool) {
        // SAFETY: `batches` has `num_batches` entries with their operations, whose buffers have
        // `size` readable bytes (header).
        unsafe {
            operations(batches, num_batches, |tensor, buffer, offset, size| {
                tensor.write(offset, slice(buffer.cast(), size, "buffer")?)
            })
        }
    }
}
