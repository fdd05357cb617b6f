//! Native functions, implemented by the host.

use crate::failed;
use tenon_base::Result;
use tenon_executor::{Chain, Host, KernelDef, RestOperands, kernel};

/// All native functions, for `Registry::register_native`.
pub fn library() -> Vec<KernelDef> {
    vec![
        kernel("native_sink", |_: RestOperands<'_>| ()).doc("Takes any arguments."),
        kernel("native_async_sink", |_: RestOperands<'_>| Chain)
            .doc("A chain after all arguments."),
        kernel("native_add", |a: i32, b: i32| a.wrapping_add(b)).doc("a + b, wrapping."),
        kernel("native_async_add", |a: i32, b: i32, host: &Host| {
            host.spawn_result(move || Ok(a.wrapping_add(b)))
        })
        .doc("a + b, wrapping, computed in a task."),
        kernel("native_error", || -> Result<i32> {
            Err(failed("something bad happened"))
        })
        .doc("An error without a diagnostic."),
    ]
}
