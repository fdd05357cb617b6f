// Scopes, printed after everything else.
//
// $ tenon exec --enable_tracing tracing.mlir
// $ tenon exec --enable_tracing --tracing_level=verbose tracing.mlir
// $ tenon exec --enable_tracing --tracing_level=debug tracing.mlir
// $ tenon exec --tracing_level=debug tracing.mlir

func.func @first() -> i32 {
  %0 = tfrt.constant.i32 1
  %1 = tfrt.add.i32 %0, %0
  tfrt.return %1 : i32
}

func.func @second() {
  %c0 = tfrt.new.chain
  %c1 = "tfrt_test.print_hello"(%c0) : (!tfrt.chain) -> !tfrt.chain
  tfrt.return
}
