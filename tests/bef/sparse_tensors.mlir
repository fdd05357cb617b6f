// Sparse tensors: a flat index is taken apart from the first dimension, as programs expect.
//
// $ tenon exec sparse_tensors.mlir

func.func @there_and_back() -> (i1, !tfrt.chain) {
  %c0 = tfrt.new.chain
  %t = tfrt_dht.create_uninitialized_tensor.i32.2 [3 : i64, 2 : i64]
  %c1 = tfrt_dht.set_tensor_with_constant_values.i32 %t, %c0 [1 : i32, 2 : i32, 3 : i32, 4 : i32, 5 : i32, 6 : i32]
  %s, %c2 = coo.convert_dht_to_coo.i32.2 %t, %c1
  %c3 = tfrt_dht.print_tensor %s, %c2
  %back, %c4 = coo.convert_coo_to_dht.i32.2 %s, %c3
  %c5 = tfrt_dht.print_tensor %back, %c4
  %same, %c6 = coo.tensor_equal.i32.2 %s, %s, %c5
  tfrt.return %same, %c6 : i1, !tfrt.chain
}

func.func @zeros_are_left_out() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %t = tfrt_dht.create_uninitialized_tensor.f32.1 [4 : i64]
  %c1 = tfrt_dht.set_tensor_with_constant_values.f32 %t, %c0 [0.0 : f32, 1.5 : f32, 0.0 : f32, -2.0 : f32]
  %s, %c2 = coo.convert_dht_to_coo.f32.1 %t, %c1
  %c3 = tfrt_dht.print_tensor %s, %c2
  %back, %c4 = coo.convert_coo_to_dht.f32.1 %s, %c3
  %c5 = tfrt_dht.print_tensor %back, %c4
  tfrt.return %c5 : !tfrt.chain
}
