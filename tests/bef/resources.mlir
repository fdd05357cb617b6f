// What lives with an execution, with the host, or with neither.
//
// $ tenon exec resources.mlir

func.func @resource() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %r, %c1 = "tfrt_test.allocate_resource"(%c0) : (!tfrt.chain) -> (!tfrt.test.resource, !tfrt.chain)
  %c2 = "tfrt_test.deallocate_resource"(%r, %c1) : (!tfrt.test.resource, !tfrt.chain) -> !tfrt.chain
  tfrt.return %c2 : !tfrt.chain
}

// Dropped with its register when nobody gives it back.
func.func @dropped() {
  %c0 = tfrt.new.chain
  %r, %c1 = "tfrt_test.allocate_resource"(%c0) : (!tfrt.chain) -> (!tfrt.test.resource, !tfrt.chain)
  tfrt.return
}

// One instance for the host: the same from two functions.
func.func @shared_context() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %0, %c1 = "tfrt_test.use_sample_shared_context"(%c0) : (!tfrt.chain) -> (!tfrt.string, !tfrt.chain)
  %c2 = "tfrt_test.print_string"(%0, %c1) : (!tfrt.string, !tfrt.chain) -> !tfrt.chain
  tfrt.return %c2 : !tfrt.chain
}

func.func @shared_context_again() -> !tfrt.chain {
  %c0 = tfrt.new.chain
  %0, %c1 = "tfrt_test.use_sample_shared_context"(%c0) : (!tfrt.chain) -> (!tfrt.string, !tfrt.chain)
  %c2 = "tfrt_test.print_string"(%0, %c1) : (!tfrt.string, !tfrt.chain) -> !tfrt.chain
  tfrt.return %c2 : !tfrt.chain
}
