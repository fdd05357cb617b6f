//! `cargo xtask docs`: the pages generated from tables of the source.

use crate::kernel_page::kernel_page;
use crate::operator_support::OperatorSupport;
use crate::{Result, root};
use std::path::PathBuf;
use tenon_graph::operator_table_markdown;

/// A page's path and text.
type Page = (PathBuf, String);

/// Writes the pages.
pub fn write() -> Result<()> {
    pages().into_iter().try_for_each(|(path, text)| {
        std::fs::write(&path, text)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    })
}

fn pages() -> [Page; 2] {
    let support = OperatorSupport::new();
    let page = |name: &str, text| (root().join("docs").join(name), text);
    [
        page(
            "operators.md",
            operator_table_markdown(|op| support.lines(op)),
        ),
        page("kernels.md", kernel_page()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_are_up_to_date() {
        for (path, text) in pages() {
            let page = std::fs::read_to_string(&path).unwrap();
            let name = path.display();
            assert!(
                page == text,
                "{name} is stale: run `cargo xtask docs` and commit it"
            );
        }
    }
}
