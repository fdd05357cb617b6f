//! Initialisation of the memory of a package's variables (docs/dma.md, "Variables").

use super::{TransferCore, is_port};
use std::collections::{BTreeMap, HashMap};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_dma::engine::{Bank, Engine, Region, Variable as CoreVariable};
use tenon_dma::{Access, VariableId};
use tenon_neff::{Variable, VariableKind};

/// The maximum size in bytes of a state buffer without a declared size.
const MAX_STATE_BUFFER: u64 = 256 << 20;

/// The size in bytes of an address in a `pointer`.
const POINTER_BYTES: u64 = 8;

/// Allocates and initialises variables.
pub(super) struct Filler<'a> {
    pub bank: Bank,
    /// Variables shared by cores, by name.
    ports: HashMap<String, Region>,
    given: &'a BTreeMap<String, Vec<u8>>,
    /// The final values of shared variables of finished cores.
    shared: &'a BTreeMap<String, Vec<u8>>,
}

impl<'a> Filler<'a> {
    pub fn new(
        given: &'a BTreeMap<String, Vec<u8>>,
        shared: &'a BTreeMap<String, Vec<u8>>,
    ) -> Self {
        Self {
            bank: Bank::default(),
            ports: HashMap::new(),
            given,
            shared,
        }
    }

    /// The variables of a core. Those without memory are omitted and reported.
    pub fn variables(
        &mut self,
        core: &TransferCore<'_>,
        engines: &[Engine],
        problems: &mut Vec<Error>,
    ) -> Vec<CoreVariable> {
        let mut regions: HashMap<u32, Region> = HashMap::new();
        let mut variables = Vec::new();
        let mut scratchpad = None;
        // Views come after their bases.
        let is_view =
            |variable: &Variable| core.pointers_are_views && variable.kind == VariableKind::Pointer;
        let (views, own): (Vec<_>, Vec<_>) = core
            .definition
            .var
            .iter()
            .partition(|(_, variable)| is_view(variable));
        for (name, variable) in own.into_iter().chain(views) {
            let region = if is_view(variable) {
                let of = variable.referenced_var_id.and_then(|id| regions.get(&id));
                Ok(of.copied())
            } else if variable.kind == VariableKind::Virtual {
                self.part(core, variable, &mut scratchpad).map(Some)
            } else {
                self.region(core, name, variable, engines)
            };
            let region = region.and_then(|region| {
                self.fill(core, name, region)?;
                Ok(region)
            });
            match region {
                Ok(region) => {
                    regions.extend(region.map(|region| (variable.var_id, region)));
                    use VariableKind::{File, Input};
                    variables.push(CoreVariable {
                        id: VariableId(variable.var_id),
                        name: name.to_owned(),
                        region,
                        is_writable: !matches!(variable.kind, Input | File),
                    });
                }
                Err(error) => {
                    let place = format!("{}: variable '{name}'", core.name);
                    problems.push(error.at(Location::member(place)));
                }
            }
        }
        variables
    }

    /// A range of the scratchpad of the core, which is allocated on first use.
    fn part(
        &mut self,
        core: &TransferCore<'_>,
        variable: &Variable,
        scratchpad: &mut Option<Region>,
    ) -> Result<Region> {
        let pad = match *scratchpad {
            Some(pad) => pad,
            None => {
                let bytes = bytes(core.definition.scratchpad_bytes())?;
                *scratchpad.insert(self.bank.add_zeroed(bytes)?)
            }
        };
        let start = variable.backing_variable_off.unwrap_or(0);
        let end = start.checked_add(variable.size.unwrap_or(0));
        let part = end.and_then(|end| pad.part(start, end));
        part.ok_or_else(|| invalid("it exceeds the scratchpad"))
    }

    /// Separate memory, or that of another core's variable; `None` for a table.
    fn region(
        &mut self,
        core: &TransferCore<'_>,
        name: &str,
        variable: &Variable,
        engines: &[Engine],
    ) -> Result<Option<Region>> {
        let size = match (variable.kind, variable.size) {
            (VariableKind::DgeTable, _) => return Ok(None),
            (VariableKind::StateBuffer, None) => reached(engines, variable.var_id)?,
            (VariableKind::Pointer, size) => size.unwrap_or(POINTER_BYTES),
            (_, Some(size)) => size,
            (_, None) => return Err(invalid("it has no size")),
        };
        if let Some(&known) = self.ports.get(name).filter(|_| is_port(variable)) {
            if known.len() as u64 != size {
                let error = invalid("another core has a variable of this name and another size");
                return Err(error.expected(known.len()).found(size));
            }
            return Ok(Some(known));
        }
        let region = self.bank.add_zeroed(bytes(size)?)?;
        let target = self.bank.bytes_mut(&region).unwrap_or_default();
        match (variable.kind, variable.file_name.as_deref()) {
            (VariableKind::Pointer, _) => {
                let id = variable.referenced_var_id.unwrap_or(0);
                let place = target.get_mut(..8).ok_or_else(|| {
                    let error = invalid("a pointer is too small for an address");
                    error.expected("at least 8 bytes").found(size)
                })?;
                place.copy_from_slice(&(u64::from(id) << 32).to_le_bytes());
            }
            (VariableKind::File, Some(file)) => {
                let data = core.constants.get(file).ok_or_else(|| {
                    Error::new(ErrorKind::NotFound, "its data is missing")
                        .found(format_args!("'{file}'"))
                })?;
                let data = data.bytes();
                if data.len() != target.len() {
                    let error = invalid("its data does not have its size");
                    return Err(error.expected(target.len()).found(data.len()));
                }
                target.copy_from_slice(data);
            }
            _ => {}
        }
        if is_port(variable) {
            self.ports.insert(name.to_owned(), region);
            if let Some(left) = self
                .shared
                .get(name)
                .filter(|left| left.len() == target.len())
            {
                target.copy_from_slice(left);
            }
        }
        Ok(Some(region))
    }

    /// Copies the caller's bytes of a variable.
    fn fill(&mut self, core: &TransferCore<'_>, name: &str, region: Option<Region>) -> Result<()> {
        let own = self.given.get(&format!("{}/{name}", core.name));
        let Some(given) = own.or_else(|| self.given.get(name)) else {
            return Ok(());
        };
        let target = region.and_then(|region| self.bank.bytes_mut(&region));
        match target {
            Some(target) if target.len() == given.len() => target.copy_from_slice(given),
            target => {
                let error = Error::new(
                    ErrorKind::InvalidArgument,
                    "the given bytes do not have the size of the variable",
                );
                let size = target.map_or(0, |target| target.len());
                return Err(error.expected(size).found(given.len()));
            }
        }
        Ok(())
    }
}

/// The end of the range of a variable that transfers access.
fn reached(engines: &[Engine], variable: u32) -> Result<u64> {
    let transfers = engines.iter().flat_map(|engine| &engine.transfers);
    let descriptors = transfers.flat_map(|transfer| &transfer.descriptors);
    let accesses = descriptors.flat_map(|each| each.from.iter().chain([&each.to]));
    let own = accesses.filter(|access| access.variable.0 == variable);
    let end = own.filter_map(Access::range).map(|range| range.end).max();
    let end = end.unwrap_or(0);
    if end > MAX_STATE_BUFFER {
        let error =
            invalid("transfers exceed the maximum size of a state buffer without a declared size");
        return Err(error
            .expected(format_args!("at most byte {MAX_STATE_BUFFER}"))
            .found(end));
    }
    Ok(end)
}

fn bytes(size: u64) -> Result<usize> {
    usize::try_from(size).map_err(|_| invalid("the size exceeds the address space").found(size))
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidPackage, message)
}
