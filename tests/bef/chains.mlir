// Values that carry order and no data.
//
// $ tenon exec chains.mlir

// The merged chain exists when both prints are done, so 3 comes last.
func.func @merge() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %0 = tfrt.constant.i32 1
  %c1 = tfrt.print.i32 %0, %c0
  %1 = tfrt.constant.i32 2
  %c2 = tfrt.print.i32 %1, %c1
  %c3 = tfrt.merge.chains %c1, %c2, %1 : !tfrt.chain, !tfrt.chain, i32
  %2 = tfrt.constant.i32 3
  %c4 = tfrt.print.i32 %2, %c3
  tfrt.return %c4 : !tfrt.chain
}

func.func @alias() -> i32 {
  %c0 = tfrt.new.chain
  %0 = tfrt.constant.i32 11
  %1 = "tfrt.alias.value"(%c0, %0) : (!tfrt.chain, i32) -> i32
  tfrt.return %1 : i32
}

// A chain of values that come later is complete when all are there.
func.func @as_chain() -> !tfrt.chain {
  %0 = "tfrt_test.async_constant.i32"() {value = 5 : i32} : () -> i32
  %1 = "tfrt_test.async_constant.i1"() {value = true} : () -> i1
  %c0 = "tfrt_test.as_chain"(%0, %1) : (i32, i1) -> !tfrt.chain
  %c1 = tfrt.print.i32 %0, %c0
  tfrt.return %c1 : !tfrt.chain
}
