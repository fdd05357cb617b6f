//! Scopes: the names of values in the functions being parsed.

use crate::syntax::{Cursor, Type};
use crate::{Function, RegisterId};
use std::collections::HashMap;
use tenon_base::Result;

/// A use of a value: its name without `%`, index included, and its position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValueUse<'a> {
    pub(crate) name: &'a str,
    pub(crate) place: Cursor<'a>,
}

/// The consecutive registers of a name. Count 0: the operation that defines them is malformed, and
/// errors of its uses are not reported.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub(super) first: RegisterId,
    pub(super) count: u32,
}

/// A function being parsed and its names.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) function: Function,
    /// By name without `%`. The name of a region's argument is the whole text of the operand,
    /// perhaps with an index.
    pub(super) groups: HashMap<&'a str, Group>,
}

impl<'a> Scope<'a> {
    pub(super) fn group(&self, name: &str) -> Option<Group> {
        if let Some(group) = self.groups.get(name) {
            return Some(*group);
        }
        let (name, index) = name.split_once('#')?;
        let group = self.groups.get(name)?;
        if group.count == 0 {
            return Some(*group);
        }
        let index: u32 = index.parse().ok()?;
        (index < group.count).then(|| Group {
            first: RegisterId(group.first.0 + index),
            count: 1,
        })
    }
}

impl<'a> Cursor<'a> {
    /// `%name` or `%name#index`.
    pub(crate) fn value_use(&mut self) -> Result<ValueUse<'a>> {
        self.skip();
        let place = *self;
        self.sigil('%')?;
        if self.rest().starts_with('#') {
            self.expect("#")?;
            self.take_while(|c| c.is_ascii_digit());
        }
        let name = self.since(place.position() + 1);
        Ok(ValueUse { name, place })
    }

    /// `(%a: T, %b: U)`: names and types.
    pub(crate) fn typed_uses(&mut self) -> Result<(Vec<ValueUse<'a>>, Vec<Type<'a>>)> {
        self.expect("(")?;
        let arguments = self.list(")", |cursor| {
            let name = cursor.value_use()?;
            cursor.expect(":")?;
            Ok((name, cursor.r#type()?))
        })?;
        self.expect(")")?;
        Ok(arguments.into_iter().unzip())
    }

    /// `(%a, %b)`.
    pub(crate) fn parenthesized_uses(&mut self) -> Result<Vec<ValueUse<'a>>> {
        self.expect("(")?;
        let uses = self.list(")", Cursor::value_use)?;
        self.expect(")")?;
        Ok(uses)
    }
}

impl Scope<'_> {
    /// Whether the name is defined with other indices.
    pub(super) fn has_other_indices(&self, name: &str) -> bool {
        name.split_once('#')
            .is_some_and(|(name, _)| self.groups.contains_key(name))
    }
}
