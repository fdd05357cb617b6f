//! Updates of docs/benchmarks.md: one section.

use crate::{Result, root};

/// Replaces the section with this title; a new section is appended.
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
