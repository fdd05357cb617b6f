//! The parser of Modules: recursive descent over functions and nested modules (bef 4.4).

use super::attributes::{Entry, dictionary};
use super::compiled::{CompiledModules, compiled_module, find_compiled};
use super::locations::LocationAliases;
use super::scope::Scope;
use crate::syntax::{Cursor, Source, Type};
use crate::{Attribute, KernelLocation, Module, Name, verify};
use std::cell::Cell;
use std::collections::HashSet;
use tenon_base::{Error, ErrorKind, Location, Result};

/// Maximum number of errors; parsing ends there.
const MAX_ERRORS: usize = 100;

/// The purpose for which a text is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Encoding as BEF: an attribute that BEF cannot encode is an error.
    Bef,
    /// Rewriting and printing.
    Rewriting { allow_unregistered: bool },
}

impl Purpose {
    pub(crate) fn is_bef(self) -> bool {
        self == Purpose::Bef
    }
}

/// The operation being parsed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Current<'a> {
    /// Its start.
    pub(crate) start: Cursor<'a>,
    /// Whether it is a `tfrt.call`.
    pub(crate) is_call: bool,
}

/// A reference to a function by name.
#[derive(Debug)]
pub(crate) struct Reference<'a> {
    pub(super) name: String,
    pub(super) place: Cursor<'a>,
    /// The referencing operation.
    pub(super) by: Current<'a>,
}

/// The state of parsing one text.
pub(crate) struct Parser<'a> {
    pub(crate) cursor: Cursor<'a>,
    pub(crate) purpose: Purpose,
    pub(crate) locations: LocationAliases<'a>,
    pub(crate) module: Module,
    /// The function being parsed, after those that contain it as a region.
    pub(crate) scopes: Vec<Scope<'a>>,
    /// Function references of kernels. Until the end of the text, a named reference is an index
    /// into this list in place of a function id.
    pub(crate) references: Vec<Reference<'a>>,
    /// The symbols defined so far.
    pub(crate) names: HashSet<String>,
    pub(crate) compiled: CompiledModules,
    pub(crate) current: Current<'a>,
    /// Set with an error that is a consequence of a reported one: it is not reported.
    pub(crate) silent: bool,
    /// The name of the file, for locations.
    file: Name,
    /// Names that occurred, shared by all their uses.
    shared: HashSet<Name>,
    errors: Vec<Error>,
}

impl<'a> Parser<'a> {
    /// A parser of a text whose expanded splats are limited to `left` bytes.
    pub(crate) fn new(source: Source<'a>, purpose: Purpose, left: &'a Cell<usize>) -> Self {
        Self {
            cursor: Cursor::new(source).with_splats(left),
            purpose,
            locations: LocationAliases::scan(source),
            module: Module::default(),
            scopes: Vec::new(),
            references: Vec::new(),
            names: HashSet::new(),
            compiled: find_compiled(Cursor::new(source)),
            current: Current {
                start: Cursor::new(source),
                is_call: false,
            },
            silent: false,
            file: source.file.into(),
            shared: HashSet::new(),
            errors: Vec::new(),
        }
    }

    pub(crate) fn parse(mut self) -> Result<Module> {
        if let Err(error) = self.items(None) {
            self.report_unless_silent(error);
        }
        self.resolve();
        if !self.errors.is_empty() {
            let line = |error: &Error| (error.location().line, error.location().column);
            self.errors.sort_by_key(line);
            return Error::from_all(self.errors).map_or(Ok(self.module), Err);
        }
        if self.purpose.is_bef() {
            verify(&self.module).map_err(|error| error.at(Location::file(self.cursor.file())))?;
        }
        Ok(self.module)
    }

    pub(crate) fn report(&mut self, error: Error) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }

    /// Reports an error, unless it is a consequence of a reported one.
    pub(crate) fn report_unless_silent(&mut self, error: Error) {
        if !std::mem::take(&mut self.silent) {
            self.report(error);
        }
    }

    /// Ends the parsing of a text with too many errors.
    pub(crate) fn stop_at_error_limit(&mut self) -> Result<()> {
        if self.errors.len() < MAX_ERRORS {
            return Ok(());
        }
        self.silent = true;
        self.cursor = self.cursor.end();
        Err(Error::new(ErrorKind::InvalidProgram, "too many problems"))
    }

    /// Functions, compiled modules and aliases, up to the end or the `}` of a module.
    fn items(&mut self, open: Option<Cursor<'a>>) -> Result<()> {
        loop {
            if self.cursor.at_end() {
                let unfinished = open.filter(|_| self.errors.is_empty());
                return unfinished.map_or(Ok(()), |open| Err(open.error("expected '}'")));
            }
            if open.is_some() && self.cursor.eat("}") {
                return Ok(());
            }
            let start = self.cursor;
            if let Err(error) = self.item(open.is_some()) {
                self.report_unless_silent(error);
                self.scopes.clear();
                self.stop_at_error_limit()?;
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
        if self.cursor.eat("\"func.func\"") {
            return self.generic_function(start);
        }
        if self.cursor.eat("\"builtin.module\"") && !nested {
            return self.generic_module();
        }
        match self.cursor.word() {
            Some("func.func") => self.function(start),
            Some("module") if !nested => self.custom_module(),
            _ => Err(start.error("expected 'func.func' or 'module'")),
        }
    }

    /// `module @name attributes {..} { .. }`, after the first word.
    fn custom_module(&mut self) -> Result<()> {
        let name = if self.cursor.sees("@") {
            Some(self.cursor.symbol()?)
        } else {
            None
        };
        if self.cursor.eat_word("attributes") {
            let entries = dictionary(&mut self.cursor, &self.compiled)?;
            self.module_attributes(entries)?;
        }
        if let Some(name) = name {
            let name = Attribute::String(name.into());
            self.module.attributes.push(("sym_name".into(), name));
            self.module.attributes.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        let open = self.cursor;
        self.cursor.expect("{")?;
        self.items(Some(open))?;
        self.locations.optional(&mut self.cursor)?;
        Ok(())
    }

    /// `"builtin.module"() <{..}> ({ .. }) {..} : () -> ()`, after the name.
    fn generic_module(&mut self) -> Result<()> {
        self.cursor.expect("(")?;
        self.cursor.expect(")")?;
        let mut entries = self.properties()?;
        self.cursor.expect("(")?;
        let open = self.cursor;
        self.cursor.expect("{")?;
        self.items(Some(open))?;
        self.cursor.expect(")")?;
        if self.cursor.sees("{") {
            entries.extend(dictionary(&mut self.cursor, &self.compiled)?);
        }
        self.module_attributes(entries)?;
        self.cursor.expect(":")?;
        self.cursor.function_type()?;
        self.locations.optional(&mut self.cursor)?;
        Ok(())
    }

    /// The optional `<{..}>`.
    pub(crate) fn properties(&mut self) -> Result<Vec<Entry<'a>>> {
        if !self.cursor.eat("<") {
            return Ok(Vec::new());
        }
        let entries = dictionary(&mut self.cursor, &self.compiled)?;
        self.cursor.expect(">")?;
        Ok(entries)
    }

    fn module_attributes(&mut self, mut entries: Vec<Entry<'a>>) -> Result<()> {
        sort_entries(&mut entries)?;
        self.module.attributes = (entries.into_iter())
            .map(|(name, value, _)| (name.into(), value.into_attribute()))
            .collect();
        Ok(())
    }

    /// `#loc0 = loc(..)`: collected before, checked here.
    fn alias(&mut self) -> Result<()> {
        self.cursor.sigil('#')?;
        self.cursor.expect("=")?;
        match self.locations.optional(&mut self.cursor)? {
            Some(_) => Ok(()),
            None => Err(self.cursor.error("expected 'loc'")),
        }
    }

    /// Error recovery: skips to the next function, so that the errors of all functions are
    /// reported.
    fn skip_to_next_function(&mut self, start: Cursor<'a>) {
        let from = self.cursor.position().max(start.position() + 1);
        let mut position = from;
        while !self.cursor.at(position).rest().is_empty() {
            let rest = self.cursor.at(position).rest();
            let line = rest.split_inclusive('\n').next().unwrap_or(rest);
            let trimmed = line.trim_start();
            if position > from
                && (trimmed.starts_with("func.func") || trimmed.starts_with("\"func.func\""))
            {
                break;
            }
            position += line.len();
            // An offset inside a character has an empty rest; the next line is valid again.
            if line.is_empty() {
                break;
            }
        }
        self.cursor = self.cursor.at(position);
    }

    /// A name, shared with its other uses.
    pub(crate) fn name(&mut self, text: &str) -> Name {
        if let Some(name) = self.shared.get(text) {
            return name.clone();
        }
        let name = Name::from(text);
        self.shared.insert(name.clone());
        name
    }

    /// The names of types.
    pub(crate) fn names_of(&mut self, types: Vec<Type<'_>>) -> Vec<Name> {
        types.iter().map(|r#type| self.name(r#type)).collect()
    }

    /// The location of a function or operation without an explicit one.
    pub(crate) fn implicit_location(&self, mut start: Cursor<'a>) -> KernelLocation {
        start.skip();
        let (line, column) = self.locations.line_column(start.position());
        KernelLocation::FileLineCol {
            file: self.file.clone(),
            line,
            column,
        }
    }
}

/// Sorts the entries of a dictionary by name; duplicates are an error.
pub(crate) fn sort_entries(entries: &mut [Entry<'_>]) -> Result<()> {
    entries.sort_by(|(one, ..), (two, ..)| one.cmp(two));
    match entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some([_, (name, _, place)]) => {
            Err(place.error(format!("duplicate key '{name}' in dictionary attribute")))
        }
        _ => Ok(()),
    }
}
