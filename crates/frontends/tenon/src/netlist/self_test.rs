//! A netlist run twice on the same data: by the kernels, and by the plain implementation, element by
//! element.

use super::{Job, SessionOptions, choose_arch};
use std::collections::BTreeMap;
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_netlist::testing::{Comparison, ComparisonResult, TestConfig};
use tenon_netlist::{Arch, Netlist, Queue, Source, read};
use tenon_netlist_plain::{Array, HostInputs, Machine, Options, generate_inputs};
use tenon_tensor::Tensor;

/// A comparison of the kernels with the plain implementation.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SelfTest {
    /// Programs in this order; all in the order of the file when empty.
    pub programs: Vec<String>,
    /// Parameters, `$` included; others have their defaults.
    pub params: BTreeMap<String, i32>,
    /// The seed of the inputs.
    pub seed: u64,
    /// How often all programs are run; 0 counts as 1.
    pub loops: u32,
    /// The architecture; the netlist's first when `None`.
    pub arch: Option<Arch>,
    /// Progress, cancellation and deadline.
    pub control: Control,
}

/// The result of comparing one queue or ram.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueAgreement {
    /// Its name.
    pub name: String,
    /// `[n, t, rows, columns]`, the plain implementation's.
    pub shape: [usize; 4],
    /// The rule of the comparison.
    pub comparison: Comparison,
    /// How both agree; `None` if they wrote different entry counts.
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

impl SelfTest {
    /// All programs once.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the programs to run, in order.
    #[must_use]
    pub fn programs<S: Into<String>>(mut self, programs: impl IntoIterator<Item = S>) -> Self {
        self.programs = programs.into_iter().map(Into::into).collect();
        self
    }

    /// Sets several parameters, with the `$` of their names.
    #[must_use]
    pub fn params(mut self, params: impl IntoIterator<Item = (String, i32)>) -> Self {
        self.params.extend(params);
        self
    }

    setters! {
        /// Sets the seed of the inputs.
        seed: u64,
        /// Sets how often all programs are run.
        loops: u32,
        /// Sets progress, cancellation and deadline.
        control: Control,
    }

    /// Sets the architecture.
    #[must_use]
    pub fn arch(mut self, arch: impl Into<Option<Arch>>) -> Self {
        self.arch = arch.into();
        self
    }

    /// Runs a netlist by its kernels and by the plain implementation, and compares the queues that no
    /// op reads and the rams, under the netlist's comparison-config.
    ///
    /// # Errors
    /// A netlist that violates rules, or that one of the two cannot run.
    pub fn run(&self, source: &Source) -> Result<Vec<QueueAgreement>> {
        let found = read(source);
        found.findings.to_result(source)?;
        let netlist = found.netlist;
        let (config, _) = TestConfig::read(&netlist);
        let inputs = generate_inputs(&netlist, &config, self.seed)?;
        // The memory of the kernels is freed before the plain implementation allocates as much again.
        let (made, expanded) = {
            let fast = self.job(&inputs)?.run(source)?;
            (fast.outputs, fast.session.netlist().clone())
        };
        let options = Options {
            arch: choose_arch(&netlist, self.arch)?,
            params: (self.params.iter())
                .map(|(name, value)| (name.clone(), i64::from(*value)))
                .collect(),
            programs: self.programs.clone(),
            loops: self.loops.max(1).into(),
            ..Options::default()
        };
        let plain = Machine::run(&netlist, &inputs, &options, &self.control)?;
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

    fn job(&self, inputs: &HostInputs) -> Result<Job> {
        let tensor = |(name, array): (&String, &Array)| {
            let tensor = Tensor::from_slice(array.shape, &array.values)?;
            Ok((name.clone(), tensor))
        };
        let inputs: BTreeMap<String, Tensor> = inputs.iter().map(tensor).collect::<Result<_>>()?;
        Ok(Job::new()
            .session(SessionOptions::new().arch(self.arch))
            .programs(self.programs.clone())
            .params(self.params.clone())
            .inputs(inputs)
            .seed(self.seed)
            .loops(self.loops)
            .control(self.control.clone()))
    }
}

fn compare(
    netlist: &Netlist,
    config: &TestConfig,
    name: &str,
    expected: &Array,
    found: &Tensor,
) -> Result<QueueAgreement> {
    let comparison = config.comparison(name).clone();
    let values: &[f32] = found.as_slice().unwrap_or_default();
    let has_same_shape =
        found.shape()[..] == expected.shape && values.len() == expected.values.len();
    let named = |queue: &&Queue| queue.name.value == name;
    let tile = netlist.queues.iter().find(named);
    let tile = tile.map_or([32, 32], |queue| queue.blocking.tile());
    let [_, t, rows, columns] = expected.shape;
    let agreement = has_same_shape.then(|| {
        let tile = tile.map(|size| size as usize);
        comparison.compare(&expected.values, values, columns, tile)
    });
    let first = agreement.as_ref().and_then(|agreement| agreement.first);
    let first = first.map(|at| {
        let position = [
            at / (t * rows * columns),
            at / (rows * columns) % t,
            at / columns % rows,
            at % columns,
        ];
        (position, expected.values[at], values[at])
    });
    Ok(QueueAgreement {
        name: name.to_owned(),
        shape: expected.shape,
        comparison,
        agreement,
        first,
    })
}
