//! Calls and loops with available and pending values, on both queues.

mod program;

use program::{Output, load, parse, run_module, run_on_threads as run};
use std::thread;
use tenon_executor::{Host, Request, Value};

const HELPERS: &str = "
func.func @twice(%x: i32) -> i32 {
  %r = tfrt.add.i32 %x, %x
  tfrt.return %r : i32
}
func.func @inc(%x: i32) -> i32 {
  %one = tfrt.constant.i32 1
  %r = tfrt.add.i32 %x, %one
  tfrt.return %r : i32
}
";

#[track_caller]
fn answers(text: &str, expected: &str) {
    assert_eq!(run(&format!("{HELPERS}{text}")), expected);
}

#[test]
fn a_call_returns_the_results_of_the_function() {
    answers(
        "func.func @main() -> i32 {
           %x = tfrt.constant.i32 21
           %r = tfrt.call @twice(%x) : (i32) -> i32
           tfrt.return %r : i32
         }",
        "returned 42\n",
    );
}

#[test]
fn conditions_select_a_branch() {
    for (value, sign, number) in [("true", "-1", "10"), ("false", "1", "6")] {
        answers(
            &format!(
                "func.func @main() -> (i32, i32) {{
                   %c = tfrt.constant.i1 {value}
                   %x = tfrt.constant.i32 5
                   %a = tfrt.if %c, %x : (i32) -> (i32) {{
                     %m = tfrt.constant.i32 -1
                     tfrt.return %m : i32
                   }} else {{
                     %p = tfrt.constant.i32 1
                     tfrt.return %p : i32
                   }}
                   %b = tfrt.cond %c @twice @inc (%x) : (i32) -> (i32)
                   tfrt.return %a, %b : i32, i32
                 }}"
            ),
            &format!("returned {sign},{number}\n"),
        );
    }
}

#[test]
fn a_case_out_of_range_is_the_last() {
    for (index, expected) in [("0", "10"), ("1", "6"), ("2", "6"), ("-1", "6")] {
        answers(
            &format!(
                "func.func @main() -> i32 {{
                   %i = tfrt.constant.i32 {index}
                   %x = tfrt.constant.i32 5
                   %r = tfrt.case %i [@twice, @inc] (%x) : (i32) -> (i32)
                   tfrt.return %r : i32
                 }}"
            ),
            &format!("returned {expected}\n"),
        );
    }
}

#[test]
fn an_error_for_a_condition_is_the_result() {
    answers(
        "func.func @main() -> i32 {
           %i = \"tfrt_test.fail\"() : () -> i32
           %r = tfrt.case %i [@twice, @inc] (%i) : (i32) -> (i32)
           tfrt.return %r : i32
         }",
        "error: something bad happened\nreturned <<error: something bad happened>>\n",
    );
}

/// A loop of `count` over a number, by kernel `op`.
fn repeat(count: i64, body: &str) -> String {
    format!(
        "{HELPERS}func.func @main() -> i32 {{
           %n = tfrt.constant.i32 {count}
           %x = tfrt.constant.i32 0
           %r = tfrt.repeat.i32 %n, %x : i32 {{
             {body}
             tfrt.return %y : i32
           }}
           tfrt.return %r : i32
         }}"
    )
}

const INLINE: &str = "%y = tfrt.call @inc(%x) : (i32) -> i32";
const LATER: &str = "%one = tfrt.constant.i32 1
                     %y = \"tfrt_test.async_add.i32\"(%x, %one) : (i32, i32) -> i32";

#[test]
fn repeat_runs_the_given_number_of_times() {
    for count in [0, 1, 2, 31, 32, 33, 64, 1000] {
        for body in [INLINE, LATER] {
            assert_eq!(run(&repeat(count, body)), format!("returned {count}\n"));
        }
    }
    assert_eq!(run(&repeat(-3, INLINE)), "returned 0\n");
}

#[test]
fn repeat_without_carried_values_runs() {
    answers(
        "func.func @main() {
           %n = tfrt.constant.i32 3
           tfrt.repeat.i32 %n {
             %ch = tfrt.new.chain
             %d = \"tfrt_test.print_hello\"(%ch) : (!tfrt.chain) -> !tfrt.chain
             tfrt.return
           }
           tfrt.return
         }",
        "hello host executor!\nhello host executor!\nhello host executor!\n",
    );
}

#[test]
fn a_cancelled_repeat_stops() {
    answers(
        "func.func @main() -> i32 {
           %n = tfrt.constant.i32 1000000000
           %x = tfrt.constant.i32 0
           %r = tfrt.repeat.i32 %n, %x : i32 {
             %ch = tfrt.new.chain
             %y, %d = \"tfrt_test.cancel\"(%ch) : (!tfrt.chain) -> (i32, !tfrt.chain)
             tfrt.return %y : i32
           }
           tfrt.return %r : i32
         }",
        "returned <<error: Cancelled>>\n",
    );
}

/// Counts down from `%n` and sums the values.
fn r#while(n: i64, parallel: i64, add: &str) -> String {
    format!(
        "func.func @body(%n: i32, %sum: i32) -> (i32, i32, i1) {{
           %one = tfrt.constant.i32 1
           %zero = tfrt.constant.i32 0
           %s = \"{add}\"(%sum, %n) : (i32, i32) -> i32
           %m = \"tfrt.minus.i32\"(%n, %one) : (i32, i32) -> i32
           %done = \"tfrt.lessequal.i32\"(%m, %zero) : (i32, i32) -> i1
           %false = tfrt.constant.i1 false
           %more = tfrt.equal.i1 %done, %false
           tfrt.return %m, %s, %more : i32, i32, i1
         }}
         func.func @main() -> (i32, i32) {{
           %c = tfrt.constant.i1 true
           %n = tfrt.constant.i32 {n}
           %zero = tfrt.constant.i32 0
           %r:2 = tfrt.while %c @body(%n, %zero) parallel_iterations({parallel}) : (i32, i32) -> (i32, i32)
           tfrt.return %r#0, %r#1 : i32, i32
         }}"
    )
    .replace(
        "%false = tfrt.constant.i1 false
           %more = tfrt.equal.i1 %done, %false",
        "%more = \"tfrt.lessequal.i32\"(%one, %m) : (i32, i32) -> i1",
    )
}

#[test]
fn while_runs_as_long_as_its_condition_holds() {
    for parallel in [1, 10] {
        for add in ["tfrt.add.i32", "tfrt_test.async_add.i32"] {
            assert_eq!(
                run(&r#while(100, parallel, add)),
                "returned 0,5050\n",
                "{parallel} {add}"
            );
        }
    }
}

#[test]
fn while_waits_for_a_pending_condition() {
    for parallel in [1, 2] {
        answers(
            &format!(
                "func.func @body(%x: i32) -> (i32, i1) {{
                   %one = tfrt.constant.i32 1
                   %y = \"tfrt_test.async_add.i32\"(%x, %one) : (i32, i32) -> i32
                   %ten = tfrt.constant.i32 10
                   %more = \"tfrt.lessequal.i32\"(%y, %ten) : (i32, i32) -> i1
                   tfrt.return %y, %more : i32, i1
                 }}
                 func.func @main() -> i32 {{
                   %c = tfrt.constant.i1 true
                   %x = tfrt.constant.i32 0
                   %r = tfrt.while %c @body(%x) parallel_iterations({parallel}) : (i32) -> (i32)
                   tfrt.return %r : i32
                 }}"
            ),
            "returned 11\n",
        );
    }
}

#[test]
fn a_false_condition_returns_the_operands() {
    let text = r#while(7, 1, "tfrt.add.i32")
        .replace("%c = tfrt.constant.i1 true", "%c = tfrt.constant.i1 false");
    assert_eq!(run(&text), "returned 7,0\n");
}

#[test]
fn an_error_for_a_condition_ends_a_while() {
    for parallel in [1, 2] {
        answers(
            &format!(
                "func.func @body(%x: i32) -> (i32, i1) {{
                   %e = \"tfrt_test.fail\"() : () -> i32
                   %more = tfrt.equal.i32 %e, %e
                   tfrt.return %x, %more : i32, i1
                 }}
                 func.func @main() -> i32 {{
                   %c = tfrt.constant.i1 true
                   %x = tfrt.constant.i32 0
                   %r = tfrt.while %c @body(%x) parallel_iterations({parallel}) : (i32) -> (i32)
                   tfrt.return %r : i32
                 }}"
            ),
            "error: something bad happened\nreturned <<error: something bad happened>>\n",
        );
    }
}

const ONCE: &str = "
func.func @hello(%x: i32) -> i32 {
  %ch = tfrt.new.chain
  %d = tfrt.print.i32 %x, %ch
  %one = tfrt.constant.i32 1
  %r = \"tfrt_test.async_add.i32\"(%x, %one) : (i32, i32) -> i32
  tfrt.return %r : i32
}
func.func @main() -> (i32, i32) {
  %x = tfrt.constant.i32 1
  %y = tfrt.constant.i32 1
  %a = tfrt.once @hello(%x) : (i32) -> (i32)
  %b = tfrt.once @hello(%y) : (i32) -> (i32)
  tfrt.return %a, %b : i32, i32
}";

#[test]
fn once_runs_once_per_request() {
    assert_eq!(run(ONCE), "int32 = 1\nreturned 2,2\n");
}

#[test]
fn once_requires_a_resource_context() {
    assert_eq!(
        run_module(Host::builder(), &parse(ONCE), false),
        "returned <<error: tfrt.once requires resource context>>,\
         <<error: tfrt.once requires resource context>>\n"
    );
}

/// Adds the integers from `start` to `end` to a counter, in blocks, and prints it.
fn parallel_for(start: i64, end: i64, block: i64, is_async: bool) -> String {
    let (chain, result) = if is_async {
        (" %last : !tfrt.chain", "-> !tfrt.chain")
    } else {
        ("", "attributes {tfrt.sync}")
    };
    format!(
        "func.func @block(%start: i32, %end: i32, %sum: !test.atomic.i32) {result} {{
           %ch = tfrt.new.chain
           %n = \"tfrt.minus.i32\"(%end, %start) : (i32, i32) -> i32
           %first = \"tfrt_test.atomic.add.i32\"(%sum, %n, %ch) : (!test.atomic.i32, i32, !tfrt.chain) -> !tfrt.chain
           %last = \"tfrt_test.atomic.inc.i32\"(%sum, %first) : (!test.atomic.i32, !tfrt.chain) -> !tfrt.chain
           tfrt.return{chain}
         }}
         func.func @main() -> i32 {{
           %s = tfrt.constant.i32 {start}
           %e = tfrt.constant.i32 {end}
           %b = tfrt.constant.i32 {block}
           %sum = \"tfrt_test.atomic.create.i32\"() : () -> !test.atomic.i32
           %d = tfrt.parallel_call.i32 %s to %e fixed %b @block(%sum) : !test.atomic.i32
           %r, %x = \"tfrt_test.atomic.get.i32\"(%sum, %d) : (!test.atomic.i32, !tfrt.chain) -> (i32, !tfrt.chain)
           tfrt.return %r : i32
         }}"
    )
}

#[test]
fn parallel_loops_cover_their_range() {
    for is_async in [false, true] {
        // The sum counts each number once, and each block once.
        for (start, end, block, sum) in [
            (0, 100, 1, 200),
            (0, 100, 7, 115),
            (-5, 5, 100, 11),
            (3, 3, 1, 0),
            (4, 3, 1, 0),
            (0, 64, 64, 65),
            (0, 65, 64, 67),
            (-2147483648, 2147483647, 2147483647, 2),
        ] {
            let text = parallel_for(start, end, block, is_async);
            assert_eq!(
                run(&text),
                format!("returned {}\n", sum),
                "{start} {end} {block}"
            );
        }
    }
}

#[test]
fn a_parallel_region_receives_its_operands() {
    answers(
        "func.func @main() -> i32 {
           %s = tfrt.constant.i32 0
           %e = tfrt.constant.i32 10
           %b = tfrt.constant.i32 2
           %sum = \"tfrt_test.atomic.create.i32\"() : () -> !test.atomic.i32
           %d = tfrt.parallel_for.i32 %s to %e fixed %b, %sum : !test.atomic.i32 {
             %ch = tfrt.new.chain
             %x = \"tfrt_test.atomic.add.i32\"(%sum, %e, %ch) : (!test.atomic.i32, i32, !tfrt.chain) -> !tfrt.chain
             tfrt.return %x : !tfrt.chain
           }
           %r, %x = \"tfrt_test.atomic.get.i32\"(%sum, %d) : (!test.atomic.i32, !tfrt.chain) -> (i32, !tfrt.chain)
           tfrt.return %r : i32
         }",
        "returned 30\n",
    );
}

#[test]
fn invalid_parallel_loops_are_errors() {
    let error = run(&parallel_for(0, 10, 0, true));
    assert!(
        error.starts_with("error: the block size of a parallel loop must be positive\n"),
        "{error}"
    );
    answers(
        "func.func @two(%s: i32, %e: i32) -> (i32, i32) {
           tfrt.return %s, %e : i32, i32
         }
         func.func @main() -> !tfrt.chain {
           %s = tfrt.constant.i32 0
           %d = tfrt.parallel_call.i32 %s to %s fixed %s @two()
           tfrt.return %d : !tfrt.chain
         }",
        "returned <<error: Invalid parallel body function result types>>\n",
    );
}

#[test]
fn a_parallel_loop_fails_if_a_block_fails() {
    answers(
        "func.func @block(%s: i32, %e: i32) -> !tfrt.chain {
           %ch = tfrt.new.chain
           %x = \"tfrt_test.error_chain\"(%ch) : (!tfrt.chain) -> !tfrt.chain
           tfrt.return %x : !tfrt.chain
         }
         func.func @main() -> !tfrt.chain {
           %s = tfrt.constant.i32 0
           %e = tfrt.constant.i32 2
           %b = tfrt.constant.i32 1
           %d = tfrt.parallel_call.i32 %s to %e fixed %b @block()
           tfrt.return %d : !tfrt.chain
         }",
        "error: error chain\nerror: error chain\nreturned <<error: error chain>>\n",
    );
}

/// Runs `@main` of `text` on a thread with a stack of 512 KiB.
fn on_a_small_stack(text: String) -> Vec<Value> {
    let small = thread::Builder::new().stack_size(512 << 10);
    let thread = small.spawn(move || {
        let program = load(&text);
        let host = Host::builder().print(Output::default()).build();
        let main = program.handle("main").unwrap();
        host.wait(main.execute(&Request::new(&host), vec![]))
    });
    thread.unwrap().join().unwrap()
}

#[test]
fn a_million_repeats_use_little_stack() {
    let results = on_a_small_stack(repeat(1_000_000, "%y = tfrt.add.i32 %x, %x"));
    assert_eq!(results, [Value::I32(0)]);
}

#[test]
fn a_million_pending_repeats_use_little_stack() {
    let body = "%y = \"tfrt_test.async_copy.i32\"(%x) : (i32) -> i32";
    assert_eq!(on_a_small_stack(repeat(1_000_000, body)), [Value::I32(0)]);
}

#[test]
fn a_million_iterations_of_while_use_little_stack() {
    let sum = (0..=1_000_000i32).fold(0, i32::wrapping_add);
    let results = on_a_small_stack(r#while(1_000_000, 1, "tfrt.add.i32"));
    assert_eq!(results, [Value::I32(0), Value::I32(sum)]);
}

#[test]
fn a_hundred_thousand_tasks_of_loops_use_little_stack() {
    let sum = (0..=100_000i32).fold(0, i32::wrapping_add);
    for (parallel, add) in [(1, "tfrt_test.async_add.i32"), (2, "tfrt.add.i32")] {
        let results = on_a_small_stack(r#while(100_000, parallel, add));
        assert_eq!(results, [Value::I32(0), Value::I32(sum)]);
    }
    let results = on_a_small_stack(parallel_for(0, 100_000, 1, true));
    assert_eq!(results, [Value::I32(200_000)]);
}

#[test]
fn regions_and_functions_may_be_recursive() {
    let text = "
        func.func @fib(%n: i32) -> i32 {
          %one = tfrt.constant.i32 1
          %small = \"tfrt.lessequal.i32\"(%n, %one) : (i32, i32) -> i1
          %r = tfrt.if %small, %n : (i32) -> (i32) {
            tfrt.return %n : i32
          } else {
            %one = tfrt.constant.i32 1
            %two = tfrt.constant.i32 2
            %a = \"tfrt.minus.i32\"(%n, %one) : (i32, i32) -> i32
            %b = \"tfrt.minus.i32\"(%n, %two) : (i32, i32) -> i32
            %x = tfrt.call @fib(%a) : (i32) -> i32
            %y = tfrt.call @fib(%b) : (i32) -> i32
            %s = tfrt.add.i32 %x, %y
            tfrt.return %s : i32
          }
          tfrt.return %r : i32
        }
        func.func @main() -> i32 {
          %n = tfrt.constant.i32 15
          %r = tfrt.call @fib(%n) : (i32) -> i32
          tfrt.return %r : i32
        }";
    assert_eq!(run(text), "returned 610\n");
}
