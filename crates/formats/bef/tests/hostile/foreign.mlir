func.func @f() {
  "k"() {a = 0.5 : f55
    , b = {x} // what stands behind
    , c = "x" : !my.type
  } : () -> ()
  tfrt.return
}
