// Run by unknown_kernels.mlir.

func.func @one() {
  "no.such.kernel"() : () -> () // expected-error {{unknown kernel name 'no.such.kernel'}}
  tfrt.return
}
