// tfrt.parallel_for and tfrt.parallel_call: [start, end) in blocks of a fixed size.
//
// $ tenon exec parallel.mlir
// $ tenon exec --work_queue_type=mstd:4 parallel.mlir

// Each block adds its length, so the sum is end - start whatever the blocks are.
func.func @add_length(%s: i32, %e: i32, %n: !test.atomic.i32) attributes {tfrt.sync} {
  %c = tfrt.new.chain
  %size = "tfrt.minus.i32"(%e, %s) : (i32, i32) -> i32
  %c1 = "tfrt_test.atomic.add.i32"(%n, %size, %c) : (!test.atomic.i32, i32, !tfrt.chain) -> !tfrt.chain
  tfrt.return
}

// A body without results has done its work when it returns.
func.func @sync_body() -> i32 {
  %s = tfrt.constant.i32 3
  %e = tfrt.constant.i32 1003
  %b = tfrt.constant.i32 7
  %n = "tfrt_test.atomic.create.i32"() : () -> !test.atomic.i32
  %d = tfrt.parallel_call.i32 %s to %e fixed %b @add_length(%n) : !test.atomic.i32
  %r, %c2 = "tfrt_test.atomic.get.i32"(%n, %d) : (!test.atomic.i32, !tfrt.chain) -> (i32, !tfrt.chain)
  tfrt.return %r : i32
}

// One with a chain is done when its chain is.
func.func @async_body() -> i32 {
  %s = tfrt.constant.i32 0
  %e = tfrt.constant.i32 100
  %b = tfrt.constant.i32 10
  %n = "tfrt_test.atomic.create.i32"() : () -> !test.atomic.i32
  %d = tfrt.parallel_for.i32 %s to %e fixed %b, %n : !test.atomic.i32 {
    %c = tfrt.new.chain
    %size = "tfrt.minus.i32"(%e, %s) : (i32, i32) -> i32
    %later = "tfrt_test.async_copy.i32"(%size) : (i32) -> i32
    %c1 = "tfrt_test.atomic.add.i32"(%n, %later, %c) : (!test.atomic.i32, i32, !tfrt.chain) -> !tfrt.chain
    tfrt.return %c1 : !tfrt.chain
  }
  %r, %c2 = "tfrt_test.atomic.get.i32"(%n, %d) : (!test.atomic.i32, !tfrt.chain) -> (i32, !tfrt.chain)
  tfrt.return %r : i32
}

func.func @nothing_to_do() -> !tfrt.chain {
  %s = tfrt.constant.i32 5
  %e = tfrt.constant.i32 5
  %b = tfrt.constant.i32 1
  %c = tfrt.new.chain
  %d = tfrt.parallel_for.i32 %s to %e fixed %b, %c : !tfrt.chain {
    %c1 = "tfrt_test.print_hello"(%c) : (!tfrt.chain) -> !tfrt.chain
    tfrt.return
  }
  tfrt.return %d : !tfrt.chain
}

// A single block runs in the caller: start and end are the whole range.
func.func @single_block() -> !tfrt.chain {
  %s = tfrt.constant.i32 5
  %e = tfrt.constant.i32 8
  %b = tfrt.constant.i32 10
  %c = tfrt.new.chain
  %d = tfrt.parallel_for.i32 %s to %e fixed %b, %c : !tfrt.chain {
    %c1 = tfrt.print.i32 %s, %c
    %c2 = tfrt.print.i32 %e, %c1
    tfrt.return
  }
  tfrt.return %d : !tfrt.chain
}

func.func @add_block(%s: i32, %e: i32, %n: !test.atomic.i32) -> !tfrt.chain {
  %c = tfrt.new.chain
  %c1 = "tfrt_test.atomic.inc.i32"(%n, %c) : (!test.atomic.i32, !tfrt.chain) -> !tfrt.chain
  tfrt.return %c1 : !tfrt.chain
}

// 100 values in blocks of 10: ten calls.
func.func @call() -> i32 {
  %s = tfrt.constant.i32 0
  %e = tfrt.constant.i32 100
  %b = tfrt.constant.i32 10
  %n = "tfrt_test.atomic.create.i32"() : () -> !test.atomic.i32
  %d = tfrt.parallel_call.i32 %s to %e fixed %b @add_block(%n) : !test.atomic.i32
  %r, %c2 = "tfrt_test.atomic.get.i32"(%n, %d) : (!test.atomic.i32, !tfrt.chain) -> (i32, !tfrt.chain)
  tfrt.return %r : i32
}

func.func @two_results(%s: i32, %e: i32) -> (i32, i32) {
  tfrt.return %s, %e : i32, i32
}

func.func @bad_body() -> !tfrt.chain {
  %s = tfrt.constant.i32 0
  %e = tfrt.constant.i32 4
  %b = tfrt.constant.i32 1
  %d = tfrt.parallel_call.i32 %s to %e fixed %b @two_results() // expected-error {{Invalid parallel body function result types}}
  tfrt.return %d : !tfrt.chain
}
