//! The consistency rules of [`Contents`], checked when writing and reading.

use super::{Contents, PackageVariable, Role};
use crate::error::invalid;
use crate::{Buckets, MappedTensor, Port, PortShape, SizesInfo, TENON_FORMAT};
use std::collections::HashSet;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_dma::VariableId;
use tenon_tensor::size::{SizeExpr, Symbols};
use tenon_tensor::{ALIGNMENT, DataType, TensorType};

impl Contents {
    /// Checks all rules; all problems together.
    pub fn check(&self) -> Result<()> {
        self.check_rules(false)
    }

    /// The same; `called`: a host function calls the subgraph and passes the sizes, so that no input has to decide them.
    pub(super) fn check_rules(&self, called: bool) -> Result<()> {
        if self.tenon.format > TENON_FORMAT {
            return Err(newer_format(self.tenon.format, TENON_FORMAT));
        }
        let mut problems = Vec::new();
        self.check_variables(&mut problems);
        self.check_ports("inputs", &self.tenon.inputs, &mut problems);
        self.check_ports("outputs", &self.tenon.outputs, &mut problems);
        self.check_states(&mut problems);
        self.check_types(&mut problems);
        self.check_constants(&mut problems);
        self.check_movements(&mut problems);
        self.check_plan(&mut problems);
        self.check_symbols(called, &mut problems);
        Error::from_all(problems).map_or(Ok(()), Err)
    }

    fn check_variables(&self, problems: &mut Vec<Error>) {
        let mut names = HashSet::new();
        for variable in &self.variables {
            let error = if !names.insert(&variable.name) {
                invalid("two variables of this name")
            } else {
                match &variable.role {
                    Role::Constant(buffer) if buffer.len() as u64 != variable.size => {
                        invalid("the constant's size differs from the variable's")
                            .expected(variable.size)
                            .found(buffer.len())
                    }
                    Role::Arena { offset } if !offset.is_multiple_of(ALIGNMENT as u64) => {
                        invalid("its offset in the arena is not aligned")
                            .expected(format_args!("a multiple of {ALIGNMENT}"))
                            .found(offset)
                    }
                    Role::Arena { offset } if offset.checked_add(variable.size).is_none() => {
                        invalid("its end in the arena overflows")
                    }
                    _ => continue,
                }
            };
            problems.push(error.at(place(variable)));
        }
    }

    /// Every input (or output) variable is exactly one port, and has the size of its type.
    fn check_ports(&self, list: &str, ports: &[Port], problems: &mut Vec<Error>) {
        let is_one = |variable: &PackageVariable| match variable.role {
            Role::Input => list == "inputs",
            Role::Output => list == "outputs",
            _ => false,
        };
        let mut seen = HashSet::new();
        for (index, port) in ports.iter().enumerate() {
            let field = Location::field(format!("{list}[{index}]"));
            match self.variable(port.var_id) {
                Some(variable) if is_one(variable) && seen.insert(port.var_id) => {
                    let error = check_port_type(variable, port.dtype, &port.shape);
                    problems.extend(error.map(|error| error.at(field)));
                }
                _ => problems.push(no_variable(port.var_id, list).at(field)),
            }
        }
        let count = self
            .variables
            .iter()
            .filter(|variable| is_one(variable))
            .count();
        if count > seen.len() {
            let error = invalid(format!(
                "variables of this type are missing among the {list}"
            ));
            problems.push(
                error
                    .expected(count)
                    .found(seen.len())
                    .at(Location::field(list)),
            );
        }
    }

    fn check_states(&self, problems: &mut Vec<Error>) {
        let tenon = &self.tenon;
        let mut used = HashSet::new();
        for (index, state) in tenon.states.iter().enumerate() {
            for (name, list, ports) in [
                (&state.output, "outputs", &tenon.outputs),
                (&state.input, "inputs", &tenon.inputs),
            ] {
                let text = if !ports.iter().any(|port| port.name == *name) {
                    format!("'{name}' is not among the {list}")
                } else if !used.insert((list, name)) {
                    format!("'{name}' is part of two states")
                } else {
                    continue;
                };
                problems.push(invalid(text).at(Location::field(format!("states[{index}]"))));
            }
        }
    }

    fn check_types(&self, problems: &mut Vec<Error>) {
        let mut views = HashSet::new();
        for (index, info) in self.tenon.variables.iter().enumerate() {
            let field = Location::field(format!("variables[{index}]"));
            let Some(variable) = self.variable(info.var_id) else {
                problems.push(no_variable(info.var_id, "variables").at(field));
                continue;
            };
            let error = check_port_type(variable, info.dtype, &info.shape);
            problems.extend(error.map(|error| error.at(field.clone())));
            let Some(of) = info.view_of else { continue };
            views.insert(info.var_id);
            let base = self
                .variable(of)
                .filter(|base| !matches!(base.role, Role::View | Role::Absent));
            if base.is_none_or(|base| base.size != variable.size) {
                let error = invalid("a view must refer to a variable of its size");
                problems.push(error.found(format_args!("variable {}", of.0)).at(field));
            }
        }
        let is_unlisted = |(id, variable): &(usize, &PackageVariable)| {
            matches!(variable.role, Role::View) && !views.contains(&VariableId(*id as u32))
        };
        problems.extend(self.variables.iter().enumerate().filter(is_unlisted).map(
            |(_, variable)| {
                invalid("a variable of type pointer without view_of in tenon.json")
                    .at(place(variable))
            },
        ));
    }

    fn check_constants(&self, problems: &mut Vec<Error>) {
        let role = |id| self.variable(id).map(|variable| &variable.role);
        let mut plain = HashSet::new();
        let mut prepared = HashSet::new();
        for (index, info) in self.tenon.constants.iter().enumerate() {
            let field = Location::field(format!("constants[{index}]"));
            let error = match (self.variable(info.var_id), &info.prepared) {
                (Some(variable), None)
                    if matches!(variable.role, Role::Constant(_) | Role::Absent) =>
                {
                    plain.insert(info.var_id);
                    check_type(variable, info.dtype, &info.shape)
                }
                // Only the backend knows the size of a prepared form.
                (Some(variable), Some(form)) if matches!(variable.role, Role::Constant(_)) => {
                    prepared.insert(form.of);
                    let of = matches!(role(form.of), Some(Role::Constant(_) | Role::Absent));
                    (!of).then(|| no_variable(form.of, "constants"))
                }
                _ => Some(no_variable(info.var_id, "constants")),
            };
            problems.extend(error.map(|error| error.at(field)));
        }
        let is_unlisted = |(id, variable): &(usize, &PackageVariable)| {
            let id = VariableId(*id as u32);
            let has_forms = plain.contains(&id) && prepared.contains(&id);
            matches!(variable.role, Role::Absent) && !has_forms
        };
        let unlisted = self.variables.iter().enumerate().filter(is_unlisted);
        problems.extend(unlisted.map(|(_, variable)| {
            invalid("file_name is missing, and the constant has no prepared form")
                .at(place(variable))
        }));
    }

    fn check_movements(&self, problems: &mut Vec<Error>) {
        // No descriptor accesses an omitted constant.
        let size_of = |id: VariableId| {
            let variable = self.variable(id);
            let stored = variable.filter(|variable| !matches!(variable.role, Role::Absent));
            stored.map(|variable| variable.size)
        };
        for (index, pair) in self.movements.windows(2).enumerate() {
            if let [first, second] = pair
                && first.id >= second.id
            {
                let field = Location::field(format!("dma[{}].id", index + 1));
                problems.push(invalid("ids must ascend").found(second.id).at(field));
            }
        }
        for (index, movement) in self.movements.iter().enumerate() {
            for (position, descriptor) in movement.descriptors.iter().enumerate() {
                if let Err(error) = descriptor.check(size_of) {
                    // Each problem names its key; the location of the descriptor is added.
                    let node = Location::node(format!("dma[{index}].desc[{position}]"));
                    problems.push(error.at(node));
                }
            }
        }
    }

    fn check_plan(&self, problems: &mut Vec<Error>) {
        let plan = &self.tenon.plan;
        for (index, live) in plan.variables.iter().enumerate() {
            let planned = Role::Arena {
                offset: live.offset,
            };
            let same = self.variable(live.var_id).is_some_and(|variable| {
                matches!((&variable.role, planned), (Role::Arena { offset: a }, Role::Arena { offset: b }) if *a == b)
                    && variable.size == live.size
            });
            if !same || live.first > live.last {
                let error = invalid("the plan differs from the variables");
                problems.push(error.at(Location::field(format!("plan.variables[{index}]"))));
            }
        }
        if plan.arena_bytes != self.arena_bytes() {
            let error = invalid("the arena's size differs from the largest end of its variables");
            let error = error.expected(self.arena_bytes()).found(plan.arena_bytes);
            problems.push(error.at(Location::field("plan.arena_bytes")));
        }
    }

    /// The rules of packages with symbols.
    fn check_symbols(&self, called: bool, problems: &mut Vec<Error>) {
        let tenon = &self.tenon;
        if tenon.format != tenon.least_format() {
            let error =
                invalid("format 2 is that of packages with symbols, 3 of those with buckets");
            let error = error.expected(tenon.least_format()).found(tenon.format);
            problems.push(error.at(Location::field("format")));
        }
        let symbols = match tenon.symbol_table() {
            Ok(symbols) => symbols,
            Err(error) => return problems.push(error.at(Location::field("symbols"))),
        };
        let mut parse = |field: String, shape: &PortShape| {
            let parsed = shape.parse(&symbols);
            parsed
                .map_err(|error| problems.push(error.at(Location::field(field))))
                .unwrap_or_default()
        };
        let mut decided = HashSet::new();
        for (index, port) in tenon.inputs.iter().enumerate() {
            let extents = parse(format!("inputs[{index}].shape"), &port.shape);
            decided.extend(extents.iter().filter_map(SizeExpr::symbol));
        }
        for (index, port) in tenon.outputs.iter().enumerate() {
            parse(format!("outputs[{index}].shape"), &port.shape);
        }
        for (index, info) in tenon.variables.iter().enumerate() {
            parse(format!("variables[{index}].shape"), &info.shape);
        }
        for (id, symbol) in symbols.iter() {
            if !called && !decided.contains(&id) {
                let error = invalid("no extent of an input is this symbol");
                problems.push(error.found(&symbol.name).at(Location::field("symbols")));
            }
        }
        match Buckets::new(tenon, &symbols) {
            Ok(buckets) if called && !buckets.is_empty() => {
                let error = invalid("buckets in a subgraph that a host function calls");
                problems.push(error.at(Location::field("buckets")));
            }
            Ok(_) => {}
            Err(error) => problems.push(error),
        }
        for (index, info) in tenon.sizes.iter().enumerate() {
            if let Some(error) = self.check_sizes(info, &symbols) {
                problems.push(error.at(Location::field(format!("sizes[{index}]"))));
            }
        }
        let is_planned = |variable: &&PackageVariable| matches!(variable.role, Role::Planned);
        if !tenon.is_symbolic()
            && let Some(variable) = self.variables.iter().find(is_planned)
        {
            let text = "a variable without an offset in a package without symbols";
            problems.push(invalid(text).at(place(variable)));
        }
        if tenon.is_symbolic() && !self.movements.is_empty() {
            let error = invalid("descriptors in a package with symbols");
            problems.push(error.at(Location::field("dma")));
        }
    }

    fn check_sizes(&self, info: &SizesInfo, symbols: &Symbols) -> Option<Error> {
        let variable = self.variable(info.var_id);
        if !variable.is_some_and(|variable| matches!(variable.role, Role::Planned)) {
            return Some(no_variable(info.var_id, "sizes"));
        }
        let count = info
            .shape
            .iter()
            .try_fold(1usize, |all, &extent| all.checked_mul(extent));
        if count != Some(info.elements.len()) {
            let error = invalid("not one element for each position of the shape");
            return Some(error.found(info.elements.len()));
        }
        let types = [
            DataType::I64,
            DataType::I32,
            DataType::F32,
            DataType::F64,
            DataType::Bool,
        ];
        if !types.contains(&info.dtype) {
            let error = invalid("a data type that sizes cannot have");
            return Some(
                error
                    .expected("i64, i32, f32, f64 or bool")
                    .found(info.dtype),
            );
        }
        let mut elements = info.elements.iter();
        elements.find_map(|element| element.parse(symbols).err())
    }

    /// The entries of `tensor_map.json`.
    pub(super) fn tensor_map(&self) -> Vec<(String, MappedTensor)> {
        // An input may also be an output: then there is one entry for both.
        let mut names = HashSet::new();
        let inputs = self.tenon.inputs.iter().map(|port| ("input", port));
        let outputs = self.tenon.outputs.iter().map(|port| ("output", port));
        inputs
            .chain(outputs)
            .filter(|(_, port)| names.insert(&port.name))
            .map(|(kind, port)| {
                let tensor = MappedTensor::port(kind, &port.name, port.dtype, &port.shape);
                (port.name.clone(), tensor)
            })
            .collect()
    }
}

/// The error of a format that only a later Tenon reads.
pub(super) fn newer_format(found: u32, known: u32) -> Error {
    Error::new(
        ErrorKind::UnsupportedVersion,
        "the package was made by a newer Tenon",
    )
    .expected(format_args!("format {known} or less"))
    .found(found)
    .help("compile the model again, or update Tenon")
    .at(Location::field("format"))
}

fn check_type(variable: &PackageVariable, dtype: DataType, shape: &[usize]) -> Option<Error> {
    match TensorType::new(dtype, shape) {
        Err(error) => Some(error),
        Ok(ty) if dtype == DataType::String || ty.bytes() as u64 != variable.size => {
            let error = invalid(format!(
                "'{}' differs in size from its type {ty}",
                variable.name
            ));
            Some(error.expected(ty.bytes()).found(variable.size))
        }
        Ok(_) => None,
    }
}

/// A variable with a symbolic shape has the size 0.
fn check_port_type(
    variable: &PackageVariable,
    dtype: DataType,
    shape: &PortShape,
) -> Option<Error> {
    match shape.fixed() {
        Some(shape) => check_type(variable, dtype, &shape),
        None if variable.size == 0 && dtype != DataType::String => None,
        None => {
            let error = invalid(format!(
                "'{}' has a symbolic shape and a size",
                variable.name
            ));
            Some(error.expected(0).found(variable.size))
        }
    }
}

fn no_variable(id: VariableId, list: &str) -> Error {
    invalid(format!(
        "variable {} cannot be among the {list}, or is listed twice",
        id.0
    ))
}

fn place(variable: &PackageVariable) -> Location {
    Location::field(format!("var['{}']", variable.name))
}
