//! The transfers of a package of any compiler.

use super::{
    DescriptorRow, EngineFunction, TransferCore, TransferOutcome, descriptor_rows, run_transfers,
};
use std::collections::{BTreeMap, HashMap};
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_neff::{Constant, Package, Structure, Subgraph};

/// The magic number of a host program (bef 1.1).
const MAGIC: [u8; 2] = [0x0b, 0xef];

/// The transfers of a package's subgraphs.
pub struct PackageTransfers {
    structure: Structure,
    /// By subgraph and `file_name`.
    constants: Vec<HashMap<String, Constant>>,
    /// By subgraph.
    programs: Vec<Vec<EngineFunction>>,
    pointers_are_views: bool,
    lnc: usize,
}

impl PackageTransfers {
    /// Reads the package's JSON and constants; all problems together.
    pub fn read(package: &Package) -> Result<Self> {
        let structure = Structure::read(package)?;
        let mut problems = Vec::new();
        let mut constants = Vec::new();
        let mut programs = Vec::new();
        for subgraph in &structure.subgraphs {
            let mut own = HashMap::new();
            for (_, variable) in subgraph.definition.var.iter() {
                let Some(file) = variable.file_name.as_deref() else {
                    continue;
                };
                match Constant::of(package, &subgraph.file(file)) {
                    Ok(constant) => drop(own.insert(file.to_owned(), constant)),
                    // Reported when the variable is used.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => problems.push(error),
                }
            }
            constants.push(own);
            programs.push(engine_functions(package, subgraph, &mut problems));
        }
        if let Some(error) = Error::from_all(problems) {
            return Err(error);
        }
        Ok(Self {
            structure,
            constants,
            programs,
            pointers_are_views: package.header().is_tenon(),
            lnc: package.header().lnc_size.max(1) as usize,
        })
    }

    /// All descriptors in the order of their lists.
    pub fn rows(&self) -> Result<Vec<DescriptorRow>> {
        descriptor_rows(&self.cores())
    }

    /// Runs the transfers of `engines`, of all if empty: see [`run_transfers`].
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
        let subgraphs = self.structure.subgraphs.iter();
        let parts = subgraphs.zip(&self.constants).zip(&self.programs);
        let core = parts.map(|((subgraph, constants), programs)| TransferCore {
            name: &subgraph.name,
            definition: &subgraph.definition,
            engines: subgraph
                .engines
                .iter()
                .filter_map(|parts| Some((parts.name.key(), parts.engine.as_ref()?)))
                .collect(),
            constants: constants.clone(),
            programs: programs.clone(),
            pointers_are_views: self.pointers_are_views,
        });
        core.collect()
    }
}

/// The engine functions of a subgraph in a package of Tenon.
fn engine_functions(
    package: &Package,
    subgraph: &Subgraph,
    problems: &mut Vec<Error>,
) -> Vec<EngineFunction> {
    let mut functions = Vec::new();
    for parts in subgraph
        .engines
        .iter()
        .filter(|_| package.header().is_tenon())
    {
        let Some(member) = &parts.program else {
            continue;
        };
        let transfers = parts.engine.as_ref().map_or(&[][..], |engine| &engine.dma);
        // A missing member, or one that is no host program, is reported where it is used.
        let bytes = package
            .member(member)
            .filter(|bytes| bytes.starts_with(&MAGIC));
        let Some(bytes) = bytes else { continue };
        match EngineFunction::read(parts.name.key(), transfers, member, bytes) {
            Ok(function) => functions.extend(function),
            Err(error) => problems.push(error),
        }
    }
    functions
}
