//! Virtual cores: how many there are, and their memory.

use crate::arguments::{give, give_sized};
use crate::call::entry;
use crate::layout::MemoryStats;
use crate::process::process;
use tenon_base::Result;
use tenon_runtime::{CoreSelection, total_cores};

/// Cores that the process has, or would have.
fn visible() -> Result<u32> {
    match process() {
        Ok(process) => Ok(process.cores.len() as u32),
        // Not started, or ended: what `nrt_init` would take.
        Err(_) => Ok(CoreSelection::from_environment()?.count(total_cores()?)),
    }
}

/// A core by the number that callers give.
pub(crate) fn number(vnc: i64) -> Result<u32> {
    u32::try_from(vnc)
        .map_err(|_| crate::arguments::invalid("a core has a number from 0 on").found(vnc))
}

entry! {
    fn nrt_get_total_vnc_count(vnc_count: *mut u32) {
        // SAFETY: the caller's place for a number, here and below.
        unsafe { give(vnc_count, "vnc_count", total_cores()?) }
    }

    fn nrt_get_total_nc_count(nc_count: *mut u32) {
        // SAFETY: as above.
        unsafe { give(nc_count, "nc_count", total_cores()?) }
    }

    fn nrt_get_visible_vnc_count(vnc_count: *mut u32) {
        // SAFETY: as above.
        unsafe { give(vnc_count, "vnc_count", visible()?) }
    }

    fn nrt_get_visible_nc_count(nc_count: *mut u32) {
        // SAFETY: as above.
        unsafe { give(nc_count, "nc_count", visible()?) }
    }

    fn nrt_get_vnc_memory_stats(
        vnc: u32, stats: *mut MemoryStats, stats_size_in: usize, stats_size_out: *mut usize,
    ) {
        let process = process()?;
        let memory = process.cores.core(vnc)?.memory();
        let told = MemoryStats { bytes_used: memory.used(), bytes_limit: memory.limit() };
        // SAFETY: the caller's struct, as long as it says, and its place for a length.
        unsafe {
            let size = give_sized(stats, "stats", &told, stats_size_in, 8)?;
            give(stats_size_out, "stats_size_out", size)
        }
    }
}
