//! Unique, portable names of inputs and outputs.
//!
//! The names of a model may contain any characters; clients use them as file names and C strings.
//! The names assigned here are unique, at most [`MAX_BYTES`] long, and valid file names.

use std::collections::HashSet;

/// The maximum length of a name in bytes: a file name of 255 bytes minus an extension of three
/// letters.
const MAX_BYTES: usize = 251;

/// Assigns a name to each of a model's names, in order. A valid name is kept at its first
/// occurrence.
pub(crate) fn assign_names<'a>(own: impl Iterator<Item = &'a str>) -> Vec<String> {
    let own: Vec<&str> = own.collect();
    // Valid names are assigned first, so that none changes because of a generated one.
    let mut taken: HashSet<String> = HashSet::new();
    let mut assigned: Vec<Option<String>> = own
        .iter()
        .map(|&own| {
            let name = fit(own);
            (name == own && taken.insert(name.clone())).then_some(name)
        })
        .collect();
    for (slot, own) in assigned.iter_mut().zip(&own) {
        if slot.is_none() {
            *slot = Some(unique(&fit(own), &mut taken));
        }
    }
    assigned.into_iter().flatten().collect()
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
        _ => cut(&name, MAX_BYTES).to_owned(),
    }
}

fn unique(name: &str, taken: &mut HashSet<String>) -> String {
    let mut number = 1u64;
    loop {
        let end = format!("_{number}");
        let candidate = match number {
            1 if !taken.contains(name) => name.to_owned(),
            _ => format!("{}{end}", cut(name, MAX_BYTES - end.len())),
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
        assign_names(own.iter().copied())
    }

    #[test]
    fn valid_names_are_kept_and_others_are_changed() {
        assert_eq!(names(&["x", "y.1", "café"]), ["x", "y.1", "café"]);
        assert_eq!(names(&["a/b", "a_b", "a/b"]), ["a_b_1", "a_b", "a_b_2"]);
        assert_eq!(names(&["x", "x"]), ["x", "x_1"]);
        assert_eq!(names(&["", ".", "..", "a\0b"]), ["_", "__1", "__", "a_b"]);
    }

    #[test]
    fn long_names_are_truncated_at_character_boundaries() {
        let long = "é".repeat(200);
        let cut = names(&[&long, &long]);
        assert_eq!((cut[0].len(), cut[1].len()), (250, 250));
        assert!(cut[1].ends_with("é_1"));
    }

    proptest! {
        #[test]
        fn names_are_unique_file_names(own in prop::collection::vec(".{0,3}|[./a]{0,3}|a{250,260}", 0..20)) {
            let assigned = assign_names(own.iter().map(String::as_str));
            prop_assert_eq!(assigned.len(), own.len());
            let all: HashSet<&String> = assigned.iter().collect();
            prop_assert_eq!(all.len(), own.len());
            for name in &assigned {
                prop_assert!(!name.is_empty() && name.len() <= MAX_BYTES, "{}", name);
                prop_assert!(!name.contains(['/', '\0']) && name != "." && name != "..");
            }
        }
    }
}
