// Functions of the host, called as functions of the program.
//
// $ tenon exec native.mlir
// $ tenon translate -mlir-to-bef native.mlir | tenon translate -bef-to-mlir

func.func private @native_sink() attributes {tfrt.native}
func.func private @native_async_sink() -> !tfrt.chain attributes {tfrt.native}
func.func private @native_add(%a: i32, %b: i32) -> i32 attributes {tfrt.native}
func.func private @native_async_add(%a: i32, %b: i32) -> i32 attributes {tfrt.native}
func.func private @native_error() -> i32 attributes {tfrt.native}

func.func @sinks() -> !tfrt.chain {
  tfrt.call @native_sink() : () -> ()
  %c = tfrt.call @native_async_sink() : () -> !tfrt.chain
  tfrt.return %c : !tfrt.chain
}

func.func @adds() -> (i32, i32, i32) {
  %0 = tfrt.constant.i32 1
  %1 = tfrt.constant.i32 2
  %2 = tfrt.call @native_add(%0, %1) : (i32, i32) -> i32
  %3 = tfrt.call @native_async_add(%2, %1) : (i32, i32) -> i32
  %4 = tfrt.call @native_add(%3, %3) : (i32, i32) -> i32
  tfrt.return %2, %3, %4 : i32, i32, i32
}

// An error of a native function is no diagnostic.
func.func @error() -> (i32, i32) {
  %0 = tfrt.call @native_error() : () -> i32
  %1 = tfrt.call @native_add(%0, %0) : (i32, i32) -> i32
  tfrt.return %0, %1 : i32, i32
}
