//! The error message for a deadlock: each blocked engine, its wait, and the steps or triggers that
//! would satisfy it.

use super::program::Running;
use super::{Machine, Step, Wait};
use tenon_base::{Error, ErrorKind};

/// An engine that is blocked on a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedEngine {
    /// Its core.
    pub core: usize,
    /// Its name.
    pub engine: String,
    /// The condition that it waits for.
    pub wait: Wait,
}

impl Machine {
    /// The error that these engines are blocked while no transfer is in progress.
    pub fn deadlock(&self, blocked: &[BlockedEngine]) -> Error {
        let lines = blocked.iter().map(|each| {
            let place = format!("engine {} of core {}", each.engine, each.core);
            self.describe_wait(&place, each.core, &each.wait, &[])
        });
        deadlock(lines.collect())
    }

    fn describe_wait(&self, place: &str, core: usize, wait: &Wait, all: &[Running<'_>]) -> String {
        let condition = condition(self, core, wait);
        let remedy = remedy(self, all, core, wait);
        format!("{place} waits for {condition}; {remedy}")
    }
}

/// The error that programs are blocked while no transfer is in progress; `None` when all have ended.
pub(super) fn describe(machine: &Machine, all: &[Running<'_>]) -> Option<Error> {
    let lines = all.iter().filter_map(|running| {
        let Running {
            program,
            next,
            wait,
        } = running;
        let place = format!(
            "engine {} of core {}, step {next},",
            program.engine, program.core
        );
        Some(machine.describe_wait(&place, program.core, &(*wait)?, all))
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| deadlock(lines))
}

fn deadlock(lines: Vec<String>) -> Error {
    let error = Error::new(
        ErrorKind::ExecutionFailed,
        "deadlock: every engine waits and no transfer is in progress",
    );
    error.found(lines.join(", and "))
}

fn condition(machine: &Machine, core: usize, wait: &Wait) -> String {
    match wait {
        Wait::Semaphore {
            semaphore,
            at_least,
        } => {
            let now = machine.semaphore(core, *semaphore);
            format!("semaphore {semaphore} to be at least {at_least} (it is {now})")
        }
        Wait::Event(event) => format!("event {event}"),
        Wait::Idle(set) => {
            let name = machine.layout.sets.get(*set).map_or("", |set| &set.name);
            format!("queue set '{name}' to be empty")
        }
    }
}

/// The steps not yet reached that contribute to `wait`; without any, the transfers that do.
fn remedy(machine: &Machine, all: &[Running<'_>], core: usize, wait: &Wait) -> String {
    let mut steps = Vec::new();
    for running in all {
        let program = running.program;
        let rest = program.steps.iter().enumerate().skip(running.next + 1);
        let found = rest
            .filter(|(_, step)| {
                step_contributes(machine, program.core, &program.engine, step, core, wait)
            })
            .map(|(index, _)| format!("step {index} of engine {}", program.engine));
        steps.extend(found.take(1));
    }
    if !steps.is_empty() {
        return format!("only {} can satisfy it", steps.join(" or "));
    }
    let mut ids: Vec<String> = Vec::new();
    for ((from, engine, function, id), group) in &machine.layout.groups {
        if group
            .transfers
            .iter()
            .any(|&transfer| end_contributes(machine, *from, transfer, core, wait))
        {
            let engine = &machine.layout.engines[*from][*engine];
            let inside = if function.is_empty() {
                ""
            } else {
                " in function "
            };
            ids.push(format!("id {id} of engine {engine}{inside}{function}"));
        }
    }
    ids.sort_unstable();
    if ids.is_empty() {
        return "no remaining step or transfer can satisfy it".into();
    }
    format!("a trigger of {} can satisfy it", ids.join(" or "))
}

/// Whether the end of a transfer of core `from` contributes to a wait of an engine on core `to`.
fn end_contributes(
    machine: &Machine,
    from: usize,
    transfer: usize,
    to: usize,
    wait: &Wait,
) -> bool {
    let bound = &machine.layout.transfers[transfer];
    match *wait {
        Wait::Event(event) => from == to && bound.event == Some(event),
        Wait::Semaphore { semaphore, .. } if from == to => {
            let set = &machine.layout.sets[bound.set];
            let of_set = || set.semaphores.contains(&semaphore);
            bound
                .semaphore
                .map_or_else(of_set, |incremented| incremented == semaphore)
        }
        Wait::Semaphore { semaphore, .. } => bound.remote_semaphores.contains(&semaphore),
        Wait::Idle(_) => false,
    }
}

/// Whether a step of an engine on core `from` contributes to a wait of an engine on core `to`.
fn step_contributes(
    machine: &Machine,
    from: usize,
    engine: &str,
    step: &Step,
    to: usize,
    wait: &Wait,
) -> bool {
    match (step, wait) {
        (Step::Trigger { function, id, .. }, _) => {
            let layout = &machine.layout;
            let number = layout.engines[from].iter().position(|name| name == engine);
            let key = number.map(|number| (from, number, function.clone(), *id));
            let group = key.and_then(|key| layout.groups.get(&key));
            let mut transfers = group.into_iter().flat_map(|group| &group.transfers);
            transfers.any(|&transfer| end_contributes(machine, from, transfer, to, wait))
        }
        (
            Step::AddSemaphore { semaphore, .. } | Step::SetSemaphore { semaphore, .. },
            Wait::Semaphore {
                semaphore: awaited, ..
            },
        ) => from == to && semaphore == awaited,
        (Step::SetEvent(event), Wait::Event(awaited)) => from == to && event == awaited,
        _ => false,
    }
}
