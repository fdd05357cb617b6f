//! Engine programs: lists of steps that run concurrently and synchronise with semaphores and events.

use super::{Machine, Wait, deadlock};
use tenon_base::{Control, Location, Result};

/// A step of an engine's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Starts descriptors of an id.
    Trigger {
        /// The function in which the id is looked up, `""` for the engine's main program.
        function: String,
        /// The id.
        id: u32,
        /// Number of descriptors of each of its transfers; `None` for all remaining ones.
        count: Option<u32>,
    },
    /// Waits until a semaphore has at least a value.
    WaitSemaphore {
        /// The semaphore.
        semaphore: u64,
        /// The value.
        at_least: u32,
    },
    /// Increments a semaphore.
    AddSemaphore {
        /// The semaphore.
        semaphore: u64,
        /// The increment.
        value: u32,
    },
    /// Sets a semaphore.
    SetSemaphore {
        /// The semaphore.
        semaphore: u64,
        /// The value.
        value: u32,
    },
    /// Waits until an event is set.
    WaitEvent(u64),
    /// Sets an event.
    SetEvent(u64),
    /// Clears an event.
    ClearEvent(u64),
    /// Waits until the queues of a set are empty, then activates an instance of the set.
    Swap {
        /// The queue set.
        queue: String,
        /// The instance.
        instance: String,
    },
}

/// The program of an engine of a core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The core.
    pub core: usize,
    /// The engine.
    pub engine: String,
    /// Its steps, in order.
    pub steps: Vec<Step>,
}

/// A program in execution.
pub(super) struct Running<'a> {
    pub program: &'a Program,
    /// The next step.
    pub next: usize,
    /// The condition that this step waits for.
    pub wait: Option<Wait>,
}

impl Machine {
    /// Runs programs concurrently until all have ended and all queues are empty.
    ///
    /// # Errors
    /// When all remaining programs are blocked (deadlock), a step or a descriptor fails, or `control`
    /// ends the run.
    pub fn run(&mut self, programs: &[Program], control: &Control) -> Result<()> {
        let running = |program| Running {
            program,
            next: 0,
            wait: None,
        };
        let mut all: Vec<Running<'_>> = programs.iter().map(running).collect();
        loop {
            control.check()?;
            let mut progress = false;
            for running in &mut all {
                progress |= self.step(running)?;
            }
            progress |= self.advance()?;
            if !progress {
                break;
            }
        }
        match deadlock::describe(self, &all) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Performs the next step of a program; returns whether it was performed.
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

    /// Programs that trigger all transfers of each engine once, in the order of their lists, without
    /// waits; instances are swapped in where their transfers require it. They replace the engine
    /// programs of a package, which Tenon does not execute.
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
