use super::*;
use crate::NodeId;

/// A graph in text form whose input extents of 7, 11, 13 and 17 are the symbols n, m, h and w.
fn graph(text: &str) -> Graph {
    let mut graph: Graph = text.parse().unwrap();
    let names = [("n", 7), ("m", 11), ("h", 13), ("w", 17)];
    for (name, example) in names {
        graph.symbols.add(name, 1..=4096).unwrap();
        graph.example_sizes.push(example);
    }
    for id in graph.inputs.clone() {
        let value = graph.value_mut(id);
        let extents = value.ty.as_ref().unwrap().shape().iter().map(|&extent| {
            let symbol = names
                .iter()
                .position(|(_, example)| *example == extent as i64);
            match symbol {
                Some(position) => tenon_tensor::size::SymbolId(position as u32).into(),
                None => (extent as i64).into(),
            }
        });
        value.extents = Some(extents.collect());
    }
    graph
}

/// Infers all nodes; the extents of the outputs as text, or the first error.
fn inferred(text: &str) -> Result<String> {
    let mut graph = graph(text);
    for index in 0..graph.nodes.len() {
        let types = crate::infer_node(&graph, NodeId(index as u32))?;
        let node = graph.nodes[index].clone();
        let outputs = infer_symbolic(&graph, &node, &types)?;
        for ((id, ty), output) in node.outputs.iter().zip(&types).zip(outputs) {
            let Some(id) = *id else { continue };
            let examples = output.elements.as_ref().map(|elements| {
                let values = elements
                    .iter()
                    .map(|element| element.evaluate(&graph.example_sizes));
                values.collect::<Result<Vec<i64>>>().unwrap()
            });
            let value = graph.value_mut(id);
            value.ty = Some(ty.clone());
            value.extents = Some(output.extents);
            value.sizes =
                output
                    .elements
                    .zip(examples)
                    .map(|(elements, examples)| crate::SizeElements {
                        elements,
                        example: match ty.dtype() {
                            DataType::I64 => {
                                Tensor::from_slice(ty.shape().clone(), &examples).unwrap()
                            }
                            _ => Tensor::zeroed(ty.clone()).unwrap(),
                        },
                    });
        }
    }
    let texts = graph.outputs.iter().map(|&id| {
        let extents = graph.value(id).extents.as_ref().unwrap();
        let extents: Vec<String> = extents
            .iter()
            .map(|extent| graph.symbols.text(extent))
            .collect();
        format!("[{}]", extents.join(", "))
    });
    Ok(texts.collect::<Vec<_>>().join(" "))
}

#[test]
fn extents_of_inputs_are_matched() {
    let text = inferred(
        "graph \"g\" (%x: f32[7, 11, 64], %y: f32[11, 64], %w: f32[64, 32]) -> (%a, %b, %c, %d) {
           %s = Add(%x, %y)
           %a = MatMul(%s, %w)
           %b = Transpose(%a) {perm = [2, 0, 1]}
           %c = Softmax(%b)
           %d = ReduceMean(%x) {keepdims = 0}
         }",
    );
    assert_eq!(text.unwrap(), "[n, m, 32] [32, n, m] [32, n, m] []");
}

#[test]
fn convolutions_and_pools_have_floored_quotients() {
    let text = inferred(
        "graph \"g\" (%x: f32[7, 3, 13, 17]) -> (%c, %p, %t, %u) {
           const %w: f32[8, 3, 3, 3] = fill 0
           const %v: f32[8, 4, 2, 2] = fill 0
           %c = Conv(%x, %w) {strides = [2, 2], pads = [1, 1, 1, 1]}
           %p = MaxPool(%c) {kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1}
           %t = ConvTranspose(%c, %v) {strides = [2, 2]}
           %u = AveragePool(%c) {kernel_shape = [2, 2], auto_pad = \"SAME_UPPER\", strides = [2, 2]}
         }",
    );
    assert_eq!(
        text.unwrap(),
        "[n, 8, floor((h + 1) / 2), floor((w + 1) / 2)] \
         [n, 8, floor((h + 1) / 4), floor((w + 1) / 4)] \
         [n, 4, 2 * floor((h + 1) / 2), 2 * floor((w + 1) / 2)] \
         [n, 8, floor((h + 3) / 4), floor((w + 3) / 4)]"
    );
}

#[test]
fn shapes_are_computed_with() {
    // The heads of attention as PyTorch exports them, and a flattened tail.
    let text = inferred(
        "graph \"g\" (%x: f32[7, 11, 64]) -> (%y, %z, %r) {
           const %zero: i64[1] = [0]
           const %one: i64[1] = [1]
           const %heads: i64[2] = [4, 16]
           const %rest: i64[1] = [-1]
           const %two: i64[1] = [2]
           const %first: i64[] = [0]
           const %step: i64[] = [1]
           %s = Shape(%x)
           %n = Gather(%s, %zero)
           %m = Gather(%s, %one)
           %t = Concat(%n, %m, %heads) {axis = 0}
           %y = Reshape(%x, %t)
           %p = Mul(%m, %two)
           %half = Div(%p, %two)
           %u = Concat(%half, %rest) {axis = 0}
           %z = Reshape(%x, %u)
           %l = Squeeze(%m)
           %r = Range(%first, %l, %step)
         }",
    );
    assert_eq!(text.unwrap(), "[n, m, 4, 16] [m, 64 * n] [m]");
}

#[test]
fn movement_adds_and_clamps() {
    let text = inferred(
        "graph \"g\" (%x: f32[7, 11], %y: f32[7, 13]) -> (%c, %s, %e, %p, %a, %b, %f) {
           const %start: i64[1] = [2]
           const %end: i64[1] = [100]
           const %last: i64[1] = [-1]
           const %all: i64[1] = [9223372036854775807]
           const %axis: i64[1] = [1]
           const %pads: i64[4] = [0, 1, 0, 2]
           %c = Concat(%x, %y) {axis = 1}
           %s = Slice(%c, %start, %end, %axis)
           %e = Slice(%c, %last, %all, %axis)
           %p = Pad(%c, %pads)
           %a, %b = Split(%c) {axis = 1}
           %f = Flatten(%c)
         }",
    );
    assert_eq!(
        text.unwrap(),
        "[n, m + h] [n, min(100, m + h) - 2] [n, 1] [n, m + h + 3] [n, floor((m + h + 1) / 2)] \
         [n, floor((m + h) / 2)] [n, m + h]"
    );
}

#[test]
fn sizes_that_data_decides_have_no_expression() {
    let error = inferred(
        "graph \"g\" (%x: f32[7, 11], %k: i64[1]) -> (%y) {
           %y, %i = TopK(%x, %k)
         }",
    );
    assert!(error.is_err());
}

#[test]
fn extents_of_an_example_derive_from_those_of_its_values() {
    // 77 is fixed, and a multiple of the example sizes of n and m.
    let graph = graph("graph \"g\" (%x: f32[7, 77, 13]) -> (%y) {\n  %y = Relu(%x)\n}");
    let extents = |shape: &[usize]| -> Vec<String> {
        let extents = extents_of_example(&graph, &graph.inputs, shape).unwrap();
        extents.iter().map(|e| graph.symbols.text(e)).collect()
    };
    assert_eq!(extents(&[13, 77, 7, 1]), ["h", "77", "n", "1"]);
    // Products of other extents are still found.
    assert_eq!(extents(&[26, 3]), ["2 * h", "3"]);
    // Runs of equal products: 77 * 13 is no multiple of m's example size 11, though it is one of the extents.
    assert_eq!(extents(&[7, 1001]), ["n", "77 * h"]);
    assert_eq!(extents(&[7, 7, 11, 13]), ["n", "7", "11", "h"]);
    assert_eq!(extents(&[1, 7007, 1]), ["1", "77 * n * h", "1"]);
    assert_eq!(extents(&[7, 77, 13]), ["n", "77", "h"]);
}
