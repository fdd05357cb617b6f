// Counters that many kernels share.
//
// $ tenon exec atomic.mlir

func.func @counter() -> (i32, i32) {
  %c0 = tfrt.new.chain
  %a = "tfrt_test.atomic.create.i32"() : () -> !test.atomic.i32
  %c1 = "tfrt_test.atomic.inc.i32"(%a, %c0) : (!test.atomic.i32, !tfrt.chain) -> !tfrt.chain
  %0, %c2 = "tfrt_test.atomic.get.i32"(%a, %c1) : (!test.atomic.i32, !tfrt.chain) -> (i32, !tfrt.chain)
  %1 = tfrt.constant.i32 41
  %c3 = "tfrt_test.atomic.add.i32"(%a, %1, %c2) : (!test.atomic.i32, i32, !tfrt.chain) -> !tfrt.chain
  %2, %c4 = "tfrt_test.atomic.get.i32"(%a, %c3) : (!test.atomic.i32, !tfrt.chain) -> (i32, !tfrt.chain)
  tfrt.return %0, %2 : i32, i32
}
