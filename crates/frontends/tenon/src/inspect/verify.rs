//! Verification of packages: the rules of the format, then whether a runtime can load the package.

use crate::backends;
use std::path::Path;
use tenon_base::{Control, Result};
use tenon_neff::{Findings, Package, VerifyOptions, open_failure};
use tenon_runtime::{Model, Runtime};

/// How a package is verified.
///
/// ```
/// use tenon::Compiler;
/// use tenon::inspect::{PackageCheck, verify_package};
///
/// # let onnx = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/digits/digits.onnx");
/// let package = Compiler::new().compile_file(onnx)?.to_neff()?;
/// assert!(verify_package(&package, &PackageCheck::new())?.is_good());
/// # Ok::<(), tenon::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct PackageCheck {
    /// The rules of the format and its limits.
    pub rules: VerifyOptions,
    /// The runtime that has to be able to load the package.
    pub runtime: Runtime,
    /// Progress, cancellation and deadline.
    pub control: Control,
}

impl Default for PackageCheck {
    fn default() -> Self {
        Self {
            rules: VerifyOptions::default(),
            runtime: backends::runtime(backends::built_in()),
            control: Control::new(),
        }
    }
}

impl PackageCheck {
    /// All rules, the built-in backends.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the rules of the format and its limits.
        rules: VerifyOptions,
        /// Sets the runtime that has to be able to load the package.
        runtime: Runtime,
        /// Sets progress, cancellation and deadline.
        control: Control,
    }
}

/// Checks a package by every rule of the format. A package of Tenon without findings is then loaded,
/// except for the memory of executions: a truncated host program, unknown kernels and unavailable
/// backends are findings too. No code of the package runs.
///
/// # Errors
/// Cancellation, a passed deadline, errors of the operating system.
pub fn verify_package(package: &Package, check: &PackageCheck) -> Result<Findings> {
    let mut findings = tenon_neff::verify(package, &check.rules, &check.control)?;
    if package.header().is_tenon() && findings.is_good() {
        let loaded = Model::check(&check.runtime, package, &check.control);
        findings.add_load(loaded)?;
    }
    Ok(findings)
}

/// Checks the package in a file; a file that is no package is a finding.
///
/// # Errors
/// As [`verify_package`], and a file that cannot be read.
pub fn verify_file(path: impl AsRef<Path>, check: &PackageCheck) -> Result<Findings> {
    let opened = Package::open_with(path, &check.rules.limits, &check.control);
    verify_opened(opened, check)
}

/// Checks the result of opening a package.
///
/// # Errors
/// As [`verify_file`].
pub fn verify_opened(opened: Result<Package>, check: &PackageCheck) -> Result<Findings> {
    match opened {
        Ok(package) => verify_package(&package, check),
        Err(error) => open_failure(error, &check.rules),
    }
}
