// The order of kernels that nothing but streams and queues decides: which kernel is taken when
// several are ready. A stream takes the kernel that became ready last, users are told in the
// reverse order of their standing, other streams are tasks in the order of their numbers.
//
// $ tenon exec order.mlir

// Each print is a stream of its own with the constant it prints: the last print is stream 1.
// Prints 3, 2, 1.
func.func @streams() {
  %c = tfrt.new.chain
  %1 = tfrt.constant.i32 1
  %2 = tfrt.constant.i32 2
  %3 = tfrt.constant.i32 3
  %c1 = tfrt.print.i32 %1, %c
  %c2 = tfrt.print.i32 %2, %c
  %c3 = tfrt.print.i32 %3, %c
  tfrt.return
}

// What is cheap beside the long line of sums shares one stream, which runs when that line is done.
// The constants run last to first, then the chain wakes its users last to first, and the first one
// is on top. Prints 1, 2, 3.
func.func @one_stream_chain_first() -> i32 {
  %c = tfrt.new.chain
  %1 = tfrt.constant.i32 1
  %2 = tfrt.constant.i32 2
  %3 = tfrt.constant.i32 3
  %c1 = tfrt.print.i32 %1, %c
  %c2 = tfrt.print.i32 %2, %c
  %c3 = tfrt.print.i32 %3, %c
  %l0 = tfrt.constant.i32 0
  %l1 = tfrt.add.i32 %l0, %l0
  %l2 = tfrt.add.i32 %l1, %l1
  %l3 = tfrt.add.i32 %l2, %l2
  %l4 = tfrt.add.i32 %l3, %l3
  %l5 = tfrt.add.i32 %l4, %l4
  %l6 = tfrt.add.i32 %l5, %l5
  %l7 = tfrt.add.i32 %l6, %l6
  %l8 = tfrt.add.i32 %l7, %l7
  %l9 = tfrt.add.i32 %l8, %l8
  tfrt.return %l9 : i32
}

// The chain is there first: each constant wakes its own print. Prints 3, 2, 1.
func.func @one_stream_chain_last() -> i32 {
  %1 = tfrt.constant.i32 1
  %2 = tfrt.constant.i32 2
  %3 = tfrt.constant.i32 3
  %c = tfrt.new.chain
  %c1 = tfrt.print.i32 %1, %c
  %c2 = tfrt.print.i32 %2, %c
  %c3 = tfrt.print.i32 %3, %c
  %l0 = tfrt.constant.i32 0
  %l1 = tfrt.add.i32 %l0, %l0
  %l2 = tfrt.add.i32 %l1, %l1
  %l3 = tfrt.add.i32 %l2, %l2
  %l4 = tfrt.add.i32 %l3, %l3
  %l5 = tfrt.add.i32 %l4, %l4
  %l6 = tfrt.add.i32 %l5, %l5
  %l7 = tfrt.add.i32 %l6, %l6
  %l8 = tfrt.add.i32 %l7, %l7
  %l9 = tfrt.add.i32 %l8, %l8
  tfrt.return %l9 : i32
}

// Nothing waits for the print, so it may come after the line of the result.
func.func @unchained() -> i32 {
  %c = tfrt.new.chain
  %1 = tfrt.constant.i32 1
  %2 = "tfrt_test.async_constant.i32"() {value = 2 : i32} : () -> i32
  %c2 = tfrt.print.i32 %2, %c
  tfrt.return %1 : i32
}
