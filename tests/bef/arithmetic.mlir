// Integer add, mul and minus wrap; div truncates towards zero; a cast truncates as C does.
//
// $ tenon exec arithmetic.mlir

func.func @add() -> (i32, i64, f32, f64) {
  %0 = tfrt.constant.i32 2147483647
  %1 = tfrt.constant.i32 1
  %2 = tfrt.add.i32 %0, %1
  %3 = tfrt.constant.i64 40
  %4 = tfrt.constant.i64 2
  %5 = tfrt.add.i64 %3, %4
  %6 = tfrt.constant.f32 1.5
  %7 = tfrt.add.f32 %6, %6
  %8 = tfrt.constant.f64 0.25
  %9 = tfrt.add.f64 %8, %8
  tfrt.return %2, %5, %7, %9 : i32, i64, f32, f64
}

func.func @mul() -> (i32, i64) {
  %0 = tfrt.constant.i32 65536
  %1 = tfrt.mul.i32 %0, %0
  %2 = tfrt.constant.i64 65536
  %3 = tfrt.mul.i64 %2, %2
  tfrt.return %1, %3 : i32, i64
}

func.func @minus() -> (i32, i64) {
  %0 = tfrt.constant.i32 -2147483648
  %1 = tfrt.constant.i32 1
  %2 = "tfrt.minus.i32"(%0, %1) : (i32, i32) -> i32
  %3 = tfrt.constant.i64 40
  %4 = tfrt.constant.i64 42
  %5 = "tfrt.minus.i64"(%3, %4) : (i64, i64) -> i64
  tfrt.return %2, %5 : i32, i64
}

func.func @div() -> (i32, i32, i64, i64, f32, f64) {
  %0 = tfrt.constant.i32 -7
  %1 = tfrt.constant.i32 2
  %q, %r = tfrt.div.i32 %0, %1
  %2 = tfrt.constant.i64 7
  %3 = tfrt.constant.i64 -2
  %q64, %r64 = tfrt.div.i64 %2, %3
  %4 = tfrt.constant.f32 1.0
  %5 = tfrt.constant.f32 4.0
  %6 = "tfrt.div.f32"(%4, %5) : (f32, f32) -> f32
  %7 = tfrt.constant.f64 1.0
  %8 = tfrt.constant.f64 8.0
  %9 = "tfrt.div.f64"(%7, %8) : (f64, f64) -> f64
  tfrt.return %q, %r, %q64, %r64, %6, %9 : i32, i32, i64, i64, f32, f64
}

// The one quotient that does not fit wraps too.
func.func @div_overflow() -> (i32, i32) {
  %0 = tfrt.constant.i32 -2147483648
  %1 = tfrt.constant.i32 -1
  %q, %r = tfrt.div.i32 %0, %1
  tfrt.return %q, %r : i32, i32
}

func.func @float_kernels() -> (f32, f32, f64, f64) {
  %0 = tfrt.constant.f32 3.0
  %1 = tfrt.constant.f32 -2.0
  %2 = "tfrt.minimum.f32"(%0, %1) : (f32, f32) -> f32
  %3 = "tfrt.multiply.f32"(%0, %1) : (f32, f32) -> f32
  %4 = tfrt.constant.f64 3.0
  %5 = tfrt.constant.f64 -2.0
  %6 = "tfrt.minimum.f64"(%4, %5) : (f64, f64) -> f64
  %7 = "tfrt.multiply.f64"(%4, %5) : (f64, f64) -> f64
  tfrt.return %2, %3, %6, %7 : f32, f32, f64, f64
}

func.func @and() -> (i1, i1) {
  %0 = tfrt.constant.i1 true
  %1 = tfrt.constant.i1 false
  %2 = tfrt.and.i1 %0, %1
  %3 = tfrt.and.i1 %0, %0
  tfrt.return %2, %3 : i1, i1
}

func.func @compare() -> (i1, i1, i1, i1, i1, i1) {
  %0 = tfrt.constant.i32 -1
  %1 = tfrt.constant.i32 1
  %2 = tfrt.constant.i64 -1
  %3 = tfrt.constant.i64 1
  %4 = tfrt.equal.i32 %0, %1
  %5 = tfrt.equal.i32 %0, %0
  %6 = tfrt.equal.i64 %2, %3
  %7 = "tfrt.lessequal.i32"(%0, %1) : (i32, i32) -> i1
  %8 = "tfrt.lessequal.i32"(%1, %0) : (i32, i32) -> i1
  %9 = "tfrt.lessequal.i64"(%2, %2) : (i64, i64) -> i1
  tfrt.return %4, %5, %6, %7, %8, %9 : i1, i1, i1, i1, i1, i1
}

// A kernel takes one chain more than it declares.
func.func @trailing_chain() -> i1 {
  %c = tfrt.new.chain
  %0 = tfrt.constant.i32 5
  %1 = "tfrt.lessequal.i32"(%0, %0, %c) : (i32, i32, !tfrt.chain) -> i1
  tfrt.return %1 : i1
}

func.func @cast() -> (f32, i64, f64, i64) {
  %0 = tfrt.constant.i64 -3
  %1 = "tfrt.cast.i64_to_f32"(%0) : (i64) -> f32
  %2 = tfrt.constant.f32 -2.75
  %3 = "tfrt.cast.f32_to_i64"(%2) : (f32) -> i64
  %4 = "tfrt.cast.i64_to_f64"(%0) : (i64) -> f64
  %5 = tfrt.constant.f64 2.75
  %6 = "tfrt.cast.f64_to_i64"(%5) : (f64) -> i64
  tfrt.return %1, %3, %4, %6 : f32, i64, f64, i64
}
