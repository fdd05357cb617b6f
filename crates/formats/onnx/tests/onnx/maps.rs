//! Maps of `ai.onnx.ml` as tensors with a column for each key.

use crate::build::*;
use tenon_base::Control;
use tenon_onnx::Model;
use tenon_onnx::proto::*;

fn map_type(key: i32) -> TypeProto {
    let element = TensorTypeProto {
        elem_type: data_type::FLOAT,
        shape: None,
    };
    let value = TypeProto {
        value: Some(TypeValue::Tensor(element)),
    };
    TypeProto {
        value: Some(TypeValue::Map(MapTypeProto {
            key_type: key,
            value_type: Some(Box::new(value)),
        })),
    }
}

fn declared(name: &str, ty: TypeProto) -> ValueInfoProto {
    ValueInfoProto {
        name: name.into(),
        r#type: Some(Box::new(ty)),
    }
}

fn strings(name: &str, values: &[&str]) -> AttributeProto {
    let values = values.iter().map(|text| text.as_bytes().to_vec().into());
    AttributeProto {
        name: name.into(),
        r#type: attribute_type::STRINGS,
        strings: values.collect(),
        ..AttributeProto::default()
    }
}

/// A model that makes maps of `x`, f32 [2, 3].
fn zipped(attributes: &[AttributeProto]) -> Build {
    let node = within("ai.onnx.ml", node("ZipMap", &["x"], &["y"], attributes));
    let build = model(21).opset("ai.onnx.ml", 1).input("x", &["2", "3"]);
    build.node(named("zip", node)).output("y")
}

/// A model that takes a map of strings, read by these nodes.
fn taken(nodes: Vec<NodeProto>) -> Build {
    let mut build = model(21).opset("ai.onnx.ml", 1);
    let input = declared("x", map_type(data_type::STRING));
    build.graph().input.push(input);
    for (at, node) in nodes.into_iter().enumerate() {
        let name = format!("n{at}");
        build = build.output(&node.output[0]);
        build = build.node(named(&name, within("ai.onnx.ml", node)));
    }
    build
}

fn vectorizer(output: &str, keys: &[&str]) -> NodeProto {
    let keys = strings("string_vocabulary", keys);
    node("DictVectorizer", &["x"], &[output], &[keys])
}

#[test]
fn keys_of_maps_are_metadata() {
    let text = zipped(&[ints("classlabels_int64s", &[4, -1, 2])]).text();
    assert!(
        text.contains(r#"metadata "tenon.keys.y" = "[4,-1,2]""#),
        "{text}"
    );
    let text = taken(vec![vectorizer("y", &["b", "a"])]).text();
    assert!(
        text.contains(r#"metadata "tenon.keys.x" = "[\"b\",\"a\"]""#),
        "{text}"
    );
}

#[test]
fn a_signature_shows_maps() {
    let mut build = taken(vec![vectorizer("y", &["b", "a"])]);
    let maps = ElementTypeProto {
        elem_type: Some(Box::new(map_type(data_type::INT64))),
    };
    let sequence = TypeProto {
        value: Some(TypeValue::Sequence(maps)),
    };
    build.graph().output.push(declared("maps", sequence));
    let model = Model::from_bytes(build.bytes(), &Control::new()).unwrap();
    let signature = model.signature();
    assert_eq!(signature.inputs[0].to_string(), "map of f32 by string");
    let maps = signature.outputs[1].to_string();
    assert_eq!(maps, "sequence of map of f32 by i64");
}

#[test]
fn wrong_keys_are_refused() {
    let error = zipped(&[strings("classlabels_strings", &["a", "b", "a"])]).error();
    let expected =
        "attribute 'classlabels_strings': node 'zip': elements 0 and 2 are the same key \"a\"";
    assert!(error.contains(expected), "{error}");
    let error = zipped(&[]).error();
    let expected =
        "not one of attributes 'classlabels_strings' and 'classlabels_int64s' has elements";
    assert!(error.contains(expected), "{error}");
    let error = taken(vec![vectorizer("y", &["a"]), vectorizer("z", &["b"])]).error();
    let expected = "input 'x' is a map with other keys for another node";
    assert!(error.contains(expected), "{error}");
    let cast = |attributes: &[AttributeProto]| {
        taken(vec![node("CastMap", &["x"], &["y"], attributes)]).error()
    };
    let error = cast(&[string("map_form", "DENSE")]);
    assert!(error.contains("form DENSE"), "{error}");
    let sparse = string("map_form", "SPARSE");
    let huge = AttributeProto {
        name: "max_map".into(),
        r#type: attribute_type::INT,
        i: Some(i64::MAX),
        ..AttributeProto::default()
    };
    let error = cast(&[sparse, huge]);
    assert!(
        error.contains("the number of columns is out of range"),
        "{error}"
    );
}

#[test]
fn maps_elsewhere_are_refused() {
    let error = taken(Vec::new()).output("x").error();
    let expected = "an input that is a map that no DictVectorizer or CastMap reads";
    assert!(error.contains(expected), "{error}");
    let error = zipped(&[ints("classlabels_int64s", &[4, -1, 2])])
        .node(node("Neg", &["y"], &["z"], &[]))
        .output("z")
        .import();
    assert!(error.is_ok(), "the rows of a map are a tensor");
    let mut inner = zipped(&[ints("classlabels_int64s", &[4, -1, 2])]);
    inner.graph().output.clear();
    let error = inner.node(node("Neg", &["y"], &["z"], &[])).output("z");
    let error = error.error();
    assert!(
        error.contains("a map that is not an output of the model"),
        "{error}"
    );
}
