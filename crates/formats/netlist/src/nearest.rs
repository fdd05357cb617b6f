//! Words that are near each other: what a slip of the pen was probably meant to be.

/// The known word that `name` is probably a slip of.
pub(crate) fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let letters = name.chars().count();
    let near = known.filter(|word| word.len().abs_diff(name.len()) <= 2 * MOST_BYTES);
    let (distance, word) = near.map(|word| (distance(name, word), word)).min()?;
    (distance <= 2 && distance < letters).then_some(word)
}

/// Bytes that a character takes at most.
const MOST_BYTES: usize = 4;

/// Letters to insert, drop or change to get from one word to the other.
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
    fn a_slip_finds_its_word() {
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
