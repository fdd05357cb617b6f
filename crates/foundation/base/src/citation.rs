//! Citations: the sections of Tenon's pages that state a rule.

use std::fmt;

/// A section of a page in `docs`, or the page. Display is a link from the root of the repository:
/// `docs/neff.md#2.8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Citation<'a> {
    /// The name of the page, without folder and extension.
    name: &'a str,
    /// The anchor of the section; none: the page.
    pub anchor: Option<&'a str>,
}

impl<'a> Citation<'a> {
    /// The citations of a source: the word of a page, then anchors of its sections. `neff 2.4, 2.7` cites two sections of
    /// `docs/neff.md`, `neff` the page.
    pub fn all(source: &'a str) -> impl Iterator<Item = Self> {
        let (word, anchors) = source.split_once(' ').unwrap_or((source, ""));
        let name = if word == "netlist" { "netlists" } else { word };
        anchors.split(", ").map(move |anchor| Self {
            name,
            anchor: (!anchor.is_empty()).then_some(anchor),
        })
    }

    /// The page's path in the repository.
    pub fn page(&self) -> String {
        format!("docs/{}.md", self.name)
    }
}

impl fmt::Display for Citation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.page())?;
        self.anchor.map_or(Ok(()), |anchor| write!(f, "#{anchor}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_as_links() {
        let links = |source| Citation::all(source).map(|it| it.to_string());
        assert!(links("neff 2.8").eq(["docs/neff.md#2.8"]));
        assert!(links("netlist 3.2, 7.1").eq(["docs/netlists.md#3.2", "docs/netlists.md#7.1"]));
        assert!(links("dma access-patterns").eq(["docs/dma.md#access-patterns"]));
        assert!(links("package").eq(["docs/package.md"]));
    }
}
