// Kernels that nobody registered are listed when the file is loaded, all of them; a file that
// cannot be loaded is no failure when that was expected.
//
// $ tenon exec unknown_kernels.mlir
// $ tenon exec unknown_kernels_expected.mlir

func.func @one() {
  "no.such.kernel"() : () -> ()
  tfrt.return
}

func.func @two() {
  %0 = tfrt.constant.i32 1
  "another.one"(%0) : (i32) -> ()
  "no.such.kernel"() : () -> ()
  tfrt.return
}
