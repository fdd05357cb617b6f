//! A package beside its digests: what loading reads is checked at load, constants when the model
//! is first executed.

use std::sync::OnceLock;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_neff::{CheckedPackage, DIGESTS_JSON, NodeGraph, Package, Role};

/// Members that are still to be checked.
pub(crate) struct Integrity {
    package: CheckedPackage,
    constants: Vec<String>,
    is_whole: OnceLock<bool>,
}

impl Integrity {
    /// Checks all members but the constants of `graph`.
    ///
    /// # Errors
    /// A package without digests; members that differ from theirs, all of them told.
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
        // A constant is used where its member lies.
        let is_constant = |name: &str| {
            let member = package.member(name);
            member.is_some_and(|bytes| constants.contains(&bytes.as_ptr()))
        };
        let names = package.members().map(|(name, _)| name.to_owned());
        let (constants, read): (Vec<String>, Vec<String>) =
            names.partition(|name| is_constant(name));
        let integrity = Self {
            package: CheckedPackage::new(package.clone())?,
            constants,
            is_whole: OnceLock::new(),
        };
        integrity.package.check(&read)?;
        Ok(integrity)
    }

    /// Checks the constants, once: later calls ask one flag.
    pub fn constants(&self) -> Result<()> {
        let mut told = None;
        let is_whole = *self.is_whole.get_or_init(|| {
            told = self.package.check(&self.constants).err();
            told.is_none()
        });
        match told {
            Some(error) => Err(error),
            None if is_whole => Ok(()),
            None => self.package.check(&self.constants),
        }
    }
}
