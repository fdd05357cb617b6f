//! Spelling suggestions by Levenshtein distance (Levenshtein, "Binary codes capable of correcting
//! deletions, insertions, and reversals", 1966).

/// The known word that `name` is probably a misspelling of.
pub(crate) fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let letters = name.chars().count();
    let near = known.filter(|word| word.len().abs_diff(name.len()) <= 2 * MOST_BYTES);
    let (distance, word) = near.map(|word| (distance(name, word), word)).min()?;
    (distance <= 2 && distance < letters).then_some(word)
}

/// Maximum number of bytes of a character in UTF-8.
const MOST_BYTES: usize = 4;

/// The Levenshtein distance, over the first 64 characters of `a`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for j in 0..b.len() {
            let change = diagonal + usize::from(letter != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelling_finds_its_word() {
        let near = |name, known: &[&'static str]| nearest(name, known.iter().copied());
        assert_eq!(
            near("gird_size", &["grid_size", "grid_loc"]),
            Some("grid_size")
        );
        assert_eq!(near("x", &["t", "df"]), None);
        assert_eq!(near("x", &[]), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
