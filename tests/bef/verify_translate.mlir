// What cannot become BEF: each piece of the file has its own mistake, and expects it.
//
// $ tenon translate -mlir-to-bef -split-input-file -verify-diagnostics verify_translate.mlir
// $ tenon translate -mlir-to-bef -split-input-file verify_translate.mlir

func.func @no_return() {
} // expected-error {{all functions need to have a tfrt.return}}

// -----

func.func private @external() -> i32 // expected-error {{external functions are not allowed}}

// -----

func.func @reference() {
  "test.k"() {callee = @missing_callee} : () -> () // expected-error {{function @missing_callee not defined}}
  tfrt.return
}

// -----

func.func @call() {
  tfrt.call @missing_callee() : () -> () // expected-error {{'missing_callee' does not reference a valid function}}
  tfrt.return
}

// -----

func.func @attribute() {
  "test.k"() {type = tensor<1xf32>} : () -> () // expected-error {{BEF files cannot encode the 'type' attribute}}
  tfrt.return
}

// -----

func.func @sync_argument(%x: i32) -> i32 attributes {tfrt.sync} {
  tfrt.return %x : i32 // expected-error {{return value 0 is an argument in a sync function}}
}

// -----

func.func @sync_duplicate() -> (i32, i32) attributes {tfrt.sync} {
  %0 = tfrt.constant.i32 1
  tfrt.return %0, %0 : i32, i32 // expected-error {{return value 1 is duplicated in a sync function}}
}

// -----

func.func @return_in_the_middle() {
  tfrt.return // expected-error {{return op must be at the end of its block}}
  "test.k"() : () -> () // expected-error {{all functions need to have a tfrt.return}}
}

// -----

func.func @blocks() {
  "test.k"() : () -> ()
^bb1: // expected-error {{multi-block regions cannot be emitted to BEF files}}
  tfrt.return
}

// -----

func.func @outer(%x: i32) {
  "test.k"() ({
    "test.k"(%x) : (i32) -> () // expected-error {{BEF executor only supports references to kernels within the current region}}
    tfrt.return
  }) : () -> ()
  tfrt.return
}

// -----

// Nothing is wrong here.
func.func @right() {
  tfrt.return
}
