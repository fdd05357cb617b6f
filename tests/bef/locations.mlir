// Every form of location, through the bytes and back, and the name that a kernel sees of it.
//
// $ tenon exec locations.mlir
// $ tenon translate -mlir-to-bef locations.mlir | tenon translate -bef-to-mlir -mlir-print-debuginfo

func.func @names() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %c1 = "tfrt_test.print_debug_info"(%c0) : (!tfrt.chain) -> !tfrt.chain loc("a name")
  %c2 = "tfrt_test.print_debug_info"(%c1) : (!tfrt.chain) -> !tfrt.chain loc("f.py":42:314)
  %c3 = "tfrt_test.print_debug_info"(%c2) : (!tfrt.chain) -> !tfrt.chain loc(unknown)
  %c4 = "tfrt_test.print_debug_info"(%c3) : (!tfrt.chain) -> !tfrt.chain loc(fused["foo", "bar"])
  %c5 = "tfrt_test.print_debug_info"(%c4) : (!tfrt.chain) -> !tfrt.chain loc(fused["foo.py":42:314, "bar"])
  %c6 = "tfrt_test.print_debug_info"(%c5) : (!tfrt.chain) -> !tfrt.chain loc(callsite("foo" at "bar.py":42:314))
  %c7 = "tfrt_test.print_debug_info"(%c6) : (!tfrt.chain) -> !tfrt.chain loc(callsite("f.py":1:2 at "bar"))
  %c8 = "tfrt_test.print_debug_info"(%c7) : (!tfrt.chain) -> !tfrt.chain loc(#loc0)
  %c9 = "tfrt_test.print_debug_info"(%c8) : (!tfrt.chain) -> !tfrt.chain
  tfrt.return %c9 : !tfrt.chain
}

// Each kernel has a location of its own, unknown ones too.
func.func @unique() -> (!tfrt.chain, !tfrt.chain) {
  %c0 = "tfrt_test.unique_loc"() {name = "one"} : () -> !tfrt.chain loc(unknown)
  %c1 = "tfrt_test.unique_loc"() {name = "two"} : () -> !tfrt.chain loc(unknown)
  tfrt.return %c0, %c1 : !tfrt.chain, !tfrt.chain
}

#loc0 = loc("behind its use")
