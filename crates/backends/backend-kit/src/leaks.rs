//! Memory that is not given back: what a backend makes is made and released many times, and must
//! leave nothing behind.
//!
//! The C library tells how much of its main heap is in use, which is what the main thread takes
//! from: a library's own allocations are seen there, whatever language it is written in. Elsewhere
//! the check is skipped.

use crate::report::Report;
use crate::samples::{Sample, samples};
use crate::support::chain;
use std::sync::Arc;
use tenon_backend::{
    Allocation, Backend, CpuLevel, CreationOptions, NetworkId, OptionScope, OptionSetting,
    OwnedOperands, preferred_factory,
};
use tenon_base::Result;

/// How often each is made before memory is looked at, and while it is.
const BEFORE: usize = 50;
const WHILE: usize = 500;

/// Bytes that may stay of each: less than the smallest piece that the C library hands out.
const STAYS: usize = 16;

/// Something that a backend makes, by its name.
type Made<'a> = (&'static str, Box<dyn Fn() -> Result<()> + 'a>);

pub(crate) fn check(
    report: &mut Report,
    backend: &Arc<dyn Backend>,
    again: &impl Fn() -> Option<Arc<dyn Backend>>,
) {
    const NAME: &str = "nothing leaks";
    if in_use().is_none() {
        return report.skipped(
            NAME,
            "the heap in use is told to the main thread of glibc alone",
        );
    }
    let (mut clean, mut leaking) = (Vec::new(), Vec::new());
    for (name, make) in everything(&**backend, again) {
        // What it cannot make is told by the other checks.
        if make().is_err() {
            continue;
        }
        match left_behind(&*make) {
            0..STAYS => clean.push(name),
            bytes => leaking.push(format!("{name}: {bytes} bytes each")),
        }
    }
    if leaking.is_empty() {
        report.passed(NAME, format!("of {}", clean.join(", ")))
    } else {
        report.failed(NAME, leaking.join("; "))
    }
}

/// Bytes that stay in use each time.
fn left_behind(make: &dyn Fn() -> Result<()>) -> usize {
    let many = |times| (0..times).try_for_each(|_| make());
    // The first ones fill caches of allocators.
    let told = many(BEFORE).and_then(|()| {
        let before = in_use().unwrap_or_default();
        many(WHILE)?;
        Ok(in_use().unwrap_or_default().saturating_sub(before))
    });
    told.unwrap_or_default() / WHILE
}

/// All that the backend makes.
fn everything<'a>(
    backend: &'a dyn Backend,
    again: &'a impl Fn() -> Option<Arc<dyn Backend>>,
) -> Vec<Made<'a>> {
    let (taken, refused): (Vec<Sample>, Vec<Sample>) = samples()
        .into_iter()
        .partition(|sample| sample.is_taken(backend));
    let mut all: Vec<Made<'a>> = Vec::new();
    all.push((
        "backends",
        Box::new(|| {
            drop(again());
            Ok(())
        }),
    ));
    if let Some(sample) = refused.into_iter().next() {
        all.push((
            "refusals",
            Box::new(move || {
                drop(sample.asked(backend, |backend, view| backend.supports(view)));
                Ok(())
            }),
        ));
    }
    if let Some(sample) = taken.into_iter().next() {
        let spec = sample.spec(true);
        let planned = spec.clone();
        all.push((
            "plans",
            Box::new(move || backend.plan(&planned, CpuLevel::Baseline).map(drop)),
        ));
        all.push((
            "workloads",
            Box::new(move || {
                let plan = backend.plan(&spec, CpuLevel::Baseline)?;
                let workload = backend.workload(&spec)?;
                let (inputs, outputs) = (sample.operands(), sample.wanted());
                let mut operands =
                    OwnedOperands::of(backend, &inputs, &outputs, plan.scratch_bytes)?;
                operands.execute(&*workload)
            }),
        ));
    }
    if let Ok(chain) = chain() {
        all.push((
            "subgraphs",
            Box::new(move || backend.optimise(&chain).map(drop)),
        ));
    }
    all.push(("configured backends", Box::new(move || configured(backend))));
    all.push(("contexts", Box::new(move || contexts(backend))));
    all.push((
        "memory managers",
        Box::new(move || {
            let Some(memory) = backend.memory_manager()? else {
                return Ok(());
            };
            memory.acquire()?;
            memory.release();
            Ok(())
        }),
    ));
    all.push((
        "counters",
        Box::new(move || {
            let Some(profiling) = backend.profiling()? else {
                return Ok(());
            };
            profiling.sample(&mut vec![0; profiling.counters().len()])
        }),
    ));
    if let Some(ty) = samples().pop().map(|sample| sample.inputs[0].ty().clone()) {
        all.push((
            "tensors",
            Box::new(move || {
                let factories = backend.handle_factories();
                match preferred_factory(&factories) {
                    Some(factory) => backend.tensor_handle(&factory.id, &ty).map(drop),
                    None => Ok(()),
                }
            }),
        ));
    }
    all.push((
        "allocations",
        Box::new(move || match backend.allocator() {
            Some(allocator) => Allocation::new(allocator, 100, 64).map(drop),
            None => Ok(()),
        }),
    ));
    all
}

fn configured(backend: &dyn Backend) -> Result<()> {
    let options = backend.options();
    let model = options
        .iter()
        .filter(|option| option.scope == OptionScope::Model);
    let defaults: Vec<OptionSetting> = model
        .map(|option| OptionSetting {
            name: option.name.clone().into_owned(),
            value: option.default.clone(),
        })
        .collect();
    if defaults.is_empty() {
        Ok(())
    } else {
        backend.configured(&defaults).map(drop)
    }
}

fn contexts(backend: &dyn Backend) -> Result<()> {
    let Some(context) = backend.context(&CreationOptions::default())? else {
        return Ok(());
    };
    let network = NetworkId(1);
    context.before_load(network)?;
    context.after_load(network)?;
    context.after_enqueue(network)?;
    context.before_unload(network)?;
    context.after_unload(network)
}

/// Bytes of the heap that are in use, on the main thread.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn in_use() -> Option<usize> {
    // SAFETY: these functions take nothing and only read.
    let (main, heap) = unsafe { (libc::gettid() == libc::getpid(), libc::mallinfo2()) };
    main.then_some(heap.uordblks + heap.hblkhd)
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn in_use() -> Option<usize> {
    None
}
