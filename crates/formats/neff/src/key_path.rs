//! The path of a value inside a JSON member.

use std::fmt;

/// The keys and indices that lead to a value. Display is `dma[3].desc.to_off`, a key with other
/// characters than letters, digits, `_`, `#` and `-` as `['its text']`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyPath(Vec<Step>);

/// One step of a [`KeyPath`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Into an object.
    Key(String),
    /// Into a list.
    Index(usize),
}

impl KeyPath {
    /// This path extended by a key.
    pub fn key(&self, key: &str) -> Self {
        let mut path = self.clone();
        path.enter(Step::Key(key.to_owned()));
        path
    }

    /// This path extended by an index.
    pub fn index(&self, index: usize) -> Self {
        let mut path = self.clone();
        path.enter(Step::Index(index));
        path
    }

    /// The steps, outermost first.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Whether it is the path of the whole member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn enter(&mut self, step: Step) {
        self.0.push(step);
    }

    pub(crate) fn leave(&mut self) {
        self.0.pop();
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) if is_plain(key) => {
                    f.write_str(if position > 0 { "." } else { "" })?;
                    f.write_str(key)?;
                }
                Step::Key(key) => write!(f, "['{}']", key.escape_debug())?,
            }
        }
        Ok(())
    }
}

fn is_plain(key: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '#' | '-');
    !key.is_empty() && key.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_display_as_field_accesses() {
        let root = KeyPath::default();
        assert_eq!(root.to_string(), "");
        let path = root.key("dma").index(3).key("desc").key("to_off");
        assert_eq!(path.to_string(), "dma[3].desc.to_off");
        assert_eq!(root.key("var").key("a b'").to_string(), r"var['a b\'']");
    }
}
