//! Kernels whose results are computed in tasks.

use crate::failed;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tenon_executor::{
    Attr, Chain, FunctionHandle, Host, KernelDef, PendingResult, Promise, Reporter, Request,
    RestOperands, Severity, Task, Value, kernel, pending, pending_result,
};

pub(crate) fn kernels() -> Vec<KernelDef> {
    let families = [copies(), sleeping(), failing()];
    let mut kernels: Vec<_> = families.into_iter().flatten().collect();
    kernels.push(
        kernel("tfrt_test.do.async", do_async).doc("Calls the region with the operands in a task."),
    );
    kernels
}

fn copies() -> Vec<KernelDef> {
    vec![
        kernel("tfrt_test.async_add.i32", |a: i32, b: i32, host: &Host| {
            host.spawn_result(move || Ok(a.wrapping_add(b)))
        })
        .doc("a + b, wrapping, computed in a task."),
        kernel(
            "tfrt_test.async_constant.i1",
            |value: Attr<bool>, host: &Host| host.spawn_result(move || Ok(value.0)),
        )
        .doc("The attribute `value`, from a task."),
        kernel(
            "tfrt_test.async_constant.i32",
            |value: Attr<i32>, host: &Host| host.spawn_result(move || Ok(value.0)),
        )
        .doc("The attribute `value`, from a task."),
        kernel("tfrt_test.async_copy.i32", |x: i32, host: &Host| {
            host.spawn_result(move || Ok(x))
        })
        .doc(COPY),
        kernel("tfrt_test.async_copy_2.i32", |x: i32, host: &Host| {
            let (result, promise) = pending_result::<i32>();
            host.spawn(move || promise.set(Value::I32(x)));
            result
        })
        .doc(COPY),
        kernel(
            "tfrt_test.async_copy.with_delay.i32",
            |x: i32, host: &Host| {
                host.spawn_result(move || {
                    sleep_a_little();
                    Ok(x)
                })
            },
        )
        .doc(SLOW_COPY),
        kernel(
            "tfrt_test.async_copy.with_delay.i64",
            |x: i64, host: &Host| {
                host.spawn_result(move || {
                    sleep_a_little();
                    Ok(x)
                })
            },
        )
        .doc(SLOW_COPY),
    ]
}

const COPY: &str = "The operand, from a task.";
const SLOW_COPY: &str = "The operand, from a task that sleeps 1 to 10 ms.";

/// Sleeps 1 to 10 ms, so that results become available in any order.
pub(crate) fn sleep_a_little() {
    use std::hash::{BuildHasher, RandomState};
    // The standard library's only source of randomness.
    let random = RandomState::new().hash_one(());
    sleep(Duration::from_millis(1 + random % 10));
}

fn sleeping() -> Vec<KernelDef> {
    vec![
        kernel(
            "tfrt_test.usleep",
            |microseconds: i32, request: &Request| {
                sleep_in_task(microseconds, request, None);
            },
        )
        .doc("Sleeps in a blocking task, then prints how long."),
        kernel(
            "tfrt_test.blocking.usleep",
            |microseconds: i32, request: &Request| {
                let (done, promise) = pending_result::<Chain>();
                sleep_in_task(microseconds, request, Some(promise));
                done
            },
        )
        .doc("Sleeps in a blocking task, then prints how long; then the chain is available."),
        kernel("tfrt_test.quiesce", |_: Chain, host: &Host| {
            host.queue().quiesce();
            Chain
        })
        .doc("Waits until no task is left."),
    ]
}

/// The interval at which a sleeping task checks for cancellation.
const NAP: Duration = Duration::from_millis(50);

fn sleep_in_task(microseconds: i32, request: &Request, done: Option<Promise>) {
    let host = request.host();
    let request = request.clone();
    let task = Task::new(move || {
        let end = Instant::now() + Duration::from_micros(u64::try_from(microseconds).unwrap_or(0));
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if let Some(cancelled) = request.cancelled() {
                if let Some(done) = done {
                    done.set(cancelled);
                }
                return;
            }
            sleep(left.min(NAP));
        }
        request
            .host()
            .print(format_args!("Slept for {microseconds} microseconds\n"));
        if let Some(done) = done {
            done.set(Value::Chain);
        }
    });
    if !host.queue().add_blocking(task, true) {
        host.log().write(
            Severity::Error,
            format_args!(
                "Failed to enqueue blocking work. Maximum number of pending blocking tasks reached."
            ),
        );
    }
}

fn failing() -> Vec<KernelDef> {
    vec![
        kernel(
            "tfrt_test.report_error_async",
            |host: &Host, reporter: Reporter| {
                let (result, promise) = pending_result::<i32>();
                host.spawn(move || promise.set(reporter.report(failed(BAD))));
                result
            },
        )
        .doc("An error, from a task."),
        kernel("tfrt_test.report_error_concrete_async", zero_or_error).doc(ZERO_OR_ERROR),
        kernel(
            "tfrt_test.report_error_indirect_async",
            |x: i32, host: &Host, reporter: Reporter| {
                let (result, promise) = pending_result::<i32>();
                promise.forward(zero_or_error(x, host, reporter).into_async());
                result
            },
        )
        .doc(ZERO_OR_ERROR),
    ]
}

const BAD: &str = "something bad happened asynchronously";
const ZERO_OR_ERROR: &str = "0 for 0, an error for other values, from a task.";

fn zero_or_error(x: i32, host: &Host, reporter: Reporter) -> PendingResult<i32> {
    let (result, promise) = pending_result::<i32>();
    host.spawn(move || {
        promise.set(match x {
            0 => Value::I32(0),
            _ => reporter.report(failed(BAD)),
        });
    });
    result
}

fn do_async(arguments: RestOperands<'_>, body: FunctionHandle, request: &Request) -> Vec<Value> {
    let (results, promises): (Vec<_>, Vec<_>) = body
        .result_types()
        .iter()
        .map(|_| pending())
        .map(|(value, promise)| (Value::Pending(value), promise))
        .unzip();
    let arguments: Vec<Value> = arguments.iter().cloned().collect();
    let task_request = request.clone();
    request.host().spawn(move || {
        let values = body.execute(&task_request, arguments);
        for (promise, value) in promises.into_iter().zip(values) {
            promise.set(value);
        }
    });
    results
}
