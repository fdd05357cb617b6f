// test: generic
// The generic form of everything, regions included.
"builtin.module"() ({
  "func.func"() <{function_type = (i32) -> (i32, i1), sym_name = "f", sym_visibility = "private"}> ({
  ^bb0(%arg0: i32):
    %0 = "tfrt.constant.i1"() <{value = true}> : () -> i1
    %1 = "tfrt.if"(%0, %arg0) ({
    ^bb0(%a: i32):
      "tfrt.return"(%a) : (i32) -> ()
    }, {
    ^bb0(%a: i32):
      %b = tfrt.add.i32 %a, %a
      "tfrt.return"(%b) : (i32) -> ()
    }) : (i1, i32) -> i32
    %r:2 = "any.thing"(%1) ({
      tfrt.return
    }) {b = 1 : i32, callee = @f} : (i32) -> (i32, i32)
    "tfrt.return"(%r#1, %0) : (i32, i1) -> ()
  }) {tfrt.cost_threshold = 5 : i64} : () -> ()
  "func.func"() <{function_type = () -> (), sym_name = "n", sym_visibility = "private"}> ({
  }) {tfrt.native} : () -> ()
}) {tfrt.cost_threshold = 1 : i64} : () -> ()
----
"builtin.module"() ({
  "func.func"() <{function_type = (i32) -> (i32, i1), sym_name = "f", sym_visibility = "private"}> ({
  ^bb0(%arg0: i32):
    %0 = "tfrt.constant.i1"() {value = true} : () -> i1
    %1 = "tfrt.if"(%0, %arg0) ({
    ^bb0(%arg1: i32):
      "tfrt.return"(%arg1) : (i32) -> ()
    }, {
    ^bb0(%arg1: i32):
      %3 = "tfrt.add.i32"(%arg1, %arg1) : (i32, i32) -> i32
      "tfrt.return"(%3) : (i32) -> ()
    }) : (i1, i32) -> i32
    %2:2 = "any.thing"(%1) ({
      "tfrt.return"() : () -> ()
    }) {b = 1 : i32, callee = @f} : (i32) -> (i32, i32)
    "tfrt.return"(%2#1, %0) : (i32, i1) -> ()
  }) {tfrt.cost_threshold = 5} : () -> ()
  "func.func"() <{function_type = () -> (), sym_name = "n", sym_visibility = "private"}> ({
  }) {tfrt.native} : () -> ()
}) {tfrt.cost_threshold = 1} : () -> ()
