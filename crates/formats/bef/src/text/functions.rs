//! Parsing of functions, in the custom and the generic form.

use super::attributes::{Entry, dictionary};
use super::blocks::BlockReturn;
use super::parser::{Parser, sort_entries};
use super::scope::ValueUse;
use crate::syntax::{Cursor, Type};
use crate::{Attribute, Function, FunctionKind};
use tenon_base::Result;

/// Attribute of a declared function that is not native. BEF cannot encode it; a text for rewriting
/// may contain it.
pub(crate) const EXTERNAL: &str = "tenon.external";

/// Attribute of the visibility keyword before a function's name.
pub(crate) const VISIBILITY: &str = "sym_visibility";

/// A function without its body.
struct Head<'a> {
    name: String,
    arguments: Vec<Type<'a>>,
    results: Vec<Type<'a>>,
    attributes: Vec<Entry<'a>>,
    /// Its start.
    start: Cursor<'a>,
}

impl<'a> Parser<'a> {
    /// `func.func private @name(%a: T) -> U attributes {..} { .. }`, after the first word.
    pub(crate) fn function(&mut self, start: Cursor<'a>) -> Result<()> {
        let mut visibility = None;
        for word in ["private", "public", "nested"] {
            if self.cursor.eat_word(word) {
                visibility = Some(word);
                break;
            }
        }
        let place = self.cursor;
        let name = self.cursor.symbol()?;
        let (names, arguments) = self.signature()?;
        let results = if self.cursor.eat("->") {
            self.cursor.type_list()?
        } else {
            Vec::new()
        };
        let mut attributes = Vec::new();
        if self.cursor.eat_word("attributes") {
            attributes = dictionary(&mut self.cursor, &self.compiled)?;
        }
        if let Some(word) = visibility.filter(|word| *word != "public") {
            attributes.push(visibility_entry(word, place));
        }
        let head = Head {
            name,
            arguments,
            results,
            attributes,
            start,
        };
        let mut function = self.head(head, place)?;
        if !self.cursor.sees("{") {
            return self.declaration(start, function);
        }
        if function.kind == FunctionKind::Native {
            return Err(start.error("a native function has no body"));
        }
        let (name, attributes) = (
            function.name.clone(),
            std::mem::take(&mut function.attributes),
        );
        let result_types = std::mem::take(&mut function.result_types);
        self.open_scope(function, names)?;
        self.cursor.expect("{")?;
        let returned = self.block()?;
        self.cursor.expect("}")?;
        let Some(scope) = self.scopes.pop() else {
            return Ok(());
        };
        let body = Function {
            name,
            attributes,
            result_types,
            ..scope.function
        };
        self.add_function(start, body, returned)
    }

    /// `"func.func"() <{..}> ({ .. }) {..} : () -> ()`, after the name.
    pub(crate) fn generic_function(&mut self, start: Cursor<'a>) -> Result<()> {
        self.cursor.expect("(")?;
        self.cursor.expect(")")?;
        let mut entries = self.properties()?;
        self.cursor.expect("(")?;
        let mut ahead = self.cursor;
        let mut body = None;
        if ahead.eat("{") && ahead.eat("}") {
            self.cursor = ahead;
        } else {
            body = Some(self.labelled_region()?);
        }
        self.cursor.expect(")")?;
        if self.cursor.sees("{") {
            entries.extend(dictionary(&mut self.cursor, &self.compiled)?);
        }
        self.cursor.expect(":")?;
        self.cursor.function_type()?;
        let mut name = None;
        let mut types = None;
        entries.retain(
            |(key, value, _)| match (key.as_str(), value.clone().into_attribute()) {
                ("sym_name", Attribute::String(text)) => {
                    name = Some(text.as_str().to_owned());
                    false
                }
                ("function_type", Attribute::Foreign(text)) => {
                    types = Some(text);
                    false
                }
                _ => true,
            },
        );
        let name =
            name.ok_or_else(|| start.error("'func.func' op requires attribute 'sym_name'"))?;
        let missing = || start.error("'func.func' op requires attribute 'function_type'");
        let types = types.ok_or_else(missing)?;
        let (arguments, results) = Cursor::of(&types).function_type().map_err(|_| missing())?;
        let owned = |types: Vec<Type<'_>>| -> Vec<Type<'a>> {
            types
                .into_iter()
                .map(|t| Type::Owned(t.into_owned()))
                .collect()
        };
        let head = Head {
            name,
            arguments: owned(arguments),
            results: owned(results),
            attributes: entries,
            start,
        };
        let head = self.head(head, start)?;
        let Some((body, returned)) = body else {
            return self.declaration(start, head);
        };
        if head.kind == FunctionKind::Native {
            return Err(start.error("a native function has no body"));
        }
        if body.argument_types() != head.registers {
            return Err(start.error("the arguments of the body differ from 'function_type'"));
        }
        let body = Function {
            name: head.name,
            kind: head.kind,
            attributes: head.attributes,
            result_types: head.result_types,
            ..body
        };
        self.add_function(start, body, returned)
    }

    /// A function without its body, from its declaration; `place` is the position of its name.
    fn head(&mut self, mut head: Head<'a>, place: Cursor<'a>) -> Result<Function> {
        if !self.names.insert(head.name.clone()) {
            let message = format!("redefinition of symbol named '{}'", head.name);
            self.report(place.error(message));
        }
        if head.name.is_empty() {
            return Err(place.error("a function without a name"));
        }
        sort_entries(&mut head.attributes)?;
        let arguments = self.names_of(head.arguments);
        let mut function = Function {
            name: head.name,
            arguments: u32::try_from(arguments.len()).unwrap_or(u32::MAX),
            registers: arguments,
            result_types: self.names_of(head.results),
            ..Function::default()
        };
        for (name, value, place) in head.attributes {
            let kind = match (name.as_str(), value.into_attribute()) {
                ("tfrt.sync", Attribute::Unit) => FunctionKind::Sync,
                ("tfrt.native", Attribute::Unit) => FunctionKind::Native,
                ("tfrt.sync" | "tfrt.native", _) => {
                    return Err(place.error(format!("attribute '{name}' has no value")));
                }
                (_, value) => {
                    function.attributes.push((name.into(), value));
                    continue;
                }
            };
            if function.kind != FunctionKind::Async {
                return Err(head.start.error("a native function is not a sync function"));
            }
            function.kind = kind;
        }
        Ok(function)
    }

    /// The arguments: names and types; a declaration has types only.
    fn signature(&mut self) -> Result<(Vec<ValueUse<'a>>, Vec<Type<'a>>)> {
        self.cursor.expect("(")?;
        let (mut names, mut types) = (Vec::new(), Vec::new());
        while !self.cursor.sees(")") {
            if !types.is_empty() {
                self.cursor.expect(",")?;
            }
            if self.cursor.sees("%") {
                names.push(self.cursor.value_use()?);
                self.cursor.expect(":")?;
            }
            types.push(self.cursor.r#type()?);
            // BEF does not store locations of arguments.
            self.locations.optional(&mut self.cursor)?;
        }
        if !names.is_empty() && names.len() != types.len() {
            return Err(self
                .cursor
                .error("expected a name for every argument or for none"));
        }
        self.cursor.expect(")")?;
        Ok((names, types))
    }

    /// A function without a body.
    fn declaration(&mut self, start: Cursor<'a>, mut function: Function) -> Result<()> {
        // Declared functions are private.
        function.attributes.retain(|(name, _)| name != VISIBILITY);
        if function.kind != FunctionKind::Native {
            if self.purpose.is_bef() {
                return Err(start.error("external functions are not allowed"));
            }
            function.kind = FunctionKind::Native;
            function.attributes.push((EXTERNAL.into(), Attribute::Unit));
            function
                .attributes
                .sort_by(|(one, _), (two, _)| one.cmp(two));
        }
        let implicit = self.implicit_location(start);
        let location = self.locations.optional(&mut self.cursor)?;
        function.location = location.unwrap_or(implicit);
        self.module.add(function);
        Ok(())
    }

    /// Adds a function after its body was parsed.
    fn add_function(
        &mut self,
        start: Cursor<'a>,
        mut function: Function,
        returned: BlockReturn<'a>,
    ) -> Result<()> {
        let implicit = self.implicit_location(start);
        let location = self.locations.optional(&mut self.cursor)?;
        function.location = location.unwrap_or(implicit);
        function.return_location = returned.location;
        if let Some(registers) = returned.registers {
            function.results = registers;
            self.check_results(&function, returned.place);
        }
        self.module.add(function);
        Ok(())
    }
}

fn visibility_entry<'a>(word: &str, place: Cursor<'a>) -> Entry<'a> {
    let word = Attribute::String(word.into());
    (
        VISIBILITY.into(),
        super::attributes::Value::Attribute(word),
        place,
    )
}
