// Constants of every type, and how the driver prints a returned value: i1, i32, i64, f32 and f64 as
// numbers, everything else as its type.
//
// $ tenon exec constants.mlir
// $ tenon translate -mlir-to-bef constants.mlir | tenon translate -bef-to-mlir

func.func @booleans() -> (i1, i1, i1, i1) {
  %0 = tfrt.constant.i1 true
  %1 = tfrt.constant.i1 false
  %2 = tfrt.constant.i1 1
  %3 = tfrt.constant.i1 0
  tfrt.return %0, %1, %2, %3 : i1, i1, i1, i1
}

func.func @integers() -> (i32, i32, i64, i64, ui32, ui64) {
  %0 = tfrt.constant.i32 2147483647
  %1 = tfrt.constant.i32 -2147483648
  %2 = tfrt.constant.i64 9223372036854775807
  %3 = tfrt.constant.i64 -9223372036854775808
  %4 = tfrt.constant.ui32 4294967295
  %5 = tfrt.constant.ui64 18446744073709551615
  tfrt.return %0, %1, %2, %3, %4, %5 : i32, i32, i64, i64, ui32, ui64
}

func.func @floats() -> (bf16, f16, f32, f32, f64, f64) {
  %0 = tfrt.constant.bf16 1.0
  %1 = tfrt.constant.f16 -2.0
  %2 = tfrt.constant.f32 1.0
  %3 = tfrt.constant.f32 -0.1
  %4 = tfrt.constant.f64 1.0e300
  %5 = tfrt.constant.f64 0.0
  tfrt.return %0, %1, %2, %3, %4, %5 : bf16, f16, f32, f32, f64, f64
}

func.func @complex() -> (complex<f32>, complex<f64>) {
  %0 = tfrt.constant.complex64 1.0 : f32, 2.0 : f32
  %1 = tfrt.constant.complex128 -1.5 : f64, 0.25 : f64
  tfrt.return %0, %1 : complex<f32>, complex<f64>
}

func.func @chain() -> !tfrt.chain {
  %0 = tfrt.new.chain
  tfrt.return %0 : !tfrt.chain
}

func.func @nothing() {
  tfrt.return
}
