//! Virtual cores: their number and memory.

use crate::call::entry;
use crate::layout::MemoryStats;
use crate::process::process;
use tenon_base::Result;
use tenon_c_callers::arguments::{write_output, write_output_sized};
use tenon_runtime::{CoreSelection, total_cores};

/// The number of cores that the process has, or would have after `nrt_init`.
fn visible() -> Result<u32> {
    match process() {
        Ok(process) => Ok(process.cores.len() as u32),
        // Not started, or ended: the cores that `nrt_init` would claim.
        Err(_) => Ok(CoreSelection::from_environment()?.count(total_cores()?)),
    }
}

/// The core number of an argument.
pub(crate) fn number(vnc: i64) -> Result<u32> {
    u32::try_from(vnc).map_err(|_| {
        tenon_c_callers::arguments::invalid("a core number must not be negative").found(vnc)
    })
}

entry! {
    fn nrt_get_total_vnc_count(vnc_count: *mut u32) {
        // SAFETY: `vnc_count` is null or writable (header).
        unsafe { write_output(vnc_count, "vnc_count", total_cores()?) }
    }

    fn nrt_get_total_nc_count(nc_count: *mut u32) {
        // SAFETY: `nc_count` is null or writable (header).
        unsafe { write_output(nc_count, "nc_count", total_cores()?) }
    }

    fn nrt_get_visible_vnc_count(vnc_count: *mut u32) {
        // SAFETY: `vnc_count` is null or writable (header).
        unsafe { write_output(vnc_count, "vnc_count", visible()?) }
    }

    fn nrt_get_visible_nc_count(nc_count: *mut u32) {
        // SAFETY: `nc_count` is null or writable (header).
        unsafe { write_output(nc_count, "nc_count", visible()?) }
    }

    fn nrt_get_vnc_memory_stats(
        vnc: u32, stats: *mut MemoryStats, stats_size_in: usize, stats_size_out: *mut usize,
    ) {
        let process = process()?;
        let memory = process.cores.core(vnc)?.memory();
        let result = MemoryStats { bytes_used: memory.used(), bytes_limit: memory.limit() };
        // SAFETY: `stats` has `stats_size_in` writable bytes, `stats_size_out` is null or writable
        // (header).
        unsafe {
            let size = write_output_sized(stats, "stats", &result, stats_size_in, 8)?;
            write_output(stats_size_out, "stats_size_out", size)
        }
    }
}
