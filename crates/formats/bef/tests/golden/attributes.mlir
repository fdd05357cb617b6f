// test: print
// Attributes of every kind, module and function attributes, names that need quotes.
module @named attributes {tfrt.cost_threshold = 10 : i64, unit, any = tensor<1xf32>} {
  func.func @"odd name"() attributes {tfrt.sync, tfrt.merge_inter_dependent_streams = true} {
    "int"() {a = 1 : i8, b = -1 : i16, c = 1 : i32, d = 1, e = 255 : ui8, f = 1 : ui16, g = 1 : ui32, h = 1 : ui64, i = true, j = 0xFF : i32, k = 1 : si32} : () -> ()
    "float"() {a = 1.0, b = 0.1 : f32, c = 1.0 : f16, d = 1.0 : bf16, e = 0x7F800000 : f32, f = 1.0e+30, g = -0.0} : () -> ()
    "text"() {a = "a\22\0A\C3\BC\\ \t", "odd key" = "", c = "x"} : () -> ()
    "type"() {a = i32, b = complex<f32>, c = !corert.string, d = bf16} : () -> ()
    "list"() {a = [], b = [1 : i32, 2 : i32], c = [true], d = [i32, f32], e = [1 : i32, [2 : i32, "s"]], f = ["a"]} : () -> ()
    "shape"() {a = #corert.shape<2x?x3>, b = #corert.shape<*>, c = #corert.shape<>} : () -> ()
    "dense"() {a = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>, b = dense<1.5> : tensor<4xf32>, c = dense<(1.0, 2.0)> : tensor<1xcomplex<f32>>, d = dense<> : tensor<0xi64>, e = dense<[true, false]> : tensor<2xi1>, f = dense<7> : tensor<i8>, g = dense<"0x0100"> : tensor<1xui16>} : () -> ()
    "function"() {callee = @"odd name", list = [@"odd name", @declared]} : () -> ()
    tfrt.return
  }
  func.func private @declared(i32) -> () attributes {tfrt.native}
  func.func private @hidden(%t: tensor<2x?xf32>, %f: (i32, f32) -> i1, %g: () -> (i32, i32), %m: memref<?x?xf32>, %n: none) -> (tensor<2x?xf32>, none) {
    tfrt.return %t, %n : tensor<2x?xf32>, none
  }
}
----
module @named attributes {any = tensor<1xf32>, tfrt.cost_threshold = 10, unit} {
  func.func @"odd name"() attributes {tfrt.merge_inter_dependent_streams = true, tfrt.sync} {
    "int"() {a = 1 : i8, b = -1 : i16, c = 1 : i32, d = 1, e = 255 : ui8, f = 1 : ui16, g = 1 : ui32, h = 1 : ui64, i = true, j = 255 : i32, k = 1 : i32} : () -> ()
    "float"() {a = 1.000000e+00, b = 1.000000e-01 : f32, c = 1.000000e+00 : f16, d = 1.000000e+00 : bf16, e = 0x7F800000 : f32, f = 1.000000e+30, g = -0.000000e+00} : () -> ()
    "text"() {a = "a\22\0A\C3\BC\\ \09", c = "x", "odd key" = ""} : () -> ()
    "type"() {a = i32, b = complex<f32>, c = !corert.string, d = bf16} : () -> ()
    "list"() {a = [], b = [1 : i32, 2 : i32], c = [true], d = [i32, f32], e = [1 : i32, [2 : i32, "s"]], f = ["a"]} : () -> ()
    "shape"() {a = #corert.shape<2x?x3>, b = #corert.shape<*>, c = #corert.shape<>} : () -> ()
    "dense"() {a = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>, b = dense<1.500000e+00> : tensor<4xf32>, c = dense<(1.000000e+00,2.000000e+00)> : tensor<1xcomplex<f32>>, d = dense<> : tensor<0xi64>, e = dense<[true, false]> : tensor<2xi1>, f = dense<7> : tensor<i8>, g = dense<1> : tensor<1xui16>} : () -> ()
    "function"() {callee = @"odd name", list = [@"odd name", @declared]} : () -> ()
    tfrt.return
  }
  func.func private @declared(i32) attributes {tfrt.native}
  func.func private @hidden(%arg0: tensor<2x?xf32>, %arg1: (i32, f32) -> i1, %arg2: () -> (i32, i32), %arg3: memref<?x?xf32>, %arg4: none) -> (tensor<2x?xf32>, none) {
    tfrt.return %arg0, %arg4 : tensor<2x?xf32>, none
  }
}
