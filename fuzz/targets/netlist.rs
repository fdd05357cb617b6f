//! Netlists: a parsed netlist is checked and printed, and the text parses to an equal netlist. Small
//! valid netlists are run.
#![no_main]

use std::time::{Duration, Instant};
use tenon_base::Control;
use tenon_netlist::testing::TestConfig;
use tenon_netlist::{Device, MemoryUsage, ProgramCode, Source, check, check_device, read};
use tenon_netlist_plain::{Machine, Options, RunLimits, generate_inputs};

/// Limit for the tiles of all queues and ops of a netlist that is run.
const MAX_TILES: u64 = 256;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let source = Source::new("any.yaml", text);
    let first = read(&source);
    for finding in first.findings.iter() {
        finding.display(&source).to_string();
    }
    if first.findings.has_errors() {
        return;
    }
    let netlist = first.netlist;
    let findings = check(&netlist, None);
    for device in Device::built_in() {
        check_device(&netlist, &device);
        MemoryUsage::of(&netlist, device.arch);
    }
    netlist.programs.iter().for_each(|program| drop(ProgramCode(program).to_string()));
    let printed = Source::new("printed.yaml", netlist.to_string());
    let second = read(&printed);
    assert!(!second.findings.has_errors(), "{}", printed.text());
    assert_eq!(netlist, second.netlist);
    let blockings = netlist.queues.iter().map(|queue| &queue.blocking);
    let tiles = blockings.chain(netlist.ops().map(|(_, op)| &op.blocking)).map(|blocking| {
        blocking.rows().saturating_mul(blocking.columns()).saturating_mul(blocking.t.value.into())
    });
    let entries = netlist.queues.iter().map(|queue| u64::from(queue.entries.value)).max();
    if findings.has_errors() || tiles.fold(0, u64::saturating_add) > MAX_TILES || entries > Some(64) {
        return;
    }
    let (config, _) = TestConfig::read(&netlist);
    let Ok(inputs) = generate_inputs(&netlist, &config, 0) else { return };
    let options = Options {
        limits: RunLimits { instructions: 1_000, elements: 1 << 24 },
        ..Options::default()
    };
    let control = Control::with_deadline(Instant::now() + Duration::from_millis(200));
    let _ = Machine::run(&netlist, &inputs, &options, &control);
});
