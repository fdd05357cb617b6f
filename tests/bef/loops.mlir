// tfrt.repeat, tfrt.while and tfrt.once.
//
// $ tenon exec loops.mlir
// $ tenon exec --work_queue_type=mstd:4 loops.mlir

func.func @repeat() -> (i32, i32) {
  %n = tfrt.constant.i32 10
  %a = tfrt.constant.i32 0
  %b = tfrt.constant.i32 1
  // Fibonacci numbers 10 and 11.
  %r:2 = tfrt.repeat.i32 %n, %a, %b : i32, i32 {
    %s = tfrt.add.i32 %a, %b
    tfrt.return %b, %s : i32, i32
  }
  tfrt.return %r#0, %r#1 : i32, i32
}

func.func @repeat_zero_and_negative() -> (i32, i32) {
  %z = tfrt.constant.i32 0
  %n = tfrt.constant.i32 -5
  %a = tfrt.constant.i32 8
  %0 = tfrt.repeat.i32 %z, %a : i32 {
    %s = tfrt.add.i32 %a, %a
    tfrt.return %s : i32
  }
  %1 = tfrt.repeat.i32 %n, %a : i32 {
    %s = tfrt.add.i32 %a, %a
    tfrt.return %s : i32
  }
  tfrt.return %0, %1 : i32, i32
}

func.func @repeat_nothing_carried() {
  %n = tfrt.constant.i32 3
  tfrt.repeat.i32 %n {
    %c0 = tfrt.new.chain
    %c1 = "tfrt_test.print_hello"(%c0) : (!tfrt.chain) -> !tfrt.chain
    tfrt.return
  }
  tfrt.return
}

// More than one block of 32 iterations, each waiting for a value that comes later.
func.func @repeat_async() -> i32 {
  %n = tfrt.constant.i32 100
  %a = tfrt.constant.i32 0
  %0 = tfrt.repeat.i32 %n, %a : i32 {
    %one = tfrt.constant.i32 1
    %s = "tfrt_test.async_add.i32"(%a, %one) : (i32, i32) -> i32
    tfrt.return %s : i32
  }
  tfrt.return %0 : i32
}

func.func @repeat_fails() -> (i32, i32) {
  %n = tfrt.constant.i32 2
  %a = tfrt.constant.i32 1
  %b = tfrt.constant.i32 2
  %r:2 = tfrt.repeat.i32 %n, %a, %b : i32, i32 {
    %z = tfrt.constant.i32 0
    %q, %m = tfrt.div.i32 %a, %z // expected-error {{Divide by zero}}
    tfrt.return %q, %a : i32, i32
  }
  tfrt.return %r#0, %r#1 : i32, i32
}

func.func @count_down(%i: i32, %sum: i32) -> (i32, i32, i1) {
  %minus_one = tfrt.constant.i32 -1
  %zero = tfrt.constant.i32 0
  %next_sum = tfrt.add.i32 %sum, %i
  %next = tfrt.add.i32 %i, %minus_one
  %done = "tfrt.lessequal.i32"(%next, %zero) : (i32, i32) -> i1
  %f = tfrt.constant.i1 false
  %more = tfrt.if %done, %f : (i1) -> (i1) {
    tfrt.return %f : i1
  } else {
    %t = tfrt.constant.i1 true
    tfrt.return %t : i1
  }
  tfrt.return %next, %next_sum, %more : i32, i32, i1
}

// 1 + 2 + .. + 50 = 1275.
func.func @while() -> (i32, i32) {
  %t = tfrt.constant.i1 true
  %n = tfrt.constant.i32 50
  %z = tfrt.constant.i32 0
  %r:2 = tfrt.while %t @count_down(%n, %z) parallel_iterations(1) : (i32, i32) -> (i32, i32)
  tfrt.return %r#0, %r#1 : i32, i32
}

func.func @while_parallel() -> (i32, i32) {
  %t = tfrt.constant.i1 true
  %n = tfrt.constant.i32 50
  %z = tfrt.constant.i32 0
  %r:2 = tfrt.while %t @count_down(%n, %z) parallel_iterations(10) : (i32, i32) -> (i32, i32)
  tfrt.return %r#0, %r#1 : i32, i32
}

func.func @while_never() -> (i32, i32) {
  %f = tfrt.constant.i1 false
  %n = tfrt.constant.i32 50
  %z = tfrt.constant.i32 0
  %r:2 = tfrt.while %f @count_down(%n, %z) parallel_iterations(1) : (i32, i32) -> (i32, i32)
  tfrt.return %r#0, %r#1 : i32, i32
}

func.func @count_down_async(%i: i32) -> (i32, i1) {
  %minus_one = tfrt.constant.i32 -1
  %zero = tfrt.constant.i32 0
  %next = "tfrt_test.async_add.i32"(%i, %minus_one) : (i32, i32) -> i32
  %done = "tfrt.lessequal.i32"(%next, %zero) : (i32, i32) -> i1
  %f = tfrt.constant.i1 false
  %more = tfrt.if %done, %f : (i1) -> (i1) {
    tfrt.return %f : i1
  } else {
    %t = tfrt.constant.i1 true
    tfrt.return %t : i1
  }
  tfrt.return %next, %more : i32, i1
}

func.func @while_async() -> (i32, i32) {
  %t = tfrt.constant.i1 true
  %n = tfrt.constant.i32 100
  %0 = tfrt.while %t @count_down_async(%n) parallel_iterations(1) : (i32) -> (i32)
  %1 = tfrt.while %t @count_down_async(%n) parallel_iterations(4) : (i32) -> (i32)
  tfrt.return %0, %1 : i32, i32
}

func.func @condition_fails(%i: i32) -> (i32, i1) {
  %x = "tfrt_test.fail"() : () -> i32 // expected-error {{something bad happened}}
  %c = tfrt.equal.i32 %x, %i
  tfrt.return %i, %c : i32, i1
}

// An error in the condition becomes every result.
func.func @while_condition_fails() -> i32 {
  %t = tfrt.constant.i1 true
  %n = tfrt.constant.i32 3
  %0 = tfrt.while %t @condition_fails(%n) parallel_iterations(1) : (i32) -> (i32)
  tfrt.return %0 : i32
}

func.func @body_once(%x: i32) -> i32 {
  %c0 = tfrt.new.chain
  %c1 = tfrt.print.i32 %x, %c0
  %sum = tfrt.add.i32 %x, %x
  %0 = "tfrt.alias.value"(%c1, %sum) : (!tfrt.chain, i32) -> i32
  tfrt.return %0 : i32
}

// The function runs once an execution; everybody gets the first result.
func.func @once() -> (i32, i32) {
  %a = tfrt.constant.i32 21
  %0 = tfrt.once @body_once(%a) : (i32) -> (i32)
  %b = tfrt.add.i32 %0, %a
  %1 = tfrt.once @body_once(%b) : (i32) -> (i32)
  tfrt.return %0, %1 : i32, i32
}

// Another execution is another cache: prints again.
func.func @once_again() -> i32 {
  %a = tfrt.constant.i32 5
  %0 = tfrt.once @body_once(%a) : (i32) -> (i32)
  tfrt.return %0 : i32
}
