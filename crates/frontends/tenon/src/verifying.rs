//! A package checked: the rules of the format, then whether a runtime loads it.

use std::path::Path;
use tenon_base::{Control, Result};
use tenon_neff::{Findings, Package, VerifyOptions, not_opened};
use tenon_runtime::{Model, Runtime};

/// Checks a package by every rule of the format. One of Tenon that keeps them all is then loaded by
/// `runtime`, up to the memory of executions: a host program that is cut, unknown kernels and absent
/// backends are findings, too. No code of the package runs.
///
/// # Errors
/// Work that was stopped, and what the system refused.
pub fn verify(
    package: &Package,
    runtime: &Runtime,
    options: &VerifyOptions,
    control: &Control,
) -> Result<Findings> {
    let mut findings = tenon_neff::verify(package, options, control)?;
    if package.header().is_tenon() && findings.is_good() {
        findings.add_load(Model::check(runtime, package, control))?;
    }
    Ok(findings)
}

/// The same of a file; what keeps it from being opened is a finding as well.
///
/// # Errors
/// As [`verify`], and a file that cannot be read.
pub fn verify_file(
    path: impl AsRef<Path>,
    runtime: &Runtime,
    options: &VerifyOptions,
    control: &Control,
) -> Result<Findings> {
    let opened = Package::open_with(path, &options.limits, control);
    verify_opened(opened, runtime, options, control)
}

/// The same of what opening a file gave.
///
/// # Errors
/// As [`verify_file`].
pub fn verify_opened(
    opened: Result<Package>,
    runtime: &Runtime,
    options: &VerifyOptions,
    control: &Control,
) -> Result<Findings> {
    match opened {
        Ok(package) => verify(&package, runtime, options, control),
        Err(error) => not_opened(error, options),
    }
}
