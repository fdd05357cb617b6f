//! Verifiers of operations (bef 4.5): operands, results, attributes and regions of kernels in the
//! table of forms.

use super::forms::{CHAIN, Form, Types, form};
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

    fn form(&mut self, form: Form) {
        match form {
            Form::Constant(dtype) => {
                self.fixed(&[], &[dtype.mlir()]);
                self.number("value", dtype);
            }
            Form::Complex(part) => {
                let whole = match part {
                    DType::F32 => DType::Complex64,
                    _ => DType::Complex128,
                };
                self.fixed(&[], &[whole.mlir()]);
                self.number("imaginary", part);
                self.number("real", part);
            }
            Form::Fixed(operands, results) => self.fixed(operands, results),
            Form::Valued(operands, attribute, results) => {
                self.fixed(operands, results);
                self.attribute(attribute);
            }
            Form::Variadic(result) => self.values("result", &self.kernel.results, &[result]),
            Form::Call(attribute) => self.references(&[attribute]),
            Form::Cond => {
                self.first_operands(&["i1"]);
                self.references(&["a_true_fn", "b_false_fn"]);
            }
            Form::Case => {
                self.first_operands(&["i32"]);
                self.references(&["branches[]"]);
            }
            Form::While => {
                self.first_operands(&["i1"]);
                self.references(&["body_fn"]);
                self.number("parallel_iterations", DType::I64);
            }
            Form::ParallelCall => {
                self.first_operands(&["i32"; 3]);
                self.values("result", &self.kernel.results, &[CHAIN]);
                self.references(&["callee"]);
            }
            Form::If => {
                self.first_operands(&["i1"]);
                self.regions(2, 1, true);
            }
            Form::DoAsync => self.regions(1, 0, true),
            Form::Repeat => {
                self.first_operands(&["i32"]);
                self.regions(1, 1, true);
            }
            Form::ParallelFor => {
                self.first_operands(&["i32"; 3]);
                self.values("result", &self.kernel.results, &[CHAIN]);
                self.regions(1, 0, false);
            }
            Form::Benchmark => self.benchmark(),
        }
    }

    fn fixed(&mut self, operands: &[&str], results: &[&str]) {
        self.values("operand", &self.kernel.operands, operands);
        self.values("result", &self.kernel.results, results);
    }

    fn type_of(&self, register: RegisterId) -> &'a str {
        let known = self.function.registers.get(register.0 as usize);
        known.map_or("none", Name::as_str)
    }

    /// Values of exactly these types.
    fn values(&mut self, what: &str, registers: &[RegisterId], types: &[&str]) {
        if registers.len() != types.len() {
            let (expected, found) = (types.len(), registers.len());
            return self.report(format!("expected {expected} {what}s, but found {found}"));
        }
        self.types(what, registers, types);
    }

    fn types(&mut self, what: &str, registers: &[RegisterId], types: &[&str]) {
        for (index, (register, expected)) in registers.iter().zip(types).enumerate() {
            let found = self.type_of(*register);
            if found != *expected {
                let expected = described(expected);
                self.report(format!(
                    "{what} #{index} must be {expected}, but got '{found}'"
                ));
            }
        }
    }

    /// Operands whose first ones have these types.
    fn first_operands(&mut self, types: Types) {
        let operands = &self.kernel.operands;
        if operands.len() < types.len() {
            let (expected, found) = (types.len(), operands.len());
            return self.report(format!(
                "expected {expected} or more operands, but found {found}"
            ));
        }
        self.types("operand", operands, types);
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

    fn references(&mut self, names: &[&str]) {
        for name in names {
            let mut found = self.kernel.functions.iter().map(|(found, _)| found);
            if !found.any(|found| found == name) {
                let name = name.trim_end_matches("[]");
                self.report(format!("requires attribute '{name}'"));
            }
        }
    }

    /// Exactly `count` regions, whose arguments are the operands after the first `skipped` and, if
    /// `returning`, whose results are those of the kernel.
    fn regions(&mut self, count: usize, skipped: usize, returning: bool) {
        let regions = self
            .kernel
            .functions
            .iter()
            .filter(|(name, _)| name.is_empty());
        let regions: Vec<&Function> = regions
            .filter_map(|(_, id)| self.functions.get(id.0 as usize))
            .collect();
        if regions.len() != count {
            let found = regions.len();
            return self.report(format!("requires {count} regions, but has {found}"));
        }
        let kernel = self.kernel;
        let passed: Vec<&str> = match form(&kernel.name) {
            // The block size is not passed to the region.
            Some(Form::ParallelFor) => {
                let operands = kernel.operands.iter().enumerate();
                let passed = operands.filter(|(index, _)| *index != 2);
                passed
                    .map(|(_, register)| self.type_of(*register))
                    .collect()
            }
            _ => {
                let passed = kernel.operands.iter().skip(skipped);
                passed.map(|register| self.type_of(*register)).collect()
            }
        };
        let made: Vec<&str> = kernel.results.iter().map(|r| self.type_of(*r)).collect();
        if regions
            .iter()
            .any(|region| region.argument_types() != passed)
        {
            self.report("operand types don't match the arguments of its region");
        }
        for (index, region) in regions.iter().enumerate() {
            if returning && region.result_types != made {
                let name = &kernel.name;
                let message = format!("'tfrt.return' op operand types don't match '{name}' result");
                let region = Some(index);
                self.problems.push(Problem { message, region });
            }
        }
    }

    fn benchmark(&mut self) {
        for name in ["duration_secs", "max_count", "num_warmup_runs"] {
            self.number(name, DType::I32);
        }
        if self
            .attribute("name")
            .is_some_and(|name| name.as_str().is_none())
        {
            self.report("attribute 'name' failed to satisfy constraint: string attribute");
        }
        self.values("result", &self.kernel.results, &[CHAIN]);
        self.regions(1, 0, false);
        let region = self
            .kernel
            .functions
            .iter()
            .find(|(name, _)| name.is_empty());
        let region = region.and_then(|(_, id)| self.functions.get(id.0 as usize));
        if region.is_some_and(|region| region.results.len() != 1) {
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
