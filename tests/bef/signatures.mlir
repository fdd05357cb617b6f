// A kernel with wrong operands, results or attributes is an error when the file is read, or, if the
// text does not know the kernel, when it is loaded.
//
// $ tenon exec signatures.mlir
// $ tenon exec signatures_of_kernels.mlir

func.func @operands(%a: i32, %b: f32) {
  %0 = "tfrt.add.i32"(%a, %b) : (i32, f32) -> i32
  %1 = "tfrt.add.i32"(%a) : (i32) -> i32
  tfrt.return
}

func.func @results() {
  "tfrt.constant.i32"() {value = 1 : i32} : () -> ()
  tfrt.return
}

func.func @attributes() {
  %0 = "tfrt.constant.i32"() {value = "one"} : () -> i32
  %1 = "tfrt.constant.i32"() : () -> i32
  tfrt.return
}
