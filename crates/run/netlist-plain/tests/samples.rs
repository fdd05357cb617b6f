//! Real netlists run, where the folder of extra data has them.
#![allow(clippy::print_stderr, reason = "a test says what it leaves out")]

use tenon_base::Control;
use tenon_netlist::testing::TestConfig;
use tenon_netlist::{AttributeKey, Netlist, OpKind, Source, check, read};
use tenon_netlist_plain::{Machine, Options, generate_inputs};
use tenon_test_data::good_netlists;

/// Multiplications that one netlist may cost here: the plain way is slow, and this is a test.
const MOST: u64 = 100_000_000;

/// Multiplications of all ops on all inputs of one execute of each graph.
fn cost(netlist: &Netlist) -> u64 {
    let inner = |op: &tenon_netlist::Op| match op.kind.value {
        OpKind::Matmul => {
            let size = |key| op.attributes.integer(key).unsigned_abs();
            (size(AttributeKey::MK) * size(AttributeKey::UKt) * 32).max(1)
        }
        _ => 8,
    };
    let of_op = |op: &tenon_netlist::Op| {
        let blocking = &op.blocking;
        let tiles = u64::from(blocking.t.value) * blocking.rows() * blocking.columns();
        tiles.saturating_mul(1024).saturating_mul(inner(op))
    };
    let all = netlist
        .ops()
        .map(|(graph, op)| of_op(op).saturating_mul(graph.input_count.value.into()));
    all.fold(0, u64::saturating_add)
}

#[test]
fn samples_that_are_not_large_run() {
    let (mut ran, mut large, mut failures) = (0, 0, Vec::new());
    for path in good_netlists() {
        let source = Source::new(&path, std::fs::read_to_string(&path).unwrap());
        let read = read(&source);
        if read.findings.has_errors() || check(&read.netlist, None).has_errors() {
            failures.push(format!("{}: does not check", path.display()));
            continue;
        }
        let netlist = read.netlist;
        if cost(&netlist) > MOST {
            large += 1;
            continue;
        }
        let (config, _) = TestConfig::read(&netlist);
        let feed = generate_inputs(&netlist, &config, 0);
        match Machine::run(&netlist, &feed, &Options::default(), &Control::new()) {
            Ok(answer) => {
                ran += 1;
                assert!(!answer.outputs.is_empty(), "{}", path.display());
            }
            Err(error) => failures.push(format!("{}: {error}", path.display())),
        }
    }
    eprintln!("{ran} ran, {large} are too large for this test");
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        failures.join("\n")
    );
}
