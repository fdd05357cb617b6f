// test: canonicalize
// Each rule of canonicalization, and what it leaves alone.
func.func @chains(%a: !tfrt.chain, %b: !tfrt.chain, %x: i32) -> (!tfrt.chain, !tfrt.chain, !tfrt.chain, !tfrt.chain, !tfrt.chain) {
  %n = tfrt.new.chain
  %0 = tfrt.merge.chains %a, %n, %a : !tfrt.chain, !tfrt.chain, !tfrt.chain
  %1 = tfrt.merge.chains %a, %b, %0 : !tfrt.chain, !tfrt.chain, !tfrt.chain
  %2 = tfrt.merge.chains %n, %n : !tfrt.chain, !tfrt.chain
  %3 = tfrt.merge.chains %x, %n : i32, !tfrt.chain
  %4 = tfrt.merge.chains %2, %b : !tfrt.chain, !tfrt.chain
  tfrt.return %0, %1, %2, %3, %4 : !tfrt.chain, !tfrt.chain, !tfrt.chain, !tfrt.chain, !tfrt.chain
}
func.func @branches(%a: i32, %b: i32) -> (i32, i32) {
  %t = tfrt.constant.i1 true
  %f = tfrt.constant.i1 false
  %0 = tfrt.if %t, %a, %b : (i32, i32) -> (i32) {
    %1 = tfrt.constant.i1 false
    %2 = tfrt.if %1, %b : (i32) -> (i32) {
      tfrt.return %b : i32
    } else {
      %3 = tfrt.add.i32 %b, %b
      tfrt.return %3 : i32
    }
    tfrt.return %2 : i32
  } else {
    tfrt.return %b : i32
  }
  tfrt.if %f : () -> () {
    "tfrt_test.fail"() : () -> i32
    tfrt.return
  }
  tfrt.return %0, %a : i32, i32
}
func.func @one(%a: i32) -> i32 { tfrt.return %a : i32 }
func.func @two(%a: i32) -> i32 { tfrt.return %a : i32 }
func.func @other(%a: f32) -> f32 { tfrt.return %a : f32 }
func.func @choices(%a: i32, %c: i1) -> (i32, i32, i32, i32, i32) {
  %f = tfrt.constant.i1 false
  %n = tfrt.constant.i32 -1
  %z = tfrt.constant.i32 0
  %0 = tfrt.cond %f @one @two (%a) : (i32) -> i32
  %1 = tfrt.case %n [@one, @two] (%a) : (i32) -> i32
  %2 = tfrt.case %z [@one, @two] (%a) : (i32) -> i32
  %3 = tfrt.cond %f @one @other (%a) : (i32) -> i32
  %4 = tfrt.cond %c @one @two (%a) : (i32) -> i32
  tfrt.return %0, %1, %2, %3, %4 : i32, i32, i32, i32, i32
}
func.func @unused(%a: i32, %ch: !tfrt.chain) {
  %0 = tfrt.constant.i32 1
  %1 = tfrt.add.i32 %0, %a
  %2 = tfrt.merge.chains %ch, %1 : !tfrt.chain, i32
  %3:2 = tfrt.div.i32 %a, %0
  %4 = tfrt.print.i32 %a, %ch
  %5 = ts.build_shape [1]
  tfrt.return
}
func.func @sync() -> i32 attributes {tfrt.sync} {
  %t = tfrt.constant.i1 true
  %unused = tfrt.constant.i1 true
  %0 = tfrt.if %t : () -> (i32) {
    %1 = tfrt.constant.i32 1
    tfrt.return %1 : i32
  } else {
    %1 = tfrt.constant.i32 1
    tfrt.return %1 : i32
  }
  tfrt.return %0 : i32
}
----
func.func @chains(%arg0: !tfrt.chain, %arg1: !tfrt.chain, %arg2: i32) -> (!tfrt.chain, !tfrt.chain, !tfrt.chain, !tfrt.chain, !tfrt.chain) {
  %0 = tfrt.merge.chains %arg0, %arg1 : !tfrt.chain, !tfrt.chain
  %1 = tfrt.new.chain
  %2 = tfrt.merge.chains %arg2 : i32
  tfrt.return %arg0, %0, %1, %2, %arg1 : !tfrt.chain, !tfrt.chain, !tfrt.chain, !tfrt.chain, !tfrt.chain
}
func.func @branches(%arg0: i32, %arg1: i32) -> (i32, i32) {
  %0 = tfrt.add.i32 %arg1, %arg1
  tfrt.return %0, %arg0 : i32, i32
}
func.func @one(%arg0: i32) -> i32 {
  tfrt.return %arg0 : i32
}
func.func @two(%arg0: i32) -> i32 {
  tfrt.return %arg0 : i32
}
func.func @other(%arg0: f32) -> f32 {
  tfrt.return %arg0 : f32
}
func.func @choices(%arg0: i32, %arg1: i1) -> (i32, i32, i32, i32, i32) {
  %0 = tfrt.constant.i1 false
  %1 = tfrt.call @two(%arg0) : (i32) -> i32
  %2 = tfrt.call @two(%arg0) : (i32) -> i32
  %3 = tfrt.call @one(%arg0) : (i32) -> i32
  %4 = tfrt.cond %0 @one @other (%arg0) : (i32) -> i32
  %5 = tfrt.cond %arg1 @one @two (%arg0) : (i32) -> i32
  tfrt.return %1, %2, %3, %4, %5 : i32, i32, i32, i32, i32
}
func.func @unused(%arg0: i32, %arg1: !tfrt.chain) {
  %0 = tfrt.constant.i32 1
  %1:2 = tfrt.div.i32 %arg0, %0
  %2 = tfrt.print.i32 %arg0, %arg1
  tfrt.return
}
func.func @sync() -> i32 attributes {tfrt.sync} {
  %0 = tfrt.constant.i1 true
  %1 = tfrt.if %0 : () -> (i32) {
    %0 = tfrt.constant.i32 1
    tfrt.return %0 : i32
  } else {
    %0 = tfrt.constant.i32 1
    tfrt.return %0 : i32
  }
  tfrt.return %1 : i32
}
