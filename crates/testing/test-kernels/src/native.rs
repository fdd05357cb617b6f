//! Native functions: the host has their bodies.

use crate::failed;
use tenon_base::Result;
use tenon_executor::{Chain, Host, KernelDef, RestOperands, kernel};

/// All of them, for `Registry::register_native`.
pub fn library() -> Vec<KernelDef> {
    vec![
        kernel("native_sink", |_: RestOperands<'_>| ()).doc("Takes anything."),
        kernel("native_async_sink", |_: RestOperands<'_>| Chain)
            .doc("A chain behind all arguments."),
        kernel("native_add", |a: i32, b: i32| a.wrapping_add(b)).doc("a + b, wrapping."),
        kernel("native_async_add", |a: i32, b: i32, host: &Host| {
            host.spawn_result(move || Ok(a.wrapping_add(b)))
        })
        .doc("a + b, wrapping, computed in a task."),
        kernel("native_error", || -> Result<i32> {
            Err(failed("something bad happened"))
        })
        .doc("An error, told to nobody."),
    ]
}
