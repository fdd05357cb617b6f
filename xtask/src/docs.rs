//! `cargo xtask docs`: the pages generated from tables of the source.

use crate::fast_page::fast_page;
use crate::kernel_page::kernel_page;
use crate::operator_support::{MeasuredTypes, OperatorSupport};
use crate::operator_tests::OperatorTests;
use crate::rule_table::rule_table;
use crate::section::with_section;
use crate::{Result, output, python, root};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tenon_graph::operator::all;
use tenon_graph::operator_table_markdown;

/// A page's path and text.
type Page = (PathBuf, String);

/// Writes the pages.
pub fn write() -> Result<()> {
    let interface = python_page(&python::for_tests()?)?;
    pages()?
        .into_iter()
        .chain([interface])
        .try_for_each(|(path, text)| {
            std::fs::write(&path, text)
                .map_err(|error| format!("cannot write {}: {error}", path.display()))
        })
}

/// The page of the Python package, from its stubs and docstrings.
fn python_page(python: &Path) -> Result<Page> {
    let mut command = Command::new(python);
    command.arg(root().join("xtask/python/api_page.py"));
    let text = output(command.arg(root().join("python/python/tenon")))?;
    Ok((root().join("docs/python-api.md"), text))
}

fn pages() -> Result<[Page; 4]> {
    let (support, tests) = (OperatorSupport::new(), OperatorTests::new()?);
    let measured: HashMap<&str, MeasuredTypes> =
        all().map(|op| (op.name, support.measured(op))).collect();
    let mut missing = Vec::new();
    let operators = operator_table_markdown(|op| {
        let line = tests.line(op.name);
        let line = line.unwrap_or_else(|error| {
            missing.push(error.to_string());
            String::new()
        });
        measured[op.name].lines() + &line
    });
    if !missing.is_empty() {
        return Err(missing.join("\n"));
    }
    let path = |name: &str| root().join("docs").join(name);
    let page = |name: &str, text| (path(name), text);
    let neff = std::fs::read_to_string(path("neff.md"))
        .map_err(|error| format!("cannot read docs/neff.md: {error}"))?;
    Ok([
        page("neff.md", with_section(&neff, "Rules", &rule_table())),
        page("operators.md", operators),
        page("fast.md", fast_page(&measured)?),
        page("kernels.md", kernel_page()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expect_current((path, text): Page) {
        let page = std::fs::read_to_string(&path).unwrap_or_default();
        let name = path.display();
        assert!(
            page == text,
            "{name} is stale: run `cargo xtask docs` and commit it"
        );
    }

    #[test]
    fn the_pages_are_up_to_date() {
        pages().unwrap().into_iter().for_each(expect_current);
    }

    #[test]
    fn the_page_of_the_python_interface_is_up_to_date() {
        let Some(python) = std::env::var_os("TENON_PYTHON") else {
            println!("skipped: TENON_PYTHON is not set");
            return;
        };
        let (path, text) = python_page(Path::new(&python)).unwrap();
        let sections = [
            "\n### `from_torch`\n",
            "\n### `Model`\n",
            "\n## `tenon.onnxruntime`\n",
        ];
        for section in sections {
            assert!(text.contains(section), "{section}");
        }
        expect_current((path, text));
    }
}
