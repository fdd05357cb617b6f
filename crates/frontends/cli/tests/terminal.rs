//! Control characters in names of hostile files do not reach the terminal.

mod common;

use common::{done, folder, tenon, tiny};
use serde_json::Value;

/// `\x1b[2J` clears a screen.
const SHOWN: &str = "\\u{1b}[2J";

#[test]
fn names_of_a_model_are_escaped_in_text_and_exact_in_json() {
    let folder = folder();
    let folder = folder.path();
    let model = tiny("escapes");
    let input = "x\u{1b}[2J";
    done(folder, &["compile", &model, "-o", "m.neff"]);
    done(
        folder,
        &["compile", &model, "-o", "r.neff", "--backends", "CpuRef"],
    );
    done(folder, &["unpack", "m.neff", "-o", "parts"]);
    std::fs::write(folder.join("parts/a\u{1b}[2Jb"), "text").unwrap();
    done(folder, &["pack", "-i", "parts", "-o", "p.neff"]);
    for (arguments, status) in [
        (&["run", &model, "--random", "1"][..], 0),
        (
            &["run", &model, "--random", "1", "--profile", "--tap", "*"],
            0,
        ),
        (&["run", &model], 2),
        (&["info", &model], 0),
        (&["info", "m.neff"], 0),
        (&["info", "m.neff", "--placement"], 0),
        (&["info", "r.neff", "--memory"], 0),
        (&["disasm", "m.neff"], 0),
        (&["ls", "p.neff"], 0),
        (&["verify", "p.neff"], 0),
        (&["diff", "m.neff", "p.neff"], 1),
        (&["profile", "m.neff", "--runs", "1"], 0),
        (&["compare", "m.neff", "--random", "1", "--all"], 0),
        (&["compile", &model, "--emit-graph"], 0),
        (&["compile", &model, "--placement", "-o", "q.neff"], 0),
    ] {
        let answer = tenon(folder, arguments);
        assert_eq!(answer.status, Some(status), "{arguments:?}: {}", answer.err);
        let text = answer.out + &answer.err;
        assert!(!text.contains('\u{1b}'), "{arguments:?}: {text:?}");
        let is_named = !matches!(arguments[0], "verify");
        assert!(text.contains(SHOWN) || !is_named, "{arguments:?}: {text}");
    }
    let answer = done(folder, &["info", "m.neff", "--json"]);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["inputs"][0]["name"], input);
    let answer = done(folder, &["ls", "p.neff", "--json"]);
    assert!(answer.contains("a\\u001b[2Jb"), "{answer}");
    // A member is printed unchanged if the output is not a terminal.
    std::fs::write(folder.join("parts/note"), "\u{1b}[2J\n").unwrap();
    done(folder, &["pack", "-i", "parts", "-o", "p.neff"]);
    assert_eq!(done(folder, &["cat", "p.neff", "note"]), "\u{1b}[2J\n");
}

#[test]
fn names_of_files_are_escaped() {
    let folder = folder();
    let folder = folder.path();
    let answer = tenon(folder, &["run", "no\u{1b}[2J.onnx"]);
    assert!(answer.err.contains(SHOWN), "{}", answer.err);
    assert!(!answer.err.contains('\u{1b}'), "{:?}", answer.err);
    std::fs::write(
        folder.join("n\u{1b}[2J.yaml"),
        "devices:\n  arch: \u{1b}[2J\n",
    )
    .unwrap();
    for command in [
        &["netlist", "check"][..],
        &["netlist", "show"],
        &["netlist", "test"],
    ] {
        let answer = tenon(folder, &[command, &["n\u{1b}[2J.yaml"]].concat());
        let text = answer.out + &answer.err;
        assert!(text.contains(SHOWN) && !text.contains('\u{1b}'), "{text:?}");
    }
    std::fs::write(folder.join("p\u{1b}[2J.mlir"), "func.func @\u{1b}[2J\n").unwrap();
    for command in ["exec", "opt"] {
        let answer = tenon(folder, &[command, "p\u{1b}[2J.mlir"]);
        assert!(answer.err.contains(SHOWN), "{}", answer.err);
        assert!(!answer.err.contains('\u{1b}'), "{:?}", answer.err);
    }
}
