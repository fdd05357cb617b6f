//! The YAML printer: block style for sections, flow style for small values.

use crate::yaml::{Node, NodeKind};
use std::fmt::{self, Write};

/// Writes YAML with an indent.
#[derive(Default)]
pub(crate) struct YamlText {
    text: String,
    depth: usize,
}

impl YamlText {
    /// The text so far.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn indent(&mut self) {
        self.text.extend(std::iter::repeat_n("  ", self.depth));
    }

    /// An empty line.
    pub(crate) fn gap(&mut self) {
        self.text.push('\n');
    }

    /// `key:` and what `body` writes below it, indented.
    pub(crate) fn section(&mut self, key: &str, body: impl FnOnce(&mut Self)) {
        self.indent();
        scalar(&mut self.text, key);
        self.text.push_str(":\n");
        self.depth += 1;
        body(self);
        self.depth -= 1;
    }

    /// A line `key: value`.
    pub(crate) fn field(&mut self, key: &str, value: impl fmt::Display) {
        self.indent();
        scalar(&mut self.text, key);
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, ": {value}");
    }

    /// A line `- value`.
    pub(crate) fn item(&mut self, value: impl fmt::Display) {
        self.indent();
        let _ = writeln!(self.text, "- {value}");
    }

    /// `- key:` and what `body` writes below it.
    pub(crate) fn item_section(&mut self, key: &str, body: impl FnOnce(&mut Self)) {
        self.indent();
        self.text.push_str("- ");
        scalar(&mut self.text, key);
        self.text.push_str(":\n");
        self.depth += 2;
        body(self);
        self.depth -= 2;
    }

    /// `-` and the list that `body` writes below it.
    pub(crate) fn schedule(&mut self, body: impl FnOnce(&mut Self)) {
        self.indent();
        self.text.push_str("-\n");
        self.depth += 1;
        body(self);
        self.depth -= 1;
    }

    /// An unparsed section. A key that is not a name, such as an empty one, keeps its form in a map on one line.
    pub(crate) fn node(&mut self, key: &str, node: &Node) {
        let is_name = |key: &Node| match &key.kind {
            NodeKind::Scalar { text, plain } => *plain == is_plain(text),
            _ => false,
        };
        match &node.kind {
            NodeKind::Map(entries)
                if !entries.is_empty() && entries.iter().all(|(key, _)| is_name(key)) =>
            {
                self.section(key, |text| {
                    for (key, value) in entries {
                        text.node(key.text().unwrap_or_default(), value);
                    }
                });
            }
            _ => self.field(key, Flow(node)),
        }
    }
}

/// A node in flow form, on one line.
pub(crate) struct Flow<'a>(pub(crate) &'a Node);

impl fmt::Display for Flow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.kind {
            NodeKind::Scalar { text, plain: true } => f.write_str(text),
            NodeKind::Scalar { text, plain: false } => f.write_str(&double_quoted(text)),
            NodeKind::Sequence(nodes) => List(nodes.iter().map(Flow).collect()).fmt(f),
            NodeKind::Map(entries) => {
                let entries = entries
                    .iter()
                    .map(|(key, value)| Entry(Flow(key), Flow(value)));
                Map(entries.collect()).fmt(f)
            }
        }
    }
}

/// `[a, b]`.
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T: fmt::Display> fmt::Display for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        separated(f, &self.0)?;
        f.write_char(']')
    }
}

/// `{a: 1, b: 2}`, of [`Entry`]s.
pub(crate) struct Map<T>(pub(crate) Vec<T>);

impl<T: fmt::Display> fmt::Display for Map<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('{')?;
        separated(f, &self.0)?;
        f.write_char('}')
    }
}

/// `key: value`.
pub(crate) struct Entry<K, V>(pub(crate) K, pub(crate) V);

impl<K: fmt::Display, V: fmt::Display> fmt::Display for Entry<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0, self.1)
    }
}

/// A name as a scalar, quoted where necessary.
pub(crate) struct Name<'a>(pub(crate) &'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scalar(f, self.0);
        Ok(())
    }
}

fn separated<T: fmt::Display>(f: &mut fmt::Formatter<'_>, values: &[T]) -> fmt::Result {
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        value.fmt(f)?;
    }
    Ok(())
}

fn scalar(out: &mut impl Write, text: &str) {
    // The writers are strings and formatters of strings, which do not fail.
    let _ = if is_plain(text) {
        out.write_str(text)
    } else {
        out.write_str(&double_quoted(text))
    };
}

/// Whether a name needs no quotes, in flow maps too.
fn is_plain(text: &str) -> bool {
    let first = text.chars().next();
    let starts =
        first.is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '$' | '_' | '/' | '.'));
    let inside = |c: char| c.is_alphanumeric() || "$_./-+=()<>".contains(c);
    starts && text.chars().all(inside)
}

fn double_quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() || matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}') => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
