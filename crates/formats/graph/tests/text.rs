//! The text form: parsing the printed text gives an equal graph, and no text makes the parser panic.

use proptest::prelude::*;
use tenon_graph::elementwise::Program;
use tenon_graph::operator::{all, operator};
use tenon_graph::{Attribute, Attributes, DataType, Graph, Node, Tensor, TensorType, ValueId};

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9_./-]{1,8}", ".{0,6}", Just("_".to_owned())]
}

fn ty() -> impl Strategy<Value = TensorType> {
    let dtype = prop::sample::select(DataType::ALL);
    (dtype, prop::collection::vec(0usize..4, 0..4))
        .prop_map(|(dtype, dims)| TensorType::new(dtype, dims).unwrap())
}

/// Arbitrary bytes, in a type of fixed size, or strings.
fn tensor() -> impl Strategy<Value = Tensor> {
    let strings = prop::collection::vec(".{0,4}", 0..4);
    let strings = strings.prop_map(|list| Tensor::from_strings([list.len()], &list).unwrap());
    let fixed = ty().prop_filter("of fixed size", |ty| ty.dtype() != DataType::String);
    let fixed = fixed.prop_flat_map(|ty| {
        let bytes = prop::collection::vec(any::<u8>(), ty.bytes());
        let uniform = any::<u8>().prop_map({
            let count = ty.bytes();
            move |byte| vec![byte; count]
        });
        (Just(ty), prop_oneof![bytes, uniform]).prop_map(|(ty, bytes)| {
            let buffer = tenon_tensor::BufferMut::copy_of(&bytes).unwrap().freeze();
            Tensor::new(ty, buffer).unwrap()
        })
    });
    prop_oneof![1 => strings, 9 => fixed]
}

fn attribute() -> impl Strategy<Value = Attribute> {
    let number = || any::<f32>().prop_filter("NaN is not equal to itself", |n| !n.is_nan());
    prop_oneof![
        any::<i64>().prop_map(Attribute::Int),
        number().prop_map(Attribute::Float),
        ".{0,8}".prop_map(Attribute::String),
        prop::collection::vec(any::<i64>(), 0..4).prop_map(Attribute::Ints),
        prop::collection::vec(number(), 0..4).prop_map(Attribute::Floats),
        prop::collection::vec(".{0,4}", 0..3).prop_map(Attribute::Strings),
        tensor().prop_map(Attribute::Tensor),
    ]
}

fn attributes() -> impl Strategy<Value = Attributes> {
    prop::collection::vec((name(), attribute()), 0..3).prop_map(|list| list.into_iter().collect())
}

/// A graph with names and operands of any kind; it need not verify.
fn graph() -> impl Strategy<Value = Graph> {
    let node = (
        prop::sample::select(all().map(|op| op.name).collect::<Vec<_>>()),
        name(),
        attributes(),
        prop::collection::vec(prop::option::of(0u32..8), 0..4),
        prop::collection::vec(prop::option::of(0u32..8), 0..3),
    );
    let value = (prop::option::of(ty()), prop::option::of(tensor()));
    (
        name(),
        prop::collection::vec(value, 8),
        prop::collection::vec(node, 0..6),
        prop::collection::btree_map(".{0,4}", ".{0,8}", 0..3),
        name(),
    )
        .prop_map(|(title, values, nodes, metadata, stem)| {
            let mut graph = Graph::new(title);
            graph.metadata = metadata;
            for (index, (ty, constant)) in values.into_iter().enumerate() {
                let ty = constant.as_ref().map(|tensor| tensor.ty().clone()).or(ty);
                let id = graph.add_value(format!("{stem}{index}"), ty);
                graph.value_mut(id).constant = constant;
            }
            graph.inputs = vec![ValueId(0), ValueId(1)];
            graph.outputs = vec![ValueId(7)];
            for (op, name, attributes, inputs, outputs) in nodes {
                let ids = |list: Vec<Option<u32>>| {
                    list.into_iter()
                        .map(|id| id.map(ValueId))
                        .collect::<Vec<_>>()
                };
                graph.nodes.push(Node {
                    name,
                    op: operator(op).unwrap(),
                    attributes,
                    inputs: ids(inputs),
                    outputs: ids(outputs),
                });
            }
            graph
        })
}

/// Whether both are equal except for the ids of values.
fn same(a: &Graph, b: &Graph) -> bool {
    let names = |graph: &Graph, ids: &[ValueId]| -> Vec<String> {
        ids.iter().map(|&id| graph.value(id).name.clone()).collect()
    };
    let operands = |graph: &Graph, ids: &[Option<ValueId>]| -> Vec<Option<String>> {
        ids.iter()
            .map(|id| id.map(|id| graph.value(id).name.clone()))
            .collect()
    };
    let sorted = |graph: &Graph| {
        let mut values = graph.values.clone();
        values.sort_by(|a, b| a.name.cmp(&b.name));
        values
    };
    a.name == b.name
        && a.metadata == b.metadata
        && names(a, &a.inputs) == names(b, &b.inputs)
        && names(a, &a.outputs) == names(b, &b.outputs)
        && sorted(a) == sorted(b)
        && a.nodes.len() == b.nodes.len()
        && a.nodes.iter().zip(&b.nodes).all(|(x, y)| {
            x.name == y.name
                && x.op == y.op
                && x.attributes == y.attributes
                && operands(a, &x.inputs) == operands(b, &y.inputs)
                && operands(a, &x.outputs) == operands(b, &y.outputs)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn what_is_printed_reads_back(graph in graph()) {
        let text = graph.full_text();
        let read: Graph = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
        prop_assert!(same(&graph, &read), "{}\n{}", text, read.full_text());
        // A constant that is an output moves to the front once; then the text is stable.
        let again = read.full_text();
        prop_assert_eq!(again.parse::<Graph>().unwrap().full_text(), again);
    }

    #[test]
    fn verifying_and_editing_any_graph_is_safe(mut graph in graph()) {
        let _ = tenon_graph::verify(&graph);
        let _ = graph.infer_types();
        let _ = graph.sort();
        graph.remove_dead();
        let _ = tenon_graph::verify(&graph);
        let _ = graph.to_string().parse::<Graph>();
    }

    #[test]
    fn any_text_is_read_without_panic(text in ".{0,200}") {
        let _ = text.parse::<Graph>();
        let _ = format!("graph \"g\" () -> () {{\n{text}\n}}").parse::<Graph>();
    }

    #[test]
    fn a_damaged_text_is_read_without_panic(at in 0usize..600, other in any::<char>()) {
        let text = include_str!("golden/print.txt");
        let damaged: String =
            text.chars().enumerate().map(|(i, c)| if i == at { other } else { c }).collect();
        let _ = damaged.parse::<Graph>();
        let cut: String = text.chars().take(at).collect();
        prop_assert!(cut.parse::<Graph>().is_err());
    }
}

/// Statements of elementwise programs, some of them wrong.
fn statement() -> impl Strategy<Value = String> {
    let operand = "(%[0-9]|%[a-c]|%16|_|)";
    let op = "(Add|Neg|Where|Clip|LeakyRelu|Softmax|Cast)";
    let rest = "(|| \\{alpha = 0.5\\}| \\{alpha = 1\\}| @n|\n)";
    let node = ("%[a-d0] = ", op, prop::collection::vec(operand, 0..4), rest);
    prop_oneof![
        8 => node.prop_map(|(result, op, operands, rest)| {
            format!("{result}{op}({}){rest}", operands.join(", "))
        }),
        1 => ".{0,16}",
    ]
}

proptest! {
    #[test]
    fn programs_print_what_they_parse(
        lines in prop::collection::vec(statement(), 0..5),
        shapes in prop::collection::vec(prop::collection::vec(0usize..3, 0..3), 0..4),
    ) {
        let Ok(program) = Program::parse(&lines) else {
            return Ok(());
        };
        let text = program.statements();
        prop_assert_eq!(&Program::parse(&text).unwrap(), &program);
        let types: Vec<_> = shapes
            .iter()
            .map(|shape| TensorType::new(DataType::F32, &shape[..]).unwrap())
            .collect();
        let inputs: Vec<_> = types.iter().map(Some).collect();
        if let Ok(results) = program.infer(&inputs) {
            prop_assert_eq!(results.len(), program.instructions().len());
        }
    }
}
