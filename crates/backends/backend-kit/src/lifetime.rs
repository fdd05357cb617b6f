//! What a backend makes besides workloads, how long it lasts, and what it gives back.

use crate::counting::CountingAllocator;
use crate::report::Report;
use crate::samples::{Sample, samples};
use std::sync::Arc;
use tenon_backend::{Allocation, Backend, OptionScope, OptionSetting, OwnedOperands, evaluate};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::Tensor;

/// Executions while memory is counted.
const EXECUTIONS: usize = 20;

pub(crate) fn check(
    report: &mut Report,
    backend: &Arc<dyn Backend>,
    again: impl Fn() -> Option<Arc<dyn Backend>>,
) {
    outlives(report, &again);
    options(report, &**backend);
    memory_manager(report, &**backend);
    crate::contexts::check(report, &**backend, &again);
    counters(report, &**backend);
    own_allocator(report, &**backend);
    lent_allocator(report, &**backend);
    crate::tensors::check(report, &**backend);
    crate::leaks::check(report, backend, &again);
}

fn wrong(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::ExecutionFailed, text)
}

/// The first sample that the backend takes.
fn taken(backend: &dyn Backend) -> Option<Sample> {
    samples()
        .into_iter()
        .find(|sample| sample.is_taken(backend))
}

/// A workload must work when the backend that made it is gone.
fn outlives(report: &mut Report, again: &impl Fn() -> Option<Arc<dyn Backend>>) {
    const NAME: &str = "workloads outlive their backend";
    let Some(other) = again() else {
        return report.skipped(NAME, "it is made once");
    };
    let Some(sample) = taken(&*other) else {
        return report.skipped(NAME, "it takes no sample");
    };
    report.told(NAME, outlive(other, &sample));
}

fn outlive(backend: Arc<dyn Backend>, sample: &Sample) -> Result<String> {
    let before = execute(&*backend, sample)?;
    let spec = sample.spec(true);
    let plan = backend.plan(&spec, tenon_backend::CpuLevel::Baseline)?;
    let workload = backend.workload(&spec)?;
    let (inputs, outputs) = (sample.operands(), sample.wanted());
    let mut operands = OwnedOperands::of(&*backend, &inputs, &outputs, plan.scratch_bytes)?;
    drop(backend);
    drop(spec);
    operands.execute(&*workload)?;
    if operands.into_outputs()? == before {
        Ok(sample.name.clone())
    } else {
        Err(wrong("the workload answers something else"))
    }
}

fn execute(backend: &dyn Backend, sample: &Sample) -> Result<Vec<Option<Tensor>>> {
    let (op, attributes) = (sample.node.op, &sample.node.attributes);
    evaluate(
        backend,
        op,
        attributes,
        &sample.operands(),
        &sample.wanted(),
    )
}

/// Model options must be taken with their own defaults.
fn options(report: &mut Report, backend: &dyn Backend) {
    const NAME: &str = "options";
    let known = backend.options();
    let defaults: Vec<OptionSetting> = known
        .iter()
        .filter(|option| option.scope == OptionScope::Model)
        .map(|option| OptionSetting {
            name: option.name.clone().into_owned(),
            value: option.default.clone(),
        })
        .collect();
    if known.is_empty() {
        return report.skipped(NAME, "it has none");
    }
    if let Some(option) = known.iter().find(|option| option.name.is_empty()) {
        return report.failed(NAME, format!("an option without a name: {}", option.doc));
    }
    let told = if defaults.is_empty() {
        Ok(())
    } else {
        backend
            .configured(&defaults)
            .and_then(|other| same_again(backend, &*other))
    };
    let names: Vec<&str> = known.iter().map(|option| &*option.name).collect();
    report.told(NAME, told.map(|()| names.join(", ")));
}

/// With its defaults a backend is the same.
fn same_again(backend: &dyn Backend, other: &dyn Backend) -> Result<()> {
    if other.id() != backend.id() {
        return Err(wrong("configured, it has another id").found(other.id()));
    }
    let Some(sample) = taken(backend) else {
        return Ok(());
    };
    if execute(backend, &sample)? == execute(other, &sample)? {
        Ok(())
    } else {
        Err(wrong("with its default options it answers something else"))
    }
}

fn memory_manager(report: &mut Report, backend: &dyn Backend) {
    const NAME: &str = "memory manager";
    match backend.memory_manager() {
        Ok(None) => report.skipped(NAME, "it has none"),
        Err(error) => report.failed(NAME, error.to_string()),
        Ok(Some(memory)) => {
            let work = || -> Result<String> {
                for _ in 0..2 {
                    memory.acquire()?;
                    if let Some(sample) = taken(backend) {
                        let spec = sample.spec(true);
                        let plan = backend.plan(&spec, tenon_backend::CpuLevel::Baseline)?;
                        let workload = backend.workload_in(&spec, &memory)?;
                        let scratch = plan.scratch_bytes;
                        let (inputs, outputs) = (sample.operands(), sample.wanted());
                        let mut operands = OwnedOperands::of(backend, &inputs, &outputs, scratch)?;
                        operands.execute(&*workload)?;
                    }
                    memory.release();
                }
                Ok("acquired and given back twice".into())
            };
            report.told(NAME, work());
        }
    }
}

fn counters(report: &mut Report, backend: &dyn Backend) {
    const NAME: &str = "counters";
    match backend.profiling() {
        Ok(None) => report.skipped(NAME, "it has none"),
        Err(error) => report.failed(NAME, error.to_string()),
        Ok(Some(profiling)) => {
            let work = || -> Result<String> {
                let mut values = vec![0; profiling.counters().len()];
                profiling.enable(true)?;
                if let Some(sample) = taken(backend) {
                    execute(backend, &sample)?;
                }
                profiling.sample(&mut values)?;
                profiling.enable(false)?;
                let named = profiling.counters().iter().zip(&values);
                let told: Vec<String> = named
                    .map(|(counter, value)| format!("{} {value}", counter.name))
                    .collect();
                Ok(told.join(", "))
            };
            report.told(NAME, work());
        }
    }
}

/// Memory of the allocator that it lends, in several sizes and alignments.
fn own_allocator(report: &mut Report, backend: &dyn Backend) {
    const NAME: &str = "its allocator";
    let Some(allocator) = backend.allocator() else {
        return report.skipped(NAME, "it lends none");
    };
    let work = || -> Result<String> {
        let mut kept = Vec::new();
        for (bytes, alignment) in [(1, 1), (64, 64), (1000, 256), (1 << 20, 4096)] {
            kept.push(Allocation::new(allocator.clone(), bytes, alignment)?);
        }
        kept.sort_by_key(Allocation::address);
        let apart = kept
            .windows(2)
            .all(|two| two[0].address() != two[1].address());
        if apart {
            Ok(format!("{:?} memory", allocator.source()))
        } else {
            Err(wrong("two allocations are the same memory"))
        }
    };
    report.told(NAME, work());
}

/// With an allocator that counts: everything that was taken must have come back.
fn lent_allocator(report: &mut Report, backend: &dyn Backend) {
    const NAME: &str = "memory given back";
    let counting = Arc::new(CountingAllocator::default());
    let other = match backend.with_allocator(counting.clone()) {
        Ok(other) => other,
        Err(error) => return report.skipped(NAME, error.to_string()),
    };
    let Some(sample) = taken(&*other) else {
        return report.skipped(NAME, "it takes no sample");
    };
    let work = || -> Result<()> {
        for _ in 0..EXECUTIONS {
            execute(&*other, &sample)?;
        }
        Ok(())
    };
    let done = work();
    drop(other);
    let (taken, left) = (counting.taken(), counting.outstanding());
    report.told(
        NAME,
        done.and_then(|()| match left {
            0 => Ok(format!("{taken} allocations, all given back")),
            left => Err(wrong(format!("{left} of {taken} allocations are kept"))),
        }),
    );
}
