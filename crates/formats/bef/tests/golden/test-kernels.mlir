// test: print
// The custom forms of tfrt_test, and the generic ones of kernels that have none.
func.func @main(%a: i32, %b: f32) -> i32 {
  %c0 = tfrt.new.chain
  %three:3 = tfrt_test.count3.i32 %a
  %l = tfrt.constant.i64 1
  %x, %y, %z = tfrt_test.count3.i64 %l
  %d = tfrt_test.do.async %a, %b : (i32, f32) -> (f32) {
    tfrt.return %b : f32
  }
  tfrt_test.do.async : () -> () {
    tfrt.return
  }
  %e = tfrt_test.do.async %a attributes {note = true} : (i32) -> (i32) { tfrt.return %a : i32 }
  %f = tfrt_test.benchmark "add.i32"(%a : i32, %three#1 : i32) duration_secs = 1, max_count = 100, num_warmup_runs = 10 {
    %r = tfrt.add.i32 %a, %three#1
    tfrt.return %r : i32
  }
  %g = tfrt_test.benchmark "no \22arguments\22"() max_count = 2, duration_secs = 3 {
    %r = tfrt.constant.i32 1
    tfrt.return %r : i32
  }
  %h = tfrt_test.test_cost %a, %three#0 {id = 0 : i64, _tfrt_cost = 1 : i64} : i32, i32
  %i = "tfrt_test.get_string"() {value = "hello"} : () -> !tfrt.string
  %c1 = "tfrt_test.print_string"(%i, %c0) : (!tfrt.string, !tfrt.chain) -> !tfrt.chain
  %j = "vt.constant"() {value = 1 : i32} : () -> !vt.value
  %k = "tfrt_test.atomic.create.i32"() : () -> !test.atomic.i32
  tfrt.return %h : i32
}
----
func.func @main(%arg0: i32, %arg1: f32) -> i32 {
  %0 = tfrt.new.chain
  %1:3 = tfrt_test.count3.i32 %arg0
  %2 = tfrt.constant.i64 1
  %3:3 = tfrt_test.count3.i64 %2
  %4 = tfrt_test.do.async %arg0, %arg1 : (i32, f32) -> (f32) {
    tfrt.return %arg1 : f32
  }
  tfrt_test.do.async : () -> () {
    tfrt.return
  }
  %5 = tfrt_test.do.async %arg0 attributes {note = true} : (i32) -> (i32) {
    tfrt.return %arg0 : i32
  }
  %6 = tfrt_test.benchmark "add.i32"(%arg0 : i32, %1#1 : i32) duration_secs = 1, max_count = 100, num_warmup_runs = 10 {
    %0 = tfrt.add.i32 %arg0, %1#1
    tfrt.return %0 : i32
  }
  %7 = tfrt_test.benchmark "no \22arguments\22"() duration_secs = 3, max_count = 2, num_warmup_runs = 1 {
    %0 = tfrt.constant.i32 1
    tfrt.return %0 : i32
  }
  %8 = tfrt_test.test_cost %arg0, %1#0 {_tfrt_cost = 1, id = 0} : i32, i32
  %9 = "tfrt_test.get_string"() {value = "hello"} : () -> !tfrt.string
  %10 = "tfrt_test.print_string"(%9, %0) : (!tfrt.string, !tfrt.chain) -> !tfrt.chain
  %11 = "vt.constant"() {value = 1 : i32} : () -> !vt.value
  %12 = "tfrt_test.atomic.create.i32"() : () -> !test.atomic.i32
  tfrt.return %8 : i32
}
