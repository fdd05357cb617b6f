// Synchronous functions: kernels one after the other, the first error ends them.
//
// $ tenon exec sync.mlir
// $ tenon translate -mlir-to-bef sync.mlir | tenon translate -bef-to-mlir

func.func @add() -> i32 attributes {tfrt.sync} {
  %0 = tfrt.constant.i32 1
  %1 = tfrt.constant.i32 2
  %2 = tfrt.add.i32 %0, %1
  tfrt.return %2 : i32
}

// In the order of the text, whatever the streams would be.
func.func @order() attributes {tfrt.sync} {
  %c = tfrt.new.chain
  %0 = tfrt.constant.i32 1
  %1 = tfrt.constant.i32 2
  %2 = tfrt.constant.i32 3
  %c0 = tfrt.print.i32 %0, %c
  %c1 = tfrt.print.i32 %1, %c
  %c2 = tfrt.print.i32 %2, %c
  tfrt.return
}

// On an error there is a line even without results.
func.func @fails() attributes {tfrt.sync} {
  %c = tfrt.new.chain
  %0 = tfrt.constant.i32 1
  %1 = tfrt.constant.i32 0
  %c0 = tfrt.print.i32 %0, %c
  %q, %r = tfrt.div.i32 %0, %1 // expected-error {{Divide by zero}}
  %c1 = tfrt.print.i32 %1, %c
  tfrt.return
}

func.func @fails_with_result() -> i32 attributes {tfrt.sync} {
  %0 = "tfrt_test.fail"() : () -> i32 // expected-error {{something bad happened}}
  tfrt.return %0 : i32
}
