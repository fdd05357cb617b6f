// Kernels whose results come later, from tasks of the work queue.
//
// $ tenon exec async.mlir
// $ tenon exec --work_queue_type=mstd:4 async.mlir

func.func @add() -> i32 {
  %0 = "tfrt_test.async_constant.i32"() {value = 40 : i32} : () -> i32
  %1 = tfrt.constant.i32 2
  %2 = "tfrt_test.async_add.i32"(%0, %1) : (i32, i32) -> i32
  tfrt.return %2 : i32
}

func.func @copies() -> (i32, i32, i32, i64, i32, i64, i1) {
  %0 = tfrt.constant.i32 7
  %1 = tfrt.constant.i64 8
  %2 = "tfrt_test.async_copy.i32"(%0) : (i32) -> i32
  %3 = "tfrt_test.async_copy_2.i32"(%0) : (i32) -> i32
  %4 = "tfrt_test.async_copy.with_delay.i32"(%0) : (i32) -> i32
  %5 = "tfrt_test.async_copy.with_delay.i64"(%1) : (i64) -> i64
  %6 = "tfrt_test.copy.with_delay.i32"(%0) : (i32) -> i32
  %7 = "tfrt_test.copy.with_delay.i64"(%1) : (i64) -> i64
  %8 = "tfrt_test.async_constant.i1"() {value = false} : () -> i1
  tfrt.return %2, %3, %4, %5, %6, %7, %8 : i32, i32, i32, i64, i32, i64, i1
}

// Functions are not strict: the callee is entered when the call's own operands are there, and what
// it returns may come later still.
func.func @later(%x: i32) -> i32 {
  %0 = "tfrt_test.async_add.i32"(%x, %x) : (i32, i32) -> i32
  tfrt.return %0 : i32
}

func.func @calls() -> i32 {
  %0 = tfrt.constant.i32 3
  %1 = tfrt.call @later(%0) : (i32) -> i32
  %2 = tfrt.call @later(%1) : (i32) -> i32
  %3 = tfrt.add.i32 %1, %2
  tfrt.return %3 : i32
}

func.func @do_async() -> (i32, !tfrt.chain) {
  %c0 = tfrt.new.chain
  %0 = tfrt.constant.i32 21
  %r, %c = "tfrt_test.do.async"(%0, %c0) ({
  ^bb0(%x: i32, %c1: !tfrt.chain):
    %s = tfrt.add.i32 %x, %x
    %c2 = tfrt.print.i32 %s, %c1
    tfrt.return %s, %c2 : i32, !tfrt.chain
  }) : (i32, !tfrt.chain) -> (i32, !tfrt.chain)
  tfrt.return %r, %c : i32, !tfrt.chain
}

func.func @do_async_custom() -> i32 {
  %0 = tfrt.constant.i32 4
  %r = tfrt_test.do.async %0 : (i32) -> (i32) {
    %s = tfrt.mul.i32 %0, %0
    tfrt.return %s : i32
  }
  tfrt.return %r : i32
}

// What a test of values sees: a register and the kernel both hold them, so none is unique.
func.func @uniqueness() -> (i1, i1) {
  %0 = tfrt.constant.i32 4
  %1 = "tfrt_test.make_indirect"(%0) : (i32) -> i32
  %2:2 = "tfrt_test.get_uniqueness"(%0, %1) : (i32, i32) -> (i1, i1)
  tfrt.return %2#0, %2#1 : i1, i1
}

func.func @indirect() -> (i32, i32) {
  %0 = tfrt.constant.i32 4
  %1 = tfrt.constant.i32 5
  %2:2 = "tfrt_test.make_indirect"(%0, %1) : (i32, i32) -> (i32, i32)
  tfrt.return %2#0, %2#1 : i32, i32
}

func.func @async_values() -> (!tfrt.string, !tfrt.string) {
  %c0 = tfrt.new.chain
  %0 = "tfrt_test.async_value_get"() : () -> !tfrt.string
  %c1 = "tfrt_test.print_string"(%0, %c0) : (!tfrt.string, !tfrt.chain) -> !tfrt.chain
  %1 = "tfrt_test.async_value_ref"() : () -> !tfrt.string
  %c2 = "tfrt_test.print_string"(%1, %c1) : (!tfrt.string, !tfrt.chain) -> !tfrt.chain
  %2 = "tfrt.alias.value"(%c2, %1) : (!tfrt.chain, !tfrt.string) -> !tfrt.string
  tfrt.return %0, %2 : !tfrt.string, !tfrt.string
}
