//! Allocating, reading and writing tensors.

use crate::call::{attempt, entry, log};
use crate::handles::{Handle, Handles, table};
use crate::layout::AllocationInfo;
use crate::process;
use crate::trace::{self, Kind};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;
use std::time::{Duration, Instant};
use tenon_base::{Error, ErrorKind, Result};
use tenon_c_callers::arguments::{self, check, invalid, slice, slice_mut, write_output};
use tenon_runtime::{Component, CoreTensor, Placement};

/// Every tensor.
pub(crate) static TENSORS: Handles<CoreTensor> = table(0x54, "tensor");

/// An unlimited wait logs a warning after this time.
const WARN_AFTER: Duration = Duration::from_secs(30);

/// The tensor of a handle.
#[inline]
pub(crate) fn tensor(handle: *const c_void) -> Result<CoreTensor> {
    process::check()?;
    TENSORS.find(handle)
}

/// Executes `work` on a tensor and records a trace event.
#[inline]
pub(crate) fn traced(
    kind: Kind,
    tensor: &CoreTensor,
    size: usize,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let core = || tensor.core().map_or(0, |core| core.index());
    trace::timed(
        kind,
        |()| (core(), 0, tensor.name().into(), size as u64),
        work,
    )
}

/// Checks that a memory range of the caller which starts inside a tensor ends inside it. Memory
/// outside of tensors is not checked.
pub(crate) fn check_range(start: *const c_void, size: usize, name: &str) -> Result<()> {
    let start = start.addr();
    let free = TENSORS.values().into_iter().filter_map(|tensor| {
        let address = tensor.address()?.addr();
        let offset = start.checked_sub(address)?;
        Some((tensor.size().checked_sub(offset)?, tensor)).filter(|(free, _)| *free > 0)
    });
    // A tensor and its slices share memory: the largest remainder is the limit.
    match free.max_by_key(|(free, _)| *free) {
        Some((free, tensor)) if size > free => Err(invalid(format!(
            "{name} would go past the end of tensor '{}'",
            tensor.name()
        ))
        .expected(format_args!("at most {free} bytes"))
        .found(size)),
        _ => Ok(()),
    }
}

fn placement(number: u32) -> Result<Placement> {
    match number {
        0 => Ok(Placement::Device),
        1 => Ok(Placement::Host),
        2 => Ok(Placement::Virtual),
        _ => Err(invalid("there is no such placement")
            .expected("DEVICE (0), HOST (1) or VIRTUAL (2)")
            .found(number)),
    }
}

entry! {
    fn nrt_tensor_allocate(
        tensor_placement: u32, vnc: c_int, size: usize, name: *const c_char, tensor: *mut Handle,
    ) {
        let process = process::process()?;
        check(tensor, "tensor")?;
        // SAFETY: `name` is null or NUL-terminated (header).
        let name = unsafe { arguments::optional_text(name, "name")? };
        let placement = placement(tensor_placement)?;
        let core = process.cores.core(crate::cores::number(vnc.into())?)?;
        let tensor_value = CoreTensor::allocate(core, placement, size, name)?;
        // SAFETY: `tensor` is null or writable (header).
        unsafe { write_output(tensor, "tensor", TENSORS.insert(tensor_value)?) }
    }

    fn nrt_tensor_allocate_empty(name: *const c_char, tensor: *mut Handle) {
        process::check()?;
        check(tensor, "tensor")?;
        // SAFETY: `name` is null or NUL-terminated; `tensor` is null or writable (header).
        unsafe {
            let name = arguments::optional_text(name, "name")?;
            write_output(tensor, "tensor", TENSORS.insert(CoreTensor::empty(name))?)
        }
    }

    fn nrt_tensor_allocate_slice(
        tensor_source: *const c_void, offset: usize, size: usize, name: *const c_char,
        tensor_slice: *mut Handle,
    ) {
        let source = tensor(tensor_source)?;
        check(tensor_slice, "tensor_slice")?;
        // SAFETY: `name` is null or NUL-terminated; `tensor_slice` is null or writable (header).
        unsafe {
            let name = arguments::optional_text(name, "name")?;
            let tensor_value = source.slice(offset, size, name)?;
            write_output(tensor_slice, "tensor_slice", TENSORS.insert(tensor_value)?)
        }
    }

    fn nrt_tensor_free(tensor: *mut Handle) -> () {
        let _ = attempt("nrt_tensor_free", || {
            process::check()?;
            // SAFETY: `tensor` is null or readable, and not written during the call (header).
            let handle = unsafe { *arguments::read_input(tensor, "tensor")? };
            // A handle that was freed is NULL: freeing it again has no effect.
            if !handle.is_null() {
                TENSORS.remove(handle)?;
            }
            // SAFETY: `tensor` is null or writable (header).
            unsafe { write_output(tensor, "tensor", std::ptr::null_mut()) }
        });
    }

    fn nrt_tensor_attach_buffer(tensor: *mut c_void, buffer: *mut c_void, size: usize) {
        let tensor = self::tensor(tensor)?;
        let Some(start) = NonNull::new(buffer.cast::<u8>()) else {
            return Err(invalid("buffer is NULL"));
        };
        // SAFETY: not null; the header requires `size` readable and writable bytes that stay valid
        // while the tensor uses them.
        unsafe { tensor.attach(start, size) };
        Ok(())
    }

    fn nrt_tensor_read(tensor: *const c_void, buf: *mut c_void, offset: usize, size: usize) {
        let tensor = self::tensor(tensor)?;
        // SAFETY: `buf` has `size` writable bytes that only this call accesses (header).
        let to = unsafe { slice_mut(buf.cast(), size, "buf")? };
        traced(Kind::TensorRead, &tensor, size, || tensor.read(offset, to))
    }

    fn nrt_tensor_write(tensor: *mut c_void, buf: *const c_void, offset: usize, size: usize) {
        let tensor = self::tensor(tensor)?;
        // SAFETY: `buf` has `size` readable bytes that are not written during the call (header).
        let from = unsafe { slice(buf.cast(), size, "buf")? };
        traced(Kind::TensorWrite, &tensor, size, || tensor.write(offset, from))
    }

    fn nrt_tensor_copy(
        src: *const c_void, src_offset: usize, dst: *mut c_void, dst_offset: usize, size: usize,
    ) {
        let (src, dst) = (tensor(src)?, tensor(dst)?);
        traced(Kind::TensorCopy, &src, size, || src.copy_to(src_offset, &dst, dst_offset, size))
    }

    fn nrt_tensor_memset(tensor: *mut c_void, offset: u64, value: c_int, size: usize) {
        let tensor = self::tensor(tensor)?;
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        tensor.fill(offset, size, value as u8)
    }

    fn nrt_tensor_get_size(tensor: *const c_void) -> usize {
        attempt("nrt_tensor_get_size", || Ok(self::tensor(tensor)?.size())).unwrap_or(0)
    }

    fn nrt_tensor_get_va(tensor: *const c_void) -> *mut c_void {
        let address = attempt("nrt_tensor_get_va", || Ok(self::tensor(tensor)?.address()));
        address.flatten().map_or(std::ptr::null_mut(), |address| address.cast())
    }

    fn nrt_tensor_get_device_allocation_info(
        tensor: *const c_void, alloc_info: *mut AllocationInfo,
    ) {
        let tensor = self::tensor(tensor)?;
        check(alloc_info, "alloc_info")?;
        Err(Error::new(ErrorKind::Unsupported, format!(
            "tensor '{}' has no physical address: a CPU has no device memory", tensor.name()
        ))
        .help("nrt_tensor_get_va and nrt_tensor_get_size return its address and size"))
    }

    fn nrt_tensor_check_output_completion(
        output_tensor: *const c_void, timeout: i64, expected_completion_count: u64,
    ) {
        process::check()?;
        if output_tensor.is_null() {
            return Err(invalid("output_tensor is NULL"));
        }
        let tensor = self::tensor(output_tensor)?;
        match u64::try_from(timeout) {
            Ok(micros) => wait(&tensor, expected_completion_count, Duration::from_micros(micros)),
            Err(_) => {
                let mut warning = WaitWarning { after: WARN_AFTER, is_reported: false };
                wait_without_limit(&tensor, expected_completion_count, |waited| {
                    process::check()?;
                    if let Some(text) = warning.due(waited, &tensor, expected_completion_count) {
                        let function = "nrt_tensor_check_output_completion";
                        log().warning(Component::Nrt, function, format_args!("{text}"));
                    }
                    Ok(())
                })
            }
        }
    }

    fn nrt_tensor_reset_output_completion(output_tensor: *mut c_void) {
        process::check()?;
        if output_tensor.is_null() {
            return Err(invalid("output_tensor is NULL"));
        }
        self::tensor(output_tensor)?.reset_completions();
        Ok(())
    }
}

fn wait(tensor: &CoreTensor, count: u64, patience: Duration) -> Result<()> {
    if tensor.wait_for_completions(count, patience) {
        return Ok(());
    }
    let text = format!("tensor '{}' was not completed in time", tensor.name());
    Err(Error::new(ErrorKind::DeadlineExceeded, text)
        .expected(format_args!("{count} completions within {patience:?}"))
        .found(tensor.completions()))
}

/// Waits until the count is reached; calls `meanwhile` at intervals with the time waited, and ends
/// with its error.
fn wait_without_limit(
    tensor: &CoreTensor,
    count: u64,
    mut meanwhile: impl FnMut(Duration) -> Result<()>,
) -> Result<()> {
    const INTERVAL: Duration = Duration::from_millis(100);
    let started = Instant::now();
    while !tensor.wait_for_completions(count, INTERVAL) {
        meanwhile(started.elapsed())?;
    }
    Ok(())
}

/// The warning about a long wait, reported once.
struct WaitWarning {
    after: Duration,
    is_reported: bool,
}

impl WaitWarning {
    /// The text of the warning when `waited` exceeds the limit for the first time.
    fn due(&mut self, waited: Duration, tensor: &CoreTensor, count: u64) -> Option<String> {
        if self.is_reported || waited < self.after {
            return None;
        }
        self.is_reported = true;
        Some(format!(
            "tensor '{}' was completed {} of {count} times after {:?}; waiting without a time limit",
            tensor.name(),
            tensor.completions(),
            self.after
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unlimited_wait_warns_once_and_can_be_stopped() {
        let tensor = CoreTensor::empty("y");
        let mut warning = WaitWarning {
            after: Duration::from_millis(150),
            is_reported: false,
        };
        let (mut said, mut looks) = (Vec::new(), 0);
        let stopped = wait_without_limit(&tensor, 2, |waited| {
            said.extend(warning.due(waited, &tensor, 2));
            looks += 1;
            match looks {
                4 => Err(Error::new(ErrorKind::Closed, "ended")),
                _ => Ok(()),
            }
        });
        assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Closed);
        let text =
            "tensor 'y' was completed 0 of 2 times after 150ms; waiting without a time limit";
        assert_eq!(said, [text]);
        wait_without_limit(&tensor, 0, |_| panic!("no wait is needed")).unwrap();
        assert_eq!(WARN_AFTER, Duration::from_secs(30));
    }
}
