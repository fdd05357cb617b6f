//! The rules of header and payload, and the findings of a file that does not open.

use super::{Check, VerifyOptions};
use crate::finding::{Finding, Findings};
use crate::{FeatureBits, HashCheck, KeyPath, NodeGraph, Rule, rule};
use std::collections::{BTreeSet, HashSet};
use tenon_base::{Error, ErrorKind, Result};

fn field(name: &str) -> KeyPath {
    KeyPath::default().key(name)
}

/// Adds a finding at a field of the header, which starts at that byte.
fn add(check: &mut Check<'_>, finding: Finding, name: &str, byte: u64) {
    let finding = finding.path(field(name)).offset(Some(byte));
    check.findings.add(finding);
}

/// The rules of the header, and its hash if the options include it.
pub(super) fn header(check: &mut Check<'_>) -> Result<()> {
    let header = check.package.header();
    let unnamed = header.feature_bits.without_name();
    if unnamed != FeatureBits::default() {
        let finding = Finding::new(&rule::HEADER_FEATURES, format!("found {unnamed}"));
        add(check, finding, "feature_bits", 544);
    }
    let sum: u32 = header
        .tpb_per_node
        .iter()
        .map(|&count| u32::from(count))
        .sum();
    if sum != header.num_tpb {
        let detail = format!("expected {sum}, found {}", header.num_tpb);
        let finding = Finding::new(&rule::HEADER_CORES, detail);
        add(check, finding, "num_tpb", 168);
    }
    if let Some(at) = header.pad.iter().position(|&byte| byte != 0) {
        let finding = Finding::new(&rule::HEADER_PAD, "");
        add(check, finding, "pad", 556 + at as u64);
    }
    if check.package.is_compressed() != (header.pkg_version == 2) {
        let detail = format!("found {}", header.pkg_version);
        let finding = Finding::new(&rule::PAYLOAD_VERSION, detail);
        add(check, finding, "pkg_version", 0);
    }
    if check.options.hash {
        hash(check)?;
    }
    Ok(())
}

fn hash(check: &mut Check<'_>) -> Result<()> {
    let finding = match check.package.verify_hash(check.control) {
        Ok(HashCheck::Equal) => return Ok(()),
        Ok(HashCheck::ForeignDiffers) => Finding::new(&rule::HEADER_HASH_FOREIGN, ""),
        Err(error) if error.kind() == ErrorKind::InvalidPackage => {
            Finding::new(&rule::HEADER_HASH, error.without_location().to_string())
        }
        Err(error) => return Err(error),
    };
    add(check, finding, "hash", 172);
    Ok(())
}

/// Members whose name is a folder of another member: the archive cannot be unpacked.
pub(super) fn folders(check: &mut Check<'_>) {
    let names: HashSet<&str> = check.package.members().map(|(name, _)| name).collect();
    let folders = |name: &'_ str| {
        let ends = name.match_indices('/').map(|(end, _)| end);
        ends.filter_map(|end| names.get(&name[..end]).copied())
            .collect::<Vec<_>>()
    };
    let found: BTreeSet<&str> = names.iter().flat_map(|name| folders(name)).collect();
    for name in found {
        check
            .findings
            .add(Finding::new(&rule::ARCHIVE_FOLDER, "").member(name));
    }
}

/// The error of opening a file as findings.
///
/// # Errors
/// `error` itself if the system reported it, or if the work was cancelled.
pub fn open_failure(error: Error, options: &VerifyOptions) -> Result<Findings> {
    let stopped = matches!(
        error.kind(),
        ErrorKind::Io | ErrorKind::NotFound | ErrorKind::Cancelled | ErrorKind::DeadlineExceeded
    );
    if stopped {
        return Err(error);
    }
    let mut findings = Findings::with_limit(options.findings);
    for problem in error.all() {
        let place = problem.location();
        let (rule, offset) = match (place.field.as_deref(), place.member.as_deref()) {
            (Some("pkg_version"), _) => (&rule::HEADER_PKG_VERSION, Some(0)),
            (Some("header_size"), _) => (&rule::HEADER_SIZE, Some(8)),
            (Some("data_size"), _) => (&rule::HEADER_DATA_SIZE, Some(16)),
            (Some("neff_version_major"), _) => (&rule::HEADER_VERSION, Some(24)),
            (_, Some("payload")) if problem.kind() == ErrorKind::OutOfMemory => {
                (&rule::PAYLOAD_LIMIT, place.offset)
            }
            (_, Some("payload")) => (&rule::PAYLOAD_GZIP, place.offset),
            (_, Some(_)) => (&rule::ARCHIVE_ENTRY, place.offset),
            _ => (&rule::HEADER_LENGTH, place.offset),
        };
        let mut finding = Finding::new(rule, problem.without_location().to_string()).offset(offset);
        if let Some(name) = &place.field {
            finding = finding.path(field(name));
        }
        findings.add(finding);
    }
    Ok(findings)
}

/// The rules of Tenon's own members.
pub(super) fn contents(read: Result<NodeGraph>, findings: &mut Findings) {
    if let Err(error) = read {
        problems(&rule::TENON_CONTENTS, &error, findings);
    }
}

/// The problems of an error as findings of a rule, at their places.
fn problems(rule: &'static Rule, error: &Error, findings: &mut Findings) {
    for problem in error.all() {
        let place = problem.location();
        let mut finding = Finding::new(rule, problem.without_location().to_string());
        finding.member = place.member.clone();
        finding.offset = place.offset;
        if let Some(name) = place.field.as_ref().or(place.node.as_ref()) {
            finding.path = field(name);
        }
        findings.add(finding);
    }
}

impl Findings {
    /// Adds the reason why a runtime refuses to load the package: the checks of this crate know
    /// neither kernels nor backends. Errors of the system and cancellation are returned.
    pub fn add_load(&mut self, loaded: Result<()>) -> Result<()> {
        match loaded {
            Ok(()) => Ok(()),
            Err(error) if is_of_system(&error) => Err(error),
            Err(error) => {
                problems(&rule::TENON_LOAD, &error, self);
                Ok(())
            }
        }
    }
}

/// Whether an error is no property of the package.
fn is_of_system(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Io | ErrorKind::OutOfMemory | ErrorKind::Cancelled | ErrorKind::DeadlineExceeded
    )
}
