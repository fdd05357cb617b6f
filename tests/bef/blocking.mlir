// Work that may block goes to threads of its own.
//
// $ tenon exec --functions=blocking_usleep blocking.mlir
// $ tenon exec --functions=quiesce blocking.mlir
// $ tenon exec --functions=usleep blocking.mlir
// $ tenon exec --work_queue_type=mstd:4,8 --functions=blocking_usleep,usleep blocking.mlir

func.func @blocking_usleep() -> !tfrt.chain {
  %0 = tfrt.constant.i32 1000
  %c = "tfrt_test.blocking.usleep"(%0) : (i32) -> !tfrt.chain
  tfrt.return %c : !tfrt.chain
}

// Nothing waits for this one but the driver, before the next function.
func.func @usleep() {
  %0 = tfrt.constant.i32 2000
  "tfrt_test.usleep"(%0) : (i32) -> ()
  tfrt.return
}

// quiesce waits for everything that was enqueued.
func.func @quiesce() -> !tfrt.chain {
  %0 = tfrt.constant.i32 500
  %c = "tfrt_test.blocking.usleep"(%0) : (i32) -> !tfrt.chain
  %c1 = "tfrt_test.quiesce"(%c) : (!tfrt.chain) -> !tfrt.chain
  %c2 = "tfrt_test.print_hello"(%c1) : (!tfrt.chain) -> !tfrt.chain
  tfrt.return %c2 : !tfrt.chain
}
