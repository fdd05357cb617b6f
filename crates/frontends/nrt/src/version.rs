//! Which runtime and which machine this is.

use crate::arguments::{fill_text, give_sized};
use crate::call::entry;
use crate::layout::{InstanceInfo, Version};

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
        // SAFETY: the caller's struct, `size` bytes long.
        unsafe { give_sized(ver, "ver", &version, size, 4 * size_of::<u64>())? };
        Ok(())
    }

    fn nrt_get_instance_info(info: *mut InstanceInfo, instance_info_len: usize) {
        let machine = InstanceInfo {
            family: NO_FAMILY,
            size: NO_SIZE,
            arch_name: fill_text(std::env::consts::ARCH),
            device_revision: fill_text(""),
        };
        // SAFETY: the caller's struct, as long as it says; older ones have two fields.
        unsafe { give_sized(info, "info", &machine, instance_info_len, 8)? };
        Ok(())
    }
}
