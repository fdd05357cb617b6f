//! `docs/kernels.md`: the kernels of host programs, from their registration.

use crate::markdown;
use std::fmt::Write;
use tenon_executor::{KernelDef, Signature};

/// A section of the page: its heading and text, and the kernels of one library.
struct Library {
    heading: &'static str,
    text: &'static str,
    kernels: Vec<KernelDef>,
}

/// The text of the page.
pub(crate) fn kernel_page() -> String {
    let mut page = String::from(HEAD);
    for library in libraries() {
        let _ = write!(page, "\n## {}\n\n{}\n\n", library.heading, library.text);
        let rows = rows(&library.kernels);
        page += &markdown::table(
            "kernel | operands | attributes | results |",
            rows.iter().map(Row::cells),
        );
    }
    page
}

const HEAD: &str = "# Kernels

<!-- Written from the kernels' registration in crates/run/kernels and crates/testing/test-kernels; change it there. -->

The kernels of host programs. A kernel runs when all its operands are available. It accepts one chain
more than it declares, as a dependency. Attributes are in the order of their names. If a name has
several endings, `T` is the type of the ending; `..` is any number of operands or results.

A kernel is a function registered by name; its signature declares its operands, attributes and results:

```rust
struct Coordinate { x: i32, y: i32 }

impl Opaque for Coordinate {
    const TYPE: &'static str = \"!my.coordinate\";
}

registry.register(kernel(\"my.create\", |x: i32, y: i32| Coordinate { x, y }))?;
registry.register(kernel(\"my.print\", |at: &Coordinate, _: Chain, host: &Host| {
    host.print(format_args!(\"({}, {})\\n\", at.x, at.y));
    Chain
}))?;
```

`Attr<T>` is an attribute, `RestOperands` all further operands, `FunctionHandle` a reference to a function;
`Result` is the return type of a kernel that can fail, and `Host::spawn_result` returns a result
that a task computes. A program whose kernels do not match their registration is refused when it is loaded.
";

fn libraries() -> Vec<Library> {
    vec![
        Library {
            heading: "tfrt",
            text: "Arithmetic, chains, calls and loops.",
            kernels: tenon_kernels::tfrt::library(),
        },
        Library {
            heading: "ts",
            text: "Shapes of tensors.",
            kernels: tenon_kernels::ts::library(),
        },
        Library {
            heading: "tfrt_dht, tfrt_sht, coo",
            text: "Host tensors: dense, string, sparse.",
            kernels: tenon_kernels::dht::library(),
        },
        Library {
            heading: "tenon.dma, tenon.semaphore, tenon.event",
            text: "The programs of a package's engines (`docs/dma.md`).",
            kernels: tenon_kernels::engine_library(),
        },
        Library {
            heading: "tfrt_test, vt, tfrt_tutorial",
            text: "For tests; only `tenon exec` and tests load them.",
            kernels: tenon_test_kernels::library(),
        },
        Library {
            heading: "Native functions",
            text: "For tests; the bodies of functions that a program declares with `tfrt.native`.",
            kernels: tenon_test_kernels::natives(),
        },
    ]
}

/// Kernels whose names differ only in the ending.
struct Row<'a> {
    stem: &'a str,
    doc: &'a str,
    endings: Vec<&'a str>,
    signatures: Vec<&'a Signature>,
}

/// The kernels, grouped by stem and documentation, in the order of the first.
fn rows(kernels: &[KernelDef]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for kernel in kernels {
        let (stem, ending) = split(kernel.name());
        let doc = kernel.documentation();
        let signature = kernel.signature();
        let same = |row: &&mut Row<'_>| {
            row.stem == stem
                && row.doc == doc
                && row.signatures[0].results.len() == signature.results.len()
        };
        match rows.iter_mut().find(same) {
            Some(row) => {
                row.endings.push(ending);
                row.signatures.push(signature);
            }
            None => rows.push(Row {
                stem,
                doc,
                endings: vec![ending],
                signatures: vec![signature],
            }),
        }
    }
    rows
}

/// `tfrt.add` and `i32`; names of one or two parts have no ending.
fn split(name: &str) -> (&str, &str) {
    let second = name.match_indices('.').nth(1);
    second.map_or((name, ""), |(at, _)| (&name[..at], &name[at + 1..]))
}

impl Row<'_> {
    fn cells(&self) -> String {
        let name = match self.endings.as_slice() {
            [""] => format!("`{}`", self.stem),
            [ending] => format!("`{}.{ending}`", self.stem),
            endings => format!("`{}.` {}", self.stem, self.list(endings)),
        };
        let dots = |variadic: bool| if variadic { Some("..") } else { None };
        let first = self.signatures[0];
        let operands = self.types(|signature| &signature.operands, dots(first.variadic));
        let attributes = self.types(|signature| &signature.attributes, None);
        let results = self.types(|signature| &signature.results, dots(first.variadic_results));
        format!(
            "{name} | {operands} | {attributes} | {results} | {}",
            self.doc
        )
    }

    fn list(&self, endings: &[&str]) -> String {
        let quoted: Vec<String> = endings.iter().map(|ending| format!("`{ending}`")).collect();
        quoted.join(" ")
    }

    /// The types at each position, `T` where the rows' kernels differ.
    fn types(&self, part: impl Fn(&Signature) -> &Vec<&'static str>, more: Option<&str>) -> String {
        let first = part(self.signatures[0]);
        let same = |index: usize| {
            self.signatures
                .iter()
                .all(|signature| part(signature).get(index) == first.get(index))
        };
        let types = first
            .iter()
            .enumerate()
            .map(|(index, ty)| if same(index) { *ty } else { "T" })
            .chain(more);
        types.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn kernels_of_one_stem_are_one_row() {
        let page = kernel_page();
        assert!(page.contains("| `tfrt.minus.` `i32` `i64` | T, T |  | T | a - b, wrapping. |\n"));
        assert!(page.contains("| `tfrt.new.chain` |  |  | !tfrt.chain |"));
        assert!(page.contains("| `tfrt.merge.chains` | .. |  | !tfrt.chain |"));
    }

    #[test]
    fn every_kernel_has_a_unique_name_and_documentation() {
        let mut names = HashSet::new();
        for library in libraries() {
            for kernel in &library.kernels {
                let (name, doc) = (kernel.name(), kernel.documentation());
                assert!(names.insert(name.to_owned()), "{name} twice");
                assert!(doc.ends_with('.') && !doc.contains('|'), "{name}: {doc:?}");
            }
        }
    }
}
