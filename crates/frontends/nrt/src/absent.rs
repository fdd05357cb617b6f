//! What only an accelerator has: each function says so.

use crate::arguments::{check, give, invalid, slice, slice_mut, take};
use crate::call::entry;
use crate::layout::UcodeInfo;
use crate::process;
use crate::tensors::check_range;
use std::ffi::{c_char, c_int, c_void};
use tenon_base::{Error, ErrorKind};

/// `NRT_INVALID`, with what is not there.
pub(crate) fn absent(what: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("{what}: models run on the CPU here"),
    )
}

entry! {
    fn nrt_get_dmabuf_fd(_va: u64, _size: u64, fd: *mut c_int) {
        process::check()?;
        check(fd, "fd")?;
        Err(absent("device memory cannot be shared, there is none"))
    }

    fn nrt_get_dmabuf_fd_v2(_va: u64, _size: u64, fd: *mut c_int, offset: *mut u64) {
        process::check()?;
        check(fd, "fd")?;
        check(offset, "offset")?;
        Err(absent("device memory cannot be shared, there is none"))
    }

    fn nrt_host_device_id_get(neuron_dev: c_int, host_device_id: *mut u32) {
        process::check()?;
        // The machine is its one device, in a container and outside.
        match neuron_dev {
            // SAFETY: the caller's place for a number.
            0 => unsafe { give(host_device_id, "host_device_id", 0) },
            other => Err(invalid("there is no such device").expected("device 0").found(other)),
        }
    }

    fn nrt_host_device_id_rid_map_get(count: *mut u32, host_did_to_rid_map: *mut u32) {
        process::check()?;
        check(count, "count")?;
        check(host_did_to_rid_map, "host_did_to_rid_map")?;
        Err(absent("devices have no routing ids, there is no network of them"))
    }

    fn nrt_get_hbm_mmap_va(
        _device_id: c_int, _hbm_idx: c_int, addr: *mut *mut c_void, size: *mut usize,
    ) {
        process::check()?;
        check(addr, "addr")?;
        check(size, "size")?;
        Err(absent("there is no device memory"))
    }

    fn nrt_get_attached_efa_bdf(va: *const c_void, efa_bdf: *mut c_char, len: *mut usize) {
        process::check()?;
        check(va.cast::<u8>(), "va")?;
        check(efa_bdf, "efa_bdf")?;
        check(len, "len")?;
        Err(absent("there is no network adapter of a device"))
    }

    fn nrt_set_pool_eng_ucode(ucode_info: *const UcodeInfo) {
        // SAFETY: the caller's struct.
        let info = unsafe { take(ucode_info, "ucode_info")? };
        for image in [&info.iram, &info.dram] {
            // SAFETY: the caller's bytes, which are only checked to be there.
            unsafe { slice(image.bin, image.size, "bin")? };
        }
        Err(absent("there is no engine to load microcode into"))
    }

    fn nrt_memcpy_to_device(dest: *mut c_void, src: *const c_void, size: usize) {
        process::check()?;
        check_range(dest, size, "dest")?;
        check_range(src, size, "src")?;
        // SAFETY: the caller's memory on both sides; it may overlap.
        unsafe {
            let to = slice_mut::<u8>(dest.cast(), size, "dest")?.as_mut_ptr();
            let from = slice::<u8>(src.cast(), size, "src")?.as_ptr();
            std::ptr::copy(from, to, size);
        }
        Ok(())
    }
}
