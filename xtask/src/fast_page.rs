//! `docs/fast.md`: which nodes the fast backend computes, and which the reference backend.

use crate::operator_support::MeasuredTypes;
use crate::operator_tests::section;
use crate::{Result, root};
use std::collections::HashMap;
use std::fmt::Write;
use tenon_compiler::counts_elements;
use tenon_graph::host::host_operators;
use tenon_graph::operator::{OperatorClass, all};
use tenon_graph::{DataType, OperatorDef};

/// Types that the table names together.
const GROUPS: [(&str, &[DataType]); 4] = [
    (
        "floats",
        &[DataType::F32, DataType::F64, DataType::F16, DataType::BF16],
    ),
    (
        "integers",
        &[
            DataType::I8,
            DataType::I16,
            DataType::I32,
            DataType::I64,
            DataType::U8,
            DataType::U16,
            DataType::U32,
            DataType::U64,
        ],
    ),
    (
        "floats of 8 bits",
        &[
            DataType::F8E3M4,
            DataType::F8E4M3,
            DataType::F8E4M3Fn,
            DataType::F8E4M3FnUz,
            DataType::F8E5M2,
            DataType::F8E5M2FnUz,
            DataType::F8E8M0Fnu,
        ],
    ),
    (
        "packed types",
        &[
            DataType::I2,
            DataType::U2,
            DataType::I4,
            DataType::U4,
            DataType::F4E2M1Fn,
        ],
    ),
];

/// The section of docs/benchmarks.md with the times of CpuRef.
const TIMES: &str = "Operators on the reference backend";

/// The text of the page.
pub(crate) fn fast_page(measured: &HashMap<&str, MeasuredTypes>) -> Result<String> {
    let mut page = String::from(HEAD);
    let benchmarks = std::fs::read_to_string(root().join("docs/benchmarks.md"))
        .map_err(|error| format!("cannot read docs/benchmarks.md: {error}"))?;
    page.push_str(&times(&benchmarks)?);
    page.push_str(TABLE);
    for (name, types) in GROUPS {
        let types: Vec<&str> = types.iter().map(|dtype| dtype.name()).collect();
        let _ = writeln!(page, "| {name} | {} |", types.join(", "));
    }
    page.push_str(
        "\n| family | operator | CpuAcc | only CpuRef | notes |\n|---|---|---|---|---|\n",
    );
    for op in all() {
        let types = &measured[op.name];
        let _ = writeln!(
            page,
            "| {} | [{}](operators.md#{}) | {} | {} | {} |",
            op.family,
            op.name,
            op.name.to_lowercase().replace('.', ""),
            list(&types.fast()),
            list(&types.slow()),
            notes(op, types)
        );
    }
    page.push_str(HOST);
    for op in host_operators() {
        let _ = writeln!(page, "| {} | {} | {} |", op.family, op.name, op.doc);
    }
    Ok(page)
}

const HEAD: &str = "# What is fast, and what is not

<!-- Written by `cargo xtask docs` from the operator table and from random nodes; change xtask/src/fast_page.rs. -->

Two backends are built in. *CpuAcc* is the fast one: vector instructions and weights in the layout of its kernels.
*CpuRef* is the reference, with which results are compared: every operator, computed plainly and in f64. A node runs on CpuAcc if
that supports its operator, types and dimensions, otherwise on CpuRef.

    tenon info model.neff --placement

prints the backend of each node of a package, and why CpuAcc refused those that run on CpuRef ([placement](placement.md)).
`tenon compile` prints a summary. `tenon profile model.neff` prints the time of each node ([profiles](monitoring.md)). If
a node on CpuRef takes a relevant share of a model's time, use another type or another operator, compute it by a C function
(`tenon compile --cpu-node`), or write a [backend](backends.md).
";

const TABLE: &str = "
## Operators

The types are those of the first input, as random small nodes had them (crates/testing/random-nodes): a type that none of these
nodes had is missing, which is no limit of the backend. Notes:

* *descriptors*: of these types, nodes need no backend.
* *view*: the same bytes with another shape; nothing is executed.
* *also CpuRef*: of these types, or all, some of the nodes run on CpuRef, because of their dimensions, their attributes, or operands
  that are not constants. The page [operators](operators.md) has the counts of dimensions.
* *host program*: see below.
* *not measured*: no random node of the operator was valid.

Names of several types:

| name | types |
|---|---|
";

const HOST: &str = "
## The host program

No backend computes control flow, sequences, optional values and strings: the host program of a package does. It also computes
operators whose elements decide the sizes of results, where they are not constants. `If`, `Loop` and `Scan` execute the
subgraphs of their bodies, whose nodes run as in the table above; an `If` of a constant condition becomes its branch, and a short loop with
a known number of iterations is unrolled. Each of these nodes separates subgraphs: those before it and those after it are not fused
with each other.

| family | operator | result |
|---|---|---|
";

/// How much slower CpuRef is, by the benchmarks.
fn times(benchmarks: &str) -> Result<String> {
    let missing = || format!("docs/benchmarks.md has no table of {TIMES:?}");
    let (anchor, text) = section(benchmarks, TIMES).ok_or_else(missing)?;
    let title = text.lines().next().unwrap_or_default();
    let row = text.lines().filter(|line| line.starts_with('|')).nth(2);
    let cells = row.map(|row| row.trim_matches('|').split('|').map(str::trim));
    let cells: Vec<&str> = cells.map(Iterator::collect).unwrap_or_default();
    let [cases, within, _, largest] = cells[..] else {
        return Err(missing());
    };
    Ok(format!(
        "\nIn the table [\"{title}\"](benchmarks.md#{anchor}), of {cases} nodes on one thread,\n\
         CpuRef takes at most {largest} times as long as onnxruntime, and at most 10 times in {within} of them.\n"
    ))
}

/// Types, those of a whole group by its name.
fn list(types: &[DataType]) -> String {
    if types.is_empty() {
        return "–".to_owned();
    }
    let is_whole = |group: &&(&str, &[DataType])| group.1.iter().all(|it| types.contains(it));
    let groups: Vec<_> = GROUPS.iter().filter(is_whole).collect();
    let is_single = |dtype: &&DataType| !groups.iter().any(|(_, types)| types.contains(dtype));
    let names = groups.iter().map(|(name, _)| *name);
    let single = types.iter().filter(is_single).map(|dtype| dtype.name());
    names.chain(single).collect::<Vec<_>>().join(", ")
}

fn notes(op: &OperatorDef, types: &MeasuredTypes) -> String {
    let (fast, slow) = (types.fast(), types.slow());
    let (moved, mixed) = (types.moved(), types.mixed());
    let mut notes = Vec::new();
    if op.class == OperatorClass::View {
        notes.push("view".to_owned());
    } else if counts_elements(op) {
        notes.push("host program, where its elements are not constant".to_owned());
    } else if fast.is_empty() && slow.is_empty() {
        let is_known = op.inputs.iter().all(|input| input.compile_time);
        notes.push(match (moved.is_empty(), is_known) {
            (true, _) => "not measured".to_owned(),
            (false, true) => "computed when compiling".to_owned(),
            (false, false) => format!("descriptors: {}", list(&moved)),
        });
    } else if !moved.is_empty() {
        notes.push(format!("descriptors: {}", list(&moved)));
    }
    if op.takes_strings() {
        notes.push("host program on strings".to_owned());
    }
    if !mixed.is_empty() && mixed == fast {
        notes.push("also CpuRef".to_owned());
    } else if !mixed.is_empty() {
        notes.push(format!("also CpuRef: {}", list(&mixed)));
    }
    notes.join("; ")
}
