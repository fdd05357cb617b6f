// test: opt
// What BEF cannot hold is kept when it need not become BEF.
func.func private @external(i32) -> i32
func.func nested @f(%a: i32) {
  "tfrt_test.any"(%a) {type = tensor<1xf32>, unit, map = affine_map<(d0) -> (d0)>, d = {a = 1}, f = @missing, g = [@f, @missing], h = @a::@b, s = "x" : !my.type, v = dense<1> : vector<2xi32>} : (i32) -> ()
  tfrt.return
}
// -----
func.func @unregistered() {
  "my.thing"() : () -> ()
  tfrt.call @missing() : () -> ()
  %0 = "ts.build_shape"() {value = []} : () -> i32
  tfrt.return
}
----
func.func private @external(i32) -> i32
func.func nested @f(%arg0: i32) {
  "tfrt_test.any"(%arg0) {d = {a = 1}, f = @missing, g = [@f, @missing], h = @a::@b, map = affine_map<(d0) -> (d0)>, s = "x" : !my.type, type = tensor<1xf32>, unit, v = dense<1> : vector<2xi32>} : (i32) -> ()
  tfrt.return
}
// -----
opt.mlir:10:3: error: 'my.thing' op is of an unregistered dialect; -allow-unregistered-dialect accepts it
  "my.thing"() : () -> ()
  ^
opt.mlir:11:3: error: 'tfrt.call' op 'missing' does not reference a valid function
  tfrt.call @missing() : () -> ()
  ^
opt.mlir:12:3: error: 'ts.build_shape' op result #0 must be !ts.shape type, but got 'i32'
  %0 = "ts.build_shape"() {value = []} : () -> i32
  ^
