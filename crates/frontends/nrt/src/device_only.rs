//! Functions that require an accelerator: each fails with the reason.

use crate::call::entry;
use crate::layout::UcodeInfo;
use crate::process;
use crate::tensors::check_range;
use std::ffi::{c_char, c_int, c_void};
use tenon_base::{Error, ErrorKind};
use tenon_c_callers::arguments::{check, invalid, read_input, slice, slice_mut, write_output};

/// The error of a function that is not applicable (`NRT_INVALID`).
pub(crate) fn unsupported(what: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("{what}: models run on the CPU here"),
    )
}

entry! {
    fn nrt_get_dmabuf_fd(_va: u64, _size: u64, fd: *mut c_int) {
        process::check()?;
        check(fd, "fd")?;
        Err(unsupported("device memory is unavailable"))
    }

    fn nrt_get_dmabuf_fd_v2(_va: u64, _size: u64, fd: *mut c_int, offset: *mut u64) {
        process::check()?;
        check(fd, "fd")?;
        check(offset, "offset")?;
        Err(unsupported("device memory is unavailable"))
    }

    fn nrt_host_device_id_get(neuron_dev: c_int, host_device_id: *mut u32) {
        process::check()?;
        // The machine is the only device, in a container and outside.
        match neuron_dev {
            // SAFETY: `host_device_id` is null or writable (header).
            0 => unsafe { write_output(host_device_id, "host_device_id", 0) },
            other => Err(invalid("there is no such device").expected("device 0").found(other)),
        }
    }

    fn nrt_host_device_id_rid_map_get(count: *mut u32, host_did_to_rid_map: *mut u32) {
        process::check()?;
        check(count, "count")?;
        check(host_did_to_rid_map, "host_did_to_rid_map")?;
        Err(unsupported("devices have no routing ids, there is no network of them"))
    }

    fn nrt_get_hbm_mmap_va(
        _device_id: c_int, _hbm_idx: c_int, addr: *mut *mut c_void, size: *mut usize,
    ) {
        process::check()?;
        check(addr, "addr")?;
        check(size, "size")?;
        Err(unsupported("there is no device memory"))
    }

    fn nrt_get_attached_efa_bdf(va: *const c_void, efa_bdf: *mut c_char, len: *mut usize) {
        process::check()?;
        check(va.cast::<u8>(), "va")?;
        check(efa_bdf, "efa_bdf")?;
        check(len, "len")?;
        Err(unsupported("there is no network adapter of a device"))
    }

    fn nrt_set_pool_eng_ucode(ucode_info: *const UcodeInfo) {
        // SAFETY: `ucode_info` is null or readable, and not written during the call (header).
        let info = unsafe { read_input(ucode_info, "ucode_info")? };
        for image in [&info.iram, &info.dram] {
            // SAFETY: `bin` has `size` readable bytes (header); they are not read.
            unsafe { slice(image.bin, image.size, "bin")? };
        }
        Err(unsupported("there is no engine to load microcode into"))
    }

    fn nrt_memcpy_to_device(dest: *mut c_void, src: *const c_void, size: usize) {
        process::check()?;
        check_range(dest, size, "dest")?;
        check_range(src, size, "src")?;
        // SAFETY: `dest` has `size` writable and `src` `size` readable bytes (header). They may
        // overlap: the slices are only used for their checked pointers.
        unsafe {
            let to = slice_mut::<u8>(dest.cast(), size, "dest")?.as_mut_ptr();
            let from = slice::<u8>(src.cast(), size, "src")?.as_ptr();
            std::ptr::copy(from, to, size);
        }
        Ok(())
    }
}
