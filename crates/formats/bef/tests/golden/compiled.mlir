// test: print
// Modules that are compiled elsewhere: held in the generic form, printed in the custom one.
module @kernel0 attributes {tfrt.compiled} {
  func.func @main(%arg0: memref<?x?xf32>, %n: index) -> (index, memref<1xf32>) attributes {a = [1, "}"]} {
    // Comments go.
    %0:2 = "any.op"(%arg0) ({
    ^bb0(%x: f32):
      "any.yield"(%x)[^bb1] : (f32) -> ()
    ^bb1:
      return
    }) {b = affine_map<(d0) -> (d0)>, flag} : (memref<?x?xf32>) -> (index, memref<1xf32>) loc("x.py":1:2)
    func.return %0#0, %0#1 : index, memref<1xf32>
  }
  func.func private @declared(i32)
}
"builtin.module"() <{sym_name = "kernel1"}> ({
  "func.func"() <{function_type = () -> (), sym_name = "main"}> ({
    "func.call"() <{callee = @other}> : () -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) {tfrt.compiled} : () -> ()
module @unknown attributes {tfrt.compiled} {
  custom.operation   %here {is = kept} // as it stands
}
func.func @main() {
  "compile"() {a = @kernel0::@main, b = [@kernel0::@main, 1 : i32], c = @kernel1::@main, d = @unknown::@x} : () -> ()
  tfrt.return
}
----
module @kernel0 attributes {tfrt.compiled} {
  func.func @main(%arg0: memref<?x?xf32>, %n: index) -> (index, memref<1xf32>) attributes {a = [1, "}"]} {
    %0:2 = "any.op"(%arg0) ({
    ^bb0(%x: f32):
      "any.yield"(%x)[^bb1] : (f32) -> ()
    ^bb1:
      func.return
    }) {b = affine_map<(d0) -> (d0)>, flag} : (memref<?x?xf32>) -> (index, memref<1xf32>) loc("x.py":1:2)
    func.return %0#0, %0#1 : index, memref<1xf32>
  }
  func.func private @declared(i32)
}
module @kernel1 attributes {tfrt.compiled} {
  func.func @main() {
    "func.call"() <{callee = @other}> : () -> ()
    func.return
  }
}
module @unknown attributes {tfrt.compiled} {
  custom.operation   %here {is = kept} // as it stands
}
func.func @main() {
  "compile"() {a = @kernel0::@main, b = [@kernel0::@main, 1 : i32], c = @kernel1::@main, d = @unknown::@x} : () -> ()
  tfrt.return
}
