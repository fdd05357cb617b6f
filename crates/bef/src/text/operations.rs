//! Text to kernels: blocks, the generic form, and what every form ends in (facts 4.4).

use super::attributes::{Entry, Value, dictionary};
use super::cursor::Cursor;
use super::parser::{Parser, Returned, Scope};
use crate::{
    Attribute, Function, FunctionBuilder, FunctionId, Kernel, KernelLocation, Name, RegisterId,
    Registers,
};
use std::collections::BTreeMap;
use tenon_base::Result;

/// A use of a value: its name without `%`, and where it stands.
pub(crate) type ValueUse<'a> = (String, Cursor<'a>);

/// A kernel that has been read, before its results are named.
#[derive(Debug, Default)]
pub(crate) struct Operation {
    pub(crate) operands: Vec<RegisterId>,
    pub(crate) attributes: BTreeMap<String, Attribute>,
    /// By name, elements of lists under the name of the list.
    pub(crate) functions: Vec<(Name, FunctionId)>,
    pub(crate) regions: Vec<Function>,
    pub(crate) result_types: Vec<String>,
}

/// Results as they are named: a name, how many values it stands for, and where.
type ResultGroup<'a> = (String, usize, Cursor<'a>);

impl<'a> Parser<'a> {
    /// Operations up to `tfrt.return`, which ends the block.
    pub(crate) fn block(&mut self) -> Result<Returned<'a>> {
        let mut returned = None;
        loop {
            self.cursor.skip();
            let start = self.cursor;
            if self.cursor.sees("}") {
                return returned
                    .ok_or_else(|| start.error("all functions need to have a tfrt.return"));
            }
            if self.cursor.sees("^") {
                return Err(start.error("multi-block regions cannot be emitted to BEF files"));
            }
            if let Some(Returned { place, .. }) = &returned {
                return Err(place.error("return op must be at the end of its block"));
            }
            returned = self.operation(start)?;
        }
    }

    /// One kernel, or the return.
    fn operation(&mut self, start: Cursor<'a>) -> Result<Option<Returned<'a>>> {
        let results = self.result_groups()?;
        self.cursor.skip();
        let place = self.cursor;
        let quoted = self.cursor.sees("\"");
        let name = match quoted {
            true => self.cursor.string()?,
            false => {
                let word = self.cursor.word();
                word.ok_or_else(|| place.error("expected an operation"))?
                    .to_owned()
            }
        };
        if name == "tfrt.return" {
            if let Some((_, _, place)) = results.first() {
                return Err(place.error("cannot name an operation with no results"));
            }
            let registers = self.return_operands(quoted)?;
            self.locations.optional(&mut self.cursor)?;
            return Ok(Some(Returned { registers, place }));
        }
        let operation = if quoted {
            self.generic()?
        } else {
            self.custom(&name, results_count(&results), place)?
        };
        let implicit = self.implicit_location(start);
        let location = self
            .locations
            .optional(&mut self.cursor)?
            .unwrap_or(implicit);
        self.finish(name, operation, results, location, place)?;
        Ok(None)
    }

    fn result_groups(&mut self) -> Result<Vec<ResultGroup<'a>>> {
        if !self.cursor.sees("%") {
            return Ok(Vec::new());
        }
        let groups = self.cursor.some(|cursor| {
            let place = *cursor;
            let name = cursor.sigil('%')?.to_owned();
            let mut count = 1;
            if cursor.rest().starts_with(':') {
                cursor.expect(":")?;
                let digits = cursor.take_while(|c| c.is_ascii_digit());
                count = digits.parse().unwrap_or(0);
                if count == 0 {
                    return Err(place.error("expected named operation to have at least 1 result"));
                }
            }
            Ok((name, count, place))
        })?;
        self.cursor.expect("=")?;
        Ok(groups)
    }

    fn return_operands(&mut self, quoted: bool) -> Result<Vec<RegisterId>> {
        if quoted {
            let uses = self.parenthesized_uses()?;
            self.cursor.expect(":")?;
            let types = self.cursor.type_list()?;
            self.cursor.expect("->")?;
            self.cursor.type_list()?;
            return self.resolve_uses(&uses, &types);
        }
        if !self.cursor.sees("%") {
            return Ok(Vec::new());
        }
        let uses = self.cursor.some(value_use)?;
        self.cursor.expect(":")?;
        let types = self.cursor.some(Cursor::r#type)?;
        self.resolve_uses(&uses, &types)
    }

    pub(crate) fn parenthesized_uses(&mut self) -> Result<Vec<ValueUse<'a>>> {
        self.cursor.expect("(")?;
        let uses = self.cursor.list(")", value_use)?;
        self.cursor.expect(")")?;
        Ok(uses)
    }

    /// The registers of `uses`, which must have `types`.
    pub(crate) fn resolve_uses<T: AsRef<str>>(
        &self,
        uses: &[ValueUse<'a>],
        types: &[T],
    ) -> Result<Vec<RegisterId>> {
        if uses.len() != types.len() {
            return Err(self.cursor.error(format!(
                "expected {} operand types but had {}",
                uses.len(),
                types.len()
            )));
        }
        uses.iter()
            .zip(types)
            .map(|((name, place), r#type)| self.value(name, r#type.as_ref(), place))
            .collect()
    }

    /// `"name"(%a) <{p = 1}> ({ .. }) {a = 1} : (T) -> T`, behind the name.
    fn generic(&mut self) -> Result<Operation> {
        let uses = self.parenthesized_uses()?;
        if self.cursor.sees("[") {
            return Err(self
                .cursor
                .error("multi-block regions cannot be emitted to BEF files"));
        }
        let mut entries = Vec::new();
        if self.cursor.eat("<") {
            entries.extend(dictionary(&mut self.cursor, &self.compiled)?);
            self.cursor.expect(">")?;
        }
        let mut regions = Vec::new();
        if self.cursor.eat("(") {
            regions.push(self.labelled_region()?);
            while self.cursor.eat(",") {
                regions.push(self.labelled_region()?);
            }
            self.cursor.expect(")")?;
        }
        if self.cursor.sees("{") {
            entries.extend(dictionary(&mut self.cursor, &self.compiled)?);
        }
        self.cursor.expect(":")?;
        if !self.cursor.sees("(") {
            return Err(self.cursor.error("expected '('"));
        }
        let types = self.cursor.type_list()?;
        self.cursor.expect("->")?;
        let result_types = self.cursor.type_list()?;
        let operands = self.resolve_uses(&uses, &types)?;
        let mut operation = Operation {
            operands,
            regions,
            result_types,
            ..Operation::default()
        };
        self.add_entries(&mut operation, entries)?;
        Ok(operation)
    }

    /// Sorts the entries of a dictionary into attributes and function references.
    pub(crate) fn add_entries(
        &mut self,
        operation: &mut Operation,
        entries: Vec<Entry<'a>>,
    ) -> Result<()> {
        for (name, value, place) in entries {
            let duplicate = operation.attributes.contains_key(&name)
                || operation
                    .functions
                    .iter()
                    .any(|(other, _)| other.trim_end_matches("[]") == name);
            if duplicate {
                return Err(place.error(format!("duplicate key '{name}' in dictionary attribute")));
            }
            match value {
                Value::Attribute(attribute) => {
                    operation.attributes.insert(name, attribute);
                }
                Value::Symbol(path, place) => {
                    operation
                        .functions
                        .push((name.into(), self.function_reference(path, place)?));
                }
                Value::Symbols(symbols) => {
                    for (path, place) in symbols {
                        let function = self.function_reference(path, place)?;
                        operation
                            .functions
                            .push((format!("{name}[]").into(), function));
                    }
                }
                Value::Unit | Value::Foreign => {
                    let message = format!("BEF files cannot encode the '{name}' attribute");
                    return Err(place.error(message));
                }
            }
        }
        operation.functions.sort_by(|(one, _), (two, _)| {
            one.trim_end_matches("[]").cmp(two.trim_end_matches("[]"))
        });
        Ok(())
    }

    fn function_reference(&mut self, path: Vec<String>, place: Cursor<'a>) -> Result<FunctionId> {
        match <[String; 1]>::try_from(path) {
            Ok([name]) => Ok(self.reference(name, place)),
            Err(path) => {
                Err(place.error(format!("compiled module @{} not defined", path.join("::@"))))
            }
        }
    }

    /// `{ .. }`, perhaps with the label `^bb0(%a: T):` in front of its operations.
    fn labelled_region(&mut self) -> Result<Function> {
        self.cursor.expect("{")?;
        let (mut names, mut types) = (Vec::new(), Vec::new());
        if self.cursor.sees("^") {
            self.cursor.sigil('^')?;
            if self.cursor.eat("(") {
                let arguments = self.cursor.list(")", |cursor| {
                    let (name, _) = value_use(cursor)?;
                    cursor.expect(":")?;
                    Ok((name, cursor.r#type()?))
                })?;
                self.cursor.expect(")")?;
                (names, types) = arguments.into_iter().unzip();
            }
            self.cursor.expect(":")?;
        }
        self.region_body(&names, types)
    }

    /// A region whose arguments are known, behind its `{`. It sees no values from outside.
    pub(crate) fn region_body(&mut self, names: &[String], types: Vec<String>) -> Result<Function> {
        let mut builder = FunctionBuilder::region();
        for r#type in types {
            builder.argument(r#type);
        }
        self.open_scope(builder.returns([]), names)?;
        let returned = self.block()?;
        self.cursor.expect("}")?;
        let Some(Scope { mut function, .. }) = self.scopes.pop() else {
            return Err(self.cursor.error("expected a region"));
        };
        function.result_types = (returned.registers.iter())
            .map(|register| function.registers[register.0 as usize].clone())
            .collect();
        function.results = returned.registers;
        Ok(function)
    }

    /// Adds a kernel to the innermost function and names its results.
    fn finish(
        &mut self,
        name: String,
        operation: Operation,
        groups: Vec<ResultGroup<'a>>,
        location: KernelLocation,
        place: Cursor<'a>,
    ) -> Result<()> {
        let count = operation.result_types.len();
        let named = results_count(&groups);
        if !groups.is_empty() && named != count {
            return Err(place.error(format!(
                "operation defines {count} results but was provided {named} to bind"
            )));
        }
        let mut functions = operation.functions;
        for mut region in operation.regions {
            region.location = location.clone();
            functions.push((Name::default(), self.module.add(region)));
        }
        let Some(scope) = self.scopes.last_mut() else {
            return Ok(());
        };
        let registers = &mut scope.function.registers;
        let first = registers.len() as u32;
        registers.extend(operation.result_types.into_iter().map(Name::from));
        let results: Registers = (first..registers.len() as u32).map(RegisterId).collect();
        scope.function.kernels.push(Kernel {
            name: name.into(),
            operands: operation.operands.into(),
            attributes: (operation.attributes.into_iter())
                .map(|(name, value)| (name.into(), value))
                .collect(),
            functions,
            results: results.clone(),
            location,
        });
        let mut rest = results.into_iter();
        for (name, count, place) in groups {
            for (index, register) in rest.by_ref().take(count).enumerate() {
                self.define(format!("{name}#{index}"), register, &place)?;
                if count == 1 {
                    self.define(name.clone(), register, &place)?;
                }
            }
        }
        Ok(())
    }
}

fn results_count(groups: &[ResultGroup<'_>]) -> usize {
    groups
        .iter()
        .fold(0usize, |sum, (_, count, _)| sum.saturating_add(*count))
}

/// `%name` or `%name#index`.
pub(crate) fn value_use<'a>(cursor: &mut Cursor<'a>) -> Result<ValueUse<'a>> {
    cursor.skip();
    let place = *cursor;
    let mut name = cursor.sigil('%')?.to_owned();
    if cursor.rest().starts_with('#') {
        cursor.expect("#")?;
        let index = cursor.take_while(|c| c.is_ascii_digit());
        name = format!("{name}#{index}");
    }
    Ok((name, place))
}
