//! Executes: applies the settings of an epoch, calls its function once for each input, and advances the
//! pointers of the queues that it reads (netlist 6.3, 6.5).

use super::attributes::{flag, names, size_or};
use super::machine::Machine;
use super::program::Body;
use super::queue::Queue;
use super::run::ProgramRun;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tenon_base::{Error, ErrorKind, Result};
use tenon_executor::{Frame, FunctionHandle, Site, Value};

/// The category of executes in traces: a scope for each graph that ran.
pub const GRAPH_SCOPE: &str = "netlist graph";

/// `netlist.execute`: one epoch.
pub(super) fn execute(site: &Site<'_>) -> Result<Body> {
    let epoch = Epoch::of(site, "", 0)?;
    Ok(Box::new(move |frame| {
        let run = frame.object::<ProgramRun>(0)?;
        run.apply(&run.take_settings())?;
        epoch.run(frame, run)
    }))
}

/// `netlist.together`: several epochs. The first one is all of them combined, when `whole` is set; the
/// others are its parts.
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
    // An epoch that has starved once starves in every run.
    let starves = AtomicBool::new(!whole);
    Ok(Box::new(move |frame| {
        let run = frame.object::<ProgramRun>(0)?;
        let settings = run.take_settings();
        if let (true, Some(whole)) = (!starves.load(Ordering::Relaxed), epochs.first()) {
            let (machine, set) = (run.machine().snapshot(), run.set_queues());
            run.apply(&settings)?;
            match whole.run(frame, run) {
                Err(error) if error.kind() == ErrorKind::ExecutionFailed => {
                    run.machine().restore(machine);
                    run.restore_set_queues(set);
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
    /// The index of the kernel's function that computes one input.
    function: usize,
    inputs: usize,
    /// The queues that it reads.
    reads: Vec<String>,
    graphs: Vec<String>,
}

impl Epoch {
    /// The epoch whose attributes end in `suffix`.
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
    fn run(&self, frame: &Frame<'_>, run: &ProgramRun) -> Result<()> {
        let start = Instant::now();
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
            let report = |graph: &String| trace.sink.scope(GRAPH_SCOPE, graph, start, end, 0);
            self.graphs.iter().for_each(report);
        }
        Ok(())
    }
}

/// Runs the ops of an epoch on one input, and waits for them. Each op runs on the host's work queue as
/// soon as its operands are available.
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
