// Attributes as kernels see them.
//
// $ tenon exec flat.mlir

func.func @flat() -> (!tfrt.string, i32, i32, f32) {
  %c0 = tfrt.new.chain
  %0:4 = "tfrt_test.flat"() {value = [["string", [1 : i32, 0 : i32]], [1.0 : f32]]} : () -> (!tfrt.string, i32, i32, f32)
  %c1 = "tfrt_test.print_string"(%0#0, %c0) : (!tfrt.string, !tfrt.chain) -> !tfrt.chain
  %1 = "tfrt.alias.value"(%c1, %0#1) : (!tfrt.chain, i32) -> i32
  tfrt.return %0#0, %1, %0#2, %0#3 : !tfrt.string, i32, i32, f32
}

func.func @dense() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %0 = "tfrt_test.const_dense_attr"() {value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>} : () -> !tfrt_tensor.tensor
  %c1 = tfrt_dht.print_tensor %0, %c0
  %1 = "tfrt_test.const_dense_attr"() {value = dense<0.5> : tensor<2xf32>} : () -> !tfrt_tensor.tensor
  %c2 = tfrt_dht.print_tensor %1, %c1
  tfrt.return %c2 : !tfrt.chain
}

// Kernels run in their order whatever their cost; the number is the kernel's own.
func.func @costs() -> i32 {
  %0 = tfrt.constant.i32 1
  %1 = tfrt_test.test_cost %0, %0 {id = 7 : i64, _tfrt_cost = 100 : i64} : i32, i32
  tfrt.return %1 : i32
}
