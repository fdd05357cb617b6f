// Which stream each kernel gets, from the costs of what depends on it.
//
// $ tenon opt -tfrt-print-stream streams.mlir
// $ tenon opt -tfrt-print-stream -split-input-file -verify-diagnostics streams_expected.mlir

func.func @straight(%x: i32) -> i32 {
  %0 = tfrt.add.i32 %x, %x
  %1 = tfrt.add.i32 %0, %0
  tfrt.return %1 : i32
}

// With a threshold of 2, branches of cost 2 are streams of their own.
func.func @fork(%x: i32) -> i32 attributes {tfrt.cost_threshold = 2 : i64} {
  %0 = tfrt.add.i32 %x, %x
  %1 = tfrt.mul.i32 %x, %x
  %2 = tfrt.add.i32 %0, %1
  tfrt.return %2 : i32
}

// Costs of the kernels themselves.
func.func @costs(%x: i32) -> (i32, i32) attributes {tfrt.cost_threshold = 10 : i64} {
  %0 = tfrt_test.test_cost %x, %x {id = 0 : i64, _tfrt_cost = 10 : i64} : i32, i32
  %1 = tfrt_test.test_cost %x, %x {id = 1 : i64, _tfrt_cost = 5 : i64} : i32, i32
  tfrt.return %0, %1 : i32, i32
}

func.func @region(%x: i32, %c: i1) -> i32 {
  %0 = tfrt.if %c, %x : (i32) -> (i32) {
    %1 = tfrt.add.i32 %x, %x
    tfrt.return %1 : i32
  } else {
    tfrt.return %x : i32
  }
  tfrt.return %0 : i32
}
