//! What everybody counted up to one moment.

use crate::Machine;
use crate::system::{Memory, Process, Processors};
use std::time::Instant;
use tenon_runtime::ProcessReport;

/// What the system and all processes that run models counted up to one moment.
#[derive(Debug, Clone)]
pub struct Sample {
    pub(crate) at: Instant,
    pub(crate) processors: Processors,
    pub(crate) memory: Memory,
    /// Each with what the system tells of it.
    pub(crate) processes: Vec<(ProcessReport, Process)>,
}

impl Sample {
    /// Of this moment.
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
