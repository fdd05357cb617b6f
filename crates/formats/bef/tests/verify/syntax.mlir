// Problems of the text itself: one an operation, and none that only follows from another.
func.func @values(%a: i32) -> i32 {
  // expected-error @+1 {{use of undeclared SSA value name '%x'}}
  %0 = tfrt.add.i32 %a, %x
  %1 = tfrt.add.i32 %0, %0
  // expected-error @+1 {{use of value '%a' expects different type than prior uses: 'f32' vs 'i32'}}
  "x"(%a) : (f32) -> ()
  // expected-error @+1 {{redefinition of SSA value '%a'}}
  %a = tfrt.constant.i32 1
  // expected-error @+1 {{operation defines 1 results but was provided 2 to bind}}
  %2:2 = tfrt.new.chain
  "y"(%2#1) : (i32) -> ()
  %3:2 = tfrt.div.i32 %a, %a
  // expected-error @+1 {{reference to invalid result number '%3#2'}}
  "y"(%3#2) : (i32) -> ()
  // expected-error @+1 {{expected named operation to have at least 1 result}}
  %4:0 = tfrt.new.chain
  // expected-error @+1 {{cannot name an operation with no results}}
  %5 = tfrt.return %1 : i32
}

// -----

func.func @operations(%c: i1) {
  // expected-error @+1 {{custom op 'one' is unknown}}
  one
  // expected-error @+1 {{expected 'parallel_iterations'}}
  tfrt.while %c @operations(%c) : (i1) -> (i1)
  // expected-error @+2 {{expected ')'}}
  tfrt.if %c : (
    i1 i32) -> () {
    tfrt.return
  } else {
    "x"(%unknown) : (i32) -> ()
    tfrt.return
  }
  tfrt.repeat.i32 %c {
    // The type of the operand is looked at first.
    tfrt.return
  }
  // expected-error @-4 {{use of value '%c' expects different type than prior uses: 'i32' vs 'i1'}}
  // expected-error @+1 {{expected a constant of type 'i32'}}
  %0 = tfrt.constant.i32 1.5
  // expected-error @+1 {{duplicate key 'a' in dictionary attribute}}
  "x"() {a = 1, b = 2, a = 3} : () -> ()
  // expected-error @+1 {{the number does not fit type 'i8'}}
  "x"() {a = 256 : i8} : () -> ()
  tfrt.return
}

// -----

func.func @twice() { tfrt.return }
// expected-error @+1 {{redefinition of symbol named 'twice'}}
func.func @twice() { tfrt.return }
// expected-error @+1 {{expected a name after '@'}}
func.func () { tfrt.return }
// expected-error @+1 {{a native function has no body}}
func.func @body() attributes {tfrt.native} { tfrt.return }
func.func @fine() { tfrt.return }

// -----

func.func @locations() {
  // expected-error @+1 {{a location with a NUL character}}
  "x"() : () -> () loc("nul\00":1:1)
  // expected-error @+1 {{a location with a NUL character}}
  "x"() : () -> () loc(fused["nul\00", unknown])
  tfrt.return
}
