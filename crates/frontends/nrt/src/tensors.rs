//! Tensors.

use crate::arguments::{self, check, give, invalid, slice, slice_mut};
use crate::call::{attempt, entry, log};
use crate::handles::{Handle, Handles};
use crate::layout::AllocationInfo;
use crate::process;
use crate::trace::{self, Kind};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;
use std::time::{Duration, Instant};
use tenon_base::{Error, ErrorKind, Result};
use tenon_runtime::{Component, CoreTensor, Placement};

/// Every tensor.
pub(crate) static TENSORS: Handles<CoreTensor> = Handles::new(0x54, "tensor");

/// After that long, one who waits without end is told.
const LONG: Duration = Duration::from_secs(30);

/// The tensor of a handle.
#[inline]
pub(crate) fn tensor(handle: *const c_void) -> Result<CoreTensor> {
    process::check()?;
    TENSORS.find(handle)
}

/// Works on a tensor; who listens hears of it.
#[inline]
pub(crate) fn told(
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

/// Checks a caller's range of memory that starts in a tensor: it must end in it, too. Memory that
/// is of no tensor is the caller's own business.
pub(crate) fn check_range(start: *const c_void, size: usize, name: &str) -> Result<()> {
    let start = start.addr();
    let room = TENSORS.values().into_iter().filter_map(|tensor| {
        let address = tensor.address()?.addr();
        let offset = start.checked_sub(address)?;
        Some((tensor.size().checked_sub(offset)?, tensor)).filter(|(room, _)| *room > 0)
    });
    // A tensor and its slices share memory: the largest counts.
    match room.max_by_key(|(room, _)| *room) {
        Some((room, tensor)) if size > room => Err(invalid(format!(
            "{name} would go past the end of tensor '{}'",
            tensor.name()
        ))
        .expected(format_args!("at most {room} bytes"))
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
        // SAFETY: the caller's text, or NULL.
        let name = unsafe { arguments::optional_text(name, "name")? };
        let placement = placement(tensor_placement)?;
        let core = process.cores.core(crate::cores::number(vnc.into())?)?;
        let made = CoreTensor::allocate(core, placement, size, name)?;
        // SAFETY: the caller's place for a handle, here and below.
        unsafe { give(tensor, "tensor", TENSORS.insert(made)?) }
    }

    fn nrt_tensor_allocate_empty(name: *const c_char, tensor: *mut Handle) {
        process::check()?;
        check(tensor, "tensor")?;
        // SAFETY: the caller's text, or NULL; its place for a handle.
        unsafe {
            let name = arguments::optional_text(name, "name")?;
            give(tensor, "tensor", TENSORS.insert(CoreTensor::empty(name))?)
        }
    }

    fn nrt_tensor_allocate_slice(
        tensor_source: *const c_void, offset: usize, size: usize, name: *const c_char,
        tensor_slice: *mut Handle,
    ) {
        let source = tensor(tensor_source)?;
        check(tensor_slice, "tensor_slice")?;
        // SAFETY: the caller's text, or NULL; its place for a handle.
        unsafe {
            let name = arguments::optional_text(name, "name")?;
            let made = source.slice(offset, size, name)?;
            give(tensor_slice, "tensor_slice", TENSORS.insert(made)?)
        }
    }

    fn nrt_tensor_free(tensor: *mut Handle) -> () {
        let _ = attempt("nrt_tensor_free", || {
            process::check()?;
            // SAFETY: the caller's handle.
            let handle = unsafe { *arguments::take(tensor, "tensor")? };
            // What was freed and cleared before is freed again without harm.
            if !handle.is_null() {
                TENSORS.take(handle)?;
            }
            // SAFETY: the caller's place for it.
            unsafe { give(tensor, "tensor", std::ptr::null_mut()) }
        });
    }

    fn nrt_tensor_attach_buffer(tensor: *mut c_void, buffer: *mut c_void, size: usize) {
        let tensor = self::tensor(tensor)?;
        let Some(start) = NonNull::new(buffer.cast::<u8>()) else {
            return Err(invalid("buffer is NULL"));
        };
        // SAFETY: the header asks the caller for just that.
        unsafe { tensor.attach(start, size) };
        Ok(())
    }

    fn nrt_tensor_read(tensor: *const c_void, buf: *mut c_void, offset: usize, size: usize) {
        let tensor = self::tensor(tensor)?;
        // SAFETY: the caller's buffer of `size` bytes.
        let to = unsafe { slice_mut(buf.cast(), size, "buf")? };
        told(Kind::TensorRead, &tensor, size, || tensor.read(offset, to))
    }

    fn nrt_tensor_write(tensor: *mut c_void, buf: *const c_void, offset: usize, size: usize) {
        let tensor = self::tensor(tensor)?;
        // SAFETY: the caller's buffer of `size` bytes.
        let from = unsafe { slice(buf.cast(), size, "buf")? };
        told(Kind::TensorWrite, &tensor, size, || tensor.write(offset, from))
    }

    fn nrt_tensor_copy(
        src: *const c_void, src_offset: usize, dst: *mut c_void, dst_offset: usize, size: usize,
    ) {
        let (src, dst) = (tensor(src)?, tensor(dst)?);
        told(Kind::TensorCopy, &src, size, || src.copy_to(src_offset, &dst, dst_offset, size))
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
        .help("nrt_tensor_get_va and nrt_tensor_get_size tell where it lies"))
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
                let mut warning = Warning { after: LONG, told: false };
                wait_without_end(&tensor, expected_completion_count, |waited| {
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

/// Waits until the count is reached; `meanwhile` hears at intervals for how long, and may end it.
fn wait_without_end(
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

/// Tells once that one waits for long.
struct Warning {
    after: Duration,
    told: bool,
}

impl Warning {
    /// What is to be said after so long.
    fn due(&mut self, waited: Duration, tensor: &CoreTensor, count: u64) -> Option<String> {
        if self.told || waited < self.after {
            return None;
        }
        self.told = true;
        Some(format!(
            "tensor '{}' was completed {} of {count} times after {:?}; waiting without end",
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
    fn who_waits_without_end_is_told_once_and_can_be_stopped() {
        let tensor = CoreTensor::empty("y");
        let mut warning = Warning {
            after: Duration::from_millis(150),
            told: false,
        };
        let (mut said, mut looks) = (Vec::new(), 0);
        let stopped = wait_without_end(&tensor, 2, |waited| {
            said.extend(warning.due(waited, &tensor, 2));
            looks += 1;
            match looks {
                4 => Err(Error::new(ErrorKind::Closed, "ended")),
                _ => Ok(()),
            }
        });
        assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Closed);
        let text = "tensor 'y' was completed 0 of 2 times after 150ms; waiting without end";
        assert_eq!(said, [text]);
        wait_without_end(&tensor, 0, |_| panic!("it need not wait")).unwrap();
        assert_eq!(LONG, Duration::from_secs(30));
    }
}
