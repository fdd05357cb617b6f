// Kernels that hand values on, and those with any number of operands.
//
// $ tenon exec forwarding.mlir

func.func @count() -> (i32, i32, i32, i64, i64, i64) {
  %0 = tfrt.constant.i32 10
  %1:3 = tfrt_test.count3.i32 %0
  %2 = tfrt.constant.i64 100
  %3:3 = tfrt_test.count3.i64 %2
  tfrt.return %1#0, %1#1, %1#2, %3#0, %3#1, %3#2 : i32, i32, i32, i64, i64, i64
}

func.func @identity() -> (i32, f32) {
  %c = tfrt.new.chain
  %0 = tfrt.constant.i32 1
  %1 = tfrt.constant.f32 2.0
  %2:2 = "tfrt_test.identity"(%c, %0, %1) : (!tfrt.chain, i32, f32) -> (i32, f32)
  tfrt.return %2#0, %2#1 : i32, f32
}

func.func @multi() -> (i32, f32, i1) {
  %0 = tfrt.constant.i32 1
  %1 = tfrt.constant.f32 2.0
  %2 = tfrt.constant.i1 true
  %3:3 = "tfrt_test.multi_arg_result"(%0, %1, %2) : (i32, f32, i1) -> (i32, f32, i1)
  tfrt.return %3#0, %3#1, %3#2 : i32, f32, i1
}

func.func @sum() -> (i32, i32) {
  %0 = tfrt.constant.i32 1
  %1 = tfrt.constant.i32 2
  %2 = "tfrt_test.sum"(%0, %1, %0, %1) : (i32, i32, i32, i32) -> i32
  %3 = "tfrt_test.sum"() : () -> i32
  tfrt.return %2, %3 : i32, i32
}

// One register may be used twice by one kernel and returned twice.
func.func @same_value_twice() -> (i32, i32) {
  %0 = tfrt.constant.i32 6
  %1 = tfrt.add.i32 %0, %0
  tfrt.return %1, %1 : i32, i32
}
