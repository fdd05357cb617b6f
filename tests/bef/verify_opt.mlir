// What the verifier says.
//
// $ tenon opt -split-input-file -verify-diagnostics verify_opt.mlir
// $ tenon opt -split-input-file verify_opt.mlir

func.func @count(%x: i32) {
  // expected-error @+1 {{'tfrt.return' op has 1 operands, but enclosing function returns 0}}
  tfrt.return %x : i32
}

// -----

func.func @types(%x: i32) -> !tfrt.chain {
  // expected-error @+1 {{type of return operand 0 ('i32') doesn't match function result type ('!tfrt.chain')}}
  tfrt.return %x : i32
}

// -----

func.func @if(%c: i1, %x: i32) -> i32 {
  // expected-error @+2 {{'tfrt.return' op operand types don't match 'tfrt.if' result}}
  %0 = tfrt.if %c, %x : (i32) -> (i32) {
    tfrt.return
  } else {
    tfrt.return %x : i32
  }
  tfrt.return %0 : i32
}

// -----

func.func @shape() {
  // expected-error @+1 {{'ts.build_shape' op result #0 must be !ts.shape type}}
  %0 = "ts.build_shape"() {value = [1 : i64]} : () -> i32
  tfrt.return
}

// -----

func.func @cost(%x: i32) {
  // expected-error @+1 {{op cost value must be larger than 0}}
  %0 = tfrt_test.test_cost %x, %x {id = 0 : i64, _tfrt_cost = 0 : i64} : i32, i32
  tfrt.return
}

// -----

func.func @benchmark(%x: i32) {
  // expected-error @+1 {{incorrect number of return values. One return value is expected}}
  %c = tfrt_test.benchmark "none"(%x : i32) duration_secs = 1, max_count = 1 {
    tfrt.return
  }
  tfrt.return
}

// -----

// expected-error @+1 {{something that never happens}}
func.func @expected_too_much() {
  tfrt.return
}
