//! Verifiers of operations (bef 4.5): operands, results, attributes and regions of kernels in the
//! table of forms.

use super::forms::{Form, Kind, Part, form};
use crate::streams::COST_ATTRIBUTE;
use crate::{Attribute, DType, Function, Kernel, Name, RegisterId};

/// A problem of an operation.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) message: String,
    /// The region whose `tfrt.return` is wrong; `None` for the operation itself.
    pub(crate) region: Option<usize>,
}

/// The problems of a kernel of `function` as an operation. Its regions are among `functions`.
pub(crate) fn kernel_problems(
    functions: &[Function],
    function: &Function,
    kernel: &Kernel,
) -> Vec<Problem> {
    let mut check = Check {
        functions,
        function,
        kernel,
        problems: Vec::new(),
    };
    if let Some(cost) = kernel.attribute(COST_ATTRIBUTE)
        && cost.as_i64().is_none_or(|cost| cost <= 0)
    {
        check.report("cost value must be larger than 0");
    }
    if let Some(form) = form(&kernel.name) {
        check.form(form);
    }
    check.problems
}

struct Check<'a> {
    functions: &'a [Function],
    function: &'a Function,
    kernel: &'a Kernel,
    problems: Vec<Problem>,
}

impl<'a> Check<'a> {
    fn report(&mut self, message: impl AsRef<str>) {
        let message = format!("'{}' op {}", self.kernel.name, message.as_ref());
        let region = None;
        self.problems.push(Problem { message, region });
    }

    fn form(&mut self, form: &Form) {
        if form.parts.contains(&Part::Benchmark) {
            return self.benchmark(form);
        }
        self.operands(form);
        self.results(form);
        for (name, kind) in &form.attributes {
            match kind {
                Kind::Function => self.reference(name),
                Kind::Value => {
                    self.attribute(name);
                }
                Kind::Constant(dtype) | Kind::Number(dtype) | Kind::TypedNumber(dtype) => {
                    self.number(name, *dtype);
                }
            }
        }
        if form.regions() > 0 {
            self.regions(form);
        }
    }

    fn type_of(&self, register: RegisterId) -> &'a str {
        let known = self.function.registers.get(register.0 as usize);
        known.map_or("none", Name::as_str)
    }

    fn operands(&mut self, form: &Form) {
        let operands = &self.kernel.operands;
        if !form.variadic {
            return self.values("operand", operands, &form.operands);
        }
        let (expected, found) = (form.operands.len(), operands.len());
        if found < expected {
            return self.report(format!(
                "expected {expected} or more operands, but found {found}"
            ));
        }
        self.types("operand", operands, &form.operands);
    }

    fn results(&mut self, form: &Form) {
        if let Some(results) = &form.results {
            self.values("result", &self.kernel.results, results);
        }
    }

    /// Values of exactly these types.
    fn values(&mut self, what: &str, registers: &[RegisterId], types: &[String]) {
        if registers.len() != types.len() {
            let (expected, found) = (types.len(), registers.len());
            return self.report(format!("expected {expected} {what}s, but found {found}"));
        }
        self.types(what, registers, types);
    }

    fn types(&mut self, what: &str, registers: &[RegisterId], types: &[String]) {
        for (index, (register, expected)) in registers.iter().zip(types).enumerate() {
            let found = self.type_of(*register);
            if found != expected {
                let expected = described(expected);
                self.report(format!(
                    "{what} #{index} must be {expected}, but got '{found}'"
                ));
            }
        }
    }

    fn attribute(&mut self, name: &str) -> Option<&'a Attribute> {
        let kernel = self.kernel;
        let found = kernel.attribute(name);
        if found.is_none() {
            self.report(format!("requires attribute '{name}'"));
        }
        found
    }

    fn number(&mut self, name: &str, dtype: DType) {
        let found = self.attribute(name);
        if found.is_some_and(|found| found.number_type() != Some(dtype)) {
            let expected = described(dtype.mlir());
            self.report(format!(
                "attribute '{name}' failed to satisfy constraint: {expected} attribute"
            ));
        }
    }

    fn reference(&mut self, name: &str) {
        let mut found = self.kernel.functions.iter();
        if !found.any(|(found, _)| found == name) {
            let name = name.trim_end_matches("[]");
            self.report(format!("requires attribute '{name}'"));
        }
    }

    fn region_functions(&self) -> Vec<&'a Function> {
        let regions = self.kernel.functions.iter();
        let regions = regions.filter(|(name, _)| name.is_empty());
        regions
            .filter_map(|(_, id)| self.functions.get(id.0 as usize))
            .collect()
    }

    /// The regions of the form, whose arguments are the operands that are passed to them. Their
    /// results are those of the kernel, unless these are fixed.
    fn regions(&mut self, form: &Form) {
        let (regions, count) = (self.region_functions(), form.regions());
        if regions.len() != count {
            let found = regions.len();
            return self.report(format!("requires {count} regions, but has {found}"));
        }
        let kernel = self.kernel;
        let passed = form.passed(&kernel.operands);
        let passed: Vec<&str> = passed.iter().map(|r| self.type_of(*r)).collect();
        let made: Vec<&str> = kernel.results.iter().map(|r| self.type_of(*r)).collect();
        if regions
            .iter()
            .any(|region| region.argument_types() != passed)
        {
            self.report("operand types don't match the arguments of its region");
        }
        for (index, region) in regions.iter().enumerate() {
            if form.results.is_none() && region.result_types != made {
                let name = &kernel.name;
                let message = format!("'tfrt.return' op operand types don't match '{name}' result");
                let region = Some(index);
                self.problems.push(Problem { message, region });
            }
        }
    }

    fn benchmark(&mut self, form: &Form) {
        for (name, kind) in &form.attributes {
            if let Kind::Number(dtype) = kind {
                self.number(name, *dtype);
            }
        }
        if self
            .attribute("name")
            .is_some_and(|name| name.as_str().is_none())
        {
            self.report("attribute 'name' failed to satisfy constraint: string attribute");
        }
        self.results(form);
        self.regions(form);
        if (self.region_functions().first()).is_some_and(|region| region.results.len() != 1) {
            self.report("incorrect number of return values. One return value is expected");
        }
    }
}

/// The description of a type in MLIR's messages.
fn described(r#type: &str) -> String {
    match r#type {
        "f32" => "32-bit float".into(),
        "f64" => "64-bit float".into(),
        "f16" => "16-bit float".into(),
        "bf16" => "bfloat16 type".into(),
        "complex<f32>" => "complex type with 32-bit float elements".into(),
        "complex<f64>" => "complex type with 64-bit float elements".into(),
        dialect if dialect.starts_with('!') => format!("{dialect} type"),
        unsigned if unsigned.starts_with("ui") => {
            format!("{}-bit unsigned integer", &unsigned[2..])
        }
        signless => format!("{}-bit signless integer", signless.trim_start_matches('i')),
    }
}
