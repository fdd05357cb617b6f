module @m attributes {a = "b
func.func @f( {
  %0:99999999999 = "x"(%1#18446744073709551616) <{[{(
  tfrt.if %0 : (
}}})
