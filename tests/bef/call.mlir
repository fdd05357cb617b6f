// tfrt.call: a function as a kernel.
//
// $ tenon exec call.mlir
// $ tenon exec -functions=main call.mlir

func.func @square_and_double(%x: i32) -> (i32, i32) {
  %0 = tfrt.mul.i32 %x, %x
  %1 = tfrt.add.i32 %x, %x
  tfrt.return %0, %1 : i32, i32
}

func.func @hello() {
  %c0 = tfrt.new.chain
  %c1 = "tfrt_test.print_hello"(%c0) : (!tfrt.chain) -> !tfrt.chain
  tfrt.return
}

func.func @main() -> (i32, i32) {
  tfrt.call @hello() : () -> ()
  %0 = tfrt.constant.i32 7
  %1:2 = tfrt.call @square_and_double(%0) : (i32) -> (i32, i32)
  %2:2 = tfrt.call @square_and_double(%1#1) : (i32) -> (i32, i32)
  tfrt.return %2#0, %1#0 : i32, i32
}

func.func @argument_comes_back(%x: i32) -> i32 {
  tfrt.return %x : i32
}

func.func @pass_through() -> i32 {
  %0 = "tfrt_test.async_constant.i32"() {value = 9 : i32} : () -> i32
  %1 = tfrt.call @argument_comes_back(%0) : (i32) -> i32
  tfrt.return %1 : i32
}

// fibonacci(20) = 6765, by recursion.
func.func @fibonacci(%n: i32) -> i32 {
  %one = tfrt.constant.i32 1
  %small = "tfrt.lessequal.i32"(%n, %one) : (i32, i32) -> i1
  %r = tfrt.if %small, %n : (i32) -> (i32) {
    tfrt.return %n : i32
  } else {
    %minus_one = tfrt.constant.i32 -1
    %minus_two = tfrt.constant.i32 -2
    %n1 = tfrt.add.i32 %n, %minus_one
    %n2 = tfrt.add.i32 %n, %minus_two
    %a = tfrt.call @fibonacci(%n1) : (i32) -> i32
    %b = tfrt.call @fibonacci(%n2) : (i32) -> i32
    %s = tfrt.add.i32 %a, %b
    tfrt.return %s : i32
  }
  tfrt.return %r : i32
}

func.func @recursion() -> i32 {
  %n = tfrt.constant.i32 20
  %r = tfrt.call @fibonacci(%n) : (i32) -> i32
  tfrt.return %r : i32
}
