// Memory of the host allocator that is alive at the end.
//
// $ tenon exec leak.mlir
// $ tenon exec --functions=clean leak.mlir
// $ tenon exec --host_allocator_type=malloc leak.mlir
// $ tenon exec --host_allocator_type=profiled_allocator --functions=clean leak.mlir

func.func @clean() -> i32 {
  %0 = tfrt.constant.i32 1
  tfrt.return %0 : i32
}

func.func @leak() {
  "tfrt_test.memory_leak_one_int32"() : () -> ()
  tfrt.return
}
