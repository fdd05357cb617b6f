//! Objects of a backend other than workloads: options, memory, counters, allocators, and lifetimes.

use crate::counting::CountingAllocator;
use crate::report::Report;
use crate::samples::{Sample, samples};
use std::sync::Arc;
use tenon_backend::{Allocation, Backend, OptionScope, OptionSetting, OwnedOperands, evaluate};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::Tensor;

/// Executions while allocations are counted.
const EXECUTIONS: usize = 20;

pub(crate) fn check(
    report: &mut Report,
    backend: &Arc<dyn Backend>,
    create: impl Fn() -> Option<Arc<dyn Backend>>,
) {
    outlives(report, &create);
    options(report, &**backend);
    memory_manager(report, &**backend);
    crate::contexts::check(report, &**backend, &create);
    counters(report, &**backend);
    crate::cache::check(report, &create);
    own_allocator(report, &**backend);
    set_allocator(report, &**backend);
    crate::tensors::check(report, &**backend);
    crate::streams::check(report, &**backend);
    crate::parts::check(report, &**backend);
    crate::leaks::check(report, backend, &create);
}

fn wrong(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::ExecutionFailed, text)
}

/// The first supported sample.
fn supported_sample(backend: &dyn Backend) -> Option<Sample> {
    samples()
        .into_iter()
        .find(|sample| sample.is_supported(backend))
}

/// A workload must outlive its backend.
fn outlives(report: &mut Report, create: &impl Fn() -> Option<Arc<dyn Backend>>) {
    const NAME: &str = "workloads outlive their backend";
    let Some(other) = create() else {
        return report.skipped(NAME, "it cannot be created again");
    };
    let Some(sample) = supported_sample(&*other) else {
        return report.skipped(NAME, "it supports no sample");
    };
    report.result(NAME, outlive(other, &sample));
}

fn outlive(backend: Arc<dyn Backend>, sample: &Sample) -> Result<String> {
    let before = execute(&*backend, sample)?;
    let spec = sample.spec(true);
    let plan = backend.plan(&spec, tenon_backend::CpuLevel::Baseline)?;
    let workload = backend.workload(&spec)?;
    let (inputs, outputs) = (sample.operands(), sample.output_types());
    let mut operands = OwnedOperands::of(&*backend, &inputs, &outputs, plan.scratch_bytes)?;
    drop(backend);
    drop(spec);
    operands.execute(&*workload)?;
    if operands.into_outputs()? == before {
        Ok(sample.name.clone())
    } else {
        Err(wrong("the workload computes another result"))
    }
}

pub(crate) fn execute(backend: &dyn Backend, sample: &Sample) -> Result<Vec<Option<Tensor>>> {
    let (op, attributes) = (sample.node.op, &sample.node.attributes);
    evaluate(
        backend,
        op,
        attributes,
        &sample.operands(),
        &sample.output_types(),
    )
}

/// A backend must accept the defaults of its model options.
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
    let configured = if defaults.is_empty() {
        Ok(())
    } else {
        backend
            .configured(&defaults)
            .and_then(|other| behaves_the_same(backend, &*other))
    };
    let names: Vec<&str> = known.iter().map(|option| &*option.name).collect();
    report.result(NAME, configured.map(|()| names.join(", ")));
}

/// Configured with its defaults, a backend must behave the same.
fn behaves_the_same(backend: &dyn Backend, other: &dyn Backend) -> Result<()> {
    if other.id() != backend.id() {
        return Err(wrong("configured, it has another id").found(other.id()));
    }
    let Some(sample) = supported_sample(backend) else {
        return Ok(());
    };
    if execute(backend, &sample)? == execute(other, &sample)? {
        Ok(())
    } else {
        Err(wrong("with its default options it computes another result"))
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
                    if let Some(sample) = supported_sample(backend) {
                        let spec = sample.spec(true);
                        let plan = backend.plan(&spec, tenon_backend::CpuLevel::Baseline)?;
                        let workload = backend.workload_in(&spec, &memory)?;
                        let scratch = plan.scratch_bytes;
                        let (inputs, outputs) = (sample.operands(), sample.output_types());
                        let mut operands = OwnedOperands::of(backend, &inputs, &outputs, scratch)?;
                        operands.execute(&*workload)?;
                    }
                    memory.release();
                }
                Ok("acquired and released twice".into())
            };
            report.result(NAME, work());
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
                if let Some(sample) = supported_sample(backend) {
                    execute(backend, &sample)?;
                }
                profiling.sample(&mut values)?;
                profiling.enable(false)?;
                let named = profiling.counters().iter().zip(&values);
                let values: Vec<String> = named
                    .map(|(counter, value)| format!("{} {value}", counter.name))
                    .collect();
                Ok(values.join(", "))
            };
            report.result(NAME, work());
        }
    }
}

/// Allocations of its allocator in several sizes and alignments.
fn own_allocator(report: &mut Report, backend: &dyn Backend) {
    const NAME: &str = "its allocator";
    let Some(allocator) = backend.allocator() else {
        return report.skipped(NAME, "it offers none");
    };
    let work = || -> Result<String> {
        let mut allocations = Vec::new();
        for (bytes, alignment) in [(1, 1), (64, 64), (1000, 256), (1 << 20, 4096)] {
            allocations.push(Allocation::new(allocator.clone(), bytes, alignment)?);
        }
        allocations.sort_by_key(Allocation::address);
        let distinct = allocations
            .windows(2)
            .all(|two| two[0].address() != two[1].address());
        if distinct {
            Ok(format!("{:?} memory", allocator.source()))
        } else {
            Err(wrong("two allocations have the same address"))
        }
    };
    report.result(NAME, work());
}

/// With a counting allocator: every allocation must be freed.
fn set_allocator(report: &mut Report, backend: &dyn Backend) {
    const NAME: &str = "memory is freed";
    let counting = Arc::new(CountingAllocator::default());
    let other = match backend.with_allocator(counting.clone()) {
        Ok(other) => other,
        Err(error) => return report.skipped(NAME, error.to_string()),
    };
    let Some(sample) = supported_sample(&*other) else {
        return report.skipped(NAME, "it supports no sample");
    };
    let work = || -> Result<()> {
        for _ in 0..EXECUTIONS {
            execute(&*other, &sample)?;
        }
        Ok(())
    };
    let done = work();
    drop(other);
    let (count, live) = (counting.allocations(), counting.outstanding());
    report.result(
        NAME,
        done.and_then(|()| match live {
            0 => Ok(format!("{count} allocations, all freed")),
            live => Err(wrong(format!(
                "{live} of {count} allocations are not freed"
            ))),
        }),
    );
}
