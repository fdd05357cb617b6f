//! What a Module must be before it is written or executed.

use crate::attribute::MAX_NESTING;
use crate::bytes::{MAX_LOCATION_NESTING, location_depth};
use crate::streams::COST_ATTRIBUTE;
use crate::text::is_type;
use crate::{Attribute, Function, FunctionId, FunctionKind, Kernel, Module, Name, RegisterId};
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
    verifier.dictionary("module", &module.attributes);
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

    /// The attributes of a function or the Module: sorted by name, none twice, each valid.
    fn dictionary(&mut self, place: &str, attributes: &[(Name, Attribute)]) {
        for pair in attributes.windows(2) {
            let [(one, _), (two, _)] = pair else { continue };
            if one == two {
                self.report(place.into(), format!("attribute '{one}' occurs twice"));
            } else if one > two {
                let message = format!("attribute '{two}' is not in order of names");
                self.report(place.into(), message);
            }
        }
        for (name, attribute) in attributes {
            if let Some(problem) = name_problem(name) {
                self.report(place.into(), format!("an attribute name {problem}"));
            }
            if let Some(problem) = attribute.problem() {
                self.report(place.into(), format!("attribute '{name}': {problem}"));
            }
        }
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
        if function.is_region() && !function.attributes.is_empty() {
            self.report("a region with attributes");
        }
        self.verifier
            .dictionary(&place(self.id, function), &function.attributes);
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
        } else if function.kind == FunctionKind::Native {
            self.native();
        } else {
            self.registers();
            self.results();
        }
        let depth =
            location_depth(&function.location).max(location_depth(&function.return_location));
        if depth > MAX_LOCATION_NESTING {
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
        self.verifier.report(self.kernel_place(index), message);
    }

    fn kernel_place(&self, index: usize) -> String {
        let kernel = self.function.kernels.get(index);
        let name = kernel.map_or("", |kernel| &kernel.name);
        let place = place(self.id, self.function);
        format!("{place}: kernel {index} '{}'", name.escape_debug())
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
                self.report(format!("returned {}", self.unknown(*register)));
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
        let place = self.kernel_place(index);
        self.verifier.dictionary(&place, &kernel.attributes);
        for (name, attribute) in &kernel.attributes {
            if *name == COST_ATTRIBUTE && Attribute::as_i64(attribute).is_none_or(|cost| cost <= 0)
            {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FunctionBuilder;

    /// A valid module: a region, a sync function, and one that holds the region and refers to the
    /// other.
    fn valid() -> Module {
        let mut module = Module::new();
        let region = module.add(FunctionBuilder::region().returns([]));
        let mut first = FunctionBuilder::new("first", FunctionKind::Sync);
        let one = first.kernel("one").attribute("value", 1i32).result("i32");
        let first = module.add(first.returns([one]));
        let mut second = FunctionBuilder::new("second", FunctionKind::Async);
        let argument = second.argument("i32");
        let kernel = second
            .kernel("k")
            .operands([argument])
            .function("f", first)
            .region(region);
        let made = kernel.result("f32");
        module.add(second.returns([made]));
        module
    }

    fn problems(change: impl FnOnce(&mut Module)) -> Vec<String> {
        let mut module = valid();
        change(&mut module);
        let Err(error) = verify(&module) else {
            return Vec::new();
        };
        error.to_string().lines().map(str::to_owned).collect()
    }

    fn kernel(module: &mut Module) -> &mut Kernel {
        &mut module.functions[2].kernels[0]
    }

    #[test]
    fn a_valid_module_passes() {
        assert_eq!(problems(|_| {}), [""; 0]);
    }

    #[test]
    fn each_problem_has_its_sentence_and_place() {
        let one = |expected: &str, change: &dyn Fn(&mut Module)| {
            assert_eq!(problems(change), [expected]);
        };
        one("@second: kernel 0 'k': uses %1 before it is made", &|m| {
            kernel(m).operands = [RegisterId(1)].into_iter().collect();
        });
        one(
            "@second: kernel 0 'k': %9 is not one of the 2 registers",
            &|m| {
                kernel(m).operands = [RegisterId(9)].into_iter().collect();
            },
        );
        one("@second: kernel 0 'k': makes %1 a second time", &|m| {
            kernel(m).results = [RegisterId(1); 2].into_iter().collect();
        });
        one("@second: %1 is never made", &|m| kernel(m).results.clear());
        one("@second: returned %9 is not one of the 2 registers", &|m| {
            m.functions[2].results = vec![RegisterId(9)];
        });
        one("@second: kernel 0 'k': function 9 does not exist", &|m| {
            kernel(m).functions[0].1 = FunctionId(9);
        });
        one("@second: kernel 0 'k': region 0 is held twice", &|m| {
            kernel(m).functions.push((Name::default(), FunctionId(0)));
        });
        one("region 0: a region that no kernel holds", &|m| {
            kernel(m).functions.pop();
        });
        one(
            "@second: kernel 0 'k': a region has no name, and a function reference has one",
            &|m| {
                kernel(m).functions[0].0 = Name::default();
            },
        );
        one("@second: kernel 0 '': a kernel without a name", &|m| {
            kernel(m).name = Name::default()
        });
        one(
            "@second: kernel 0 'k': attribute 'a' is not in order of names",
            &|m| {
                kernel(m).attributes = vec![("b".into(), 1i32.into()), ("a".into(), 1i32.into())];
            },
        );
        one("@second: kernel 0 'k': attribute 'a' occurs twice", &|m| {
            kernel(m).attributes = vec![("a".into(), 1i32.into()), ("a".into(), 2i32.into())];
        });
        one("@second: kernel 0 'k': attribute 'f' occurs twice", &|m| {
            kernel(m).attributes = vec![("f".into(), 1i32.into())];
        });
        one(
            "@second: kernel 0 'k': op cost value must be larger than 0",
            &|m| {
                kernel(m).attributes = vec![(COST_ATTRIBUTE.into(), 0i64.into())];
            },
        );
        one("@second: 'i 32' is not a type", &|m| {
            m.functions[2].registers[0] = "i 32".into()
        });
        one("@first: redefinition of this symbol", &|m| {
            m.functions[2].name = "first".into()
        });
        one(
            "@first: return value 1 is duplicated in a sync function",
            &|m| {
                m.functions[1].results = vec![RegisterId(0); 2];
                m.functions[1].result_types = vec!["i32".into(); 2];
            },
        );
        one(
            "@second: type of return operand 0 ('i32') doesn't match function result type ('f32')",
            &|m| m.functions[2].results = vec![RegisterId(0)],
        );
        one("@second: 3 arguments but 2 registers", &|m| {
            m.functions[2].arguments = 3
        });
    }

    #[test]
    fn all_problems_are_reported_together() {
        let found = problems(|m| {
            kernel(m).operands = [RegisterId(9)].into_iter().collect();
            m.functions[1].kernels[0].name = "nul\0".into();
        });
        assert_eq!(
            found,
            [
                "@first: kernel 0 'nul\\0': a kernel name with a NUL character",
                "@second: kernel 0 'k': %9 is not one of the 2 registers",
            ]
        );
    }

    #[test]
    fn a_region_may_not_hold_itself() {
        let found = problems(|m| {
            let holder = kernel(m).clone();
            m.functions[0].registers = vec!["i32".into(), "f32".into()];
            m.functions[0].arguments = 1;
            m.functions[0].kernels = vec![holder];
        });
        let expected = "region 0: kernel 0 'k': region 0 does not stand before its function";
        assert_eq!(found, [expected]);
    }
}
