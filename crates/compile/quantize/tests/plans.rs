//! What plans quantise, and the models that they make.

use bytes::Bytes;
use std::collections::BTreeMap;
use tenon_base::Pattern;
use tenon_onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TensorShapeProto, TensorTypeProto, TypeProto, TypeValue, UnreadProto, ValueInfoProto,
    attribute_type, data_type,
};
use tenon_quantize::{Exclusions, NodeState, Plan, Range, Scheme};

fn node(operator: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        name: output.into(),
        op_type: operator.into(),
        input: inputs.iter().map(|&input| input.into()).collect(),
        output: vec![output.into()],
        ..NodeProto::default()
    }
}

fn with_ints(mut node: NodeProto, name: &str, ints: &[i64]) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: name.into(),
        r#type: attribute_type::INTS,
        ints: ints.to_vec(),
        ..AttributeProto::default()
    });
    node
}

fn constant(name: &str, dims: &[i64], elements: impl Fn(usize) -> f32) -> TensorProto {
    let count = dims.iter().product::<i64>() as usize;
    let bytes = (0..count).flat_map(|at| elements(at).to_le_bytes());
    TensorProto {
        name: name.into(),
        dims: dims.to_vec(),
        data_type: data_type::FLOAT,
        raw_data: Some(Bytes::from_iter(bytes)),
        ..TensorProto::default()
    }
}

fn value(name: &str) -> ValueInfoProto {
    let ty = TensorTypeProto {
        elem_type: data_type::FLOAT,
        shape: Some(TensorShapeProto::default()),
    };
    ValueInfoProto {
        name: name.into(),
        r#type: Some(Box::new(TypeProto {
            value: Some(TypeValue::Tensor(ty)),
        })),
    }
}

fn model(version: i64, nodes: Vec<NodeProto>, constants: Vec<TensorProto>) -> ModelProto {
    let output = nodes.last().unwrap().output[0].clone();
    ModelProto {
        ir_version: 8,
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version,
        }],
        graph: Some(Box::new(GraphProto {
            node: nodes,
            initializer: constants,
            input: vec![value("x")],
            output: vec![value(&output)],
            ..GraphProto::default()
        })),
        ..ModelProto::default()
    }
}

/// Two convolutions with a residual, a pool, and a matrix product.
fn residual() -> ModelProto {
    let nodes = vec![
        node("Conv", &["x", "w1", "b1"], "c1"),
        node("Relu", &["c1"], "r1"),
        node("Conv", &["r1", "w2"], "c2"),
        node("Add", &["c2", "r1"], "sum"),
        node("Relu", &["sum"], "r2"),
        node("MaxPool", &["r2"], "p"),
        node("Flatten", &["p"], "f"),
        node("Gemm", &["f", "w3"], "y"),
    ];
    let constants = vec![
        constant("w1", &[4, 3, 1, 1], |at| at as f32 - 6.0),
        constant("b1", &[4], |at| at as f32),
        constant("w2", &[4, 4, 1, 1], |at| at as f32 / 16.0),
        constant("w3", &[16, 2], |at| 1.0 - at as f32 / 8.0),
    ];
    model(17, nodes, constants)
}

fn plan(model: ModelProto, scheme: Scheme) -> Plan {
    Plan::new(model, scheme, &Exclusions::default()).unwrap()
}

fn ranges(plan: &Plan) -> BTreeMap<String, Range> {
    let range = Range {
        min: -1.0,
        max: 2.0,
    };
    plan.observed()
        .map(|name| (name.to_owned(), range))
        .collect()
}

/// A line for each node, and the constants of an activation's group.
fn listing(model: &ModelProto) -> Vec<String> {
    let graph = model.graph.as_deref().unwrap();
    let line = |node: &NodeProto| {
        format!(
            "{} {} -> {}",
            node.op_type,
            node.input.join(" "),
            node.output.join(" ")
        )
    };
    graph.node.iter().map(line).collect()
}

#[test]
fn activations_between_products_are_quantised() {
    let plan = plan(residual(), Scheme::Int8);
    let observed: Vec<&str> = plan.observed().collect();
    // Not c1 and sum, which activations follow, nor the output.
    assert_eq!(observed, ["c2", "f", "p", "r1", "r2", "x"]);
    let quantized = plan.quantized_model(&ranges(&plan)).unwrap();
    let lines = listing(&quantized);
    let expected = [
        "QuantizeLinear x x_scale x_zero_point -> x_quantized",
        "DequantizeLinear x_quantized x_scale x_zero_point -> x_dequantized",
        "DequantizeLinear w1_quantized w1_scale w1_zero_point -> w1_dequantized",
        "DequantizeLinear b1_quantized b1_scale -> b1_dequantized",
        "Conv x_dequantized w1_dequantized b1_dequantized -> c1",
        "Relu c1 -> r1",
        "QuantizeLinear r1 r1_scale r1_zero_point -> r1_quantized",
        "DequantizeLinear r1_quantized r1_scale r1_zero_point -> r1_dequantized",
        "DequantizeLinear w2_quantized w2_scale w2_zero_point -> w2_dequantized",
        "Conv r1_dequantized w2_dequantized -> c2",
        "QuantizeLinear c2 c2_scale c2_zero_point -> c2_quantized",
        "DequantizeLinear c2_quantized c2_scale c2_zero_point -> c2_dequantized",
        "Add c2_dequantized r1_dequantized -> sum",
        "Relu sum -> r2",
    ];
    assert_eq!(lines[..expected.len()], expected);
    // Around the pool and the reshape there is one scale.
    let around: Vec<&String> = lines
        .iter()
        .filter(|line| line.contains("p_quantized"))
        .collect();
    let before: Vec<&String> = lines
        .iter()
        .filter(|line| line.contains("r2_quantized"))
        .collect();
    let scale = |lines: &[&String]| lines[0].split(' ').nth(2).unwrap().to_owned();
    assert_eq!(scale(&around), scale(&before));
    let names = quantized
        .graph
        .unwrap()
        .initializer
        .into_iter()
        .map(|it| it.name);
    assert!(
        names
            .clone()
            .all(|name| !["w1", "w2", "w3", "b1"].contains(&name.as_str())),
        "{names:?}"
    );
}

#[test]
fn weights_have_a_scale_for_each_channel() {
    let plan = plan(residual(), Scheme::Int8);
    let quantized = plan.quantized_model(&ranges(&plan)).unwrap();
    let graph = quantized.graph.unwrap();
    let find = |name: &str| {
        let tensor = graph.initializer.iter().find(|it| it.name == name);
        tenon_onnx::tensor(tensor.unwrap()).unwrap()
    };
    // Rows -6 -5 -4, -3 -2 -1, 0 1 2, 3 4 5.
    let scales = find("w1_scale");
    let scales = scales.as_slice::<f32>().unwrap();
    let greatest = [6.0, 3.0, 2.0, 5.0f32];
    for (scale, greatest) in scales.iter().zip(greatest) {
        assert!((scale - greatest / 127.0).abs() < 1e-7);
    }
    let codes = find("w1_quantized");
    assert_eq!(
        codes.as_slice::<i8>().unwrap()[..6],
        [-127, -106, -85, -127, -85, -42]
    );
    // The bias is in steps of both scales, 3 / 255 of the input.
    let bias = find("b1_quantized");
    let steps = bias.as_slice::<i32>().unwrap();
    for (channel, &steps) in steps.iter().enumerate() {
        let value = f64::from(steps) * 3.0 / 255.0 * f64::from(greatest[channel]) / 127.0;
        assert!((value - channel as f64).abs() < 1e-3, "{value}");
    }
}

#[test]
fn excluded_nodes_stay_in_f32() {
    let exclusions = Exclusions {
        patterns: vec![Pattern::new("c*")],
        nodes: BTreeMap::from([("y".into(), "it is the last".into())]),
    };
    let plan = Plan::new(residual(), Scheme::Int8, &exclusions).unwrap();
    let states: Vec<&NodeState> = plan.nodes().iter().map(|node| &node.state).collect();
    let kept = |reason: &str| NodeState::Kept(reason.into());
    let named = kept("excluded by name");
    assert_eq!(states, [&named, &named, &kept("it is the last")]);
    assert_eq!(plan.observed().count(), 0);
    let unchanged = plan.quantized_model(&BTreeMap::new()).unwrap();
    assert_eq!(listing(&unchanged), listing(&residual()));
}

#[test]
fn weights_of_4_bits_are_in_blocks_of_operator_set_21() {
    let mean = with_ints(node("ReduceMean", &["x"], "m"), "axes", &[0]);
    let mut split = node("Split", &["m"], "s1");
    split.output.push("s2".into());
    let nodes = vec![mean, split, node("MatMul", &["s1", "w"], "y")];
    let weights = constant("w", &[40, 3], |at| (at as f32 * 0.7).sin());
    let plan = plan(model(13, nodes, vec![weights]), Scheme::Int4 { block: 16 });
    let quantized = plan.quantized_model(&BTreeMap::new()).unwrap();
    assert_eq!(quantized.opset_import[0].version, 21);
    let graph = quantized.graph.unwrap();
    assert_eq!(graph.node[0].input, ["x", "m_axes_input"]);
    assert!(graph.node[0].attribute.is_empty());
    assert_eq!(graph.node[1].attribute[0].name, "num_outputs");
    let find = |name: &str| graph.initializer.iter().find(|it| it.name == name).unwrap();
    assert_eq!(find("w_scale").dims, [3, 3]);
    assert_eq!(find("w_quantized").data_type, data_type::UINT4);
    let codes = tenon_onnx::tensor(find("w_quantized")).unwrap();
    let zeros = tenon_onnx::tensor(find("w_zero_point")).unwrap();
    let scales = tenon_onnx::tensor(find("w_scale")).unwrap();
    let code = |bytes: &[u8], at: usize| f32::from(bytes[at / 2] >> (at % 2 * 4) & 15);
    for at in 0..120 {
        let block = at / 3 / 16 * 3 + at % 3;
        let scale = scales.as_slice::<f32>().unwrap()[block];
        let value = (code(codes.bytes(), at) - code(zeros.bytes(), block)) * scale;
        let exact = (at as f32 * 0.7).sin();
        // Half a step, or a whole one where the zero point was rounded.
        assert!((value - exact).abs() <= scale, "{at}: {value} {exact}");
    }
}

#[test]
fn models_that_cannot_be_quantised_are_refused() {
    let plan_of = |model| Plan::new(model, Scheme::Int8, &Exclusions::default());
    let mut old = residual();
    old.opset_import[0].version = 11;
    let error = plan_of(old).err().unwrap().to_string();
    assert!(error.contains("operator set 13"), "{error}");
    let mut infinite = residual();
    infinite.graph.as_mut().unwrap().initializer[0] =
        constant("w1", &[4, 3, 1, 1], |_| f32::INFINITY);
    let plan = plan_of(infinite).unwrap();
    let error = plan
        .quantized_model(&ranges(&plan))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("w1") && error.contains("not finite"),
        "{error}"
    );
    let error = plan
        .quantized_model(&BTreeMap::new())
        .unwrap_err()
        .to_string();
    assert!(error.contains("c2, f, p"), "{error}");
    let group = node("GroupNormalization", &["x", "s", "b"], "g");
    let nodes = vec![group, node("MatMul", &["g", "w"], "y")];
    let weights = vec![constant("w", &[16, 3], |at| at as f32)];
    let plan = Plan::new(
        model(18, nodes, weights),
        Scheme::Int4 { block: 16 },
        &Exclusions::default(),
    );
    let error = plan
        .unwrap()
        .quantized_model(&BTreeMap::new())
        .unwrap_err()
        .to_string();
    assert!(error.contains("GroupNormalization"), "{error}");
}

#[test]
fn models_that_are_not_read_as_a_whole_are_refused() {
    let mut sparse = residual();
    let node = &mut sparse.graph.as_mut().unwrap().node[0];
    node.attribute.push(AttributeProto {
        name: "sparse_value".into(),
        r#type: attribute_type::SPARSE_TENSOR,
        ..AttributeProto::default()
    });
    let mut opaque = residual();
    opaque.graph.as_mut().unwrap().input[0].r#type = Some(Box::new(TypeProto {
        value: Some(TypeValue::Opaque(UnreadProto {})),
    }));
    for (model, text) in [
        (sparse, "node 'c1': a model cannot"),
        (opaque, "value 'x': a model cannot"),
    ] {
        let plan = Plan::new(model, Scheme::Int8, &Exclusions::default());
        let error = plan.err().unwrap().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn names_are_free_and_shared_weights_are_quantised_once() {
    let nodes = vec![
        node("Relu", &["x"], "x_scale"),
        node("MatMul", &["x_scale", "w"], "a"),
        node("MatMul", &["x", "w"], "b"),
        node("Add", &["a", "b"], "y"),
    ];
    let plan = plan(
        model(13, nodes, vec![constant("w", &[16, 16], |at| at as f32)]),
        Scheme::Int8,
    );
    let quantized = plan.quantized_model(&ranges(&plan)).unwrap();
    let lines = listing(&quantized);
    assert!(
        lines.contains(&"QuantizeLinear x x_scale_2 x_zero_point -> x_quantized".to_owned()),
        "{lines:?}"
    );
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.contains("w_quantized"))
            .count(),
        1
    );
}

#[test]
fn models_of_f16_have_inputs_and_outputs_of_f32() {
    let mut scale = node("ConstantOfShape", &["shape"], "ones");
    scale.attribute.clear();
    let nodes = vec![
        node("Conv", &["x", "w"], "c"),
        node("Resize", &["c", "", "scales"], "r"),
        node("MatMul", &["r", "m"], "p"),
        scale,
        node("Add", &["p", "ones"], "y"),
    ];
    let constants = vec![
        constant("w", &[4, 3, 1, 1], |at| {
            if at == 0 {
                f32::NEG_INFINITY
            } else {
                at as f32
            }
        }),
        constant("m", &[4, 4], |at| at as f32),
        constant("scales", &[4], |_| 1.3),
    ];
    let exclusions = Exclusions {
        nodes: BTreeMap::from([("p".into(), "by name".into())]),
        ..Exclusions::default()
    };
    let plan = Plan::new(model(17, nodes, constants), Scheme::F16, &exclusions).unwrap();
    let half = plan.quantized_model(&BTreeMap::new()).unwrap();
    let expected = [
        "Cast x -> x_f16",
        "Conv x_f16 w -> c",
        "Resize c  r_operand_2_f32 -> r",
        "Cast r -> p_operand_0_f32",
        "MatMul p_operand_0_f32 p_operand_1_f32 -> p_result_f32",
        "Cast p_result_f32 -> p",
        "ConstantOfShape shape -> ones",
        "Add p ones -> y_f16",
        "Cast y_f16 -> y",
    ];
    assert_eq!(listing(&half), expected);
    let graph = half.graph.unwrap();
    let constants: BTreeMap<&str, i32> = graph
        .initializer
        .iter()
        .map(|it| (it.name.as_str(), it.data_type))
        .collect();
    let (half, float) = (data_type::FLOAT16, data_type::FLOAT);
    let expected = [
        ("p_operand_1_f32", float),
        ("r_operand_2_f32", float),
        ("w", half),
    ];
    assert_eq!(constants, BTreeMap::from(expected));
    let weights = tenon_onnx::tensor(&graph.initializer[0]).unwrap();
    assert_eq!(weights.bytes()[..4], [0xff, 0xfb, 0x00, 0x3c]);
    assert_eq!(
        graph.node[6].attribute[0].t.as_ref().unwrap().data_type,
        half
    );
    let quantised = vec![
        node("DynamicQuantizeLinear", &["x"], "q"),
        node("Range", &["one", "x", "x"], "y"),
    ];
    let plan = Plan::new(
        model(17, quantised, vec![constant("one", &[], |_| 1.0)]),
        Scheme::F16,
        &Exclusions::default(),
    );
    let error = plan
        .unwrap()
        .quantized_model(&BTreeMap::new())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("quantised operators") && error.contains("Range"),
        "{error}"
    );
}
