//! Text to Module: modules, functions and blocks (facts 4.4).

use super::attributes::{Value, dictionary};
use super::compiled::{CompiledModules, compiled_module, find_compiled};
use super::cursor::Cursor;
use super::locations::LocationAliases;
use super::source::Source;
use crate::{Function, FunctionId, FunctionKind, KernelLocation, Module, Name, RegisterId, verify};
use std::collections::{HashMap, HashSet};
use tenon_base::{Error, Location, Result};

/// After this many errors the rest of the text is not looked at.
const MAX_ERRORS: usize = 100;

/// Regions nest this deep at most.
const MAX_REGION_NESTING: usize = crate::MAX_NESTING;

/// What a function knows while it is read.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) function: Function,
    /// Values by their text without `%`; a group's members also as `name#index`.
    values: HashMap<String, RegisterId>,
}

/// Reads one text.
pub(crate) struct Parser<'a> {
    pub(crate) cursor: Cursor<'a>,
    pub(crate) locations: LocationAliases<'a>,
    pub(crate) module: Module,
    /// The function being read, inside of those whose regions it stands in.
    pub(crate) scopes: Vec<Scope>,
    /// Functions that kernels refer to. Until the end of the text, a named reference holds a
    /// position here in place of a function.
    references: Vec<(String, Cursor<'a>)>,
    names: HashSet<String>,
    pub(crate) compiled: CompiledModules<'a>,
    errors: Vec<Error>,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(source: Source<'a>) -> Self {
        Self {
            cursor: Cursor::new(source),
            locations: LocationAliases::scan(source),
            module: Module::default(),
            scopes: Vec::new(),
            references: Vec::new(),
            names: HashSet::new(),
            compiled: find_compiled(Cursor::new(source)),
            errors: Vec::new(),
        }
    }

    pub(crate) fn parse(mut self) -> Result<Module> {
        if let Err(error) = self.items(None) {
            self.errors.push(error);
        }
        self.resolve();
        if let Some(error) = Error::from_all(self.errors) {
            return Err(error);
        }
        verify(&self.module).map_err(|error| error.at(Location::file(self.cursor.file())))?;
        Ok(self.module)
    }

    /// Functions, compiled modules and aliases, up to the end or to the `}` of a module.
    fn items(&mut self, open: Option<Cursor<'a>>) -> Result<()> {
        loop {
            if self.cursor.at_end() {
                let unfinished = open.filter(|_| self.errors.is_empty());
                return unfinished.map_or(Ok(()), |open| Err(open.error("expected '}'")));
            }
            if open.is_some() && self.cursor.eat("}") {
                self.locations.optional(&mut self.cursor)?;
                return Ok(());
            }
            let start = self.cursor;
            if let Err(error) = self.item(open.is_some()) {
                self.errors.push(error);
                self.scopes.clear();
                if self.errors.len() >= MAX_ERRORS {
                    return Ok(());
                }
                self.skip_to_next_function(start);
            }
        }
    }

    fn item(&mut self, nested: bool) -> Result<()> {
        if self.cursor.sees("#") {
            return self.alias();
        }
        if compiled_module(&mut self.cursor)?.is_some() {
            self.locations.optional(&mut self.cursor)?;
            return Ok(());
        }
        let start = self.cursor;
        match self.cursor.word() {
            Some("func.func") => self.function(),
            Some("module") if !nested => {
                if self.cursor.sees("@") {
                    self.cursor.symbol()?;
                }
                if self.cursor.eat_word("attributes") {
                    self.module_attributes()?;
                }
                let open = self.cursor;
                self.cursor.expect("{")?;
                self.items(Some(open))
            }
            _ => Err(start.error("expected 'func.func' or 'module'")),
        }
    }

    fn module_attributes(&mut self) -> Result<()> {
        let entries = dictionary(&mut self.cursor, &self.compiled)?;
        match entries.first() {
            None => Ok(()),
            Some((name, _, place)) => {
                Err(place.error(format!("module attribute '{name}' is not supported")))
            }
        }
    }

    /// `#loc0 = loc(..)`: known already, checked here.
    fn alias(&mut self) -> Result<()> {
        self.cursor.sigil('#')?;
        self.cursor.expect("=")?;
        match self.locations.optional(&mut self.cursor)? {
            Some(_) => Ok(()),
            None => Err(self.cursor.error("expected 'loc'")),
        }
    }

    /// Goes on behind an error, so that all functions with problems are reported.
    fn skip_to_next_function(&mut self, start: Cursor<'a>) {
        let from = self.cursor.position().max(start.position() + 1);
        let mut position = from;
        while !self.cursor.at(position).rest().is_empty() {
            let rest = self.cursor.at(position).rest();
            let line = rest.split_inclusive('\n').next().unwrap_or(rest);
            if position > from && line.trim_start().starts_with("func.func") {
                break;
            }
            position += line.len();
            // A position inside of a character has no rest; the next line is whole again.
            if line.is_empty() {
                break;
            }
        }
        self.cursor = self.cursor.at(position);
    }

    fn function(&mut self) -> Result<()> {
        self.cursor.eat_word("private");
        let start = self.cursor;
        let name = self.cursor.symbol()?;
        if !self.names.insert(name.clone()) {
            self.errors
                .push(start.error(format!("redefinition of symbol named '{name}'")));
        }
        let (names, types) = self.signature()?;
        let result_types = if self.cursor.eat("->") {
            self.cursor.type_list()?
        } else {
            Vec::new()
        };
        let kind = self.function_attributes()?;
        let mut function = Function::native(name, types, result_types);
        if !self.cursor.sees("{") {
            return self.declaration(start, function, kind);
        }
        if kind == FunctionKind::Native {
            return Err(start.error("a native function has no body"));
        }
        function.kind = kind;
        self.open_scope(function, &names)?;
        self.cursor.expect("{")?;
        let returned = self.block()?;
        self.cursor.expect("}")?;
        let implicit = self.implicit_location(start);
        let location = self
            .locations
            .optional(&mut self.cursor)?
            .unwrap_or(implicit);
        let Some(Scope { mut function, .. }) = self.scopes.pop() else {
            return Ok(());
        };
        function.location = location;
        function.results = returned.registers;
        check_results(&function, &returned.place)?;
        self.module.add(function);
        Ok(())
    }

    /// The arguments: names and types; a declaration has types alone.
    fn signature(&mut self) -> Result<(Vec<String>, Vec<String>)> {
        self.cursor.expect("(")?;
        let arguments = self.cursor.list(")", |cursor| {
            let name = if cursor.sees("%") {
                cursor.sigil('%')?.to_owned()
            } else {
                String::new()
            };
            if !name.is_empty() {
                cursor.expect(":")?;
            }
            Ok((name, cursor.r#type()?))
        })?;
        self.cursor.expect(")")?;
        Ok(arguments.into_iter().unzip())
    }

    fn function_attributes(&mut self) -> Result<FunctionKind> {
        let mut kind = FunctionKind::Async;
        if !self.cursor.eat_word("attributes") {
            return Ok(kind);
        }
        for (name, value, place) in dictionary(&mut self.cursor, &self.compiled)? {
            kind = match (name.as_str(), value) {
                ("tfrt.sync", Value::Unit) => FunctionKind::Sync,
                ("tfrt.native", Value::Unit) => FunctionKind::Native,
                _ => {
                    let message = format!("function attribute '{name}' is not supported");
                    return Err(place.error(message));
                }
            };
        }
        Ok(kind)
    }

    fn declaration(
        &mut self,
        start: Cursor<'a>,
        function: Function,
        kind: FunctionKind,
    ) -> Result<()> {
        // BEF has no place for where a native function is declared.
        self.locations.optional(&mut self.cursor)?;
        if kind != FunctionKind::Native {
            return Err(start.error("external functions are not allowed"));
        }
        self.module.add(function);
        Ok(())
    }

    /// Where a function or operation that says nothing stands.
    pub(crate) fn implicit_location(&self, mut start: Cursor<'a>) -> KernelLocation {
        start.skip();
        let (line, column) = self.locations.line_column(start.position());
        KernelLocation::FileLineCol {
            file: start.file().into(),
            line,
            column,
        }
    }

    /// Opens a function whose arguments have `names`.
    pub(crate) fn open_scope(&mut self, function: Function, names: &[String]) -> Result<()> {
        if self.scopes.len() > MAX_REGION_NESTING {
            let message = format!("regions are nested deeper than {MAX_REGION_NESTING}");
            return Err(self.cursor.error(message));
        }
        let mut values = HashMap::new();
        for (name, register) in names.iter().zip(0..) {
            if values.insert(name.clone(), RegisterId(register)).is_some() {
                return Err(self
                    .cursor
                    .error(format!("redefinition of SSA value '%{name}'")));
            }
        }
        self.scopes.push(Scope { function, values });
        Ok(())
    }

    /// Names a new register of the innermost function.
    pub(crate) fn define(
        &mut self,
        name: String,
        register: RegisterId,
        place: &Cursor<'a>,
    ) -> Result<()> {
        let Some(scope) = self.scopes.last_mut() else {
            return Ok(());
        };
        match scope.values.insert(name.clone(), register) {
            None => Ok(()),
            Some(_) => Err(place.error(format!("redefinition of SSA value '%{name}'"))),
        }
    }

    /// The register of a value used at `place` with type `type`.
    pub(crate) fn value(&self, name: &str, r#type: &str, place: &Cursor<'a>) -> Result<RegisterId> {
        let register = self.untyped_value(name, place)?;
        let registers = self
            .scopes
            .last()
            .map_or(&[][..], |scope| &scope.function.registers);
        match registers.get(register.0 as usize) {
            Some(known) if known != r#type => Err(place.error(format!(
                "use of value '%{name}' expects different type than prior uses: '{type}' vs \
                 '{known}'"
            ))),
            _ => Ok(register),
        }
    }

    /// The register of a value used at `place`.
    pub(crate) fn untyped_value(&self, name: &str, place: &Cursor<'a>) -> Result<RegisterId> {
        let mut scopes = self.scopes.iter().rev();
        if let Some(register) = scopes.next().and_then(|scope| scope.values.get(name)) {
            return Ok(*register);
        }
        Err(
            place.error(if scopes.any(|scope| scope.values.contains_key(name)) {
                "BEF executor only supports references to kernels within the current region".into()
            } else {
                format!("use of undeclared SSA value name '%{name}'")
            }),
        )
    }

    /// The type of a register of the innermost function.
    pub(crate) fn type_of(&self, register: RegisterId) -> &str {
        let registers = self.scopes.last().map(|scope| &scope.function.registers);
        registers
            .and_then(|types| types.get(register.0 as usize))
            .map_or("none", Name::as_str)
    }

    /// A stand-in for the function called `name`, until all functions are known.
    pub(crate) fn reference(&mut self, name: String, place: Cursor<'a>) -> FunctionId {
        let id = FunctionId(u32::try_from(self.references.len()).unwrap_or(u32::MAX));
        self.references.push((name, place));
        id
    }

    /// Replaces the stand-ins by functions.
    fn resolve(&mut self) {
        let ids: HashMap<&str, FunctionId> = (0u32..)
            .zip(&self.module.functions)
            .map(|(id, function)| (function.name.as_str(), FunctionId(id)))
            .collect();
        let found: Vec<Option<FunctionId>> = self
            .references
            .iter()
            .map(|(name, _)| ids.get(name.as_str()).copied())
            .collect();
        for (name, place) in &self.references {
            // A function that is there but has problems has been reported.
            if !self.names.contains(name) && self.errors.len() < MAX_ERRORS {
                self.errors
                    .push(place.error(format!("function @{name} not defined")));
            }
        }
        let kernels = self
            .module
            .functions
            .iter_mut()
            .flat_map(|function| &mut function.kernels);
        for (name, id) in kernels.flat_map(|kernel| &mut kernel.functions) {
            if !name.is_empty()
                && let Some(Some(function)) = found.get(id.0 as usize)
            {
                *id = *function;
            }
        }
    }
}

/// What a block returns.
#[derive(Debug)]
pub(crate) struct Returned<'a> {
    pub(crate) registers: Vec<RegisterId>,
    pub(crate) place: Cursor<'a>,
}

/// Checks a function's `tfrt.return` where it stands.
fn check_results(function: &Function, place: &Cursor<'_>) -> Result<()> {
    let (found, expected) = (function.results.len(), function.result_types.len());
    if found != expected {
        return Err(place.error(format!(
            "'tfrt.return' op has {found} operands, but enclosing function returns {expected}"
        )));
    }
    for (index, (register, expected)) in function
        .results
        .iter()
        .zip(&function.result_types)
        .enumerate()
    {
        let found = function
            .registers
            .get(register.0 as usize)
            .map_or("none", Name::as_str);
        if found != expected {
            return Err(place.error(format!(
                "type of return operand {index} ('{found}') doesn't match function result type \
                 ('{expected}')"
            )));
        }
    }
    Ok(())
}
