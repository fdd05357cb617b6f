//! Executes: the settings of an epoch applied, its function called once for each input, the pointers
//! of what it reads moved on (facts 6.3, 6.5).

use super::attributes::{flag, names, size_or};
use super::machine::Machine;
use super::program::Body;
use super::queue::Queue;
use super::run::Run;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tenon_base::{Error, ErrorKind, Result};
use tenon_executor::{Frame, FunctionHandle, Site, Value};

/// The category under which traces hear of executes: a scope for each graph that ran.
pub const GRAPH_SCOPE: &str = "netlist graph";

/// `netlist.execute`: one epoch.
pub(super) fn execute(site: &Site<'_>) -> Result<Body> {
    let epoch = Epoch::of(site, "", 0)?;
    Ok(Box::new(move |frame| {
        let run = frame.object::<Run>(0)?;
        run.apply(&run.take_settings())?;
        epoch.run(frame, run)
    }))
}

/// `netlist.together`: several epochs. The whole of them, when there is one, comes first, then its
/// parts.
pub(super) fn together(site: &Site<'_>) -> Result<Body> {
    let whole = flag(site.attributes(), "whole")?;
    let mut epochs = Vec::new();
    while site
        .attributes()
        .optional(&format!("inputs{}", epochs.len()))
        .is_some()
    {
        let index = epochs.len();
        epochs.push(Epoch::of(site, &index.to_string(), index)?);
    }
    // What has starved once starves again.
    let starves = AtomicBool::new(!whole);
    Ok(Box::new(move |frame| {
        let run = frame.object::<Run>(0)?;
        let settings = run.take_settings();
        if let (true, Some(whole)) = (!starves.load(Ordering::Relaxed), epochs.first()) {
            let (machine, set) = (run.machine().snapshot(), run.set_queues());
            run.apply(&settings)?;
            match whole.run(frame, run) {
                Err(error) if error.kind() == ErrorKind::ExecutionFailed => {
                    run.machine().restore(machine);
                    run.forget_set(set);
                    starves.store(true, Ordering::Relaxed);
                }
                done => return done,
            }
        }
        for epoch in &epochs[usize::from(whole)..] {
            let own = settings
                .iter()
                .filter(|setting| epoch.graphs.contains(&setting.graph));
            run.apply(&own.cloned().collect::<Vec<_>>())?;
            epoch.run(frame, run)?;
        }
        Ok(())
    }))
}

/// Graphs that run together.
struct Epoch {
    /// Which of the kernel's functions computes one input.
    function: usize,
    inputs: usize,
    /// Queues that are read.
    reads: Vec<String>,
    graphs: Vec<String>,
}

impl Epoch {
    /// The one whose attributes end in `suffix`.
    fn of(site: &Site<'_>, suffix: &str, function: usize) -> Result<Self> {
        let attributes = site.attributes();
        Ok(Self {
            function,
            inputs: size_or(attributes, &format!("inputs{suffix}"), 1)?,
            reads: names(attributes, &format!("reads{suffix}"))?,
            graphs: names(attributes, &format!("graphs{suffix}"))?,
        })
    }

    /// Runs all inputs; the settings have been applied.
    fn run(&self, frame: &Frame<'_>, run: &Run) -> Result<()> {
        let begun = Instant::now();
        let machine = run.machine();
        let epoch = frame.function(self.function)?;
        for _ in 0..self.inputs {
            run.step()?;
            frame.control().check()?;
            one_input(frame, &epoch, machine)?;
            machine.with_each(&self.reads, Queue::input_done)?;
        }
        machine.with_each(&self.reads, Queue::execute_done)?;
        if let Some(trace) = frame.host().trace() {
            let end = Instant::now();
            let tell = |graph: &String| trace.sink.scope(GRAPH_SCOPE, graph, begun, end, 0);
            self.graphs.iter().for_each(tell);
        }
        Ok(())
    }
}

/// Runs the ops of an epoch on one input. They run as their operands come in, on the host's queue;
/// this is where the program waits for them.
fn one_input(frame: &Frame<'_>, epoch: &FunctionHandle, machine: &Machine) -> Result<()> {
    let request = frame.request();
    let results = epoch.execute(request, vec![Value::opaque(machine.clone())]);
    for value in request.host().wait(results) {
        if let Value::Error(error) = value {
            let text = error.without_location().to_string();
            return Err(Error::new(error.kind(), text).at(error.location().clone()));
        }
    }
    Ok(())
}
