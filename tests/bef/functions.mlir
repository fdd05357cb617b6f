// Which functions run, and in which order.
//
// $ tenon exec functions.mlir
// $ tenon exec --functions=second,first functions.mlir
// $ tenon exec -functions second functions.mlir
// $ tenon exec --test_init_function init functions.mlir
// $ tenon exec --test_init_function=init --functions=first functions.mlir
// $ tenon exec --test_init_function=nobody functions.mlir
// $ tenon exec --functions=nobody,first functions.mlir
// $ tenon exec --work_queue_type=nobody functions.mlir
// $ tenon exec --work_queue_type=mstd:4 --functions=first functions.mlir
// $ tenon exec --host_allocator_type=malloc --functions=first functions.mlir
// $ tenon exec --shared_libs=libnobody.so --functions=first functions.mlir
// $ tenon translate -mlir-to-bef functions.mlir | tenon exec --functions=first
// $ tenon exec --lite --functions=first functions.mlir
// $ tenon exec --code_size functions.mlir

func.func @first() -> i32 {
  %0 = tfrt.constant.i32 1
  tfrt.return %0 : i32
}

func.func @with_arguments(%x: i32) -> i32 {
  tfrt.return %x : i32
}

func.func @second() -> i32 {
  %0 = tfrt.constant.i32 2
  tfrt.return %0 : i32
}

func.func @init() {
  %c0 = tfrt.new.chain
  %0 = tfrt.constant.i32 0
  %c1 = tfrt.print.i32 %0, %c0
  tfrt.return
}

// Regions are functions without a name: those with arguments are told, the others are not.
func.func @regions() -> i32 {
  %t = tfrt.constant.i1 true
  %x = tfrt.constant.i32 7
  %0 = tfrt.if %t, %x : (i32) -> (i32) {
    tfrt.return %x : i32
  } else {
    tfrt.return %x : i32
  }
  %n = tfrt.constant.i32 1
  tfrt.repeat.i32 %n {
    tfrt.return
  }
  tfrt.return %0 : i32
}
