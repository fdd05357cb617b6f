//! The version of the runtime and the properties of the machine.

use crate::call::entry;
use crate::layout::{InstanceInfo, Version};
use tenon_c_callers::arguments::{fill_text, write_output_sized};

/// The versions of the interface that the headers name.
const MAJOR: u64 = 2;
const MINOR: u64 = 0;

/// `NRT_INSTANCE_UNKNOWN` and `NRT_INSTANCE_SIZE_UNKNOWN`: a machine without accelerator.
const NO_FAMILY: u32 = 0;
const NO_SIZE: u32 = 9;

entry! {
    fn nrt_get_version(ver: *mut Version, size: usize) {
        let version = Version {
            major: MAJOR,
            minor: MINOR,
            patch: 0,
            maintenance: 0,
            detail: fill_text(concat!("tenon ", env!("CARGO_PKG_VERSION"))),
            git_hash: fill_text(env!("TENON_GIT_HASH")),
        };
        // SAFETY: `ver` is null or has `size` writable bytes (header).
        unsafe { write_output_sized(ver, "ver", &version, size, 4 * size_of::<u64>())? };
        Ok(())
    }

    fn nrt_get_instance_info(info: *mut InstanceInfo, instance_info_len: usize) {
        let machine = InstanceInfo {
            family: NO_FAMILY,
            size: NO_SIZE,
            arch_name: fill_text(std::env::consts::ARCH),
            device_revision: fill_text(""),
        };
        // SAFETY: `info` is null or has `instance_info_len` writable bytes (header); older callers
        // have only the first two fields.
        unsafe { write_output_sized(info, "info", &machine, instance_info_len, 8)? };
        Ok(())
    }
}
