//! What is wrong with trees, tables and vectors of `ai.onnx.ml`.

use crate::build::*;
use tenon_onnx::proto::*;

/// A node of ai.onnx.ml over `x`, f32 [2, 3].
fn ml(op: &str, outputs: &[&str], attributes: &[AttributeProto]) -> Build {
    let mut build = model(21).opset("ai.onnx.ml", 3).input("x", &["2", "3"]);
    for name in outputs {
        build = build.output(name);
    }
    let node = within("ai.onnx.ml", node(op, &["x"], outputs, attributes));
    build.node(named("n", node))
}

/// A tree of one comparison and two leaves, with these children, threshold and column.
fn tree(children: [i64; 2], threshold: f32, column: i64) -> Build {
    let modes = ["BRANCH_LEQ", "LEAF", "LEAF"].map(|mode| mode.as_bytes().to_vec());
    let attributes = [
        ints("nodes_treeids", &[0, 0, 0]),
        ints("nodes_nodeids", &[0, 1, 2]),
        ints("nodes_featureids", &[column, 0, 0]),
        float_list("nodes_values", &[threshold, 0.0, 0.0]),
        AttributeProto {
            name: "nodes_modes".into(),
            r#type: attribute_type::STRINGS,
            strings: modes.map(Into::into).to_vec(),
            ..AttributeProto::default()
        },
        ints("nodes_truenodeids", &[children[0], 0, 0]),
        ints("nodes_falsenodeids", &[children[1], 0, 0]),
        ints("target_treeids", &[0, 0]),
        ints("target_nodeids", &[1, 2]),
        ints("target_ids", &[0, 0]),
        float_list("target_weights", &[1.0, 2.0]),
    ];
    ml("TreeEnsembleRegressor", &["y"], &attributes)
}

#[test]
fn a_tree_becomes_the_operator() {
    let text = tree([1, 2], 0.5, 2).text();
    assert!(
        text.contains("= tenon.TreeEnsemble(%x, %n/features,"),
        "{text}"
    );
}

#[test]
fn problems_of_a_tree_are_reported_together() {
    let error = tree([7, 2], f32::NAN, -1).error();
    for expected in [
        "element 0 of attribute 'nodes_truenodeids' is no node of tree 0: found 7",
        "element 0 of attribute 'nodes_values' is NaN",
        "element 0 of attribute 'nodes_featureids' is no column of the input: found -1",
    ] {
        assert!(error.contains(expected), "{expected}: {error}");
    }
    // The comparison follows itself, so that the root is a leaf.
    let error = tree([0, 2], 0.5, 0).error();
    assert!(
        error.contains("node 0 follows itself: the tree has a cycle"),
        "{error}"
    );
}

#[test]
fn keys_are_given_once() {
    let attributes = [
        ints("keys_int64s", &[4, 5, 4, 5]),
        ints("values_int64s", &[1, 2, 3, 4]),
    ];
    let error = ml("LabelEncoder", &["y"], &attributes).error();
    for pair in ["0 and 2", "1 and 3"] {
        let expected = format!("elements {pair} of attribute 'keys_int64s' are the same key");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn strings_are_utf_8() {
    let classes = AttributeProto {
        name: "cats_strings".into(),
        r#type: attribute_type::STRINGS,
        strings: vec![b"one".to_vec().into(), b"\xff".to_vec().into()],
        ..AttributeProto::default()
    };
    let error = ml("OneHotEncoder", &["y"], &[classes]).error();
    let expected = "attribute 'cats_strings': node 'n': a text that is not UTF-8: found element 1";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn lists_of_classes_have_one_length() {
    let attributes = [
        float_list("coefficients", &[0.5; 9]),
        float_list("intercepts", &[0.5; 3]),
        ints("classlabels_ints", &[1, 2]),
    ];
    let error = ml("LinearClassifier", &["l", "y"], &attributes).error();
    let expected =
        "attribute 'classlabels_ints' has the wrong number of elements: expected 3, found 2";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn pairs_of_classes_are_bounded_by_the_constants() {
    let classes: Vec<i64> = (0..60_000).collect();
    let attributes = [
        ints("classlabels_ints", &classes),
        ints("vectors_per_class", &vec![1; classes.len()]),
        float_list("rho", &[0.5]),
    ];
    let error = ml("SVMClassifier", &["l", "y"], &attributes).error();
    assert!(
        error.contains("attribute 'rho' has the wrong number of elements"),
        "{error}"
    );
}
