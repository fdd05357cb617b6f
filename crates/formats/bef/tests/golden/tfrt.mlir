// test: print
// Every custom form of the tfrt dialect.
func.func private @native.sink(i32) -> (i32, !tfrt.chain) attributes {tfrt.native}
func.func @branch(%a: i32) -> i32 { tfrt.return %a : i32 }
func.func @body(%a: i32) -> (i32, i1) {
  %no = tfrt.constant.i1 0
  tfrt.return %a, %no : i32, i1
}
func.func @block(%start: i32, %end: i32, %x: i32) -> !tfrt.chain {
  %c = tfrt.new.chain
  tfrt.return %c : !tfrt.chain
}
func.func @constants() {
  %0 = tfrt.constant.i1 true
  %1 = tfrt.constant.i1 0
  %2 = tfrt.constant.i32 -7
  %3 = tfrt.constant.i64 9223372036854775807
  %4 = tfrt.constant.ui32 4294967295
  %5 = tfrt.constant.ui64 18446744073709551615
  %6 = tfrt.constant.bf16 1.0
  %7 = tfrt.constant.f16 -0.5
  %8 = tfrt.constant.f32 1.1
  %9 = tfrt.constant.f64 0x7FF0000000000000
  %10 = tfrt.constant.f32 0.1e-5
  %11 = tfrt.constant.complex64 1.0 : f32, -2.0 : f32
  %12 = tfrt.constant.complex128 1.0, 3.141592653589793 : f64
  %13 = "tfrt.constant.i32"() {value = 5 : i32} : () -> i32
  %14 = tfrt.constant.i32 5 {note = "kept"}
  tfrt.return
}
func.func @arithmetic(%a: i32, %b: i64, %c: f32, %d: f64, %e: i1, %ch: !tfrt.chain) {
  %0 = tfrt.add.i32 %a, %a
  %1 = tfrt.add.i64 %b, %b
  %2 = tfrt.add.f32 %c, %c
  %3 = tfrt.add.f64 %d, %d
  %4 = tfrt.mul.i32 %a, %0
  %5 = tfrt.mul.i64 %b, %b
  %6 = tfrt.and.i1 %e, %e
  %7 = "tfrt.minus.i32"(%a, %a) : (i32, i32) -> i32
  %8 = tfrt.equal.i32 %a, %a
  %9 = tfrt.equal.i64 %b, %b
  %10 = "tfrt.lessequal.i32"(%a, %a, %ch) : (i32, i32, !tfrt.chain) -> i1
  %q, %r = tfrt.div.i32 %a, %a
  %qr:2 = tfrt.div.i64 %b, %b
  %qr2:2 = tfrt.div.i64 %b, %qr#1
  %ch1 = tfrt.print.i1 %e, %ch
  %ch2 = tfrt.print.i32 %r, %ch1
  %ch3 = tfrt.print.i64 %qr#1, %ch2
  %ch4 = tfrt.print.f32 %c, %ch3
  %ch5 = tfrt.print.f64 %d, %ch4
  %ch6 = tfrt.merge.chains %ch5, %a : !tfrt.chain, i32
  %11 = tfrt.add.i32 %a, %a {_tfrt_cost = 10 : i64}
  tfrt.return
}
func.func @control(%a: i32, %b: i32, %ch: !tfrt.chain) -> (i32, !tfrt.chain) {
  %t = tfrt.constant.i1 true
  %0 = tfrt.call @branch(%a) : (i32) -> i32
  %1 = tfrt.call @branch(%a) {note = 1 : i32} : (i32) -> (i32)
  %2 = tfrt.once @branch(%a) : (i32) -> (i32)
  %3 = tfrt.cond %t @branch @branch (%a) : (i32) -> (i32)
  %4 = tfrt.case %a [@branch, @branch] (%b) : (i32) -> (i32)
  %5 = tfrt.while %t @body(%a) parallel_iterations(1) : (i32) -> (i32)
  %6 = tfrt.if %t, %a, %b : (i32, i32) -> (i32) {
    %x = tfrt.add.i32 %a, %b
    tfrt.return %x : i32
  } else {
    // The names of the operands are those of the arguments.
    tfrt.return %b : i32
  }
  tfrt.if %t attributes {note = "kept"} : () -> () {
    tfrt.return
  }
  %7:2 = tfrt.repeat.i32 %a, %6, %t : i32, i1 {
    tfrt.return %6, %t : i32, i1
  }
  tfrt.repeat.i32 %a {
    tfrt.return
  }
  %8 = tfrt.parallel_for.i32 %a to %b fixed %0, %1, %t : i32, i1 {
    %9 = tfrt.add.i32 %a, %b
    %10 = tfrt.add.i32 %9, %1
    tfrt.return
  }
  %11 = tfrt.parallel_for.i32 %a to %b fixed %0 {
    %12 = tfrt.new.chain
    tfrt.return %12 : !tfrt.chain
  }
  %13 = tfrt.parallel_call.i32 %a to %b fixed %0 @block(%7#0) : i32
  tfrt.return %7#0, %8 : i32, !tfrt.chain
}
----
func.func private @native.sink(i32) -> (i32, !tfrt.chain) attributes {tfrt.native}
func.func @branch(%arg0: i32) -> i32 {
  tfrt.return %arg0 : i32
}
func.func @body(%arg0: i32) -> (i32, i1) {
  %0 = tfrt.constant.i1 false
  tfrt.return %arg0, %0 : i32, i1
}
func.func @block(%arg0: i32, %arg1: i32, %arg2: i32) -> !tfrt.chain {
  %0 = tfrt.new.chain
  tfrt.return %0 : !tfrt.chain
}
func.func @constants() {
  %0 = tfrt.constant.i1 true
  %1 = tfrt.constant.i1 false
  %2 = tfrt.constant.i32 -7
  %3 = tfrt.constant.i64 9223372036854775807
  %4 = tfrt.constant.ui32 4294967295
  %5 = tfrt.constant.ui64 18446744073709551615
  %6 = tfrt.constant.bf16 1.000000e+00
  %7 = tfrt.constant.f16 -5.000000e-01
  %8 = tfrt.constant.f32 1.100000e+00
  %9 = tfrt.constant.f64 0x7FF0000000000000
  %10 = tfrt.constant.f32 1.000000e-06
  %11 = tfrt.constant.complex64 1.000000e+00 : f32, -2.000000e+00 : f32
  %12 = tfrt.constant.complex128 1.000000e+00 : f64, 3.141592653589793e+00 : f64
  %13 = tfrt.constant.i32 5
  %14 = tfrt.constant.i32 5 {note = "kept"}
  tfrt.return
}
func.func @arithmetic(%arg0: i32, %arg1: i64, %arg2: f32, %arg3: f64, %arg4: i1, %arg5: !tfrt.chain) {
  %0 = tfrt.add.i32 %arg0, %arg0
  %1 = tfrt.add.i64 %arg1, %arg1
  %2 = tfrt.add.f32 %arg2, %arg2
  %3 = tfrt.add.f64 %arg3, %arg3
  %4 = tfrt.mul.i32 %arg0, %0
  %5 = tfrt.mul.i64 %arg1, %arg1
  %6 = tfrt.and.i1 %arg4, %arg4
  %7 = "tfrt.minus.i32"(%arg0, %arg0) : (i32, i32) -> i32
  %8 = tfrt.equal.i32 %arg0, %arg0
  %9 = tfrt.equal.i64 %arg1, %arg1
  %10 = "tfrt.lessequal.i32"(%arg0, %arg0, %arg5) : (i32, i32, !tfrt.chain) -> i1
  %11:2 = tfrt.div.i32 %arg0, %arg0
  %12:2 = tfrt.div.i64 %arg1, %arg1
  %13:2 = tfrt.div.i64 %arg1, %12#1
  %14 = tfrt.print.i1 %arg4, %arg5
  %15 = tfrt.print.i32 %11#1, %14
  %16 = tfrt.print.i64 %12#1, %15
  %17 = tfrt.print.f32 %arg2, %16
  %18 = tfrt.print.f64 %arg3, %17
  %19 = tfrt.merge.chains %18, %arg0 : !tfrt.chain, i32
  %20 = tfrt.add.i32 %arg0, %arg0 {_tfrt_cost = 10}
  tfrt.return
}
func.func @control(%arg0: i32, %arg1: i32, %arg2: !tfrt.chain) -> (i32, !tfrt.chain) {
  %0 = tfrt.constant.i1 true
  %1 = tfrt.call @branch(%arg0) : (i32) -> i32
  %2 = tfrt.call @branch(%arg0) {note = 1 : i32} : (i32) -> i32
  %3 = tfrt.once @branch(%arg0) : (i32) -> i32
  %4 = tfrt.cond %0 @branch @branch (%arg0) : (i32) -> i32
  %5 = tfrt.case %arg0 [@branch, @branch] (%arg1) : (i32) -> i32
  %6 = tfrt.while %0 @body(%arg0) parallel_iterations(1) : (i32) -> i32
  %7 = tfrt.if %0, %arg0, %arg1 : (i32, i32) -> (i32) {
    %0 = tfrt.add.i32 %arg0, %arg1
    tfrt.return %0 : i32
  } else {
    tfrt.return %arg1 : i32
  }
  tfrt.if %0 attributes {note = "kept"} : () -> () {
    tfrt.return
  } else {
    tfrt.return
  }
  %8:2 = tfrt.repeat.i32 %arg0, %7, %0 : i32, i1 {
    tfrt.return %7, %0 : i32, i1
  }
  tfrt.repeat.i32 %arg0 {
    tfrt.return
  }
  %9 = tfrt.parallel_for.i32 %arg0 to %arg1 fixed %1, %2, %0 : i32, i1 {
    %1 = tfrt.add.i32 %arg0, %arg1
    %3 = tfrt.add.i32 %1, %2
    tfrt.return
  }
  %10 = tfrt.parallel_for.i32 %arg0 to %arg1 fixed %1 {
    %0 = tfrt.new.chain
    tfrt.return %0 : !tfrt.chain
  }
  %11 = tfrt.parallel_call.i32 %arg0 to %arg1 fixed %1 @block(%8#0) : i32
  tfrt.return %8#0, %9 : i32, !tfrt.chain
}
