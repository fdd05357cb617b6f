// vt.value prints what happens to it: values die after their last use.
//
// $ tenon exec lifetimes.mlir

func.func @last_use() {
  %c0 = tfrt.new.chain
  %a = "vt.constant"() {value = 1 : i32} : () -> !vt.value
  %b = "vt.constant"() {value = 2 : i32} : () -> !vt.value
  %s = "vt.add"(%a, %b) : (!vt.value, !vt.value) -> !vt.value
  %c1 = "vt.print"(%s, %c0) : (!vt.value, !tfrt.chain) -> !tfrt.chain
  tfrt.return
}

// A value that nobody uses dies at once.
func.func @unused() -> i32 {
  %a = "vt.constant"() {value = 3 : i32} : () -> !vt.value
  %0 = tfrt.constant.i32 0
  tfrt.return %0 : i32
}

func.func @shared() {
  %c0 = tfrt.new.chain
  %a = "vt.constant"() {value = 4 : i32} : () -> !vt.value
  %b, %c = "tfrt_test.share_to_two"(%a) : (!vt.value) -> (!vt.value, !vt.value)
  %c1 = "vt.print"(%b, %c0) : (!vt.value, !tfrt.chain) -> !tfrt.chain
  %c2 = "vt.print"(%c, %c1) : (!vt.value, !tfrt.chain) -> !tfrt.chain
  tfrt.return
}

// A returned value lives until it has been printed.
func.func @returned() -> !vt.value {
  %a = "vt.constant"() {value = 5 : i32} : () -> !vt.value
  tfrt.return %a : !vt.value
}
