// The allocators of --host_allocator_type. The fixed size one tells what it gives and takes: a
// tensor of 32 f32 is 64 + 128 bytes, one of 1024 is 64 + 4096 and does not fit into 1024.
//
// $ tenon exec --host_allocator_type=test_fixed_size_1k allocators.mlir
// $ tenon exec --host_allocator_type=leak_check_allocator --functions=fits allocators.mlir
// $ tenon exec --host_allocator_type=profiled_allocator --functions=fits allocators.mlir

func.func @fits() -> !tfrt_tensor.tensor {
  %0 = tfrt_dht.create_uninitialized_tensor.f32.1 [32 : i64]
  tfrt.return %0 : !tfrt_tensor.tensor
}

func.func @does_not_fit() -> !tfrt_tensor.tensor {
  %0 = tfrt_dht.create_uninitialized_tensor.f32.1 [1024 : i64] // expected-error {{Cannot allocate tensor}}
  tfrt.return %0 : !tfrt_tensor.tensor
}
