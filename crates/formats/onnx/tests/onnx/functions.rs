//! Inlining of functions and constant branches.

use crate::build::*;
use tenon_onnx::proto::*;

fn function(name: &str, inputs: &[&str], outputs: &[&str], nodes: &[NodeProto]) -> FunctionProto {
    let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
    FunctionProto {
        name: name.into(),
        domain: "local".into(),
        input: texts(inputs),
        output: texts(outputs),
        node: nodes.to_vec(),
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version: 17,
        }],
        ..Default::default()
    }
}

fn call(name: &str, inputs: &[&str], outputs: &[&str], attributes: &[AttributeProto]) -> NodeProto {
    within("local", node(name, inputs, outputs, attributes))
}

fn with(functions: &[FunctionProto], nodes: &[NodeProto]) -> Build {
    let mut build = model(17).opset("local", 1).input("x", &["2"]).output("y");
    build.0.functions = functions.to_vec();
    build.graph().node = nodes.to_vec();
    build
}

#[test]
fn functions_are_inlined_with_their_attributes() {
    let slope = FunctionProto {
        attribute_proto: vec![float("slope", 0.25)],
        attribute: vec!["seed".into()],
        ..function(
            "Leaky",
            &["a", "scale"],
            &["b"],
            &[
                node(
                    "LeakyRelu",
                    &["a"],
                    &["t"],
                    &[reference("alpha", attribute_type::FLOAT, "slope")],
                ),
                node(
                    "Dropout",
                    &["t"],
                    &["u"],
                    &[reference("seed", attribute_type::INT, "seed")],
                ),
                node("Constant", &[], &["two"], &[float("value_float", 2.0)]),
                node("Mul", &["u", "two"], &["b"], &[]),
            ],
        )
    };
    let twice = function(
        "Twice",
        &["a"],
        &["b"],
        &[
            call(
                "Leaky",
                &["a", ""],
                &["m"],
                &[reference("slope", attribute_type::FLOAT, "outer")],
            ),
            call("Leaky", &["m"], &["b"], &[int("seed", 3)]),
        ],
    );
    let build = with(
        &[slope, twice],
        &[named(
            "t",
            call("Twice", &["x"], &["y"], &[float("outer", 0.5)]),
        )],
    );
    assert_eq!(
        build.text(),
        "const %t/Leaky_0/two: f32[] = [2.0]\n\
         const %t/Leaky_1/two: f32[] = [2.0]\n\
         %t/Leaky_0/t = LeakyRelu(%x) {alpha = 0.5} @t/Leaky_0/LeakyRelu_0\n\
         %t/Leaky_0/u = Dropout(%t/Leaky_0/t) @t/Leaky_0/Dropout_1\n\
         %t/m = Mul(%t/Leaky_0/u, %t/Leaky_0/two) @t/Leaky_0/Mul_3\n\
         %t/Leaky_1/t = LeakyRelu(%t/m) {alpha = 0.25} @t/Leaky_1/LeakyRelu_0\n\
         %t/Leaky_1/u = Dropout(%t/Leaky_1/t) {seed = 3} @t/Leaky_1/Dropout_1\n\
         %y = Mul(%t/Leaky_1/u, %t/Leaky_1/two) @t/Leaky_1/Mul_3"
    );
}

#[test]
fn a_function_has_a_separate_operator_set() {
    let old = FunctionProto {
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version: 11,
        }],
        ..function(
            "Old",
            &["a"],
            &["b"],
            &[node("Unsqueeze", &["a"], &["b"], &[ints("axes", &[0])])],
        )
    };
    assert_eq!(
        with(&[old], &[call("Old", &["x"], &["y"], &[])]).text(),
        "const %Old_0/Unsqueeze_0/axes: i64[1] = [0]\n\
         %y = Unsqueeze(%x, %Old_0/Unsqueeze_0/axes) @Old_0/Unsqueeze_0"
    );
}

#[test]
fn a_function_may_return_its_input() {
    let same = function("Same", &["a"], &["a"], &[]);
    assert_eq!(
        with(&[same], &[call("Same", &["x"], &["y"], &[])]).text(),
        "%y = Identity(%x) @y/Identity"
    );
}

#[test]
fn invalid_calls_are_errors() {
    let f = |nodes: &[NodeProto]| function("F", &["a"], &["b"], nodes);
    let g = function("G", &["a"], &["b"], &[call("F", &["a"], &["b"], &[])]);
    let error = with(
        &[f(&[call("G", &["a"], &["b"], &[])]), g],
        &[call("F", &["x"], &["y"], &[])],
    );
    assert_eq!(
        error.error(),
        "node 'F_0/G_0/F_0': function 'F' calls itself"
    );
    let error = with(&[f(&[])], &[call("F", &["x"], &["y"], &[])]).error();
    assert!(error.contains("does not define its output 'b'"), "{error}");
    let error = with(&[f(&[])], &[call("F", &["x", "x"], &["y"], &[])]).error();
    assert!(
        error.contains("expected at most 1 inputs and 1 outputs, found 2 and 1"),
        "{error}"
    );
    let error = with(
        &[f(&[node("Relu", &["z"], &["b"], &[])])],
        &[call("F", &["x"], &["y"], &[])],
    );
    assert!(
        error.error().contains("uses 'z', which nothing makes"),
        "{}",
        error.error()
    );
}

#[test]
fn inlined_functions_have_a_memory_limit() {
    // Each calls the previous one twenty times.
    let mut functions = vec![function(
        "F0",
        &["a"],
        &["b"],
        &[node("Relu", &["a"], &["b"], &[])],
    )];
    for depth in 1..8 {
        let before = format!("F{}", depth - 1);
        let mut nodes = vec![call(&before, &["a"], &["b"], &[])];
        for index in 0..20 {
            nodes.push(call(&before, &["a"], &[&format!("n{index}")], &[]));
        }
        functions.push(function(&format!("F{depth}"), &["a"], &["b"], &nodes));
    }
    let error = with(&functions, &[call("F7", &["x"], &["y"], &[])]).error();
    assert!(
        error.contains("the model's functions, inlined, take more than"),
        "{error}"
    );
}

#[test]
fn nested_functions_have_a_depth_limit() {
    let nested = |depth: usize| {
        let relu = node("Relu", &["a"], &["b"], &[]);
        let mut functions = vec![function("F1", &["a"], &["b"], &[relu])];
        for level in 2..=depth {
            let inner = call(&format!("F{}", level - 1), &["a"], &["b"], &[]);
            functions.push(function(&format!("F{level}"), &["a"], &["b"], &[inner]));
        }
        with(
            &functions,
            &[call(&format!("F{depth}"), &["x"], &["y"], &[])],
        )
    };
    assert_eq!(nested(48).import().unwrap().nodes.len(), 1);
    assert!(nested(49).error().contains("nested more than 48 deep"));
}

fn branch(value: f32) -> GraphProto {
    GraphProto {
        initializer: vec![floats("c", &[], &[value])],
        node: vec![node("Add", &["x", "c"], &["r"], &[])],
        output: vec![info("r", data_type::FLOAT, &["2"])],
        ..Default::default()
    }
}

#[test]
fn an_if_on_a_constant_is_its_branch() {
    let choice = |truth| {
        let mut build = model(17)
            .input("x", &["2"])
            .node(node(
                "If",
                &["cond"],
                &["y"],
                &[
                    graph("then_branch", branch(1.0)),
                    graph("else_branch", branch(2.0)),
                ],
            ))
            .output("y");
        build.graph().initializer.push(bools("cond", &[], &[truth]));
        build.text()
    };
    let expected =
        |value| format!("const %If_0/c: f32[] = [{value}]\n%y = Add(%x, %If_0/c) @If_0/Add_0");
    assert_eq!(choice(1), expected("1.0"));
    assert_eq!(choice(0), expected("2.0"));
}

#[test]
fn an_if_on_other_conditions_keeps_both_branches() {
    let build = model(17)
        .input("x", &["2"])
        .typed_input("cond", data_type::BOOL, &[])
        .node(named(
            "choice",
            node(
                "If",
                &["cond"],
                &["y"],
                &[graph("then_branch", branch(1.0))],
            ),
        ))
        .output("y");
    assert_eq!(
        build.error(),
        "node 'choice': attribute 'else_branch' is missing"
    );
    let mut build = build;
    let attribute = graph("else_branch", branch(2.0));
    build.graph().node[0].attribute.push(attribute);
    let imported = build.import().unwrap();
    let node = &imported.nodes[0];
    assert!(node.is_control());
    let bodies: Vec<_> = imported.bodies_of(node).collect();
    assert_eq!(bodies.len(), 2);
    assert!(bodies.iter().all(|body| body.nodes[0].op.name == "Add"));
    // The condition, and the input that both branches read.
    assert_eq!(node.inputs.len(), 2);
}
