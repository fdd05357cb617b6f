//! Memory leaks: each kind of object is created and released many times, after which no more heap
//! may be in use.
//!
//! glibc reports the use of its main heap, from which the main thread allocates: allocations of a
//! library in any language are included. On other systems and threads the check is skipped.

#![allow(
    unsafe_code,
    reason = "an allocator, the heap in use and borrowed memory"
)]

use crate::report::Report;
use crate::samples::{Sample, samples};
use crate::support::chain;
use std::sync::Arc;
use tenon_backend::{
    Allocation, Backend, CpuLevel, CreationOptions, NetworkId, OptionScope, OptionSetting,
    OwnedOperands, preferred_factory,
};
use tenon_base::Result;

/// Number of creations before and during the measurement.
const WARM_UP: usize = 50;
const MEASURED: usize = 500;

/// Most measurements of a kind of object that seems to leak.
const MEASUREMENTS: usize = 3;

/// Maximum number of leaked bytes per creation: less than glibc's smallest chunk.
const MAX_LEAK: usize = 16;

/// A kind of object, by name, with a function that creates and drops one.
type ObjectKind<'a> = (&'static str, Box<dyn Fn() -> Result<()> + 'a>);

pub(crate) fn check(
    report: &mut Report,
    backend: &Arc<dyn Backend>,
    create: &impl Fn() -> Option<Arc<dyn Backend>>,
) {
    const NAME: &str = "nothing leaks";
    if in_use().is_none() {
        return report.skipped(
            NAME,
            "the use of the heap is known on the main thread with glibc only",
        );
    }
    let (mut clean, mut leaking) = (Vec::new(), Vec::new());
    for (name, make) in object_kinds(&**backend, create) {
        // Objects that cannot be created are reported by the other checks.
        if make().is_err() {
            continue;
        }
        match leaked_bytes(&*make) {
            0..MAX_LEAK => clean.push(name),
            bytes => leaking.push(format!("{name}: {bytes} bytes each")),
        }
    }
    if leaking.is_empty() {
        report.passed(NAME, format!("of {}", clean.join(", ")))
    } else {
        report.failed(NAME, leaking.join("; "))
    }
}

/// Leaked bytes per creation: the least of some measurements, since a thread of the backend may hold memory for a while.
fn leaked_bytes(make: &dyn Fn() -> Result<()>) -> usize {
    let many = |times| (0..times).try_for_each(|_| make());
    // The first creations fill caches of allocators.
    if many(WARM_UP).is_err() {
        return 0;
    }
    let mut least = usize::MAX;
    for _ in 0..MEASUREMENTS {
        let before = in_use().unwrap_or_default();
        if many(MEASURED).is_err() {
            return 0;
        }
        let leaked = in_use().unwrap_or_default().saturating_sub(before);
        least = least.min(leaked / MEASURED);
        if least < MAX_LEAK {
            break;
        }
    }
    least
}

/// All kinds of objects that the backend creates.
fn object_kinds<'a>(
    backend: &'a dyn Backend,
    create: &'a impl Fn() -> Option<Arc<dyn Backend>>,
) -> Vec<ObjectKind<'a>> {
    let (supported, refused): (Vec<Sample>, Vec<Sample>) = samples()
        .into_iter()
        .partition(|sample| sample.is_supported(backend));
    let mut all: Vec<ObjectKind<'a>> = Vec::new();
    all.push((
        "backends",
        Box::new(|| {
            drop(create());
            Ok(())
        }),
    ));
    if let Some(sample) = refused.into_iter().next() {
        all.push((
            "refusals",
            Box::new(move || {
                drop(sample.with_view(backend, |backend, view| backend.supports(view)));
                Ok(())
            }),
        ));
    }
    if let Some(sample) = supported.into_iter().next() {
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
                let (inputs, outputs) = (sample.operands(), sample.output_types());
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

/// Bytes of the heap in use; `None` off the main thread.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn in_use() -> Option<usize> {
    // SAFETY: these functions take no arguments and only read state of the process.
    let (main, heap) = unsafe { (libc::gettid() == libc::getpid(), libc::mallinfo2()) };
    main.then_some(heap.uordblks + heap.hblkhd)
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn in_use() -> Option<usize> {
    None
}
