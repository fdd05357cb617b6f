//! Runs real netlists, where the folder of extra data has them.
#![allow(clippy::print_stderr, reason = "the test prints what it skips")]

use tenon_base::Control;
use tenon_netlist::testing::TestConfig;
use tenon_netlist::{AttributeKey, Netlist, OpKind, Source, check, read};
use tenon_netlist_plain::{Machine, Options, generate_inputs};
use tenon_test_data::good_netlists;

/// Limit of multiplications per netlist, which bounds the run time of the test.
const MAX_COST: u64 = 100_000_000;

/// Number of multiplications of one execute of each graph.
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
fn samples_of_moderate_cost_run() {
    let (mut ran, mut large, mut failures) = (0, 0, Vec::new());
    for path in good_netlists() {
        let source = Source::new(&path, std::fs::read_to_string(&path).unwrap());
        let read = read(&source);
        if read.findings.has_errors() || check(&read.netlist, None).has_errors() {
            failures.push(format!("{}: does not check", path.display()));
            continue;
        }
        let netlist = read.netlist;
        if cost(&netlist) > MAX_COST {
            large += 1;
            continue;
        }
        let (config, _) = TestConfig::read(&netlist);
        let inputs = generate_inputs(&netlist, &config, 0).unwrap();
        match Machine::run(&netlist, &inputs, &Options::default(), &Control::new()) {
            Ok(outcome) => {
                ran += 1;
                assert!(!outcome.outputs.is_empty(), "{}", path.display());
            }
            Err(error) => failures.push(format!("{}: {error}", path.display())),
        }
    }
    eprintln!("{ran} ran, {large} skipped because of their cost");
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        failures.join("\n")
    );
}
