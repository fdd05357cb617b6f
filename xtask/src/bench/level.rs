//! The level of vector instructions of a measurement.

use crate::{Result, root, run, target};
use std::process::Command;
use tenon_base::CpuLevel;

/// The level that the instructions of the process are limited to.
const VARIABLE: &str = "TENON_HIDE_FROM";

/// Runs this program again with the instructions above `level` hidden from it and from all programs that it starts, so
/// that Tenon and its peers are measured as on a CPU without them. `false`: the CPU has no more than `level`.
pub fn run_below(level: CpuLevel) -> Result<bool> {
    if level >= CpuLevel::native() {
        return Ok(false);
    }
    if std::env::var_os(VARIABLE).is_some() {
        return Err(
            "--cpu: this machine cannot hide instructions from programs (CPUID faulting, the flag \
             cpuid_fault of /proc/cpuinfo)"
                .into(),
        );
    }
    let library = target().join("hide_instructions.so");
    let library = std::path::absolute(&library).map_err(|error| error.to_string())?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC"]);
    compiler.arg(root().join("xtask/c/hide_instructions.c"));
    run(compiler.arg("-o").arg(&library))?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut again = Command::new(program);
    again.args(std::env::args_os().skip(1));
    again.env("LD_PRELOAD", library);
    run(again.env(VARIABLE, level.name()))?;
    Ok(true)
}

/// What a table says of the machine's level.
pub fn note() -> &'static str {
    match std::env::var(VARIABLE).as_deref() {
        Ok("avx2") => " (AVX-512, AVX-VNNI and AMX hidden from all programs)",
        Ok(_) => " (AVX and all later vector instructions hidden from all programs)",
        Err(_) => "",
    }
}
