// What becomes of text that cannot become BEF.
func.func @no_return() {
  // expected-error @+1 {{all functions need to have a tfrt.return}}
  %0 = "x"() : () -> i32
}

// -----

// expected-error @+1 {{external functions are not allowed}}
func.func private @external()

// -----

func.func @references() {
  // expected-error @+1 {{'tfrt.call' op 'missing_callee' does not reference a valid function}}
  tfrt.call @missing_callee() : () -> ()
  // expected-error @+1 {{function @missing_callee not defined}}
  "x"() {f = @missing_callee} : () -> ()
  // expected-error @+1 {{compiled module @kernel::@main not defined}}
  "x"() {f = @kernel::@main} : () -> ()
  // expected-error @+1 {{'tfrt.call' op has type '() -> i32', but its callee @references has '() -> ()'}}
  %0 = tfrt.call @references() : () -> i32
  tfrt.return
}

// -----

func.func @attributes() {
  // expected-error @+1 {{BEF files cannot encode the 'type' attribute}}
  "x"() {a = 1 : i32, type = tensor<1xf32>} : () -> ()
  // expected-error @+1 {{BEF files cannot encode the 'unit' attribute}}
  "x"() {unit} : () -> ()
  tfrt.return
}

// -----

func.func @sync(%a: i32) -> (i32, i32, i32) attributes {tfrt.sync} {
  %0 = tfrt.constant.i32 1
  // expected-error @+2 {{return value 0 is an argument in a sync function}}
  // expected-error @below {{return value 2 is duplicated in a sync function}}
  tfrt.return %a, %0, %0 : i32, i32, i32
}

// -----

func.func @early() {
  // expected-error @+1 {{return op must be at the end of its block}}
  tfrt.return
  "x"() : () -> ()
  tfrt.return
}

// -----

func.func @blocks() {
  "x"() ({
  ^bb0:
    "y"() : () -> ()
    // expected-error @+1 {{multi-block regions cannot be emitted to BEF files}}
  ^bb1:
    tfrt.return
  }) : () -> ()
  tfrt.return
}

// -----

func.func @outside(%a: i32, %c: i1) {
  "x"() ({
    // expected-error @+1 {{BEF executor only supports references to kernels within the current region}}
    "y"(%a) : (i32) -> ()
    tfrt.return
  }) : () -> ()
  tfrt.if %c : () -> () {
    // expected-error @+1 {{BEF executor only supports references to kernels within the current region}}
    "y"(%a) : (i32) -> ()
    tfrt.return
  }
  tfrt.return
}
