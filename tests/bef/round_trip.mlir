// Every custom form prints as it was read, also after a journey through the bytes.
//
// $ tenon opt round_trip.mlir
// $ tenon translate -mlir-to-bef round_trip.mlir | tenon translate -bef-to-mlir
// $ tenon translate -mlir-to-bef round_trip.mlir | tenon translate -bef-to-mlir --mlir-print-op-generic
// $ tenon translate -mlir-to-bef round_trip.mlir | tenon translate -bef-to-mlir | tenon translate -mlir-to-bef | tenon translate -bef-to-mlir

func.func @f(%x: i32, %y: i32) -> i32 {
  tfrt.return %x : i32
}

func.func @body(%x: i32, %y: i32) -> (i32, i32, i1) {
  %f = tfrt.constant.i1 false
  tfrt.return %x, %y, %f : i32, i32, i1
}

func.func @block(%s: i32, %e: i32, %x: i32) {
  tfrt.return
}

func.func @forms(%x: i32, %c: i1) -> (i32, !tfrt.chain) {
  %0 = tfrt.constant.i32 -7
  %ch = tfrt.new.chain
  %q, %r = tfrt.div.i32 %x, %0
  %1:2 = tfrt.div.i32 %q, %r
  %2 = tfrt.call @f(%1#0, %1#1) : (i32, i32) -> i32
  %3 = tfrt.once @f(%2, %x) : (i32, i32) -> (i32)
  %4 = tfrt.cond %c @f @f (%x, %3) : (i32, i32) -> (i32)
  %5 = tfrt.case %x [@f, @f] (%x, %4) : (i32, i32) -> (i32)
  %6:2 = tfrt.while %c @body(%x, %5) parallel_iterations(1) : (i32, i32) -> (i32, i32)
  %7 = tfrt.if %c, %x, %6#0 : (i32, i32) -> (i32) {
    %8 = tfrt.add.i32 %x, %6#0
    tfrt.return %8 : i32
  } else {
    tfrt.return %x : i32
  }
  %9:2 = tfrt.repeat.i32 %x, %7, %ch : i32, !tfrt.chain {
    tfrt.return %7, %ch : i32, !tfrt.chain
  }
  %10 = tfrt.parallel_for.i32 %x to %q fixed %r, %7 : i32 {
    tfrt.return
  }
  %11 = tfrt.parallel_call.i32 %x to %q fixed %r @block(%7) : i32
  %12 = tfrt_test.do.async %x : (i32) -> (i32) {
    tfrt.return %x : i32
  }
  %13 = tfrt_test.benchmark "b"(%x : i32) duration_secs = 1, max_count = 2, num_warmup_runs = 3 {
    tfrt.return %x : i32
  }
  %14 = tfrt.merge.chains %10, %11, %9#1, %13 : !tfrt.chain, !tfrt.chain, !tfrt.chain, !tfrt.chain
  tfrt.return %12, %14 : i32, !tfrt.chain
}
