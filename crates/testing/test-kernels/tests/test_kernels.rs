//! The test kernels and native functions.

mod program;

use program::{Output, load, parse, run, run_module, run_on};
use tenon_executor::{AllocatorKind, Host, HostAllocator, Log, Request, Value};

/// Runs `body`, which has a chain `%ch`, and compares its output.
#[track_caller]
fn prints(body: &str, expected: &str) {
    assert_eq!(run(&main(body)), expected);
}

fn main(body: &str) -> String {
    let body = body.replace("CHAIN", "!tfrt.chain");
    format!("func.func @main() {{\n  %ch = tfrt.new.chain\n{body}\n  tfrt.return\n}}\n")
}

/// Runs `body`, which makes results `%r` of type `ty`, and compares them.
#[track_caller]
fn answers(body: &str, ty: &str, expected: &str) {
    assert_eq!(run(&returning(body, ty)), expected);
}

fn returning(body: &str, ty: &str) -> String {
    let body = body.replace("CHAIN", "!tfrt.chain");
    format!(
        "func.func @main() -> {ty} {{\n  %ch = tfrt.new.chain\n{body}\n  \
         tfrt.return %r : {ty}\n}}\n"
    )
}

#[test]
fn greetings_and_booleans_print() {
    prints(
        "  %t = tfrt.constant.i1 true
           %f = tfrt.constant.i1 false
           %c0 = \"tfrt_test.print_hello\"(%ch) : (CHAIN) -> CHAIN
           %c1 = \"tfrt_test.print_bool\"(%c0, %t) : (CHAIN, i1) -> CHAIN
           %c2 = \"tfrt_test.print_bool\"(%c1, %f) : (CHAIN, i1) -> CHAIN",
        "hello host executor!\ntrue\nfalse\n",
    );
}

#[test]
fn strings_are_appended_and_printed() {
    prints(
        "  %a = \"tfrt_test.get_string\"() {value = \"one\"} : () -> !tfrt.string
           %b = \"tfrt_test.get_string\"() {value = \" two\"} : () -> !tfrt.string
           %s = \"tfrt_test.append_string\"(%a, %b) : (!tfrt.string, !tfrt.string) -> !tfrt.string
           %c = \"tfrt_test.print_string\"(%s, %ch) : (!tfrt.string, CHAIN) -> CHAIN",
        "string = one two\n",
    );
}

#[test]
fn nested_attributes_are_read() {
    prints(
        "  %s, %a, %b, %f = \"tfrt_test.flat\"() {value = [[\"string\", [1 : i32, 0 : i32]], [1.0 : f32]]} : () -> (!tfrt.string, i32, i32, f32)
           %c0 = \"tfrt_test.print_string\"(%s, %ch) : (!tfrt.string, CHAIN) -> CHAIN
           %c1 = tfrt.print.i32 %a, %c0
           %c2 = tfrt.print.i32 %b, %c1
           %c3 = tfrt.print.f32 %f, %c2",
        "string = string\nint32 = 1\nint32 = 0\nf32 = 1.000000\n",
    );
}

#[test]
fn count_and_sum_return_their_values() {
    for ty in ["i32", "i64"] {
        answers(
            &format!(
                "  %x = tfrt.constant.{ty} 4
                   %a, %b, %r = \"tfrt_test.count3.{ty}\"(%x) : ({ty}) -> ({ty}, {ty}, {ty})
                   %c0 = tfrt.print.{ty} %a, %ch
                   %c1 = tfrt.print.{ty} %b, %c0"
            ),
            ty,
            &format!("int{0} = 5\nint{0} = 6\nreturned 7\n", &ty[1..]),
        );
    }
    answers(
        "  %x = tfrt.constant.i32 4
           %r = \"tfrt_test.sum\"(%x, %x, %x) : (i32, i32, i32) -> i32",
        "i32",
        "returned 12\n",
    );
}

#[test]
fn values_pass_through() {
    answers(
        "  %x = tfrt.constant.i32 4
           %y = tfrt.constant.i32 5
           %a, %b = \"tfrt_test.multi_arg_result\"(%x, %y) : (i32, i32) -> (i32, i32)
           %c, %d = \"tfrt_test.identity\"(%ch, %b, %a) : (CHAIN, i32, i32) -> (i32, i32)
           %e, %f = \"tfrt_test.make_indirect\"(%c, %d) : (i32, i32) -> (i32, i32)
           %g, %h = \"tfrt_test.share_to_two\"(%e) : (i32) -> (i32, i32)
           %r = \"tfrt.minus.i32\"(%g, %f) : (i32, i32) -> i32",
        "i32",
        "returned 1\n",
    );
    answers(
        "  %x = \"tfrt_test.async_constant.i32\"() {value = 4 : i32} : () -> i32
           %r = \"tfrt_test.as_chain\"(%x) : (i32) -> CHAIN",
        "!tfrt.chain",
        "returned chain\n",
    );
}

#[test]
fn copies_are_synchronous_and_asynchronous() {
    for kernel in [
        "copy.with_delay.i32",
        "copy.with_delay.i64",
        "async_copy.i32",
        "async_copy_2.i32",
        "async_copy.with_delay.i32",
        "async_copy.with_delay.i64",
    ] {
        let ty = &kernel[kernel.len() - 3..];
        answers(
            &format!(
                "  %x = tfrt.constant.{ty} 42
                   %r = \"tfrt_test.{kernel}\"(%x) : ({ty}) -> {ty}"
            ),
            ty,
            "returned 42\n",
        );
    }
}

#[test]
fn constants_and_sums_are_computed_in_tasks() {
    answers(
        "  %x = \"tfrt_test.async_constant.i32\"() {value = 40 : i32} : () -> i32
           %y = tfrt.constant.i32 2
           %r = \"tfrt_test.async_add.i32\"(%x, %y) : (i32, i32) -> i32",
        "i32",
        "returned 42\n",
    );
    answers(
        "  %r = \"tfrt_test.async_constant.i1\"() {value = true} : () -> i1",
        "i1",
        "returned 1\n",
    );
}

#[test]
fn a_region_runs_in_a_task() {
    answers(
        "  %x = tfrt.constant.i32 20
           %r = \"tfrt_test.do.async\"(%x) ({
           ^bb0(%y: i32):
             %s = tfrt.add.i32 %y, %y
             tfrt.return %s : i32
           }) : (i32) -> i32",
        "i32",
        "returned 40\n",
    );
}

#[test]
fn sleeping_prints_its_duration() {
    prints(
        "  %t = tfrt.constant.i32 10
           \"tfrt_test.usleep\"(%t) : (i32) -> ()
           %c = \"tfrt_test.quiesce\"(%ch) : (CHAIN) -> CHAIN",
        "Slept for 10 microseconds\n",
    );
    prints(
        "  %t = tfrt.constant.i32 10
           %d = \"tfrt_test.blocking.usleep\"(%t) : (i32) -> CHAIN
           %c = \"tfrt_test.print_hello\"(%d) : (CHAIN) -> CHAIN",
        "Slept for 10 microseconds\nhello host executor!\n",
    );
}

#[test]
fn counters_count() {
    answers(
        "  %a = \"tfrt_test.atomic.create.i32\"() : () -> !test.atomic.i32
           %x = tfrt.constant.i32 41
           %c0 = \"tfrt_test.atomic.inc.i32\"(%a, %ch) : (!test.atomic.i32, CHAIN) -> CHAIN
           %c1 = \"tfrt_test.atomic.add.i32\"(%a, %x, %c0) : (!test.atomic.i32, i32, CHAIN) -> CHAIN
           %r, %c2 = \"tfrt_test.atomic.get.i32\"(%a, %c1) : (!test.atomic.i32, CHAIN) -> (i32, CHAIN)",
        "i32",
        "returned 42\n",
    );
}

#[test]
fn failing_kernels_return_errors() {
    let bad = "something bad happened";
    answers(
        "  %r = \"tfrt_test.fail\"() : () -> i32",
        "i32",
        &format!("error: {bad}\nreturned <<error: {bad}>>\n"),
    );
    let partial = "func.func @main() -> (i32, i32) {
        %a, %b = \"tfrt_test.partial_fail\"() : () -> (i32, i32)
        tfrt.return %a, %b : i32, i32
    }";
    assert_eq!(
        run(partial),
        format!("error: {bad}\nreturned 1,<<error: {bad}>>\n")
    );
    answers(
        "  %r = \"tfrt_test.error_chain\"(%ch) : (CHAIN) -> CHAIN",
        "!tfrt.chain",
        "error: error chain\nreturned <<error: error chain>>\n",
    );
    answers(
        "  %r = \"tfrt_test.report_error_async\"() : () -> i32",
        "i32",
        &format!("error: {bad} asynchronously\nreturned <<error: {bad} asynchronously>>\n"),
    );
}

#[test]
fn values_other_than_zero_fail_asynchronously() {
    for kernel in ["report_error_concrete_async", "report_error_indirect_async"] {
        let body = |x: i32| {
            format!(
                "  %x = tfrt.constant.i32 {x}
                   %r = \"tfrt_test.{kernel}\"(%x) : (i32) -> i32"
            )
        };
        answers(&body(0), "i32", "returned 0\n");
        let bad = "something bad happened asynchronously";
        answers(
            &body(1),
            "i32",
            &format!("error: {bad}\nreturned <<error: {bad}>>\n"),
        );
    }
}

#[test]
fn a_cancelled_request_runs_no_kernels() {
    answers(
        "  %x, %c = \"tfrt_test.cancel\"(%ch) : (CHAIN) -> (i32, CHAIN)
           %d = tfrt.print.i32 %x, %c
           %r = tfrt.add.i32 %x, %x",
        "i32",
        "returned <<error: Cancelled>>\n",
    );
}

#[test]
fn asynchronous_values_change_their_state() {
    let print = |kernel: &str| {
        format!(
            "  %s = \"tfrt_test.{kernel}\"() : () -> !tfrt.string
               %c = \"tfrt_test.print_string\"(%s, %ch) : (!tfrt.string, CHAIN) -> CHAIN"
        )
    };
    prints(
        &print("async_value_get"),
        "string = base1:base2:final_class:3\n",
    );
    prints(
        &print("async_value_ref"),
        "string = available:2;unavailable;(3);available:3;unavailable;available:4\n",
    );
}

#[test]
fn registers_hold_references_during_kernels() {
    for value in [
        "%x = tfrt.constant.i32 1",
        "%x = \"tfrt_test.async_constant.i32\"() {value = 1 : i32} : () -> i32",
    ] {
        prints(
            &format!(
                "  {value}
                   %u = \"tfrt_test.get_uniqueness\"(%x) : (i32) -> i1
                   %c = \"tfrt_test.print_bool\"(%ch, %u) : (CHAIN, i1) -> CHAIN
                   %d = tfrt.print.i32 %x, %c"
            ),
            "false\nint32 = 1\n",
        );
    }
}

#[test]
fn the_log_has_severities() {
    let log = Output::default();
    let sink = log.clone();
    let sink = Log::new(move |severity, text| {
        sink.add(format!("{} {text}\n", severity.letter()).as_bytes());
    });
    let text = main(
        "  %s = \"tfrt_test.get_string\"() {value = \"hi\"} : () -> !tfrt.string
           %c = \"tfrt_test.logging\"(%s, %ch) : (!tfrt.string, CHAIN) -> CHAIN",
    );
    assert_eq!(run_on(Host::builder().log(sink), &text), "");
    assert_eq!(
        log.text(),
        "I from TFRT_LOG(INFO): hi\nW from TFRT_LOG(WARNING): hi\nE from TFRT_LOG(ERROR): hi\n\
         I from TFRT_LOG_IF(INFO, true): hi\nW from TFRT_LOG_IF(WARNING, true): hi\n\
         E from TFRT_LOG_IF(ERROR, true): hi\n"
    );
}

#[test]
fn resources_print_their_creation_and_destruction() {
    prints(
        "  %res, %c0 = \"tfrt_test.allocate_resource\"(%ch) : (CHAIN) -> (!tfrt.test.resource, CHAIN)
           %c1 = \"tfrt_test.deallocate_resource\"(%res, %c0) : (!tfrt.test.resource, CHAIN) -> CHAIN",
        "Allocated TestResource\nDestroyed TestResource\ntfrt_test.deallocate_resource done\n",
    );
    prints(
        "  %res, %c0 = \"tfrt_test.allocate_resource\"(%ch) : (CHAIN) -> (!tfrt.test.resource, CHAIN)",
        "Allocated TestResource\nDestroyed TestResource\n",
    );
}

#[test]
fn a_host_has_one_object_of_a_type() {
    prints(
        "  %a, %c0 = \"tfrt_test.use_sample_shared_context\"(%ch) : (CHAIN) -> (!tfrt.string, CHAIN)
           %b, %c1 = \"tfrt_test.use_sample_shared_context\"(%c0) : (CHAIN) -> (!tfrt.string, CHAIN)
           %c2 = \"tfrt_test.print_string\"(%a, %c1) : (!tfrt.string, CHAIN) -> CHAIN
           %c3 = \"tfrt_test.print_string\"(%b, %c2) : (!tfrt.string, CHAIN) -> CHAIN",
        "string = sample_shared_context0\nstring = sample_shared_context0\n",
    );
}

#[test]
fn a_leak_is_reported() {
    let allocator = HostAllocator::new(AllocatorKind::LeakCheck, Log::default());
    let text = main("  \"tfrt_test.memory_leak_one_int32\"() : () -> ()");
    assert_eq!(
        run_on(Host::builder().allocator(allocator.clone()), &text),
        ""
    );
    let report = allocator.exit_report();
    assert!(report.leaked);
    let last = report.text.lines().last();
    assert_eq!(
        last,
        Some("Memory leak detected: 1 alive allocations, 4 alive bytes")
    );
}

#[test]
fn kernel_locations_are_distinguished() {
    answers(
        "  %a = \"tfrt_test.unique_loc\"() {name = \"a\"} : () -> CHAIN loc(unknown)
           %b = \"tfrt_test.unique_loc\"() {name = \"b\"} : () -> CHAIN loc(unknown)
           %r = tfrt.merge.chains %a, %b : CHAIN, CHAIN",
        "!tfrt.chain",
        "returned chain\n",
    );
    let text = |name: &str| {
        returning(
            &format!("  %r = \"tfrt_test.unique_loc\"() {{name = \"{name}\"}} : () -> CHAIN"),
            "!tfrt.chain",
        )
    };
    let host = Host::builder().print(Output::default()).build();
    let run = |name: &str| {
        let main = load(&text(name)).handle("main").unwrap();
        host.wait(main.execute(&Request::new(&host), vec![]))
    };
    assert_eq!(run("a"), [Value::Chain]);
    assert_eq!(run("a"), [Value::Chain]);
    // Another program whose kernel has the same number.
    let Some(Value::Error(error)) = run("b").pop() else {
        panic!("no error");
    };
    assert!(
        error.message().starts_with("duplicate locations "),
        "{error}"
    );
}

#[test]
fn a_kernel_prints_its_debug_name() {
    prints(
        "  %c0 = \"tfrt_test.print_debug_info\"(%ch) : (CHAIN) -> CHAIN loc(\"scope/kernel\")
           %c1 = \"tfrt_test.print_debug_info\"(%c0) : (CHAIN) -> CHAIN
           %c2 = \"tfrt_test.print_debug_info\"(%c1) : (CHAIN) -> CHAIN loc(fused[\"foo.py\":42:314, \"bar\"])
           %c3 = \"tfrt_test.print_debug_info\"(%c2) : (CHAIN) -> CHAIN loc(callsite(\"foo\" at \"bar.py\":42:314))",
        "scope/kernel\nKernel has no debug info\nbar\nfoo\n",
    );
}

#[test]
fn threads_are_numbered() {
    prints(
        "  %a = \"tfrt_test.get_thread_id\"(%ch) : (CHAIN) -> i32
           %c0 = tfrt.print.i32 %a, %ch
           %b = \"tfrt_test.get_thread_id\"(%c0) : (CHAIN) -> i32
           %c1 = tfrt.print.i32 %b, %c0",
        "int32 = 0\nint32 = 0\n",
    );
}

#[test]
fn a_cost_attribute_does_not_hide_the_id() {
    answers(
        "  %x = tfrt.constant.i32 1
           %r = \"tfrt_test.test_cost\"(%x, %x) {_tfrt_cost = 100 : i64, id = 7 : i64} : (i32, i32) -> i32",
        "i32",
        "id: 7\nreturned 0\n",
    );
}

#[test]
fn values_print_their_construction_and_destruction() {
    prints(
        "  %a = \"vt.constant\"() {value = 1 : i32} : () -> !vt.value
           %b = \"vt.constant\"() {value = 2 : i32} : () -> !vt.value
           %s = \"vt.add\"(%a, %b) : (!vt.value, !vt.value) -> !vt.value
           %c = \"vt.print\"(%s, %ch) : (!vt.value, CHAIN) -> CHAIN",
        "constructed vt.value(2)\nmove constructed vt.value(2)\n\
         constructed vt.value(1)\nmove constructed vt.value(1)\n\
         constructed vt.value(3)\nmove constructed vt.value(3)\n\
         destroyed vt.value(1)\ndestroyed vt.value(2)\n\
         print vt_value(3)\ndestroyed vt.value(3)\n",
    );
}

#[test]
fn coordinates_print() {
    prints(
        "  %x = tfrt.constant.i32 2
           %y = tfrt.constant.i32 4
           %at = \"tfrt_tutorial.create_coordinate\"(%x, %y) : (i32, i32) -> !my.coordinate
           %c = \"tfrt_tutorial.print_coordinate\"(%at, %ch) : (!my.coordinate, CHAIN) -> CHAIN",
        "(2, 4)\n",
    );
}

const NATIVES: &str = "
func.func private @native_sink(%a: i32, %b: i32) attributes {tfrt.native}
func.func private @native_async_sink(%a: i32) -> !tfrt.chain attributes {tfrt.native}
func.func private @native_add(%a: i32, %b: i32) -> i32 attributes {tfrt.native}
func.func private @native_async_add(%a: i32, %b: i32) -> i32 attributes {tfrt.native}
func.func private @native_error() -> i32 attributes {tfrt.native}
";

#[test]
fn native_functions_are_called() {
    let text = format!(
        "{NATIVES}func.func @main() -> (i32, i32, i32, !tfrt.chain) {{
           %x = tfrt.constant.i32 1
           %y = \"tfrt_test.async_constant.i32\"() {{value = 2 : i32}} : () -> i32
           tfrt.call @native_sink(%x, %y) : (i32, i32) -> ()
           %c = tfrt.call @native_async_sink(%x) : (i32) -> !tfrt.chain
           %a = tfrt.call @native_add(%x, %y) : (i32, i32) -> i32
           %b = tfrt.call @native_async_add(%x, %a) : (i32, i32) -> i32
           %e = tfrt.call @native_error() : () -> i32
           tfrt.return %a, %b, %e, %c : i32, i32, i32, !tfrt.chain
         }}"
    );
    // The error has no diagnostic.
    assert_eq!(
        run(&text),
        "returned 3,4,<<error: something bad happened>>,chain\n"
    );
}

#[test]
fn a_benchmark_prints_its_summary() {
    let text = "func.func @main() -> !tfrt.chain {
        %x = tfrt.constant.i32 42
        %r = \"tfrt_test.benchmark\"(%x) ({
        ^bb0(%y: i32):
          %s = \"tfrt_test.async_add.i32\"(%y, %y) : (i32, i32) -> i32
          tfrt.return %s : i32
        }) {duration_secs = 60 : i32, max_count = 100 : i32, name = \"add.i32\", num_warmup_runs = 10 : i32} : (i32) -> !tfrt.chain
        tfrt.return %r : !tfrt.chain
    }";
    let printed = run(text);
    let names: Vec<&str> = printed
        .lines()
        .filter_map(|line| Some(line.strip_prefix("BM:add.i32:")?.split_once(": ")?.0))
        .collect();
    assert_eq!(
        names,
        [
            "Duration(ns)",
            "Count",
            "Time Min(ns)",
            "Time 50%(ns)",
            "Time 95%(ns)",
            "Time 99%(ns)",
            "CPU Min(ns)",
            "CPU 50%(ns)",
            "CPU 95%(ns)",
            "CPU 99%(ns)",
            "CPU utilization(percent)",
        ]
    );
    assert!(printed.contains("BM:add.i32:Count: 100\n"), "{printed}");
    assert!(printed.ends_with("returned chain\n"), "{printed}");
    // The text's verifier refuses this, bytes may have it.
    let mut module = parse(text);
    let region = &mut module.functions[0];
    region.results.push(region.results[0]);
    region.result_types.push("i32".into());
    let printed = run_module(Host::builder(), &module, true);
    assert!(
        printed.contains("One return value is expected"),
        "{printed}"
    );
}
