//! The rules of digests, checked on all cores.

use super::Check;
use crate::finding::Finding;
use crate::{DIGESTS_JSON, Digests, digest, rule};
use tenon_base::{ErrorKind, Result};

/// Compares every member with `digests.json`, where the package has it.
pub(super) fn digests(check: &mut Check<'_>) -> Result<()> {
    let package = check.package;
    let digests = match Digests::read(package) {
        Ok(Some(digests)) => digests,
        Ok(None) => {
            if package.header().is_tenon() {
                check.findings.add(Finding::new(&rule::DIGEST_NONE, ""));
            }
            return Ok(());
        }
        Err(error) if error.kind() == ErrorKind::InvalidPackage => {
            let detail = error.without_location().to_string();
            check
                .findings
                .add(Finding::new(&rule::DIGEST_TABLE, detail).member(DIGESTS_JSON));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let mut named = Vec::new();
    for (name, size, digest) in digests.iter() {
        match package.member(name) {
            Some(bytes) => named.push((name, size, digest, bytes)),
            None => check
                .findings
                .add(Finding::new(&rule::DIGEST_LOST, "").member(name)),
        }
    }
    let bytes: Vec<&[u8]> = named.iter().map(|(.., bytes)| &bytes[..]).collect();
    let found = digest::all(&bytes, check.control)?;
    for ((name, size, digest, bytes), found) in named.iter().zip(found) {
        if *size != bytes.len() as u64 || *digest != found {
            let detail = format!("expected {digest} of {size} bytes, found {found}");
            check
                .findings
                .add(Finding::new(&rule::DIGEST_MEMBER, detail).member(*name));
        }
    }
    for (name, _) in package.members() {
        if name != DIGESTS_JSON && digests.find(name).is_none() {
            check
                .findings
                .add(Finding::new(&rule::DIGEST_UNLISTED, "").member(name));
        }
    }
    Ok(())
}
