//! Functions that are called once per request.

use super::pending::Promises;
use crate::host::failed;
use std::sync::{Mutex, PoisonError};
use tenon_executor::{FunctionHandle, KernelDef, Request, RestOperands, Value, kernel};

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![kernel("tfrt.once", once).doc(
        "Calls the function the first time in a request; returns the results of that call every time.",
    )]
}

/// The results of the first call, a resource of the request.
struct OnceResults {
    results: Vec<Value>,
    /// Taken by the first caller.
    first: Mutex<Option<Promises>>,
}

fn once(arguments: RestOperands<'_>, function: FunctionHandle, request: &Request) -> Vec<Value> {
    let results = function.result_types().len();
    let resource = request.resource(&format!("tfrt.once @{}", function.name()), || {
        let (results, promises) = Promises::new(results);
        OnceResults {
            results,
            first: Mutex::new(Some(promises)),
        }
    });
    let Ok(once) = resource else {
        // Without a diagnostic, as in the original.
        return vec![Value::error(failed("tfrt.once requires resource context")); results];
    };
    let mut first = once.first.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(promises) = first.take() {
        drop(first);
        promises.set(function.execute(request, arguments.iter().cloned().collect()));
    }
    once.results.clone()
}
