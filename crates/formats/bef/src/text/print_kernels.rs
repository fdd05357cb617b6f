//! Printing of kernels: the custom form if the kernel matches it, else the generic form.

use super::check::kernel_problems;
use super::forms::{Form, Kind, Part, form};
use super::names::Names;
use super::number::print_number;
use super::print::{AttributeEntry, Printer};
use super::print_attributes::{print_string, print_symbol_name, separate};
use crate::syntax::print_function_type;
use crate::{Attribute, DType, Function, FunctionId, FunctionKind, Kernel, Name, RegisterId};
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
                && self.fits(form, &printed)
        });
        match form {
            Some(form) => {
                self.out.push_str(&kernel.name);
                let mut operands = kernel.operands.iter();
                let parts = form.parts.iter();
                parts.for_each(|part| self.part(part, form, &printed, &mut operands));
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
        self.out.push_str(" : ");
        let r#type = print_function_type(&printed.operands, &printed.results);
        self.out.push_str(&r#type);
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

    /// The dictionary of attributes and function references without those of the form, after
    /// `before`.
    fn other_attributes(
        &mut self,
        printed: &Printed<'_>,
        known: &[(&'static str, Kind)],
        before: &str,
    ) {
        let Printed { kernel, depth, .. } = *printed;
        let entries = other_entries(kernel, known);
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
            Some(Attribute::Unit) => {}
            Some(value) => {
                self.out.push_str(" = ");
                self.attribute(value);
            }
            None => {
                self.out.push_str(" = ");
                self.references(name, kernel);
            }
        }
    }

    /// The functions of an attribute: one, or a list if the name ends with `[]`.
    fn references(&mut self, name: &str, kernel: &Kernel) {
        let is_list = name.ends_with("[]");
        self.out.push_str(if is_list { "[" } else { "" });
        let found = named_references(kernel).filter(|(other, _)| *other == name);
        for (index, (_, id)) in found.enumerate() {
            separate(&mut self.out, index);
            self.function_name(id);
        }
        self.out.push_str(if is_list { "]" } else { "" });
    }

    fn function_name(&mut self, id: FunctionId) {
        let function = self.module.functions.get(id.0 as usize);
        let name = function.map_or("?", |f| f.name.as_str());
        print_symbol_name(&mut self.out, name);
    }

    /// Whether the custom form represents the kernel completely, given that operands, results,
    /// attributes and regions match it.
    fn fits(&self, form: &Form, printed: &Printed<'_>) -> bool {
        let kernel = printed.kernel;
        let has = |kind: fn(&Part) -> bool| form.parts.iter().any(kind);
        if !has(|part| matches!(part, Part::Dictionary(_)))
            && !other_entries(kernel, &form.attributes).is_empty()
        {
            return false;
        }
        // Without a function type, the types of the results are those of the operands.
        if form.results.is_none()
            && !has(|part| matches!(part, Part::FunctionType | Part::ParenthesizedType))
            && printed.operands[form.operands.len()..] != printed.results
        {
            return false;
        }
        if form.regions() == 0 {
            return regions(kernel).next().is_none();
        }
        self.regions_fit(kernel, &form.passed(&kernel.operands))
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

    /// A part of the custom form, where `operands` are left.
    fn part(
        &mut self,
        part: &Part,
        form: &Form,
        printed: &Printed<'_>,
        operands: &mut std::slice::Iter<'_, RegisterId>,
    ) {
        let Printed { kernel, names, .. } = printed;
        let others = &printed.operands[printed.operands.len() - operands.len()..];
        match part {
            Part::Text(text) => self.out.push_str(text),
            Part::Operand => {
                let name = operands.next().map(|register| names.name(*register));
                self.out.push_str(name.unwrap_or_default());
            }
            Part::Operands => self.values(operands.as_slice(), names),
            Part::Arguments => self.arguments(operands.as_slice(), names),
            Part::Attribute(name, kind) => self.attribute_of(name, *kind, kernel),
            Part::Dictionary(before) => self.other_attributes(printed, &form.attributes, before),
            Part::Types => self.type_list(others),
            Part::ParenthesizedType => {
                self.out.push('(');
                self.type_list(others);
                self.out.push_str(") -> (");
                self.type_list(&printed.results);
                self.out.push(')');
            }
            Part::FunctionType => {
                let r#type = print_function_type(others, &printed.results);
                self.out.push_str(&r#type);
            }
            Part::Optional(parts) => {
                if !others.is_empty() {
                    (parts.iter()).for_each(|part| self.part(part, form, printed, operands));
                }
            }
            Part::Region => self.named_region(printed, form, 0),
            Part::Else => {
                self.out.push_str(" else");
                self.named_region(printed, form, 1);
            }
            Part::Benchmark => self.benchmark(printed),
        }
    }

    fn attribute_of(&mut self, name: &str, kind: Kind, kernel: &Kernel) {
        match (kind, kernel.attribute(name)) {
            (Kind::Function, _) => self.references(name, kernel),
            (Kind::Value, Some(value)) => self.attribute(value),
            (Kind::Constant(_) | Kind::Number(_), Some(number)) => {
                self.out.push_str(&print_number(number).unwrap_or_default());
            }
            (Kind::TypedNumber(dtype), Some(number)) => {
                self.out.push_str(&print_number(number).unwrap_or_default());
                self.out.push_str(" : ");
                self.out.push_str(dtype.mlir());
            }
            (_, None) => {}
        }
    }

    fn arguments(&mut self, operands: &[RegisterId], names: &Names) {
        self.out.push('(');
        self.values(operands, names);
        self.out.push(')');
    }

    /// `"name"(%a : T) duration_secs = 1, max_count = 100, num_warmup_runs = 10`.
    fn benchmark(&mut self, printed: &Printed<'_>) {
        let Printed { kernel, names, .. } = printed;
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
            self.out.push_str(" = ");
            self.attribute_of(name, Kind::Number(DType::I32), kernel);
        }
    }

    /// ` { .. }`: a region whose arguments have the names of the operands that are passed to it.
    fn named_region(&mut self, printed: &Printed<'_>, form: &Form, index: usize) {
        let Printed { kernel, depth, .. } = *printed;
        self.out.push_str(" {\n");
        let region = regions(kernel).nth(index).and_then(|id| self.region(id));
        if let Some(region) = region {
            let name = |register: &RegisterId| printed.names.name(*register).to_owned();
            let passed = form.passed(&kernel.operands);
            let names = Names::of(region, Some(passed.iter().map(name).collect()), 0, 0);
            self.block(region, &names, depth + 1);
        }
        self.indent(depth);
        self.out.push('}');
    }
}

/// Attributes and function references other than `known`, sorted by name.
fn other_entries<'k>(kernel: &'k Kernel, known: &[(&str, Kind)]) -> Vec<AttributeEntry<'k>> {
    let attributes = kernel.attributes.iter();
    let mut entries: Vec<AttributeEntry<'k>> = attributes
        .map(|(name, value)| (name.as_str(), Some(value)))
        .collect();
    for (name, _) in named_references(kernel) {
        // Elements of a list are adjacent.
        if entries.last() != Some(&(name, None)) {
            entries.push((name, None));
        }
    }
    entries.retain(|(name, _)| !known.iter().any(|(other, _)| name == other));
    entries.sort_by_key(|(name, _)| name.trim_end_matches("[]"));
    entries
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
