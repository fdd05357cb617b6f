// Log lines go to standard error.
//
// $ tenon exec logging.mlir

func.func @log() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %0 = "tfrt_test.get_string"() {value = "something to tell"} : () -> !tfrt.string
  %c1 = "tfrt_test.logging"(%0, %c0) : (!tfrt.string, !tfrt.chain) -> !tfrt.chain
  tfrt.return %c1 : !tfrt.chain
}
