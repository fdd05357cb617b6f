//! Inputs, constants, order, names, outputs, and their errors.

use crate::build::*;
use std::collections::BTreeMap;
use tenon_base::Control;
use tenon_onnx::proto::*;
use tenon_onnx::{ImportOptions, Model};
use tenon_tensor::{DataType, Tensor, TensorType};

#[test]
fn a_small_model_becomes_a_graph() {
    let mut build = model(17)
        .input("x", &["batch", "2"])
        .floats("w", &[2, 3], &[1.0; 6])
        .node(named(
            "dense",
            node("Gemm", &["x", "w", ""], &["h"], &[float("alpha", 0.5)]),
        ))
        .node(node("Relu", &["h"], &["y"], &[]))
        .output("y");
    let entry = StringStringEntryProto {
        key: "tenon.labels".into(),
        value: "a\nb".into(),
    };
    build.0.metadata_props.push(entry);
    let dims = BTreeMap::from([("batch".to_owned(), 4)]);
    let graph = build
        .import_with(&ImportOptions {
            dims,
            ..Default::default()
        })
        .unwrap();
    assert_eq!(
        graph.to_string(),
        "graph \"test\" (%x: f32[4, 2]) -> (%y) {\n  \
           metadata \"tenon.labels\" = \"a\\nb\"\n  \
           const %w: f32[2, 3] = fill 1.0\n  \
           %h = Gemm(%x, %w) {alpha = 0.5} @dense\n  \
           %y = Relu(%h) @Relu_1\n}\n"
    );
}

#[test]
fn initialisers_need_not_be_inputs_but_may() {
    let build = |ir_version| {
        let mut build = model(9)
            .input("x", &["2"])
            .input("w", &["2"])
            .floats("w", &[2], &[3.0, 4.0])
            .node(node("Add", &["x", "w"], &["y"], &[]))
            .output("y");
        build.0.ir_version = ir_version;
        build
    };
    for version in [3, 8] {
        let graph = build(version).import().unwrap();
        assert_eq!(graph.inputs.len(), 1);
        assert_eq!(
            body(&graph),
            "const %w: f32[2] = [3.0, 4.0]\n%y = Add(%x, %w) @Add_0"
        );
    }
    let constants = BTreeMap::from([("w".to_owned(), Tensor::scalar(1.0f32).unwrap())]);
    let graph = build(8)
        .import_with(&ImportOptions {
            constants,
            ..Default::default()
        })
        .unwrap();
    assert_eq!(
        body(&graph),
        "const %w: f32[] = [1.0]\n%y = Add(%x, %w) @Add_0"
    );
}

#[test]
fn an_input_may_become_a_constant() {
    let build = model(17)
        .input("x", &["6"])
        .typed_input("shape", data_type::INT64, &["2"])
        .node(node("Reshape", &["x", "shape"], &["y"], &[]))
        .output("y");
    let import = |name: &str, tensor| {
        let constants = BTreeMap::from([(name.to_owned(), tensor)]);
        build.import_with(&ImportOptions {
            constants,
            ..Default::default()
        })
    };
    let graph = import("shape", Tensor::from_slice([2], &[2i64, 3]).unwrap()).unwrap();
    assert_eq!(
        body(&graph),
        "const %shape: i64[2] = [2, 3]\n%y = Reshape(%x, %shape) @Reshape_0"
    );
    let error = import("shpae", Tensor::scalar(1i64).unwrap()).unwrap_err();
    assert_eq!(
        error,
        "the model has no input 'shpae' to be given as a constant; it has shape, x"
    );
    let error = import("shape", Tensor::from_slice([3], &[1i64; 3]).unwrap()).unwrap_err();
    assert_eq!(
        error,
        "input 'shape': dimension 0 (2) of the constant: expected 2, found 3"
    );
}

#[test]
fn constants_have_many_forms() {
    let forms = [
        (tensor("value", floats("", &[1], &[2.5])), "f32[1] = [2.5]"),
        (float("value_float", 0.25), "f32[] = [0.25]"),
        (int("value_int", -7), "i64[] = [-7]"),
        (
            float_list("value_floats", &[1.0, 2.0]),
            "f32[2] = [1.0, 2.0]",
        ),
        (ints("value_ints", &[1, 2, 3]), "i64[3] = [1, 2, 3]"),
        // The end of the string, then its text.
        (
            string("value_string", "a"),
            "string[] = hex \"010000000000000061\"",
        ),
    ];
    for (attribute, expected) in forms {
        let build = model(13)
            .node(node("Constant", &[], &["c"], &[attribute]))
            .output("c");
        assert_eq!(build.text(), format!("const %c: {expected}"));
    }
    let wrong = |attributes: &[AttributeProto]| {
        model(13)
            .node(node("Constant", &[], &["c"], attributes))
            .output("c")
            .error()
    };
    assert_eq!(
        wrong(&[]),
        "node 'Constant_0': a Constant with more than one value, or none"
    );
}

#[test]
fn nodes_are_sorted_and_named() {
    let build = model(13)
        .input("x", &["1"])
        .node(named("same", node("Neg", &["b"], &["y"], &[])))
        .node(named("same", node("Abs", &["x"], &["a"], &[])))
        .node(node("Exp", &["a"], &["b"], &[]))
        .output("y");
    assert_eq!(
        build.text(),
        "%a = Abs(%x) @same\n%b = Exp(%a) @Exp_2\n%y = Neg(%b) @same.1"
    );
}

#[test]
fn optional_operands_are_omitted() {
    let build = model(13)
        .input("x", &["2"])
        .floats("max", &[], &[6.0])
        .node(node("Clip", &["x", "", "max"], &["c"], &[]))
        .node(node("Dropout", &["c", "", ""], &["d", "mask"], &[]))
        .node(node(
            "MaxPool",
            &["d"],
            &["y", "indices"],
            &[ints("kernel_shape", &[1])],
        ))
        .output("y");
    assert_eq!(
        build.text(),
        "const %max: f32[] = [6.0]\n\
         %c = Clip(%x, _, %max) @Clip_0\n\
         %d = Dropout(%c) @Dropout_1\n\
         %y = MaxPool(%d) {kernel_shape = [1]} @MaxPool_2"
    );
}

#[test]
fn an_output_may_be_an_input_or_a_constant() {
    let build = model(13)
        .input("x", &["1"])
        .floats("c", &[], &[1.0])
        .output("x")
        .output("c");
    let graph = build.import().unwrap();
    let names: Vec<_> = graph
        .outputs
        .iter()
        .map(|&id| graph.value(id).name.as_str())
        .collect();
    assert_eq!(names, ["x", "c"]);
}

#[test]
fn element_types_are_named() {
    let build = model(13)
        .input("x", &["1"])
        .node(node("Cast", &["x"], &["y"], &[int("to", 10)]))
        .node(node("Cast", &["x"], &["z"], &[int("to", 27)]))
        .output("y");
    assert_eq!(
        build.error(),
        "node 'Cast_1': operator Cast, version 13: attribute 'to': element type float6e2m3 is not supported"
    );
    let mut build = build;
    build.graph().node.pop();
    assert_eq!(build.text(), "%y = Cast(%x) {to = \"f16\"} @Cast_0");
}

#[test]
fn everything_unsupported_is_reported_at_once() {
    let error = model(17)
        .opset("com.example", 3)
        .input("x", &["batch"])
        .typed_input("text", data_type::STRING, &["1"])
        .node(within("com.example", node("Magic", &["x"], &["a"], &[])))
        .node(within("com.example", node("Magic", &["a"], &["b"], &[])))
        .node(named(
            "relu",
            node("Relu", &["b"], &["c"], &[int("inplace", 1)]),
        ))
        .node(node("Tanh", &["text"], &["d"], &[]))
        .node(node(
            "Loop",
            &["", "c"],
            &["e"],
            &[graph("body", GraphProto::default())],
        ))
        .node(node("ImageDecoder", &[], &["f"], &[]))
        .output("f")
        .error();
    assert_eq!(
        error,
        "dimension 'batch' is not given; input 'x' uses it; give it with --dim batch=N\n\
         node 'Loop_4': a body that does not fit its node: expected 2 inputs and at least 2 outputs, found 0 and 0\n\
         node 'Magic_0': operator com.example.Magic, version 3: unknown operator (2 nodes, this first)\n\
         node 'relu': operator Relu, version 17: Relu has no attribute 'inplace': \
         expected none, found inplace = 1\n\
         node 'Tanh_3': operator Tanh, version 17: Tanh does not take input 'input' of this type: \
         expected f32, f64, f16 or bf16, found string\n\
         node 'ImageDecoder_5': operator ImageDecoder, version 17: unknown operator"
    );
}

#[test]
fn everything_malformed_is_reported_at_once() {
    let mut build = model(17)
        .input("x", &["1"])
        .input("x", &["1"])
        .floats("w", &[3], &[1.0])
        .floats("w", &[1], &[1.0])
        .node(node("Relu", &["gone"], &["a"], &[]))
        .node(node("Relu", &["x"], &["a"], &[]))
        .output("missing");
    build.graph().initializer[0].dims = vec![2];
    assert_eq!(
        build.error(),
        "input 'x': an input whose name is empty or taken\n\
         initialiser 'w': the data of a tensor does not fit its type f32[2]: expected 8 bytes, found 1 values\n\
         initialiser 'w': an initialiser whose name is empty or taken\n\
         node 'Relu_1': makes 'a', which node 'Relu_0' makes too\n\
         node 'Relu_0': uses 'gone', which nothing makes"
    );
    let build = model(17)
        .input("x", &["1"])
        .output("y")
        .output("x")
        .output("x");
    assert_eq!(
        build.error(),
        "output 'y': an output that nothing makes\noutput 'x': an output that is named twice"
    );
    let build = model(17)
        .input("x", &["1"])
        .node(node("Cast", &["x"], &["y"], &[]))
        .node(node("Concat", &[], &["z"], &[string("axis", "0")]))
        .output("y");
    assert_eq!(
        build.error(),
        "node 'Cast_0': Cast needs attribute 'to'\n\
         node 'Concat_1': attribute 'axis' is of the wrong kind: expected int, found string\n\
         node 'Concat_1': Concat needs input 'inputs'"
    );
}

#[test]
fn unsupported_versions_are_refused() {
    let error = |opset| model(opset).input("x", &["1"]).output("x").error();
    assert!(error(0).starts_with("operator set ai.onnx: expected version 1 to 28, found 0"));
    assert!(error(29).contains("found 29"));
    let mut build = model(17)
        .input("x", &["1"])
        .node(node("Relu", &["x"], &["y"], &[]))
        .output("y");
    build.0.opset_import.clear();
    assert!(
        build
            .error()
            .contains("does not say which version of operator set ai.onnx it uses")
    );
}

#[test]
fn external_data_is_read_beside_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = [1.0f32, 2.0, 3.0]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    std::fs::write(folder.path().join("w.bin"), &bytes).unwrap();
    let entry = |(key, value): (&str, &str)| StringStringEntryProto {
        key: key.into(),
        value: value.into(),
    };
    let mut build = model(17)
        .input("x", &["2"])
        .node(node("Add", &["x", "w"], &["y"], &[]))
        .output("y");
    build.graph().initializer.push(TensorProto {
        name: "w".into(),
        dims: vec![2],
        data_type: data_type::FLOAT,
        data_location: EXTERNAL,
        external_data: [("location", "w.bin"), ("offset", "4"), ("length", "8")]
            .map(entry)
            .into(),
        ..Default::default()
    });
    let path = folder.path().join("m.onnx");
    std::fs::write(&path, build.bytes()).unwrap();
    let control = Control::new();
    let open = || {
        Model::open(&path, &control)
            .unwrap()
            .graph(&Default::default(), &control)
    };
    assert_eq!(
        body(&open().unwrap()),
        "const %w: f32[2] = [2.0, 3.0]\n%y = Add(%x, %w) @Add_0"
    );
    std::fs::write(folder.path().join("w.bin"), &bytes[..8]).unwrap();
    assert_eq!(
        open().unwrap_err().to_string(),
        format!(
            "{}: initialiser 'w': external data is outside the file 'w.bin': expected at most 8 \
             bytes, found 8 bytes from byte 4",
            path.display()
        )
    );
    assert!(build.error().contains("is not read from a file"));
}

#[test]
fn files_of_other_formats_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        Model::open(folder.path().join(name), &Control::new())
            .err()
            .unwrap()
            .to_string()
    };
    std::fs::write(folder.path().join("empty"), b"").unwrap();
    std::fs::write(folder.path().join("text"), b"hello, world").unwrap();
    assert!(open("empty").contains("empty: not an ONNX model: the file holds no graph"));
    assert!(open("text").contains("text: "), "{}", open("text"));
    assert!(open("missing").contains("cannot read"));
    assert!(open(".").contains("not a file"));
}

#[test]
fn the_caller_can_stop_an_import() {
    let build = model(17)
        .input("x", &["1"])
        .floats("w", &[], &[1.0])
        .output("x");
    let control = Control::new();
    let model = Model::from_bytes(build.bytes(), &control).unwrap();
    control.cancel();
    let error = model.graph(&Default::default(), &control).unwrap_err();
    assert_eq!(error.kind(), tenon_base::ErrorKind::Cancelled);
}

/// An array for an input also determines dimensions of a CPU node's outputs.
#[test]
fn cpu_nodes_take_the_sizes_of_arrays() {
    let mut build = model(17)
        .input("x", &["batch", "3"])
        .node(node("Relu", &["x"], &["r"], &[]))
        .node(NodeProto {
            name: "twice".into(),
            ..node("Twice", &["r"], &["y"], &[])
        })
        .output("y");
    build.graph().output[0] = info("y", data_type::FLOAT, &["batch", "3"]);
    let control = Control::new();
    let model = Model::from_bytes(build.bytes(), &control).unwrap();
    let cut = |given: &[usize]| {
        let ty = TensorType::new(DataType::F32, given).unwrap();
        let options = ImportOptions {
            given: [("x".to_owned(), ty)].into(),
            cpu_nodes: ["twice".to_owned()].into(),
            ..ImportOptions::default()
        };
        model.cut_graph(&options, &control).unwrap().graph
    };
    let graph = cut(&[2, 3]);
    let made = graph.inputs.iter().map(|&id| graph.value(id));
    let made: Vec<String> = made.map(|it| it.ty.as_ref().unwrap().to_string()).collect();
    assert_eq!(made, ["f32[2, 3]", "f32[2, 3]"]);
}
