//! Counts in messages: `1 tile`, `2 tiles`.

use std::fmt;

/// A count and the singular of its noun. Its `Display` has the noun in the singular for 1, else in
/// the plural.
///
/// ```
/// use tenon_base::Count;
/// assert_eq!(Count(1, "tile").to_string(), "1 tile");
/// assert_eq!(Count(0, "entry").to_string(), "0 entries");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count<'n, N>(pub N, pub &'n str);

impl<N: fmt::Display + PartialEq + From<u8>> fmt::Display for Count<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number, noun) = self;
        if *number == N::from(1) {
            return write!(f, "{number} {noun}");
        }
        if ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end)) {
            return write!(f, "{number} {noun}es");
        }
        match noun.strip_suffix('y') {
            Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => write!(f, "{number} {stem}ies"),
            _ => write!(f, "{number} {noun}s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_noun_is_singular_for_one_only() {
        let text = |number: u64, noun| Count(number, noun).to_string();
        assert_eq!(
            [text(0, "tile"), text(1, "tile"), text(2, "tile")],
            ["0 tiles", "1 tile", "2 tiles"]
        );
        assert_eq!(Count(1usize, "core").to_string(), "1 core");
    }

    #[test]
    fn plurals_follow_the_spelling_of_the_noun() {
        let plural = |noun| Count(2u32, noun).to_string();
        assert_eq!(
            ["entry", "delay", "mismatch", "process", "index"].map(plural),
            [
                "2 entries",
                "2 delays",
                "2 mismatches",
                "2 processes",
                "2 indexes"
            ]
        );
    }
}
