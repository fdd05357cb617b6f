// test: readable
// A program that the compiler made.
func.func @main() attributes {tfrt.sync} {
  "tenon.dma"() {bytes = 12288, id = 0 : i32, node = "/stem/stem.2/Concat", queue = "qTenon"} : () -> ()
  "tenon.workload"() {backend = "CpuAcc", inputs = [1 : i32, 2 : i32, 3 : i32], node = "/layer1/conv/Conv", op.activation = "relu", op.group = 1, op.pads = [1, 1, 1, 1], op.strides = [1, 1], operator = "tenon.Conv", outputs = [4 : i32], prepared = [-1 : i32, 5 : i32, -1 : i32], scratch = -1 : i32} : () -> ()
  "short"() {a = 1} : () -> ()
  tfrt.return
}
----
func.func @main() attributes {tfrt.sync} {
  // /stem/stem.2/Concat
  "tenon.dma"() {bytes = 12288, id = 0 : i32, node = "/stem/stem.2/Concat", queue = "qTenon"} : () -> ()
  // tenon.Conv /layer1/conv/Conv
  "tenon.workload"() {backend = "CpuAcc", inputs = [1 : i32, 2 : i32, 3 : i32],
      node = "/layer1/conv/Conv", op.activation = "relu", op.group = 1, op.pads = [1, 1, 1, 1],
      op.strides = [1, 1], operator = "tenon.Conv", outputs = [4 : i32],
      prepared = [-1 : i32, 5 : i32, -1 : i32], scratch = -1 : i32} : () -> ()
  "short"() {a = 1} : () -> ()
  tfrt.return
}
