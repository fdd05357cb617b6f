// How errors come about, spread, and are told: as a diagnostic at the kernel's place, and as the
// value of everything that depends on them.
//
// $ tenon exec errors.mlir
// $ tenon exec --print_error_code errors.mlir
// $ tenon exec --work_queue_type=mstd:4 errors.mlir

func.func @divide_i32() -> (i32, i32) {
  %0 = tfrt.constant.i32 1
  %1 = tfrt.constant.i32 0
  %q, %r = tfrt.div.i32 %0, %1 // expected-error {{runtime error: Divide by zero}}
  tfrt.return %q, %r : i32, i32
}

func.func @divide_i64() -> i64 {
  %0 = tfrt.constant.i64 1
  %1 = tfrt.constant.i64 0
  %q, %r = tfrt.div.i64 %0, %1 // expected-error {{Divide by zero}}
  tfrt.return %q : i64
}

func.func @divide_f32() -> f32 {
  %0 = tfrt.constant.f32 1.0
  %1 = tfrt.constant.f32 0.0
  // expected-error @+1 {{Divide by zero}}
  %q = "tfrt.div.f32"(%0, %1) : (f32, f32) -> f32
  tfrt.return %q : f32
}

func.func @divide_f64() -> f64 {
  %0 = tfrt.constant.f64 1.0
  %1 = tfrt.constant.f64 0.0
  %q = "tfrt.div.f64"(%0, %1) : (f64, f64) -> f64
  // expected-error @above {{Divide by zero}}
  tfrt.return %q : f64
}

// One report, though three kernels cannot run.
func.func @spreads() -> (i32, i32, !tfrt.chain) {
  %c = tfrt.new.chain
  %0 = "tfrt_test.fail"() : () -> i32 // expected-error {{something bad happened}}
  %1 = tfrt.add.i32 %0, %0
  %2 = tfrt.mul.i32 %1, %1
  %c1 = tfrt.print.i32 %2, %c
  tfrt.return %0, %2, %c1 : i32, i32, !tfrt.chain
}

// What does not depend on the error runs.
func.func @stays() -> (i32, i32) {
  %0 = "tfrt_test.fail"() : () -> i32 // expected-error {{something bad happened}}
  %1 = tfrt.constant.i32 3
  %2 = tfrt.add.i32 %1, %1
  tfrt.return %0, %2 : i32, i32
}

// Results set before the error stay.
func.func @partial() -> (i32, i32) {
  %0:2 = "tfrt_test.partial_fail"() : () -> (i32, i32) // expected-error {{something bad happened}}
  tfrt.return %0#0, %0#1 : i32, i32
}

func.func @chain() -> !tfrt.chain {
  %c = tfrt.new.chain
  %c1 = "tfrt_test.error_chain"(%c) : (!tfrt.chain) -> !tfrt.chain // expected-error {{error chain}}
  tfrt.return %c1 : !tfrt.chain
}

func.func @async() -> i32 {
  %0 = "tfrt_test.report_error_async"() : () -> i32 // expected-error {{something bad happened asynchronously}}
  tfrt.return %0 : i32
}

func.func @concrete_async() -> (i32, i32) {
  %z = tfrt.constant.i32 0
  %one = tfrt.constant.i32 1
  %0 = "tfrt_test.report_error_concrete_async"(%z) : (i32) -> i32
  %1 = "tfrt_test.report_error_concrete_async"(%one) : (i32) -> i32 // expected-error {{something bad happened asynchronously}}
  tfrt.return %0, %1 : i32, i32
}

func.func @indirect_async() -> (i32, i32) {
  %z = tfrt.constant.i32 0
  %one = tfrt.constant.i32 1
  %0 = "tfrt_test.report_error_indirect_async"(%z) : (i32) -> i32
  %1 = "tfrt_test.report_error_indirect_async"(%one) : (i32) -> i32 // expected-error {{something bad happened asynchronously}}
  tfrt.return %0, %1 : i32, i32
}

func.func @callee_fails() -> i32 {
  %0 = tfrt.call @inner() : () -> i32
  tfrt.return %0 : i32
}

func.func @inner() -> i32 {
  // One expectation serves all reports of its line.
  %0 = "tfrt_test.fail"() : () -> i32 // expected-error {{something bad happened}}
  tfrt.return %0 : i32
}
