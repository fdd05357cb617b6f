//! Names of inputs and outputs that every client can use.
//!
//! A model's own names may hold anything; clients make files and C strings of them. The names given
//! here are unique, at most [`LONGEST`] bytes, and file names.

use std::collections::HashSet;

/// Most bytes of a name: a file of it may have an extension of three letters (255 bytes in all).
const LONGEST: usize = 251;

/// A name for each of a model's own, in order. A name that is fit already stays, where it is the
/// first.
pub(crate) fn given<'a>(own: impl Iterator<Item = &'a str>) -> Vec<String> {
    let own: Vec<&str> = own.collect();
    // Fit names come first, so that none has to change for one that was made.
    let mut taken: HashSet<String> = HashSet::new();
    let mut given: Vec<Option<String>> = own
        .iter()
        .map(|&own| {
            let name = fit(own);
            (name == own && taken.insert(name.clone())).then_some(name)
        })
        .collect();
    for (slot, own) in given.iter_mut().zip(&own) {
        if slot.is_none() {
            *slot = Some(unique(&fit(own), &mut taken));
        }
    }
    given.into_iter().flatten().collect()
}

fn fit(name: &str) -> String {
    let part = |char: char| match char {
        '/' | '\\' => '_',
        char if char.is_control() => '_',
        char => char,
    };
    let name: String = name.chars().map(part).collect();
    match name.as_str() {
        "" | "." | ".." => "_".repeat(name.len().max(1)),
        _ => cut(&name, LONGEST).to_owned(),
    }
}

fn unique(name: &str, taken: &mut HashSet<String>) -> String {
    let mut number = 1u64;
    loop {
        let end = format!("_{number}");
        let candidate = match number {
            1 if !taken.contains(name) => name.to_owned(),
            _ => format!("{}{end}", cut(name, LONGEST - end.len())),
        };
        if taken.insert(candidate.clone()) {
            return candidate;
        }
        number += 1;
    }
}

fn cut(name: &str, most: usize) -> &str {
    &name[..name.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(own: &[&str]) -> Vec<String> {
        given(own.iter().copied())
    }

    #[test]
    fn fit_names_stay_and_others_give_way() {
        assert_eq!(names(&["x", "y.1", "café"]), ["x", "y.1", "café"]);
        assert_eq!(names(&["a/b", "a_b", "a/b"]), ["a_b_1", "a_b", "a_b_2"]);
        assert_eq!(names(&["x", "x"]), ["x", "x_1"]);
        assert_eq!(names(&["", ".", "..", "a\0b"]), ["_", "__1", "__", "a_b"]);
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let long = "é".repeat(200);
        let cut = names(&[&long, &long]);
        assert_eq!((cut[0].len(), cut[1].len()), (250, 250));
        assert!(cut[1].ends_with("é_1"));
    }

    proptest! {
        #[test]
        fn names_are_unique_file_names(own in prop::collection::vec(".{0,3}|[./a]{0,3}|a{250,260}", 0..20)) {
            let given = given(own.iter().map(String::as_str));
            prop_assert_eq!(given.len(), own.len());
            let all: HashSet<&String> = given.iter().collect();
            prop_assert_eq!(all.len(), own.len());
            for name in &given {
                prop_assert!(!name.is_empty() && name.len() <= LONGEST, "{}", name);
                prop_assert!(!name.contains(['/', '\0']) && name != "." && name != "..");
            }
        }
    }
}
