//! Glob patterns (POSIX.1, 2.13) of names: `*` and `?`, no brackets.

use std::fmt;

/// A glob pattern: `*` matches any sequence of characters, also the empty one, `?` matches one
/// character, every other character matches itself.
///
/// ```
/// let pattern = tenon_base::Pattern::new("layer?/*conv");
/// assert!(pattern.matches("layer1/block/conv") && pattern.matches("layer2/conv"));
/// assert!(!pattern.matches("layer10/conv"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern `text`; every text is a valid pattern.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches the whole `name`. The time is at most proportional to the
    /// product of both lengths: only the last `*` is backtracked to.
    pub fn matches(&self, name: &str) -> bool {
        let (mut pattern, mut name) = (self.0.chars(), name.chars());
        // The rest of the pattern after the last star, and the position in the name where that rest
        // was last tried.
        let mut backtrack: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
        loop {
            let before = name.clone();
            match (pattern.next(), name.next()) {
                (None, None) => return true,
                (Some('*'), _) => {
                    (backtrack, name) = (Some((pattern.clone(), before.clone())), before);
                    continue;
                }
                (Some('?'), Some(_)) => continue,
                (Some(a), Some(b)) if a == b => continue,
                _ => {}
            }
            // Mismatch: the last star matches one more character.
            let Some((after_star, mut from)) = backtrack.take() else {
                return false;
            };
            if from.next().is_none() {
                return false;
            }
            (pattern, name) = (after_star.clone(), from.clone());
            backtrack = Some((after_star, from));
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
    fn stars_and_question_marks_match_characters() {
        for (pattern, name, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "any/name", true),
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
    fn matching_time_is_not_exponential() {
        let name = "a".repeat(2000);
        assert!(!Pattern::new("*a".repeat(500) + "b").matches(&name));
    }
}
