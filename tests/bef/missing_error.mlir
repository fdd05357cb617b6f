// An error that was expected and never came fails too, once any diagnostic made the file be read.
//
// $ tenon exec missing_error.mlir
// $ tenon exec --functions=comes missing_error.mlir
// $ tenon exec --functions=never_comes missing_error.mlir

func.func @comes() -> i32 {
  %0 = "tfrt_test.fail"() : () -> i32 // expected-error {{something bad happened}}
  tfrt.return %0 : i32
}

func.func @never_comes() -> i32 {
  %0 = tfrt.constant.i32 1 // expected-error {{something bad happened}}
  tfrt.return %0 : i32
}
