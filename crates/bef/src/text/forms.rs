//! The custom forms of the tfrt dialect (facts 4.1), and reading them.
//!
//! One table drives parser and printer; a kernel that does not fit its row is printed in the
//! generic form.

use super::attributes::{dictionary, literal};
use super::cursor::Cursor;
use super::operations::{Operation, ValueUse, value_use};
use super::parser::Parser;
use crate::{Attribute, DType, Function};
use tenon_base::Result;

/// How a kernel looks in its custom form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `OP 7`: the attribute `value`.
    Constant(DType),
    /// `OP %a, %b`: operand and result types belong to the name.
    Fixed(&'static [&'static str], &'static [&'static str]),
    /// `OP %a, %b : T, U`, a chain results.
    MergeChains,
    /// `OP @f(%a) : (T) -> U`; the reference is held by the named attribute.
    Call(&'static str),
    /// `OP %c @t @f (%a) : (T) -> U`.
    Cond,
    /// `OP %i [@f0, @f1] (%a) : (T) -> U`.
    Case,
    /// `OP %c @body(%a) parallel_iterations(1) : (T) -> U`.
    While,
    /// `OP %s to %e fixed %b @f(%x) : T`.
    ParallelCall,
    /// `OP %c, %a : (T) -> U { .. } else { .. }`.
    If,
    /// `OP %n, %a : T { .. }`.
    Repeat,
    /// `OP %s to %e fixed %b, %x : T { .. }`.
    ParallelFor,
}

pub(crate) const CHAIN: &str = "!tfrt.chain";

/// The custom form of a kernel, if it has one.
pub(crate) fn form(kernel: &str) -> Option<Form> {
    let name = kernel.strip_prefix("tfrt.")?;
    Some(match name {
        "new.chain" => Form::Fixed(&[], &[CHAIN]),
        "merge.chains" => Form::MergeChains,
        "and.i1" => Form::Fixed(&["i1", "i1"], &["i1"]),
        "add.i32" | "mul.i32" => Form::Fixed(&["i32", "i32"], &["i32"]),
        "add.i64" | "mul.i64" => Form::Fixed(&["i64", "i64"], &["i64"]),
        "add.f32" => Form::Fixed(&["f32", "f32"], &["f32"]),
        "add.f64" => Form::Fixed(&["f64", "f64"], &["f64"]),
        "equal.i32" => Form::Fixed(&["i32", "i32"], &["i1"]),
        "equal.i64" => Form::Fixed(&["i64", "i64"], &["i1"]),
        "div.i32" => Form::Fixed(&["i32", "i32"], &["i32", "i32"]),
        "div.i64" => Form::Fixed(&["i64", "i64"], &["i64", "i64"]),
        "print.i1" => Form::Fixed(&["i1", CHAIN], &[CHAIN]),
        "print.i32" => Form::Fixed(&["i32", CHAIN], &[CHAIN]),
        "print.i64" => Form::Fixed(&["i64", CHAIN], &[CHAIN]),
        "print.f32" => Form::Fixed(&["f32", CHAIN], &[CHAIN]),
        "print.f64" => Form::Fixed(&["f64", CHAIN], &[CHAIN]),
        "call" => Form::Call("callee"),
        "once" => Form::Call("function"),
        "cond" => Form::Cond,
        "case" => Form::Case,
        "while" => Form::While,
        "parallel_call.i32" => Form::ParallelCall,
        "if" => Form::If,
        "repeat.i32" => Form::Repeat,
        "parallel_for.i32" => Form::ParallelFor,
        other => Form::Constant(match other.strip_prefix("constant.")? {
            "i1" => DType::I1,
            "i32" => DType::I32,
            "i64" => DType::I64,
            "ui32" => DType::UI32,
            "ui64" => DType::UI64,
            "bf16" => DType::BF16,
            "f16" => DType::F16,
            "f32" => DType::F32,
            "f64" => DType::F64,
            _ => return None,
        }),
    })
}

impl<'a> Parser<'a> {
    /// A kernel in its custom form, behind its name.
    pub(crate) fn custom(
        &mut self,
        name: &str,
        results: usize,
        place: Cursor<'a>,
    ) -> Result<Operation> {
        let Some(form) = form(name) else {
            return Err(place.error(format!("custom op '{name}' is unknown")));
        };
        match form {
            Form::Constant(dtype) => self.constant(dtype),
            Form::Fixed(operands, types) => self.fixed(operands, types),
            Form::MergeChains => {
                let (uses, types) = (self.cursor.some(value_use)?, self.colon_types()?);
                let operands = self.resolve_uses(&uses, &types)?;
                Ok(Operation {
                    operands,
                    ..with_results([CHAIN])
                })
            }
            Form::Call(attribute) => {
                let mut operation = Operation::default();
                self.callee(&mut operation, attribute)?;
                let uses = self.parenthesized_uses()?;
                self.function_type(operation, None, &uses)
            }
            Form::Cond => self.cond(),
            Form::Case => self.case(),
            Form::While => self.r#while(),
            Form::ParallelCall => self.parallel_call(),
            Form::If => self.r#if(results, place),
            Form::Repeat => self.repeat(),
            Form::ParallelFor => self.parallel_for(),
        }
    }

    fn constant(&mut self, dtype: DType) -> Result<Operation> {
        let start = self.cursor;
        let value = if self.cursor.eat_word("true") {
            Some(Attribute::I1(true))
        } else if self.cursor.eat_word("false") {
            Some(Attribute::I1(false))
        } else {
            literal(&mut self.cursor)?.typed(dtype)
        };
        let Some(value) = value.filter(|value| value.number_type() == Some(dtype)) else {
            return Err(start.error(format!("expected a constant of type '{}'", dtype.mlir())));
        };
        let mut operation = with_results([dtype.mlir()]);
        operation.attributes.insert("value".into(), value);
        Ok(operation)
    }

    fn fixed(&mut self, operands: &[&str], results: &[&str]) -> Result<Operation> {
        let uses = if operands.is_empty() {
            Vec::new()
        } else {
            self.cursor.some(value_use)?
        };
        let operands = self.resolve_uses(&uses, operands)?;
        Ok(Operation {
            operands,
            ..with_results(results.iter().copied())
        })
    }

    /// `: T, U`.
    fn colon_types(&mut self) -> Result<Vec<String>> {
        self.cursor.expect(":")?;
        self.cursor.some(Cursor::r#type)
    }

    /// `@f`, held by `attribute`.
    fn callee(&mut self, operation: &mut Operation, attribute: &str) -> Result<()> {
        let place = self.cursor;
        let name = self.cursor.symbol()?;
        let function = self.reference(name, place);
        operation.functions.push((attribute.into(), function));
        Ok(())
    }

    /// `: (T) -> U` at the end; `first` is an operand whose type belongs to the kernel.
    fn function_type(
        &mut self,
        mut operation: Operation,
        first: Option<(ValueUse<'a>, &str)>,
        uses: &[ValueUse<'a>],
    ) -> Result<Operation> {
        if self.cursor.sees("{") {
            let entries = dictionary(&mut self.cursor, &self.compiled)?;
            self.add_entries(&mut operation, entries)?;
        }
        self.cursor.expect(":")?;
        let types = self.cursor.type_list()?;
        self.cursor.expect("->")?;
        operation.result_types = self.cursor.type_list()?;
        if let Some(((name, place), r#type)) = first {
            operation.operands.push(self.value(&name, r#type, &place)?);
        }
        operation.operands.extend(self.resolve_uses(uses, &types)?);
        Ok(operation)
    }

    fn cond(&mut self) -> Result<Operation> {
        let condition = value_use(&mut self.cursor)?;
        let mut operation = Operation::default();
        self.callee(&mut operation, "a_true_fn")?;
        self.callee(&mut operation, "b_false_fn")?;
        let uses = self.parenthesized_uses()?;
        self.function_type(operation, Some((condition, "i1")), &uses)
    }

    fn case(&mut self) -> Result<Operation> {
        let index = value_use(&mut self.cursor)?;
        let mut operation = Operation::default();
        self.cursor.expect("[")?;
        self.callee(&mut operation, "branches[]")?;
        while self.cursor.eat(",") {
            self.callee(&mut operation, "branches[]")?;
        }
        self.cursor.expect("]")?;
        let uses = self.parenthesized_uses()?;
        self.function_type(operation, Some((index, "i32")), &uses)
    }

    fn r#while(&mut self) -> Result<Operation> {
        let condition = value_use(&mut self.cursor)?;
        let mut operation = Operation::default();
        self.callee(&mut operation, "body_fn")?;
        let uses = self.parenthesized_uses()?;
        let start = self.cursor;
        if !self.cursor.eat_word("parallel_iterations") {
            return Err(start.error("expected 'parallel_iterations'"));
        }
        self.cursor.expect("(")?;
        let Some(iterations) = literal(&mut self.cursor)?.typed(DType::I64) else {
            return Err(start.error("expected a number of iterations"));
        };
        self.cursor.expect(")")?;
        operation
            .attributes
            .insert("parallel_iterations".into(), iterations);
        self.function_type(operation, Some((condition, "i1")), &uses)
    }

    /// `%s to %e fixed %b`.
    fn range(&mut self) -> Result<Vec<ValueUse<'a>>> {
        let mut uses = vec![value_use(&mut self.cursor)?];
        for keyword in ["to", "fixed"] {
            if !self.cursor.eat_word(keyword) {
                return Err(self.cursor.error(format!("expected '{keyword}'")));
            }
            uses.push(value_use(&mut self.cursor)?);
        }
        Ok(uses)
    }

    fn parallel_call(&mut self) -> Result<Operation> {
        let range = self.range()?;
        let mut operation = with_results([CHAIN]);
        self.callee(&mut operation, "callee")?;
        let uses = self.parenthesized_uses()?;
        let types = if self.cursor.sees(":") {
            self.colon_types()?
        } else {
            Vec::new()
        };
        operation.operands = self.resolve_uses(&range, &["i32"; 3])?;
        operation.operands.extend(self.resolve_uses(&uses, &types)?);
        Ok(operation)
    }

    fn r#if(&mut self, results: usize, place: Cursor<'a>) -> Result<Operation> {
        let condition = value_use(&mut self.cursor)?;
        let uses = if self.cursor.eat(",") {
            self.cursor.some(value_use)?
        } else {
            Vec::new()
        };
        let mut operation = Operation::default();
        if self.cursor.eat_word("attributes") {
            let entries = dictionary(&mut self.cursor, &self.compiled)?;
            self.add_entries(&mut operation, entries)?;
        }
        let mut operation = self.function_type(operation, Some((condition, "i1")), &uses)?;
        let types = self.types_of(&operation.operands[1..]);
        let then = self.named_region(&uses, types.clone())?;
        let other = if self.cursor.eat_word("else") {
            self.named_region(&uses, types)?
        } else if operation.result_types.is_empty() && results == 0 {
            // An absent else returns nothing.
            let mut empty = Function::native("", types, Vec::<String>::new());
            empty.kind = crate::FunctionKind::Async;
            empty
        } else {
            return Err(place.error("'tfrt.if' with results needs an else"));
        };
        if [&then, &other]
            .iter()
            .any(|region| region.result_types != operation.result_types)
        {
            let message = "'tfrt.return' op operand types don't match 'tfrt.if' result";
            return Err(place.error(message));
        }
        operation.regions = vec![then, other];
        Ok(operation)
    }

    fn repeat(&mut self) -> Result<Operation> {
        let place = self.cursor;
        let count = value_use(&mut self.cursor)?;
        let mut operation = Operation::default();
        let mut uses = Vec::new();
        if self.cursor.eat(",") {
            uses = self.cursor.some(value_use)?;
            operation.result_types = self.colon_types()?;
        }
        operation
            .operands
            .push(self.value(&count.0, "i32", &count.1)?);
        operation
            .operands
            .extend(self.resolve_uses(&uses, &operation.result_types)?);
        let region = self.named_region(&uses, operation.result_types.clone())?;
        if region.result_types != operation.result_types {
            let message = "'tfrt.return' op operand types don't match 'tfrt.repeat.i32' result";
            return Err(place.error(message));
        }
        operation.regions.push(region);
        Ok(operation)
    }

    fn parallel_for(&mut self) -> Result<Operation> {
        let mut range = self.range()?;
        let (mut uses, mut types) = (Vec::new(), Vec::new());
        if self.cursor.eat(",") {
            uses = self.cursor.some(value_use)?;
            types = self.colon_types()?;
        }
        let mut operation = with_results([CHAIN]);
        operation.operands = self.resolve_uses(&range, &["i32"; 3])?;
        operation.operands.extend(self.resolve_uses(&uses, &types)?);
        range.truncate(2);
        range.extend(uses);
        let region_types = ["i32".to_owned(), "i32".to_owned()]
            .into_iter()
            .chain(types);
        let region = self.named_region(&range, region_types.collect())?;
        operation.regions.push(region);
        Ok(operation)
    }

    /// `{ .. }` whose arguments have the names of operands.
    fn named_region(&mut self, uses: &[ValueUse<'a>], types: Vec<String>) -> Result<Function> {
        self.cursor.expect("{")?;
        let names: Vec<String> = uses.iter().map(|(name, _)| name.clone()).collect();
        self.region_body(&names, types)
    }

    fn types_of(&self, registers: &[crate::RegisterId]) -> Vec<String> {
        registers
            .iter()
            .map(|register| self.type_of(*register).to_owned())
            .collect()
    }
}

fn with_results<'t>(types: impl IntoIterator<Item = &'t str>) -> Operation {
    Operation {
        result_types: types.into_iter().map(str::to_owned).collect(),
        ..Operation::default()
    }
}
