// The shape of what a benchmark prints.
//
// $ tenon exec benchmark.mlir

func.func @add() -> !tfrt.chain {
  %0 = tfrt.constant.i32 1
  %1 = tfrt.constant.i32 2
  %c = tfrt_test.benchmark "add.i32"(%0 : i32, %1 : i32) duration_secs = 1, max_count = 100, num_warmup_runs = 10 {
    %r = tfrt.add.i32 %0, %1
    tfrt.return %r : i32
  }
  tfrt.return %c : !tfrt.chain
}

func.func @without_warm_up() -> !tfrt.chain {
  %0 = tfrt.constant.i32 1
  %c = tfrt_test.benchmark "copy"(%0 : i32) duration_secs = 1, max_count = 5 {
    %r = "tfrt_test.async_copy.i32"(%0) : (i32) -> i32
    tfrt.return %r : i32
  }
  tfrt.return %c : !tfrt.chain
}
