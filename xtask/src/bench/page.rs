//! The page of benchmarks: a first part, and sections that are made by themselves.

use crate::{Result, root};

/// Writes the page anew with another first part, all sections kept.
pub fn write_first(text: &str) -> Result<()> {
    change(|page| {
        let sections = page.find("\n## ").map_or("", |at| &page[at + 1..]);
        format!("{}\n\n{sections}", text.trim_end())
    })
}

/// Writes the page anew with another section of this title; a new one comes last.
pub fn write_section(title: &str, text: &str) -> Result<()> {
    change(|page| {
        let head = format!("\n## {title}\n");
        let start = page.find(&head).unwrap_or(page.len());
        let rest = page[start..].get(1..).unwrap_or_default();
        let end = rest.find("\n## ").map_or("", |at| &rest[at + 1..]);
        let before = page[..start].trim_end();
        let page = format!("{before}\n{head}\n{}\n\n{end}", text.trim_end());
        format!("{}\n", page.trim_end())
    })
}

fn change(change: impl FnOnce(&str) -> String) -> Result<()> {
    let path = root().join("docs/benchmarks.md");
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    std::fs::write(&path, change(&page))
        .map_err(|e| format!("cannot write {}: {e}", path.display()))
}
