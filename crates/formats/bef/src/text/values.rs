//! Resolution of values: `%name` and `%name#index`.

use super::parser::Parser;
use super::scope::{Group, Scope, ValueUse};
use crate::syntax::Type;
use crate::{Function, MAX_NESTING, Name, RegisterId};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use tenon_base::Result;

impl<'a> Parser<'a> {
    /// Opens the scope of a function whose arguments are called `names`.
    pub(crate) fn open_scope(
        &mut self,
        function: Function,
        names: impl IntoIterator<Item = ValueUse<'a>>,
    ) -> Result<()> {
        if self.scopes.len() > MAX_NESTING {
            let message = format!("regions are nested deeper than {MAX_NESTING}");
            return Err(self.cursor.error(message));
        }
        self.scopes.push(Scope {
            function,
            groups: HashMap::new(),
        });
        for (name, register) in names.into_iter().zip(0..) {
            self.define(name, RegisterId(register), 1)?;
        }
        Ok(())
    }

    /// Defines a name for `count` registers of the innermost function; 0 for a malformed operation.
    pub(crate) fn define(
        &mut self,
        name: ValueUse<'a>,
        first: RegisterId,
        count: u32,
    ) -> Result<()> {
        let Some(scope) = self.scopes.last_mut() else {
            return Ok(());
        };
        match scope.groups.entry(name.name) {
            Entry::Vacant(entry) => {
                entry.insert(Group { first, count });
                Ok(())
            }
            Entry::Occupied(_) => Err(name
                .place
                .error(format!("redefinition of SSA value '%{}'", name.name))),
        }
    }

    /// The registers of `uses`, which must have `types`.
    pub(crate) fn resolve_uses<T: AsRef<str>>(
        &mut self,
        uses: &[ValueUse<'a>],
        types: &[T],
    ) -> Result<Vec<RegisterId>> {
        if uses.len() != types.len() {
            let (expected, found) = (uses.len(), types.len());
            let place = uses.first().map_or(self.cursor, |first| first.place);
            return Err(place.error(format!("expected {expected} operand types but had {found}")));
        }
        let mut registers = Vec::with_capacity(uses.len());
        for (value, r#type) in uses.iter().zip(types) {
            registers.push(self.value(*value, r#type.as_ref())?);
        }
        Ok(registers)
    }

    /// The register of a value used with a type.
    pub(crate) fn value(&mut self, value: ValueUse<'a>, r#type: &str) -> Result<RegisterId> {
        let register = self.untyped_value(value)?;
        let known = self.type_of(register);
        if known == r#type {
            return Ok(register);
        }
        Err(value.place.error(format!(
            "use of value '%{}' expects different type than prior uses: '{type}' vs '{known}'",
            value.name
        )))
    }

    fn untyped_value(&mut self, value: ValueUse<'a>) -> Result<RegisterId> {
        let name = value.name;
        let mut scopes = self.scopes.iter().rev();
        match scopes.next().and_then(|scope| scope.group(name)) {
            Some(Group { first, count: 1.. }) => return Ok(first),
            Some(_) => {
                self.silent = true;
                return Err(value.place.error("the value of a malformed operation"));
            }
            None => {}
        }
        Err(value
            .place
            .error(if scopes.any(|scope| scope.group(name).is_some()) {
                "BEF executor only supports references to kernels within the current region".into()
            } else if self
                .scopes
                .last()
                .is_some_and(|scope| scope.has_other_indices(name))
            {
                format!("reference to invalid result number '%{name}'")
            } else {
                format!("use of undeclared SSA value name '%{name}'")
            }))
    }

    /// The type of a register of the innermost function.
    pub(crate) fn type_of(&self, register: RegisterId) -> &str {
        let registers = self.scopes.last().map(|scope| &scope.function.registers);
        registers
            .and_then(|types| types.get(register.0 as usize))
            .map_or("none", Name::as_str)
    }

    /// The types of registers of the innermost function.
    pub(crate) fn types_of(&self, registers: &[RegisterId]) -> Vec<Type<'a>> {
        let r#type = |register: &RegisterId| Type::Owned(self.type_of(*register).to_owned());
        registers.iter().map(r#type).collect()
    }
}
