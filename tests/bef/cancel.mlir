// A cancelled execution starts no more kernels; nothing is reported.
//
// $ tenon exec cancel.mlir
// $ tenon exec --print_error_code cancel.mlir

func.func @after() -> (i32, i32) {
  %c = tfrt.new.chain
  %0, %c1 = "tfrt_test.cancel"(%c) : (!tfrt.chain) -> (i32, !tfrt.chain)
  %1 = "tfrt.alias.value"(%c1, %0) : (!tfrt.chain, i32) -> i32
  tfrt.return %0, %1 : i32, i32
}

// A repeat looks before each iteration.
func.func @inside_repeat() -> i32 {
  %n = tfrt.constant.i32 1000000000
  %i = tfrt.constant.i32 0
  %0 = tfrt.repeat.i32 %n, %i : i32 {
    %c = tfrt.new.chain
    %z, %c1 = "tfrt_test.cancel"(%c) : (!tfrt.chain) -> (i32, !tfrt.chain)
    tfrt.return %i : i32
  }
  tfrt.return %0 : i32
}

// The next function is another execution.
func.func @next() -> i32 {
  %0 = tfrt.constant.i32 5
  tfrt.return %0 : i32
}
