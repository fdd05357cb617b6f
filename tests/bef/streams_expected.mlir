// Run by streams.mlir.

// A straight line is one stream.
// expected-remark @+1 {{stream id: 0, stream cost: 4, parent stream: -1}}
func.func @straight(%x: i32) -> i32 {
  // expected-remark @+1 {{stream id: 0, stream cost: 4, parent stream: -1}}
  %0 = tfrt.add.i32 %x, %x
  // expected-remark @+1 {{stream id: 0, stream cost: 4, parent stream: -1}}
  %1 = tfrt.add.i32 %0, %0
  // expected-remark @+1 {{stream id: 0, stream cost: 4, parent stream: -1}}
  tfrt.return %1 : i32
}
