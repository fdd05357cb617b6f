//! Engine programs of Tenon's packages: functions of host programs (docs/dma.md, "Engine
//! programs").

use super::TransferCore;
use std::collections::HashSet;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_bef::{Attribute, File, Function, Module, Name};
use tenon_dma::engine::{Machine, Program as List};
use tenon_executor::{FunctionHandle, Host, Program, Registry, Request, Services};
use tenon_kernels::{EngineProgram, Engines, engine_library};
use tenon_neff::Trigger;
use tenon_tensor::Buffer;

/// A function that an engine runs.
#[derive(Clone)]
pub struct EngineFunction {
    engine: String,
    function: FunctionHandle,
}

impl EngineFunction {
    /// The function `@ENGINE` of the host program in `bytes`, which triggers `transfers`; `None` if
    /// there is none.
    ///
    /// # Errors
    /// A malformed program, unknown kernels, a function of another type, triggers of transfers that
    /// are not in the list.
    pub fn read(
        engine: &str,
        transfers: &[Trigger],
        member: &str,
        bytes: Buffer,
    ) -> Result<Option<Self>> {
        let at = |error: Error| error.at(Location::member(member));
        let file = File::open_owned(bytes).map_err(at)?;
        if file.find(engine).map_err(at)?.is_none() {
            return Ok(None);
        }
        let program = file.module().map_err(at)?;
        check_triggers(&program, engine, transfers).map_err(at)?;
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
            let error = Error::new(
                ErrorKind::InvalidPackage,
                "the function does not have the type of an engine program",
            );
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

/// Checks that triggered transfers are in the engine's list: by id, and by a `function_start` of
/// the function. The machine resolves them.
fn check_triggers(program: &Module, engine: &str, transfers: &[Trigger]) -> Result<()> {
    let ids: HashSet<u32> = transfers.iter().map(|transfer| transfer.id).collect();
    let begun = transfers
        .iter()
        .filter_map(|it| it.function_start.as_deref());
    let functions: HashSet<&str> = begun.chain([""]).collect();
    let mut problems = Vec::new();
    for function in run_by(program, engine) {
        let triggers = function.kernels.iter().enumerate();
        for (index, kernel) in triggers.filter(|(_, kernel)| kernel.name == TRIGGER) {
            let mut problem = |what: &str, found: String| {
                let error = Error::new(ErrorKind::InvalidPackage, what).found(found);
                let place = format!("@{} kernel {index} ({TRIGGER})", function.name);
                problems.push(error.at(Location::node(place)));
            };
            if let Some(Attribute::String(name)) = kernel.attribute("function")
                && !functions.contains(name.as_str())
            {
                problem(
                    "no function_start of the engine has this name",
                    format!("'{name}'"),
                );
            }
            if let Some(Attribute::UI32(id)) = kernel.attribute("id")
                && !ids.contains(id)
            {
                problem("the engine has no transfer of this id", id.to_string());
            }
        }
    }
    Error::from_all(problems).map_or(Ok(()), Err)
}

/// The function of an engine, and all functions that it refers to, transitively.
fn run_by<'a>(program: &'a Module, engine: &str) -> Vec<&'a Function> {
    let is_engine = |function: &Function| function.name == engine;
    let mut found: Vec<usize> = program
        .functions
        .iter()
        .position(is_engine)
        .into_iter()
        .collect();
    let mut next = 0;
    while let Some(&id) = found.get(next) {
        next += 1;
        for (_, callee) in program.functions[id]
            .kernels
            .iter()
            .flat_map(|it| &it.functions)
        {
            let callee = callee.0 as usize;
            if !found.contains(&callee) {
                found.push(callee);
            }
        }
    }
    found.into_iter().map(|id| &program.functions[id]).collect()
}

/// The kernel that triggers transfers.
const TRIGGER: &str = "tenon.dma.trigger";

/// Runs a machine of concurrent cores: the functions of `engines` (all if empty), or if no core has
/// functions, the lists of its engines in order.
pub(super) fn run<R>(
    mut machine: Machine,
    cores: &[TransferCore<'_>],
    engines: &[&str],
    control: &Control,
    read: impl FnOnce(&Machine) -> R,
) -> Result<R> {
    let is_selected = |engine: &str| engines.is_empty() || engines.contains(&engine);
    if cores.iter().all(|core| core.programs.is_empty()) {
        let mut lists: Vec<List> = machine.all_triggers();
        lists.retain(|list| is_selected(&list.engine));
        machine.run(&lists, control)?;
        return Ok(read(&machine));
    }
    let programs = cores.iter().enumerate().flat_map(|(number, core)| {
        let selected = core
            .programs
            .iter()
            .filter(|program| is_selected(&program.engine));
        selected.map(move |program| EngineProgram {
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
