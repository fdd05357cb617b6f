func.func @f() {
  "x"() {a = dense<1> : tensor<99999999x99999999xi64>, b = dense<2> : tensor<1000000000xi64>} : () -> ()
  tfrt.return
}
