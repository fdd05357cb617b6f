func.func @f() {
  tfrt.return loc(#a)
}
#a = loc("n"(#b))
#b = loc(callsite(#a at #b))
