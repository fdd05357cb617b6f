//! Sections that tasks write into pages of `docs`.

/// A page with this section, in the place of the one of that title; a new one is appended.
pub fn with_section(page: &str, title: &str, text: &str) -> String {
    let head = format!("\n## {title}\n");
    let start = page.find(&head).unwrap_or(page.len());
    let rest = page[start..].get(1..).unwrap_or_default();
    let end = rest.find("\n## ").map_or("", |at| &rest[at + 1..]);
    let before = page[..start].trim_end();
    let page = format!("{before}\n{head}\n{}\n\n{end}", text.trim_end());
    format!("{}\n", page.trim_end())
}
