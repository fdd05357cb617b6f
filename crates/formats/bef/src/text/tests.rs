//! Texts of whole modules: examples of every form, random Modules, and corrupted texts.

use super::*;
use crate::arbitrary::module;
use crate::{EncodeOptions, decode, encode};
use proptest::prelude::*;

/// Every custom form in printed form.
const FORMS: &str = r#"func.func private @native.sink(i32) -> (i32, !tfrt.chain) attributes {tfrt.native}
func.func @branch(%arg0: i32) -> i32 {
  tfrt.return %arg0 : i32
}
func.func @body(%arg0: i32) -> (i32, i1) {
  %0 = tfrt.constant.i1 false
  tfrt.return %arg0, %0 : i32, i1
}
func.func @main(%arg0: i32, %arg1: !tfrt.chain) -> (i32, !tfrt.chain) {
  %0 = tfrt.constant.i32 -7
  %1 = tfrt.constant.f32 1.500000e+00
  %2 = tfrt.constant.i1 true
  %3 = tfrt.constant.ui64 18446744073709551615
  %4 = tfrt.new.chain
  %5 = tfrt.add.i32 %0, %arg0
  %6:2 = tfrt.div.i32 %5, %0
  %7 = tfrt.equal.i32 %6#0, %6#1
  %8 = tfrt.print.i32 %6#1, %4
  %9 = tfrt.merge.chains %8, %0 : !tfrt.chain, i32
  %10 = tfrt.call @branch(%5) : (i32) -> i32
  %11 = tfrt.once @branch(%5) : (i32) -> i32
  %12 = tfrt.cond %2 @branch @branch (%5) : (i32) -> i32
  %13 = tfrt.case %0 [@branch, @branch] (%5) : (i32) -> i32
  %14 = tfrt.while %2 @body(%5) parallel_iterations(1) : (i32) -> i32
  %15 = tfrt.parallel_call.i32 %0 to %5 fixed %0 @branch(%10) : i32
  %16 = tfrt.if %2, %6#0, %5 : (i32, i32) -> (i32) {
    %0 = tfrt.add.i32 %6#0, %5
    tfrt.return %0 : i32
  } else {
    tfrt.return %5 : i32
  }
  %17:2 = tfrt.repeat.i32 %0, %16, %1 : i32, f32 {
    tfrt.return %16, %1 : i32, f32
  }
  tfrt.repeat.i32 %0 {
    tfrt.return
  }
  %18 = tfrt.parallel_for.i32 %0 to %5 fixed %16, %1 : f32 {
    tfrt.return
  }
  tfrt.return %14, %9 : i32, !tfrt.chain
}
"#;

/// The generic form, attributes of every kind, and a compiled module.
const GENERIC: &str = r#"module @kernel0 attributes {tfrt.compiled} {
  func.func @main(%arg0: memref<?xf32>) {
    func.return
  }
}
func.func @"odd name"() attributes {tfrt.sync} {
  "tenon.workload"() {backend = "CpuAcc", inputs = [1 : i32, -1 : i32], op.axis = 1, op.mode = "a\22\0A"} : () -> ()
  "a"() {bf = 1.000000e+00 : bf16, f = 0x7FC00000 : f32, t = [i32, complex<f32>], u = 255 : ui8} : () -> ()
  "b"() {d = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>, e = [], s = #corert.shape<2x?>, z = #corert.shape<*>} : () -> ()
  "c"() {a = [1 : i32, [2 : i32, "s"]], k = @kernel0::@main, s = dense<0x7F800000> : tensor<4xf32>} : () -> ()
  "d"() {callee = @"odd name", list = [@"odd name"]} : () -> ()
  %0:2 = "e"() ({
  ^bb0(%arg0: i32):
    %1 = "f"(%arg0) : (i32) -> f32
    tfrt.return %1 : f32
  }, {
    tfrt.return
  }) {x} : () -> (i32, f32)
  tfrt.return
}
"#;

/// Every kind of location in printed form.
const LOCATIONS: &str = r#"func.func @f() {
  "a"() : () -> () loc(unknown)
  "b"() : () -> () loc("name")
  "c"() : () -> () loc("f.py":42:314)
  "d"() : () -> () loc(fused["foo", "bar"("f.py":1:2)])
  "e"() : () -> () loc(callsite("foo" at "bar.py":42:314))
  tfrt.return loc("back")
} loc("f.mlir":7:1)
"#;

fn with(locations: bool) -> PrintOptions {
    PrintOptions {
        locations,
        ..PrintOptions::default()
    }
}

/// The error messages of `text`.
fn errors(text: &str) -> Vec<String> {
    let error = parse(text, "f.mlir").unwrap_err();
    error
        .all()
        .map(|e| e.to_string().lines().next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn custom_forms_are_a_fixed_point() {
    let module = parse(FORMS, "f.mlir").unwrap();
    assert_eq!(module.to_string(), FORMS);
    let generic = print(
        &module,
        PrintOptions {
            locations: true,
            generic: true,
            ..PrintOptions::default()
        },
    );
    assert!(generic.contains("%0 = \"tfrt.constant.i32\"() {value = -7 : i32} : () -> i32"));
    assert_eq!(parse(&generic, "g.mlir").unwrap(), module);
    let bytes = encode(&module, &EncodeOptions::default()).unwrap();
    assert_eq!(decode(&bytes).unwrap().to_string(), FORMS);
}

#[test]
fn the_generic_form_is_a_fixed_point() {
    // BEF cannot encode a unit attribute.
    assert_eq!(
        errors(GENERIC),
        ["f.mlir:12:3: BEF files cannot encode the 'x' attribute"]
    );
    let text = GENERIC.replace(" {x}", "");
    let module = parse(&text, "f.mlir").unwrap();
    assert_eq!(module.to_string(), text);
    let bytes = encode(&module, &EncodeOptions::default()).unwrap();
    assert_eq!(decode(&bytes).unwrap().to_string(), text);
}

#[test]
fn locations_are_a_fixed_point() {
    let module = parse(LOCATIONS, "f.mlir").unwrap();
    assert_eq!(print(&module, with(true)), LOCATIONS);
}

#[test]
fn aliases_may_follow_their_uses() {
    let text = "module {\n  func.func @f() {\n    \"a\"() : () -> () loc(#loc1)\n    \
                tfrt.return loc(#loc0)\n  } loc(#loc0)\n} loc(#loc0)\n\
                #loc0 = loc(\"f.py\":1:2)\n#loc1 = loc(\"n\"(#loc0))\n";
    let module = parse(text, "f.mlir").unwrap();
    let printed = print(&module, with(true));
    assert!(printed.contains("loc(\"n\"(\"f.py\":1:2))"), "{printed}");
    let missing = text.replace("#loc1 =", "#loc2 =");
    assert_eq!(
        errors(&missing),
        ["f.mlir:3:26: operation location alias '#loc1' was never defined"]
    );
    let cycle = text.replace(
        "#loc0 = loc(\"f.py\":1:2)",
        "#loc0 = loc(fused[#loc1, #loc1])",
    );
    assert!(
        errors(&cycle)[0].contains("locations are nested deeper"),
        "{:?}",
        errors(&cycle)
    );
    let mut bomb = text.replace("loc(\"f.py\":1:2)", "loc(#a30)") + "#a0 = loc(unknown)\n";
    for level in 0..30 {
        bomb += &format!("#a{} = loc(fused[#a{level}, #a{level}])\n", level + 1);
    }
    assert!(
        errors(&bomb)[0].contains("expand to too many"),
        "{:?}",
        errors(&bomb)
    );
}

#[test]
fn the_default_location_of_a_kernel_is_its_position_in_the_text() {
    let module = parse(
        "func.func @f() {\n  %0 = \"a\"() : () -> i32\n  tfrt.return\n}",
        "f",
    )
    .unwrap();
    let printed = print(&module, with(true));
    assert!(printed.contains("loc(\"f\":2:3)"), "{printed}");
    assert!(printed.ends_with("} loc(\"f\":1:1)\n"), "{printed}");
}

#[test]
fn all_problems_are_reported_with_their_place() {
    let text = "func.func @a() -> i32 {\n  tfrt.return\n}\n\
                func.func @b() {\n  %0 = tfrt.call @missing_callee() : () -> i32\n  tfrt.return\n}\n\
                func.func @c() {\n  %0 = tfrt.add.i32 %x, %y\n  tfrt.return\n}\n";
    assert_eq!(
        errors(text),
        [
            "f.mlir:2:3: 'tfrt.return' op has 0 operands, but enclosing function returns 1",
            "f.mlir:5:3: 'tfrt.call' op 'missing_callee' does not reference a valid function",
            "f.mlir:9:21: use of undeclared SSA value name '%x'",
        ]
    );
}

#[test]
fn each_problem_has_its_sentence() {
    let inside = |line: &str| errors(&format!("func.func @f(%a: i32) {{\n  {line}\n}}"))[0].clone();
    assert_eq!(
        inside("\"x\"() : () -> ()"),
        "f.mlir:2:3: all functions need to have a tfrt.return"
    );
    assert_eq!(
        inside("tfrt.return\n  \"x\"() : () -> ()"),
        "f.mlir:2:3: return op must be at the end of its block"
    );
    assert_eq!(
        inside("^bb1:\n  tfrt.return"),
        "f.mlir:2:3: multi-block regions cannot be emitted to BEF files"
    );
    assert_eq!(
        inside(
            "\"x\"() ({\n  \"y\"(%a) : (i32) -> ()\n  tfrt.return\n}) : () -> ()\n  tfrt.return"
        ),
        "f.mlir:3:7: BEF executor only supports references to kernels within the current region"
    );
    assert_eq!(
        inside("\"x\"(%a) : (f32) -> ()\n  tfrt.return"),
        "f.mlir:2:7: use of value '%a' expects different type than prior uses: 'f32' vs 'i32'"
    );
    assert_eq!(
        inside("%b:2 = tfrt.new.chain\n  tfrt.return"),
        "f.mlir:2:3: operation defines 1 results but was provided 2 to bind"
    );
    assert_eq!(
        inside(
            "%c = tfrt.constant.i1 true\n  %r = tfrt.if %c, %a : (i32) -> i32 {\n  tfrt.return\n  } else {\n  tfrt.return %a : i32\n  }\n  tfrt.return"
        ),
        "f.mlir:4:3: 'tfrt.return' op operand types don't match 'tfrt.if' result"
    );
    // Each mismatching return is reported, also in the generic form; a malformed one is not
    // reported again.
    assert_eq!(
        errors(
            "func.func @f(%a: i32) {\n  %r = \"tfrt_test.do.async\"(%a) ({\n  ^bb0(%a: i32):\n    tfrt.return\n  }) : (i32) -> i32\n  %s = tfrt.repeat.i32 %a, %a : i32 {\n    %b = tfrt.new.chain\n    tfrt.return %b : !tfrt.chain\n  }\n  %t = tfrt.repeat.i32 %a, %a : i32 {\n    tfrt.return %c : i32\n  }\n  tfrt.return\n}"
        ),
        [
            "f.mlir:4:5: 'tfrt.return' op operand types don't match 'tfrt_test.do.async' result",
            "f.mlir:8:5: 'tfrt.return' op operand types don't match 'tfrt.repeat.i32' result",
            "f.mlir:11:17: use of undeclared SSA value name '%c'"
        ]
    );
    assert_eq!(
        inside("tfrt.return %a : i32"),
        "f.mlir:2:3: 'tfrt.return' op has 1 operands, but enclosing function returns 0"
    );
    assert_eq!(
        errors("func.func private @f()"),
        ["f.mlir:1:1: external functions are not allowed"]
    );
    assert_eq!(
        errors("func.func @f(%a: i32) -> i32 attributes {tfrt.sync} {\n  tfrt.return %a : i32\n}"),
        ["f.mlir:2:3: return value 0 is an argument in a sync function"]
    );
    assert_eq!(
        errors("func.func @f() {\n  \"x\"() {type = tensor<1xf32>} : () -> ()\n  tfrt.return\n}"),
        ["f.mlir:2:3: BEF files cannot encode the 'type' attribute"]
    );
}

#[test]
fn deep_text_does_not_exhaust_the_stack() {
    let deep = |open: &str, close: &str| {
        let value = open.repeat(100_000) + &close.repeat(100_000);
        format!("func.func @f() {{\n  \"x\"() {{a = {value}}} : () -> ()\n  tfrt.return\n}}")
    };
    for (open, close) in [("[", "]"), ("(", ")"), ("dense<[", ""), ("!a<", ">")] {
        assert!(parse(&deep(open, close), "f").is_err(), "{open}");
    }
    let regions = "\"x\"() ({\n".repeat(100_000);
    assert!(parse(&format!("func.func @f() {{\n{regions}"), "f").is_err());
    let types = format!("func.func @f({}", "(".repeat(100_000));
    assert!(parse(&types, "f").is_err());
}

#[test]
fn an_absent_else_returns_nothing() {
    let text =
        "func.func @f(%a: i1) {\n  tfrt.if %a : () -> () {\n    tfrt.return\n  }\n  tfrt.return\n}";
    let module = parse(text, "f").unwrap();
    assert_eq!(module.functions.len(), 3);
    assert!(
        module
            .to_string()
            .contains("} else {\n    tfrt.return\n  }")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn what_is_printed_parses_back(module in module()) {
        for generic in [false, true] {
            let text = print(&module, PrintOptions { locations: true, generic, ..with(true) });
            let back = parse(&text, "f.mlir").unwrap_or_else(|error| panic!("{error}\n{text}"));
            prop_assert_eq!(&back, &module, "{}", text);
        }
        let text = module.to_string();
        prop_assert_eq!(parse(&text, "f.mlir").unwrap().to_string(), text);
    }

    #[test]
    fn damaged_text_never_panics(
        module in module(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<char>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut text: Vec<char> = print(&module, with(true)).chars().collect();
        for (at, c) in damage.iter().filter(|_| !text.is_empty()).collect::<Vec<_>>() {
            let at = at.index(text.len());
            text[at] = *c;
        }
        let text: String = text.into_iter().collect();
        let _ = parse(&text, "f.mlir");
        let cut = cut.index(text.len() + 1);
        let _ = parse(&text.chars().take(cut).collect::<String>(), "f.mlir");
    }

    #[test]
    fn random_tokens_never_panic(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..40),
    ) {
        let text = tokens.concat();
        if let Ok(module) = parse(&text, "f.mlir") {
            let printed = print(&module, with(true));
            prop_assert_eq!(parse(&printed, "f.mlir").unwrap(), module, "{}", printed);
        }
    }
}

const TOKENS: &[&str] = &[
    "func.func @f() {\n",
    "}\n",
    "tfrt.return",
    "%0",
    "%0#1",
    " = ",
    "tfrt.new.chain",
    "\"x\"(",
    ")",
    " : ",
    "() -> ()",
    "({",
    "})",
    "^bb0(",
    "{a = ",
    "1",
    "-",
    ".5e3",
    "[",
    "]",
    ", ",
    "@f",
    "::",
    "#corert.shape<",
    ">",
    "dense<",
    "tensor<2xi32>",
    "loc(",
    "unknown",
    "fused[",
    "//",
    "\n",
    "\"",
    "\\",
    "module @k attributes {tfrt.compiled} {",
    "tfrt.if ",
    "else {",
    "\u{fc}",
];
