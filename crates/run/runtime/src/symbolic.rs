//! Packages with sizes that are known only when the model runs: for each set of sizes an *instance*, a model of
//! fixed sizes that shares the constants (docs/package.md, "Sizes that are known only when a model runs").

mod appended;
mod byte_counts;
mod instances;
mod padded;
mod variables;

pub(crate) use appended::AppendedPort;
pub(crate) use byte_counts::ByteCounts;
pub(crate) use padded::PaddedModel;

use crate::core_node::{CoreNode, CoreParts, movements, services};
use crate::core_program::CoreProgram;
use crate::model::{Inner, ModelContext, Nodes};
use crate::target::check_targets;
use crate::{LoadOptions, Model, Runtime, Signature};
use appended::appended_ports;
use instances::Instances;
use std::sync::Arc;
use tenon_base::{Control, Error, ErrorKind, Location, Result, pool};
use tenon_bef::{Module, decode};
use tenon_executor::Program;
use tenon_graph::shape_for;
use tenon_kernels::{
    InstanceKernels, KernelTemplates, Movements, SizedKernels, Variables, workload_backend,
};
use tenon_neff::{Buckets, Contents, GraphPort, LiveRange, MemoryPlan, Port, TenonMember};
use tenon_plan::{MemoryStrategy, Quick, plan_arena};
use tenon_tensor::size::{SizeExpr, SymbolId, Symbols};
use tenon_tensor::{BufferPool, DataType, TensorType};
use variables::SymbolicVariables;

/// A subgraph with symbols, and its instances.
pub(crate) struct SymbolicCore {
    program: Arc<CoreProgram>,
    kernels: KernelTemplates,
    movements: Arc<Movements>,
    symbols: Symbols,
    buckets: Buckets,
    inputs: Vec<SymbolicPort>,
    outputs: Vec<SymbolicPort>,
    /// The outputs that may extend an input in its memory.
    appended: Vec<AppendedPort>,
    variables: SymbolicVariables,
    runtime: Runtime,
    options: LoadOptions,
    instances: Instances,
    /// The arenas and large outputs of all instances.
    pool: Arc<BufferPool>,
}

/// An input or output, with its extents as expressions.
pub(crate) struct SymbolicPort {
    name: String,
    dtype: DataType,
    extents: Vec<SizeExpr>,
}

impl SymbolicPort {
    pub fn new(port: &GraphPort, symbols: &Symbols) -> Result<Self> {
        Ok(Self {
            name: port.name.clone(),
            dtype: port.dtype,
            extents: port.shape.parse(symbols)?,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The symbols of its extents.
    pub fn symbols(&self) -> impl Iterator<Item = SymbolId> {
        self.extents.iter().flat_map(SizeExpr::symbols)
    }

    /// Whether a tensor of this type is one of this port for some sizes.
    pub fn fits(&self, ty: &TensorType) -> bool {
        let fixed = |(extent, &size): (&SizeExpr, &usize)| {
            let extent = extent.constant();
            extent.is_none_or(|extent| usize::try_from(extent) == Ok(size))
        };
        self.dtype == ty.dtype()
            && self.extents.len() == ty.shape().len()
            && self.extents.iter().zip(ty.shape().iter()).all(fixed)
    }

    /// The signature for these sizes.
    pub fn fixed(&self, sizes: &[i64]) -> Result<Signature> {
        let named = |error: Error| error.at(Location::field(format!("'{}'", self.name)));
        let shape = shape_for(&self.extents, sizes).map_err(named)?;
        let ty = TensorType::new(self.dtype, shape).map_err(named)?;
        Ok(Signature::fixed(self.name.clone(), ty))
    }

    /// The signature for any sizes.
    pub fn signature(&self, symbols: &Symbols) -> Result<Signature> {
        Signature::symbolic(self.name.clone(), self.dtype, &self.extents, symbols)
    }
}

impl SymbolicCore {
    /// Loads the subgraph called `name`. Nothing is bound and no memory for executions is allocated yet.
    pub fn load(
        name: &str,
        contents: Contents,
        runtime: &Runtime,
        options: &LoadOptions,
    ) -> Result<Self> {
        let member = |file: &str| Location::member(format!("{name}/{file}"));
        let Contents {
            variables,
            program,
            tenon,
            ..
        } = contents;
        let read = || -> Result<_> {
            check_targets(&tenon.targets, &runtime.backends)?;
            let symbols = tenon.symbol_table()?;
            let buckets = Buckets::new(&tenon, &symbols)?;
            let port = |port: &Port| match port.dtype {
                DataType::String => Err(Error::new(ErrorKind::Unsupported, "a tensor of strings")),
                _ => SymbolicPort::new(&port.into(), &symbols),
            };
            let inputs = tenon.inputs.iter().map(port).collect::<Result<Vec<_>>>()?;
            let outputs = tenon.outputs.iter().map(port).collect::<Result<Vec<_>>>()?;
            let variables = SymbolicVariables::new(variables, &tenon, &symbols)?;
            Ok((symbols, buckets, inputs, outputs, variables))
        };
        let (symbols, buckets, inputs, outputs, variables) =
            read().map_err(|error| error.at(member("tenon.json")))?;
        let in_program = |error: Error| error.at(member("program.bef"));
        let module = decode(&program).map_err(in_program)?;
        check_backends(&module, runtime).map_err(in_program)?;
        let movements = movements(std::iter::empty(), options);
        let bind = || {
            let kernels = Arc::new(SizedKernels::default());
            let services = services(runtime, &movements).with(kernels.clone());
            let program = Program::decode(&module, &runtime.kernels, &services)?;
            let program = CoreProgram::new(name, &module, program, Arc::new(tenon), &movements)?;
            Ok((program, kernels.templates(|id| variables.key(id))))
        };
        let (program, kernels) = bind().map_err(in_program)?;
        let instance_count = options.instance_count.max(buckets.combinations().len());
        Ok(Self {
            program: Arc::new(program),
            kernels,
            movements,
            symbols,
            buckets,
            inputs,
            outputs,
            appended: appended_ports(&module, &variables),
            variables,
            runtime: runtime.clone(),
            options: LoadOptions {
                in_flight: options.in_flight.min(1),
                control: Control::new(),
                activity: None,
                ..options.clone()
            },
            instances: Instances::new(instance_count),
            pool: BufferPool::new(options.instance_bytes),
        })
    }

    pub fn member(&self) -> &TenonMember {
        &self.program.member
    }

    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    pub fn inputs(&self) -> Result<Vec<Signature>> {
        let ports = self.inputs.iter();
        ports.map(|port| port.signature(&self.symbols)).collect()
    }

    pub fn outputs(&self) -> Result<Vec<Signature>> {
        let ports = self.outputs.iter();
        ports.map(|port| port.signature(&self.symbols)).collect()
    }

    /// Bytes of memory held for executions that are not running.
    pub fn idle_bytes(&self) -> usize {
        self.instances.idle_bytes() + self.pool.free_bytes()
    }

    /// The number of inputs, and of outputs.
    pub fn port_counts(&self) -> [usize; 2] {
        [self.inputs.len(), self.outputs.len()]
    }

    pub fn input_ports(&self) -> &[SymbolicPort] {
        &self.inputs
    }

    /// The outputs that may extend an input in its memory, in the order of the outputs; none with buckets, whose
    /// instances have other sizes.
    pub fn appended(&self) -> &[AppendedPort] {
        match self.buckets.is_empty() {
            true => &self.appended,
            false => &[],
        }
    }

    /// The model for inputs of these types, in order.
    pub fn model_for(&self, context: &ModelContext, types: &[&TensorType]) -> Result<Model> {
        let ports: Vec<&SymbolicPort> = self.inputs.iter().collect();
        let sizes = solve_sizes(&ports, &self.symbols, types)?;
        self.model_at(context, &sizes)
    }

    /// The instance for inputs of these types, all of them in order, in which the outputs of `appended` extend their
    /// inputs: it lacks these inputs, whose values are the first bytes of the outputs when it is executed.
    pub fn appending_model_for(
        &self,
        context: &ModelContext,
        types: &[&TensorType],
        appended: &[AppendedPort],
    ) -> Result<Model> {
        let ports: Vec<&SymbolicPort> = self.inputs.iter().collect();
        let sizes = solve_sizes(&ports, &self.symbols, types)?;
        self.instance_at(context, &sizes, appended)
    }

    /// The model for these values of the symbols, which are in their ranges: an instance, or one of a larger bucket
    /// between paddings.
    pub fn model_at(&self, context: &ModelContext, sizes: &[i64]) -> Result<Model> {
        if self.buckets.is_empty() {
            return self.instance_at(context, sizes, &[]);
        }
        let bucket = self.bucket_for(sizes)?;
        let instance = self.instance_at(context, &bucket, &[])?;
        match bucket == sizes {
            true => Ok(instance),
            false => self.padded(instance, sizes, &bucket),
        }
    }

    fn instance_at(
        &self,
        context: &ModelContext,
        sizes: &[i64],
        appended: &[AppendedPort],
    ) -> Result<Model> {
        if let Some(found) = self.instances.find(sizes, appended) {
            return Ok(found);
        }
        let make = || self.instance(sizes, appended);
        let made = match self.options.threads {
            Some(limit) => pool::with_thread_limit(limit, make),
            None => make(),
        };
        let core = made
            .map_err(|error| error.at(Location::field(format!("sizes {}", self.named(sizes)))))?;
        let made = Model::of(Inner {
            inputs: core.inputs.clone(),
            outputs: core.outputs.clone(),
            plan: core.plan.clone(),
            nodes: Nodes::One(Box::new(core)),
            uncontrolled: Control::new(),
            pool: Some(self.pool.clone()),
            context: context.clone(),
        });
        Ok(self.instances.insert(sizes, appended, made))
    }

    /// Plans the memory for these sizes and binds the kernels that depend on them.
    fn instance(&self, sizes: &[i64], appended: &[AppendedPort]) -> Result<CoreNode> {
        let inputs = self.inputs.iter().enumerate();
        let inputs = inputs.filter(|(at, _)| appended.iter().all(|port| port.input != *at));
        let inputs = inputs.map(|(_, port)| port.fixed(sizes));
        let outputs = self.outputs.iter().map(|port| port.fixed(sizes));
        let mut table = Variables::new(self.variables.fixed(sizes, appended)?)?.of_sizes();
        let backends = &self.runtime.backends;
        let in_program = |error: Error| {
            let member = format!("{}/program.bef", self.program.name);
            error.at(Location::member(member))
        };
        let kernels = self.kernels.sized(sizes, &table, backends);
        let kernels = kernels.map_err(in_program)?;
        let plan = self.plan(&mut table, &kernels)?;
        let (table, placements) = (Arc::new(table), Arc::default());
        let bound = kernels.bind(&table, &placements, &self.movements);
        let parts = CoreParts {
            inputs: inputs.collect::<Result<_>>()?,
            outputs: outputs.collect::<Result<_>>()?,
            table,
            placements,
            kernels: bound.map_err(in_program)?,
            plan,
            pool: Some(self.pool.clone()),
        };
        CoreNode::new(self.program.clone(), parts, &self.runtime, &self.options)
    }

    /// Gives the variables their places in the arena.
    fn plan(&self, table: &mut Variables, kernels: &InstanceKernels<'_>) -> Result<MemoryPlan> {
        let mut planned = self.variables.planned(table);
        for (scratch, bytes) in kernels.scratch() {
            if let Some(variable) = planned.get_mut(scratch.index()) {
                variable.bytes = bytes;
            }
        }
        let arena = plan_arena(&planned, &kernels.planned(), &Quick)?;
        let mut ranges = Vec::new();
        for id in self.variables.in_arena() {
            let index = id.index();
            let (offset, size) = (arena.offsets[index] as u64, planned[index].bytes as u64);
            table.place_in_arena(id, offset, size)?;
            let (first, last) = arena.alive[index];
            ranges.push(LiveRange {
                var_id: id,
                offset,
                size,
                first: first.into(),
                last: last.into(),
            });
        }
        Ok(MemoryPlan {
            strategy: Quick.name().to_owned(),
            arena_bytes: table.arena_bytes() as u64,
            variables: ranges,
        })
    }
}

/// The sizes of symbols that are extents of these inputs, by name.
pub(crate) fn known_sizes(
    ports: &[&SymbolicPort],
    symbols: &Symbols,
    inputs: &[(&str, &TensorType)],
) -> Vec<(String, u64)> {
    let mut found: Vec<(String, u64)> = Vec::new();
    for (name, ty) in inputs {
        let Some(port) = ports.iter().find(|port| port.name == *name) else {
            continue;
        };
        for (extent, &size) in port.extents.iter().zip(ty.shape().iter()) {
            let symbol = extent.symbol().and_then(|id| symbols.symbol(id));
            if let Some(symbol) = symbol
                && !found.iter().any(|(known, _)| *known == symbol.name)
            {
                found.push((symbol.name.clone(), size as u64));
            }
        }
    }
    found
}

/// The values of the symbols for inputs of these types, in order.
///
/// # Errors
/// Inputs of another type, sizes that contradict each other, and sizes outside their ranges.
pub(crate) fn solve_sizes(
    ports: &[&SymbolicPort],
    symbols: &Symbols,
    types: &[&TensorType],
) -> Result<Vec<i64>> {
    let places: Vec<(&str, usize)> = ports
        .iter()
        .flat_map(|port| (0..port.extents.len()).map(|axis| (port.name.as_str(), axis)))
        .collect();
    let pairs = ports.iter().zip(types);
    if let Some((port, ty)) = pairs
        .clone()
        .find(|(port, ty)| port.extents.len() != ty.shape().len() || port.dtype != ty.dtype())
    {
        let text = format!("input '{}' has the wrong type", port.name);
        let error = Error::new(ErrorKind::InvalidArgument, text);
        return Err(error.expected(port.signature(symbols)?).found(ty));
    }
    let dims = pairs.flat_map(|(port, ty)| {
        let extents = port.extents.iter();
        extents.zip(ty.shape().iter().map(|&extent| extent as i64))
    });
    let place = |position: usize| {
        let (input, axis) = places.get(position).copied().unwrap_or_default();
        Location::field(format!("input '{input}', dimension {axis}"))
    };
    symbols.solve(dims, place)
}

/// An error if a workload's backend is unavailable: packages with symbols have no substitutes yet.
fn check_backends(module: &Module, runtime: &Runtime) -> Result<()> {
    let kernels = module.functions.iter().flat_map(|f| &f.kernels);
    for kernel in kernels {
        let Some(backend) = workload_backend(kernel)? else {
            continue;
        };
        let id = backend.to_owned().into();
        if runtime.backends.find(&id).is_none() {
            let reason = runtime.backends.unavailable(&id);
            let reason = reason.unwrap_or("no backend has this name");
            let text = format!("backend {backend} is unavailable: {reason}");
            return Err(Error::new(ErrorKind::Unsupported, text).help(
                "install its library in a folder of --backend-path or TENON_BACKEND_PATH, or \
                 compile the model again for the backends that there are",
            ));
        }
    }
    Ok(())
}
