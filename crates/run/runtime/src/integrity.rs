//! Verification of a package by its digests: members that loading reads are checked at load,
//! constants before the first execution.

use std::sync::OnceLock;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_neff::{DIGESTS_JSON, NodeGraph, Package, Role, VerifiedPackage};

/// The members that are not checked yet.
pub(crate) struct Integrity {
    package: VerifiedPackage,
    constants: Vec<String>,
    is_whole: OnceLock<bool>,
}

impl Integrity {
    /// Checks all members except the constants of `graph`.
    ///
    /// # Errors
    /// A package without digests; members that differ from their digests, all reported together.
    pub fn of(package: &Package, graph: &NodeGraph) -> Result<Self> {
        if package.member(DIGESTS_JSON).is_none() {
            let error = Error::new(ErrorKind::InvalidPackage, "the package has no digests");
            let error = error.help("'tenon pack' and 'tenon compile' write them");
            return Err(error.at(Location::member(DIGESTS_JSON)));
        }
        let constants: Vec<*const u8> = graph
            .cores()
            .flat_map(|contents| &contents.variables)
            .filter_map(|variable| match &variable.role {
                Role::Constant(bytes) => Some(bytes.as_ptr()),
                _ => None,
            })
            .collect();
        // The bytes of a constant are those of its member in the mapping.
        let is_constant = |name: &str| {
            let member = package.member(name);
            member.is_some_and(|bytes| constants.contains(&bytes.as_ptr()))
        };
        let names = package.members().map(|(name, _)| name.to_owned());
        let (constants, read): (Vec<String>, Vec<String>) =
            names.partition(|name| is_constant(name));
        let integrity = Self {
            package: VerifiedPackage::new(package.clone())?,
            constants,
            is_whole: OnceLock::new(),
        };
        integrity.package.check(&read)?;
        Ok(integrity)
    }

    /// Checks the constants once; later calls read a flag.
    pub fn constants(&self) -> Result<()> {
        let mut failure = None;
        let is_whole = *self.is_whole.get_or_init(|| {
            failure = self.package.check(&self.constants).err();
            failure.is_none()
        });
        match failure {
            Some(error) => Err(error),
            None if is_whole => Ok(()),
            None => self.package.check(&self.constants),
        }
    }
}
