func.func @"ü\00 "() {
  "😀"() {"ä" = "\F0\9F\98\80", b = "\FF"} : () -> () // ß
  ü
  tfrt.return
}
