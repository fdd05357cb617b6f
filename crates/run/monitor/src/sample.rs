//! Samples of the counters of processes and the system.

use crate::Machine;
use crate::system::{Memory, Process, Processors};
use std::time::Instant;
use tenon_runtime::ProcessReport;

/// The counters of the system and of all processes that execute models at one time.
#[derive(Debug, Clone)]
pub struct Sample {
    pub(crate) at: Instant,
    pub(crate) processors: Processors,
    pub(crate) memory: Memory,
    /// Reports of processes with the counters of the system for them.
    pub(crate) processes: Vec<(ProcessReport, Process)>,
}

impl Sample {
    /// The current counters.
    pub fn now(machine: &Machine) -> Self {
        let reports = ProcessReport::read_all(&machine.folders);
        Self {
            at: Instant::now(),
            processors: Processors::now(),
            memory: Memory::now(),
            processes: reports
                .into_iter()
                .map(|report| {
                    let process = Process::now(report.pid);
                    (report, process)
                })
                .collect(),
        }
    }

    /// The same process in this sample.
    pub(crate) fn process(&self, report: &ProcessReport) -> Option<&(ProcessReport, Process)> {
        self.processes
            .iter()
            .find(|(known, _)| (known.pid, known.started) == (report.pid, report.started))
    }
}
