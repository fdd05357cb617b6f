// Sparse tensors of every element type and rank, there and back.
//
// $ tenon exec sparse_types.mlir

func.func @i32.0() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t = tfrt_dht.create_uninitialized_tensor.i32.0 []
  %c1 = tfrt_dht.fill_tensor_with_constant.i32 %t, %c 7 : i32
  %s, %c2 = coo.convert_dht_to_coo.i32.0 %t, %c1
  %c3 = tfrt_dht.print_tensor %s, %c2
  %d, %c4 = coo.convert_coo_to_dht.i32.0 %s, %c3
  %c5 = tfrt_dht.print_tensor %d, %c4
  %e, %c6 = coo.tensor_equal.i32.0 %s, %s, %c5
  %c7 = tfrt.print.i1 %e, %c6
  tfrt.return %c7 : !tfrt.chain
}

func.func @i32.1() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t = tfrt_dht.create_uninitialized_tensor.i32.1 [2 : i64]
  %c1 = tfrt_dht.fill_tensor_with_constant.i32 %t, %c 7 : i32
  %s, %c2 = coo.convert_dht_to_coo.i32.1 %t, %c1
  %c3 = tfrt_dht.print_tensor %s, %c2
  %d, %c4 = coo.convert_coo_to_dht.i32.1 %s, %c3
  %c5 = tfrt_dht.print_tensor %d, %c4
  %e, %c6 = coo.tensor_equal.i32.1 %s, %s, %c5
  %c7 = tfrt.print.i1 %e, %c6
  tfrt.return %c7 : !tfrt.chain
}

func.func @i32.2() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t = tfrt_dht.create_uninitialized_tensor.i32.2 [2 : i64, 1 : i64]
  %c1 = tfrt_dht.fill_tensor_with_constant.i32 %t, %c 7 : i32
  %s, %c2 = coo.convert_dht_to_coo.i32.2 %t, %c1
  %c3 = tfrt_dht.print_tensor %s, %c2
  %d, %c4 = coo.convert_coo_to_dht.i32.2 %s, %c3
  %c5 = tfrt_dht.print_tensor %d, %c4
  %e, %c6 = coo.tensor_equal.i32.2 %s, %s, %c5
  %c7 = tfrt.print.i1 %e, %c6
  tfrt.return %c7 : !tfrt.chain
}

func.func @i32.3() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t = tfrt_dht.create_uninitialized_tensor.i32.3 [2 : i64, 1 : i64, 1 : i64]
  %c1 = tfrt_dht.fill_tensor_with_constant.i32 %t, %c 7 : i32
  %s, %c2 = coo.convert_dht_to_coo.i32.3 %t, %c1
  %c3 = tfrt_dht.print_tensor %s, %c2
  %d, %c4 = coo.convert_coo_to_dht.i32.3 %s, %c3
  %c5 = tfrt_dht.print_tensor %d, %c4
  %e, %c6 = coo.tensor_equal.i32.3 %s, %s, %c5
  %c7 = tfrt.print.i1 %e, %c6
  tfrt.return %c7 : !tfrt.chain
}

func.func @f32.0() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t = tfrt_dht.create_uninitialized_tensor.f32.0 []
  %c1 = tfrt_dht.fill_tensor_with_constant.f32 %t, %c 0.5 : f32
  %s, %c2 = coo.convert_dht_to_coo.f32.0 %t, %c1
  %c3 = tfrt_dht.print_tensor %s, %c2
  %d, %c4 = coo.convert_coo_to_dht.f32.0 %s, %c3
  %c5 = tfrt_dht.print_tensor %d, %c4
  %e, %c6 = coo.tensor_equal.f32.0 %s, %s, %c5
  %c7 = tfrt.print.i1 %e, %c6
  tfrt.return %c7 : !tfrt.chain
}

func.func @f32.1() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t = tfrt_dht.create_uninitialized_tensor.f32.1 [2 : i64]
  %c1 = tfrt_dht.fill_tensor_with_constant.f32 %t, %c 0.5 : f32
  %s, %c2 = coo.convert_dht_to_coo.f32.1 %t, %c1
  %c3 = tfrt_dht.print_tensor %s, %c2
  %d, %c4 = coo.convert_coo_to_dht.f32.1 %s, %c3
  %c5 = tfrt_dht.print_tensor %d, %c4
  %e, %c6 = coo.tensor_equal.f32.1 %s, %s, %c5
  %c7 = tfrt.print.i1 %e, %c6
  tfrt.return %c7 : !tfrt.chain
}

func.func @f32.2() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t = tfrt_dht.create_uninitialized_tensor.f32.2 [2 : i64, 1 : i64]
  %c1 = tfrt_dht.fill_tensor_with_constant.f32 %t, %c 0.5 : f32
  %s, %c2 = coo.convert_dht_to_coo.f32.2 %t, %c1
  %c3 = tfrt_dht.print_tensor %s, %c2
  %d, %c4 = coo.convert_coo_to_dht.f32.2 %s, %c3
  %c5 = tfrt_dht.print_tensor %d, %c4
  %e, %c6 = coo.tensor_equal.f32.2 %s, %s, %c5
  %c7 = tfrt.print.i1 %e, %c6
  tfrt.return %c7 : !tfrt.chain
}

func.func @f32.3() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t = tfrt_dht.create_uninitialized_tensor.f32.3 [2 : i64, 1 : i64, 1 : i64]
  %c1 = tfrt_dht.fill_tensor_with_constant.f32 %t, %c 0.5 : f32
  %s, %c2 = coo.convert_dht_to_coo.f32.3 %t, %c1
  %c3 = tfrt_dht.print_tensor %s, %c2
  %d, %c4 = coo.convert_coo_to_dht.f32.3 %s, %c3
  %c5 = tfrt_dht.print_tensor %d, %c4
  %e, %c6 = coo.tensor_equal.f32.3 %s, %s, %c5
  %c7 = tfrt.print.i1 %e, %c6
  tfrt.return %c7 : !tfrt.chain
}
