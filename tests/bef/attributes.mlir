// Every kind of attribute, through the bytes and back.
//
// $ tenon translate -mlir-to-bef attributes.mlir | tenon translate -bef-to-mlir
// $ tenon translate -mlir-to-bef attributes.mlir | tenon translate -bef-to-mlir --mlir-print-op-generic
// $ tenon translate -mlir-to-bef --disable-optional-sections attributes.mlir | tenon translate -bef-to-mlir

func.func @numbers() {
  "test.k"() {a = true, b = false} : () -> ()
  "test.k"() {a = 1 : i8, b = -1 : i16, c = 2147483647 : i32, d = -9223372036854775808 : i64, e = 7} : () -> ()
  "test.k"() {a = 255 : ui8, b = 65535 : ui16, c = 4294967295 : ui32, d = 18446744073709551615 : ui64} : () -> ()
  "test.k"() {a = 1.0 : f32, b = 0.1 : f32, c = 1.0, d = 0.1, e = 1.0 : f16, f = -3.0 : bf16} : () -> ()
  // Not a number, and infinity, by their bits.
  "test.k"() {a = 0x7FC00000 : f32, b = 0xFFF0000000000000 : f64, c = 0x7C00 : f16} : () -> ()
  tfrt.return
}

func.func @types() {
  "test.k"() {a = i1, b = i8, c = i16, d = i32, e = i64, f = ui8, g = ui16, h = ui32, i = ui64} : () -> ()
  "test.k"() {a = f16, b = bf16, c = f32, d = f64, e = complex<f32>, f = complex<f64>, g = !corert.string} : () -> ()
  "test.k"() {a = [i32, f32, i1]} : () -> ()
  tfrt.return
}

func.func @strings() {
  "test.k"() {a = "", b = "plain", c = "quote \" backslash \\ newline \n tab \t", d = "\01\C3\BC"} : () -> ()
  tfrt.return
}

func.func @arrays() {
  "test.k"() {a = [], b = [true, false], c = [1 : i8, 2 : i8], d = [1 : i16], e = [1 : i32, 2 : i32, 3 : i32], f = [1, 2]} : () -> ()
  "test.k"() {a = [1.0 : f16], b = [1.0 : bf16, 2.0 : bf16], c = [1.0 : f32], d = [1.0, 2.0]} : () -> ()
  tfrt.return
}

func.func @aggregates() {
  "test.k"() {a = ["one", "two"], b = [1 : i32, "s"], c = [[1 : i32, 2 : i32], [3 : i32]], d = [[], [[]]]} : () -> ()
  "test.k"() {a = [1 : i8, 2 : i64, [3.0 : f64, ["deep", [true]]], i32]} : () -> ()
  tfrt.return
}

func.func @shapes() {
  "test.k"() {a = #corert.shape<2x?x3>, b = #corert.shape<1>, c = #corert.shape<>, d = #corert.shape<*>} : () -> ()
  tfrt.return
}

func.func @dense() {
  "test.k"() {a = dense<1> : tensor<2x2xi32>, b = dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>, c = dense<1.5> : tensor<f32>} : () -> ()
  "test.k"() {a = dense<[true, false]> : tensor<2xi1>, b = dense<[1.0, 2.0]> : tensor<2xf64>, c = dense<> : tensor<0xi8>} : () -> ()
  "test.k"() {a = dense<[(1.0, 2.0), (3.0, 4.0)]> : tensor<2xcomplex<f32>>, b = dense<[1.0, -1.0]> : tensor<2xbf16>} : () -> ()
  tfrt.return
}

func.func @callee() {
  tfrt.return
}

func.func @functions() {
  "test.k"() {callee = @callee} : () -> ()
  "test.k"() {a_first = @callee, b_list = [@callee, @functions]} : () -> ()
  tfrt.return
}
