//! `cargo xtask words`: where the project uses a word of `xtask/words.txt`.

use crate::{Result, root};
use regex_lite::Regex;
use std::path::Path;
use std::process::Command;

/// Ends a line that may use any word.
const ALLOW: &str = "words: allow";

/// Files that are compared: sources, documents, manifests and scripts.
const EXTENSIONS: [&str; 9] = ["rs", "md", "h", "c", "cc", "py", "toml", "sh", "in"];

/// Folders of test inputs, and files with a history or quotations.
const SKIPPED: [&str; 8] = [
    "/tests/golden/",
    "/tests/verify/",
    "/tests/hostile/",
    "/tests/data/",
    "tests/python/onnx",
    "xtask/words.txt",
    "xtask/src/words.rs",
    "CHANGELOG.md",
];

/// A line of the list.
struct Rule {
    pattern: Regex,
    instead: String,
    /// Only files below these; all where empty.
    folders: Vec<String>,
}

/// The list.
struct WordList {
    rules: Vec<Rule>,
    allowed: Vec<Regex>,
    /// Definitions of types that are no nouns; one expression for each line of names.
    types: Vec<Regex>,
}

impl WordList {
    fn parse(text: &str) -> Result<Self> {
        let mut list = Self {
            rules: Vec::new(),
            allowed: Vec::new(),
            types: Vec::new(),
        };
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(pattern) = line.strip_prefix("allow:") {
                list.allowed.push(whole_words(pattern.trim())?);
                continue;
            }
            if let Some(names) = line.strip_prefix("types:") {
                let names: Vec<&str> = names.split_whitespace().collect();
                let names = names.join("|");
                let definition = format!("(?:struct|enum|trait|type) (?:{names})");
                list.types.push(whole_words(&definition)?);
                continue;
            }
            let mut cells = line.split(" | ").map(str::trim);
            let (Some(pattern), Some(instead)) = (cells.next(), cells.next()) else {
                return Err(format!(
                    "xtask/words.txt: expected `pattern | word`: {line}"
                ));
            };
            let folders = cells.next().unwrap_or_default().split_whitespace();
            list.rules.push(Rule {
                pattern: whole_words(pattern)?,
                instead: instead.to_owned(),
                folders: folders.map(str::to_owned).collect(),
            });
        }
        Ok(list)
    }

    /// The words of the list in a file, each as `path:line: word`.
    fn find(&self, path: &str, text: &str) -> Vec<String> {
        let applies = |rule: &&Rule| {
            let below = |folder: &String| path.starts_with(folder.as_str());
            rule.folders.is_empty() || rule.folders.iter().any(below)
        };
        let rules: Vec<&Rule> = self.rules.iter().filter(applies).collect();
        let mut found = Vec::new();
        for (number, line) in text.lines().enumerate() {
            // A comment may end after the mark: `words: allow -->`, `words: allow */`.
            let end = line.trim_end_matches([' ', '-', '>', '*', '/']);
            if end.ends_with(ALLOW) {
                continue;
            }
            let at = number + 1;
            for definition in self.types.iter().filter_map(|types| types.find(line)) {
                let definition = definition.as_str();
                found.push(format!("{path}:{at}: `{definition}`: a type is a noun"));
            }
            let mut words = separate_words(line);
            for allowed in &self.allowed {
                words = allowed.replace_all(&words, "").into_owned();
            }
            for rule in &rules {
                for word in rule.pattern.find_iter(&words) {
                    let (word, instead, line) = (word.as_str(), &rule.instead, line.trim());
                    found.push(format!("{path}:{at}: `{word}`, not: {instead}: {line}"));
                }
            }
        }
        found
    }
}

fn whole_words(pattern: &str) -> Result<Regex> {
    let pattern = format!(r"\b(?:{pattern})\b");
    Regex::new(&pattern).map_err(|error| format!("xtask/words.txt: {pattern}: {error}"))
}

/// A line in lower case, its identifiers separated into words.
fn separate_words(line: &str) -> String {
    let mut words = String::with_capacity(line.len() + 16);
    let mut after_lower = false;
    for character in line.chars() {
        if after_lower && character.is_ascii_uppercase() {
            words.push(' ');
        }
        after_lower = character.is_ascii_lowercase() || character.is_ascii_digit();
        words.push(match character {
            '_' | '\'' => ' ',
            other => other.to_ascii_lowercase(),
        });
    }
    words
}

/// The files of the repository that are compared, below `paths` or all.
fn files(paths: &[String]) -> Result<Vec<String>> {
    let mut command = Command::new("git");
    command.current_dir(root()).args(["ls-files", "--"]);
    let output = command.args(paths).output();
    let output = output.map_err(|error| format!("cannot list the files: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_compared = |path: &&str| {
        let extension = Path::new(path).extension().and_then(|name| name.to_str());
        extension.is_some_and(|name| EXTENSIONS.contains(&name))
            && !SKIPPED.iter().any(|part| path.contains(part))
    };
    Ok(listed
        .lines()
        .filter(is_compared)
        .map(str::to_owned)
        .collect())
}

/// Every use of a word of the list below `paths`, or anywhere.
fn findings(paths: &[String]) -> Result<Vec<String>> {
    let list = std::fs::read_to_string(root().join("xtask/words.txt"))
        .map_err(|error| format!("cannot read xtask/words.txt: {error}"))?;
    let list = WordList::parse(&list)?;
    let mut found = Vec::new();
    for path in files(paths)? {
        if let Ok(text) = std::fs::read_to_string(root().join(&path)) {
            found.extend(list.find(&path, &text));
        }
    }
    Ok(found)
}

/// Prints every use.
pub fn words(paths: &[String]) -> Result<()> {
    let found = findings(paths)?;
    for line in &found {
        println!("{line}");
    }
    match found.len() {
        0 => Ok(()),
        1 => Err("1 use of a word in xtask/words.txt".to_owned()),
        count => Err(format!("{count} uses of words in xtask/words.txt")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_of_the_list_is_used() {
        let found = findings(&[]).unwrap();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn words_are_found_in_identifiers_and_text() {
        let list = "# comment\ntells? | reports | crates\nnumbers | elements\n\
                    allow: line numbers\ntypes: Bound Told\n";
        let list = WordList::parse(list).unwrap();
        let find = |path: &str, line: &str| list.find(path, line).len();
        assert_eq!(find("crates/a.rs", "fn tell_it() {} // it tells"), 2);
        assert_eq!(find("crates/a.rs", "struct TellTale;"), 1);
        assert_eq!(find("docs/a.md", "it tells"), 0);
        assert_eq!(find("docs/a.md", "numbers and line numbers"), 1);
        assert_eq!(find("docs/a.md", "numbers // words: allow"), 0);
        assert_eq!(find("docs/a.md", "numbers <!-- words: allow -->"), 0);
        assert_eq!(find("crates/a.rs", "teller numbered"), 0);
        assert_eq!(find("crates/a.rs", "pub struct Bound {"), 1);
        assert_eq!(find("crates/a.rs", "pub struct BoundConv {"), 0);
        assert!(WordList::parse("no second cell").is_err());
    }
}
