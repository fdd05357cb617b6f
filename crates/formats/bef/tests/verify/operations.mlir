// What the verifiers of operations say.
func.func @results() {
  %0 = tfrt.constant.i32 1
  // expected-error @+1 {{'tfrt.return' op has 1 operands, but enclosing function returns 0}}
  tfrt.return %0 : i32
}

// -----

func.func @types() -> !tfrt.chain {
  %0 = tfrt.constant.i32 1
  // expected-error @+1 {{type of return operand 0 ('i32') doesn't match function result type ('!tfrt.chain')}}
  tfrt.return %0 : i32
}

// -----

func.func @regions(%c: i1, %a: i32) {
  // expected-error @+2 {{'tfrt.return' op operand types don't match 'tfrt.if' result}}
  %0 = tfrt.if %c, %a : (i32) -> (i32) {
    tfrt.return
  } else {
    tfrt.return %a : i32
  }
  // expected-error @+2 {{'tfrt.return' op operand types don't match 'tfrt.repeat.i32' result}}
  %1 = tfrt.repeat.i32 %a, %c : i1 {
    tfrt.return %c, %c : i1, i1
  }
  // expected-error @+2 {{'tfrt.return' op operand types don't match 'tfrt_test.do.async' result}}
  %2 = tfrt_test.do.async %a : (i32) -> (i32) {
    tfrt.return
  }
  // expected-error @+1 {{incorrect number of return values. One return value is expected}}
  %3 = tfrt_test.benchmark "b"(%a : i32) duration_secs = 1, max_count = 1 {
    tfrt.return
  }
  // expected-error @+1 {{'tfrt.if' op requires 2 regions, but has 1}}
  "tfrt.if"(%c) ({
    tfrt.return
  }) : (i1) -> ()
  // expected-error @+1 {{'tfrt.if' op with results needs an else}}
  %4 = tfrt.if %c, %a : (i32) -> (i32) {
    tfrt.return %a : i32
  }
  tfrt.return
}

// -----

func.func @values(%a: i32, %f: f32) {
  // expected-error @+1 {{'ts.build_shape' op result #0 must be !ts.shape type, but got 'i32'}}
  %0 = "ts.build_shape"() {value = [1 : i64]} : () -> i32
  // expected-error @+1 {{'ts.build_shape' op requires attribute 'value'}}
  %1 = "ts.build_shape"() : () -> !ts.shape
  // expected-error @+1 {{op cost value must be larger than 0}}
  %2 = tfrt_test.test_cost %a {id = 0 : i64, _tfrt_cost = 0 : i64} : i32
  // expected-error @+1 {{'tfrt.add.i32' op operand #1 must be 32-bit signless integer, but got 'f32'}}
  %3 = "tfrt.add.i32"(%a, %f) : (i32, f32) -> i32
  // expected-error @+1 {{'tfrt.add.i32' op expected 2 operands, but found 1}}
  %4 = "tfrt.add.i32"(%a) : (i32) -> i32
  // expected-error @+1 {{attribute 'value' failed to satisfy constraint: 32-bit float attribute}}
  %5 = "tfrt.constant.f32"() {value = 1 : i32} : () -> f32
  // expected-error @+1 {{'tfrt.once' op requires attribute 'function'}}
  "tfrt.once"() : () -> ()
  tfrt.return
}
