//! The operator table: every definition is well formed, and no shape function panics.

use proptest::prelude::*;
use std::collections::HashSet;
use tenon_graph::operator::{Arity, OperandDef, OperatorClass, all, operator};
use tenon_graph::{
    Attribute, AttributeKind, Attributes, DataType, Inference, OperatorDef, Tensor, TensorType,
};

#[test]
fn rows_are_well_formed() {
    let mut names = HashSet::new();
    for def in all() {
        assert!(names.insert(def.name), "{} occurs twice", def.name);
        assert_eq!(operator(def.name), Some(def));
        assert!(
            def.doc.ends_with('.') && !def.family.is_empty(),
            "{}",
            def.name
        );
        assert!(!def.outputs.is_empty(), "{}", def.name);
        for rows in [def.inputs, def.outputs] {
            assert!(operands_are_in_order(rows), "{}", def.name);
        }
        let mut attributes = HashSet::new();
        for row in def.attributes {
            assert!(attributes.insert(row.name), "{}: {}", def.name, row.name);
            assert!(!row.doc.is_empty(), "{}: {}", def.name, row.name);
        }
    }
}

/// Optional operands may be anywhere; variadic ones are last.
fn operands_are_in_order(rows: &[OperandDef]) -> bool {
    let last = rows.len().saturating_sub(1);
    rows.iter()
        .enumerate()
        .all(|(index, row)| row.arity != Arity::Variadic || index == last)
}

#[test]
fn views_and_movements_are_the_listed_operators() {
    let names = |class: OperatorClass| -> HashSet<&str> {
        all()
            .filter(|def| def.class == class)
            .map(|def| def.name)
            .collect()
    };
    let views = [
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Identity",
        "Dropout",
        "BitCast",
    ];
    assert_eq!(names(OperatorClass::View), views.into());
    let movement = [
        "Transpose",
        "Concat",
        "Slice",
        "Split",
        "Expand",
        "Pad",
        "Tile",
        "DepthToSpace",
        "SpaceToDepth",
        "Cast",
    ];
    assert_eq!(names(OperatorClass::Movement), movement.into());
}

/// An integer at the limits of shape arithmetic.
fn hostile() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => -3i64..6,
        1 => prop::sample::select(&[i64::MIN, i64::MIN + 1, -1 << 40, 1 << 31, 1 << 62, i64::MAX][..]),
    ]
}

fn dims() -> impl Strategy<Value = Vec<usize>> {
    let dim = prop_oneof![6 => 0usize..5, 1 => Just(1usize << 20)];
    prop::collection::vec(dim, 0..6)
}

fn text() -> impl Strategy<Value = String> {
    let known = [
        "SAME_UPPER",
        "SAME_LOWER",
        "VALID",
        "NOTSET",
        "constant",
        "reflect",
        "wrap",
        "linear",
        "cubic",
        "nearest",
        "bidirectional",
        "reverse",
        "forward",
        "none",
        "tanh",
        "f32",
        "i8",
        "ij,jk->ik",
        "...i->...",
        "tf_crop_and_resize",
        "not_larger",
        "DCR",
        "LEFT",
        "add",
        "",
    ];
    prop_oneof![3 => prop::sample::select(known.to_vec()).prop_map(str::to_owned), 1 => ".{0,6}"]
}

fn tensor(ty: TensorType) -> BoxedStrategy<Option<Tensor>> {
    if ty.elements() > 64 {
        return Just(None).boxed();
    }
    let count = ty.elements();
    let shape = ty.shape().clone();
    let some = match ty.dtype() {
        DataType::I64 => prop::collection::vec(hostile(), count)
            .prop_map(move |v| Tensor::from_slice(shape.clone(), &v).ok())
            .boxed(),
        DataType::F32 => prop::collection::vec(prop_oneof![-2.0f32..4.0, any::<f32>()], count)
            .prop_map(move |v| Tensor::from_slice(shape.clone(), &v).ok())
            .boxed(),
        _ => Just(Tensor::zeroed(ty.clone()).ok()).boxed(),
    };
    prop_oneof![some, Just(None)].boxed()
}

fn attribute(kind: AttributeKind) -> BoxedStrategy<Attribute> {
    match kind {
        AttributeKind::Int => hostile().prop_map(Attribute::Int).boxed(),
        AttributeKind::Float => any::<f32>().prop_map(Attribute::Float).boxed(),
        AttributeKind::String => text().prop_map(Attribute::String).boxed(),
        AttributeKind::Ints => prop::collection::vec(hostile(), 0..6)
            .prop_map(Attribute::Ints)
            .boxed(),
        AttributeKind::Floats => prop::collection::vec(any::<f32>(), 0..4)
            .prop_map(Attribute::Floats)
            .boxed(),
        AttributeKind::Strings => prop::collection::vec(text(), 0..4)
            .prop_map(Attribute::Strings)
            .boxed(),
        AttributeKind::Tensor => Just(Attribute::Tensor(
            Tensor::from_slice([1], &[1.0f32]).unwrap(),
        ))
        .boxed(),
    }
}

fn attributes(def: &'static OperatorDef) -> impl Strategy<Value = Attributes> {
    let each: Vec<_> = def
        .attributes
        .iter()
        .map(|row| {
            let value = prop::option::weighted(0.6, attribute(row.kind));
            value
                .prop_map(|value| value.map(|value| (row.name.to_owned(), value)))
                .boxed()
        })
        .collect();
    each.prop_map(|list| list.into_iter().flatten().collect())
}

/// Arguments for a shape function: operands of any shape, some of them constant.
type Node = (Attributes, Vec<Option<(TensorType, Option<Tensor>)>>, usize);

fn node(def: &'static OperatorDef) -> impl Strategy<Value = Node> {
    let dtypes: Vec<Option<DataType>> = (0..def.inputs.len().max(2))
        .map(|index| {
            let types = def.input(index)?.types;
            [
                DataType::F32,
                DataType::I64,
                DataType::Bool,
                DataType::U8,
                DataType::I32,
            ]
            .into_iter()
            .find(|dtype| types.contains(*dtype))
        })
        .collect();
    let operands: Vec<_> = dtypes
        .into_iter()
        .map(|dtype| {
            let some = dims().prop_flat_map(move |dims| {
                let ty = TensorType::new(dtype.unwrap_or(DataType::F32), dims);
                let ty = ty.unwrap_or_else(|_| TensorType::new(DataType::F32, [1]).unwrap());
                (Just(ty.clone()), tensor(ty))
            });
            prop::option::weighted(0.9, some).boxed()
        })
        .collect();
    (attributes(def), operands, 0usize..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(4000), ..ProptestConfig::default() })]

    #[test]
    fn shape_functions_never_panic(
        (def, (attributes, operands, outputs)) in prop::sample::select(all().collect::<Vec<_>>())
            .prop_flat_map(|def| (Just(def), node(def)))
    ) {
        let types: Vec<_> = operands.iter().map(|o| o.as_ref().map(|(ty, _)| ty)).collect();
        let constants: Vec<_> =
            operands.iter().map(|o| o.as_ref().and_then(|(_, tensor)| tensor.as_ref())).collect();
        // Without the checks, so that the functions also receive invalid arguments.
        let inference = Inference {
            attributes: &attributes,
            inputs: &types,
            constants: &constants,
            outputs,
        };
        let _ = (def.infer)(&inference);
        let _ = tenon_graph::infer(def, &attributes, &types, &constants, outputs);
    }
}
