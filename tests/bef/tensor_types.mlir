// Tensors of every element type and rank, and what can be done with each.
//
// $ tenon exec tensor_types.mlir

func.func @ui8() -> !tfrt.chain {
  %z = tfrt.new.chain
  %none = tfrt_dht.create_uninitialized_tensor.ui8.1 [0 : i64]
  %c = "tfrt_dht.set_tensor_with_values.ui8"(%none, %z) : (!tfrt_tensor.tensor, !tfrt.chain) -> !tfrt.chain
  %t0 = tfrt_dht.create_uninitialized_tensor.ui8.0 []
  %f0 = tfrt_dht.fill_tensor_with_constant.ui8 %t0, %c 4 : ui8
  %p0 = tfrt_dht.print_tensor %t0, %f0
  %t1 = tfrt_dht.create_uninitialized_tensor.ui8.1 [2 : i64]
  %f1 = tfrt_dht.fill_tensor_with_constant.ui8 %t1, %p0 4 : ui8
  %p1 = tfrt_dht.print_tensor %t1, %f1
  %t2 = tfrt_dht.create_uninitialized_tensor.ui8.2 [1 : i64, 2 : i64]
  %f2 = tfrt_dht.fill_tensor_with_constant.ui8 %t2, %p1 4 : ui8
  %p2 = tfrt_dht.print_tensor %t2, %f2
  %t3 = tfrt_dht.create_uninitialized_tensor.ui8.3 [1 : i64, 1 : i64, 2 : i64]
  %f3 = tfrt_dht.fill_tensor_with_constant.ui8 %t3, %p2 4 : ui8
  %p3 = tfrt_dht.print_tensor %t3, %f3
  %t4 = tfrt_dht.create_uninitialized_tensor.ui8.4 [1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f4 = tfrt_dht.fill_tensor_with_constant.ui8 %t4, %p3 4 : ui8
  %p4 = tfrt_dht.print_tensor %t4, %f4
  %t5 = tfrt_dht.create_uninitialized_tensor.ui8.5 [1 : i64, 1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f5 = tfrt_dht.fill_tensor_with_constant.ui8 %t5, %p4 4 : ui8
  %p5 = tfrt_dht.print_tensor %t5, %f5
  %s = tfrt_dht.set_tensor_with_constant_values.ui8 %t1, %p5 [1 : ui8, 255 : ui8]
  %ps = tfrt_dht.print_tensor %t1, %s
  %b, %cb = "tfrt_dht.get_buffer"(%t1, %ps) : (!tfrt_tensor.tensor, !tfrt.chain) -> (!ht.host_buffer, !tfrt.chain)
  %sh = ts.build_shape [2 : i64, 1 : i64]
  %m, %cm = "tfrt_dht.make_tensor.ui8"(%b, %sh, %cb) : (!ht.host_buffer, !ts.shape, !tfrt.chain) -> (!tfrt_tensor.tensor, !tfrt.chain)
  %pm = tfrt_dht.print_tensor %m, %cm
  %e, %ce = tfrt_dht.tensor_equal.ui8 %t1, %t1, %pm
  %pe = tfrt.print.i1 %e, %ce
  %a0, %ca0 = "tfrt_dht.tensor_allclose.ui8"(%t1, %t2, %pe) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa0 = tfrt.print.i1 %a0, %ca0
  %a1, %ca1 = "tfrt_dht.tensor_allclose.3ulp.ui8"(%t1, %t1, %pa0) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa1 = tfrt.print.i1 %a1, %ca1
  %a2, %ca2 = "tfrt_dht.tensor_allclose.1000ulp.ui8"(%t1, %t1, %pa1) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa2 = tfrt.print.i1 %a2, %ca2
  %a3, %ca3 = "tfrt_dht.tensor_allclose.2000ulp.ui8"(%t1, %t1, %pa2) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa3 = tfrt.print.i1 %a3, %ca3
  %a4, %ca4 = "tfrt_dht.tensor_allclose.100000ulp.ui8"(%t1, %t1, %pa3) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa4 = tfrt.print.i1 %a4, %ca4
  tfrt.return %pa4 : !tfrt.chain
}

func.func @ui32() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t0 = tfrt_dht.create_uninitialized_tensor.ui32.0 []
  %f0 = tfrt_dht.fill_tensor_with_constant.ui32 %t0, %c 4 : ui32
  %p0 = tfrt_dht.print_tensor %t0, %f0
  %t1 = tfrt_dht.create_uninitialized_tensor.ui32.1 [2 : i64]
  %f1 = tfrt_dht.fill_tensor_with_constant.ui32 %t1, %p0 4 : ui32
  %p1 = tfrt_dht.print_tensor %t1, %f1
  %t2 = tfrt_dht.create_uninitialized_tensor.ui32.2 [1 : i64, 2 : i64]
  %f2 = tfrt_dht.fill_tensor_with_constant.ui32 %t2, %p1 4 : ui32
  %p2 = tfrt_dht.print_tensor %t2, %f2
  %t3 = tfrt_dht.create_uninitialized_tensor.ui32.3 [1 : i64, 1 : i64, 2 : i64]
  %f3 = tfrt_dht.fill_tensor_with_constant.ui32 %t3, %p2 4 : ui32
  %p3 = tfrt_dht.print_tensor %t3, %f3
  %t4 = tfrt_dht.create_uninitialized_tensor.ui32.4 [1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f4 = tfrt_dht.fill_tensor_with_constant.ui32 %t4, %p3 4 : ui32
  %p4 = tfrt_dht.print_tensor %t4, %f4
  %t5 = tfrt_dht.create_uninitialized_tensor.ui32.5 [1 : i64, 1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f5 = tfrt_dht.fill_tensor_with_constant.ui32 %t5, %p4 4 : ui32
  %p5 = tfrt_dht.print_tensor %t5, %f5
  %s = tfrt_dht.set_tensor_with_constant_values.ui32 %t1, %p5 [1 : ui32, 4294967295 : ui32]
  %ps = tfrt_dht.print_tensor %t1, %s
  %v = tfrt.constant.ui32 9
  %w = "tfrt_dht.set_tensor_with_values.ui32"(%t1, %ps, %v, %v) : (!tfrt_tensor.tensor, !tfrt.chain, ui32, ui32) -> !tfrt.chain
  %pw = tfrt_dht.print_tensor %t1, %w
  %b, %cb = "tfrt_dht.get_buffer"(%t1, %pw) : (!tfrt_tensor.tensor, !tfrt.chain) -> (!ht.host_buffer, !tfrt.chain)
  %sh = ts.build_shape [2 : i64, 1 : i64]
  %m, %cm = "tfrt_dht.make_tensor.ui32"(%b, %sh, %cb) : (!ht.host_buffer, !ts.shape, !tfrt.chain) -> (!tfrt_tensor.tensor, !tfrt.chain)
  %pm = tfrt_dht.print_tensor %m, %cm
  %e, %ce = tfrt_dht.tensor_equal.ui32 %t1, %t1, %pm
  %pe = tfrt.print.i1 %e, %ce
  %a0, %ca0 = "tfrt_dht.tensor_allclose.ui32"(%t1, %t2, %pe) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa0 = tfrt.print.i1 %a0, %ca0
  %a1, %ca1 = "tfrt_dht.tensor_allclose.3ulp.ui32"(%t1, %t1, %pa0) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa1 = tfrt.print.i1 %a1, %ca1
  %a2, %ca2 = "tfrt_dht.tensor_allclose.1000ulp.ui32"(%t1, %t1, %pa1) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa2 = tfrt.print.i1 %a2, %ca2
  %a3, %ca3 = "tfrt_dht.tensor_allclose.2000ulp.ui32"(%t1, %t1, %pa2) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa3 = tfrt.print.i1 %a3, %ca3
  %a4, %ca4 = "tfrt_dht.tensor_allclose.100000ulp.ui32"(%t1, %t1, %pa3) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa4 = tfrt.print.i1 %a4, %ca4
  tfrt.return %pa4 : !tfrt.chain
}

func.func @ui64() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t0 = tfrt_dht.create_uninitialized_tensor.ui64.0 []
  %f0 = tfrt_dht.fill_tensor_with_constant.ui64 %t0, %c 4 : ui64
  %p0 = tfrt_dht.print_tensor %t0, %f0
  %t1 = tfrt_dht.create_uninitialized_tensor.ui64.1 [2 : i64]
  %f1 = tfrt_dht.fill_tensor_with_constant.ui64 %t1, %p0 4 : ui64
  %p1 = tfrt_dht.print_tensor %t1, %f1
  %t2 = tfrt_dht.create_uninitialized_tensor.ui64.2 [1 : i64, 2 : i64]
  %f2 = tfrt_dht.fill_tensor_with_constant.ui64 %t2, %p1 4 : ui64
  %p2 = tfrt_dht.print_tensor %t2, %f2
  %t3 = tfrt_dht.create_uninitialized_tensor.ui64.3 [1 : i64, 1 : i64, 2 : i64]
  %f3 = tfrt_dht.fill_tensor_with_constant.ui64 %t3, %p2 4 : ui64
  %p3 = tfrt_dht.print_tensor %t3, %f3
  %t4 = tfrt_dht.create_uninitialized_tensor.ui64.4 [1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f4 = tfrt_dht.fill_tensor_with_constant.ui64 %t4, %p3 4 : ui64
  %p4 = tfrt_dht.print_tensor %t4, %f4
  %t5 = tfrt_dht.create_uninitialized_tensor.ui64.5 [1 : i64, 1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f5 = tfrt_dht.fill_tensor_with_constant.ui64 %t5, %p4 4 : ui64
  %p5 = tfrt_dht.print_tensor %t5, %f5
  %s = tfrt_dht.set_tensor_with_constant_values.ui64 %t1, %p5 [1 : ui64, 18446744073709551615 : ui64]
  %ps = tfrt_dht.print_tensor %t1, %s
  %v = tfrt.constant.ui64 9
  %w = "tfrt_dht.set_tensor_with_values.ui64"(%t1, %ps, %v, %v) : (!tfrt_tensor.tensor, !tfrt.chain, ui64, ui64) -> !tfrt.chain
  %pw = tfrt_dht.print_tensor %t1, %w
  %b, %cb = "tfrt_dht.get_buffer"(%t1, %pw) : (!tfrt_tensor.tensor, !tfrt.chain) -> (!ht.host_buffer, !tfrt.chain)
  %sh = ts.build_shape [2 : i64, 1 : i64]
  %m, %cm = "tfrt_dht.make_tensor.ui64"(%b, %sh, %cb) : (!ht.host_buffer, !ts.shape, !tfrt.chain) -> (!tfrt_tensor.tensor, !tfrt.chain)
  %pm = tfrt_dht.print_tensor %m, %cm
  %e, %ce = tfrt_dht.tensor_equal.ui64 %t1, %t1, %pm
  %pe = tfrt.print.i1 %e, %ce
  %a0, %ca0 = "tfrt_dht.tensor_allclose.ui64"(%t1, %t2, %pe) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa0 = tfrt.print.i1 %a0, %ca0
  %a1, %ca1 = "tfrt_dht.tensor_allclose.3ulp.ui64"(%t1, %t1, %pa0) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa1 = tfrt.print.i1 %a1, %ca1
  %a2, %ca2 = "tfrt_dht.tensor_allclose.1000ulp.ui64"(%t1, %t1, %pa1) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa2 = tfrt.print.i1 %a2, %ca2
  %a3, %ca3 = "tfrt_dht.tensor_allclose.2000ulp.ui64"(%t1, %t1, %pa2) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa3 = tfrt.print.i1 %a3, %ca3
  %a4, %ca4 = "tfrt_dht.tensor_allclose.100000ulp.ui64"(%t1, %t1, %pa3) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa4 = tfrt.print.i1 %a4, %ca4
  tfrt.return %pa4 : !tfrt.chain
}

func.func @i8() -> !tfrt.chain {
  %z = tfrt.new.chain
  %none = tfrt_dht.create_uninitialized_tensor.i8.1 [0 : i64]
  %c = "tfrt_dht.set_tensor_with_values.i8"(%none, %z) : (!tfrt_tensor.tensor, !tfrt.chain) -> !tfrt.chain
  %t0 = tfrt_dht.create_uninitialized_tensor.i8.0 []
  %f0 = tfrt_dht.fill_tensor_with_constant.i8 %t0, %c -4 : i8
  %p0 = tfrt_dht.print_tensor %t0, %f0
  %t1 = tfrt_dht.create_uninitialized_tensor.i8.1 [2 : i64]
  %f1 = tfrt_dht.fill_tensor_with_constant.i8 %t1, %p0 -4 : i8
  %p1 = tfrt_dht.print_tensor %t1, %f1
  %t2 = tfrt_dht.create_uninitialized_tensor.i8.2 [1 : i64, 2 : i64]
  %f2 = tfrt_dht.fill_tensor_with_constant.i8 %t2, %p1 -4 : i8
  %p2 = tfrt_dht.print_tensor %t2, %f2
  %t3 = tfrt_dht.create_uninitialized_tensor.i8.3 [1 : i64, 1 : i64, 2 : i64]
  %f3 = tfrt_dht.fill_tensor_with_constant.i8 %t3, %p2 -4 : i8
  %p3 = tfrt_dht.print_tensor %t3, %f3
  %t4 = tfrt_dht.create_uninitialized_tensor.i8.4 [1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f4 = tfrt_dht.fill_tensor_with_constant.i8 %t4, %p3 -4 : i8
  %p4 = tfrt_dht.print_tensor %t4, %f4
  %t5 = tfrt_dht.create_uninitialized_tensor.i8.5 [1 : i64, 1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f5 = tfrt_dht.fill_tensor_with_constant.i8 %t5, %p4 -4 : i8
  %p5 = tfrt_dht.print_tensor %t5, %f5
  %s = tfrt_dht.set_tensor_with_constant_values.i8 %t1, %p5 [1 : i8, -128 : i8]
  %ps = tfrt_dht.print_tensor %t1, %s
  %b, %cb = "tfrt_dht.get_buffer"(%t1, %ps) : (!tfrt_tensor.tensor, !tfrt.chain) -> (!ht.host_buffer, !tfrt.chain)
  %sh = ts.build_shape [2 : i64, 1 : i64]
  %m, %cm = "tfrt_dht.make_tensor.i8"(%b, %sh, %cb) : (!ht.host_buffer, !ts.shape, !tfrt.chain) -> (!tfrt_tensor.tensor, !tfrt.chain)
  %pm = tfrt_dht.print_tensor %m, %cm
  %e, %ce = tfrt_dht.tensor_equal.i8 %t1, %t1, %pm
  %pe = tfrt.print.i1 %e, %ce
  %a0, %ca0 = "tfrt_dht.tensor_allclose.i8"(%t1, %t2, %pe) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa0 = tfrt.print.i1 %a0, %ca0
  %a1, %ca1 = "tfrt_dht.tensor_allclose.3ulp.i8"(%t1, %t1, %pa0) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa1 = tfrt.print.i1 %a1, %ca1
  %a2, %ca2 = "tfrt_dht.tensor_allclose.1000ulp.i8"(%t1, %t1, %pa1) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa2 = tfrt.print.i1 %a2, %ca2
  %a3, %ca3 = "tfrt_dht.tensor_allclose.2000ulp.i8"(%t1, %t1, %pa2) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa3 = tfrt.print.i1 %a3, %ca3
  %a4, %ca4 = "tfrt_dht.tensor_allclose.100000ulp.i8"(%t1, %t1, %pa3) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa4 = tfrt.print.i1 %a4, %ca4
  tfrt.return %pa4 : !tfrt.chain
}

func.func @i32() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t0 = tfrt_dht.create_uninitialized_tensor.i32.0 []
  %f0 = tfrt_dht.fill_tensor_with_constant.i32 %t0, %c -4 : i32
  %p0 = tfrt_dht.print_tensor %t0, %f0
  %t1 = tfrt_dht.create_uninitialized_tensor.i32.1 [2 : i64]
  %f1 = tfrt_dht.fill_tensor_with_constant.i32 %t1, %p0 -4 : i32
  %p1 = tfrt_dht.print_tensor %t1, %f1
  %t2 = tfrt_dht.create_uninitialized_tensor.i32.2 [1 : i64, 2 : i64]
  %f2 = tfrt_dht.fill_tensor_with_constant.i32 %t2, %p1 -4 : i32
  %p2 = tfrt_dht.print_tensor %t2, %f2
  %t3 = tfrt_dht.create_uninitialized_tensor.i32.3 [1 : i64, 1 : i64, 2 : i64]
  %f3 = tfrt_dht.fill_tensor_with_constant.i32 %t3, %p2 -4 : i32
  %p3 = tfrt_dht.print_tensor %t3, %f3
  %t4 = tfrt_dht.create_uninitialized_tensor.i32.4 [1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f4 = tfrt_dht.fill_tensor_with_constant.i32 %t4, %p3 -4 : i32
  %p4 = tfrt_dht.print_tensor %t4, %f4
  %t5 = tfrt_dht.create_uninitialized_tensor.i32.5 [1 : i64, 1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f5 = tfrt_dht.fill_tensor_with_constant.i32 %t5, %p4 -4 : i32
  %p5 = tfrt_dht.print_tensor %t5, %f5
  %s = tfrt_dht.set_tensor_with_constant_values.i32 %t1, %p5 [1 : i32, -2147483648 : i32]
  %ps = tfrt_dht.print_tensor %t1, %s
  %v = tfrt.constant.i32 9
  %w = "tfrt_dht.set_tensor_with_values.i32"(%t1, %ps, %v, %v) : (!tfrt_tensor.tensor, !tfrt.chain, i32, i32) -> !tfrt.chain
  %pw = tfrt_dht.print_tensor %t1, %w
  %b, %cb = "tfrt_dht.get_buffer"(%t1, %pw) : (!tfrt_tensor.tensor, !tfrt.chain) -> (!ht.host_buffer, !tfrt.chain)
  %sh = ts.build_shape [2 : i64, 1 : i64]
  %m, %cm = "tfrt_dht.make_tensor.i32"(%b, %sh, %cb) : (!ht.host_buffer, !ts.shape, !tfrt.chain) -> (!tfrt_tensor.tensor, !tfrt.chain)
  %pm = tfrt_dht.print_tensor %m, %cm
  %e, %ce = tfrt_dht.tensor_equal.i32 %t1, %t1, %pm
  %pe = tfrt.print.i1 %e, %ce
  %a0, %ca0 = "tfrt_dht.tensor_allclose.i32"(%t1, %t2, %pe) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa0 = tfrt.print.i1 %a0, %ca0
  %a1, %ca1 = "tfrt_dht.tensor_allclose.3ulp.i32"(%t1, %t1, %pa0) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa1 = tfrt.print.i1 %a1, %ca1
  %a2, %ca2 = "tfrt_dht.tensor_allclose.1000ulp.i32"(%t1, %t1, %pa1) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa2 = tfrt.print.i1 %a2, %ca2
  %a3, %ca3 = "tfrt_dht.tensor_allclose.2000ulp.i32"(%t1, %t1, %pa2) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa3 = tfrt.print.i1 %a3, %ca3
  %a4, %ca4 = "tfrt_dht.tensor_allclose.100000ulp.i32"(%t1, %t1, %pa3) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa4 = tfrt.print.i1 %a4, %ca4
  tfrt.return %pa4 : !tfrt.chain
}

func.func @i64() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t0 = tfrt_dht.create_uninitialized_tensor.i64.0 []
  %f0 = tfrt_dht.fill_tensor_with_constant.i64 %t0, %c -4 : i64
  %p0 = tfrt_dht.print_tensor %t0, %f0
  %t1 = tfrt_dht.create_uninitialized_tensor.i64.1 [2 : i64]
  %f1 = tfrt_dht.fill_tensor_with_constant.i64 %t1, %p0 -4 : i64
  %p1 = tfrt_dht.print_tensor %t1, %f1
  %t2 = tfrt_dht.create_uninitialized_tensor.i64.2 [1 : i64, 2 : i64]
  %f2 = tfrt_dht.fill_tensor_with_constant.i64 %t2, %p1 -4 : i64
  %p2 = tfrt_dht.print_tensor %t2, %f2
  %t3 = tfrt_dht.create_uninitialized_tensor.i64.3 [1 : i64, 1 : i64, 2 : i64]
  %f3 = tfrt_dht.fill_tensor_with_constant.i64 %t3, %p2 -4 : i64
  %p3 = tfrt_dht.print_tensor %t3, %f3
  %t4 = tfrt_dht.create_uninitialized_tensor.i64.4 [1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f4 = tfrt_dht.fill_tensor_with_constant.i64 %t4, %p3 -4 : i64
  %p4 = tfrt_dht.print_tensor %t4, %f4
  %t5 = tfrt_dht.create_uninitialized_tensor.i64.5 [1 : i64, 1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f5 = tfrt_dht.fill_tensor_with_constant.i64 %t5, %p4 -4 : i64
  %p5 = tfrt_dht.print_tensor %t5, %f5
  %s = tfrt_dht.set_tensor_with_constant_values.i64 %t1, %p5 [1 : i64, -9223372036854775808 : i64]
  %ps = tfrt_dht.print_tensor %t1, %s
  %v = tfrt.constant.i64 9
  %w = "tfrt_dht.set_tensor_with_values.i64"(%t1, %ps, %v, %v) : (!tfrt_tensor.tensor, !tfrt.chain, i64, i64) -> !tfrt.chain
  %pw = tfrt_dht.print_tensor %t1, %w
  %b, %cb = "tfrt_dht.get_buffer"(%t1, %pw) : (!tfrt_tensor.tensor, !tfrt.chain) -> (!ht.host_buffer, !tfrt.chain)
  %sh = ts.build_shape [2 : i64, 1 : i64]
  %m, %cm = "tfrt_dht.make_tensor.i64"(%b, %sh, %cb) : (!ht.host_buffer, !ts.shape, !tfrt.chain) -> (!tfrt_tensor.tensor, !tfrt.chain)
  %pm = tfrt_dht.print_tensor %m, %cm
  %e, %ce = tfrt_dht.tensor_equal.i64 %t1, %t1, %pm
  %pe = tfrt.print.i1 %e, %ce
  %a0, %ca0 = "tfrt_dht.tensor_allclose.i64"(%t1, %t2, %pe) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa0 = tfrt.print.i1 %a0, %ca0
  %a1, %ca1 = "tfrt_dht.tensor_allclose.3ulp.i64"(%t1, %t1, %pa0) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa1 = tfrt.print.i1 %a1, %ca1
  %a2, %ca2 = "tfrt_dht.tensor_allclose.1000ulp.i64"(%t1, %t1, %pa1) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa2 = tfrt.print.i1 %a2, %ca2
  %a3, %ca3 = "tfrt_dht.tensor_allclose.2000ulp.i64"(%t1, %t1, %pa2) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa3 = tfrt.print.i1 %a3, %ca3
  %a4, %ca4 = "tfrt_dht.tensor_allclose.100000ulp.i64"(%t1, %t1, %pa3) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa4 = tfrt.print.i1 %a4, %ca4
  tfrt.return %pa4 : !tfrt.chain
}

func.func @f32() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t0 = tfrt_dht.create_uninitialized_tensor.f32.0 []
  %f0 = tfrt_dht.fill_tensor_with_constant.f32 %t0, %c 0.5 : f32
  %p0 = tfrt_dht.print_tensor %t0, %f0
  %t1 = tfrt_dht.create_uninitialized_tensor.f32.1 [2 : i64]
  %f1 = tfrt_dht.fill_tensor_with_constant.f32 %t1, %p0 0.5 : f32
  %p1 = tfrt_dht.print_tensor %t1, %f1
  %t2 = tfrt_dht.create_uninitialized_tensor.f32.2 [1 : i64, 2 : i64]
  %f2 = tfrt_dht.fill_tensor_with_constant.f32 %t2, %p1 0.5 : f32
  %p2 = tfrt_dht.print_tensor %t2, %f2
  %t3 = tfrt_dht.create_uninitialized_tensor.f32.3 [1 : i64, 1 : i64, 2 : i64]
  %f3 = tfrt_dht.fill_tensor_with_constant.f32 %t3, %p2 0.5 : f32
  %p3 = tfrt_dht.print_tensor %t3, %f3
  %t4 = tfrt_dht.create_uninitialized_tensor.f32.4 [1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f4 = tfrt_dht.fill_tensor_with_constant.f32 %t4, %p3 0.5 : f32
  %p4 = tfrt_dht.print_tensor %t4, %f4
  %t5 = tfrt_dht.create_uninitialized_tensor.f32.5 [1 : i64, 1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f5 = tfrt_dht.fill_tensor_with_constant.f32 %t5, %p4 0.5 : f32
  %p5 = tfrt_dht.print_tensor %t5, %f5
  %s = tfrt_dht.set_tensor_with_constant_values.f32 %t1, %p5 [1.0 : f32, -2.5 : f32]
  %ps = tfrt_dht.print_tensor %t1, %s
  %v = tfrt.constant.f32 9.0
  %w = "tfrt_dht.set_tensor_with_values.f32"(%t1, %ps, %v, %v) : (!tfrt_tensor.tensor, !tfrt.chain, f32, f32) -> !tfrt.chain
  %pw = tfrt_dht.print_tensor %t1, %w
  %b, %cb = "tfrt_dht.get_buffer"(%t1, %pw) : (!tfrt_tensor.tensor, !tfrt.chain) -> (!ht.host_buffer, !tfrt.chain)
  %sh = ts.build_shape [2 : i64, 1 : i64]
  %m, %cm = "tfrt_dht.make_tensor.f32"(%b, %sh, %cb) : (!ht.host_buffer, !ts.shape, !tfrt.chain) -> (!tfrt_tensor.tensor, !tfrt.chain)
  %pm = tfrt_dht.print_tensor %m, %cm
  %e, %ce = tfrt_dht.tensor_equal.f32 %t1, %t1, %pm
  %pe = tfrt.print.i1 %e, %ce
  %a0, %ca0 = "tfrt_dht.tensor_allclose.f32"(%t1, %t2, %pe) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa0 = tfrt.print.i1 %a0, %ca0
  %a1, %ca1 = "tfrt_dht.tensor_allclose.3ulp.f32"(%t1, %t1, %pa0) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa1 = tfrt.print.i1 %a1, %ca1
  %a2, %ca2 = "tfrt_dht.tensor_allclose.1000ulp.f32"(%t1, %t1, %pa1) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa2 = tfrt.print.i1 %a2, %ca2
  %a3, %ca3 = "tfrt_dht.tensor_allclose.2000ulp.f32"(%t1, %t1, %pa2) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa3 = tfrt.print.i1 %a3, %ca3
  %a4, %ca4 = "tfrt_dht.tensor_allclose.100000ulp.f32"(%t1, %t1, %pa3) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa4 = tfrt.print.i1 %a4, %ca4
  tfrt.return %pa4 : !tfrt.chain
}

func.func @f64() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t0 = tfrt_dht.create_uninitialized_tensor.f64.0 []
  %f0 = tfrt_dht.fill_tensor_with_constant.f64 %t0, %c -0.25 : f64
  %p0 = tfrt_dht.print_tensor %t0, %f0
  %t1 = tfrt_dht.create_uninitialized_tensor.f64.1 [2 : i64]
  %f1 = tfrt_dht.fill_tensor_with_constant.f64 %t1, %p0 -0.25 : f64
  %p1 = tfrt_dht.print_tensor %t1, %f1
  %t2 = tfrt_dht.create_uninitialized_tensor.f64.2 [1 : i64, 2 : i64]
  %f2 = tfrt_dht.fill_tensor_with_constant.f64 %t2, %p1 -0.25 : f64
  %p2 = tfrt_dht.print_tensor %t2, %f2
  %t3 = tfrt_dht.create_uninitialized_tensor.f64.3 [1 : i64, 1 : i64, 2 : i64]
  %f3 = tfrt_dht.fill_tensor_with_constant.f64 %t3, %p2 -0.25 : f64
  %p3 = tfrt_dht.print_tensor %t3, %f3
  %t4 = tfrt_dht.create_uninitialized_tensor.f64.4 [1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f4 = tfrt_dht.fill_tensor_with_constant.f64 %t4, %p3 -0.25 : f64
  %p4 = tfrt_dht.print_tensor %t4, %f4
  %t5 = tfrt_dht.create_uninitialized_tensor.f64.5 [1 : i64, 1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f5 = tfrt_dht.fill_tensor_with_constant.f64 %t5, %p4 -0.25 : f64
  %p5 = tfrt_dht.print_tensor %t5, %f5
  %s = tfrt_dht.set_tensor_with_constant_values.f64 %t1, %p5 [1.0 : f64, 1.0e300 : f64]
  %ps = tfrt_dht.print_tensor %t1, %s
  %v = tfrt.constant.f64 9.0
  %w = "tfrt_dht.set_tensor_with_values.f64"(%t1, %ps, %v, %v) : (!tfrt_tensor.tensor, !tfrt.chain, f64, f64) -> !tfrt.chain
  %pw = tfrt_dht.print_tensor %t1, %w
  %b, %cb = "tfrt_dht.get_buffer"(%t1, %pw) : (!tfrt_tensor.tensor, !tfrt.chain) -> (!ht.host_buffer, !tfrt.chain)
  %sh = ts.build_shape [2 : i64, 1 : i64]
  %m, %cm = "tfrt_dht.make_tensor.f64"(%b, %sh, %cb) : (!ht.host_buffer, !ts.shape, !tfrt.chain) -> (!tfrt_tensor.tensor, !tfrt.chain)
  %pm = tfrt_dht.print_tensor %m, %cm
  %e, %ce = tfrt_dht.tensor_equal.f64 %t1, %t1, %pm
  %pe = tfrt.print.i1 %e, %ce
  %a0, %ca0 = "tfrt_dht.tensor_allclose.f64"(%t1, %t2, %pe) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa0 = tfrt.print.i1 %a0, %ca0
  %a1, %ca1 = "tfrt_dht.tensor_allclose.3ulp.f64"(%t1, %t1, %pa0) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa1 = tfrt.print.i1 %a1, %ca1
  %a2, %ca2 = "tfrt_dht.tensor_allclose.1000ulp.f64"(%t1, %t1, %pa1) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa2 = tfrt.print.i1 %a2, %ca2
  %a3, %ca3 = "tfrt_dht.tensor_allclose.2000ulp.f64"(%t1, %t1, %pa2) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa3 = tfrt.print.i1 %a3, %ca3
  %a4, %ca4 = "tfrt_dht.tensor_allclose.100000ulp.f64"(%t1, %t1, %pa3) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa4 = tfrt.print.i1 %a4, %ca4
  tfrt.return %pa4 : !tfrt.chain
}

func.func @bool() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t0 = tfrt_dht.create_uninitialized_tensor.bool.0 []
  %f0 = tfrt_dht.fill_tensor_with_constant.bool %t0, %c true
  %p0 = tfrt_dht.print_tensor %t0, %f0
  %t1 = tfrt_dht.create_uninitialized_tensor.bool.1 [2 : i64]
  %f1 = tfrt_dht.fill_tensor_with_constant.bool %t1, %p0 true
  %p1 = tfrt_dht.print_tensor %t1, %f1
  %t2 = tfrt_dht.create_uninitialized_tensor.bool.2 [1 : i64, 2 : i64]
  %f2 = tfrt_dht.fill_tensor_with_constant.bool %t2, %p1 true
  %p2 = tfrt_dht.print_tensor %t2, %f2
  %t3 = tfrt_dht.create_uninitialized_tensor.bool.3 [1 : i64, 1 : i64, 2 : i64]
  %f3 = tfrt_dht.fill_tensor_with_constant.bool %t3, %p2 true
  %p3 = tfrt_dht.print_tensor %t3, %f3
  %t4 = tfrt_dht.create_uninitialized_tensor.bool.4 [1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f4 = tfrt_dht.fill_tensor_with_constant.bool %t4, %p3 true
  %p4 = tfrt_dht.print_tensor %t4, %f4
  %t5 = tfrt_dht.create_uninitialized_tensor.bool.5 [1 : i64, 1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f5 = tfrt_dht.fill_tensor_with_constant.bool %t5, %p4 true
  %p5 = tfrt_dht.print_tensor %t5, %f5
  %s = tfrt_dht.set_tensor_with_constant_values.bool %t1, %p5 [true, false]
  %ps = tfrt_dht.print_tensor %t1, %s
  %v = tfrt.constant.i1 true
  %w = "tfrt_dht.set_tensor_with_values.bool"(%t1, %ps, %v, %v) : (!tfrt_tensor.tensor, !tfrt.chain, i1, i1) -> !tfrt.chain
  %pw = tfrt_dht.print_tensor %t1, %w
  %b, %cb = "tfrt_dht.get_buffer"(%t1, %pw) : (!tfrt_tensor.tensor, !tfrt.chain) -> (!ht.host_buffer, !tfrt.chain)
  %sh = ts.build_shape [2 : i64, 1 : i64]
  %m, %cm = "tfrt_dht.make_tensor.bool"(%b, %sh, %cb) : (!ht.host_buffer, !ts.shape, !tfrt.chain) -> (!tfrt_tensor.tensor, !tfrt.chain)
  %pm = tfrt_dht.print_tensor %m, %cm
  %e, %ce = tfrt_dht.tensor_equal.bool %t1, %t1, %pm
  %pe = tfrt.print.i1 %e, %ce
  %a0, %ca0 = "tfrt_dht.tensor_allclose.bool"(%t1, %t2, %pe) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa0 = tfrt.print.i1 %a0, %ca0
  %a1, %ca1 = "tfrt_dht.tensor_allclose.3ulp.bool"(%t1, %t1, %pa0) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa1 = tfrt.print.i1 %a1, %ca1
  %a2, %ca2 = "tfrt_dht.tensor_allclose.1000ulp.bool"(%t1, %t1, %pa1) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa2 = tfrt.print.i1 %a2, %ca2
  %a3, %ca3 = "tfrt_dht.tensor_allclose.2000ulp.bool"(%t1, %t1, %pa2) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa3 = tfrt.print.i1 %a3, %ca3
  %a4, %ca4 = "tfrt_dht.tensor_allclose.100000ulp.bool"(%t1, %t1, %pa3) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa4 = tfrt.print.i1 %a4, %ca4
  tfrt.return %pa4 : !tfrt.chain
}

func.func @complex64() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t0 = tfrt_dht.create_uninitialized_tensor.complex64.0 []
  %f0 = tfrt_dht.fill_tensor_with_constant.complex64 %t0, %c [1.0 : f32, 2.0 : f32]
  %p0 = tfrt_dht.print_tensor %t0, %f0
  %t1 = tfrt_dht.create_uninitialized_tensor.complex64.1 [2 : i64]
  %f1 = tfrt_dht.fill_tensor_with_constant.complex64 %t1, %p0 [1.0 : f32, 2.0 : f32]
  %p1 = tfrt_dht.print_tensor %t1, %f1
  %t2 = tfrt_dht.create_uninitialized_tensor.complex64.2 [1 : i64, 2 : i64]
  %f2 = tfrt_dht.fill_tensor_with_constant.complex64 %t2, %p1 [1.0 : f32, 2.0 : f32]
  %p2 = tfrt_dht.print_tensor %t2, %f2
  %t3 = tfrt_dht.create_uninitialized_tensor.complex64.3 [1 : i64, 1 : i64, 2 : i64]
  %f3 = tfrt_dht.fill_tensor_with_constant.complex64 %t3, %p2 [1.0 : f32, 2.0 : f32]
  %p3 = tfrt_dht.print_tensor %t3, %f3
  %t4 = tfrt_dht.create_uninitialized_tensor.complex64.4 [1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f4 = tfrt_dht.fill_tensor_with_constant.complex64 %t4, %p3 [1.0 : f32, 2.0 : f32]
  %p4 = tfrt_dht.print_tensor %t4, %f4
  %t5 = tfrt_dht.create_uninitialized_tensor.complex64.5 [1 : i64, 1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f5 = tfrt_dht.fill_tensor_with_constant.complex64 %t5, %p4 [1.0 : f32, 2.0 : f32]
  %p5 = tfrt_dht.print_tensor %t5, %f5
  %s = tfrt_dht.set_tensor_with_constant_values.complex64 %t1, %p5 [1.0 : f32, 2.0 : f32, 3.0 : f32, -4.0 : f32]
  %ps = tfrt_dht.print_tensor %t1, %s
  %b, %cb = "tfrt_dht.get_buffer"(%t1, %ps) : (!tfrt_tensor.tensor, !tfrt.chain) -> (!ht.host_buffer, !tfrt.chain)
  %sh = ts.build_shape [2 : i64, 1 : i64]
  %m, %cm = "tfrt_dht.make_tensor.complex64"(%b, %sh, %cb) : (!ht.host_buffer, !ts.shape, !tfrt.chain) -> (!tfrt_tensor.tensor, !tfrt.chain)
  %pm = tfrt_dht.print_tensor %m, %cm
  %e, %ce = tfrt_dht.tensor_equal.complex64 %t1, %t1, %pm
  %pe = tfrt.print.i1 %e, %ce
  %a0, %ca0 = "tfrt_dht.tensor_allclose.complex64"(%t1, %t2, %pe) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa0 = tfrt.print.i1 %a0, %ca0
  %a1, %ca1 = "tfrt_dht.tensor_allclose.3ulp.complex64"(%t1, %t1, %pa0) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa1 = tfrt.print.i1 %a1, %ca1
  %a2, %ca2 = "tfrt_dht.tensor_allclose.1000ulp.complex64"(%t1, %t1, %pa1) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa2 = tfrt.print.i1 %a2, %ca2
  %a3, %ca3 = "tfrt_dht.tensor_allclose.2000ulp.complex64"(%t1, %t1, %pa2) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa3 = tfrt.print.i1 %a3, %ca3
  %a4, %ca4 = "tfrt_dht.tensor_allclose.100000ulp.complex64"(%t1, %t1, %pa3) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa4 = tfrt.print.i1 %a4, %ca4
  tfrt.return %pa4 : !tfrt.chain
}

func.func @complex128() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t0 = tfrt_dht.create_uninitialized_tensor.complex128.0 []
  %f0 = tfrt_dht.fill_tensor_with_constant.complex128 %t0, %c [1.0 : f64, 2.0 : f64]
  %p0 = tfrt_dht.print_tensor %t0, %f0
  %t1 = tfrt_dht.create_uninitialized_tensor.complex128.1 [2 : i64]
  %f1 = tfrt_dht.fill_tensor_with_constant.complex128 %t1, %p0 [1.0 : f64, 2.0 : f64]
  %p1 = tfrt_dht.print_tensor %t1, %f1
  %t2 = tfrt_dht.create_uninitialized_tensor.complex128.2 [1 : i64, 2 : i64]
  %f2 = tfrt_dht.fill_tensor_with_constant.complex128 %t2, %p1 [1.0 : f64, 2.0 : f64]
  %p2 = tfrt_dht.print_tensor %t2, %f2
  %t3 = tfrt_dht.create_uninitialized_tensor.complex128.3 [1 : i64, 1 : i64, 2 : i64]
  %f3 = tfrt_dht.fill_tensor_with_constant.complex128 %t3, %p2 [1.0 : f64, 2.0 : f64]
  %p3 = tfrt_dht.print_tensor %t3, %f3
  %t4 = tfrt_dht.create_uninitialized_tensor.complex128.4 [1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f4 = tfrt_dht.fill_tensor_with_constant.complex128 %t4, %p3 [1.0 : f64, 2.0 : f64]
  %p4 = tfrt_dht.print_tensor %t4, %f4
  %t5 = tfrt_dht.create_uninitialized_tensor.complex128.5 [1 : i64, 1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f5 = tfrt_dht.fill_tensor_with_constant.complex128 %t5, %p4 [1.0 : f64, 2.0 : f64]
  %p5 = tfrt_dht.print_tensor %t5, %f5
  %s = tfrt_dht.set_tensor_with_constant_values.complex128 %t1, %p5 [1.0 : f64, 2.0 : f64, 3.0 : f64, -4.0 : f64]
  %ps = tfrt_dht.print_tensor %t1, %s
  %b, %cb = "tfrt_dht.get_buffer"(%t1, %ps) : (!tfrt_tensor.tensor, !tfrt.chain) -> (!ht.host_buffer, !tfrt.chain)
  %sh = ts.build_shape [2 : i64, 1 : i64]
  %m, %cm = "tfrt_dht.make_tensor.complex128"(%b, %sh, %cb) : (!ht.host_buffer, !ts.shape, !tfrt.chain) -> (!tfrt_tensor.tensor, !tfrt.chain)
  %pm = tfrt_dht.print_tensor %m, %cm
  %e, %ce = tfrt_dht.tensor_equal.complex128 %t1, %t1, %pm
  %pe = tfrt.print.i1 %e, %ce
  %a0, %ca0 = "tfrt_dht.tensor_allclose.complex128"(%t1, %t2, %pe) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa0 = tfrt.print.i1 %a0, %ca0
  %a1, %ca1 = "tfrt_dht.tensor_allclose.3ulp.complex128"(%t1, %t1, %pa0) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa1 = tfrt.print.i1 %a1, %ca1
  %a2, %ca2 = "tfrt_dht.tensor_allclose.1000ulp.complex128"(%t1, %t1, %pa1) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa2 = tfrt.print.i1 %a2, %ca2
  %a3, %ca3 = "tfrt_dht.tensor_allclose.2000ulp.complex128"(%t1, %t1, %pa2) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa3 = tfrt.print.i1 %a3, %ca3
  %a4, %ca4 = "tfrt_dht.tensor_allclose.100000ulp.complex128"(%t1, %t1, %pa3) : (!tfrt_tensor.tensor, !tfrt_tensor.tensor, !tfrt.chain) -> (i1, !tfrt.chain)
  %pa4 = tfrt.print.i1 %a4, %ca4
  tfrt.return %pa4 : !tfrt.chain
}

func.func @f16() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t0 = tfrt_dht.create_uninitialized_tensor.f16.0 []
  %f0 = tfrt_dht.fill_tensor_with_constant.f16 %t0, %c 1.0 : f16
  %p0 = tfrt_dht.print_tensor %t0, %f0
  %t1 = tfrt_dht.create_uninitialized_tensor.f16.1 [2 : i64]
  %f1 = tfrt_dht.fill_tensor_with_constant.f16 %t1, %p0 1.0 : f16
  %p1 = tfrt_dht.print_tensor %t1, %f1
  %t2 = tfrt_dht.create_uninitialized_tensor.f16.2 [1 : i64, 2 : i64]
  %f2 = tfrt_dht.fill_tensor_with_constant.f16 %t2, %p1 1.0 : f16
  %p2 = tfrt_dht.print_tensor %t2, %f2
  %t3 = tfrt_dht.create_uninitialized_tensor.f16.3 [1 : i64, 1 : i64, 2 : i64]
  %f3 = tfrt_dht.fill_tensor_with_constant.f16 %t3, %p2 1.0 : f16
  %p3 = tfrt_dht.print_tensor %t3, %f3
  %t4 = tfrt_dht.create_uninitialized_tensor.f16.4 [1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f4 = tfrt_dht.fill_tensor_with_constant.f16 %t4, %p3 1.0 : f16
  %p4 = tfrt_dht.print_tensor %t4, %f4
  %t5 = tfrt_dht.create_uninitialized_tensor.f16.5 [1 : i64, 1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f5 = tfrt_dht.fill_tensor_with_constant.f16 %t5, %p4 1.0 : f16
  %p5 = tfrt_dht.print_tensor %t5, %f5
  %s = tfrt_dht.set_tensor_with_constant_values.f16 %t1, %p5 [1.0 : f16, -2.0 : f16]
  %ps = tfrt_dht.print_tensor %t1, %s
  %b, %cb = "tfrt_dht.get_buffer"(%t1, %ps) : (!tfrt_tensor.tensor, !tfrt.chain) -> (!ht.host_buffer, !tfrt.chain)
  %sh = ts.build_shape [2 : i64, 1 : i64]
  %m, %cm = "tfrt_dht.make_tensor.f16"(%b, %sh, %cb) : (!ht.host_buffer, !ts.shape, !tfrt.chain) -> (!tfrt_tensor.tensor, !tfrt.chain)
  %pm = tfrt_dht.print_tensor %m, %cm
  tfrt.return %pm : !tfrt.chain
}

func.func @bf16() -> !tfrt.chain {
  %c = tfrt.new.chain
  %t0 = tfrt_dht.create_uninitialized_tensor.bf16.0 []
  %f0 = tfrt_dht.fill_tensor_with_constant.bf16 %t0, %c 1.0 : bf16
  %p0 = tfrt_dht.print_tensor %t0, %f0
  %t1 = tfrt_dht.create_uninitialized_tensor.bf16.1 [2 : i64]
  %f1 = tfrt_dht.fill_tensor_with_constant.bf16 %t1, %p0 1.0 : bf16
  %p1 = tfrt_dht.print_tensor %t1, %f1
  %t2 = tfrt_dht.create_uninitialized_tensor.bf16.2 [1 : i64, 2 : i64]
  %f2 = tfrt_dht.fill_tensor_with_constant.bf16 %t2, %p1 1.0 : bf16
  %p2 = tfrt_dht.print_tensor %t2, %f2
  %t3 = tfrt_dht.create_uninitialized_tensor.bf16.3 [1 : i64, 1 : i64, 2 : i64]
  %f3 = tfrt_dht.fill_tensor_with_constant.bf16 %t3, %p2 1.0 : bf16
  %p3 = tfrt_dht.print_tensor %t3, %f3
  %t4 = tfrt_dht.create_uninitialized_tensor.bf16.4 [1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f4 = tfrt_dht.fill_tensor_with_constant.bf16 %t4, %p3 1.0 : bf16
  %p4 = tfrt_dht.print_tensor %t4, %f4
  %t5 = tfrt_dht.create_uninitialized_tensor.bf16.5 [1 : i64, 1 : i64, 1 : i64, 1 : i64, 2 : i64]
  %f5 = tfrt_dht.fill_tensor_with_constant.bf16 %t5, %p4 1.0 : bf16
  %p5 = tfrt_dht.print_tensor %t5, %f5
  %s = tfrt_dht.set_tensor_with_constant_values.bf16 %t1, %p5 [1.0 : bf16, -2.0 : bf16]
  %ps = tfrt_dht.print_tensor %t1, %s
  %b, %cb = "tfrt_dht.get_buffer"(%t1, %ps) : (!tfrt_tensor.tensor, !tfrt.chain) -> (!ht.host_buffer, !tfrt.chain)
  %sh = ts.build_shape [2 : i64, 1 : i64]
  %m, %cm = "tfrt_dht.make_tensor.bf16"(%b, %sh, %cb) : (!ht.host_buffer, !ts.shape, !tfrt.chain) -> (!tfrt_tensor.tensor, !tfrt.chain)
  %pm = tfrt_dht.print_tensor %m, %cm
  tfrt.return %pm : !tfrt.chain
}
