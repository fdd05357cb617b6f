//! Patterns of names, as a shell has them for files.

use std::fmt;

/// A pattern in which `*` stands for any characters, none too, and `?` for one. All others stand
/// for themselves.
///
/// ```
/// let pattern = tenon_base::Pattern::new("layer?/*conv");
/// assert!(pattern.matches("layer1/block/conv") && pattern.matches("layer2/conv"));
/// assert!(!pattern.matches("layer10/conv"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern of a text; every text is one.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole of `name` is of this pattern. Takes at most the product of both lengths.
    pub fn matches(&self, name: &str) -> bool {
        let (mut rest, mut names) = (self.0.chars(), name.chars());
        // Behind the last star: what follows it, and the name from where it is tried.
        let mut again: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
        loop {
            let place = names.clone();
            match (rest.next(), names.next()) {
                (None, None) => return true,
                (Some('*'), _) => {
                    (again, names) = (Some((rest.clone(), place.clone())), place);
                    continue;
                }
                (Some('?'), Some(_)) => continue,
                (Some(a), Some(b)) if a == b => continue,
                _ => {}
            }
            // The star takes one character more.
            let Some((behind, mut from)) = again.take() else {
                return false;
            };
            if from.next().is_none() {
                return false;
            }
            (rest, names) = (behind.clone(), from.clone());
            again = Some((behind, from));
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_marks_stand_for_characters() {
        for (pattern, name, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "any/thing", true),
            ("a*", "a", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("*ab", "aab", true),
            ("*a*b*", "xaxbx", true),
            ("*a*b*", "xbxax", false),
            ("?", "é", true),
            ("?", "", false),
            ("a?c", "ac", false),
            ("conv[1]", "conv[1]", true),
            ("**", "x", true),
            ("*?", "", false),
        ] {
            assert_eq!(
                Pattern::new(pattern).matches(name),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn no_pattern_takes_long() {
        let name = "a".repeat(2000);
        assert!(!Pattern::new("*a".repeat(500) + "b").matches(&name));
    }
}
