use super::*;
use crate::contents::tests::sample;
use crate::{FeatureBits, Limits, NEFF_JSON, Package, PackageWriter, WriteOptions};
use tenon_base::Control;
use tenon_tensor::BufferMut;

fn buffer(bytes: &[u8]) -> Buffer {
    BufferMut::copy_of(bytes).unwrap().freeze()
}

fn port(name: &str, shape: &[usize]) -> GraphPort {
    GraphPort {
        name: name.into(),
        kind: ValueKind::Tensor,
        dtype: DataType::F32,
        shape: shape.into(),
    }
}

fn cpu(name: &str, input: Wire, library: &[u8], output: GraphPort) -> PackageNode {
    PackageNode {
        name: name.into(),
        inputs: vec![input],
        work: NodeWork::Cpu(CpuFunction {
            symbol: format!("{name}_function"),
            library: buffer(library),
            operator: "my.domain.Scale".into(),
            attributes: vec![("factor".into(), NodeAttribute::Float(2.5))],
            outputs: vec![output],
        }),
    }
}

/// a -> before -> sg00 -> after -> sg01 -> z, both subgraphs from f32[2, 3] to f32[3, 2].
fn several() -> NodeGraph {
    let output_of = |node| Wire::Output { node, output: 0 };
    let core = |index, input| PackageNode::core(index, vec![input], sample());
    NodeGraph {
        name: "several".into(),
        inputs: vec![port("a", &[7])],
        nodes: vec![
            cpu("before", Wire::Input(0), b"one library", port("b", &[2, 3])),
            core(0, output_of(0)),
            cpu("after", output_of(1), b"one library", port("c", &[2, 3])),
            core(1, output_of(2)),
        ],
        outputs: vec![output_of(3), output_of(2)],
    }
}

fn package(graph: &NodeGraph) -> Package {
    let bytes = graph
        .to_bytes(WriteOptions::default(), &Control::new())
        .unwrap();
    Package::from_buffer(buffer(&bytes), &Limits::default(), &Control::new()).unwrap()
}

/// The package with its `neff.json` changed.
fn changed(graph: &NodeGraph, change: impl Fn(&mut serde_json::Value)) -> Package {
    let package = package(graph);
    let mut writer = PackageWriter::in_memory(package.header().clone()).unwrap();
    for (name, _) in package.members() {
        let bytes = package.member(name).unwrap();
        if name == NEFF_JSON {
            let mut json = serde_json::from_slice(&bytes).unwrap();
            change(&mut json);
            writer.add(NEFF_JSON, json.to_string().as_bytes()).unwrap();
        } else {
            writer.add(name, &bytes).unwrap();
        }
    }
    let bytes = buffer(&writer.finish().unwrap().0);
    Package::from_buffer(bytes, &Limits::default(), &Control::new()).unwrap()
}

#[test]
fn several_nodes_round_trip() {
    let graph = several();
    let package = package(&graph);
    assert!(
        package
            .header()
            .feature_bits
            .contains(FeatureBits::TENON_CPU_NODES)
    );
    let read = NodeGraph::read(&package).unwrap();
    assert_eq!((&read.name, &read.inputs), (&graph.name, &graph.inputs));
    assert_eq!(read.outputs, graph.outputs);
    let names: Vec<&str> = read.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["before", "sg00", "after", "sg01"]);
    for (read, node) in read.nodes.iter().zip(&graph.nodes) {
        assert_eq!(read.inputs, node.inputs);
        assert!(read.work.outputs().eq(node.work.outputs()));
    }
    let NodeWork::Cpu(function) = &read.nodes[2].work else {
        panic!("a subgraph");
    };
    assert_eq!(
        (
            function.symbol.as_str(),
            function.operator.as_str(),
            &function.library[..]
        ),
        ("after_function", "my.domain.Scale", &b"one library"[..])
    );
    let factor = ("factor".to_owned(), NodeAttribute::Float(2.5));
    assert_eq!(function.attributes, [factor]);
    // Equal libraries are stored once, and equal graphs give equal bytes.
    assert!(package.member("cpu_nodes/1.so").is_none());
    let bytes = |graph: &NodeGraph| graph.to_bytes(WriteOptions::default(), &Control::new());
    assert_eq!(bytes(&graph).unwrap()[..], bytes(&read).unwrap()[..]);
    let error = Contents::read(&package).unwrap_err().to_string();
    assert!(
        error.ends_with("the package has 4 nodes that compute, not one"),
        "{error}"
    );
}

#[test]
fn a_package_of_several_nodes_violates_no_rule() {
    let package = package(&several());
    let findings = crate::verify(&package, &crate::VerifyOptions::default(), &Control::new());
    assert_eq!(findings.unwrap().to_string(), "");
}

#[test]
fn equal_constants_of_subgraphs_are_stored_once() {
    let package = package(&several());
    let constants = |folder: &str| {
        let folder = format!("{folder}/constants/");
        let names = package.members().map(|(name, _)| name);
        names.filter(|name| name.starts_with(&folder)).count()
    };
    assert_eq!((constants("sg00"), constants("sg01")), (2, 0));
    let definition = package.member("sg01/def.json").unwrap();
    let definition = String::from_utf8(definition.to_vec()).unwrap();
    assert!(definition.contains("../sg00/constants/"), "{definition}");
    let read = NodeGraph::read(&package).unwrap();
    let constants = read.cores().map(|core| core.constant_bytes());
    assert_eq!(
        constants.collect::<Vec<_>>(),
        [sample().constant_bytes(); 2]
    );
}

#[test]
fn a_single_subgraph_gives_the_bytes_of_its_contents() {
    let contents = sample();
    let graph = NodeGraph::from(contents.clone());
    assert!(graph.is_one_core());
    let (options, control) = (WriteOptions::default(), Control::new());
    assert_eq!(
        graph.to_bytes(options, &control).unwrap()[..],
        contents.to_bytes(options, &control).unwrap()[..]
    );
    let read = NodeGraph::read(&package(&graph)).unwrap();
    assert!(read.is_one_core());
    assert_eq!(read.inputs, [port("x", &[2, 3])]);
}

#[test]
fn mismatches_are_reported_together() {
    let mut graph = several();
    graph.nodes[1].inputs[0] = Wire::Input(0);
    graph.nodes[0].inputs[0] = Wire::Output { node: 2, output: 0 };
    graph.nodes[3].inputs.clear();
    graph.nodes[2].name = "before".into();
    graph.outputs[0] = Wire::Output { node: 3, output: 1 };
    let text = graph.check().unwrap_err().to_string();
    for line in [
        "node 'before': the source of input 0 is neither an input nor an earlier node",
        "input 'x' has another type: expected f32[2, 3], found f32[7]",
        "its input count differs from its subgraph's: expected 1, found 0",
        "node 'before': two nodes of this name",
        "outputs[0]: its source does not exist",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    graph
        .nodes
        .retain(|node| matches!(node.work, NodeWork::Cpu(_)));
    assert!(
        graph
            .check()
            .unwrap_err()
            .to_string()
            .contains("no node of a subgraph")
    );
}

#[test]
fn functions_of_other_compilers_are_refused() {
    let refusal = |change: fn(&mut serde_json::Value)| {
        let package = changed(&several(), change);
        NodeGraph::read(&package).unwrap_err().to_string()
    };
    let text = refusal(|json| {
        json["nodes"][1]["attrs"]
            .as_object_mut()
            .unwrap()
            .remove("tenon_cpu_node");
    });
    assert!(
        text.contains(
            "nodes[1]: 'before' is a CPU function ('before_function') of another compiler, whose \
             call signature is not known here"
        ),
        "{text}"
    );
    let text = refusal(|json| json["nodes"][1]["attrs"]["tenon_cpu_node"] = "9".into());
    assert!(
        text.contains("has a call signature unknown here: expected 1, found 9"),
        "{text}"
    );
    let text = refusal(|json| json["nodes"][1]["attrs"]["attributes"] = "{\"x\":1}".into());
    assert!(
        text.contains("attrs.attributes 'x': not the values of one kind"),
        "{text}"
    );
    let text = refusal(|json| json["nodes"][1]["attrs"]["library"] = "cpu_nodes/7.so".into());
    assert!(text.contains("cpu_nodes/7.so"), "{text}");
    let text = refusal(|json| json["nodes"][2]["inputs"] = serde_json::json!([[3, 0, 0]]));
    assert!(
        text.contains("nodes[2]: an input has no earlier source"),
        "{text}"
    );
    let text = refusal(|json| json["heads"] = serde_json::json!([[9, 0, 0]]));
    assert!(
        text.contains("the head has no source: found output 0 of node 9"),
        "{text}"
    );
    let text = refusal(|json| json["attrs"]["dltype"][1][1] = "float7".into());
    assert!(
        text.contains("an unknown data type: found 'float7'"),
        "{text}"
    );
}
