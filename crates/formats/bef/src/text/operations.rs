//! Parsing of operations: the generic form, and the parts common to all forms (bef 4.4).

use super::attributes::{Entry, Value, dictionary};
use super::blocks::BlockReturn;
use super::check::{Problem, kernel_problems};
use super::forms::is_known_dialect;
use super::parser::{Current, Parser, Purpose, sort_entries};
use super::scope::ValueUse;
use crate::syntax::{Cursor, Type};
use crate::{
    Attribute, Dictionary, Function, FunctionBuilder, FunctionId, Kernel, Name, RegisterId,
};
use tenon_base::Result;

/// A parsed kernel, before its results are named.
#[derive(Debug, Default)]
pub(crate) struct Operation<'a> {
    pub(crate) operands: Vec<RegisterId>,
    pub(crate) attributes: Dictionary,
    /// References by name; elements of a list have the name of the list.
    pub(crate) functions: Vec<(Name, FunctionId)>,
    pub(crate) regions: Vec<Region<'a>>,
    pub(crate) result_types: Vec<Type<'a>>,
}

/// A parsed region.
#[derive(Debug)]
pub(crate) struct Region<'a> {
    pub(crate) function: Function,
    /// Position of its `tfrt.return`; `None` if that is malformed.
    pub(crate) return_place: Option<Cursor<'a>>,
}

impl<'a> From<(Function, BlockReturn<'a>)> for Region<'a> {
    fn from((function, returned): (Function, BlockReturn<'a>)) -> Self {
        Region {
            function,
            return_place: returned.registers.is_some().then_some(returned.place),
        }
    }
}

impl<'a> Operation<'a> {
    pub(crate) fn attribute(&mut self, name: &str, value: Attribute) {
        self.attributes.push((name.into(), value));
    }
}

/// A name on the left of `=`, and the number of values it names.
#[derive(Debug, Clone, Copy)]
struct ResultGroup<'a> {
    name: ValueUse<'a>,
    count: u32,
}

impl<'a> Parser<'a> {
    /// A kernel, or the return.
    pub(crate) fn operation(&mut self, start: Cursor<'a>) -> Result<Option<BlockReturn<'a>>> {
        let outer = self.current;
        let depth = self.scopes.len();
        self.current.start = start;
        let groups = self.result_groups()?;
        let outcome = self.named_operation(&groups, start);
        self.current = outer;
        if outcome.is_err() {
            // Errors on uses of its results would be consequences of this error.
            self.scopes.truncate(depth);
            for group in groups {
                let _known = self.define(group.name, RegisterId(0), 0);
            }
        }
        outcome
    }

    fn named_operation(
        &mut self,
        groups: &[ResultGroup<'a>],
        start: Cursor<'a>,
    ) -> Result<Option<BlockReturn<'a>>> {
        self.cursor.skip();
        let place = self.cursor;
        let quoted = self.cursor.sees("\"");
        let name = if quoted {
            self.cursor.string()?
        } else {
            let word = self.cursor.word();
            let missing = || place.error("expected an operation");
            word.ok_or_else(missing)?.to_owned()
        };
        self.current = Current {
            start,
            is_call: name == "tfrt.call",
        };
        if name == "tfrt.return" {
            if let Some(group) = groups.first() {
                let message = "cannot name an operation with no results";
                return Err(group.name.place.error(message));
            }
            return self.r#return(quoted, start).map(Some);
        }
        let operation = if quoted {
            self.check_dialect(&name, place);
            self.generic()?
        } else {
            self.custom(&name, !groups.is_empty(), place)?
        };
        self.finish(name, operation, groups, start)?;
        Ok(None)
    }

    fn check_dialect(&mut self, name: &str, place: Cursor<'a>) {
        let allowed = !matches!(
            self.purpose,
            Purpose::Rewriting {
                allow_unregistered: false
            }
        );
        if !allowed && !is_known_dialect(name) {
            self.report(place.error(format!(
                "'{name}' op is of an unregistered dialect; -allow-unregistered-dialect accepts it"
            )));
        }
    }

    fn result_groups(&mut self) -> Result<Vec<ResultGroup<'a>>> {
        if !self.cursor.sees("%") {
            return Ok(Vec::new());
        }
        let groups = self.cursor.some(|cursor| {
            cursor.skip();
            let place = *cursor;
            let name = cursor.sigil('%')?;
            let mut count = 1;
            if cursor.rest().starts_with(':') {
                cursor.expect(":")?;
                let digits = cursor.take_while(|c| c.is_ascii_digit());
                count = digits.parse().unwrap_or(0);
                if count == 0 {
                    return Err(place.error("expected named operation to have at least 1 result"));
                }
            }
            let name = ValueUse { name, place };
            Ok(ResultGroup { name, count })
        })?;
        self.cursor.expect("=")?;
        Ok(groups)
    }

    /// `"name"(%a) <{p = 1}> ({ .. }) {a = 1} : (T) -> T`, after the name.
    fn generic(&mut self) -> Result<Operation<'a>> {
        let uses = self.cursor.parenthesized_uses()?;
        if self.cursor.sees("[") {
            let message = "multi-block regions cannot be emitted to BEF files";
            return Err(self.cursor.error(message));
        }
        let mut entries = self.properties()?;
        let mut operation = Operation::default();
        if self.cursor.eat("(") {
            let current = self.current;
            operation.regions.push(self.labelled_region()?.into());
            while self.cursor.eat(",") {
                operation.regions.push(self.labelled_region()?.into());
            }
            self.cursor.expect(")")?;
            self.current = current;
        }
        if self.cursor.sees("{") {
            entries.extend(dictionary(&mut self.cursor, &self.compiled)?);
        }
        self.cursor.expect(":")?;
        let (types, result_types) = self.cursor.function_type()?;
        operation.operands = self.resolve_uses(&uses, &types)?;
        operation.result_types = result_types;
        self.add_entries(&mut operation, entries)?;
        Ok(operation)
    }

    /// Adds the entries of a dictionary as attributes and function references.
    pub(crate) fn add_entries(
        &mut self,
        operation: &mut Operation<'a>,
        mut entries: Vec<Entry<'a>>,
    ) -> Result<()> {
        sort_entries(&mut entries)?;
        for (name, value, place) in entries {
            let mut known = operation.attributes.iter().map(|(known, _)| known.as_str());
            let mut references = operation.functions.iter();
            // The few attributes of the form itself precede those of the dictionary.
            let fixed = known.by_ref().take(4).any(|known| known == name)
                || references
                    .by_ref()
                    .take(2)
                    .any(|(known, _)| base(known) == name);
            if fixed {
                return Err(place.error(format!("duplicate key '{name}' in dictionary attribute")));
            }
            match value {
                Value::Attribute(attribute) => {
                    if self.purpose.is_bef() && !attribute.is_storable() {
                        let message = format!("BEF files cannot encode the '{name}' attribute");
                        self.report(self.current.start.error(message));
                    }
                    operation.attributes.push((self.name(&name), attribute));
                }
                Value::Symbol(symbol) => {
                    if let Some(function) = self.symbol_reference(symbol, operation, &name) {
                        operation.functions.push((name.into(), function));
                    }
                }
                Value::Symbols(symbols) => {
                    for symbol in symbols {
                        let list = format!("{name}[]");
                        if let Some(function) = self.symbol_reference(symbol, operation, &name) {
                            operation.functions.push((list.into(), function));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// A reference to a function; a nested path is undefined, since compiled modules were resolved
    /// before.
    fn symbol_reference(
        &mut self,
        (path, place): (Vec<String>, Cursor<'a>),
        operation: &mut Operation<'a>,
        name: &str,
    ) -> Option<FunctionId> {
        if let [function] = &path[..] {
            return Some(self.reference(function.clone(), place));
        }
        if self.purpose.is_bef() {
            let message = format!("compiled module @{} not defined", path.join("::@"));
            self.report(place.error(message));
        } else {
            operation.attribute(name, Value::Symbol((path, place)).into_attribute());
        }
        None
    }

    /// `{ .. }`, with an optional label `^bb0(%a: T):` before its operations.
    pub(crate) fn labelled_region(&mut self) -> Result<(Function, BlockReturn<'a>)> {
        self.cursor.expect("{")?;
        let (mut names, mut types) = (Vec::new(), Vec::new());
        if self.cursor.sees("^") {
            self.cursor.sigil('^')?;
            if self.cursor.sees("(") {
                (names, types) = self.cursor.typed_uses()?;
            }
            self.cursor.expect(":")?;
        }
        self.region_body(names, types)
    }

    /// A region with the given arguments, after its `{`. Outer values are not visible in it.
    pub(crate) fn region_body(
        &mut self,
        names: Vec<ValueUse<'a>>,
        types: Vec<Type<'a>>,
    ) -> Result<(Function, BlockReturn<'a>)> {
        let mut builder = FunctionBuilder::region();
        for r#type in types {
            builder.argument(self.name(&r#type));
        }
        self.open_scope(builder.returns([]), names)?;
        let returned = self.block()?;
        self.cursor.expect("}")?;
        let Some(scope) = self.scopes.pop() else {
            return Err(self.cursor.error("expected a region"));
        };
        let mut function = scope.function;
        function.return_location = returned.location.clone();
        function.results = returned.registers.clone().unwrap_or_default();
        function.result_types = (function.results.iter())
            .map(|register| function.registers[register.0 as usize].clone())
            .collect();
        Ok((function, returned))
    }

    /// Adds a kernel to the innermost function and names its results.
    fn finish(
        &mut self,
        name: String,
        mut operation: Operation<'a>,
        groups: &[ResultGroup<'a>],
        start: Cursor<'a>,
    ) -> Result<()> {
        let implicit = self.implicit_location(start);
        let location = self.locations.optional(&mut self.cursor)?;
        let location = location.unwrap_or(implicit);
        let count = operation.result_types.len();
        let named: u64 = groups.iter().map(|group| u64::from(group.count)).sum();
        if !groups.is_empty() && named != count as u64 {
            return Err(start.error(format!(
                "operation defines {count} results but was provided {named} to bind"
            )));
        }
        operation
            .attributes
            .sort_by(|(one, _), (two, _)| one.cmp(two));
        operation
            .functions
            .sort_by(|(one, _), (two, _)| base(one).cmp(base(two)));
        let mut functions = operation.functions;
        let mut return_places = Vec::with_capacity(operation.regions.len());
        for mut region in operation.regions {
            region.function.location = location.clone();
            functions.push((Name::default(), self.module.add(region.function)));
            return_places.push(region.return_place);
        }
        let result_types = self.names_of(operation.result_types);
        let name = self.name(&name);
        let Some(scope) = self.scopes.last_mut() else {
            return Ok(());
        };
        let registers = &mut scope.function.registers;
        let first = registers.len() as u32;
        registers.extend(result_types);
        let kernel = Kernel {
            name,
            operands: operation.operands.into(),
            attributes: operation.attributes,
            functions,
            results: (first..registers.len() as u32).map(RegisterId).collect(),
            location,
        };
        let problems = kernel_problems(&self.module.functions, &scope.function, &kernel);
        scope.function.kernels.push(kernel);
        for Problem { message, region } in problems {
            // The types of a malformed return are unknown.
            let region = region.and_then(|region| return_places.get(region).copied());
            let place = region.unwrap_or(Some(start));
            if let Some(place) = place {
                self.report(place.error(message));
            }
        }
        let mut next = first;
        for group in groups {
            self.define(group.name, RegisterId(next), group.count)?;
            next += group.count;
        }
        Ok(())
    }
}

/// The name of a reference, or of the list that contains it.
fn base(name: &str) -> &str {
    name.strip_suffix("[]").unwrap_or(name)
}
