// Operations of dialects that nobody knows are refused unless allowed.
//
// $ tenon opt registered.mlir
// $ tenon opt -allow-unregistered-dialect registered.mlir
// $ tenon opt -allow-unregistered-dialect -mlir-print-op-generic registered.mlir

func.func @known() {
  %c = tfrt.new.chain
  "tfrt_test.not_yet_written"(%c) : (!tfrt.chain) -> ()
  tfrt.return
}

func.func @unknown() {
  "simple.op"() {attr0 = -559038737 : i32} : () -> ()
  tfrt.return
}
