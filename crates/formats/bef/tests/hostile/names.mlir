func.func @f(%a: i32, %a: i32) {
  %r:2 = tfrt.div.i32 %a, %a
  tfrt.if %c, %r#0, %r#1, %r : (i32, i32, i32) -> () {
    %r:3 = tfrt_test.count3.i32 %r#1
    tfrt.return
  }
  %r#1 = tfrt.new.chain
  tfrt.return %r : i32
}
