//! `cargo xtask book`: the pages of the repository as a book, built by mdBook; its links are checked.

mod built;
mod markdown;
mod pages;

use crate::{Result, root, run, target, tools};
use pages::Pages;
use std::process::Command;

/// The version of mdBook that is installed into the target folder.
const VERSION: &str = "0.5.4";

/// The parts of mdBook that are compiled: without a server and without watching files.
const FEATURES: [&str; 3] = ["--no-default-features", "--features", "search"];

/// Builds the book and checks every link of its pages.
pub fn book() -> Result<()> {
    let target = std::path::absolute(target()).map_err(|error| error.to_string())?;
    let (staged, book) = (target.join("book-source"), target.join("book"));
    let pages = Pages::listed(root())?;
    let mut problems = pages.stage(&staged, &book)?;
    let program = tools::installed("mdbook", VERSION, &FEATURES)?;
    let mut build = Command::new(program);
    build.arg("build").arg(&staged).arg("--dest-dir").arg(&book);
    // Its log repeats the folders.
    run(build.env("MDBOOK_LOG", "warn"))?;
    let links = built::check(&book, |page| pages.source(page), &mut problems)?;
    if !problems.is_empty() {
        let count = problems.len();
        return Err(format!("links: {count}\n{}", problems.join("\n")));
    }
    println!(
        "{}: {} pages, {} links that lead to files and anchors, {} external links, which were not opened",
        book.join("index.html").display(),
        pages.count(),
        links.checked,
        links.external
    );
    Ok(())
}

/// Whether a link has a scheme, such as `https:`.
fn has_scheme(link: &str) -> bool {
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    link.split_once(':')
        .is_some_and(|(scheme, _)| !scheme.is_empty() && scheme.chars().all(is_of_scheme))
}

#[cfg(test)]
mod tests;
