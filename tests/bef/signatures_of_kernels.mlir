// Run by signatures.mlir.

func.func @operands(%a: i32, %b: f32) {
  %0 = "tfrt.minus.i32"(%a, %b) : (i32, f32) -> i32
  %1 = "tfrt.minus.i32"(%a) : (i32) -> i32
  tfrt.return
}

func.func @results(%a: i32) {
  "tfrt.minus.i32"(%a, %a) : (i32, i32) -> ()
  tfrt.return
}

func.func @attributes() {
  %0 = "tfrt_test.get_string"() {value = 1 : i32} : () -> !tfrt.string
  %1 = "tfrt_test.get_string"() : () -> !tfrt.string
  tfrt.return
}
