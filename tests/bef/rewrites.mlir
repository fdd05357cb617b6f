// What opt does to a program.
//
// $ tenon opt -inline rewrites.mlir
// $ tenon opt -canonicalize rewrites.mlir

func.func @double(%x: i32) -> i32 {
  %0 = tfrt.add.i32 %x, %x
  tfrt.return %0 : i32
}

func.func @main() -> i32 {
  %0 = tfrt.constant.i32 4
  %1 = tfrt.call @double(%0) : (i32) -> i32
  %2 = tfrt.call @double(%1) : (i32) -> i32
  tfrt.return %2 : i32
}

// The chain is merged with itself alone.
func.func @merge(%c: !tfrt.chain) -> !tfrt.chain {
  %0 = tfrt.merge.chains %c : !tfrt.chain
  tfrt.return %0 : !tfrt.chain
}
