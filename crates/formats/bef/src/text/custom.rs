//! Parsing of the custom forms of kernels.

use super::attributes::{dictionary, value};
use super::forms::{CHAIN, Form, Types, form};
use super::number::literal;
use super::operations::{Operation, Region};
use super::parser::Parser;
use super::scope::ValueUse;
use crate::syntax::{Cursor, Type};
use crate::{Attribute, DType, Function, FunctionKind};
use tenon_base::Result;

impl<'a> Parser<'a> {
    /// A kernel in its custom form, after its name.
    pub(crate) fn custom(
        &mut self,
        name: &str,
        has_results: bool,
        place: Cursor<'a>,
    ) -> Result<Operation<'a>> {
        let Some(form) = form(name) else {
            return Err(place.error(format!("custom op '{name}' is unknown")));
        };
        match form {
            Form::Constant(dtype) => self.constant(dtype),
            Form::Complex(dtype) => self.complex(dtype),
            Form::Fixed(operands, results) => self.fixed(operands, None, results),
            Form::Valued(operands, attribute, results) => {
                self.fixed(operands, Some(attribute), results)
            }
            Form::Variadic(result) => self.variadic(result),
            Form::Call(attribute) => {
                let mut operation = Operation::default();
                self.callee(&mut operation, attribute)?;
                let uses = self.cursor.parenthesized_uses()?;
                self.signature_of(operation, None, &uses)
            }
            Form::Cond => self.cond(),
            Form::Case => self.case(),
            Form::While => self.r#while(),
            Form::ParallelCall => self.parallel_call(),
            Form::If => self.r#if(has_results),
            Form::DoAsync => self.do_async(),
            Form::Repeat => self.repeat(),
            Form::ParallelFor => self.parallel_for(),
            Form::Benchmark => self.benchmark(),
        }
    }

    fn constant(&mut self, dtype: DType) -> Result<Operation<'a>> {
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
        let mut operation = Operation::default();
        operation.result_types.push(dtype.mlir().into());
        operation.attribute("value", value);
        self.dictionary_of(operation)
    }

    /// `1.0 : f32, 2.0 : f32`, real part first.
    fn complex(&mut self, part: DType) -> Result<Operation<'a>> {
        let mut operation = Operation::default();
        for name in ["real", "imaginary"] {
            let start = self.cursor;
            let literal = literal(&mut self.cursor)?;
            let typed = if self.cursor.eat(":") {
                DType::from_mlir(&self.cursor.r#type()?)
            } else {
                Some(part)
            };
            let number = literal.typed(part).filter(|_| typed == Some(part));
            let wrong = || start.error(format!("expected a number of type '{}'", part.mlir()));
            operation.attribute(name, number.ok_or_else(wrong)?);
            if name == "real" {
                self.cursor.expect(",")?;
            }
        }
        let whole = match part {
            DType::F32 => DType::Complex64,
            _ => DType::Complex128,
        };
        operation.result_types.push(whole.mlir().into());
        self.dictionary_of(operation)
    }

    /// `%a, %b`, then the value of `attribute`, then an optional dictionary.
    fn fixed(
        &mut self,
        types: Types,
        attribute: Option<&str>,
        results: Types,
    ) -> Result<Operation<'a>> {
        let mut operation = Operation::with_results(results);
        let uses = match types {
            [] => Vec::new(),
            _ => self.cursor.some(Cursor::value_use)?,
        };
        operation.operands = self.resolve_uses(&uses, types)?;
        if let Some(name) = attribute {
            let start = self.cursor;
            let value = value(&mut self.cursor, &self.compiled, 0)?;
            self.add_entries(&mut operation, vec![(name.to_owned(), value, start)])?;
        }
        self.dictionary_of(operation)
    }

    /// `%a, %b {..} : T, U`.
    fn variadic(&mut self, result: &'static str) -> Result<Operation<'a>> {
        let uses = if self.cursor.sees("%") {
            self.cursor.some(Cursor::value_use)?
        } else {
            Vec::new()
        };
        let mut operation = self.dictionary_of(Operation::with_results(&[result]))?;
        self.cursor.expect(":")?;
        let types = if uses.is_empty() {
            Vec::new()
        } else {
            self.cursor.some(Cursor::r#type)?
        };
        operation.operands = self.resolve_uses(&uses, &types)?;
        Ok(operation)
    }

    /// Adds the optional dictionary.
    fn dictionary_of(&mut self, mut operation: Operation<'a>) -> Result<Operation<'a>> {
        if self.cursor.sees("{") {
            let entries = dictionary(&mut self.cursor, &self.compiled)?;
            self.add_entries(&mut operation, entries)?;
        }
        Ok(operation)
    }

    /// Adds the optional `attributes {..}`.
    fn named_dictionary_of(&mut self, operation: Operation<'a>) -> Result<Operation<'a>> {
        if self.cursor.eat_word("attributes") {
            return self.dictionary_of(operation);
        }
        Ok(operation)
    }

    /// `: T, U`.
    fn colon_types(&mut self) -> Result<Vec<Type<'a>>> {
        self.cursor.expect(":")?;
        self.cursor.some(Cursor::r#type)
    }

    /// `@f`, the reference of `attribute`.
    fn callee(&mut self, operation: &mut Operation<'a>, attribute: &str) -> Result<()> {
        let place = self.cursor;
        let name = self.cursor.symbol()?;
        let function = self.reference(name, place);
        operation.functions.push((attribute.into(), function));
        Ok(())
    }

    /// `{..} : (T) -> U` at the end; `first` is an operand whose type is fixed by the kernel.
    fn signature_of(
        &mut self,
        operation: Operation<'a>,
        first: Option<(ValueUse<'a>, &str)>,
        uses: &[ValueUse<'a>],
    ) -> Result<Operation<'a>> {
        let mut operation = self.dictionary_of(operation)?;
        self.cursor.expect(":")?;
        let types = self.cursor.type_list()?;
        self.cursor.expect("->")?;
        operation.result_types = self.cursor.type_list()?;
        if let Some((first, r#type)) = first {
            operation.operands.push(self.value(first, r#type)?);
        }
        operation.operands.extend(self.resolve_uses(uses, &types)?);
        Ok(operation)
    }

    fn cond(&mut self) -> Result<Operation<'a>> {
        let condition = self.cursor.value_use()?;
        let mut operation = Operation::default();
        self.callee(&mut operation, "a_true_fn")?;
        self.callee(&mut operation, "b_false_fn")?;
        let uses = self.cursor.parenthesized_uses()?;
        self.signature_of(operation, Some((condition, "i1")), &uses)
    }

    fn case(&mut self) -> Result<Operation<'a>> {
        let index = self.cursor.value_use()?;
        let mut operation = Operation::default();
        self.cursor.expect("[")?;
        self.callee(&mut operation, "branches[]")?;
        while self.cursor.eat(",") {
            self.callee(&mut operation, "branches[]")?;
        }
        self.cursor.expect("]")?;
        let uses = self.cursor.parenthesized_uses()?;
        self.signature_of(operation, Some((index, "i32")), &uses)
    }

    fn r#while(&mut self) -> Result<Operation<'a>> {
        let condition = self.cursor.value_use()?;
        let mut operation = Operation::default();
        self.callee(&mut operation, "body_fn")?;
        let uses = self.cursor.parenthesized_uses()?;
        self.keyword("parallel_iterations")?;
        self.cursor.expect("(")?;
        let iterations = self.integer(DType::I64)?;
        self.cursor.expect(")")?;
        operation.attribute("parallel_iterations", iterations);
        self.signature_of(operation, Some((condition, "i1")), &uses)
    }

    fn keyword(&mut self, word: &str) -> Result<()> {
        if self.cursor.eat_word(word) {
            return Ok(());
        }
        Err(self.cursor.error(format!("expected '{word}'")))
    }

    fn integer(&mut self, dtype: DType) -> Result<Attribute> {
        let start = self.cursor;
        let number = literal(&mut self.cursor)?.typed(dtype);
        number.ok_or_else(|| start.error(format!("expected a number of type '{}'", dtype.mlir())))
    }

    /// `%s to %e fixed %b`.
    fn range(&mut self) -> Result<Vec<ValueUse<'a>>> {
        let mut uses = vec![self.cursor.value_use()?];
        for word in ["to", "fixed"] {
            self.keyword(word)?;
            uses.push(self.cursor.value_use()?);
        }
        Ok(uses)
    }

    fn parallel_call(&mut self) -> Result<Operation<'a>> {
        let range = self.range()?;
        let mut operation = Operation::with_results(&[CHAIN]);
        self.callee(&mut operation, "callee")?;
        let uses = self.cursor.parenthesized_uses()?;
        let mut operation = self.dictionary_of(operation)?;
        let types = if self.cursor.sees(":") {
            self.colon_types()?
        } else {
            Vec::new()
        };
        operation.operands = self.resolve_uses(&range, &["i32"; 3])?;
        operation.operands.extend(self.resolve_uses(&uses, &types)?);
        Ok(operation)
    }

    fn r#if(&mut self, has_results: bool) -> Result<Operation<'a>> {
        let condition = self.cursor.value_use()?;
        let uses = if self.cursor.eat(",") {
            self.cursor.some(Cursor::value_use)?
        } else {
            Vec::new()
        };
        let operation = self.named_dictionary_of(Operation::default())?;
        let mut operation = self.signature_of(operation, Some((condition, "i1")), &uses)?;
        let types = self.types_of(&operation.operands[1..]);
        let then = self.named_region(&uses, types.clone())?;
        let other = if self.cursor.eat_word("else") {
            self.named_region(&uses, types)?
        } else if operation.result_types.is_empty() && !has_results {
            // A missing else returns nothing.
            let function = Function {
                kind: FunctionKind::Async,
                ..Function::native("", self.names_of(types), Vec::new())
            };
            Region {
                function,
                return_place: None,
            }
        } else {
            let message = "'tfrt.if' op with results needs an else";
            return Err(self.current.start.error(message));
        };
        operation.regions = vec![then, other];
        Ok(operation)
    }

    fn do_async(&mut self) -> Result<Operation<'a>> {
        let uses = if self.cursor.sees("%") {
            self.cursor.some(Cursor::value_use)?
        } else {
            Vec::new()
        };
        let operation = self.named_dictionary_of(Operation::default())?;
        let mut operation = self.signature_of(operation, None, &uses)?;
        let types = self.types_of(&operation.operands);
        operation.regions.push(self.named_region(&uses, types)?);
        Ok(operation)
    }

    fn repeat(&mut self) -> Result<Operation<'a>> {
        let count = self.cursor.value_use()?;
        let mut operation = Operation::default();
        let mut uses = Vec::new();
        if self.cursor.eat(",") {
            uses = self.cursor.some(Cursor::value_use)?;
            operation.result_types = self.colon_types()?;
        }
        operation.operands.push(self.value(count, "i32")?);
        let carried = self.resolve_uses(&uses, &operation.result_types)?;
        operation.operands.extend(carried);
        let region = self.named_region(&uses, operation.result_types.clone())?;
        operation.regions.push(region);
        Ok(operation)
    }

    fn parallel_for(&mut self) -> Result<Operation<'a>> {
        let mut range = self.range()?;
        let (mut uses, mut types) = (Vec::new(), Vec::new());
        if self.cursor.eat(",") {
            uses = self.cursor.some(Cursor::value_use)?;
            types = self.colon_types()?;
        }
        let mut operation = Operation::with_results(&[CHAIN]);
        operation.operands = self.resolve_uses(&range, &["i32"; 3])?;
        operation.operands.extend(self.resolve_uses(&uses, &types)?);
        range.truncate(2);
        range.extend(uses);
        types.splice(..0, [Type::Borrowed("i32"), Type::Borrowed("i32")]);
        let region = self.named_region(&range, types)?;
        operation.regions.push(region);
        Ok(operation)
    }

    /// `"name"(%a : T) duration_secs = 1, max_count = 100, num_warmup_runs = 10 { .. }`.
    fn benchmark(&mut self) -> Result<Operation<'a>> {
        let mut operation = Operation::with_results(&[CHAIN]);
        let name = self.cursor.string()?;
        operation.attribute("name", Attribute::String(name.into()));
        self.cursor.expect("(")?;
        let arguments = self.cursor.list(")", |cursor| {
            let value = cursor.value_use()?;
            cursor.expect(":")?;
            let r#type = cursor.r#type()?;
            Ok((value, r#type))
        })?;
        self.cursor.expect(")")?;
        let (uses, types): (Vec<_>, Vec<_>) = arguments.into_iter().unzip();
        operation.operands = self.resolve_uses(&uses, &types)?;
        while !self.cursor.sees("{") {
            if operation.attributes.len() > 1 {
                self.cursor.expect(",")?;
            }
            let place = self.cursor;
            let word = self.cursor.word();
            let key = word.ok_or_else(|| place.error("expected attribute name"))?;
            let known = ["duration_secs", "max_count", "num_warmup_runs"].contains(&key);
            if !known || operation.attributes.iter().any(|(other, _)| other == key) {
                return Err(place.error(format!("unexpected attribute '{key}'")));
            }
            self.cursor.expect("=")?;
            let number = self.integer(DType::I32)?;
            operation.attribute(key, number);
        }
        if !operation
            .attributes
            .iter()
            .any(|(key, _)| key == "num_warmup_runs")
        {
            operation.attribute("num_warmup_runs", Attribute::I32(1));
        }
        operation.regions.push(self.named_region(&uses, types)?);
        Ok(operation)
    }

    /// `{ .. }` whose arguments have the names of the operands.
    fn named_region(&mut self, uses: &[ValueUse<'a>], types: Vec<Type<'a>>) -> Result<Region<'a>> {
        self.cursor.expect("{")?;
        let current = self.current;
        let region = self.region_body(uses.to_vec(), types)?;
        self.current = current;
        Ok(region.into())
    }
}
