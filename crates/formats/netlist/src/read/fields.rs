//! The fields of one map: each is taken by name, the rest are unknown.

use super::reader::Reader;
use crate::source::Spanned;
use crate::yaml::Node;

/// The fields of a map that have not been taken.
pub(super) struct Fields<'n> {
    owner: String,
    entries: Vec<(&'n Node, &'n Node)>,
    known: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// The fields of `node`, a map that belongs to `owner`.
    pub(super) fn new(reader: &mut Reader, node: &'n Node, owner: impl Into<String>) -> Self {
        let owner = owner.into();
        let entries = reader.map(node, "fields").iter();
        Self {
            entries: entries.map(|(key, value)| (key, value)).collect(),
            owner,
            known: Vec::new(),
        }
    }

    /// Takes the value of a field. The last one of duplicates is effective (netlist 1.1).
    pub(super) fn take(&mut self, reader: &mut Reader, name: &'static str) -> Option<&'n Node> {
        self.known.push(name);
        let mut found: Option<&'n Node> = None;
        self.entries.retain(|&(key, value)| {
            let same = key.text() == Some(name);
            if same && found.replace(value).is_some() {
                reader.duplicate(key);
            }
            !same
        });
        found
    }

    /// Reads a required field with `read`.
    pub(super) fn require<T>(
        &mut self,
        reader: &mut Reader,
        name: &'static str,
        owner: &Spanned<String>,
        read: impl FnOnce(&mut Reader, &'n Node) -> Option<T>,
    ) -> Option<T> {
        match self.take(reader, name) {
            Some(node) => read(reader, node),
            None => reader.missing(name, owner),
        }
    }

    /// Reads an optional field with `read`.
    pub(super) fn optional<T>(
        &mut self,
        reader: &mut Reader,
        name: &'static str,
        read: impl FnOnce(&mut Reader, &'n Node) -> Option<T>,
    ) -> Option<T> {
        let node = self.take(reader, name).filter(|node| !node.is_null())?;
        read(reader, node)
    }

    /// Reads a field that is a list or a map; empty where the field is absent.
    pub(super) fn or_empty<T: Default>(
        &mut self,
        reader: &mut Reader,
        name: &'static str,
        read: impl FnOnce(&mut Reader, &'n Node) -> T,
    ) -> T {
        let node = self.take(reader, name);
        node.map(|node| read(reader, node)).unwrap_or_default()
    }

    /// Takes all fields for whose name `tag_of` returns a tag, in the order of the file, duplicates
    /// included.
    pub(super) fn take_all<T>(
        &mut self,
        tag_of: impl Fn(&str) -> Option<T>,
    ) -> Vec<(T, &'n Node, &'n Node)> {
        let mut found = Vec::new();
        self.entries
            .retain(|&(key, value)| match key.text().and_then(&tag_of) {
                Some(tag) => {
                    found.push((tag, key, value));
                    false
                }
                None => true,
            });
        found
    }

    /// Reports the remaining fields as unknown.
    pub(super) fn finish(self, reader: &mut Reader) {
        for (key, _) in self.entries {
            reader.unknown(key, &self.owner, &self.known);
        }
    }
}
