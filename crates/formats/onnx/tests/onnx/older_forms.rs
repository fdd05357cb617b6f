//! Upgrade of older and foreign operators.

use crate::build::*;
use tenon_onnx::proto::*;
use tenon_tensor::{DataType, convert};

/// The text of a model of `opset` with one node over `x` [2, 3, 4] (and more inputs, if it has).
fn upgraded(opset: i64, node: NodeProto) -> String {
    with_inputs(opset, node).text()
}

fn with_inputs(opset: i64, node: NodeProto) -> Build {
    let mut build = model(opset).opset("com.microsoft", 1);
    for name in node.input.iter().filter(|name| !name.is_empty()) {
        build = build.input(name, &["2", "3", "4"]);
    }
    for name in &node.output {
        build = build.output(name);
    }
    build.node(named("n", node))
}

#[test]
fn axes_become_inputs() {
    for (op, version) in [
        ("Squeeze", 12),
        ("Unsqueeze", 12),
        ("ReduceSum", 12),
        ("ReduceMean", 17),
    ] {
        assert_eq!(
            upgraded(version, node(op, &["x"], &["y"], &[ints("axes", &[0, -1])])),
            format!("const %n/axes: i64[2] = [0, -1]\n%y = {op}(%x, %n/axes) @n")
        );
    }
    assert_eq!(
        upgraded(13, node("ReduceMax", &["x"], &["y"], &[int("keepdims", 0)])),
        "%y = ReduceMax(%x) {keepdims = 0} @n"
    );
    let error = with_inputs(12, node("Unsqueeze", &["x"], &["y"], &[])).error();
    assert_eq!(error, "node 'n': attribute 'axes' is missing");
}

#[test]
fn bounds_pads_and_parts_become_inputs() {
    assert_eq!(
        upgraded(
            10,
            node(
                "Clip",
                &["x"],
                &["y"],
                &[float("min", 0.0), float("max", 6.0)]
            )
        ),
        "const %n/min: f32[] = [0.0]\nconst %n/max: f32[] = [6.0]\n%y = Clip(%x, %n/min, %n/max) @n"
    );
    assert_eq!(
        upgraded(
            7,
            node(
                "Clip",
                &["x"],
                &["y"],
                &[float("min", f32::MIN), float("max", 1.0)]
            )
        ),
        "const %n/max: f32[] = [1.0]\n%y = Clip(%x, _, %n/max) @n"
    );
    assert_eq!(
        upgraded(
            10,
            node(
                "Pad",
                &["x"],
                &["y"],
                &[ints("pads", &[1, 2]), float("value", 2.0)]
            )
        ),
        "const %n/pads: i64[2] = [1, 2]\nconst %n/value: f32[] = [2.0]\n\
         %y = Pad(%x, %n/pads, %n/value) @n"
    );
    let attributes = [ints("starts", &[1]), ints("ends", &[2]), ints("axes", &[0])];
    assert_eq!(
        upgraded(9, node("Slice", &["x"], &["y"], &attributes)),
        "const %n/starts: i64[1] = [1]\nconst %n/ends: i64[1] = [2]\nconst %n/axes: i64[1] = [0]\n\
         %y = Slice(%x, %n/starts, %n/ends, %n/axes) @n"
    );
    assert_eq!(
        upgraded(
            11,
            node(
                "Split",
                &["x"],
                &["y", "z"],
                &[ints("split", &[1, 2]), int("axis", 1)]
            )
        ),
        "const %n/split: i64[2] = [1, 2]\n%y, %z = Split(%x, %n/split) {axis = 1} @n"
    );
    for opset in [11, 13, 17] {
        assert_eq!(
            upgraded(opset, node("Split", &["x"], &["y", "z"], &[])),
            "%y, %z = Split(%x) {num_outputs = 2} @n"
        );
    }
    assert_eq!(
        upgraded(9, node("TopK", &["x"], &["y", "z"], &[int("k", 2)])),
        "const %n/k: i64[1] = [2]\n%y, %z = TopK(%x, %n/k) @n"
    );
    assert_eq!(
        upgraded(10, node("Dropout", &["x"], &["y"], &[float("ratio", 0.1)])),
        "const %n/ratio: f32[] = [0.1]\n%y = Dropout(%x, %n/ratio) @n"
    );
}

#[test]
fn constants_have_the_type_of_their_input() {
    let build = model(10)
        .typed_input("x", data_type::FLOAT16, &["2"])
        .node(named("abs", node("Abs", &["x"], &["a"], &[])))
        .node(named(
            "n",
            node("Clip", &["a"], &["y"], &[float("max", 6.0)]),
        ))
        .output("y");
    let graph = build.import().unwrap();
    let bound = graph
        .value(graph.nodes[1].inputs[2].unwrap())
        .constant
        .as_ref()
        .unwrap();
    assert_eq!(bound.ty().to_string(), "f16[]");
    assert_eq!(bound.bytes(), 0x4600u16.to_le_bytes());
}

#[test]
fn softmax_over_several_dimensions_is_reshaped_to_a_matrix() {
    for axis in [-1, 2] {
        assert_eq!(
            upgraded(11, node("Softmax", &["x"], &["y"], &[int("axis", axis)])),
            "%y = Softmax(%x) {axis = -1} @n"
        );
    }
    assert_eq!(
        upgraded(11, node("LogSoftmax", &["x"], &["y"], &[])),
        "%n/Shape = Shape(%x) @n/Shape\n\
         %n/Flatten = Flatten(%x) {axis = 1} @n/Flatten\n\
         %n/LogSoftmax = LogSoftmax(%n/Flatten) {axis = -1} @n/LogSoftmax\n\
         %y = Reshape(%n/LogSoftmax, %n/Shape) @n"
    );
    assert_eq!(
        upgraded(13, node("Softmax", &["x"], &["y"], &[int("axis", 1)])),
        "%y = Softmax(%x) {axis = 1} @n"
    );
}

#[test]
fn upsample_becomes_resize() {
    let resize = "%y = Resize(%x, _, %n/scales) {coordinate_transformation_mode = \"asymmetric\", \
                  mode = \"linear\", nearest_mode = \"floor\"} @n";
    assert_eq!(
        upgraded(
            7,
            node(
                "Upsample",
                &["x"],
                &["y"],
                &[
                    string("mode", "linear"),
                    float_list("scales", &[1.0, 1.0, 2.0])
                ]
            )
        ),
        format!("const %n/scales: f32[3] = [1.0, 1.0, 2.0]\n{resize}")
    );
    let build = model(10)
        .input("x", &["2"])
        .floats("scales", &[1], &[0.5])
        .node(named("n", node("Resize", &["x", "scales"], &["y"], &[])))
        .output("y");
    assert_eq!(
        build.text(),
        "const %scales: f32[1] = [0.5]\n\
         %y = Resize(%x, _, %scales) {coordinate_transformation_mode = \"asymmetric\", mode = \
         \"nearest\", nearest_mode = \"ceil\"} @n"
    );
}

#[test]
fn normalizations_are_upgraded() {
    let inputs = ["x", "s", "b", "m", "v"];
    assert_eq!(
        upgraded(
            7,
            node("BatchNormalization", &inputs, &["y"], &[int("spatial", 1)])
        ),
        "%y = BatchNormalization(%x, %s, %b, %m, %v) @n"
    );
    let error = with_inputs(
        7,
        node("BatchNormalization", &inputs, &["y"], &[int("spatial", 0)]),
    )
    .error();
    assert_eq!(
        error,
        "node 'n': operator BatchNormalization, version 7: unsupported value of attribute \
         'spatial': 0 (statistics for each element)"
    );
    let error = with_inputs(9, node("BatchNormalization", &inputs, &["y", "mean"], &[])).error();
    assert!(
        error.contains("BatchNormalization has too many outputs"),
        "{error}"
    );
    assert_eq!(
        upgraded(
            18,
            node(
                "GroupNormalization",
                &["x", "s", "b"],
                &["y"],
                &[int("num_groups", 3)]
            )
        ),
        "const %n/groups: i64[3] = [0, 3, -1]\n\
         %n/Shape = Shape(%x) @n/Shape\n\
         %n/Reshape = Reshape(%x, %n/groups) @n/Reshape\n\
         %n/InstanceNormalization = InstanceNormalization(%n/Reshape, %s, %b) {epsilon = 1e-5} \
         @n/InstanceNormalization\n\
         %y = Reshape(%n/InstanceNormalization, %n/Shape) @n"
    );
}

#[test]
fn modes_and_operators_are_renamed() {
    assert_eq!(
        upgraded(
            16,
            node(
                "GridSample",
                &["x", "g"],
                &["y"],
                &[string("mode", "bicubic")]
            )
        ),
        "%y = GridSample(%x, %g) {mode = \"cubic\"} @n"
    );
    let build = model(9)
        .input("x", &["2"])
        .typed_input("i", data_type::INT64, &["1"])
        .input("u", &["1"])
        .node(named("n", node("Scatter", &["x", "i", "u"], &["y"], &[])))
        .output("y");
    assert_eq!(build.text(), "%y = ScatterElements(%x, %i, %u) @n");
}

fn microsoft(op: &str, inputs: &[&str], outputs: &[&str], attributes: &[AttributeProto]) -> Build {
    with_inputs(
        17,
        within("com.microsoft", node(op, inputs, outputs, attributes)),
    )
}

#[test]
fn common_operators_of_onnxruntime_are_imported() {
    assert_eq!(
        microsoft("Gelu", &["x"], &["y"], &[]).text(),
        "%y = Gelu(%x) @n"
    );
    assert_eq!(
        microsoft("FastGelu", &["x", "b"], &["y"], &[]).text(),
        "%n/Add = Add(%x, %b) @n/Add\n%y = Gelu(%n/Add) {approximate = \"tanh\"} @n"
    );
    assert_eq!(
        microsoft("QuickGelu", &["x"], &["y"], &[]).text(),
        "%y = Swish(%x) {alpha = 1.702} @n"
    );
    let attributes = [
        int("transB", 1),
        float("alpha", 0.125),
        int("transBatchA", 0),
    ];
    assert_eq!(
        microsoft("FusedMatMul", &["a", "b"], &["y"], &attributes).text(),
        "%y = tenon.MatMul(%a, %b) {scale = 0.125, trans_b = 1} @n"
    );
    let error = microsoft("FusedMatMul", &["a", "b"], &["y"], &[int("transBatchA", 1)]).error();
    assert!(
        error.contains("unsupported value of attribute 'transBatchA': 1"),
        "{error}"
    );
    let attributes = [
        string("activation", "LeakyRelu"),
        float_list("activation_params", &[0.1]),
    ];
    assert_eq!(
        microsoft("FusedConv", &["x", "w", "b", "z"], &["y"], &attributes).text(),
        "%n/Conv = Conv(%x, %w, %b) @n/Conv\n\
         %n/Add = Add(%n/Conv, %z) @n/Add\n\
         %y = LeakyRelu(%n/Add) {alpha = 0.1} @n"
    );
}

/// A node of com.microsoft on tensors of i8 with scales, whose names end with `s`; `c` is of i32.
fn quantized(op: &str, inputs: &[&str], outputs: &[&str], attributes: &[AttributeProto]) -> Build {
    let mut build = model(17).opset("com.microsoft", 1);
    for name in inputs.iter().filter(|name| !name.is_empty()) {
        let dtype = match *name {
            "c" => data_type::INT32,
            name if name.ends_with('s') => data_type::FLOAT,
            _ => data_type::INT8,
        };
        build = build.typed_input(name, dtype, &["2", "3", "4"]);
    }
    let node = within("com.microsoft", node(op, inputs, outputs, attributes));
    build.node(named("n", node)).output(outputs[0])
}

#[test]
fn operators_on_quantized_tensors_are_imported_between_quantizations() {
    let inputs = ["a", "as", "az", "b", "bs", "", "ys", "yz"];
    assert_eq!(
        quantized("QLinearAdd", &inputs, &["y"], &[]).text(),
        "%n/DequantizeLinear = DequantizeLinear(%a, %as, %az) @n/DequantizeLinear\n\
         %n/DequantizeLinear.1 = DequantizeLinear(%b, %bs) @n/DequantizeLinear.1\n\
         %n/Add = Add(%n/DequantizeLinear, %n/DequantizeLinear.1) @n/Add\n\
         %y = QuantizeLinear(%n/Add, %ys, %yz) @n"
    );
    let attributes = [int("channels_last", 0), ints("kernel_shape", &[2, 2])];
    assert_eq!(
        quantized(
            "QLinearAveragePool",
            &["a", "as", "az", "ys"],
            &["y"],
            &attributes
        )
        .text(),
        "%n/DequantizeLinear = DequantizeLinear(%a, %as, %az) @n/DequantizeLinear\n\
         %n/AveragePool = AveragePool(%n/DequantizeLinear) {kernel_shape = [2, 2]} @n/AveragePool\n\
         %y = QuantizeLinear(%n/AveragePool, %ys) {output_dtype = \"i8\"} @n"
    );
    let inputs = ["a", "as", "az", "ys", "yz"];
    let pool = quantized(
        "QLinearGlobalAveragePool",
        &inputs,
        &["y"],
        &[int("channels_last", 1)],
    );
    let error = pool.error();
    assert!(error.contains("attribute 'channels_last': 1"), "{error}");
    let leaky = quantized("QLinearLeakyRelu", &inputs, &["y"], &[float("alpha", 0.5)]).text();
    assert!(
        leaky.contains("= LeakyRelu(%n/DequantizeLinear) {alpha = 0.5}"),
        "{leaky}"
    );
    let softmax = |axis, opset| {
        let attributes = [int("axis", axis), int("opset", opset)];
        quantized("QLinearSoftmax", &inputs, &["y"], &attributes)
    };
    for (axis, opset) in [(2, 12), (1, 13)] {
        let text = softmax(axis, opset).text();
        assert!(
            text.contains(&format!("Softmax(%n/DequantizeLinear) {{axis = {axis}}}")),
            "{text}"
        );
    }
    let error = softmax(1, 12).error();
    assert!(error.contains("attribute 'opset': 12"), "{error}");
    let inputs = ["ys", "yz", "a", "as", "az", "b", "bs", "bz"];
    assert_eq!(
        quantized("QLinearConcat", &inputs, &["y"], &[int("axis", 1)]).text(),
        "%n/DequantizeLinear = DequantizeLinear(%a, %as, %az) @n/DequantizeLinear\n\
         %n/DequantizeLinear.1 = DequantizeLinear(%b, %bs, %bz) @n/DequantizeLinear.1\n\
         %n/Concat = Concat(%n/DequantizeLinear, %n/DequantizeLinear.1) {axis = 1} @n/Concat\n\
         %y = QuantizeLinear(%n/Concat, %ys, %yz) @n"
    );
    let inputs = ["a", "as", "az", "b", "bs", "bz", "c", "ys", "yz"];
    let operands = "%n/DequantizeLinear = DequantizeLinear(%a, %as, %az) @n/DequantizeLinear\n\
         %n/DequantizeLinear.1 = DequantizeLinear(%b, %bs, %bz) {axis = 0} @n/DequantizeLinear.1\n\
         %n/Mul = Mul(%as, %bs) @n/Mul\n\
         %n/DequantizeLinear.2 = DequantizeLinear(%c, %n/Mul) {axis = -1} @n/DequantizeLinear.2\n";
    let product =
        "Gemm(%n/DequantizeLinear, %n/DequantizeLinear.1, %n/DequantizeLinear.2) {transB = 1}";
    assert_eq!(
        quantized("QGemm", &inputs, &["y"], &[int("transB", 1)]).text(),
        format!("{operands}%n/Gemm = {product} @n/Gemm\n%y = QuantizeLinear(%n/Gemm, %ys, %yz) @n")
    );
    assert_eq!(
        quantized("QGemm", &inputs[..7], &["y"], &[int("transB", 1)]).text(),
        format!("{operands}%y = {product} @n")
    );
    let error = quantized("QGemm", &inputs, &["y"], &[float("alpha", 0.5)]).error();
    assert!(error.contains("attribute 'alpha': 0.5"), "{error}");
}

/// MatMulNBits of two columns and 32 rows with weights of these bytes.
fn weights_of_bits(bytes: &[u8], inputs: &[&str], attributes: &[AttributeProto]) -> Build {
    let mut build = model(21).opset("com.microsoft", 1).input("x", &["4", "32"]);
    build.graph().initializer.push(TensorProto {
        name: "w".into(),
        data_type: data_type::UINT8,
        dims: vec![2, 1, bytes.len() as i64 / 2],
        raw_data: Some(bytes.to_vec().into()),
        ..TensorProto::default()
    });
    build.graph().initializer.push(TensorProto {
        name: "z".into(),
        data_type: data_type::UINT8,
        dims: vec![2],
        raw_data: Some(vec![3, 0xFC].into()),
        ..TensorProto::default()
    });
    let build = build
        .floats("s", &[2], &[0.5, 0.25])
        .floats("half", &[2], &[0.5, 0.5]);
    let sizes = [int("K", 32), int("N", 2)];
    let attributes = [&sizes[..], attributes].concat();
    let node = within(
        "com.microsoft",
        node("MatMulNBits", inputs, &["y"], &attributes),
    );
    build.input("b", &["2"]).node(named("n", node)).output("y")
}

#[test]
fn weights_of_some_bits_are_dequantized() {
    let block = int("block_size", 32);
    let block_only = [block.clone()];
    let bytes: Vec<u8> = (0..32).collect();
    let text = weights_of_bits(&bytes, &["x", "w", "s", "z", "", "b"], &block_only).text();
    let lines: Vec<&str> = text.lines().collect();
    let expected = [
        "%n/DequantizeLinear = DequantizeLinear(%n/weights, %n/scales, %n/zero_points) \
         {axis = 1, block_size = 32} @n/DequantizeLinear",
        "%n/Transpose = Transpose(%n/DequantizeLinear) {perm = [1, 0]} @n/Transpose",
        "%n/MatMul = MatMul(%x, %n/Transpose) @n/MatMul",
        "%y = Add(%n/MatMul, %b) @n",
    ];
    assert_eq!(lines[3..], expected);
    let constant = |build: Build, name: &str| {
        let graph = build.import().unwrap();
        let mut values = graph.values.iter();
        let value = values.find(|value| value.name == name).unwrap();
        let whole = convert(value.constant.as_ref().unwrap(), DataType::I32).unwrap();
        whole.to_i64s().unwrap()
    };
    // The upper bits of a byte of zero points do not count.
    let build = weights_of_bits(&bytes, &["x", "w", "s", "z"], &block_only);
    assert_eq!(constant(build, "n/zero_points"), [3, 12]);
    let build = weights_of_bits(&bytes, &["x", "w", "s", "z"], &block_only);
    assert_eq!(constant(build, "n/weights")[..4], [0, 0, 1, 0]);
    // Without zero points the weights are signed.
    let build = weights_of_bits(&bytes, &["x", "w", "s"], &block_only);
    assert_eq!(constant(build, "n/weights")[..4], [-8, -8, -7, -8]);
    for (bytes, inputs, attributes, expected) in [
        (
            &bytes[..],
            &["x", "w", "s"][..],
            &[][..],
            "attribute 'block_size' is missing",
        ),
        (
            &bytes[1..31],
            &["x", "w", "s"],
            &block_only,
            "input 'B' has the wrong size",
        ),
        (
            &bytes,
            &["x", "w", "w"],
            &block_only,
            "input 'scales' has the wrong size",
        ),
        (&bytes, &["x", "w", "s", "half"], &block_only, "no integer"),
        (
            &bytes,
            &["x", "b", "s"],
            &block_only,
            "input 'B' is not a constant",
        ),
        (
            &bytes,
            &["x", "w", "s"],
            &[block.clone(), int("bits", 3)],
            "attribute 'bits': 3 (supported: 2, 4, 8)",
        ),
        (
            &bytes,
            &["x", "w", "s"],
            &[int("block_size", 15)],
            "attribute 'block_size': 15 (supported: multiples of 2)",
        ),
        (
            &bytes,
            &["x", "w", "s"],
            &[int("block_size", i64::MAX - 1), int("bits", 8)],
            "address space",
        ),
    ] {
        let error = weights_of_bits(bytes, inputs, attributes).error();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

/// A constant of bytes; of `TensorProto::UINT8` or `INT8`.
fn bytes(name: &str, dtype: i32, dims: &[i64], data: &[u8]) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type: dtype,
        dims: dims.to_vec(),
        raw_data: Some(data.to_vec().into()),
        ..TensorProto::default()
    }
}

#[test]
fn products_of_integers_are_scaled() {
    let sums = "%n/Cast = Cast(%n/MatMulInteger) {to = \"f32\"} @n/Cast\n";
    let build = model(17)
        .opset("com.microsoft", 1)
        .input("a", &["2", "3"])
        .typed_input("b", data_type::INT8, &["3", "4"])
        .input("bs", &["4"])
        .typed_input("bz", data_type::INT8, &["4"])
        .input("bias", &["4"]);
    let inputs = ["a", "b", "bs", "bz", "bias"];
    let dynamic = |count: usize| {
        let node = node("DynamicQuantizeMatMul", &inputs[..count], &["y"], &[]);
        let build = build.clone();
        let node = named("n", within("com.microsoft", node));
        build.node(node).output("y").text()
    };
    let operand = "%n/DynamicQuantizeLinear, %n/DynamicQuantizeLinear.1, %n/DynamicQuantizeLinear.2 = \
                     DynamicQuantizeLinear(%a) @n/DynamicQuantizeLinear\n";
    let product =
        "%n/MatMulInteger = MatMulInteger(%n/DynamicQuantizeLinear, %b, %n/DynamicQuantizeLinear.2";
    let scale = "%n/Mul = Mul(%n/DynamicQuantizeLinear.1, %bs) @n/Mul\n";
    assert_eq!(
        dynamic(3),
        format!("{operand}{product}) @n/MatMulInteger\n{sums}{scale}%y = Mul(%n/Cast, %n/Mul) @n")
    );
    assert_eq!(
        dynamic(5),
        format!(
            "{operand}{product}, %bz) @n/MatMulInteger\n{sums}{scale}\
             %n/Mul.1 = Mul(%n/Cast, %n/Mul) @n/Mul.1\n%y = Add(%n/Mul.1, %bias) @n"
        )
    );
    let inputs = ["a", "b", "as", "bs", "", "bz"];
    assert_eq!(
        quantized("MatMulIntegerToFloat", &inputs, &["y"], &[]).text(),
        format!(
            "%n/MatMulInteger = MatMulInteger(%a, %b, _, %bz) @n/MatMulInteger\n{sums}\
             %n/Mul = Mul(%as, %bs) @n/Mul\n%y = Mul(%n/Cast, %n/Mul) @n"
        )
    );
}

/// GatherBlockQuantized of a table of 2 rows.
fn rows_of_blocks(inputs: &[&str], attributes: &[AttributeProto]) -> Build {
    let data: Vec<u8> = (0..32).collect();
    let mut build =
        model(21)
            .opset("com.microsoft", 1)
            .typed_input("i", data_type::INT64, &["3", "2"]);
    for tensor in [
        bytes("d", data_type::UINT8, &[2, 16], &data),
        bytes("z", data_type::UINT8, &[2, 1], &[0x21, 0x43]),
        bytes("wide", data_type::UINT8, &[2, 2], &[0; 4]),
        bytes("signed", data_type::INT8, &[2, 16], &data),
    ] {
        build.graph().initializer.push(tensor);
    }
    let node = node("GatherBlockQuantized", inputs, &["y"], attributes);
    build
        .floats("s", &[2, 2], &[1.0; 4])
        .input("x", &["2", "16"])
        .node(named("n", within("com.microsoft", node)))
        .output("y")
}

#[test]
fn rows_of_quantized_tables_are_dequantized_alone() {
    let block = int("block_size", 16);
    let block_only = [block.clone()];
    let graph = rows_of_blocks(&["d", "i", "s", "z"], &block_only).import();
    let graph = graph.unwrap();
    let text = body(&graph);
    let lines: Vec<&str> = text.lines().collect();
    let expected = [
        "%n/Gather = Gather(%n/data, %i) {axis = 0} @n/Gather",
        "%n/Gather.1 = Gather(%n/scales, %i) {axis = 0} @n/Gather.1",
        "%n/Gather.2 = Gather(%n/zero_points, %i) {axis = 0} @n/Gather.2",
        "%y = DequantizeLinear(%n/Gather, %n/Gather.1, %n/Gather.2) \
         {axis = -1, block_size = 16} @n",
    ];
    assert_eq!(lines[lines.len() - 4..], expected);
    let constant = |graph: &tenon_graph::Graph, name: &str| {
        let mut values = graph.values.iter();
        let value = values.find(|value| value.name == name).unwrap();
        let tensor = value.constant.clone().unwrap();
        let whole = convert(&tensor, DataType::I32).unwrap();
        (tensor.ty().to_string(), whole.to_i64s().unwrap())
    };
    assert_eq!(constant(&graph, "n/data").0, "u4[2, 32]");
    let expected = ("u4[2, 2]".to_owned(), vec![1, 2, 3, 4]);
    assert_eq!(constant(&graph, "n/zero_points"), expected);
    // Without zero points the integers are signed.
    let graph = rows_of_blocks(&["d", "i", "s"], &block_only).import();
    let (ty, integers) = constant(&graph.unwrap(), "n/data");
    assert_eq!(
        (ty.as_str(), &integers[..4]),
        ("i4[2, 32]", &[-8, -8, -7, -8][..])
    );
    // Along one axis the table is dequantized before, which is done when compiling.
    let same = [block.clone(), int("gather_axis", -1)];
    let text = rows_of_blocks(&["d", "i", "s"], &same).text();
    assert!(
        text.contains("%n/DequantizeLinear = DequantizeLinear(%n/data, %n/scales) {axis = 1,")
            && text.ends_with("%y = Gather(%n/DequantizeLinear, %i) {axis = 1} @n"),
        "{text}"
    );
    for (inputs, attributes, expected) in [
        (
            &["x", "i", "s"][..],
            &block_only[..],
            "input 'data' is not a constant",
        ),
        (
            &["signed", "i", "s"],
            &block_only,
            "input 'data' of type i8 (supported: i4, u4, u8)",
        ),
        (
            &["d", "i", "s"],
            &[int("block_size", 0)],
            "node 'n': attribute 'block_size' is not positive: found 0",
        ),
        (
            &["d", "i", "s"],
            &[],
            "input 'scales' has the wrong shape: expected [2, 1], found [2, 2]",
        ),
        (
            &["d", "i", "s", "wide"],
            &block_only,
            "input 'zero_points' has the wrong shape: expected [2, 1], found [2, 2]",
        ),
        (
            &["d", "i", "s", "signed"],
            &block_only,
            "input 'zero_points' has the wrong type: expected u8, found i8",
        ),
        (
            &["d", "i", "s"],
            &[block.clone(), int("bits", 3)],
            "attribute 'bits': 3 for data of type u8",
        ),
        (
            &["d", "i", "s"],
            &[block.clone(), int("gather_axis", 2)],
            "attribute 'gather_axis' is out of range: expected -2 to 1, found 2",
        ),
    ] {
        let error = rows_of_blocks(inputs, attributes).error();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn weights_of_quantized_recurrent_layers_are_dequantized() {
    let layer = |scales: &[i64], zeros: &[i64], w: &str| {
        let mut build = model(17)
            .opset("com.microsoft", 1)
            .input("x", &["5", "1", "3"])
            .input("unknown", &["1", "3", "8"]);
        for tensor in [
            bytes("w", data_type::INT8, &[1, 3, 8], &[1; 24]),
            bytes("r", data_type::INT8, &[1, 2, 8], &[1; 16]),
            bytes("flat", data_type::INT8, &[24], &[1; 24]),
            bytes(
                "z",
                data_type::INT8,
                zeros,
                &[0; 8][..zeros.iter().product::<i64>() as usize],
            ),
        ] {
            build.graph().initializer.push(tensor);
        }
        let count = scales.iter().product::<i64>() as usize;
        let inputs = ["x", w, "r", "", "", "", "", "", "s", "z", "s", "z"];
        let layer = node(
            "DynamicQuantizeLSTM",
            &inputs,
            &["y"],
            &[int("hidden_size", 2)],
        );
        build
            .floats("s", scales, &[0.5; 8][..count])
            .node(named("n", within("com.microsoft", layer)))
            .output("y")
    };
    for (shape, attributes) in [
        (&[1][..], "{axis = 0, block_size = 0}"),
        (&[1, 8], "{axis = 1, block_size = 3}"),
    ] {
        let text = layer(shape, shape, "w").text();
        let expected = format!(
            "%n/DequantizeLinear = DequantizeLinear(%w, %n/W_scale, %n/W_zero_point) {attributes} \
             @n/DequantizeLinear\n\
             %n/Transpose = Transpose(%n/DequantizeLinear) {{perm = [0, 2, 1]}} @n/Transpose\n"
        );
        assert!(text.contains(&expected), "{text}");
        let end = "%y = LSTM(%x, %n/Transpose, %n/Transpose.1) {hidden_size = 2} @n";
        assert!(text.ends_with(end), "{text}");
    }
    for (scales, zeros, w, expected) in [
        (
            &[3][..],
            &[1][..],
            "w",
            "node 'n': input 'W_scale' has the wrong size: expected 1 or 8 elements, found [3]",
        ),
        (
            &[1, 8],
            &[1],
            "w",
            "input 'W_zero_point' has the wrong size: expected 8 elements, found [1]",
        ),
        (
            &[1],
            &[1],
            "flat",
            "input 'W' has the wrong rank: expected 3, found 1",
        ),
        (&[1], &[1], "unknown", "input 'W' is not a constant"),
    ] {
        let error = layer(scales, zeros, w).error();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn skip_normalizations_have_their_sum_as_output() {
    let skip = within(
        "com.microsoft",
        node(
            "SkipLayerNormalization",
            &["x", "s", "g", "", "c"],
            &["y", "", "", "sum"],
            &[],
        ),
    );
    let mut build = model(17).opset("com.microsoft", 1);
    for name in ["x", "s", "g", "c"] {
        build = build.input(name, &["4"]);
    }
    let build = build.node(named("n", skip)).output("y").output("sum");
    assert_eq!(
        build.text(),
        "%n/Add = Add(%x, %s) @n/Add\n\
         %sum = Add(%n/Add, %c) @n/Add.1\n\
         %y = LayerNormalization(%sum, %g) {axis = -1, epsilon = 1e-12} @n"
    );
    assert_eq!(
        microsoft(
            "SkipSimplifiedLayerNormalization",
            &["x", "s", "g"],
            &["y"],
            &[]
        )
        .text(),
        "%n/Add = Add(%x, %s) @n/Add\n\
         %y = RMSNormalization(%n/Add, %g) {axis = -1, epsilon = 1e-12} @n"
    );
}

#[test]
fn sets_before_the_seventh_have_the_operators_of_the_same_form() {
    assert_eq!(
        upgraded(1, node("Transpose", &["x"], &["y"], &[])),
        "%y = Transpose(%x) @n"
    );
    assert_eq!(
        upgraded(6, node("Relu", &["x"], &["y"], &[])),
        "%y = Relu(%x) @n"
    );
    for (set, operator) in [(5, "Relu"), (6, "Dropout"), (1, "Reshape")] {
        let error = with_inputs(set, node(operator, &["x"], &["y"], &[])).error();
        let expected = format!(
            "node 'n': operator {operator}, version {set}: a form from before operator set 7"
        );
        assert!(error.starts_with(&expected), "{error}");
    }
}

fn optimizer(inputs: &[&str], outputs: &[&str], attributes: &[AttributeProto]) -> Build {
    let domain = "ai.onnx.preview.training";
    let node = within(domain, node("Momentum", inputs, outputs, attributes));
    with_inputs(17, node).opset(domain, 1)
}

#[test]
fn optimizers_are_composed() {
    let attributes = [
        float("alpha", 0.5),
        float("beta", 0.25),
        float("norm_coefficient", 0.0),
        string("mode", "nesterov"),
    ];
    let inputs = ["r", "t", "a", "b", "da", "db", "sa", "sb"];
    let outputs = ["new_a", "new_b", "new_sa", "new_sb"];
    let graph = optimizer(&inputs, &outputs, &attributes).import().unwrap();
    assert_eq!(graph.outputs.len(), 4);
    assert!(graph.nodes.iter().any(|node| node.op.name == "Where"));

    let error = optimizer(&inputs[..7], &outputs, &attributes).error();
    assert_eq!(
        error,
        "node 'n': the number of tensors of an optimizer: expected a multiple of 3, found 5"
    );
    let error = optimizer(&inputs, &outputs, &attributes[..3]).error();
    assert!(
        error.contains("attribute 'mode' has an unknown value"),
        "{error}"
    );
    let error = optimizer(&inputs, &outputs, &attributes[1..]).error();
    assert_eq!(error, "node 'n': attribute 'alpha' is missing");
}
