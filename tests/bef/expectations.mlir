// The forms of an expectation: a line from here, several of one line, a regular expression.
//
// $ tenon exec expectations.mlir

func.func @near() -> (i32, i32, i32, i32) {
  // expected-error @below {{something bad}}
  %0 = "tfrt_test.fail"() : () -> i32
  // expected-error@+2 {{bad happened}}

  %1 = "tfrt_test.fail"() : () -> i32
  %2 = "tfrt_test.fail"() : () -> i32
  // expected-error @above {{something}}
  %3 = "tfrt_test.fail"() : () -> i32 // expected-error-re {{something {{[a-z]+}} happened}}
  tfrt.return %0, %1, %2, %3 : i32, i32, i32, i32
}

func.func @far() -> i32 {
  %0 = "tfrt_test.fail"() : () -> i32 loc("expectations.mlir":21:1)
  tfrt.return %0 : i32
}
//
// expected-error @-1 {{something bad happened}}
