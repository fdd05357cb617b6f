// The library ts: shapes, shapes of fixed rank, and shapes that are partly known.
//
// $ tenon exec shapes.mlir

func.func @shapes() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %0 = ts.build_shape [1 : i64, 57 : i64, 92 : i64]
  %c1 = ts.print_shape %0, %c0
  %1 = ts.build_shape []
  %c2 = ts.print_shape %1, %c1
  tfrt.return %c2 : !tfrt.chain
}

func.func @compare() -> (i1, i1) {
  %0 = ts.build_shape [1 : i64, 57 : i64]
  %1 = ts.build_shape [1 : i64, 57 : i64]
  %2 = ts.build_shape [57 : i64, 1 : i64]
  %3 = ts.equal_shape %0, %1
  %4 = ts.equal_shape %0, %2
  tfrt.return %3, %4 : i1, i1
}

func.func @parts() -> (i64, i64, i64) {
  %0 = ts.build_shape [2 : i64, 3 : i64, 7 : i64]
  %1 = "ts.get_num_elements"(%0) : (!ts.shape) -> i64
  %2 = tfrt.constant.i32 0
  %3 = "ts.get_dimension"(%0, %2) : (!ts.shape, i32) -> i64
  %4 = tfrt.constant.i32 2
  %5 = "ts.get_dimension"(%0, %4) : (!ts.shape, i32) -> i64
  tfrt.return %1, %3, %5 : i64, i64, i64
}

func.func @fixed_rank() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %0 = ts.build_shape [5 : i64]
  %1 = ts.as_fixed_rank_shape.1 %0
  %c1 = ts.print_fixed_rank_shape.1 %1, %c0
  %2 = ts.build_shape [5 : i64, 6 : i64]
  %3 = ts.as_fixed_rank_shape.2 %2
  %c2 = ts.print_fixed_rank_shape.2 %3, %c1
  %4 = ts.build_shape [5 : i64, 6 : i64, 7 : i64]
  %5 = ts.as_fixed_rank_shape.3 %4
  %c3 = ts.print_fixed_rank_shape.3 %5, %c2
  tfrt.return %c3 : !tfrt.chain
}

func.func @partial() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %0 = ts.build_partial_shape [-1 : i64, 57 : i64]
  %c1 = ts.print_partial_shape %0, %c0
  %1 = ts.build_unranked_partial_shape
  %c2 = ts.print_partial_shape %1, %c1
  %2 = ts.build_shape [3 : i64]
  %3 = ts.to_partial_shape %2
  %c3 = ts.print_partial_shape %3, %c2
  tfrt.return %c3 : !tfrt.chain
}

func.func @to_shape() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %0 = ts.build_partial_shape [4 : i64, 57 : i64]
  %1 = ts.to_shape %0
  %c1 = ts.print_shape %1, %c0
  tfrt.return %c1 : !tfrt.chain
}

func.func @unknown_dimensions() -> !ts.shape {
  %0 = ts.build_partial_shape [-1 : i64, 57 : i64, -1 : i64]
  %1 = ts.to_shape %0 // expected-error {{Unknown dimensions at following indices = [0, 2]}}
  tfrt.return %1 : !ts.shape
}

func.func @unknown_rank() -> !ts.shape {
  %0 = ts.build_unranked_partial_shape
  %1 = ts.to_shape %0 // expected-error {{Unknown rank}}
  tfrt.return %1 : !ts.shape
}
