//! Deep recursion and long loops on a small stack.

mod common;

use common::{Journal, host, message, program};
use tenon_executor::{Request, Value};

/// Runs `main` with an argument on a thread with a stack of 512 KiB.
fn run(text: &'static str, queue: &'static str, argument: i32) -> Value {
    let thread = std::thread::Builder::new().stack_size(512 << 10);
    let thread = thread.spawn(move || {
        let journal = Journal::default();
        let program = program(text, &journal);
        let host = host(queue, &journal);
        let main = program.handle("main").unwrap();
        let results = main.execute(&Request::new(&host), vec![Value::I32(argument)]);
        let results = host.wait(results);
        host.queue().quiesce();
        results[0].clone()
    });
    thread.unwrap().join().unwrap()
}

#[test]
fn recursion_is_limited_by_memory_not_stack() {
    let text = r#"
        func.func @stop(%n: i32) -> i32 {
          tfrt.return %n : i32
        }
        func.func @main(%n: i32) -> i32 {
          %zero = "t.constant"() {value = 0 : i32} : () -> i32
          %one = "t.constant"() {value = 1 : i32} : () -> i32
          %less = "t.constant"() {value = -1 : i32} : () -> i32
          %more = "t.less"(%zero, %n) : (i32, i32) -> i1
          %m = "t.add"(%n, %less) : (i32, i32) -> i32
          %r = "t.branch"(%more, %m) {a = @main, b = @stop} : (i1, i32) -> i32
          %s = "t.add"(%r, %one) : (i32, i32) -> i32
          tfrt.return %s : i32
        }"#;
    assert_eq!(run(text, "s", 100_000), Value::I32(100_000));
    assert_eq!(run(text, "mstd:2,1", 100_000), Value::I32(100_000));
}

#[test]
fn tail_calls_and_pending_values_do_not_grow_the_stack() {
    let text = r#"
        func.func @stop(%n: i32) -> i32 {
          %m = "t.async.add"(%n, %n) : (i32, i32) -> i32
          tfrt.return %m : i32
        }
        func.func @main(%n: i32) -> i32 {
          %zero = "t.constant"() {value = 0 : i32} : () -> i32
          %less = "t.constant"() {value = -1 : i32} : () -> i32
          %more = "t.less"(%zero, %n) : (i32, i32) -> i1
          %m = "t.async.add"(%n, %less) : (i32, i32) -> i32
          %r = "t.branch"(%more, %m) {a = @main, b = @stop} : (i1, i32) -> i32
          tfrt.return %r : i32
        }"#;
    assert_eq!(run(text, "s", 100_000), Value::I32(-2));
    assert_eq!(run(text, "mstd:2,1", 100_000), Value::I32(-2));
}

#[test]
fn a_million_iterations_use_little_stack() {
    let now = r#"
        func.func @body(%n: i32) -> i32 {
          %one = "t.constant"() {value = 1 : i32} : () -> i32
          %s = "t.add"(%n, %one) : (i32, i32) -> i32
          tfrt.return %s : i32
        }
        func.func @main(%n: i32) -> i32 {
          %zero = "t.constant"() {value = 0 : i32} : () -> i32
          %r = "t.repeat"(%n, %zero) {body = @body} : (i32, i32) -> i32
          tfrt.return %r : i32
        }"#;
    let later = r#"
        func.func @body(%n: i32) -> i32 {
          %one = "t.constant"() {value = 1 : i32} : () -> i32
          %s = "t.async.add"(%n, %one) : (i32, i32) -> i32
          tfrt.return %s : i32
        }
        func.func @main(%n: i32) -> i32 {
          %zero = "t.constant"() {value = 0 : i32} : () -> i32
          %r = "t.repeat"(%n, %zero) {body = @body} : (i32, i32) -> i32
          tfrt.return %r : i32
        }"#;
    for text in [now, later] {
        assert_eq!(run(text, "s", 1_000_000), Value::I32(1_000_000));
    }
    assert_eq!(run(later, "mstd:2,1", 100_000), Value::I32(100_000));
}

#[test]
fn synchronous_calls_nested_too_deep_are_an_error() {
    let text = r#"
        func.func @stop(%n: i32) -> i32 attributes {tfrt.sync} {
          %zero = "t.constant"() {value = 0 : i32} : () -> i32
          %m = "t.add"(%n, %zero) : (i32, i32) -> i32
          tfrt.return %m : i32
        }
        func.func @main(%n: i32) -> i32 attributes {tfrt.sync} {
          %zero = "t.constant"() {value = 0 : i32} : () -> i32
          %less = "t.constant"() {value = -1 : i32} : () -> i32
          %more = "t.less"(%zero, %n) : (i32, i32) -> i1
          %m = "t.add"(%n, %less) : (i32, i32) -> i32
          %r = "t.branch"(%more, %m) {a = @main, b = @stop} : (i1, i32) -> i32
          tfrt.return %r : i32
        }"#;
    assert_eq!(run(text, "s", 50), Value::I32(-1));
    assert_eq!(
        message(&run(text, "s", 1_000_000)),
        "calls are nested too deep at @main"
    );
}
