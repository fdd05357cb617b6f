//! A loaded subgraph of a package, executed on a core.

use crate::arenas::{Arenas, Execution, ExecutionFactory};
use crate::model::Caller;
use crate::profile::{ExecutionObserver, LoopTrace, NodeObserver};
use crate::substitute::{ProgramParts, Substitution, substitute};
use crate::tap::KernelOutputs;
use crate::{LoadOptions, Runtime, Signature};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tenon_base::{Control, Error, ErrorKind, Location, Result, pool};
use tenon_bef::Module;
use tenon_bef::decode;
use tenon_dma::{StochasticRounding, VariableId};
use tenon_executor::{BoundFunction, Label, Program, Services};
use tenon_kernels::{
    Memory, Movements, PreparedForm, Storage, TensorPlacements, Variable, Variables, accesses,
    verify_order,
};
use tenon_neff::{
    Contents, MemoryPlan, Movement, NodeCost, PackageVariable, Port, PortShape, Role, TenonMember,
};
use tenon_netlist_kernels::DeclaredQueues;
use tenon_tensor::{BufferPool, DataType, TensorType};

/// A bound program, and the memory of its executions.
pub(crate) struct CoreNode {
    /// `sg00` and so on.
    pub name: String,
    pub inputs: Vec<Signature>,
    pub outputs: Vec<Signature>,
    pub member: Arc<TenonMember>,
    /// The memory plan of the arena.
    pub plan: MemoryPlan,
    flops: u64,
    /// Bytes read and arithmetic operations of each kernel, by the cost table of the package.
    costs: Vec<[u64; 2]>,
    program: Program,
    /// Position of the function `main`.
    main: usize,
    pub arenas: Arenas,
    pub outputs_by_kernel: KernelOutputs,
    /// The substitutions of unavailable backends.
    pub substitutions: Vec<Substitution>,
}

impl CoreNode {
    /// Loads the subgraph called `name`.
    pub fn load(
        name: &str,
        contents: Contents,
        runtime: &Runtime,
        options: &LoadOptions,
    ) -> Result<Self> {
        let control = &options.control;
        let member = |file: &str| Location::member(format!("{name}/{file}"));
        let Contents {
            variables,
            mut movements,
            program,
            mut tenon,
            ..
        } = contents;
        control.progress("variables", 0, 0)?;
        let types = || -> Result<_> {
            let inputs = signatures("inputs", &tenon.inputs)?;
            let outputs = signatures("outputs", &tenon.outputs)?;
            Ok((inputs, outputs, self::variables(variables, &tenon)?))
        };
        let (inputs, outputs, mut variables) =
            types().map_err(|error| error.at(member("tenon.json")))?;
        control.progress("program", 0, 0)?;
        let in_program = |error: Error| error.at(member("program.bef"));
        let mut module = decode(&program).map_err(in_program)?;
        let parts = ProgramParts {
            module: &mut module,
            variables: &mut variables,
            movements: &mut movements,
            placement: &mut tenon.placement,
        };
        let substitutions = substitute(parts, &runtime.backends).map_err(in_program)?;
        let table = Variables::new(variables).map_err(|error| error.at(member("tenon.json")))?;
        let plan = std::mem::take(&mut tenon.plan);
        CoreParts {
            name,
            inputs,
            outputs,
            module: &module,
            table,
            movements,
            member: Arc::new(tenon),
            plan,
            substitutions,
            pool: None,
        }
        .bind(runtime, options)
    }

    /// The function that executes it.
    pub fn main(&self) -> &BoundFunction {
        &self.program.functions()[self.main]
    }

    /// Arithmetic operations of one execution, by the cost table of the package.
    pub fn flops(&self) -> u64 {
        self.flops
    }

    /// Bytes that kernel `index` reads and its arithmetic operations, by the cost table of the package; 0 if absent.
    pub fn costs(&self, index: usize) -> [u64; 2] {
        self.costs.get(index).copied().unwrap_or_default()
    }

    /// Bytes of the arena with live values while kernel `index` runs.
    pub fn alive(&self, index: usize) -> u64 {
        let kernel = index as u64;
        let plan = self.plan.variables.iter();
        let alive = plan.filter(|range| (range.first..=range.last).contains(&kernel));
        alive.map(|range| range.size).sum()
    }

    /// Executes on the caller's memory, observed by `watch`.
    pub fn execute<'a, I, O>(
        &self,
        caller: Caller<'a, I, O>,
        control: &Control,
        watch: Option<&mut ExecutionObserver<'_>>,
    ) -> Result<()>
    where
        I: Iterator<Item = &'a [u8]>,
        O: Iterator<Item = &'a mut [u8]>,
    {
        let main = self.main();
        self.arenas
            .with_execution(main, control, |Execution { memory, registers }| {
                let run = |memory: &Memory| {
                    let Some(watch) = watch else {
                        return main.run(registers, &[], memory, control, &mut ());
                    };
                    let loops = watch.trace.map(|trace| LoopTrace::new(trace, main));
                    let mut node = NodeObserver::new(watch, self, memory, loops.as_ref());
                    node.begin()?;
                    let mut run = || main.run(registers, &[], memory, control, &mut node);
                    match &loops {
                        Some(loops) => pool::with_trace(loops, run)?,
                        None => run()?,
                    }
                    node.finish();
                    Ok(())
                };
                control.run(|| match caller {
                    Caller::Lists(inputs, outputs) => memory.with(inputs, outputs, run),
                    Caller::Bound(ports) => memory.with_bound(ports, run),
                })
            })
    }
}

/// A subgraph of which all sizes are known, before its kernels are bound.
pub(crate) struct CoreParts<'a> {
    pub name: &'a str,
    pub inputs: Vec<Signature>,
    pub outputs: Vec<Signature>,
    pub module: &'a Module,
    pub table: Variables,
    pub movements: Vec<Movement>,
    pub member: Arc<TenonMember>,
    pub plan: MemoryPlan,
    pub substitutions: Vec<Substitution>,
    /// Has the arenas of executions that are not running, if they are shared with other instances.
    pub pool: Option<Arc<BufferPool>>,
}

impl CoreParts<'_> {
    /// Binds the kernels, and allocates the memory of executions.
    pub fn bind(self, runtime: &Runtime, options: &LoadOptions) -> Result<CoreNode> {
        let Self {
            name,
            inputs,
            outputs,
            module,
            table,
            movements,
            member,
            plan,
            substitutions,
            pool,
        } = self;
        let table = Arc::new(table);
        let placements = Arc::new(TensorPlacements::default());
        let bind = || -> Result<_> {
            let movements = movements
                .into_iter()
                .map(|movement| (movement.id, movement.descriptors));
            let rounding = options.stochastic_rounding.map(StochasticRounding::new);
            let movements = Arc::new(Movements::from_iter(movements).rounding(rounding));
            let services = Services::new()
                .with(table.clone())
                .with(movements.clone())
                .with(placements.clone())
                .with(Arc::new(DeclaredQueues::default()))
                .with(runtime.backends.clone());
            let bound = Program::decode(module, &runtime.kernels, &services)?;
            verify_order(module, |kernel| accesses(kernel, &table, &movements))?;
            let main = main(&bound)?;
            let function = &module.functions[main];
            let outputs_by_kernel = KernelOutputs::of(name, function, table.clone(), &movements)?;
            Ok((bound, main, outputs_by_kernel))
        };
        let in_program = |error: Error| error.at(Location::member(format!("{name}/program.bef")));
        let (program, main, outputs_by_kernel) = bind().map_err(in_program)?;
        options.control.progress("memory", 0, 0)?;
        let arena_bytes = table.arena_bytes();
        let allocator = runtime.backends.allocator(member.placement.used());
        let factory = ExecutionFactory {
            table,
            placements,
            pool: pool.filter(|_| allocator.is_none() && BufferPool::keeps(arena_bytes)),
            allocator,
        };
        let arenas = Arenas::new(
            factory,
            &program.functions()[main],
            options.in_flight,
            options.max_in_flight,
        )?;
        let by_node = member.costs.iter();
        let by_node: HashMap<&str, &NodeCost> =
            by_node.map(|cost| (cost.node.as_str(), cost)).collect();
        let cost = |label: Label<'_>| by_node.get(label.node).map(|cost| [cost.read, cost.flops]);
        let kernels = program.functions()[main].kernels();
        let costs = kernels.map(|(_, label)| cost(label).unwrap_or_default());
        Ok(CoreNode {
            name: name.to_owned(),
            costs: costs.collect(),
            inputs,
            outputs,
            flops: member
                .costs
                .iter()
                .fold(0, |sum, cost| cost.flops.saturating_add(sum)),
            member,
            plan,
            program,
            main,
            arenas,
            outputs_by_kernel,
            substitutions,
        })
    }
}

/// The function that executes the model.
fn main(program: &Program) -> Result<usize> {
    let found = program
        .functions()
        .iter()
        .position(|function| function.name() == "main");
    let main =
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no function @main"))?;
    let function = &program.functions()[main];
    let registers = function.registers();
    if function.arguments() > 0 || function.results(&registers).next().is_some() {
        return Err(invalid("@main has arguments or results"));
    }
    Ok(main)
}

/// The variables of `def.json` with the types of `tenon.json`. The reader of the package has
/// checked that ports and variables match.
fn variables(variables: Vec<PackageVariable>, member: &TenonMember) -> Result<Vec<Variable>> {
    let place = Location::field;
    let mut errors = Vec::new();
    let mut types = BTreeMap::new();
    let mut views = BTreeMap::new();
    for info in &member.variables {
        match fixed_type(info.dtype, &info.shape) {
            Ok(ty) => drop(types.insert(info.var_id, ty)),
            Err(error) => errors.push(error.at(place(format!("variable {}", info.var_id.0)))),
        }
        views.extend(info.view_of.map(|of| (info.var_id, of)));
    }
    let mut forms: BTreeMap<VariableId, PreparedForm> = member
        .constants
        .iter()
        .filter_map(|info| {
            let form = info.prepared.as_ref()?;
            let form = PreparedForm {
                of: form.of,
                backend: form.backend.clone(),
                layout: form.layout.clone(),
            };
            Some((info.var_id, form))
        })
        .collect();
    let positions = |ports: &[Port]| -> BTreeMap<VariableId, usize> {
        ports
            .iter()
            .enumerate()
            .map(|(position, port)| (port.var_id, position))
            .collect()
    };
    let (inputs, outputs) = (positions(&member.inputs), positions(&member.outputs));
    let mut all = Vec::with_capacity(variables.len());
    for (index, variable) in variables.into_iter().enumerate() {
        let id = VariableId(index as u32);
        let missing = |what: &str| {
            invalid(format!("it is not among the {what}"))
                .at(place(format!("variable '{}'", variable.name)))
        };
        let storage = match variable.role {
            Role::Input => inputs
                .get(&id)
                .map(|&at| Storage::Input(at))
                .ok_or("inputs"),
            Role::Output => outputs
                .get(&id)
                .map(|&at| Storage::Output(at))
                .ok_or("outputs"),
            Role::Constant(bytes) => Ok(Storage::Constant(bytes)),
            Role::Absent => Ok(Storage::Absent),
            Role::View => views.get(&id).map(|&of| Storage::View(of)).ok_or("views"),
            Role::Arena { offset } => Ok(Storage::Arena { offset }),
            Role::Planned => Err("variables with an offset"),
        };
        match storage.map_err(missing) {
            Ok(storage) => all.push(Variable {
                name: variable.name,
                size: variable.size,
                storage,
                ty: types.remove(&id).or_else(|| port_type(member, id)),
                prepared: forms.remove(&id),
            }),
            Err(error) => errors.push(error),
        }
    }
    Error::from_all(errors).map_or(Ok(all), Err)
}

/// The type of an input or output that no workload uses.
fn port_type(member: &TenonMember, id: VariableId) -> Option<TensorType> {
    let mut ports = member.inputs.iter().chain(&member.outputs);
    let port = ports.find(|port| port.var_id == id)?;
    fixed_type(port.dtype, &port.shape).ok()
}

/// The type of a port or variable of a package without symbols.
pub(crate) fn fixed_type(dtype: DataType, shape: &PortShape) -> Result<TensorType> {
    let shape = shape
        .fixed()
        .ok_or_else(|| invalid("a shape that is not fixed").found(shape))?;
    TensorType::new(dtype, shape)
}

fn signatures(what: &str, ports: &[Port]) -> Result<Vec<Signature>> {
    let mut errors = Vec::new();
    let mut signatures = Vec::with_capacity(ports.len());
    for port in ports {
        let ty = fixed_type(port.dtype, &port.shape).and_then(|ty| match ty.dtype() {
            DataType::String => Err(Error::new(ErrorKind::Unsupported, "a tensor of strings")),
            _ => Ok(ty),
        });
        match ty {
            Ok(ty) => signatures.push(Signature::fixed(port.name.clone(), ty)),
            Err(error) => {
                let field = Location::field(format!("{what} '{}'", port.name));
                errors.push(error.at(field));
            }
        }
    }
    Error::from_all(errors).map_or(Ok(signatures), Err)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidPackage, message)
}
