//! A loaded subgraph of a package, executed on a core.

use crate::arenas::{Arenas, Execution, ExecutionFactory};
use crate::core_program::CoreProgram;
use crate::device_memory::max_executions;
use crate::model::Caller;
use crate::profile::{ExecutionObserver, LoopTrace, NodeObserver};
use crate::substitute::{ProgramParts, Substitution, substitute};
use crate::tap::KernelOutputs;
use crate::target::check_targets;
use crate::{LoadOptions, Runtime, Signature};
use std::collections::BTreeMap;
use std::sync::Arc;
use tenon_base::{Control, Error, ErrorKind, Location, Result, pool};
use tenon_bef::decode;
use tenon_dma::{Descriptor, StochasticRounding, VariableId};
use tenon_executor::{BoundFunction, Label, Program, Services};
use tenon_kernels::{
    BoundKernels, DeviceMemory, Memory, Movements, PreparedForm, Storage, TensorPlacements,
    Variable, Variables, accesses, verify_order,
};
use tenon_neff::{Contents, MemoryPlan, PackageVariable, Port, PortShape, Role, TenonMember};
use tenon_netlist_kernels::DeclaredQueues;
use tenon_tensor::{BufferPool, DataType, TensorType};

/// A bound program, and the memory of its executions.
pub(crate) struct CoreNode {
    program: Arc<CoreProgram>,
    pub inputs: Vec<Signature>,
    pub outputs: Vec<Signature>,
    /// The memory plan of the arena.
    pub plan: MemoryPlan,
    table: Arc<Variables>,
    /// The kernels that depend on sizes, of an instance.
    kernels: BoundKernels,
    pub arenas: Arenas,
    /// The memory of backends that it needs.
    pub device_memory: Vec<DeviceMemory>,
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
        check_targets(&tenon.targets, &runtime.backends)
            .map_err(|error| error.at(member("tenon.json")))?;
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
        let table = Arc::new(table);
        let limits = options.device_memory_limits.clone();
        let placements = Arc::new(TensorPlacements::with_limits(limits));
        let plan = std::mem::take(&mut tenon.plan);
        let bind = || {
            let movements = movements
                .into_iter()
                .map(|movement| (movement.id, movement.descriptors));
            let movements = self::movements(movements, options);
            let services = services(runtime, &movements)
                .with(table.clone())
                .with(placements.clone());
            let program = Program::decode(&module, &runtime.kernels, &services)?;
            verify_order(&module, |kernel| accesses(kernel, &table, &movements))?;
            CoreProgram::new(name, &module, program, Arc::new(tenon), &movements)
        };
        let bound = bind().map_err(|error| match placements.limit_error() {
            // One error of the model in place of one for each workload.
            Some(exceeded) => exceeded.at(Location::member(name)),
            None => in_program(error),
        });
        let program = Arc::new(bound?);
        control.progress("memory", 0, 0)?;
        let parts = CoreParts {
            inputs,
            outputs,
            table,
            placements,
            kernels: BoundKernels::default(),
            plan,
            pool: None,
        };
        let mut node = Self::new(program, parts, runtime, options)?;
        node.substitutions = substitutions;
        Ok(node)
    }

    /// A program with its memory.
    pub fn new(
        program: Arc<CoreProgram>,
        parts: CoreParts,
        runtime: &Runtime,
        options: &LoadOptions,
    ) -> Result<Self> {
        let CoreParts {
            inputs,
            outputs,
            table,
            placements,
            kernels,
            plan,
            pool,
        } = parts;
        let arena_bytes = table.arena_bytes();
        let device_memory = placements.device_memory();
        let limit = max_executions(&device_memory, options)
            .map_err(|error| error.at(Location::member(&program.name)))?;
        let allocator = runtime.backends.allocator(program.member.placement.used());
        let factory = ExecutionFactory {
            table: table.clone(),
            placements,
            kernels: kernels.clone(),
            pool: pool.filter(|_| allocator.is_none() && BufferPool::keeps(arena_bytes)),
            allocator,
        };
        let arenas = Arenas::new(factory, program.main(), options.in_flight, limit)?;
        Ok(Self {
            program,
            inputs,
            outputs,
            plan,
            table,
            kernels,
            arenas,
            device_memory,
            substitutions: Vec::new(),
        })
    }

    /// `sg00` and so on.
    pub fn name(&self) -> &str {
        &self.program.name
    }

    pub fn member(&self) -> &TenonMember {
        &self.program.member
    }

    pub fn table(&self) -> &Arc<Variables> {
        &self.table
    }

    /// The function that executes it.
    pub fn main(&self) -> &BoundFunction {
        self.program.main()
    }

    /// Name and label of each kernel, in order.
    pub fn kernels(&self) -> impl Iterator<Item = (&str, Label<'_>)> {
        (0..self.main().len()).map_while(|index| self.kernel(index))
    }

    /// Name and label of one kernel.
    pub fn kernel(&self, index: usize) -> Option<(&str, Label<'_>)> {
        self.program.kernel(index, &self.kernels)
    }

    /// Types of the tensors that one kernel reads and writes, for traces.
    pub fn shapes(&self, index: usize) -> String {
        self.program.shapes(index, &self.kernels)
    }

    /// The values that each kernel writes.
    pub fn kernel_outputs(&self) -> &KernelOutputs {
        &self.program.outputs
    }

    /// Arithmetic operations of one execution, by the cost table of the package.
    pub fn flops(&self) -> u64 {
        self.program.flops
    }

    /// Bytes that kernel `index` reads and its arithmetic operations, by the cost table of the package; 0 if absent.
    pub fn costs(&self, index: usize) -> [u64; 2] {
        self.program.costs(index)
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
                    memory.set_timed(watch.is_some());
                    let Some(watch) = watch else {
                        return main.run(registers, &[], memory, control, &mut ());
                    };
                    let loops = watch.trace.map(|trace| LoopTrace::new(trace, self));
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

/// What belongs to the sizes of an instance, or to a package without symbols.
pub(crate) struct CoreParts {
    pub inputs: Vec<Signature>,
    pub outputs: Vec<Signature>,
    pub table: Arc<Variables>,
    pub placements: Arc<TensorPlacements>,
    pub kernels: BoundKernels,
    pub plan: MemoryPlan,
    /// Has the arenas of executions that are not running, if they are shared with other instances.
    pub pool: Option<Arc<BufferPool>>,
}

/// The descriptors of a package, by id.
pub(crate) fn movements(
    by_id: impl Iterator<Item = (u32, Vec<Descriptor>)>,
    options: &LoadOptions,
) -> Arc<Movements> {
    let rounding = options.stochastic_rounding.map(StochasticRounding::new);
    Arc::new(Movements::from_iter(by_id).rounding(rounding))
}

/// The services of all programs.
pub(crate) fn services(runtime: &Runtime, movements: &Arc<Movements>) -> Services {
    Services::new()
        .with(movements.clone())
        .with(Arc::new(DeclaredQueues::default()))
        .with(runtime.backends.clone())
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
                name: variable.name.into(),
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
