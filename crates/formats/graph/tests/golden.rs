//! Golden tests: files of `tests/golden` hold a directive, a graph and the expected output.
//!
//! The first line is `// test: print`, `infer` or `verify`; the output follows a line of `----`.
//! `print` parses and writes the graph, `infer` also infers all types, `verify` reports the problems;
//! all three report the problems of parsing. With `TENON_BLESS=1` in the environment the files are
//! rewritten.

use std::fs;
use std::path::Path;
use tenon_graph::{Graph, verify};

const DIVIDER: &str = "----\n";

fn output(directive: &str, input: &str) -> String {
    let mut graph: Graph = match input.parse() {
        Ok(graph) => graph,
        Err(error) => return format!("{error}\n"),
    };
    match directive {
        "print" => graph.to_string(),
        "infer" => match graph.infer_types() {
            Ok(()) => graph.to_string(),
            Err(error) => format!("{error}\n"),
        },
        "verify" => match verify(&graph) {
            Ok(()) => "no problems\n".into(),
            Err(error) => format!("{error}\n"),
        },
        other => panic!("unknown directive '{other}'"),
    }
}

#[test]
fn golden_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bless = std::env::var_os("TENON_BLESS").is_some();
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let (input, expected) = text.split_once(DIVIDER).unwrap_or((&text, ""));
        let directive = input
            .lines()
            .next()
            .unwrap_or("")
            .strip_prefix("// test: ")
            .unwrap();
        let found = output(directive, input);
        count += 1;
        if bless {
            fs::write(&path, format!("{input}{DIVIDER}{found}")).unwrap();
        } else if found != expected {
            wrong.push(format!(
                "{}:\nexpected\n{expected}\nfound\n{found}",
                path.display()
            ));
        }
    }
    assert!(count > 0);
    assert!(
        wrong.is_empty(),
        "{}\nset TENON_BLESS=1 to accept",
        wrong.join("\n")
    );
}
