func.func @f() {
  "k"() : () -> () loc("a\00b":1:1)
  tfrt.return loc("name\00")
}
