//! Packages of netlists: `@main` creates a machine, loads its queues from variables, runs the
//! programs once, and stores the pushed entries (docs/package.md, "Netlists").

use super::LoweredNetlist;
use super::epoch::MACHINE;
use super::program::names_attribute;
use super::value::sizes;
use std::collections::BTreeMap;
use tenon_base::{Error, ErrorKind, Result};
use tenon_bef::{
    Attribute, EncodeOptions, FunctionBuilder, FunctionId, FunctionKind, Module, RegisterId, encode,
};
use tenon_neff::{
    ConstantInfo, Contents, ModelInfo, PackageVariable, Port, Role, TenonMember, VariableId,
    VariableInfo,
};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType};

/// The programs of a package of a netlist, and their data.
#[derive(Debug, Clone, Default)]
pub struct NetlistPackage {
    /// Its name.
    pub name: String,
    /// Programs in the order in which they run.
    pub programs: Vec<String>,
    /// The values of their parameters.
    pub params: BTreeMap<String, i32>,
    /// Input queues, with the number of entries that one execution takes.
    pub inputs: Vec<(String, usize)>,
    /// Queues and rams whose entries are in the package: `[n, t, rows, columns]`.
    pub constants: Vec<(String, Tensor)>,
    /// Output queues, with the number of entries that one execution pushes.
    pub outputs: Vec<NetlistOutput>,
}

/// An output of a package of a netlist.
#[derive(Debug, Clone)]
pub struct NetlistOutput {
    /// The queue or ram.
    pub queue: String,
    /// Entries of a queue, slots of a ram.
    pub entries: usize,
    /// Whether no program reads the pushed entries.
    pub drained: bool,
    /// Whether it is a ram.
    pub ram: bool,
}

impl LoweredNetlist {
    /// The package that runs programs once on fresh queues, rams and static variables.
    pub fn package(&self, package: &NetlistPackage) -> Result<Contents> {
        let mut packing = Packing {
            netlist: self,
            variables: Vec::new(),
            member: TenonMember::new(ModelInfo {
                name: package.name.clone(),
                metadata: BTreeMap::new(),
            }),
        };
        let mut module = self.module.clone();
        let main = packing.main(package, &module)?;
        module.add(main);
        let program = encode(&module, &EncodeOptions::default())?;
        Ok(Contents {
            name: package.name.clone(),
            variables: packing.variables,
            movements: Vec::new(),
            program: BufferMut::copy_of(&program)?.freeze(),
            tenon: packing.member,
        })
    }
}

struct Packing<'n> {
    netlist: &'n LoweredNetlist,
    variables: Vec<PackageVariable>,
    member: TenonMember,
}

impl Packing<'_> {
    fn main(&mut self, package: &NetlistPackage, module: &Module) -> Result<tenon_bef::Function> {
        let mut main = FunctionBuilder::new("main", FunctionKind::Sync);
        let machine = main.kernel("netlist.machine").result(MACHINE);
        let netlist = self.netlist;
        netlist.call(&mut main, machine, (module, "setup"), &[])?;
        let mut calls = Vec::new();
        for name in &package.programs {
            let program = self
                .netlist
                .programs
                .iter()
                .find(|known| known.name == *name);
            let program = program.ok_or_else(|| missing("program", name))?;
            let value = |param: &String| {
                let value = package.params.get(param).copied();
                value.ok_or_else(|| missing("value of parameter", param))
            };
            let params = program
                .params
                .iter()
                .map(value)
                .collect::<Result<Vec<i32>>>()?;
            calls.push((program.function.clone(), params));
        }
        for (queue, entries) in &package.inputs {
            let variable = self.variable(queue, *entries, Role::Input)?;
            let port = self.port(variable, queue, *entries)?;
            self.member.inputs.push(port);
            self.load(&mut main, machine, queue, (variable, true))?;
        }
        for (queue, array) in &package.constants {
            let entries = array.shape().first().copied().unwrap_or(0);
            let role = Role::Constant(array.buffer().clone());
            let variable = self.variable(queue, entries, role)?;
            let port = self.port(variable, queue, entries)?;
            self.member.constants.push(ConstantInfo {
                var_id: variable,
                name: queue.clone(),
                dtype: port.dtype,
                shape: port.shape.fixed().unwrap_or_default(),
                prepared: None,
            });
            self.load(&mut main, machine, queue, (variable, false))?;
        }
        let names_of = |drained| {
            let queues = package.outputs.iter().filter(move |output| !output.ram);
            let queues = queues.filter(move |output| output.drained == drained);
            let names: Vec<&str> = queues.map(|output| &*output.queue).collect();
            names_attribute(&names)
        };
        main.kernel("netlist.collect")
            .operands([machine])
            .attribute("drained", names_of(true))
            .attribute("kept", names_of(false))
            .done();
        for (function, params) in calls {
            netlist.call(&mut main, machine, (module, &function), &params)?;
        }
        for output in &package.outputs {
            let variable = self.variable(&output.queue, output.entries, Role::Output)?;
            let port = self.port(variable, &output.queue, output.entries)?;
            self.member.outputs.push(port);
            main.kernel("netlist.store")
                .operands([machine])
                .attribute("queue", output.queue.as_str())
                .attribute("slots", if output.ram { output.entries as i64 } else { 0 })
                .attribute("variable", variable.0 as i32)
                .done();
        }
        Ok(main.returns([]))
    }

    /// Loads a queue from a variable; entries that the caller provides (`is_input`) are not in the
    /// queue's format yet.
    fn load(
        &self,
        main: &mut FunctionBuilder,
        machine: RegisterId,
        queue: &str,
        (variable, is_input): (VariableId, bool),
    ) -> Result<()> {
        let declared = self.netlist.queue(queue)?;
        let tile = declared.blocking.tile().map(|side| side as usize);
        let ram = declared.kind.value == tenon_netlist::QueueKind::Ram;
        let mut kernel = main.kernel("netlist.load");
        if is_input {
            kernel = kernel.attribute("format", declared.df.value.name());
        }
        kernel
            .operands([machine])
            .attribute("queue", queue)
            .attribute("ram", Attribute::I1(ram))
            .attribute("tiles", sizes(&super::value::tiles_of(&declared.blocking)))
            .attribute("tile", sizes(&tile))
            .attribute("variable", variable.0 as i32)
            .done();
        Ok(())
    }

    fn variable(&mut self, queue: &str, entries: usize, role: Role) -> Result<VariableId> {
        let ty = self.netlist.array_type(queue, entries)?;
        let id = VariableId(self.variables.len() as u32);
        self.member.variables.push(VariableInfo {
            var_id: id,
            dtype: ty.dtype(),
            shape: (&**ty.shape()).into(),
            view_of: None,
        });
        self.variables.push(PackageVariable {
            name: queue.to_owned(),
            size: ty.bytes() as u64,
            role,
        });
        Ok(id)
    }

    fn port(&self, var_id: VariableId, queue: &str, entries: usize) -> Result<Port> {
        let ty = self.netlist.array_type(queue, entries)?;
        Ok(Port {
            name: queue.to_owned(),
            var_id,
            dtype: ty.dtype(),
            shape: (&**ty.shape()).into(),
        })
    }
}

impl LoweredNetlist {
    fn queue(&self, name: &str) -> Result<&tenon_netlist::Queue> {
        let found = self
            .netlist
            .queues
            .iter()
            .find(|queue| queue.name.value == name);
        found.ok_or_else(|| missing("queue", name))
    }

    /// The type of a queue's array: `[n, t, rows, columns]` of f32.
    fn array_type(&self, queue: &str, entries: usize) -> Result<TensorType> {
        let blocking = &self.queue(queue)?.blocking;
        let [t, rows, columns] = super::value::tiles_of(blocking);
        let [height, width] = blocking.tile().map(|side| side as usize);
        let side = |tiles: usize, side: usize| tiles.saturating_mul(side);
        TensorType::new(
            DataType::F32,
            [entries, t, side(rows, height), side(columns, width)],
        )
    }

    /// Calls a function with the machine and the values of its parameters.
    fn call(
        &self,
        main: &mut FunctionBuilder,
        machine: RegisterId,
        (module, name): (&Module, &str),
        params: &[i32],
    ) -> Result<()> {
        let function = self.function(module, name)?;
        let params = params.iter().map(|&value| Attribute::I32(value)).collect();
        main.kernel("netlist.call")
            .operands([machine])
            .attribute("params", Attribute::Array(params))
            .function("callee", function)
            .done();
        Ok(())
    }

    fn function(&self, module: &Module, name: &str) -> Result<FunctionId> {
        let found = module
            .functions
            .iter()
            .position(|function| function.name == name);
        let id = found.and_then(|index| u32::try_from(index).ok());
        id.map(FunctionId).ok_or_else(|| missing("function", name))
    }
}

fn missing(what: &str, name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no {what} '{name}'"))
}
