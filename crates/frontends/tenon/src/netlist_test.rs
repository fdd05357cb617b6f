//! A netlist run twice on the same data: by the kernels, and plainly, element by element.

use crate::{NetlistJob, NetlistLoad, netlist_arch, run_netlist};
use std::collections::BTreeMap;
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_netlist::testing::{Comparison, ComparisonResult, TestConfig};
use tenon_netlist::{Arch, Netlist, Queue, Source, read};
use tenon_netlist_plain::{Array, HostInputs, Machine, Options, generate_inputs};
use tenon_tensor::Tensor;

/// What is run twice.
#[derive(Debug, Clone, Default)]
pub struct NetlistTest {
    /// Programs in this order; all in the order of the file when empty.
    pub programs: Vec<String>,
    /// Parameters, `$` included; others have their defaults.
    pub params: BTreeMap<String, i32>,
    /// The inputs follow from it.
    pub seed: u64,
    /// How often all programs are run.
    pub loops: u32,
    /// The architecture; the netlist's first when `None`.
    pub arch: Option<Arch>,
}

/// How one queue or ram came out.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueAgreement {
    /// Its name.
    pub name: String,
    /// `[n, t, rows, columns]`, the plain implementation's.
    pub shape: [usize; 4],
    /// What was asked.
    pub comparison: Comparison,
    /// How both agree; `None` where they made different numbers of entries.
    pub agreement: Option<ComparisonResult>,
    /// Entry, slice, row and column of the first element that is not close, with the plain
    /// implementation's value and the other.
    pub first: Option<([usize; 4], f32, f32)>,
}

impl QueueAgreement {
    /// Whether the comparison is passed.
    pub fn passed(&self) -> bool {
        self.agreement.as_ref().is_some_and(|found| found.passed)
    }
}

/// Runs a netlist by its kernels and by the plain implementation, and compares what both put into
/// queues that no op reads and into rams, under the netlist's comparison-config.
///
/// # Errors
/// A netlist that breaks rules, or that one of the two cannot run.
pub fn test_netlist(
    source: &Source,
    test: &NetlistTest,
    control: &Control,
) -> Result<Vec<QueueAgreement>> {
    let found = read(source);
    found.findings.to_result(source)?;
    let netlist = found.netlist;
    let (config, _) = TestConfig::read(&netlist);
    let feed = generate_inputs(&netlist, &config, test.seed);
    // What the kernels hold is let go before the plain implementation takes as much again.
    let (made, expanded) = {
        let fast = run_netlist(source, &job(test, &feed)?, control)?;
        (fast.outputs, fast.session.netlist().clone())
    };
    let options = Options {
        arch: netlist_arch(&netlist, test.arch)?,
        params: (test.params.iter())
            .map(|(name, value)| (name.clone(), i64::from(*value)))
            .collect(),
        programs: test.programs.clone(),
        loops: test.loops.max(1).into(),
        ..Options::default()
    };
    let plain = Machine::run(&netlist, &feed, &options, control)?;
    let names: Vec<&String> = plain.outputs.keys().collect();
    if made.keys().ne(names.iter().copied()) {
        let found: Vec<&str> = made.keys().map(String::as_str).collect();
        let expected: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        let error = Error::new(ErrorKind::ExecutionFailed, "different outputs");
        return Err(error.expected(expected.join(", ")).found(found.join(", ")));
    }
    let pairs = plain.outputs.iter().zip(made.values());
    pairs
        .map(|((name, expected), found)| compare(&expanded, &config, name, expected, found))
        .collect()
}

fn job(test: &NetlistTest, feed: &HostInputs) -> Result<NetlistJob> {
    let tensor = |(name, array): (&String, &Array)| {
        Ok((
            name.clone(),
            Tensor::from_slice(array.shape, &array.values)?,
        ))
    };
    Ok(NetlistJob {
        load: NetlistLoad {
            arch: test.arch,
            ..NetlistLoad::default()
        },
        programs: test.programs.clone(),
        params: test.params.clone(),
        inputs: feed.iter().map(tensor).collect::<Result<_>>()?,
        seed: test.seed,
        loops: test.loops,
        ..NetlistJob::default()
    })
}

fn compare(
    netlist: &Netlist,
    config: &TestConfig,
    name: &str,
    expected: &Array,
    found: &Tensor,
) -> Result<QueueAgreement> {
    let comparison = config.comparison(name).clone();
    let numbers: &[f32] = found.as_slice().unwrap_or_default();
    let is_alike = found.shape()[..] == expected.shape && numbers.len() == expected.values.len();
    let named = |queue: &&Queue| queue.name.value == name;
    let tile = netlist.queues.iter().find(named);
    let tile = tile.map_or([32, 32], |queue| queue.blocking.tile());
    let [_, t, rows, columns] = expected.shape;
    let agreement = is_alike.then(|| {
        let tile = tile.map(|size| size as usize);
        comparison.compare(&expected.values, numbers, columns, tile)
    });
    let first = agreement.as_ref().and_then(|agreement| agreement.first);
    let first = first.map(|at| {
        let place = [
            at / (t * rows * columns),
            at / (rows * columns) % t,
            at / columns % rows,
            at % columns,
        ];
        (place, expected.values[at], numbers[at])
    });
    Ok(QueueAgreement {
        name: name.to_owned(),
        shape: expected.shape,
        comparison,
        agreement,
        first,
    })
}
