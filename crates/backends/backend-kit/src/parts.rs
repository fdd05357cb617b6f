//! Parts of workloads: the same for every workload of a node, and their times within the time of an execution.

use crate::report::Report;
use crate::samples::{Sample, samples};
use crate::streams::on_streams;
use crate::workloads::is_supported_variable;
use std::time::{Duration, Instant};
use tenon_backend::{Backend, CpuLevel, OwnedOperands, Stream, Workload};
use tenon_base::{Error, ErrorKind, Result};

const NAME: &str = "parts of workloads";

/// Executions of each workload.
const EXECUTIONS: usize = 3;

pub(crate) fn check(report: &mut Report, backend: &dyn Backend) {
    let mut stream = match backend.stream(None) {
        Ok(stream) => stream,
        Err(error) => return report.failed(NAME, error.to_string()),
    };
    let (mut count, mut problems) = (0, Vec::new());
    for sample in samples() {
        if !is_supported_variable(backend, &sample) {
            continue;
        }
        match check_sample(backend, &sample, &mut stream) {
            Ok(parts) => count += parts,
            Err(error) => problems.push(format!("{}: {error}", sample.name)),
        }
    }
    report.problems(NAME, count, &problems);
}

fn wrong(text: &str) -> Error {
    Error::new(ErrorKind::ExecutionFailed, text)
}

/// The number of parts of a workload.
fn check_sample(
    backend: &dyn Backend,
    sample: &Sample,
    stream: &mut Option<Box<dyn Stream>>,
) -> Result<usize> {
    let spec = sample.spec(false);
    let workload = backend.workload(&spec)?;
    let parts = workload.parts();
    if backend.workload(&spec)?.parts() != parts {
        return Err(wrong("two workloads of one node have different parts"));
    }
    if parts.is_empty() {
        return Ok(0);
    }
    if parts.iter().any(|part| part.name.is_empty()) {
        return Err(wrong("a part has no name"));
    }
    for _ in 0..EXECUTIONS {
        let (found, most) = times(backend, sample, &*workload, stream)?;
        let sum = found
            .iter()
            .fold(0u64, |sum, &time| sum.saturating_add(time));
        let sum = Duration::from_nanos(sum);
        if sum > most {
            let error = wrong("the parts take longer together than the execution");
            return Err(error
                .expected(format_args!("at most {most:?}"))
                .found(format_args!("{sum:?}")));
        }
        if workload.parts() != parts {
            return Err(wrong("an execution changes the parts of its workload"));
        }
    }
    Ok(parts.len())
}

/// The times of the parts in one execution, and the time of the execution.
fn times(
    backend: &dyn Backend,
    sample: &Sample,
    workload: &dyn Workload,
    stream: &mut Option<Box<dyn Stream>>,
) -> Result<(Vec<u64>, Duration)> {
    let mut times = vec![u64::MAX; workload.parts().len()];
    let started = Instant::now();
    let most = match stream {
        Some(stream) => {
            on_streams(backend, sample, workload, std::slice::from_mut(stream))?;
            let most = started.elapsed();
            workload.part_times(Some(&mut **stream), &mut times)?;
            most
        }
        None => {
            let plan = backend.plan(&sample.spec(false), CpuLevel::Baseline)?;
            let (inputs, outputs) = (sample.operands(), sample.output_types());
            let mut operands = OwnedOperands::of(backend, &inputs, &outputs, plan.scratch_bytes)?;
            let started = Instant::now();
            operands.execute_timed(workload, true)?;
            let most = started.elapsed();
            workload.part_times(None, &mut times)?;
            most
        }
    };
    Ok((times, most))
}
