//! The netlist of "Netlists by example": the document quotes the file, and the results are those of
//! NumPy.
#![allow(clippy::print_stderr, reason = "the test prints why it skips")]

use std::path::Path;
use std::process::Command;
use tenon_base::Control;
use tenon_netlist::testing::TestConfig;
use tenon_netlist::{Device, Netlist, Source, check, check_device, read};
use tenon_netlist_plain::{Machine, Options, generate_inputs};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."))
}

fn netlist() -> Netlist {
    let path = root().join("tests/netlists/attention.yaml");
    let source = Source::new("attention.yaml", std::fs::read_to_string(path).unwrap());
    let read = read(&source);
    let mut findings = read.findings;
    findings.extend(check(&read.netlist, None));
    findings.extend(check_device(
        &read.netlist,
        &Device::find("wormhole_b0").unwrap(),
    ));
    let shown: Vec<_> = findings
        .iter()
        .map(|finding| finding.display(&source).to_string())
        .collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
    read.netlist
}

#[test]
fn the_document_quotes_the_file() {
    let document = std::fs::read_to_string(root().join("docs/netlists-by-example.md")).unwrap();
    let blocks = document
        .split("```yaml\n")
        .skip(1)
        .filter_map(|block| block.split("```").next());
    let file = std::fs::read_to_string(root().join("tests/netlists/attention.yaml")).unwrap();
    assert_eq!(blocks.collect::<String>(), file);
}

/// Three executes of two inputs each, with four queries used cyclically.
#[test]
fn attention_is_that_of_numpy() {
    let Some(python) = std::env::var_os("TENON_PYTHON") else {
        eprintln!("skipped: TENON_PYTHON is not set");
        return;
    };
    let netlist = netlist();
    let (config, findings) = TestConfig::read(&netlist);
    assert_eq!(findings.iter().count(), 0);
    let inputs = generate_inputs(&netlist, &config, 7).unwrap();
    let outcome = Machine::run(&netlist, &inputs, &Options::default(), &Control::new()).unwrap();
    let context = &outcome.outputs["context"];
    assert_eq!(context.shape, [6, 1, 64, 32]);
    let folder = tempfile::tempdir().unwrap();
    for name in ["query", "keys", "values"] {
        let bytes: Vec<u8> = inputs[name]
            .values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    // Float16_b truncates floats to the upper half; the outputs of ops are not rounded (netlist 5.6).
    let script = "
import sys
import numpy as np
def stored(name, shape):
    bits = np.fromfile(sys.argv[1] + '/' + name, dtype='<u4') & 0xffff0000
    return bits.view('<f4').astype(np.float64).reshape(shape)
query, keys, values = stored('query', (4, 64, 32)), stored('keys', (64, 32)), stored('values', (64, 32))
scores = query @ keys.T
weights = np.exp(scores - scores.max(axis=2, keepdims=True))
context = weights / weights.sum(axis=2, keepdims=True) @ values
context[[0, 1, 2, 3, 0, 1]].astype('<f4').tofile(sys.argv[1] + '/context')
";
    let output = Command::new(python)
        .args(["-c", script])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let bytes = std::fs::read(folder.path().join("context")).unwrap();
    let expected = bytes
        .chunks_exact(4)
        .map(|four| f32::from_le_bytes(four.try_into().unwrap()));
    let expected: Vec<f32> = expected.collect();
    assert_eq!(expected.len(), context.values.len());
    for (index, (found, expected)) in context.values.iter().zip(&expected).enumerate() {
        assert!(
            (found - expected).abs() < 1e-5,
            "{index}: {found} is not {expected}"
        );
    }
}
