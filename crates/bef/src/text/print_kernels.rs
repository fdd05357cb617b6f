//! Kernels to text: the custom forms where a kernel fits, else the generic one.

use super::forms::{CHAIN, Form, form};
use super::number::print_number;
use super::print::{Names, Printer};
use super::print_attributes::{is_bare, print_string, print_symbol_name, separate};
use crate::{Attribute, Function, FunctionId, FunctionKind, Kernel, Name, RegisterId};
use std::collections::{BTreeMap, HashSet};

impl Printer<'_> {
    pub(crate) fn kernel(
        &mut self,
        function: &Function,
        kernel: &Kernel,
        names: &Names,
        depth: usize,
    ) {
        if let Some(first) = kernel.results.first() {
            let group = names.name(*first).split('#').next().unwrap_or_default();
            self.out.push_str(group);
            if kernel.results.len() > 1 {
                self.out.push_str(&format!(":{}", kernel.results.len()));
            }
            self.out.push_str(" = ");
        }
        let types = Types::of(function, kernel);
        match form(&kernel.name)
            .filter(|form| !self.options.generic && self.fits(*form, kernel, &types))
        {
            Some(form) => {
                self.out.push_str(&kernel.name);
                self.custom(form, kernel, &types, names, depth);
            }
            None => self.generic(kernel, &types, names, depth),
        }
    }

    /// `"name"(%a) ({ .. }) {a = 1} : (T) -> U`.
    fn generic(&mut self, kernel: &Kernel, types: &Types, names: &Names, depth: usize) {
        print_string(&mut self.out, &kernel.name);
        self.out.push('(');
        self.values(&kernel.operands, names);
        self.out.push(')');
        let regions: Vec<FunctionId> = regions(kernel).collect();
        if !regions.is_empty() {
            self.out.push_str(" (");
            for (index, region) in regions.into_iter().enumerate() {
                separate(&mut self.out, index);
                self.generic_region(region, names, depth);
            }
            self.out.push(')');
        }
        self.dictionary(kernel);
        self.out.push_str(" : (");
        self.out.push_str(&types.operands.join(", "));
        self.out.push_str(") -> ");
        self.types(&types.results);
    }

    /// A region whose values have names of their own, also beside those outside.
    fn generic_region(&mut self, id: FunctionId, outer: &Names, depth: usize) {
        self.out.push_str("{\n");
        if let Some(region) = self.region(id) {
            let names = Names::of(region, None, outer.next, outer.next_argument);
            if region.arguments > 0 {
                self.indent(depth);
                self.out.push_str("^bb0(");
                for (index, r#type) in region.argument_types().iter().enumerate() {
                    separate(&mut self.out, index);
                    self.out.push_str(names.name(RegisterId(index as u32)));
                    self.out.push_str(": ");
                    self.out.push_str(r#type);
                }
                self.out.push_str("):\n");
            }
            self.block(region, &names, depth + 1);
        }
        self.indent(depth);
        self.out.push('}');
    }

    /// Attributes and function references together, sorted by name.
    fn dictionary(&mut self, kernel: &Kernel) {
        let mut lists: BTreeMap<&str, Vec<FunctionId>> = BTreeMap::new();
        for (name, id) in kernel.functions.iter().filter(|(name, _)| !name.is_empty()) {
            lists.entry(name).or_default().push(*id);
        }
        let attributes = kernel
            .attributes
            .iter()
            .map(|(name, value)| (name.as_str(), Some(value)));
        let references = lists.keys().map(|name| (*name, None));
        let mut entries: Vec<(&str, Option<&Attribute>)> = attributes.chain(references).collect();
        entries.sort_by_key(|(name, _)| name.trim_end_matches("[]"));
        if entries.is_empty() {
            return;
        }
        self.out.push_str(" {");
        for (index, (name, value)) in entries.into_iter().enumerate() {
            separate(&mut self.out, index);
            let (name, list) = name
                .strip_suffix("[]")
                .map_or((name, false), |name| (name, true));
            if is_bare(name) {
                self.out.push_str(name);
            } else {
                print_string(&mut self.out, name);
            }
            self.out.push_str(" = ");
            match value {
                Some(value) => self.attribute(value),
                None if list => self.function_list(&lists[format!("{name}[]").as_str()]),
                None => lists[name].iter().for_each(|id| self.function_name(*id)),
            }
        }
        self.out.push('}');
    }

    fn function_name(&mut self, id: FunctionId) {
        let name = self
            .module
            .functions
            .get(id.0 as usize)
            .map_or("?", |f| f.name.as_str());
        print_symbol_name(&mut self.out, name);
    }

    fn function_list(&mut self, ids: &[FunctionId]) {
        self.out.push('[');
        for (index, id) in ids.iter().enumerate() {
            separate(&mut self.out, index);
            self.function_name(*id);
        }
        self.out.push(']');
    }

    /// Whether the custom form says all about `kernel`.
    fn fits(&self, form: Form, kernel: &Kernel, types: &Types) -> bool {
        let references: Vec<&str> = kernel
            .functions
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        let plain = kernel.attributes.is_empty();
        let alone = plain && references.is_empty();
        let operands = |expected: &[&str]| types.operands.iter().eq(expected);
        let results = |expected: &[&str]| types.results.iter().eq(expected);
        let starts = |expected: &[&str]| {
            types
                .operands
                .get(..expected.len())
                .is_some_and(|types| types.iter().eq(expected))
        };
        match form {
            Form::Constant(dtype) => {
                let value = match &kernel.attributes[..] {
                    [(name, value)] if name == "value" => value.number_type(),
                    _ => None,
                };
                value == Some(dtype)
                    && references.is_empty()
                    && operands(&[])
                    && results(&[dtype.mlir()])
            }
            Form::Fixed(expected, made) => alone && operands(expected) && results(made),
            Form::MergeChains => alone && !types.operands.is_empty() && results(&[CHAIN]),
            Form::Call(name) => plain && references == [name],
            Form::Cond => plain && references == ["a_true_fn", "b_false_fn"] && starts(&["i1"]),
            Form::Case => {
                let branches = references.iter().all(|name| *name == "branches[]");
                plain && branches && !references.is_empty() && starts(&["i32"])
            }
            Form::While => {
                let iterations = match &kernel.attributes[..] {
                    [(name, Attribute::I64(_))] => name == "parallel_iterations",
                    _ => false,
                };
                iterations && references == ["body_fn"] && starts(&["i1"])
            }
            Form::ParallelCall => {
                plain && references == ["callee"] && starts(&["i32"; 3]) && results(&[CHAIN])
            }
            Form::If => {
                let passed = types.operands.get(1..).unwrap_or_default();
                let regions = references == ["", ""] && starts(&["i1"]);
                plain && regions && self.regions_fit(kernel, passed, 1, Some(&types.results))
            }
            Form::Repeat => {
                let passed = types.operands.get(1..).unwrap_or_default();
                let regions = references == [""] && starts(&["i32"]) && types.results == passed;
                plain && regions && self.regions_fit(kernel, passed, 1, Some(&types.results))
            }
            Form::ParallelFor => {
                let regions = references == [""] && starts(&["i32"; 3]) && results(&[CHAIN]);
                plain && regions && {
                    let passed = [&types.operands[..2], &types.operands[3..]].concat();
                    self.regions_fit(kernel, &passed, 0, None)
                }
            }
        }
    }

    /// Whether all regions take the operands (from `first` on, each one once, so that their names
    /// can be those of the arguments) and return `results`.
    fn regions_fit(
        &self,
        kernel: &Kernel,
        passed: &[Name],
        first: usize,
        results: Option<&[Name]>,
    ) -> bool {
        let operands = match first {
            0 => [&kernel.operands[..2], &kernel.operands[3..]].concat(),
            first => kernel.operands.get(first..).unwrap_or_default().to_vec(),
        };
        let distinct: HashSet<RegisterId> = operands.iter().copied().collect();
        distinct.len() == operands.len()
            && regions(kernel).all(|id| {
                self.module
                    .functions
                    .get(id.0 as usize)
                    .is_some_and(|region| {
                        region.kind == FunctionKind::Async
                            && region.argument_types() == passed
                            && results.is_none_or(|results| region.result_types == results)
                    })
            })
    }

    /// What stands behind the name.
    fn custom(&mut self, form: Form, kernel: &Kernel, types: &Types, names: &Names, depth: usize) {
        let operands = &kernel.operands[..];
        match form {
            Form::Constant(_) => {
                let value = kernel
                    .attributes
                    .first()
                    .and_then(|(_, value)| print_number(value));
                self.out
                    .push_str(&format!(" {}", value.unwrap_or_default()));
            }
            Form::Fixed(..) if operands.is_empty() => {}
            Form::Fixed(..) => {
                self.out.push(' ');
                self.values(operands, names);
            }
            Form::MergeChains => {
                self.out.push(' ');
                self.values(operands, names);
                self.out.push_str(" : ");
                self.out.push_str(&types.operands.join(", "));
            }
            Form::Call(_) => {
                self.out.push(' ');
                self.references(kernel);
                self.call(operands, &types.operands, types, names);
            }
            Form::Cond => {
                self.first_operand(operands, names);
                self.references(kernel);
                self.out.push(' ');
                self.call(&operands[1..], &types.operands[1..], types, names);
            }
            Form::Case => {
                self.first_operand(operands, names);
                let ids: Vec<FunctionId> = kernel.functions.iter().map(|(_, id)| *id).collect();
                self.function_list(&ids);
                self.out.push(' ');
                self.call(&operands[1..], &types.operands[1..], types, names);
            }
            Form::While => {
                self.first_operand(operands, names);
                self.references(kernel);
                self.arguments(&operands[1..], names);
                let iterations = kernel
                    .attributes
                    .first()
                    .and_then(|(_, value)| value.as_i64());
                let iterations = iterations.unwrap_or_default();
                self.out
                    .push_str(&format!(" parallel_iterations({iterations})"));
                self.function_type(&types.operands[1..], types);
            }
            Form::ParallelCall => {
                self.range(operands, names);
                self.out.push(' ');
                self.references(kernel);
                self.arguments(&operands[3..], names);
                self.colon_types(&types.operands[3..]);
            }
            Form::If => {
                self.out.push(' ');
                self.values(operands, names);
                self.function_type(&types.operands[1..], types);
                for (index, region) in regions(kernel).enumerate() {
                    self.out.push_str(if index == 0 { " " } else { " else " });
                    self.named_region(region, &operands[1..], names, depth);
                }
            }
            Form::Repeat => {
                self.out.push(' ');
                self.values(operands, names);
                self.colon_types(&types.operands[1..]);
                self.out.push(' ');
                regions(kernel).for_each(|r| self.named_region(r, &operands[1..], names, depth));
            }
            Form::ParallelFor => {
                self.range(operands, names);
                for register in &operands[3..] {
                    self.out.push_str(", ");
                    self.out.push_str(names.name(*register));
                }
                self.colon_types(&types.operands[3..]);
                self.out.push(' ');
                let passed = [&operands[..2], &operands[3..]].concat();
                regions(kernel).for_each(|r| self.named_region(r, &passed, names, depth));
            }
        }
    }

    fn first_operand(&mut self, operands: &[RegisterId], names: &Names) {
        self.out.push(' ');
        self.values(&operands[..1], names);
        self.out.push(' ');
    }

    fn references(&mut self, kernel: &Kernel) {
        for (index, (_, id)) in kernel.functions.iter().enumerate() {
            if index > 0 {
                self.out.push(' ');
            }
            self.function_name(*id);
        }
    }

    fn range(&mut self, operands: &[RegisterId], names: &Names) {
        for (register, keyword) in operands.iter().zip([" ", " to ", " fixed "]) {
            self.out.push_str(keyword);
            self.out.push_str(names.name(*register));
        }
    }

    fn arguments(&mut self, operands: &[RegisterId], names: &Names) {
        self.out.push('(');
        self.values(operands, names);
        self.out.push(')');
    }

    fn call(&mut self, operands: &[RegisterId], passed: &[Name], types: &Types, names: &Names) {
        self.arguments(operands, names);
        self.function_type(passed, types);
    }

    fn function_type(&mut self, passed: &[Name], types: &Types) {
        self.out
            .push_str(&format!(" : ({}) -> ", passed.join(", ")));
        self.types(&types.results);
    }

    fn colon_types(&mut self, types: &[Name]) {
        if !types.is_empty() {
            self.out.push_str(" : ");
            self.out.push_str(&types.join(", "));
        }
    }

    /// A region whose arguments have the names of the operands outside.
    fn named_region(
        &mut self,
        id: FunctionId,
        operands: &[RegisterId],
        outer: &Names,
        depth: usize,
    ) {
        self.out.push_str("{\n");
        if let Some(region) = self.region(id) {
            let arguments = operands
                .iter()
                .map(|register| outer.name(*register).to_owned());
            let names = Names::of(region, Some(arguments.collect()), 0, 0);
            self.block(region, &names, depth + 1);
        }
        self.indent(depth);
        self.out.push('}');
    }
}

/// The types of a kernel's operands and results.
struct Types {
    operands: Vec<Name>,
    results: Vec<Name>,
}

impl Types {
    fn of(function: &Function, kernel: &Kernel) -> Self {
        let types = |registers: &[RegisterId]| {
            let r#type = |register: &RegisterId| function.registers.get(register.0 as usize);
            registers
                .iter()
                .map(|r| r#type(r).cloned().unwrap_or("none".into()))
                .collect()
        };
        Self {
            operands: types(&kernel.operands),
            results: types(&kernel.results),
        }
    }
}

fn regions(kernel: &Kernel) -> impl Iterator<Item = FunctionId> {
    kernel
        .functions
        .iter()
        .filter(|(name, _)| name.is_empty())
        .map(|(_, id)| *id)
}
