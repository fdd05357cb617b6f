// test: inline
// Small functions take the place of their calls, also inside of regions; recursive ones do not.
func.func private @leaf(%a: i32) -> (i32, i32) {
  %0 = tfrt.add.i32 %a, %a
  tfrt.return %0, %a : i32, i32
}
func.func private @middle(%a: i32, %c: i1) -> i32 {
  %0:2 = tfrt.call @leaf(%a) : (i32) -> (i32, i32)
  %1 = tfrt.if %c, %0#0 : (i32) -> (i32) {
    %2:2 = tfrt.call @leaf(%0#0) : (i32) -> (i32, i32)
    tfrt.return %2#1 : i32
  } else {
    tfrt.return %0#0 : i32
  }
  tfrt.return %1 : i32
}
func.func @recursive(%a: i32) -> i32 {
  %0 = tfrt.call @recursive(%a) : (i32) -> i32
  %1:2 = tfrt.call @leaf(%0) : (i32) -> (i32, i32)
  tfrt.return %1#0 : i32
}
func.func @sync(%a: i32) -> i32 attributes {tfrt.sync} {
  %0:2 = tfrt.call @leaf(%a) : (i32) -> (i32, i32)
  tfrt.return %0#0 : i32
}
func.func private @native(i32) -> i32 attributes {tfrt.native}
func.func private @kept(%a: i32) -> i32 { tfrt.return %a : i32 }
func.func @main(%a: i32, %c: i1) -> i32 {
  %0 = tfrt.call @middle(%a, %c) : (i32, i1) -> i32
  %1 = tfrt.call @recursive(%0) : (i32) -> i32
  %2 = tfrt.call @native(%1) : (i32) -> i32
  %3 = tfrt.once @kept(%2) : (i32) -> i32
  %4 = tfrt.call @kept(%3) : (i32) -> i32
  tfrt.return %4 : i32
}
----
func.func private @leaf(%arg0: i32) -> (i32, i32) {
  %0 = tfrt.add.i32 %arg0, %arg0
  tfrt.return %0, %arg0 : i32, i32
}
func.func @recursive(%arg0: i32) -> i32 {
  %0 = tfrt.call @recursive(%arg0) : (i32) -> i32
  %1 = tfrt.add.i32 %0, %0
  tfrt.return %1 : i32
}
func.func @sync(%arg0: i32) -> i32 attributes {tfrt.sync} {
  %0:2 = tfrt.call @leaf(%arg0) : (i32) -> (i32, i32)
  tfrt.return %0#0 : i32
}
func.func private @native(i32) -> i32 attributes {tfrt.native}
func.func private @kept(%arg0: i32) -> i32 {
  tfrt.return %arg0 : i32
}
func.func @main(%arg0: i32, %arg1: i1) -> i32 {
  %0 = tfrt.add.i32 %arg0, %arg0
  %1 = tfrt.if %arg1, %0 : (i32) -> (i32) {
    %1 = tfrt.add.i32 %0, %0
    tfrt.return %0 : i32
  } else {
    tfrt.return %0 : i32
  }
  %2 = tfrt.call @recursive(%1) : (i32) -> i32
  %3 = tfrt.call @native(%2) : (i32) -> i32
  %4 = tfrt.once @kept(%3) : (i32) -> i32
  tfrt.return %4 : i32
}
