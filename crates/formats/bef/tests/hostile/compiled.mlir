module @k attributes {tfrt.compiled} {
  any "}" // }
}
module @k attributes {tfrt.compiled} { }
"builtin.module"() ({ }) {tfrt.compiled} : () -> ()
func.func @k() {
  "x"() {a = @k::@main, b = [@k, @k::@l], c = #tenon.symbol<@a::@b, "module @a">} : () -> ()
  tfrt.return
}
