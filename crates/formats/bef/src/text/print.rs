//! The printer of Modules: modules, functions and their blocks (bef 4.4).

use super::compiled::{compiled_name, printed_form};
use super::functions::{EXTERNAL, VISIBILITY};
use super::names::Names;
use super::print_attributes::{
    PrintSymbol, is_bare, print_location, print_string, print_symbol_name, print_symbol_path,
    separate,
};
use crate::syntax::print_function_type;
use crate::{
    Attribute, Function, FunctionId, FunctionKind, Kernel, KernelLocation, Module, Name, RegisterId,
};
use std::collections::HashMap;

/// Options of the printed form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrintOptions {
    /// Whether source locations are printed.
    pub locations: bool,
    /// Whether kernels of known dialects are printed in the generic form.
    pub generic: bool,
    /// Whether long lines are broken, and a kernel that names the operator and node of a model has
    /// them in a comment above it.
    pub readable: bool,
}

/// Prints one Module.
pub(crate) struct Printer<'a> {
    pub(crate) module: &'a Module,
    pub(crate) options: PrintOptions,
    pub(crate) out: String,
    /// Text of each compiled module that is printed at the top level, by name.
    compiled: HashMap<String, &'a str>,
    /// Their names in print order.
    compiled_order: Vec<String>,
    /// Regions printed so far, so that the output of an unverified module is finite.
    printed: Vec<bool>,
}

/// An attribute with its name; `None` for a name without a value.
pub(crate) type AttributeEntry<'a> = (&'a str, Option<&'a Attribute>);

impl<'a> Printer<'a> {
    pub(crate) fn new(module: &'a Module, options: PrintOptions) -> Self {
        let mut this = Self {
            module,
            options,
            out: String::new(),
            compiled: HashMap::new(),
            compiled_order: Vec::new(),
            printed: vec![false; module.functions.len()],
        };
        let functions = module.functions.iter();
        let kernels = functions.clone().flat_map(|function| &function.kernels);
        let attributes = (module.attributes.iter())
            .chain(functions.flat_map(|function| &function.attributes))
            .chain(kernels.flat_map(|kernel| &kernel.attributes));
        attributes.for_each(|(_, attribute)| this.collect_compiled(attribute));
        this
    }

    /// The Module. Without attributes, `module` and its braces are omitted.
    pub(crate) fn print(mut self) -> String {
        let wrapped = !self.module.attributes.is_empty();
        if self.options.generic {
            self.generic_module();
        } else if wrapped {
            let mut attributes = &self.module.attributes[..];
            self.out.push_str("module ");
            let name = attributes.iter().position(|(name, _)| name == "sym_name");
            let named = name.and_then(|index| attributes[index].1.as_str());
            let mut rest = Vec::new();
            if let (Some(index), Some(name)) = (name, named) {
                print_symbol_name(&mut self.out, name);
                self.out.push(' ');
                rest.extend_from_slice(&attributes[..index]);
                rest.extend_from_slice(&attributes[index + 1..]);
                attributes = &rest;
            }
            if !attributes.is_empty() {
                self.out.push_str("attributes ");
                self.dictionary(&named_attributes(attributes));
                self.out.push(' ');
            }
            self.out.push_str("{\n");
            self.items(1);
            self.out.push_str("}\n");
        } else {
            self.items(0);
        }
        self.out
    }

    fn generic_module(&mut self) {
        self.out.push_str("\"builtin.module\"() ({\n");
        self.items(1);
        self.out.push_str("})");
        if !self.module.attributes.is_empty() {
            self.out.push(' ');
            self.dictionary(&named_attributes(&self.module.attributes));
        }
        self.out.push_str(" : () -> ()\n");
    }

    /// Compiled modules and functions.
    fn items(&mut self, depth: usize) {
        for name in std::mem::take(&mut self.compiled_order) {
            let text = self.compiled.get(&name).copied().unwrap_or_default();
            self.indent(depth);
            let printed = printed_form(text, self.options.generic, depth);
            self.out.push_str(&printed);
            self.out.push('\n');
        }
        let module = self.module;
        for function in module.functions.iter().filter(|f| !f.is_region()) {
            self.indent(depth);
            if self.options.generic {
                self.generic_function(function, depth);
            } else {
                self.function(function, depth);
            }
            self.location(&function.location);
            self.out.push('\n');
        }
    }

    fn collect_compiled(&mut self, attribute: &'a Attribute) {
        let elements = attribute.as_list().unwrap_or_default().iter();
        elements.for_each(|element| self.collect_compiled(element));
        let Attribute::Symbol { path, module } = attribute else {
            return;
        };
        let Some(root) = path.first() else { return };
        let taken = self.compiled.contains_key(root) || self.module.function(root).is_some();
        if !taken && compiled_name(module).as_ref() == Some(root) {
            self.compiled.insert(root.clone(), module);
            self.compiled_order.push(root.clone());
        }
    }

    /// Prints a symbol as a path if its module is printed, else with the text of its module.
    pub(crate) fn attribute(&mut self, attribute: &Attribute) {
        let compiled = &self.compiled;
        let symbol: &PrintSymbol<'_> = &|out, path, module| {
            let printed = path.first().and_then(|root| compiled.get(root));
            // Equal texts usually share their memory.
            let known = printed.is_some_and(|text| std::ptr::eq(*text, module) || *text == module);
            if known {
                return print_symbol_path(out, path);
            }
            out.push_str("#tenon.symbol<");
            print_symbol_path(out, path);
            out.push_str(", ");
            print_string(out, module);
            out.push('>');
        };
        super::print_attributes::print_attribute(&mut self.out, attribute, symbol);
    }

    /// `{a = 1, b}`.
    pub(crate) fn dictionary(&mut self, entries: &[AttributeEntry<'_>]) {
        self.out.push('{');
        for (index, (name, value)) in entries.iter().enumerate() {
            separate(&mut self.out, index);
            self.attribute_name(name);
            if let Some(value) = value {
                self.out.push_str(" = ");
                self.attribute(value);
            }
        }
        self.out.push('}');
    }

    pub(crate) fn attribute_name(&mut self, name: &str) {
        if is_bare(name) {
            self.out.push_str(name);
        } else {
            print_string(&mut self.out, name);
        }
    }

    fn function(&mut self, function: &Function, depth: usize) {
        let native = function.kind == FunctionKind::Native;
        self.out.push_str("func.func ");
        let visibility = visibility(function);
        if let Some(word) = visibility {
            self.out.push_str(word);
            self.out.push(' ');
        }
        print_symbol_name(&mut self.out, &function.name);
        let names = Names::of(function, None, 0, 0);
        self.out.push('(');
        for (index, r#type) in function.argument_types().iter().enumerate() {
            separate(&mut self.out, index);
            if !native {
                self.out.push_str(names.name(RegisterId(index as u32)));
                self.out.push_str(": ");
            }
            self.out.push_str(r#type);
        }
        self.out.push(')');
        if !function.result_types.is_empty() {
            self.out.push_str(" -> ");
            self.types(&function.result_types);
        }
        let shown = |name: &str| name != VISIBILITY || visibility.is_none();
        let attributes = function_attributes(function, shown);
        if !attributes.is_empty() {
            self.out.push_str(" attributes ");
            self.dictionary(&attributes);
        }
        if !native {
            self.out.push_str(" {\n");
            self.block(function, &names, depth + 1);
            self.indent(depth);
            self.out.push('}');
        }
    }

    /// `"func.func"() <{function_type = .., sym_name = ..}> ({ .. }) {..} : () -> ()`.
    fn generic_function(&mut self, function: &Function, depth: usize) {
        let r#type = print_function_type(function.argument_types(), &function.result_types);
        self.out.push_str("\"func.func\"() <{function_type = ");
        self.out.push_str(&r#type);
        self.out.push_str(", sym_name = ");
        print_string(&mut self.out, &function.name);
        let visibility = visibility(function);
        if let Some(word) = visibility {
            self.out.push_str(", sym_visibility = ");
            print_string(&mut self.out, word);
        }
        self.out.push_str("}> (");
        match function.kind {
            FunctionKind::Native => self.out.push_str("{\n"),
            _ => self.labelled_block(function, &Names::of(function, None, 0, 0), depth),
        }
        self.indent(depth);
        self.out.push_str("})");
        let shown = |name: &str| name != VISIBILITY || visibility.is_none();
        let attributes = function_attributes(function, shown);
        if !attributes.is_empty() {
            self.out.push(' ');
            self.dictionary(&attributes);
        }
        self.out.push_str(" : () -> ()");
    }

    /// `{`, an optional label with the arguments, and the block.
    pub(crate) fn labelled_block(&mut self, function: &Function, names: &Names, depth: usize) {
        self.out.push_str("{\n");
        if function.arguments > 0 {
            self.indent(depth);
            self.out.push_str("^bb0(");
            for (index, r#type) in function.argument_types().iter().enumerate() {
                separate(&mut self.out, index);
                self.out.push_str(names.name(RegisterId(index as u32)));
                self.out.push_str(": ");
                self.out.push_str(r#type);
            }
            self.out.push_str("):\n");
        }
        self.block(function, names, depth + 1);
    }

    /// One type, or a parenthesized list.
    pub(crate) fn types<T: AsRef<str>>(&mut self, types: &[T]) {
        match types {
            [one] if !one.as_ref().starts_with('(') => self.out.push_str(one.as_ref()),
            several => {
                self.out.push('(');
                self.type_list(several);
                self.out.push(')');
            }
        }
    }

    /// Types separated by commas.
    pub(crate) fn type_list<T: AsRef<str>>(&mut self, types: &[T]) {
        for (index, r#type) in types.iter().enumerate() {
            separate(&mut self.out, index);
            self.out.push_str(r#type.as_ref());
        }
    }

    pub(crate) fn indent(&mut self, depth: usize) {
        (0..depth).for_each(|_| self.out.push_str("  "));
    }

    /// The kernels of a function and its return.
    pub(crate) fn block(&mut self, function: &Function, names: &Names, depth: usize) {
        for kernel in &function.kernels {
            self.comment(kernel, depth);
            self.indent(depth);
            self.kernel(function, kernel, names, depth);
            self.location(&kernel.location);
            self.out.push('\n');
        }
        self.indent(depth);
        self.r#return(function, names);
        self.location(&function.return_location);
        self.out.push('\n');
    }

    fn r#return(&mut self, function: &Function, names: &Names) {
        if self.options.generic {
            self.out.push_str("\"tfrt.return\"(");
            self.values(&function.results, names);
            self.out.push_str(") : (");
            self.type_list(&function.result_types);
            self.out.push_str(") -> ()");
            return;
        }
        self.out.push_str("tfrt.return");
        if !function.results.is_empty() {
            self.out.push(' ');
            self.values(&function.results, names);
            self.out.push_str(" : ");
            self.type_list(&function.result_types);
        }
    }

    fn location(&mut self, location: &KernelLocation) {
        if self.options.locations {
            print_location(&mut self.out, location);
        }
    }

    pub(crate) fn values(&mut self, registers: &[RegisterId], names: &Names) {
        for (index, register) in registers.iter().enumerate() {
            separate(&mut self.out, index);
            self.out.push_str(names.name(*register));
        }
    }

    /// A region that precedes its function and was not printed yet.
    pub(crate) fn region(&mut self, id: FunctionId) -> Option<&'a Function> {
        let printed = self.printed.get_mut(id.0 as usize)?;
        if std::mem::replace(printed, true) {
            return None;
        }
        self.module.functions.get(id.0 as usize)
    }

    /// The comment above a kernel: operator and node of the model.
    fn comment(&mut self, kernel: &Kernel, depth: usize) {
        let text = |name| kernel.attribute(name).and_then(Attribute::as_str);
        let shown = [text("operator"), text("node")];
        if !self.options.readable || shown == [None, None] {
            return;
        }
        self.indent(depth);
        self.out.push_str("//");
        for text in shown.into_iter().flatten() {
            self.out.push(' ');
            self.out
                .extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }));
        }
        self.out.push('\n');
    }
}

/// The visibility keyword before a function's name. Declarations are private.
fn visibility(function: &Function) -> Option<&str> {
    if function.kind == FunctionKind::Native {
        return Some("private");
    }
    let (_, word) = function
        .attributes
        .iter()
        .find(|(name, _)| name == VISIBILITY)?;
    word.as_str()
        .filter(|word| ["private", "nested"].contains(word))
}

/// The dictionary of a function: the attributes that are `shown`, and its kind.
fn function_attributes(
    function: &Function,
    shown: impl Fn(&str) -> bool,
) -> Vec<AttributeEntry<'_>> {
    let mut attributes = named_attributes(&function.attributes);
    let external = attributes.iter().any(|(name, _)| *name == EXTERNAL);
    attributes.retain(|(name, _)| *name != EXTERNAL && shown(name));
    match function.kind {
        FunctionKind::Async => {}
        FunctionKind::Native if external => {}
        FunctionKind::Native => attributes.push(("tfrt.native", None)),
        FunctionKind::Sync => attributes.push(("tfrt.sync", None)),
    }
    attributes.sort_by_key(|(name, _)| *name);
    attributes
}

fn named_attributes(attributes: &[(Name, Attribute)]) -> Vec<AttributeEntry<'_>> {
    let named = attributes.iter().map(|(name, value)| {
        let value = Some(value).filter(|value| **value != Attribute::Unit);
        (name.as_str(), value)
    });
    named.collect()
}
