//! Engine programs: steps that run side by side and meet at semaphores and events.

use super::{Machine, Wait, deadlock};
use tenon_base::{Control, Location, Result};

/// A step of an engine's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Starts descriptors of an id.
    Trigger {
        /// The function in which the id is looked up, `""` for the engine's own program.
        function: String,
        /// The id.
        id: u32,
        /// How many descriptors of each of its transfers; `None` for all that are left.
        count: Option<u32>,
    },
    /// Goes on when a semaphore is at least a value.
    WaitSemaphore {
        /// Which.
        semaphore: u64,
        /// The value.
        at_least: u32,
    },
    /// Increments a semaphore.
    AddSemaphore {
        /// Which.
        semaphore: u64,
        /// By how much.
        value: u32,
    },
    /// Gives a semaphore a value.
    SetSemaphore {
        /// Which.
        semaphore: u64,
        /// The value.
        value: u32,
    },
    /// Goes on when an event is set.
    WaitEvent(u64),
    /// Sets an event.
    SetEvent(u64),
    /// Clears an event.
    ClearEvent(u64),
    /// Puts an instance of a queue set in place of the one that is in, when its queues are empty.
    Swap {
        /// The queue set.
        queue: String,
        /// The instance.
        instance: String,
    },
}

/// What an engine of a core does, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The core.
    pub core: usize,
    /// The engine.
    pub engine: String,
    /// What it does.
    pub steps: Vec<Step>,
}

/// A program and how far it is.
pub(super) struct Running<'a> {
    pub program: &'a Program,
    /// The next step.
    pub next: usize,
    /// What that step waits for.
    pub wait: Option<Wait>,
}

impl Machine {
    /// Runs programs side by side until all have ended, then what is still in queues. An error
    /// when none can go on.
    pub fn run(&mut self, programs: &[Program], control: &Control) -> Result<()> {
        let running = |program| Running {
            program,
            next: 0,
            wait: None,
        };
        let mut all: Vec<Running<'_>> = programs.iter().map(running).collect();
        loop {
            control.check()?;
            let mut goes_on = false;
            for running in &mut all {
                goes_on |= self.step(running)?;
            }
            goes_on |= self.advance()?;
            if !goes_on {
                break;
            }
        }
        match deadlock::describe(self, &all) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Performs the next step of a program; whether it could.
    fn step(&mut self, running: &mut Running<'_>) -> Result<bool> {
        let program = running.program;
        let Some(step) = program.steps.get(running.next) else {
            return Ok(false);
        };
        let performed = self.perform(program.core, &program.engine, step);
        running.wait = performed.map_err(|error| {
            let place = format!("engine {}, step {}", program.engine, running.next);
            error.at(Location::field(place))
        })?;
        if running.wait.is_none() {
            running.next += 1;
        }
        Ok(running.wait.is_none())
    }

    /// Each engine's transfers triggered once, in the order of their lists: what runs of a package
    /// whose engine programs do not run here. Instances are swapped in as they come; waits there
    /// are none.
    pub fn all_triggers(&self) -> Vec<Program> {
        let mut programs: Vec<Program> = Vec::new();
        for (core, engines) in self.layout.engines.iter().enumerate() {
            programs.extend(engines.iter().map(|engine| Program {
                core,
                engine: engine.clone(),
                steps: Vec::new(),
            }));
        }
        let mut groups: Vec<_> = self.layout.groups.iter().collect();
        groups.sort_unstable_by_key(|(_, group)| group.transfers.first());
        for ((core, engine, function, id), group) in groups {
            let name = &self.layout.engines[*core][*engine];
            let program = programs
                .iter_mut()
                .find(|program| program.core == *core && program.engine == *name);
            let Some(program) = program else { continue };
            for &transfer in &group.transfers {
                let bound = &self.layout.transfers[transfer];
                let set = &self.layout.sets[bound.set];
                if let Some(instance) = bound.instance.and_then(|index| set.instances.get(index)) {
                    program.steps.push(Step::Swap {
                        queue: set.name.clone(),
                        instance: instance.clone(),
                    });
                }
            }
            program.steps.push(Step::Trigger {
                function: function.clone(),
                id: *id,
                count: None,
            });
        }
        programs
    }
}
