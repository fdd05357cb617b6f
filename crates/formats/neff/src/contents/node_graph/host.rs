//! Host functions: `host.json` and `host.bef` (docs/package.md, "Host functions").

use super::{GraphPort, invalid};
use crate::contents::check::newer_format;
use crate::contents::read::Format;
use crate::error::encode;
use crate::{ModelInfo, Package, SymbolInfo};
use serde::{Deserialize, Serialize};
use tenon_base::{Error, Location, Result};
use tenon_tensor::size::{SizeExpr, Symbols};
use tenon_tensor::{Buffer, BufferMut, DataType};

/// The member with the ports and symbols of the host program.
const HOST_JSON: &str = "host.json";

/// The member with the host program.
const HOST_PROGRAM: &str = "host.bef";

/// The newest `format` of `host.json` that this build reads.
const FORMAT: u32 = 2;

/// A host program that calls the subgraphs of its package.
#[derive(Debug, Clone)]
pub struct HostFunction {
    /// The model.
    pub model: ModelInfo,
    /// The program, in BEF. Its function `main` takes the inputs, then a size for each symbol of the inputs.
    pub program: Buffer,
    /// The inputs of the package.
    pub inputs: Vec<GraphPort>,
    /// The outputs of the package.
    pub outputs: Vec<GraphPort>,
    /// The sizes that are known only when the model runs: those of the inputs, then those that depend on data.
    pub symbols: Vec<SymbolInfo>,
    /// The number of symbols of the inputs.
    pub input_symbols: usize,
}

/// `host.json`.
#[derive(Serialize, Deserialize)]
struct HostMember {
    format: u32,
    model: ModelInfo,
    inputs: Vec<GraphPort>,
    outputs: Vec<GraphPort>,
    #[serde(default)]
    symbols: Vec<SymbolInfo>,
    #[serde(default)]
    input_symbols: usize,
}

impl HostFunction {
    /// The first `count` symbols.
    ///
    /// # Errors
    /// Names and ranges that are not allowed; all together.
    pub fn symbols(&self, count: usize) -> Result<Symbols> {
        SymbolInfo::table(&self.symbols[..count.min(self.symbols.len())])
    }

    pub(super) fn read(package: &Package) -> Result<Self> {
        let Format { format } = package.json(HOST_JSON)?;
        if format > FORMAT {
            return Err(newer_format(format, FORMAT).at(Location::member(HOST_JSON)));
        }
        let HostMember {
            format: _,
            model,
            inputs,
            outputs,
            symbols,
            input_symbols,
        } = package.json(HOST_JSON)?;
        Ok(Self {
            model,
            program: package.require(HOST_PROGRAM)?,
            inputs,
            outputs,
            symbols,
            input_symbols,
        })
    }

    /// The members of the package, by name.
    pub(super) fn members(&self) -> Result<Vec<(String, Buffer)>> {
        let is_plain = |port: &GraphPort| port.kind.is_tensor() && port.dtype != DataType::String;
        let mut ports = self.inputs.iter().chain(&self.outputs);
        let member = HostMember {
            format: match ports.all(is_plain) {
                true => 1,
                false => FORMAT,
            },
            model: self.model.clone(),
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            symbols: self.symbols.clone(),
            input_symbols: self.input_symbols,
        };
        let json = encode(&member)?;
        Ok(vec![
            (HOST_JSON.to_owned(), BufferMut::copy_of(&json)?.freeze()),
            (HOST_PROGRAM.to_owned(), self.program.clone()),
        ])
    }

    /// Symbols, and the ports' types.
    pub(super) fn check(&self, report: &mut impl FnMut(Error)) {
        if self.input_symbols > self.symbols.len() {
            report(invalid("more symbols of inputs than symbols"));
            return;
        }
        let (of_inputs, all) = match (self.symbols(self.input_symbols), self.symbols(usize::MAX)) {
            (Ok(of_inputs), Ok(all)) => (of_inputs, all),
            (Err(error), _) | (_, Err(error)) => return report(error),
        };
        let mut check = |ports: &[GraphPort], symbols: &Symbols| {
            for port in ports {
                if let Err(error) = check_port(port, symbols) {
                    let field = Location::field(format!("'{}'", port.name));
                    report(error.at(field));
                }
            }
        };
        check(&self.inputs, &of_inputs);
        check(&self.outputs, &all);
    }
}

fn check_port(port: &GraphPort, symbols: &Symbols) -> Result<()> {
    if !port.kind.is_tensor() {
        return port.shape.of_elements().map(drop);
    }
    let extents = port.shape.parse(symbols)?;
    let negative = |extent: &SizeExpr| extent.constant().is_some_and(|size| size < 0);
    match extents.iter().any(negative) {
        true => Err(invalid("a negative extent").found(&port.shape)),
        false => Ok(()),
    }
}
