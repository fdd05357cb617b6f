//! Contexts: the callbacks about models, in the order in which a runtime calls them.

use crate::report::Report;
use std::sync::Arc;
use tenon_backend::{Backend, BackendContext, CreationOptions, NetworkId};
use tenon_base::{Error, ErrorKind, Result};

/// Number of models that are loaded concurrently, one per thread.
const THREADS: u64 = 8;

/// Executions per model.
const EXECUTIONS: usize = 20;

pub(crate) fn check(
    report: &mut Report,
    backend: &dyn Backend,
    create: &impl Fn() -> Option<Arc<dyn Backend>>,
) {
    const NAME: &str = "context";
    let context = match backend.context(&CreationOptions::default()) {
        Ok(None) => return report.skipped(NAME, "it has none"),
        Err(error) => return report.failed(NAME, error.to_string()),
        Ok(Some(context)) => context,
    };
    report.result(NAME, concurrent(&*context));
    report.result(
        "context of another runtime",
        second_runtime(&*context, backend),
    );
    if let Some(other) = create() {
        report.result("context outlives its backend", outlive(other));
    }
}

/// The callbacks of a model from loading to unloading.
fn life(context: &dyn BackendContext, network: NetworkId) -> Result<()> {
    context.before_load(network)?;
    context.after_load(network)?;
    for _ in 0..EXECUTIONS {
        context.after_enqueue(network)?;
    }
    context.before_unload(network)?;
    context.after_unload(network)
}

/// Two overlapping models, then one model per thread, then the id of an earlier model.
fn concurrent(context: &dyn BackendContext) -> Result<String> {
    let [first, second] = [NetworkId(1), NetworkId(2)];
    context.before_load(first)?;
    context.after_load(first)?;
    context.before_load(second)?;
    context.after_load(second)?;
    context.after_enqueue(first)?;
    context.before_unload(first)?;
    context.after_enqueue(second)?;
    context.after_unload(first)?;
    context.before_unload(second)?;
    context.after_unload(second)?;
    std::thread::scope(|scope| {
        let all: Vec<_> = (10..10 + THREADS)
            .map(|network| scope.spawn(move || life(context, NetworkId(network))))
            .collect();
        let ended = all.into_iter().map(|thread| {
            let panicked = |_| Err(Error::new(ErrorKind::ExecutionFailed, "a thread panicked"));
            thread.join().unwrap_or_else(panicked)
        });
        ended.collect::<Result<()>>()
    })?;
    life(context, first)?;
    Ok(format!("called for models, {THREADS} concurrently"))
}

/// Network ids of different runtimes may be equal.
fn second_runtime(context: &dyn BackendContext, backend: &dyn Backend) -> Result<String> {
    let Some(other) = backend.context(&CreationOptions::default())? else {
        let text = "it has a context for the first runtime only";
        return Err(Error::new(ErrorKind::ExecutionFailed, text));
    };
    let network = NetworkId(1);
    context.before_load(network)?;
    context.after_load(network)?;
    life(&*other, network)?;
    drop(other);
    context.after_enqueue(network)?;
    context.before_unload(network)?;
    context.after_unload(network)?;
    Ok("models of equal ids are separate".into())
}

fn outlive(backend: Arc<dyn Backend>) -> Result<String> {
    let context = backend.context(&CreationOptions::default())?;
    drop(backend);
    match context {
        Some(context) => life(&*context, NetworkId(1)).map(|()| "called for a model".into()),
        None => Ok("it has none".into()),
    }
}
