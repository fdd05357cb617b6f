//! Printing of kernels: the custom form if the kernel matches it, else the generic form.

use super::check::kernel_problems;
use super::forms::{Form, form};
use super::names::Names;
use super::number::print_number;
use super::print::{AttributeEntry, Printer};
use super::print_attributes::{print_string, print_symbol_name, separate};
use crate::{Attribute, Function, FunctionId, FunctionKind, Kernel, Name, RegisterId};
use std::collections::HashSet;

/// Maximum line length in bytes of the readable form.
const WIDTH: usize = 96;

/// The kernel being printed.
struct Printed<'k> {
    kernel: &'k Kernel,
    names: &'k Names,
    /// The types of its operands and results.
    operands: Vec<&'k str>,
    results: Vec<&'k str>,
    depth: usize,
}

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
        let r#type = |r: &RegisterId| {
            let r#type = function.registers.get(r.0 as usize);
            r#type.map_or("none", Name::as_str)
        };
        let printed = Printed {
            kernel,
            names,
            operands: kernel.operands.iter().map(r#type).collect(),
            results: kernel.results.iter().map(r#type).collect(),
            depth,
        };
        let form = form(&kernel.name).filter(|form| {
            !self.options.generic
                && kernel_problems(&self.module.functions, function, kernel).is_empty()
                && self.fits(*form, &printed)
        });
        match form {
            Some(form) => {
                self.out.push_str(&kernel.name);
                self.custom(form, &printed);
            }
            None => self.generic(&printed),
        }
    }

    /// `"name"(%a) ({ .. }) {a = 1} : (T) -> U`.
    fn generic(&mut self, printed: &Printed<'_>) {
        print_string(&mut self.out, &printed.kernel.name);
        self.arguments(&printed.kernel.operands, printed.names);
        let regions: Vec<FunctionId> = regions(printed.kernel).collect();
        if !regions.is_empty() {
            self.out.push_str(" (");
            for (index, region) in regions.into_iter().enumerate() {
                separate(&mut self.out, index);
                self.generic_region(region, printed.names, printed.depth);
            }
            self.out.push(')');
        }
        self.other_attributes(printed, &[], " ");
        self.function_type(&printed.operands, &printed.results);
    }

    /// A region whose values have distinct names, also from those outside.
    fn generic_region(&mut self, id: FunctionId, outer: &Names, depth: usize) {
        match self.region(id) {
            Some(region) => {
                let names = Names::of(region, None, outer.next, outer.next_argument);
                self.labelled_block(region, &names, depth);
            }
            None => self.out.push_str("{\n"),
        }
        self.indent(depth);
        self.out.push('}');
    }

    /// The dictionary of attributes and function references, sorted by name and without the `known`
    /// ones, after `before`.
    fn other_attributes(&mut self, printed: &Printed<'_>, known: &[&str], before: &str) {
        let Printed { kernel, depth, .. } = *printed;
        let attributes = kernel.attributes.iter();
        let mut entries: Vec<(&str, Option<&Attribute>)> = attributes
            .map(|(name, value)| (name.as_str(), Some(value)))
            .collect();
        for (name, _) in named_references(kernel) {
            // Elements of a list are adjacent.
            if entries.last() != Some(&(name, None)) {
                entries.push((name, None));
            }
        }
        entries.retain(|(name, _)| !known.contains(name));
        entries.sort_by_key(|(name, _)| name.trim_end_matches("[]"));
        if entries.is_empty() {
            return;
        }
        self.out.push_str(before);
        self.out.push('{');
        for (index, (name, value)) in entries.into_iter().enumerate() {
            let start = self.out.len();
            separate(&mut self.out, index);
            self.entry((name, value), kernel);
            if index > 0 && self.options.readable {
                self.wrap(start, depth);
            }
        }
        self.out.push('}');
    }

    /// Breaks the line after the comma at `start` if it is too long.
    fn wrap(&mut self, start: usize, depth: usize) {
        let line = self.out[..start].rfind('\n').map_or(0, |end| end + 1);
        if self.out.len() - line > WIDTH {
            let indented = format!(",\n{}", "  ".repeat(depth + 2));
            self.out.replace_range(start..start + ", ".len(), &indented);
        }
    }

    /// An attribute, or the references of a name.
    fn entry(&mut self, (name, value): AttributeEntry<'_>, kernel: &Kernel) {
        let list = value.is_none().then(|| name.strip_suffix("[]")).flatten();
        self.attribute_name(list.unwrap_or(name));
        match value {
            Some(Attribute::Unit) => return,
            Some(value) => {
                self.out.push_str(" = ");
                return self.attribute(value);
            }
            None => self.out.push_str(" = "),
        }
        let held = named_references(kernel).filter(|(other, _)| *other == name);
        let held: Vec<FunctionId> = held.map(|(_, id)| id).collect();
        match list {
            Some(_) => self.function_list(&held),
            None => held.into_iter().for_each(|id| self.function_name(id)),
        }
    }

    fn function_name(&mut self, id: FunctionId) {
        let function = self.module.functions.get(id.0 as usize);
        let name = function.map_or("?", |f| f.name.as_str());
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

    /// Whether the custom form represents the kernel completely, given that operands, results,
    /// attributes and regions match it.
    fn fits(&self, form: Form, printed: &Printed<'_>) -> bool {
        let kernel = printed.kernel;
        let (attributes, references) = (kernel.attributes.len(), kernel.functions.len());
        match form {
            Form::If => self.regions_fit(kernel, &kernel.operands[1..]),
            Form::DoAsync => self.regions_fit(kernel, &kernel.operands),
            Form::Repeat => {
                attributes == 0
                    && references == 1
                    && printed.operands[1..] == printed.results
                    && self.regions_fit(kernel, &kernel.operands[1..])
            }
            Form::ParallelFor => {
                attributes == 0
                    && references == 1
                    && self.regions_fit(kernel, &without_block_size(&kernel.operands))
            }
            Form::Benchmark => {
                attributes == 4 && references == 1 && self.regions_fit(kernel, &kernel.operands)
            }
            _ => regions(kernel).next().is_none(),
        }
    }

    /// Whether the operands passed to the regions are distinct, so that they can name the
    /// arguments.
    fn regions_fit(&self, kernel: &Kernel, passed: &[RegisterId]) -> bool {
        let distinct: HashSet<RegisterId> = passed.iter().copied().collect();
        let is_async = |id: FunctionId| {
            let region = self.module.functions.get(id.0 as usize);
            region.is_some_and(|region| region.kind == FunctionKind::Async)
        };
        distinct.len() == passed.len() && regions(kernel).all(is_async)
    }

    /// The part after the name.
    fn custom(&mut self, form: Form, printed: &Printed<'_>) {
        let Printed { kernel, names, .. } = printed;
        let operands = &kernel.operands[..];
        match form {
            Form::Constant(_) => {
                self.number(kernel, "value");
                self.other_attributes(printed, &["value"], " ");
            }
            Form::Complex(part) => {
                for (index, name) in ["real", "imaginary"].into_iter().enumerate() {
                    self.out.push_str(if index > 0 { "," } else { "" });
                    self.number(kernel, name);
                    self.out.push_str(" : ");
                    self.out.push_str(part.mlir());
                }
                self.other_attributes(printed, &["real", "imaginary"], " ");
            }
            Form::Fixed(..) => {
                self.spaced_values(operands, names);
                self.other_attributes(printed, &[], " ");
            }
            Form::Valued(_, attribute, _) => {
                self.spaced_values(operands, names);
                self.out.push(' ');
                if let Some(value) = kernel.attribute(attribute) {
                    self.attribute(value);
                }
                self.other_attributes(printed, &[attribute], " ");
            }
            Form::Variadic(_) => {
                self.spaced_values(operands, names);
                self.other_attributes(printed, &[], " ");
                self.out.push_str(" : ");
                self.type_list(&printed.operands);
            }
            Form::Call(attribute) => {
                self.out.push(' ');
                self.references(kernel, &[attribute]);
                self.arguments(operands, names);
                self.signature(printed, 0, &[attribute]);
            }
            Form::Cond => {
                self.spaced_values(&operands[..1], names);
                self.out.push(' ');
                self.references(kernel, &["a_true_fn", "b_false_fn"]);
                self.out.push(' ');
                self.arguments(&operands[1..], names);
                self.signature(printed, 1, &["a_true_fn", "b_false_fn"]);
            }
            Form::Case => {
                self.spaced_values(&operands[..1], names);
                self.out.push(' ');
                let branches = named_references(kernel).filter(|(name, _)| *name == "branches[]");
                let branches: Vec<FunctionId> = branches.map(|(_, id)| id).collect();
                self.function_list(&branches);
                self.out.push(' ');
                self.arguments(&operands[1..], names);
                self.signature(printed, 1, &["branches[]"]);
            }
            Form::While => {
                self.spaced_values(&operands[..1], names);
                self.out.push(' ');
                self.references(kernel, &["body_fn"]);
                self.arguments(&operands[1..], names);
                let iterations = kernel.attribute("parallel_iterations");
                let iterations = iterations.and_then(Attribute::as_i64).unwrap_or_default();
                self.out
                    .push_str(&format!(" parallel_iterations({iterations})"));
                self.signature(printed, 1, &["body_fn", "parallel_iterations"]);
            }
            Form::ParallelCall => {
                self.range(operands, names);
                self.out.push(' ');
                self.references(kernel, &["callee"]);
                self.arguments(&operands[3..], names);
                self.other_attributes(printed, &["callee"], " ");
                self.colon_types(&printed.operands[3..]);
            }
            Form::If => {
                self.spaced_values(operands, names);
                self.other_attributes(printed, &[], " attributes ");
                self.signature_with_regions(printed, &operands[1..], 1);
            }
            Form::DoAsync => {
                self.spaced_values(operands, names);
                self.other_attributes(printed, &[], " attributes ");
                self.signature_with_regions(printed, operands, 0);
            }
            Form::Repeat => {
                self.spaced_values(operands, names);
                self.colon_types(&printed.operands[1..]);
                self.regions(printed, &operands[1..]);
            }
            Form::ParallelFor => {
                self.range(operands, names);
                for register in &operands[3..] {
                    self.out.push_str(", ");
                    self.out.push_str(names.name(*register));
                }
                self.colon_types(&printed.operands[3..]);
                self.regions(printed, &without_block_size(operands));
            }
            Form::Benchmark => self.benchmark(printed),
        }
    }

    fn number(&mut self, kernel: &Kernel, name: &str) {
        let value = kernel.attribute(name).and_then(print_number);
        self.out.push(' ');
        self.out.push_str(&value.unwrap_or_default());
    }

    /// ` %a, %b`.
    fn spaced_values(&mut self, operands: &[RegisterId], names: &Names) {
        if !operands.is_empty() {
            self.out.push(' ');
            self.values(operands, names);
        }
    }

    /// The functions of the named attributes.
    fn references(&mut self, kernel: &Kernel, held_by: &[&str]) {
        for (index, name) in held_by.iter().enumerate() {
            if index > 0 {
                self.out.push(' ');
            }
            let found = named_references(kernel).find(|(other, _)| other == name);
            if let Some((_, id)) = found {
                self.function_name(id);
            }
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

    /// The attributes without the known ones, and the function type without the first operands.
    fn signature(&mut self, printed: &Printed<'_>, skipped: usize, known: &[&str]) {
        self.other_attributes(printed, known, " ");
        self.function_type(&printed.operands[skipped..], &printed.results);
    }

    /// ` : (T) -> U`.
    fn function_type(&mut self, operands: &[&str], results: &[&str]) {
        self.out.push_str(" : (");
        self.type_list(operands);
        self.out.push_str(") -> ");
        self.types(results);
    }

    /// ` : (T) -> (U) { .. } else { .. }`; results are always parenthesized.
    fn signature_with_regions(
        &mut self,
        printed: &Printed<'_>,
        passed: &[RegisterId],
        skipped: usize,
    ) {
        self.out.push_str(" : (");
        self.type_list(&printed.operands[skipped..]);
        self.out.push_str(") -> (");
        self.type_list(&printed.results);
        self.out.push(')');
        self.regions(printed, passed);
    }

    fn colon_types(&mut self, types: &[&str]) {
        if !types.is_empty() {
            self.out.push_str(" : ");
            self.type_list(types);
        }
    }

    /// `"name"(%a: T) duration_secs = 1, max_count = 100, num_warmup_runs = 10 { .. }`.
    fn benchmark(&mut self, printed: &Printed<'_>) {
        let Printed { kernel, names, .. } = printed;
        self.out.push(' ');
        let name = kernel.attribute("name").and_then(Attribute::as_str);
        print_string(&mut self.out, name.unwrap_or_default());
        self.out.push('(');
        for (index, register) in kernel.operands.iter().enumerate() {
            separate(&mut self.out, index);
            self.out.push_str(names.name(*register));
            self.out.push_str(" : ");
            self.out.push_str(printed.operands[index]);
        }
        self.out.push(')');
        let integers = ["duration_secs", "max_count", "num_warmup_runs"];
        for (index, name) in integers.into_iter().enumerate() {
            self.out.push_str(if index > 0 { ", " } else { " " });
            self.out.push_str(name);
            self.out.push_str(" =");
            self.number(kernel, name);
        }
        self.regions(printed, &kernel.operands);
    }

    /// ` { .. } else { .. }`: regions whose arguments have the names of the outer operands.
    fn regions(&mut self, printed: &Printed<'_>, passed: &[RegisterId]) {
        for (index, id) in regions(printed.kernel).enumerate() {
            self.out
                .push_str(if index == 0 { " {\n" } else { " else {\n" });
            if let Some(region) = self.region(id) {
                let name = |register: &RegisterId| printed.names.name(*register).to_owned();
                let arguments = passed.iter().map(name).collect();
                let names = Names::of(region, Some(arguments), 0, 0);
                self.block(region, &names, printed.depth + 1);
            }
            self.indent(printed.depth);
            self.out.push('}');
        }
    }
}

/// Start, end and passed operands: the block size is not passed to the region.
fn without_block_size(operands: &[RegisterId]) -> Vec<RegisterId> {
    [&operands[..2], &operands[3..]].concat()
}

fn regions(kernel: &Kernel) -> impl Iterator<Item = FunctionId> {
    let regions = kernel.functions.iter().filter(|(name, _)| name.is_empty());
    regions.map(|(_, id)| *id)
}

/// The references of an attribute.
fn named_references(kernel: &Kernel) -> impl Iterator<Item = (&str, FunctionId)> {
    let named = kernel.functions.iter().filter(|(name, _)| !name.is_empty());
    named.map(|(name, id)| (name.as_str(), *id))
}
