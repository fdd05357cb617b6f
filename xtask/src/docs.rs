//! `cargo xtask docs`: the pages that are written from tables of the program.

use crate::{Result, root};
use std::path::PathBuf;
use tenon_graph::operator_table_markdown;

/// Writes them.
pub fn write() -> Result<()> {
    let path = operators();
    std::fs::write(&path, operator_table_markdown())
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn operators() -> PathBuf {
    root().join("docs/operators.md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_page_is_fresh() {
        let page = std::fs::read_to_string(operators()).unwrap();
        assert!(
            page == operator_table_markdown(),
            "docs/operators.md is stale: run `cargo xtask docs` and commit it"
        );
    }
}
