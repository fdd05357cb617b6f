//! The transfers of a package, whoever made it.

use super::{DescriptorRow, TransferCore, TransferOutcome, descriptor_rows, run_transfers};
use std::collections::{BTreeMap, HashMap};
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_neff::{Constant, Package, Structure};

/// What a package's subgraphs say of their transfers.
pub struct PackageTransfers {
    structure: Structure,
    /// By subgraph and `file_name`.
    constants: Vec<HashMap<String, Constant>>,
    pointers_are_views: bool,
    lnc: usize,
}

impl PackageTransfers {
    /// Reads the package's JSON and constants; all problems together.
    pub fn read(package: &Package) -> Result<Self> {
        let structure = Structure::read(package)?;
        let mut problems = Vec::new();
        let mut constants = Vec::new();
        for subgraph in &structure.subgraphs {
            let mut own = HashMap::new();
            for (_, variable) in subgraph.definition.var.iter() {
                let Some(file) = variable.file_name.as_deref() else {
                    continue;
                };
                match Constant::of(package, &subgraph.file(file)) {
                    Ok(constant) => drop(own.insert(file.to_owned(), constant)),
                    // The variable tells it, when it is used.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => problems.push(error),
                }
            }
            constants.push(own);
        }
        if let Some(error) = Error::from_all(problems) {
            return Err(error);
        }
        Ok(Self {
            structure,
            constants,
            pointers_are_views: package.header().is_tenon(),
            lnc: package.header().lnc_size.max(1) as usize,
        })
    }

    /// All descriptors in the order of their lists.
    pub fn rows(&self) -> Result<Vec<DescriptorRow>> {
        descriptor_rows(&self.cores())
    }

    /// Runs the transfers of `engines`, of all when it names none: see [`run_transfers`].
    pub fn run(
        &self,
        given: &BTreeMap<String, Vec<u8>>,
        engines: &[&str],
        control: &Control,
    ) -> Result<TransferOutcome> {
        run_transfers(&self.cores(), self.lnc, given, engines, control)
    }

    /// The subgraphs.
    pub fn cores(&self) -> Vec<TransferCore<'_>> {
        let subgraphs = self.structure.subgraphs.iter().zip(&self.constants);
        let core = subgraphs.map(|(subgraph, constants)| TransferCore {
            name: &subgraph.name,
            definition: &subgraph.definition,
            engines: subgraph
                .engines
                .iter()
                .filter_map(|parts| Some((parts.name.key(), parts.engine.as_ref()?)))
                .collect(),
            constants: constants.clone(),
            pointers_are_views: self.pointers_are_views,
        });
        core.collect()
    }
}
