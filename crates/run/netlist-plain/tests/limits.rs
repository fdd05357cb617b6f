//! Netlists whose sizes exceed memory are errors that name queue or op, shape and bytes. Each case
//! runs in a child process with 1 GiB of address space.
#![allow(clippy::print_stdout, reason = "the child process prints its result")]

use std::process::Command;
use tenon_base::{Control, Result};
use tenon_netlist::testing::TestConfig;
use tenon_netlist::{Netlist, Source, check, read};
use tenon_netlist_plain::{Machine, Options, generate_inputs};

/// The netlist of the child process.
const VARIABLE: &str = "TENON_TEST_NETLIST";

/// A netlist with one op of `kind`, its attributes and the TMs of its input.
struct Case {
    kind: &'static str,
    attributes: &'static str,
    tms: &'static str,
    /// Blocking of the input.
    input: &'static str,
    /// Blocking of the output.
    output: &'static str,
    entries: u32,
}

const TILE: &str = "grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1]";

/// 2 GiB.
const LARGE: &str = "grid_size: [1, 1], t: 1, mblock: [1024, 512], ublock: [1, 1]";

impl Case {
    const COPY: Self = Self {
        kind: "nop",
        attributes: "",
        tms: "",
        input: TILE,
        output: TILE,
        entries: 1,
    };

    fn netlist(&self) -> String {
        let queue = |name: &str, input: &str, blocking: &str, address: &str| {
            format!(
                "  {name}: {{type: queue, input: {input}, entries: {}, {blocking}, df: Float16_b, \
                 target_device: 0, loc: dram, dram: [[0, {address}]]}}\n",
                self.entries
            )
        };
        let Self {
            kind,
            attributes,
            tms,
            input,
            output,
            ..
        } = self;
        let (x, y) = (
            queue("x", "HOST", input, "0x10000000"),
            queue("y", "op", output, "0x20000000"),
        );
        format!(
            "devices: {{arch: blackhole}}\nqueues:\n{x}{y}graphs:\n  g:\n    target_device: 0\n    \
             input_count: 1\n    op: {{type: {kind}, grid_loc: [0, 0], inputs: [x], {tms} in_df: \
             [Float16_b], out_df: Float16_b, intermed_df: Float16_b, math_fidelity: HiFi4, \
             {output}, {attributes}}}\nprograms:\n  - run:\n    - var: {{$z: 0}}\n    - execute: \
             {{graph_name: g, queue_settings: {{x: {{rd_ptr_local: $z, rd_ptr_global: $z}}}}}}\n"
        )
    }
}

fn run(netlist: &Netlist) -> Result<()> {
    let (config, _) = TestConfig::read(netlist);
    let inputs = generate_inputs(netlist, &config, 0)?;
    Machine::run(netlist, &inputs, &Options::default(), &Control::new()).map(drop)
}

/// The child process: runs the netlist of the environment, if there is one.
#[test]
fn child_process() {
    let Ok(text) = std::env::var(VARIABLE) else {
        return;
    };
    let parsed = read(&Source::new("n.yaml", text));
    let mut findings = parsed.findings;
    findings.extend(check(&parsed.netlist, None));
    let errors: Vec<_> = findings.iter().map(|finding| finding.sentence()).collect();
    assert!(!findings.has_errors(), "{errors:?}");
    match run(&parsed.netlist) {
        Ok(()) => println!("\nresult: success"),
        Err(error) => println!("\nresult: {error}"),
    }
}

/// The result of a netlist in a child process with 1 GiB of address space.
fn limited(case: &Case) -> String {
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 1048576; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child_process", "--nocapture"])
        .env(VARIABLE, case.netlist())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{stderr}");
    let result = text
        .lines()
        .find_map(|line| line.strip_prefix("result: "))
        .unwrap_or_else(|| panic!("no result: {text}{stderr}"));
    result.to_owned()
}

#[test]
fn a_small_netlist_runs() {
    assert_eq!(limited(&Case::COPY), "success");
}

#[test]
fn inputs_that_exceed_memory_are_errors_with_the_queue() {
    let case = Case {
        input: LARGE,
        output: LARGE,
        ..Case::COPY
    };
    assert_eq!(
        limited(&case),
        "queue 'x': array [1, 1, 32768, 16384]: cannot allocate 2147483648 bytes"
    );
}

#[test]
fn tms_that_exceed_memory_are_errors_with_the_op() {
    let case = Case {
        tms: "input_0_tms: [broadcast: {r: 1024}, broadcast: {c: 512}],",
        output: LARGE,
        ..Case::COPY
    };
    assert_eq!(
        limited(&case),
        "op 'op': input 'x': tensor of [1, 1024, 512] tiles: cannot allocate 2147483648 bytes"
    );
}

#[test]
fn outputs_that_exceed_memory_are_errors_with_the_op() {
    // 96 MiB of input and as much for each copy of it.
    let blocking = "grid_size: [1, 1], t: 1, mblock: [192, 128], ublock: [1, 1]";
    let case = Case {
        kind: "exp",
        input: blocking,
        tms: "input_0_tms: [broadcast: {z: 4}],",
        output: "grid_size: [1, 1], t: 4, mblock: [192, 128], ublock: [1, 1]",
        ..Case::COPY
    };
    assert_eq!(
        limited(&case),
        "op 'op': tensor of [4, 192, 128] tiles: cannot allocate 402653184 bytes"
    );
}

#[test]
fn queues_of_many_entries_are_errors_with_the_queue() {
    for entries in [1 << 27, u32::MAX] {
        let result = limited(&Case {
            entries,
            ..Case::COPY
        });
        assert!(
            result.starts_with("queue 'x': list of entries: ")
                && (result.ends_with("cannot allocate 1073741824 bytes")
                    || result.contains("too many elements")),
            "{result}"
        );
    }
}
