//! The sentence about engines that wait for each other.

use super::program::Running;
use super::{Machine, Step, Wait};
use tenon_base::{Error, ErrorKind};

/// The error that programs have not ended although nothing moves; `None` when all have.
pub(super) fn describe(machine: &Machine, all: &[Running<'_>]) -> Option<Error> {
    let waiting: Vec<(&Running<'_>, Wait)> = all
        .iter()
        .filter_map(|running| Some((running, running.wait?)))
        .collect();
    if waiting.is_empty() {
        return None;
    }
    let lines = waiting.iter().map(|(running, wait)| {
        let Running { program, next, .. } = running;
        format!(
            "engine {} of core {} waits at step {next} for {}; {}",
            program.engine,
            program.core,
            awaited(machine, program.core, wait),
            helpers(machine, all, program.core, wait),
        )
    });
    let lines: Vec<String> = lines.collect();
    let error = Error::new(
        ErrorKind::ExecutionFailed,
        "deadlock: nothing moves any more",
    );
    Some(error.found(lines.join(", and ")))
}

fn awaited(machine: &Machine, core: usize, wait: &Wait) -> String {
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

/// Which steps that have not been reached would bring it.
fn helpers(machine: &Machine, all: &[Running<'_>], core: usize, wait: &Wait) -> String {
    let mut steps = Vec::new();
    for running in all {
        let program = running.program;
        let rest = program.steps.iter().enumerate().skip(running.next + 1);
        let found = rest
            .filter(|(_, step)| brings(machine, program.core, &program.engine, step, core, wait))
            .map(|(index, _)| format!("step {index} of engine {}", program.engine));
        steps.extend(found.take(1));
    }
    if steps.is_empty() {
        return "nothing that is left brings it".into();
    }
    format!("only {} would bring it", steps.join(" or "))
}

/// Whether a step of an engine on core `from` adds to what an engine on core `to` waits for.
fn brings(
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
            transfers.any(|&transfer| {
                let bound = &layout.transfers[transfer];
                match *wait {
                    Wait::Event(event) => from == to && bound.event == Some(event),
                    Wait::Semaphore { semaphore, .. } if from == to => {
                        let of_set = || layout.sets[bound.set].semaphores.contains(&semaphore);
                        bound.semaphore.map_or_else(of_set, |own| own == semaphore)
                    }
                    Wait::Semaphore { semaphore, .. } => {
                        bound.remote_semaphores.contains(&semaphore)
                    }
                    Wait::Idle(_) => false,
                }
            })
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
