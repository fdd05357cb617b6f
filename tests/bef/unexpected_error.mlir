// An error that nobody expected is told with its line, and the exit status is 1.
//
// $ tenon exec unexpected_error.mlir
// $ tenon exec --functions=right unexpected_error.mlir
// $ tenon exec --functions=wrong_words unexpected_error.mlir
// $ tenon exec --functions=no_words unexpected_error.mlir

func.func @right() -> i32 {
  %0 = tfrt.constant.i32 1
  tfrt.return %0 : i32
}

func.func @no_words() -> i32 {
  %0 = "tfrt_test.fail"() : () -> i32
  tfrt.return %0 : i32
}

func.func @wrong_words() -> i32 {
  %0 = "tfrt_test.fail"() : () -> i32 // expected-error {{something else}}
  tfrt.return %0 : i32
}
