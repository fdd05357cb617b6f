// What the print kernels write; chains keep them in order.
//
// $ tenon exec printing.mlir

func.func @numbers() {
  %c0 = tfrt.new.chain
  %0 = tfrt.constant.i1 true
  %c1 = tfrt.print.i1 %0, %c0
  %1 = tfrt.constant.i1 false
  %c2 = tfrt.print.i1 %1, %c1
  %2 = tfrt.constant.i32 -42
  %c3 = tfrt.print.i32 %2, %c2
  %3 = tfrt.constant.i64 9223372036854775807
  %c4 = tfrt.print.i64 %3, %c3
  %4 = tfrt.constant.f32 0.5
  %c5 = tfrt.print.f32 %4, %c4
  %5 = tfrt.constant.f64 -1.0e10
  %c6 = tfrt.print.f64 %5, %c5
  // 1.0 in binary16 is 0x3c00.
  %6 = tfrt.constant.f16 1.0
  %c7 = "tfrt.print.f16"(%6, %c6) : (f16, !tfrt.chain) -> !tfrt.chain
  %7 = tfrt.constant.complex64 1.0 : f32, 2.0 : f32
  %c8 = "tfrt.print.complex64"(%7, %c7) : (complex<f32>, !tfrt.chain) -> !tfrt.chain
  %8 = tfrt.constant.complex128 -1.5 : f64, 0.25 : f64
  %c9 = "tfrt.print.complex128"(%8, %c8) : (complex<f64>, !tfrt.chain) -> !tfrt.chain
  tfrt.return
}

func.func @booleans() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %0 = tfrt.constant.i1 true
  %c1 = "tfrt_test.print_bool"(%c0, %0) : (!tfrt.chain, i1) -> !tfrt.chain
  %1 = tfrt.constant.i1 false
  %c2 = "tfrt_test.print_bool"(%c1, %1) : (!tfrt.chain, i1) -> !tfrt.chain
  tfrt.return %c2 : !tfrt.chain
}

func.func @hello() {
  %c0 = tfrt.new.chain
  %c1 = "tfrt_test.print_hello"(%c0) : (!tfrt.chain) -> !tfrt.chain
  tfrt.return
}

func.func @strings() -> !tfrt.string {
  %c0 = tfrt.new.chain
  %0 = "tfrt_test.get_string"() {value = "half"} : () -> !tfrt.string
  %1 = "tfrt_test.get_string"() {value = " and half"} : () -> !tfrt.string
  %2 = "tfrt_test.append_string"(%0, %1) : (!tfrt.string, !tfrt.string) -> !tfrt.string
  %c1 = "tfrt_test.print_string"(%2, %c0) : (!tfrt.string, !tfrt.chain) -> !tfrt.chain
  tfrt.return %2 : !tfrt.string
}

func.func @empty_string() {
  %c0 = tfrt.new.chain
  %0 = "tfrt_test.get_string"() {value = ""} : () -> !tfrt.string
  %c1 = "tfrt_test.print_string"(%0, %c0) : (!tfrt.string, !tfrt.chain) -> !tfrt.chain
  tfrt.return
}

func.func @coordinate() {
  %c0 = tfrt.new.chain
  %0 = tfrt.constant.i32 2
  %1 = tfrt.constant.i32 -4
  %2 = "tfrt_tutorial.create_coordinate"(%0, %1) : (i32, i32) -> !my.coordinate
  %c1 = "tfrt_tutorial.print_coordinate"(%2, %c0) : (!my.coordinate, !tfrt.chain) -> !tfrt.chain
  tfrt.return
}
