//! Parsing of the custom forms of kernels.

use super::attributes::{dictionary, value};
use super::forms::{Form, Kind, Part, form};
use super::number::literal;
use super::operations::{Operation, Region};
use super::parser::Parser;
use super::scope::ValueUse;
use crate::syntax::{Cursor, Type};
use crate::{Attribute, DType, Function, FunctionKind};
use tenon_base::Result;

/// A kernel in its custom form, as far as it is parsed.
struct Custom<'a> {
    form: &'static Form,
    operation: Operation<'a>,
    /// Whether its results have names.
    has_results: bool,
    uses: Vec<ValueUse<'a>>,
    /// The types of the operands whose types are not fixed.
    types: Vec<Type<'a>>,
}

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
        let mut custom = Custom {
            form,
            operation: Operation::default(),
            has_results,
            uses: Vec::new(),
            types: Vec::new(),
        };
        let results = form.results.iter().flatten();
        custom.operation.result_types = results.map(|r#type| Type::Borrowed(r#type)).collect();
        self.parts(&form.parts, &mut custom)?;
        self.operands(&mut custom)?;
        Ok(custom.operation)
    }

    fn parts(&mut self, parts: &[Part], custom: &mut Custom<'a>) -> Result<()> {
        parts.iter().try_for_each(|part| self.part(part, custom))
    }

    fn part(&mut self, part: &Part, custom: &mut Custom<'a>) -> Result<()> {
        match part {
            Part::Text(" ") => {}
            Part::Text(text) if text.starts_with(char::is_alphabetic) => {
                if !self.cursor.eat_word(text) {
                    return Err(self.cursor.error(format!("expected '{text}'")));
                }
            }
            Part::Text(text) => self.cursor.expect(text)?,
            Part::Operand => custom.uses.push(self.cursor.value_use()?),
            Part::Operands => {
                custom.uses.extend(self.cursor.some(Cursor::value_use)?);
                if !custom.form.variadic {
                    self.operands(custom)?;
                }
            }
            Part::Arguments => custom.uses.extend(self.cursor.parenthesized_uses()?),
            Part::Attribute(name, kind) => self.attribute(name, *kind, &mut custom.operation)?,
            Part::Dictionary(before) => {
                if self.cursor.eat_word(before.trim()) {
                    self.other_attributes(&mut custom.operation)?;
                }
                self.other_attributes(&mut custom.operation)?;
            }
            Part::Types => {
                custom.types = self.cursor.some(Cursor::r#type)?;
                if custom.form.results.is_none() {
                    custom.operation.result_types.clone_from(&custom.types);
                }
            }
            Part::FunctionType | Part::ParenthesizedType => {
                custom.types = self.cursor.type_list()?;
                self.cursor.expect("->")?;
                custom.operation.result_types = self.cursor.type_list()?;
            }
            Part::Optional(parts) => {
                let present = match parts.iter().find(|part| **part != Part::Text(" ")) {
                    Some(Part::Text(text)) => self.cursor.sees(text),
                    Some(Part::Operands) => self.cursor.sees("%"),
                    _ => !custom.uses.is_empty(),
                };
                if present {
                    self.parts(parts, custom)?;
                }
            }
            Part::Region => self.region(custom)?,
            Part::Else if self.cursor.eat_word("else") => self.region(custom)?,
            Part::Else => self.missing_else(custom)?,
            Part::Benchmark => self.benchmark(custom)?,
        }
        Ok(())
    }

    /// Resolves the operands, unless that is done.
    fn operands(&mut self, custom: &mut Custom<'a>) -> Result<()> {
        let Custom { form, uses, .. } = custom;
        if !custom.operation.operands.is_empty() {
            return Ok(());
        }
        let fixed = if form.variadic {
            form.operands.len()
        } else {
            uses.len()
        };
        let (first, others) = uses.split_at(fixed);
        let mut operands = self.resolve_uses(first, &form.operands)?;
        operands.extend(self.resolve_uses(others, &custom.types)?);
        custom.operation.operands = operands;
        Ok(())
    }

    fn attribute(&mut self, name: &str, kind: Kind, operation: &mut Operation<'a>) -> Result<()> {
        let start = self.cursor;
        let value = match kind {
            Kind::Function => return self.functions(name, operation),
            Kind::Value => {
                let value = value(&mut self.cursor, &self.compiled, 0)?;
                return self.add_entries(operation, vec![(name.to_owned(), value, start)]);
            }
            Kind::Constant(dtype) => self.constant(dtype)?,
            Kind::Number(dtype) => self.number(dtype, false)?,
            Kind::TypedNumber(dtype) => self.number(dtype, true)?,
        };
        operation.attribute(name, value);
        Ok(())
    }

    /// `@f`, or `[@f, @g]` if the name ends with `[]`.
    fn functions(&mut self, name: &str, operation: &mut Operation<'a>) -> Result<()> {
        let is_list = name.ends_with("[]");
        if is_list {
            self.cursor.expect("[")?;
        }
        loop {
            let place = self.cursor;
            let function = self.cursor.symbol()?;
            let function = self.reference(function, place);
            operation.functions.push((name.into(), function));
            if !is_list || !self.cursor.eat(",") {
                break;
            }
        }
        if is_list {
            self.cursor.expect("]")?;
        }
        Ok(())
    }

    fn constant(&mut self, dtype: DType) -> Result<Attribute> {
        let start = self.cursor;
        let value = if self.cursor.eat_word("true") {
            Some(Attribute::I1(true))
        } else if self.cursor.eat_word("false") {
            Some(Attribute::I1(false))
        } else {
            literal(&mut self.cursor)?.typed(dtype)
        };
        let value = value.filter(|value| value.number_type() == Some(dtype));
        let wrong = || start.error(format!("expected a constant of type '{}'", dtype.mlir()));
        value.ok_or_else(wrong)
    }

    /// A number of type `dtype`; if `typed`, its type may follow.
    fn number(&mut self, dtype: DType, typed: bool) -> Result<Attribute> {
        let start = self.cursor;
        let literal = literal(&mut self.cursor)?;
        let found = if typed && self.cursor.eat(":") {
            DType::from_mlir(&self.cursor.r#type()?)
        } else {
            Some(dtype)
        };
        let number = literal.typed(dtype).filter(|_| found == Some(dtype));
        let wrong = || start.error(format!("expected a number of type '{}'", dtype.mlir()));
        number.ok_or_else(wrong)
    }

    /// Adds the optional dictionary.
    fn other_attributes(&mut self, operation: &mut Operation<'a>) -> Result<()> {
        if self.cursor.sees("{") {
            let entries = dictionary(&mut self.cursor, &self.compiled)?;
            self.add_entries(operation, entries)?;
        }
        Ok(())
    }

    /// `{ .. }` whose arguments have the names of the operands that are passed to it.
    fn region(&mut self, custom: &mut Custom<'a>) -> Result<()> {
        self.operands(custom)?;
        let types = self.types_of(&custom.form.passed(&custom.operation.operands));
        self.cursor.expect("{")?;
        let current = self.current;
        let region = self.region_body(custom.form.passed(&custom.uses), types)?;
        self.current = current;
        custom.operation.regions.push(region.into());
        Ok(())
    }

    /// A missing else returns nothing.
    fn missing_else(&mut self, custom: &mut Custom<'a>) -> Result<()> {
        if custom.has_results || !custom.operation.result_types.is_empty() {
            let message = "'tfrt.if' op with results needs an else";
            return Err(self.current.start.error(message));
        }
        let types = self.types_of(&custom.form.passed(&custom.operation.operands));
        let function = Function {
            kind: FunctionKind::Async,
            ..Function::native("", self.names_of(types), Vec::new())
        };
        custom.operation.regions.push(Region {
            function,
            return_place: None,
        });
        Ok(())
    }

    /// `"name"(%a : T) duration_secs = 1, max_count = 100, num_warmup_runs = 10`.
    fn benchmark(&mut self, custom: &mut Custom<'a>) -> Result<()> {
        let name = self.cursor.string()?;
        (custom.uses, custom.types) = self.cursor.typed_uses()?;
        self.operands(custom)?;
        let operation = &mut custom.operation;
        operation.attribute("name", Attribute::String(name.into()));
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
            let number = self.number(DType::I32, false)?;
            operation.attribute(key, number);
        }
        let mut keys = operation.attributes.iter().map(|(key, _)| key);
        if !keys.any(|key| key == "num_warmup_runs") {
            operation.attribute("num_warmup_runs", Attribute::I32(1));
        }
        Ok(())
    }
}
