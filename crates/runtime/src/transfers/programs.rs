//! Engine programs of Tenon's own packages: functions of host programs (docs/dma.md, "Engine
//! programs").

use super::TransferCore;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_bef::{File, Name};
use tenon_dma::engine::{Machine, Program as List};
use tenon_executor::{FunctionHandle, Host, Program, Registry, Request, Services};
use tenon_kernels::{EngineProgram, Engines, engine_library};
use tenon_tensor::Buffer;

/// A function that an engine runs.
#[derive(Clone)]
pub struct EngineFunction {
    engine: String,
    function: FunctionHandle,
}

impl EngineFunction {
    /// The function `@ENGINE` of the host program in `bytes`; `None` when that has none.
    ///
    /// # Errors
    /// A program that cannot be read, kernels that engines do not have, a function of other types.
    pub fn read(engine: &str, member: &str, bytes: Buffer) -> Result<Option<Self>> {
        let at = |error: Error| error.at(Location::member(member));
        let file = File::open_owned(bytes).map_err(at)?;
        if file.find(engine).map_err(at)?.is_none() {
            return Ok(None);
        }
        let mut kernels = Registry::new();
        kernels.register_all(engine_library())?;
        let program = Program::load(file, &kernels, &Services::new()).map_err(at)?;
        let function = program.handle(engine).map_err(at)?;
        let types = (function.argument_types(), function.result_types());
        if types.0 != ["!tenon.engine", "!tfrt.chain"] || types.1 != ["!tfrt.chain"] {
            let list = |types: &[Name]| {
                types
                    .iter()
                    .map(Name::as_str)
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let error = Error::new(ErrorKind::InvalidPackage, "no program of an engine");
            let error = error
                .expected("(!tenon.engine, !tfrt.chain) -> !tfrt.chain")
                .found(format_args!("({}) -> ({})", list(types.0), list(types.1)));
            return Err(at(error.at(Location::node(format!("@{engine}")))));
        }
        Ok(Some(Self {
            engine: engine.to_owned(),
            function,
        }))
    }
}

/// Runs the machine of cores that run side by side: the functions of `engines` (of all, when it
/// names none), or where no core has any, the lists of its engines in their order.
pub(super) fn run<R>(
    mut machine: Machine,
    cores: &[TransferCore<'_>],
    engines: &[&str],
    control: &Control,
    read: impl FnOnce(&Machine) -> R,
) -> Result<R> {
    let is_wanted = |engine: &str| engines.is_empty() || engines.contains(&engine);
    if cores.iter().all(|core| core.programs.is_empty()) {
        let mut lists: Vec<List> = machine.all_triggers();
        lists.retain(|list| is_wanted(&list.engine));
        machine.run(&lists, control)?;
        return Ok(read(&machine));
    }
    let programs = cores.iter().enumerate().flat_map(|(number, core)| {
        let wanted = core
            .programs
            .iter()
            .filter(|program| is_wanted(&program.engine));
        wanted.map(move |program| EngineProgram {
            core: number,
            engine: program.engine.clone(),
            function: program.function.clone(),
        })
    });
    let programs: Vec<EngineProgram> = programs.collect();
    let engines = Engines::new(machine);
    engines.run(
        &programs,
        &Request::with(&Host::new(), control.clone(), false),
    )?;
    Ok(engines.with(read))
}
