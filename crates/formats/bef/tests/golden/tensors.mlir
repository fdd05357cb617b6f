// test: print
// Shapes and host tensors.
func.func @shapes() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %a = ts.build_shape [1 : i64, 57 : i64, 92 : i64]
  %b = ts.build_shape []
  %c1 = ts.print_shape %a, %c0
  %c = ts.equal_shape %a, %b
  %n = ts.get_num_elements %a
  %one = tfrt.constant.i32 1
  %d = ts.get_dimension %a, %one
  %f = ts.as_fixed_rank_shape.3 %a
  %c2 = ts.print_fixed_rank_shape.3 %f, %c1
  %p = ts.build_partial_shape [-1 : i64, 57 : i64]
  %u = ts.build_unranked_partial_shape
  %c3 = ts.print_partial_shape %u, %c2
  %s = ts.to_shape %p
  %q = ts.to_partial_shape %s
  tfrt.return %c3 : !tfrt.chain
}
func.func @tensors() -> i1 {
  %c0 = tfrt.new.chain
  %a = tfrt_dht.create_uninitialized_tensor.i32.2 [3 : i64, 2 : i64]
  %c1 = tfrt_dht.fill_tensor_with_constant.i32 %a, %c0 1 : i32
  %b = tfrt_dht.create_uninitialized_tensor.f32.1 [2 : i64]
  %c2 = tfrt_dht.set_tensor_with_constant_values.f32 %b, %c1 [1.5 : f32, -2.0 : f32]
  %c3 = tfrt_dht.fill_tensor_with_constant.bool %a, %c2 true
  %c4 = tfrt_dht.print_tensor %a, %c3
  %e, %c5 = tfrt_dht.tensor_equal.i32 %a, %a, %c4
  %s, %c6 = coo.convert_dht_to_coo.i32.2 %a, %c5
  %d:2 = coo.convert_coo_to_dht.i32.2 %s, %c6
  %f:2 = coo.tensor_equal.i32.2 %s, %s, %d#1
  %t = "tfrt_sht.create_tensor"() {shape = [2], values = ["a", "b"]} : () -> !tfrt_tensor.tensor
  tfrt.return %e : i1
}
----
func.func @shapes() -> !tfrt.chain {
  %0 = tfrt.new.chain
  %1 = ts.build_shape [1, 57, 92]
  %2 = ts.build_shape []
  %3 = ts.print_shape %1, %0
  %4 = ts.equal_shape %1, %2
  %5 = ts.get_num_elements %1
  %6 = tfrt.constant.i32 1
  %7 = ts.get_dimension %1, %6
  %8 = ts.as_fixed_rank_shape.3 %1
  %9 = ts.print_fixed_rank_shape.3 %8, %3
  %10 = ts.build_partial_shape [-1, 57]
  %11 = ts.build_unranked_partial_shape
  %12 = ts.print_partial_shape %11, %9
  %13 = ts.to_shape %10
  %14 = ts.to_partial_shape %13
  tfrt.return %12 : !tfrt.chain
}
func.func @tensors() -> i1 {
  %0 = tfrt.new.chain
  %1 = tfrt_dht.create_uninitialized_tensor.i32.2 [3, 2]
  %2 = tfrt_dht.fill_tensor_with_constant.i32 %1, %0 1 : i32
  %3 = tfrt_dht.create_uninitialized_tensor.f32.1 [2]
  %4 = tfrt_dht.set_tensor_with_constant_values.f32 %3, %2 [1.500000e+00 : f32, -2.000000e+00 : f32]
  %5 = tfrt_dht.fill_tensor_with_constant.bool %1, %4 true
  %6 = tfrt_dht.print_tensor %1, %5
  %7:2 = tfrt_dht.tensor_equal.i32 %1, %1, %6
  %8:2 = coo.convert_dht_to_coo.i32.2 %1, %7#1
  %9:2 = coo.convert_coo_to_dht.i32.2 %8#0, %8#1
  %10:2 = coo.tensor_equal.i32.2 %8#0, %8#0, %9#1
  %11 = "tfrt_sht.create_tensor"() {shape = [2], values = ["a", "b"]} : () -> !tfrt_tensor.tensor
  tfrt.return %7#0 : i1
}
