// Dense and string tensors of the host.
//
// $ tenon exec tensors.mlir

func.func @fill_and_set() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %t = tfrt_dht.create_uninitialized_tensor.i32.2 [3 : i64, 2 : i64]
  %c1 = tfrt_dht.fill_tensor_with_constant.i32 %t, %c0 4 : i32
  %c2 = tfrt_dht.print_tensor %t, %c1
  %c3 = tfrt_dht.set_tensor_with_constant_values.i32 %t, %c2 [1 : i32, 2 : i32, 3 : i32, 4 : i32, 5 : i32, 6 : i32]
  %c4 = tfrt_dht.print_tensor %t, %c3
  %a = tfrt.constant.i32 7
  %c5 = "tfrt_dht.set_tensor_with_values.i32"(%t, %c4, %a, %a, %a, %a, %a, %a) : (!tfrt_tensor.tensor, !tfrt.chain, i32, i32, i32, i32, i32, i32) -> !tfrt.chain
  %c6 = tfrt_dht.print_tensor %t, %c5
  %c7 = "tfrt_dht.print_tensor_shape"(%t, %c6) : (!tfrt_tensor.tensor, !tfrt.chain) -> !tfrt.chain
  tfrt.return %c7 : !tfrt.chain
}

// Sixteen values are printed, whatever there are.
func.func @many() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %t = tfrt_dht.create_uninitialized_tensor.f32.1 [17 : i64]
  %c1 = tfrt_dht.fill_tensor_with_constant.f32 %t, %c0 0.5 : f32
  %c2 = tfrt_dht.print_tensor %t, %c1
  tfrt.return %c2 : !tfrt.chain
}

func.func @compare() -> (i1, i1, i1, i1) {
  %c0 = tfrt.new.chain
  %a = tfrt_dht.create_uninitialized_tensor.f32.1 [2 : i64]
  %b = tfrt_dht.create_uninitialized_tensor.f32.1 [2 : i64]
  %c1 = tfrt_dht.fill_tensor_with_constant.f32 %a, %c0 1.0 : f32
  %c2 = tfrt_dht.fill_tensor_with_constant.f32 %b, %c1 1.0000001 : f32
  %0, %c3 = tfrt_dht.tensor_equal.f32 %a, %b, %c2
  %1, %c4 = tfrt_dht.tensor_equal.f32 %a, %a, %c3
  %2, %c5 = "tfrt_dht.tensor_allclose.f32"(%a, %b, %c4) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %c6 = tfrt_dht.fill_tensor_with_constant.f32 %b, %c5 1.5 : f32
  %3, %c7 = "tfrt_dht.tensor_allclose.f32"(%a, %b, %c6) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  tfrt.return %0, %1, %2, %3 : i1, i1, i1, i1
}

// The tensor, its buffer and a slice of it share their bytes.
func.func @buffers() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %t = tfrt_dht.create_uninitialized_tensor.i32.2 [3 : i64, 2 : i64]
  %c1 = tfrt_dht.set_tensor_with_constant_values.i32 %t, %c0 [1 : i32, 2 : i32, 3 : i32, 4 : i32, 5 : i32, 6 : i32]
  %buffer, %c2 = "tfrt_dht.get_buffer"(%t, %c1) : (!tfrt_tensor.tensor, !tfrt.chain) -> (!ht.host_buffer, !tfrt.chain)
  %c3 = "tfrt_dht.print_buffer"(%buffer, %c2) : (!ht.host_buffer, !tfrt.chain) -> !tfrt.chain
  %shape = ts.build_shape [2 : i64]
  %offset = tfrt.constant.i64 8
  %size = tfrt.constant.i64 8
  %slice = "tfrt_dht.get_buffer_slice"(%buffer, %offset, %size) : (!ht.host_buffer, i64, i64) -> !ht.host_buffer
  %part, %c4 = "tfrt_dht.make_tensor.i32"(%slice, %shape, %c3) : (!ht.host_buffer, !ts.shape, !tfrt.chain) -> (!tfrt_tensor.tensor, !tfrt.chain)
  %c5 = tfrt_dht.print_tensor %part, %c4
  %whole = "tfrt_dht.get_tensor_shape"(%t) : (!tfrt_tensor.tensor) -> !ts.shape
  %c6 = ts.print_shape %whole, %c5
  tfrt.return %c6 : !tfrt.chain
}

func.func @allocate() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %size = tfrt.constant.i64 24
  %alignment = tfrt.constant.i64 8
  %buffer = "tfrt_dht.allocate_buffer"(%size, %alignment) : (i64, i64) -> !ht.host_buffer
  %c1 = "tfrt_dht.print_buffer"(%buffer, %c0) : (!ht.host_buffer, !tfrt.chain) -> !tfrt.chain
  tfrt.return %c1 : !tfrt.chain
}

func.func @too_few_values() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %t = tfrt_dht.create_uninitialized_tensor.i32.1 [3 : i64]
  // expected-error @+1 {{Incorrect number of values for the tensor: 1, but expected 3}}
  %c1 = tfrt_dht.set_tensor_with_constant_values.i32 %t, %c0 [1 : i32]
  tfrt.return %c1 : !tfrt.chain
}

func.func @strings() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %t = "tfrt_sht.create_tensor"() {shape = [2], values = ["a", "b c"]} : () -> !tfrt_tensor.tensor
  %c1 = tfrt_dht.print_tensor %t, %c0
  tfrt.return %c1 : !tfrt.chain
}

func.func @strings_that_do_not_fit() -> !tfrt_tensor.tensor {
  // expected-error @+1 {{Shape mismatch}}
  %t = "tfrt_sht.create_tensor"() {shape = [3], values = ["a", "b"]} : () -> !tfrt_tensor.tensor
  tfrt.return %t : !tfrt_tensor.tensor
}
