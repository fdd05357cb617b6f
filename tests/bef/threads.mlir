// Threads are numbered as they are first asked; one thread is always 0.
//
// $ tenon exec threads.mlir

func.func @ids() -> (i32, i32) {
  %c0 = tfrt.new.chain
  %0 = "tfrt_test.get_thread_id"(%c0) : (!tfrt.chain) -> i32
  %1 = tfrt_test.do.async %c0 : (!tfrt.chain) -> (i32) {
    %2 = "tfrt_test.get_thread_id"(%c0) : (!tfrt.chain) -> i32
    tfrt.return %2 : i32
  }
  tfrt.return %0, %1 : i32, i32
}
