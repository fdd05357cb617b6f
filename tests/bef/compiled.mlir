// A symbol of a compiled module travels with the whole module in generic form.
//
// $ tenon translate -mlir-to-bef compiled.mlir | tenon translate -bef-to-mlir

module @kernel0 attributes {tfrt.compiled} {
  func.func @main(%arg0: memref<?x?xf32>, %arg1: memref<?xf32>) {
    func.return
  }
}

func.func @main() {
  "test.compile"() {kernel = @kernel0::@main} : () -> ()
  tfrt.return
}
