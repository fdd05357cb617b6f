//! File names for values, nodes and graphs of a model.

use std::collections::{HashMap, HashSet};

/// Bytes of a file name at most, without its ending. File systems accept 255 with it (NAME_MAX).
const LONGEST: usize = 200;

/// A valid file name: characters that not every file system accepts become `_`, and long names are
/// truncated.
pub fn file_name(name: &str) -> String {
    let safe = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ' ');
    let mut name: String = name
        .chars()
        .map(|c| if safe(c) { c } else { '_' })
        .collect();
    if name.trim_matches('.').is_empty() {
        name.insert_str(0, "value");
    }
    name.truncate(name.floor_char_boundary(LONGEST));
    name
}

/// Distinct file names. Names that are valid stay as they are; changed names that are already in use
/// get a numeric suffix.
pub fn file_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let names: Vec<&str> = names.into_iter().collect();
    let mut files: Vec<String> = names.iter().map(|name| file_name(name)).collect();
    let mut taken = HashSet::new();
    let keeps: Vec<bool> = names
        .iter()
        .zip(&files)
        .map(|(name, file)| name == file && taken.insert(file.clone()))
        .collect();
    // The last suffix of each stem, which keeps many equal names linear.
    let mut suffixes: HashMap<String, usize> = HashMap::new();
    for (file, _) in files.iter_mut().zip(keeps).filter(|(_, keeps)| !keeps) {
        let stem = file.clone();
        let suffix = suffixes.entry(stem.clone()).or_insert(1);
        while !taken.insert(file.clone()) {
            *suffix += 1;
            *file = format!("{stem}.{suffix}");
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_names_of_files() {
        assert_eq!(file_name("a/b:c"), "a_b_c");
        assert_eq!(file_name(".."), "value..");
        assert_eq!(file_name(""), "value");
        assert_eq!(file_name("\u{1b}[2J"), "__2J");
        // 150 letters of two bytes.
        assert_eq!(file_name(&"é".repeat(150)), "é".repeat(100));
        assert_eq!(
            file_name(&("x".to_owned() + &"é".repeat(150))).len(),
            LONGEST - 1
        );
    }

    #[test]
    fn no_two_files_have_one_name() {
        let long = ["1", "2"].map(|end| "L".repeat(LONGEST) + end);
        let names = ["a/b", "a_b", "a:b", "a_b.2", "a b", &long[0], &long[1]];
        let cut = "L".repeat(LONGEST);
        let second = format!("{cut}.2");
        assert_eq!(
            file_names(names),
            ["a_b.3", "a_b", "a_b.4", "a_b.2", "a b", &cut, &second]
        );
        let many: Vec<String> = (0..20_000).map(|n| format!("/{}", n % 2)).collect();
        let files = file_names(many.iter().map(String::as_str));
        assert_eq!(files.iter().collect::<HashSet<_>>().len(), many.len());
    }
}
