//! The operator table compared with the schemas of the `onnx` package: names, order and arity of
//! operands, names and kinds of attributes. Needs a Python with `onnx`, named by the environment
//! variable `TENON_PYTHON`.
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::collections::HashMap;
use std::process::Command;
use tenon_graph::OperatorDef;
use tenon_graph::operator::{Arity, OperandDef, all};

/// Intended differences from the schema: the part, and the reason.
const DIFFERENT: &[(&str, &str, &str)] = &[
    (
        "BatchNormalization",
        "outputs",
        "running statistics are made in training only",
    ),
    ("Dropout", "outputs", "the mask is of use in training only"),
    (
        "Constant",
        "attributes",
        "strings and sparse tensors are not known",
    ),
    ("Max", "inputs", "named after all inputs, not the first"),
    ("Min", "inputs", "named after all inputs, not the first"),
    ("Mean", "inputs", "named after all inputs, not the first"),
    ("Sum", "inputs", "named after all inputs, not the first"),
];

/// Attributes that are element types: integers in ONNX, names in Tenon.
const ELEMENT_TYPES: &[&str] = &[
    "to",
    "dtype",
    "output_dtype",
    "output_datatype",
    "precision",
    "softmax_precision",
];

fn operands(rows: &[OperandDef]) -> String {
    let texts: Vec<String> = rows
        .iter()
        .map(|row| {
            let arity = match row.arity {
                Arity::Required => "",
                Arity::Optional => "?",
                Arity::Variadic => "*",
            };
            format!("{}{arity}", row.name)
        })
        .collect();
    texts.join(" ")
}

fn attributes(def: &OperatorDef) -> String {
    let mut texts: Vec<String> = def
        .attributes
        .iter()
        .map(|row| {
            let kind = if ELEMENT_TYPES.contains(&row.name) {
                "int".to_owned()
            } else {
                row.kind.to_string()
            };
            format!("{}:{kind}{}", row.name, if row.required { "!" } else { "" })
        })
        .collect();
    texts.sort();
    texts.join(" ")
}

#[test]
fn rows_agree_with_the_schemas() {
    let Some(python) = std::env::var_os("TENON_PYTHON") else {
        eprintln!("skipped: TENON_PYTHON is not set");
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/onnx_schemas.py");
    let output = Command::new(python).arg(script).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let schemas: HashMap<&str, Vec<&str>> = text
        .lines()
        .filter_map(|line| Some((line.split('|').next()?, line.split('|').collect())))
        .collect();

    let mut wrong = Vec::new();
    for def in all().filter(|def| !def.name.starts_with("tenon.")) {
        let Some(schema) = schemas.get(def.name) else {
            wrong.push(format!("{}: no schema", def.name));
            continue;
        };
        let ours = [
            ("inputs", operands(def.inputs)),
            ("outputs", operands(def.outputs)),
            ("attributes", attributes(def)),
        ];
        for ((part, ours), theirs) in ours.into_iter().zip(&schema[1..]) {
            let known = DIFFERENT
                .iter()
                .any(|&(name, what, _)| (name, what) == (def.name, part));
            if known == (ours == *theirs) {
                wrong.push(format!(
                    "{} {part}:\n  ours   {ours}\n  theirs {theirs}",
                    def.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
