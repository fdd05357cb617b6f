//! What a Module must be before it is written or executed.

use crate::attribute::MAX_NESTING;
use crate::bytes::{MAX_LOCATION_NESTING, location_depth};
use crate::streams::COST_ATTRIBUTE;
use crate::text::is_type;
use crate::{Attribute, Function, FunctionId, FunctionKind, Kernel, Module, RegisterId};
use std::collections::HashSet;
use tenon_base::{Error, ErrorKind, Location, Result};

/// Regions nest this deep at most.
const MAX_REGION_NESTING: usize = MAX_NESTING;

/// Checks that `module` can be written and executed: registers are made once, before they are used;
/// functions exist; what is returned fits the result types; regions stand before the function that
/// contains them, each held by one kernel; names can be written; attributes are sorted and valid.
///
/// # Errors
/// All problems at once, each with function and kernel.
pub fn verify(module: &Module) -> Result<()> {
    let mut verifier = Verifier {
        module,
        errors: Vec::new(),
        held: vec![None; module.functions.len()],
        types: HashSet::new(),
    };
    verifier.function_names();
    for (id, function) in (0u32..).zip(&module.functions) {
        FunctionVerifier {
            verifier: &mut verifier,
            function,
            id: FunctionId(id),
        }
        .verify();
    }
    verifier.region_holders();
    Error::from_all(verifier.errors).map_or(Ok(()), Err)
}

struct Verifier<'a> {
    module: &'a Module,
    errors: Vec<Error>,
    /// The function that holds each region.
    held: Vec<Option<FunctionId>>,
    /// The types looked at so far; most occur many times.
    types: HashSet<&'a str>,
}

impl Verifier<'_> {
    fn report(&mut self, place: String, message: impl Into<String>) {
        let error = Error::new(ErrorKind::InvalidProgram, message);
        self.errors.push(error.at(Location::field(place)));
    }

    fn function_names(&mut self) {
        let module = self.module;
        let mut names = HashSet::new();
        for (id, function) in (0u32..).zip(&module.functions) {
            if !function.is_region() && !names.insert(function.name.as_str()) {
                self.report(
                    place(FunctionId(id), function),
                    "redefinition of this symbol",
                );
            }
        }
    }

    /// Every region is held by one kernel, and not too deep.
    fn region_holders(&mut self) {
        let module = self.module;
        // Regions stand before their holder, so that depths are known from the back.
        let mut depths = vec![0usize; module.functions.len()];
        for (index, function) in module.functions.iter().enumerate().rev() {
            let holder = self.held[index];
            let place = || place(FunctionId(index as u32), function);
            match holder {
                None if function.is_region() => {
                    self.report(place(), "a region that no kernel holds")
                }
                Some(holder) => {
                    depths[index] = depths[holder.0 as usize] + 1;
                    if depths[index] == MAX_REGION_NESTING + 1 {
                        let message =
                            format!("regions are nested deeper than {MAX_REGION_NESTING}");
                        self.report(place(), message);
                    }
                }
                None => {}
            }
        }
    }
}

/// How a function is called in messages: by name, a region by its number.
fn place(id: FunctionId, function: &Function) -> String {
    if function.is_region() {
        format!("region {}", id.0)
    } else {
        format!("@{}", function.name)
    }
}

struct FunctionVerifier<'a, 'v> {
    verifier: &'v mut Verifier<'a>,
    function: &'a Function,
    id: FunctionId,
}

impl<'a> FunctionVerifier<'a, '_> {
    fn verify(&mut self) {
        let function = self.function;
        if let Some(problem) = text_problem(&function.name) {
            self.report(format!("a function name {problem}"));
        }
        for r#type in function.registers.iter().chain(&function.result_types) {
            let new = self.verifier.types.insert(r#type);
            if new && (!is_type(r#type) || text_problem(r#type).is_some()) {
                self.report(format!("'{}' is not a type", r#type.escape_debug()));
            }
        }
        if function.arguments as usize > function.registers.len() {
            let registers = function.registers.len();
            self.report(format!(
                "{} arguments but {registers} registers",
                function.arguments
            ));
            return;
        }
        if function.kind == FunctionKind::Native {
            self.native();
        } else {
            self.registers();
            self.results();
        }
        if location_depth(&function.location) > MAX_LOCATION_NESTING {
            self.report(format!(
                "a location is nested deeper than {MAX_LOCATION_NESTING}"
            ));
        }
        for (index, kernel) in function.kernels.iter().enumerate() {
            self.kernel(index, kernel);
        }
    }

    fn report(&mut self, message: impl Into<String>) {
        self.verifier.report(place(self.id, self.function), message);
    }

    fn report_kernel(&mut self, index: usize, message: impl Into<String>) {
        let name = self
            .function
            .kernels
            .get(index)
            .map_or("", |kernel| &kernel.name);
        let place = place(self.id, self.function);
        self.verifier.report(
            format!("{place}: kernel {index} '{}'", name.escape_debug()),
            message,
        );
    }

    fn native(&mut self) {
        let function = self.function;
        if function.is_region() {
            self.report("a native function without a name");
        }
        let registers = function.registers.len() != function.arguments as usize;
        if !function.kernels.is_empty() || !function.results.is_empty() || registers {
            self.report("a native function has no body");
        }
    }

    /// Every register is made once: arguments at the start, the others by one kernel, before any
    /// kernel that uses it.
    fn registers(&mut self) {
        let function = self.function;
        let mut made = vec![false; function.registers.len()];
        made[..function.arguments as usize].fill(true);
        for (index, kernel) in function.kernels.iter().enumerate() {
            for register in &kernel.operands {
                match made.get(register.0 as usize) {
                    Some(true) => {}
                    Some(false) => {
                        self.report_kernel(index, format!("uses {register} before it is made"));
                    }
                    None => self.report_kernel(index, self.unknown(*register)),
                }
            }
            for register in &kernel.results {
                match made.get_mut(register.0 as usize) {
                    Some(made) if !*made => *made = true,
                    Some(_) => self.report_kernel(index, format!("makes {register} a second time")),
                    None => self.report_kernel(index, self.unknown(*register)),
                }
            }
        }
        for (index, _) in made.iter().enumerate().filter(|(_, made)| !**made) {
            self.report(format!("%{index} is never made"));
        }
    }

    fn unknown(&self, register: RegisterId) -> String {
        format!(
            "{register} is not one of the {} registers",
            self.function.registers.len()
        )
    }

    fn results(&mut self) {
        let function = self.function;
        let (found, expected) = (function.results.len(), function.result_types.len());
        if found != expected {
            self.report(format!(
                "'tfrt.return' op has {found} operands, but enclosing function returns {expected}"
            ));
        }
        for (index, register) in function.results.iter().enumerate() {
            let Some(r#type) = function.registers.get(register.0 as usize) else {
                self.report(format!("returns {}", self.unknown(*register)));
                continue;
            };
            if let Some(expected) = function.result_types.get(index)
                && r#type != expected
            {
                self.report(format!(
                    "type of return operand {index} ('{type}') doesn't match function result type \
                     ('{expected}')"
                ));
            }
        }
        if function.kind == FunctionKind::Sync {
            self.sync_results();
        }
    }

    /// A sync function gives its results away, so each must be its own (facts 2.7).
    fn sync_results(&mut self) {
        let mut seen = HashSet::new();
        for (index, register) in self.function.results.iter().enumerate() {
            if register.0 < self.function.arguments {
                self.report(format!(
                    "return value {index} is an argument in a sync function"
                ));
            } else if !seen.insert(register) {
                self.report(format!(
                    "return value {index} is duplicated in a sync function"
                ));
            }
        }
    }

    fn kernel(&mut self, index: usize, kernel: &'a Kernel) {
        if kernel.name.is_empty() {
            self.report_kernel(index, "a kernel without a name");
        } else if let Some(problem) = text_problem(&kernel.name) {
            self.report_kernel(index, format!("a kernel name {problem}"));
        }
        if location_depth(&kernel.location) > MAX_LOCATION_NESTING {
            let message = format!("a location is nested deeper than {MAX_LOCATION_NESTING}");
            self.report_kernel(index, message);
        }
        self.attributes(index, kernel);
        self.references(index, kernel);
    }

    fn attributes(&mut self, index: usize, kernel: &Kernel) {
        for pair in kernel.attributes.windows(2) {
            let [(one, _), (two, _)] = pair else { continue };
            if one == two {
                self.report_kernel(index, format!("attribute '{one}' occurs twice"));
            } else if one > two {
                self.report_kernel(index, format!("attribute '{two}' is not in order of names"));
            }
        }
        for (name, attribute) in &kernel.attributes {
            if let Some(problem) = name_problem(name) {
                self.report_kernel(index, format!("an attribute name {problem}"));
            }
            if let Some(problem) = attribute.problem() {
                self.report_kernel(index, format!("attribute '{name}': {problem}"));
            }
            if name == COST_ATTRIBUTE && Attribute::as_i64(attribute).is_none_or(|cost| cost <= 0) {
                self.report_kernel(index, "op cost value must be larger than 0");
            }
        }
    }

    /// References are sorted by name, the elements of a list together; regions come last.
    fn references(&mut self, index: usize, kernel: &Kernel) {
        let mut last: Option<&str> = None;
        let mut regions = false;
        for (name, id) in &kernel.functions {
            let Some(target) = self.verifier.module.functions.get(id.0 as usize) else {
                self.report_kernel(index, format!("function {} does not exist", id.0));
                continue;
            };
            if target.is_region() != name.is_empty() {
                self.report_kernel(
                    index,
                    "a region has no name, and a function reference has one",
                );
            } else if target.is_region() {
                regions = true;
                self.region(index, *id);
            } else {
                self.reference_name(index, name, last, regions);
                last = Some(name);
            }
            if kernel
                .attributes
                .iter()
                .any(|(other, _)| other == name.trim_end_matches("[]"))
            {
                self.report_kernel(index, format!("attribute '{name}' occurs twice"));
            }
        }
    }

    fn reference_name(&mut self, index: usize, name: &str, last: Option<&str>, regions: bool) {
        let base = name.strip_suffix("[]");
        if let Some(problem) = name_problem(base.unwrap_or(name)) {
            self.report_kernel(index, format!("a reference name {problem}"));
        }
        let key = |name: &str| name.trim_end_matches("[]").to_owned();
        let ordered =
            last.is_none_or(|last| key(last) < key(name) || (last == name && base.is_some()));
        if !ordered || regions {
            self.report_kernel(
                index,
                format!("reference '{name}' is not in order of names"),
            );
        }
    }

    fn region(&mut self, index: usize, id: FunctionId) {
        if id >= self.id {
            let message = format!("region {} does not stand before its function", id.0);
            self.report_kernel(index, message);
        } else if self.verifier.held[id.0 as usize].replace(self.id).is_some() {
            self.report_kernel(index, format!("region {} is held twice", id.0));
        }
    }
}

/// Why a text cannot stand in the Strings section.
fn text_problem(text: &str) -> Option<&'static str> {
    text.contains('\0').then_some("with a NUL character")
}

/// Why a text cannot be the name of an attribute.
fn name_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("that is empty");
    }
    if name.ends_with("[]") {
        return Some("that ends in [], which marks lists of functions");
    }
    text_problem(name)
}
