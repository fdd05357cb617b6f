//! The links of the built pages: each leads to a file, and to an anchor in it.

use super::has_scheme;
use crate::Result;
use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};
use percent_encoding::percent_decode_str;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

/// How many links there are.
#[derive(Default)]
pub(super) struct LinkCounts {
    /// Those to files and anchors.
    pub(super) checked: usize,
    pub(super) external: usize,
}

/// A built page.
#[derive(Default)]
struct BuiltPage {
    links: Vec<String>,
    anchors: HashSet<String>,
}

/// Checks the links of all pages in a folder. `source` is the file of which a page was made.
pub(super) fn check(
    folder: &Path,
    source: impl Fn(&str) -> Option<String>,
    problems: &mut Vec<String>,
) -> Result<LinkCounts> {
    let pages = pages(folder)?;
    let mut counts = LinkCounts::default();
    for (name, page) in &pages {
        let at = source(name).unwrap_or_else(|| name.clone());
        for link in &page.links {
            if has_scheme(link) {
                counts.external += usize::from(link.starts_with("http"));
                continue;
            }
            counts.checked += 1;
            if let Err(problem) = check_link(folder, &pages, name, link) {
                problems.push(format!("{at}: {link}: {problem}"));
            }
        }
    }
    Ok(counts)
}

fn check_link(
    folder: &Path,
    pages: &BTreeMap<String, BuiltPage>,
    page: &str,
    link: &str,
) -> Result<()> {
    let decoded = |part| percent_decode_str(part).decode_utf8_lossy();
    let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
    let (path, fragment) = (decoded(path), decoded(fragment));
    let path = if path.is_empty() { page } else { &*path };
    if !folder.join(path).exists() {
        return Err("no such file".to_owned());
    }
    // Only pages of the book have anchors.
    let is_missing = |page: &BuiltPage| !page.anchors.contains(&*fragment);
    if !fragment.is_empty() && pages.get(path).is_some_and(is_missing) {
        return Err(format!("{path} has no anchor {fragment}"));
    }
    Ok(())
}

fn pages(folder: &Path) -> Result<BTreeMap<String, BuiltPage>> {
    let failed = |path: &Path, error| format!("{}: {error}", path.display());
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        if path.extension().is_some_and(|it| it == "html") {
            let text = fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            pages.insert(name.into_owned(), BuiltPage::of(&text));
        }
    }
    Ok(pages)
}

impl BuiltPage {
    fn of(text: &str) -> Self {
        let mut page = Self::default();
        let mut emitter = DefaultEmitter::default();
        // The text of scripts has no tags.
        emitter.naively_switch_states(true);
        for Ok(token) in Tokenizer::new_with_emitter(text, emitter) {
            if let Token::StartTag(tag) = token {
                let value = |name: &str| attribute(&tag, name);
                page.links
                    .extend(["href", "src"].into_iter().filter_map(value));
                page.anchors
                    .extend(["id", "name"].into_iter().filter_map(value));
            }
        }
        page
    }
}

fn attribute(tag: &StartTag<()>, name: &str) -> Option<String> {
    let value = tag.attributes.get(name.as_bytes())?;
    Some(String::from_utf8_lossy(value).into_owned())
}
