//! Asynchronous functions: errors, cancelling, pending values, calls, destruction (bef 2.1,
//! 2.2, 2.3, 2.4, 2.8).

mod common;

use common::{Journal, host, message, program, run};
use std::sync::Arc;
use std::time::Instant;
use tenon_base::trace::TraceSink;
use tenon_executor::{Host, Request, Trace, Value};

const QUEUES: [&str; 2] = ["s", "mstd:2,2"];

#[test]
fn available_and_pending_values_reach_their_users() {
    let text = r#"
        func.func @main() -> (i32, i32, i32) {
          %a = "t.constant"() {value = 3 : i32} : () -> i32
          %b = "t.async.add"(%a, %a) : (i32, i32) -> i32
          %c = "t.async.add"(%b, %a) : (i32, i32) -> i32
          %d, %e = "t.two"(%c) : (i32) -> (i32, i32)
          tfrt.return %b, %e, %e : i32, i32, i32
        }"#;
    for queue in QUEUES {
        let expected = [6, 10, 10].map(Value::I32);
        assert_eq!(run(text, queue), (expected.to_vec(), vec![]), "{queue}");
    }
}

#[test]
fn an_error_is_reported_once_and_becomes_the_results() {
    let text = r#"
        func.func @main() -> (i32, i32, i32) {
          %a = "t.constant"() {value = 3 : i32} : () -> i32
          %b = "t.fail"() : () -> i32
          %c = "t.add"(%a, %b) : (i32, i32) -> i32
          %d = "t.async.add"(%c, %b) : (i32, i32) -> i32
          tfrt.return %a, %b, %d : i32, i32, i32
        }"#;
    for queue in QUEUES {
        let (results, diagnostics) = run(text, queue);
        assert_eq!(diagnostics, ["t.mlir:4: something bad happened"], "{queue}");
        assert_eq!(results[0], Value::I32(3));
        assert_eq!(message(&results[1]), "something bad happened");
        assert_eq!(results[1], results[2], "the same error");
    }
}

#[test]
fn the_last_error_of_the_operands_wins() {
    let text = r#"
        func.func @main() -> (i32, i32) {
          %a = "t.constant"() {value = 1 : i32} : () -> i32
          %b = "t.constant"() {value = 2 : i32} : () -> i32
          %c = "t.quiet"(%a) : (i32) -> i32
          %d = "t.quiet"(%b) : (i32) -> i32
          %e = "t.sum"(%c, %a, %d, %b) : (i32, i32, i32, i32) -> i32
          %f = "t.sum"(%d, %c) : (i32, i32) -> i32
          tfrt.return %e, %f : i32, i32
        }"#;
    let (results, diagnostics) = run(text, "s");
    assert_eq!(
        (message(&results[0]), message(&results[1])),
        ("quiet 2", "quiet 1")
    );
    assert_eq!(diagnostics, [""; 0], "a set error has no diagnostic");
}

#[test]
fn an_asynchronous_error_is_reported_at_its_kernel() {
    let text = r#"
        func.func @main() -> (i32, i32) {
          %a = "t.constant"() {value = 1 : i32} : () -> i32
          %b = "t.async.fail"(%a) : (i32) -> i32
          %c = "t.add"(%b, %a) : (i32, i32) -> i32
          tfrt.return %b, %c : i32, i32
        }"#;
    for queue in QUEUES {
        let (results, diagnostics) = run(text, queue);
        assert_eq!(
            diagnostics,
            ["t.mlir:4: something bad happened asynchronously"]
        );
        assert_eq!(
            message(&results[1]),
            "something bad happened asynchronously"
        );
    }
}

#[test]
fn results_set_before_an_error_are_kept() {
    let text = r#"
        func.func @main() -> (i32, i32, i32) {
          %a:3 = "t.partial"() : () -> (i32, i32, i32)
          tfrt.return %a#0, %a#1, %a#2 : i32, i32, i32
        }"#;
    for queue in QUEUES {
        let (results, diagnostics) = run(text, queue);
        assert_eq!(results[0], Value::I32(1));
        assert_eq!(message(&results[1]), "something bad happened");
        // A pending result becomes the error, too, unless another thread has set it before.
        let set_before = queue != "s" && results[2] == Value::I32(3);
        assert!(
            set_before || results[2] == results[1],
            "{queue}: {results:?}"
        );
        assert_eq!(diagnostics.len(), 1);
    }
}

#[test]
fn no_kernel_starts_after_cancelling() {
    let text = r#"
        func.func @main() -> (!tfrt.chain, i32) {
          %c0 = "t.chain"() : () -> !tfrt.chain
          %x = "t.constant"() {value = 1 : i32} : () -> i32
          %c1 = "t.note"(%x, %c0) : (i32, !tfrt.chain) -> !tfrt.chain
          %c2 = "t.cancel"(%c1) : (!tfrt.chain) -> !tfrt.chain
          %c3 = "t.note"(%x, %c2) : (i32, !tfrt.chain) -> !tfrt.chain
          tfrt.return %c3, %x : !tfrt.chain, i32
        }"#;
    let (results, diagnostics) = run(text, "s");
    assert_eq!(
        diagnostics,
        ["1"],
        "noted once, and cancelling has no diagnostic"
    );
    assert_eq!(message(&results[0]), "Cancelled");
    assert_eq!(results[1], Value::I32(1));
}

#[test]
fn functions_start_before_their_arguments_are_available() {
    let text = r#"
        func.func @callee(%a: i32, %b: i32) -> (i32, i32, i32) {
          %c = "t.add"(%a, %b) : (i32, i32) -> i32
          %d = "t.constant"() {value = 7 : i32} : () -> i32
          tfrt.return %c, %d, %b : i32, i32, i32
        }
        func.func @main() -> (i32, i32, i32, i32, i32, i32) {
          %a = "t.constant"() {value = 1 : i32} : () -> i32
          %b = "t.constant"() {value = 2 : i32} : () -> i32
          %r:3 = "t.call.early"(%a, %b) {callee = @callee} : (i32, i32) -> (i32, i32, i32)
          %s:3 = "t.call"(%r#0, %r#2) {callee = @callee} : (i32, i32) -> (i32, i32, i32)
          tfrt.return %r#0, %r#1, %r#2, %s#0, %s#1, %s#2 : i32, i32, i32, i32, i32, i32
        }"#;
    for queue in QUEUES {
        let expected = [3, 7, 2, 5, 7, 2].map(Value::I32);
        assert_eq!(run(text, queue), (expected.to_vec(), vec![]), "{queue}");
    }
}

#[test]
fn native_and_synchronous_functions_can_be_called() {
    let text = r#"
        func.func private @native.add(i32, i32) -> i32 attributes {tfrt.native}
        func.func private @native.fail(i32) -> i32 attributes {tfrt.native}
        func.func @sync(%a: i32) -> i32 attributes {tfrt.sync} {
          %b = "t.add"(%a, %a) : (i32, i32) -> i32
          tfrt.return %b : i32
        }
        func.func @sync.fail() -> i32 attributes {tfrt.sync} {
          %a = "t.fail"() : () -> i32
          %b = "t.add"(%a, %a) : (i32, i32) -> i32
          tfrt.return %b : i32
        }
        func.func @main() -> (i32, i32, i32, i32) {
          %a = "t.constant"() {value = 5 : i32} : () -> i32
          %b = "t.call.early"(%a, %a) {callee = @native.add} : (i32, i32) -> i32
          %c = "t.call"(%b) {callee = @native.fail} : (i32) -> i32
          %d = "t.call.early"(%a) {callee = @sync} : (i32) -> i32
          %e = "t.call"() {callee = @sync.fail} : () -> i32
          tfrt.return %b, %c, %d, %e : i32, i32, i32, i32
        }"#;
    for queue in QUEUES {
        let (results, diagnostics) = run(text, queue);
        assert_eq!(results[0], Value::I32(10));
        assert_eq!(message(&results[1]), "native trouble");
        assert_eq!(results[2], Value::I32(10));
        assert_eq!(message(&results[3]), "something bad happened");
        assert_eq!(
            diagnostics.len(),
            1,
            "{diagnostics:?}: errors of native functions have no diagnostic"
        );
        assert!(
            diagnostics[0].ends_with("something bad happened"),
            "{diagnostics:?}"
        );
    }
}

#[test]
fn values_are_dropped_after_their_last_user() {
    let text = r#"
        func.func @main() -> !tfrt.chain {
          %c0 = "t.chain"() : () -> !tfrt.chain
          %x = "t.constant"() {value = 1 : i32} : () -> i32
          %v = "t.made"() : () -> !t.noted
          %c1 = "t.look"(%v, %c0) : (!t.noted, !tfrt.chain) -> !tfrt.chain
          %c2 = "t.note"(%x, %c1) : (i32, !tfrt.chain) -> !tfrt.chain
          %c3 = "t.look"(%v, %c2) : (!t.noted, !tfrt.chain) -> !tfrt.chain
          %c4 = "t.note"(%x, %c3) : (i32, !tfrt.chain) -> !tfrt.chain
          tfrt.return %c4 : !tfrt.chain
        }"#;
    let (_, diagnostics) = run(text, "s");
    assert_eq!(
        diagnostics,
        ["look made", "1", "look made", "drop made", "1"]
    );
}

#[test]
fn an_unused_value_is_dropped_at_once() {
    let text = r#"
        func.func @main() -> i32 {
          %v = "t.made"() : () -> !t.noted
          %x = "t.constant"() {value = 1 : i32} : () -> i32
          %a, %b = "t.share"(%v) : (!t.noted) -> (!t.noted, !t.noted)
          tfrt.return %x : i32
        }"#;
    assert_eq!(run(text, "s").1, ["drop made"]);
}

#[test]
fn a_returned_value_lives_as_long_as_its_holder() {
    let text = r#"
        func.func @main() -> (!t.noted, !t.noted) {
          %v = "t.made"() : () -> !t.noted
          %a, %b = "t.share"(%v) : (!t.noted) -> (!t.noted, !t.noted)
          tfrt.return %a, %v : !t.noted, !t.noted
        }"#;
    let journal = Journal::default();
    let program = program(text, &journal);
    let host = host("s", &journal);
    for _ in 0..2 {
        let request = Request::new(&host);
        let results = program.handle("main").unwrap().execute(&request, vec![]);
        assert_eq!(journal.take(), [""; 0]);
        drop(results);
        assert_eq!(journal.take(), ["drop made"], "once for each execution");
    }
}

#[test]
fn unused_arguments_are_dropped_and_wrong_counts_are_errors() {
    let text = r#"
        func.func @f(%a: i32, %b: i32) -> i32 {
          tfrt.return %b : i32
        }"#;
    let journal = Journal::default();
    let program = program(text, &journal);
    let request = Request::new(&host("s", &journal));
    let f = program.handle("f").unwrap();
    let results = f.execute(&request, vec![Value::I32(1), Value::I32(2)]);
    assert_eq!(results, [Value::I32(2)]);
    let results = f.execute(&request, vec![]);
    assert_eq!(message(&results[0]), "wrong number of arguments of @f");
}

#[test]
fn an_operand_of_a_wrong_type_is_an_error_of_the_kernel() {
    let text = r#"
        func.func @f(%a: i32) -> i32 {
          %b = "t.add"(%a, %a) : (i32, i32) -> i32
          tfrt.return %b : i32
        }"#;
    let journal = Journal::default();
    let program = program(text, &journal);
    let request = Request::new(&host("s", &journal));
    let results = program
        .handle("f")
        .unwrap()
        .execute(&request, vec![Value::F32(1.0)]);
    assert_eq!(message(&results[0]), "wrong type of operand 0");
    assert_eq!(journal.take(), ["t.mlir:3: wrong type of operand 0"]);
}

#[test]
fn a_pending_operand_in_a_synchronous_function_is_an_error() {
    let text = r#"
        func.func @main() -> i32 attributes {tfrt.sync} {
          %a = "t.constant"() {value = 1 : i32} : () -> i32
          %b = "t.async.add"(%a, %a) : (i32, i32) -> i32
          %c = "t.add"(%b, %a) : (i32, i32) -> i32
          tfrt.return %c : i32
        }"#;
    let (results, _) = run(text, "s");
    let expected = "operand 0 of a kernel in a synchronous function is pending";
    assert_eq!(message(&results[0]), expected);
}

#[test]
fn the_trace_has_a_scope_for_every_kernel() {
    struct KernelTrace(Journal);
    impl TraceSink for KernelTrace {
        fn scope(&self, category: &'static str, name: &str, _: Instant, _: Instant, _: u64) {
            self.0.note(format!("{category} {name}"));
        }
    }
    let text = r#"
        func.func @sync(%a: i32) -> i32 attributes {tfrt.sync} {
          %b = "t.add"(%a, %a) : (i32, i32) -> i32
          tfrt.return %b : i32
        }
        func.func @main() -> i32 {
          %a = "t.constant"() {value = 1 : i32} : () -> i32
          %b = "t.call"(%a) {callee = @sync} : (i32) -> i32
          %c = "t.add"(%b, %b) : (i32, i32) -> i32
          tfrt.return %c : i32
        }"#;
    let journal = Journal::default();
    let program = program(text, &journal);
    for (kernels, expected) in [
        (false, &[][..]),
        // A scope is recorded when its kernel has ended.
        (true, &["t.constant", "t.add", "t.call", "t.add"]),
    ] {
        let sink = Arc::new(KernelTrace(journal.clone()));
        let host = Host::builder().trace(Trace { sink, kernels }).build();
        let main = program.handle("main").unwrap();
        assert_eq!(main.execute(&Request::new(&host), vec![]), [Value::I32(4)]);
        let expected: Vec<String> = expected
            .iter()
            .map(|name| format!("kernel {name}"))
            .collect();
        assert_eq!(journal.take(), expected);
    }
}
