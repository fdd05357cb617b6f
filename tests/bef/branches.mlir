// tfrt.if, tfrt.cond and tfrt.case: which function runs, and what an error in the condition does.
//
// $ tenon exec branches.mlir

func.func @if_true_false() -> (i32, i32) {
  %t = tfrt.constant.i1 true
  %f = tfrt.constant.i1 false
  %a = tfrt.constant.i32 1
  %b = tfrt.constant.i32 2
  %0 = tfrt.if %t, %a, %b : (i32, i32) -> (i32) {
    tfrt.return %a : i32
  } else {
    tfrt.return %b : i32
  }
  %1 = tfrt.if %f, %a, %b : (i32, i32) -> (i32) {
    tfrt.return %a : i32
  } else {
    tfrt.return %b : i32
  }
  tfrt.return %0, %1 : i32, i32
}

// The else may be absent when there are no results.
func.func @if_without_else() {
  %c = tfrt.new.chain
  %t = tfrt.constant.i1 true
  %f = tfrt.constant.i1 false
  %a = tfrt.constant.i32 3
  tfrt.if %t, %a, %c : (i32, !tfrt.chain) -> () {
    %c1 = tfrt.print.i32 %a, %c
    tfrt.return
  }
  tfrt.if %f, %a, %c : (i32, !tfrt.chain) -> () {
    %c1 = tfrt.print.i32 %a, %c
    tfrt.return
  }
  tfrt.return
}

func.func @if_condition_comes_later() -> i32 {
  %t = "tfrt_test.async_constant.i1"() {value = true} : () -> i1
  %a = tfrt.constant.i32 4
  %0 = tfrt.if %t, %a : (i32) -> (i32) {
    tfrt.return %a : i32
  } else {
    %b = tfrt.constant.i32 -4
    tfrt.return %b : i32
  }
  tfrt.return %0 : i32
}

// An error in a branch becomes its result, reported where it happened.
func.func @if_branch_fails() -> i32 {
  %t = tfrt.constant.i1 true
  %0 = tfrt.if %t : () -> (i32) {
    %x = "tfrt_test.fail"() : () -> i32 // expected-error {{something bad happened}}
    tfrt.return %x : i32
  } else {
    %y = tfrt.constant.i32 0
    tfrt.return %y : i32
  }
  tfrt.return %0 : i32
}

func.func @double(%x: i32) -> i32 {
  %0 = tfrt.add.i32 %x, %x
  tfrt.return %0 : i32
}

func.func @square(%x: i32) -> i32 {
  %0 = tfrt.mul.i32 %x, %x
  tfrt.return %0 : i32
}

func.func @cond() -> (i32, i32) {
  %t = tfrt.constant.i1 true
  %f = tfrt.constant.i1 false
  %x = tfrt.constant.i32 5
  %0 = tfrt.cond %t @double @square (%x) : (i32) -> (i32)
  %1 = tfrt.cond %f @double @square (%x) : (i32) -> (i32)
  tfrt.return %0, %1 : i32, i32
}

func.func @cond_comes_later() -> i32 {
  %f = "tfrt_test.async_constant.i1"() {value = false} : () -> i1
  %x = tfrt.constant.i32 6
  %0 = tfrt.cond %f @double @square (%x) : (i32) -> (i32)
  tfrt.return %0 : i32
}

func.func @cond_fails() -> (i32, i1) {
  %x = "tfrt_test.fail"() : () -> i32 // expected-error {{something bad happened}}
  %c = tfrt.equal.i32 %x, %x
  %y = tfrt.constant.i32 6
  %0 = tfrt.cond %c @double @square (%y) : (i32) -> (i32)
  tfrt.return %0, %c : i32, i1
}

// Out of range and negative take the last branch.
func.func @case() -> (i32, i32, i32, i32) {
  %x = tfrt.constant.i32 5
  %i0 = tfrt.constant.i32 0
  %i1 = tfrt.constant.i32 1
  %i2 = tfrt.constant.i32 2
  %n = tfrt.constant.i32 -1
  %0 = tfrt.case %i0 [@double, @square] (%x) : (i32) -> (i32)
  %1 = tfrt.case %i1 [@double, @square] (%x) : (i32) -> (i32)
  %2 = tfrt.case %i2 [@double, @square] (%x) : (i32) -> (i32)
  %3 = tfrt.case %n [@double, @square] (%x) : (i32) -> (i32)
  tfrt.return %0, %1, %2, %3 : i32, i32, i32, i32
}

func.func @case_index_comes_later() -> i32 {
  %x = tfrt.constant.i32 5
  %i = "tfrt_test.async_constant.i32"() {value = 0 : i32} : () -> i32
  %0 = tfrt.case %i [@double, @square] (%x) : (i32) -> (i32)
  tfrt.return %0 : i32
}

func.func @case_fails() -> i32 {
  %i = "tfrt_test.fail"() : () -> i32 // expected-error {{something bad happened}}
  %x = tfrt.constant.i32 5
  %0 = tfrt.case %i [@double, @square] (%x) : (i32) -> (i32)
  tfrt.return %0 : i32
}
