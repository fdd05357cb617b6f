//! Lowering of netlists to Modules: one function declares the queues, one runs the ops of each
//! temporal epoch, one runs each program (docs/netlists.md). Kernels carry their source locations.

mod concurrent;
mod epoch;
mod epochs;
mod fused;
mod movements;
mod ops;
mod package;
mod program;
mod replicas;

mod value;

pub use package::{NetlistOutput, NetlistPackage};

use program::LoweredEpoch;
use std::collections::{BTreeSet, HashMap, HashSet};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::{Attribute, FunctionBuilder, FunctionKind, KernelBuilder, KernelLocation, Module};
use tenon_netlist::{
    Arch, Blocking, Graph, Instruction, Netlist, Operand, Queue, QueueKind, QueueSetting,
    SettingKey, Source, Span, UblockOrder,
};

/// Where values are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NumericMode {
    /// f32, rounded where the golden model of the original rounds (netlist 5.6).
    #[default]
    Golden,
    /// Every tensor in its declared format, as devices store it.
    Formats,
}

/// How to lower a netlist.
#[derive(Debug, Clone, Copy, Default)]
pub struct NetlistOptions {
    /// Where values are rounded.
    pub mode: NumericMode,
    /// The architecture; the netlist's first when `None` (netlist 2.1).
    pub arch: Option<Arch>,
}

/// A netlist as a Module.
#[derive(Debug, Clone)]
pub struct LoweredNetlist {
    /// The function `setup` takes a machine and declares its queues; each program's function takes
    /// a machine and the program's parameters; `eager.GRAPH` takes a machine and runs the temporal
    /// epoch of the graph once.
    pub module: Module,
    /// The programs in the order of the file.
    pub programs: Vec<LoweredProgram>,
    /// The netlist, every graph and queue on one device.
    pub netlist: Netlist,
}

/// A program of a lowered netlist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoweredProgram {
    /// Its name.
    pub name: String,
    /// The name of its function.
    pub function: String,
    /// Its parameters, `$` included, in the order in which the function takes them.
    pub params: Vec<String>,
}

/// Lowers a netlist that was read without errors. All problems are reported together.
pub fn lower_netlist(
    netlist: &Netlist,
    source: &Source,
    options: NetlistOptions,
) -> Result<LoweredNetlist> {
    let netlist = replicas::expand(netlist);
    let scope = Scope::new(&netlist, source, options);
    let mut module = Module::new();
    module.add(setup(&scope));
    let mut lowered = HashMap::new();
    let mut errors = Vec::new();
    for epoch in epochs::epochs(&netlist) {
        let graphs: Vec<&Graph> = epoch.iter().map(|&index| &netlist.graphs[index]).collect();
        let names: Vec<String> = graphs
            .iter()
            .map(|graph| graph.name.value.clone())
            .collect();
        let location = || error_at(source, graphs[0].name.span, "").location().clone();
        let epoch = program::inputs_of(&graphs)
            .map_err(|error| error.at(location()))
            .and_then(|inputs| {
                let name = format!("epoch.{}", names.join("+"));
                let (function, reads) = epoch::epoch(&scope, name, &graphs)?;
                Ok((inputs, function, reads))
            });
        match epoch {
            Ok((inputs, function, reads)) => {
                let function = module.add(function);
                let devices = graphs.iter().flat_map(|graph| &graph.target_device);
                let devices: BTreeSet<u32> = devices.map(|device| device.value).collect();
                for name in &names {
                    let epoch = LoweredEpoch {
                        function,
                        inputs,
                        reads: reads.clone(),
                        graphs: names.clone(),
                        devices: devices.clone(),
                    };
                    program::eager(name, &epoch, &mut module);
                    lowered.insert(name.clone(), epoch);
                }
            }
            Err(error) => errors.push(error),
        }
    }
    Error::from_all(errors).map_or(Ok(()), Err)?;
    let mut programs = Vec::new();
    let mut errors = Vec::new();
    for program in &netlist.programs {
        match program::program(&scope, program, &lowered, &mut module) {
            Ok(params) => programs.push(LoweredProgram {
                name: program.name.value.clone(),
                function: program::function_name(&program.name.value),
                params,
            }),
            Err(error) => errors.push(error),
        }
    }
    Error::from_all(errors).map_or(Ok(()), Err)?;
    Ok(LoweredNetlist {
        module,
        programs,
        netlist,
    })
}

/// The function that declares all queues.
fn setup(scope: &Scope<'_>) -> tenon_bef::Function {
    let mut function = FunctionBuilder::new("setup", FunctionKind::Sync);
    let machine = function.argument(epoch::MACHINE);
    for queue in &scope.netlist.queues {
        let tile = queue.blocking.tile().map(|side| side as usize);
        let kernel = function
            .kernel("netlist.queue")
            .operands([machine])
            .attribute("queue", queue.name.value.as_str())
            .attribute("ram", Attribute::I1(queue.kind.value == QueueKind::Ram))
            .attribute("entries", i64::from(queue.entries.value))
            .attribute("tiles", value::sizes(&value::tiles_of(&queue.blocking)))
            .attribute("tile", value::sizes(&tile))
            .attribute("format", queue.df.value.name())
            .location(scope.location(queue.name.span));
        let kernel = if queue.is_host_fed() {
            kernel
        } else {
            kernel.attribute("source", queue.input.value.as_str())
        };
        let is_alias = |other: &Queue| other.alias.as_ref().is_some_and(|it| *it == queue.name);
        let kernel = if queue.alias.is_some() || scope.netlist.queues.iter().any(is_alias) {
            blocking_attributes(kernel, &queue.blocking)
        } else {
            kernel
        };
        match &queue.alias {
            Some(alias) => kernel.attribute("view_of", alias.value.as_str()).done(),
            None => kernel.done(),
        }
    }
    function.returns([])
}

/// The attributes for the blocking of a queue, which determines the layout of its buffers.
fn blocking_attributes<'k>(kernel: KernelBuilder<'k>, blocking: &Blocking) -> KernelBuilder<'k> {
    let sizes = |pair: [u32; 2]| value::sizes(&pair.map(|size| size as usize));
    kernel
        .attribute("grid", sizes(blocking.grid_size.value))
        .attribute("mblock", sizes(blocking.mblock.value))
        .attribute("ublock", sizes(blocking.ublock.value))
        .attribute(
            "column_order",
            Attribute::I1(blocking.order() == UblockOrder::Column),
        )
}

/// The netlist and its indices, shared by all parts of a lowering.
pub(crate) struct Scope<'n> {
    pub netlist: &'n Netlist,
    pub source: &'n Source,
    pub mode: NumericMode,
    pub queues: HashMap<&'n str, &'n Queue>,
    /// The queues that each op pushes to.
    pub filled: HashMap<&'n str, Vec<&'n Queue>>,
    /// The queues that the prologue of an execute loads.
    pub loaded: HashSet<&'n str>,
    arch: Option<Arch>,
    path: String,
}

impl<'n> Scope<'n> {
    fn new(netlist: &'n Netlist, source: &'n Source, options: NetlistOptions) -> Self {
        let mut filled: HashMap<&str, Vec<&Queue>> = HashMap::new();
        for queue in netlist.queues.iter().filter(|queue| !queue.is_host_fed()) {
            filled.entry(&queue.input.value).or_default().push(queue);
        }
        let named = netlist
            .queues
            .iter()
            .map(|queue| (&*queue.name.value, queue));
        Self {
            netlist,
            source,
            mode: options.mode,
            queues: named.collect(),
            filled,
            loaded: loaded(netlist),
            arch: options.arch.or(netlist.arch.first().map(|arch| arch.value)),
            path: source.path().display().to_string(),
        }
    }

    /// Whether Float32 inputs are rounded to TF32 (netlist 5.6).
    fn is_wormhole(&self) -> bool {
        matches!(self.arch, Some(Arch::Wormhole | Arch::WormholeB0))
    }

    /// Whether the device runs one graph at a time (netlist 6.5).
    fn is_grayskull(&self) -> bool {
        matches!(self.arch, None | Some(Arch::Grayskull))
    }

    /// The source location of a kernel.
    fn location(&self, span: Span) -> KernelLocation {
        let (line, column) = self.source.line_column(span.start);
        KernelLocation::FileLineCol {
            file: self.path.as_str().into(),
            line,
            column,
        }
    }

    /// The ram that holds the memory of a ram: the aliased one, or itself.
    fn memory_of<'q>(&self, ram: &'q Queue) -> &'q str {
        ram.alias
            .as_ref()
            .map_or(&*ram.name.value, |alias| &*alias.value)
    }
}

/// The queues whose setting has a prologue in some execute.
fn loaded(netlist: &Netlist) -> HashSet<&str> {
    let instructions = netlist
        .programs
        .iter()
        .flat_map(|program| &program.instructions);
    let settings = instructions.flat_map(|instruction| match &instruction.value {
        Instruction::Execute { settings, .. } => &settings[..],
        _ => &[],
    });
    let is_loaded = |setting: &&QueueSetting| {
        let prologue = setting.find(SettingKey::Prologue);
        prologue.is_some_and(|value| value.value != Operand::Immediate(0))
    };
    let loaded = settings.filter(is_loaded);
    loaded.map(|setting| &*setting.queue.value).collect()
}

/// An error at a location in the netlist.
pub(crate) fn error_at(source: &Source, span: Span, text: impl Into<String>) -> Error {
    let (line, column) = source.line_column(span.start);
    let location = Location::file(source.path()).line_column(line, column);
    Error::new(ErrorKind::InvalidModel, text).at(location)
}
