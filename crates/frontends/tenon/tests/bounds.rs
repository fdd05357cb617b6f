//! Sizes beyond any memory: every operator with extents, attributes and constants of 2^31,
//! 2^40 and 2^61, compiled, run, profiled and compared in a process of 4 GiB. The outcome is a
//! result or an error: never an abort by an allocation, never a panic.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::{Duration, Instant};
use tenon::compare::{CompareOptions, compare_backends};
use tenon::inputs::random_tensor;
use tenon::neff::Limits;
use tenon::neff::Package;
use tenon::{BackendId, Control, ErrorKind, LoadOptions, Model, RunOptions, Tensor};
use tenon_compiler::Options;
use tenon_graph::Graph;

const OPERATORS: &str = include_str!("data/operators.txt");

const SIZES: [&str; 3] = ["2147483648", "1099511627776", "2305843009213693952"];

/// Set in the process with limited memory.
const CHILD: &str = "TENON_TEST_BOUNDS";

/// Bytes of inputs and outputs above which a run is tried only if memory cannot hold them: filling
/// a gigabyte for each case takes too long.
const FILLED: usize = 1 << 24;
const MEMORY: usize = 4 << 30;

/// The time limit of a run.
const LIMIT: Duration = Duration::from_millis(200);

/// The graphs of the table, in text.
fn graphs() -> impl Iterator<Item = &'static str> {
    let starts = OPERATORS.match_indices("graph \"").map(|(at, _)| at);
    let starts: Vec<usize> = starts.chain([OPERATORS.len()]).collect();
    (1..starts.len()).map(move |at| &OPERATORS[starts[at - 1]..starts[at]])
}

fn operator_of(graph: &str) -> &str {
    graph.split('"').nth(1).unwrap_or_default()
}

#[test]
fn the_graphs_have_every_operator() {
    let known: BTreeSet<&str> = graphs().map(operator_of).collect();
    let made_by_others = ["Constant", "tenon.Precompiled"];
    for op in tenon_graph::operator::all() {
        assert!(
            known.contains(op.name) || made_by_others.contains(&op.name),
            "{}",
            op.name
        );
    }
    let broken: Vec<String> = graphs()
        .filter_map(|text| Some(format!("{text}{}", compiled(text, &["CpuRef"]).err()?)))
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn operators_of_any_size_end_in_a_result_or_an_error() {
    if std::env::var_os(CHILD).is_some() {
        return walk();
    }
    let limit = format!("ulimit -v {}; exec \"$@\"", MEMORY >> 10);
    let name = "operators_of_any_size_end_in_a_result_or_an_error";
    let program = std::env::current_exe().unwrap();
    let answer = Command::new("sh")
        .args(["-c", &limit, "sh"])
        .arg(program)
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&answer.stdout), text(&answer.stderr));
    let end = |text: &str| text[text.len().saturating_sub(6000)..].to_owned();
    assert!(answer.status.success(), "{}\n{}", end(&out), end(&err));
}

/// A matmul of constants is folded when compiling.
#[test]
fn folding_of_constants_ends_at_a_deadline() {
    let text = "graph \"fold\" () -> (%y) {\n  const %a: f32[2048, 2048] = fill 0.5\n  \
                %b = MatMul(%a, %a)\n  %y = MatMul(%b, %b)\n}\n";
    let registry = tenon::backends::built_in();
    let mut options = Options::new(&registry);
    options.control = Control::with_deadline(Instant::now() + LIMIT);
    let started = Instant::now();
    let error = tenon_compiler::compile(text.parse().unwrap(), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    assert!(started.elapsed() < Duration::from_secs(3));
}

/// Runs all cases; prints the current one, so that the parent process knows which one failed.
#[allow(
    clippy::print_stdout,
    reason = "what the parent shows when this ends early"
)]
fn walk() {
    let mut wrong = Vec::new();
    let started = Instant::now();
    for graph in graphs() {
        for text in changed(graph) {
            println!("{:?} {}", started.elapsed(), text.replace('\n', " "));
            for backends in [&["CpuAcc", "CpuRef"][..], &["CpuRef"]] {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| attempt(&text, backends))) {
                    let why = panic.downcast_ref::<String>().cloned();
                    let why = why.or_else(|| panic.downcast_ref::<&str>().map(|&s| s.to_owned()));
                    wrong.push(format!("{text}{backends:?}: {}", why.unwrap_or_default()));
                }
            }
        }
    }
    println!("{} panics in {:?}", wrong.len(), started.elapsed());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The graph with one integer of its shapes, attributes and constants, or all equal ones, replaced by
/// each size; also with the next integer replaced by zero.
fn changed(graph: &str) -> BTreeSet<String> {
    let integers = integer_ranges(graph);
    let mut all = BTreeSet::new();
    for (index, &(start, end)) in integers.iter().enumerate() {
        for size in SIZES {
            let one = [(start, end, size)];
            all.insert(replaced(graph, &one));
            let same = integers
                .iter()
                .filter(|&&(a, b)| graph[a..b] == graph[start..end]);
            let same: Vec<_> = same.map(|&(a, b)| (a, b, size)).collect();
            all.insert(replaced(graph, &same));
            if let Some(&(a, b)) = integers.get(index + 1) {
                all.insert(replaced(graph, &[(start, end, size), (a, b, "0")]));
                all.insert(replaced(graph, &[(start, end, size), (a, b, size)]));
            }
        }
    }
    all
}

fn replaced(graph: &str, parts: &[(usize, usize, &str)]) -> String {
    let mut text = String::new();
    let mut from = 0;
    for &(start, end, with) in parts {
        text += &graph[from..start];
        text += with;
        from = end;
    }
    text + &graph[from..]
}

/// The ranges of integers in the text, except those in names, types and fractions.
fn integer_ranges(graph: &str) -> Vec<(usize, usize)> {
    let bytes = graph.as_bytes();
    let first = graph.find('(').unwrap_or(0);
    let mut found = Vec::new();
    let mut at = first;
    while at < bytes.len() {
        let length = bytes[at..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        if length > 0 && b"[ -".contains(&bytes[at - 1]) {
            found.push((at, at + length));
        }
        at += length.max(1);
    }
    found
}

fn compiled(text: &str, backends: &[&'static str]) -> tenon::Result<Package> {
    let mut graph: Graph = text.parse()?;
    graph.infer_types()?;
    let registry = tenon::backends::built_in();
    let mut options = Options::new(&registry);
    options.backends = backends.iter().map(|&id| BackendId::new(id)).collect();
    let compiled = tenon_compiler::compile(graph, &options)?;
    let control = Control::new();
    let bytes = compiled.contents.to_bytes(Default::default(), &control)?;
    Package::from_buffer(bytes, &Limits::default(), &control)
}

/// Compiles, loads, runs with a profile, and compares backends; and ignores the results.
fn attempt(text: &str, backends: &[&'static str]) {
    let Ok(package) = compiled(text, backends) else {
        return;
    };
    let Ok(model) = Model::from_package(&package, &LoadOptions::default()) else {
        return;
    };
    let ports = model.inputs().iter().chain(model.outputs());
    let bytes = ports.fold(0usize, |sum, port| sum.saturating_add(port.ty.bytes()));
    if (FILLED..MEMORY).contains(&bytes) {
        return;
    }
    let inputs: tenon::Result<Vec<Tensor>> = model
        .inputs()
        .iter()
        .map(|port| random_tensor(&port.ty, 1))
        .collect();
    let Ok(inputs) = inputs else {
        assert!(model.bind().is_err() || bytes > MEMORY / 2);
        return;
    };
    run(&model, &inputs);
    let names = model.inputs().iter().map(|port| port.name.clone());
    let names: Vec<String> = names.collect();
    let named = names.iter().map(String::as_str).zip(&inputs);
    let options = LoadOptions::new().control(Control::with_deadline(Instant::now() + LIMIT));
    let options = CompareOptions::new("CpuRef", "CpuAcc").load(options);
    let _ = compare_backends(&package, &named.collect::<Vec<_>>(), &options);
}

fn run(model: &Model, inputs: &[Tensor]) {
    let control = Control::with_deadline(Instant::now() + LIMIT);
    let names = model.inputs().iter().map(|port| port.name.as_str());
    let named: Vec<(&str, &Tensor)> = names.zip(inputs).collect();
    let mut profile = model.profile();
    let options = RunOptions::new().control(control).profile(&mut profile);
    let started = Instant::now();
    let _ = model.run_with(&named, options);
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "it is not stopped"
    );
}
