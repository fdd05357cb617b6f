//! `neff.json`: the graph of subgraph nodes, and the types of the package's inputs and outputs.

use crate::object::{Field, object};
use crate::{Name, Table, neff_dtype_name};
use serde_json::Value;
use std::collections::HashSet;
use tenon_tensor::DataType;

/// The name of the member.
pub const NEFF_JSON: &str = "neff.json";

/// The function of a node that runs a kelf.
pub(crate) const KELF_FUNCTION: &str = "__kelf";

object! {
    /// The whole member. Unknown keys are kept, here and in all parts.
    #[derive(Default)]
    pub struct NeffGraph {
        /// Inputs and subgraphs.
        pub nodes: Vec<GraphNode> = "nodes",
        /// The nodes that are inputs.
        pub arg_nodes: Vec<u32> = "arg_nodes",
        /// The outputs: node, output of that node, version.
        pub heads: Vec<[u32; 3]> = "heads",
        /// Shapes and types of the outputs of all nodes, one after the other.
        pub attrs: GraphAttrs = "attrs",
        /// The index of each node's first output in these lists (prefix sums).
        pub node_row_ptr: Vec<u32> = "node_row_ptr",
        /// Signatures.
        pub metadata: Metadata = "metadata",
    }
}

object! {
    /// A node of the graph.
    #[derive(Default)]
    pub struct GraphNode {
        /// `null` for an input, `tvm_op` for a subgraph or a function of the host.
        pub op: Name = "op",
        /// Its name.
        pub name: Name = "name",
        /// Attributes, all texts.
        pub attrs: Option<Table<Value>> = "attrs",
        /// Its inputs: node, output of that node, version.
        pub inputs: Vec<[u32; 3]> = "inputs",
        /// Names of its outputs, one for each physical core: a name may occur several times.
        pub output_names: Vec<Name> = "output_names",
        /// Of an input: `0` or `1` as text.
        pub is_param: Option<Name> = "is_param",
    }
}

impl GraphNode {
    /// The kelf member that this node runs.
    pub fn kelf(&self) -> Option<&str> {
        if self.attribute("func_name") == Some(KELF_FUNCTION) {
            self.attribute("kelf")
        } else {
            None
        }
    }

    /// An attribute, when it is a text.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attrs.as_ref()?.find(name)?.as_str()
    }
}

object! {
    /// Lists over the outputs of all nodes, each with the name of its type before it.
    #[derive(Default)]
    pub struct GraphAttrs {
        /// Shapes.
        pub shape: Option<(String, Vec<Vec<i64>>)> = "shape",
        /// Storage ids.
        pub storage_id: Option<(String, Vec<i64>)> = "storage_id",
        /// Data types.
        pub dltype: Option<(String, Vec<String>)> = "dltype",
    }
}

object! {
    /// Signatures by name.
    #[derive(Default)]
    pub struct Metadata {
        /// One is called `default`.
        pub signatures: Table<Signature> = "signatures",
    }
}

/// Fields that are written if they differ from the default, or if their key was read.
macro_rules! optional_fields {
    ($($type:ty),*) => {
        $(impl Field for $type {
            fn missing() -> Option<Self> {
                Some(Self::default())
            }

            fn is_omitted(&self) -> bool {
                *self == Self::default()
            }
        })*
    };
}
optional_fields!(GraphAttrs, Metadata);

object! {
    /// Inputs and outputs by name.
    #[derive(Default)]
    pub struct Signature {
        /// The inputs.
        pub inputs: Table<SignaturePort> = "inputs",
        /// The outputs; empty in files of other compilers.
        pub outputs: Table<SignaturePort> = "outputs",
    }
}

object! {
    /// An input or output of a signature.
    #[derive(Default)]
    pub struct SignaturePort {
        /// Its position.
        pub id: u32 = "id",
        /// NEFF's name of its data type.
        pub dtype: Name = "dtype",
        /// Its shape, outermost first.
        pub shape: Vec<i64> = "shape",
    }
}

/// An input or output of a package of any compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortType {
    /// Its name.
    pub name: String,
    /// NEFF's name of its data type; empty when the file has none.
    pub dtype: String,
    /// Its shape, outermost first.
    pub shape: Vec<i64>,
}

/// A name with its data type and shape.
pub(crate) type TypedPort<'a> = (&'a str, DataType, Vec<i64>);

/// A computing node (not an input) to be added to the graph.
pub(crate) struct ComputingNode<'a> {
    pub name: &'a str,
    /// The function that executes it.
    pub function: &'a str,
    /// Attributes other than the function and the counts.
    pub attrs: Vec<(&'a str, &'a str)>,
    /// Its inputs: node, output of that node, version.
    pub inputs: Vec<[u32; 3]>,
    pub outputs: Vec<TypedPort<'a>>,
}

impl ComputingNode<'_> {
    fn stored(&self) -> GraphNode {
        let count = |count: usize| count.to_string();
        let head = [
            ("func_name", self.function.to_owned()),
            ("flatten_data", "0".to_owned()),
            ("num_inputs", count(self.inputs.len())),
        ];
        let attrs_of_node = self
            .attrs
            .iter()
            .map(|&(key, value)| (key, value.to_owned()));
        let attrs = head
            .into_iter()
            .chain(attrs_of_node)
            .chain([("num_outputs", count(self.outputs.len()))])
            .map(|(key, value)| (key.to_owned(), Value::String(value)));
        GraphNode {
            op: "tvm_op".into(),
            name: self.name.into(),
            attrs: Some(Table(attrs.collect())),
            inputs: self.inputs.clone(),
            output_names: self.outputs.iter().map(|&(name, ..)| name.into()).collect(),
            ..GraphNode::default()
        }
    }
}

fn input(name: &str) -> GraphNode {
    GraphNode {
        op: "null".into(),
        name: name.into(),
        output_names: vec![name.into()],
        is_param: Some("0".into()),
        ..GraphNode::default()
    }
}

fn signature<'a>(ports: impl Iterator<Item = &'a TypedPort<'a>>) -> Table<SignaturePort> {
    let port = |(id, (name, dtype, shape)): (usize, &TypedPort<'_>)| {
        let port = SignaturePort {
            id: id as u32,
            dtype: neff_dtype_name(*dtype).into(),
            shape: shape.clone(),
            other: Default::default(),
        };
        ((*name).to_owned(), port)
    };
    Table(ports.enumerate().map(port).collect())
}

impl NeffGraph {
    /// The graph of one subgraph with these inputs and outputs: name, data type, shape.
    pub fn of_one(inputs: &[TypedPort<'_>], outputs: &[TypedPort<'_>], kelf: &str) -> Self {
        let count = inputs.len() as u32;
        let node = ComputingNode {
            name: "sg00",
            function: KELF_FUNCTION,
            attrs: vec![("kelf", kelf)],
            inputs: (0..count).map(|index| [index, 0, 0]).collect(),
            outputs: outputs.to_vec(),
        };
        let heads = (0..outputs.len() as u32).map(|output| [count, output, 0]);
        Self::of_nodes(inputs, &[node], heads.collect())
    }

    /// The graph of these inputs and nodes: inputs are the first nodes, computing nodes follow.
    /// `heads` are the outputs.
    pub(crate) fn of_nodes(
        inputs: &[TypedPort<'_>],
        computing: &[ComputingNode<'_>],
        heads: Vec<[u32; 3]>,
    ) -> Self {
        let ports: Vec<&TypedPort<'_>> = inputs
            .iter()
            .chain(computing.iter().flat_map(|node| &node.outputs))
            .collect();
        let mut nodes: Vec<GraphNode> = inputs.iter().map(|(name, ..)| input(name)).collect();
        nodes.extend(computing.iter().map(ComputingNode::stored));
        let mut node_row_ptr = vec![0u32];
        for node in &nodes {
            let last = node_row_ptr[node_row_ptr.len() - 1];
            node_row_ptr.push(last + node.output_names.len() as u32);
        }
        let row = |&[node, output, _]: &[u32; 3]| (node_row_ptr[node as usize] + output) as usize;
        let outputs: Vec<&TypedPort<'_>> = heads.iter().map(|head| ports[row(head)]).collect();
        let signature = Signature {
            inputs: signature(inputs.iter()),
            outputs: signature(outputs.into_iter()),
            other: Default::default(),
        };
        let shapes = ports.iter().map(|(.., shape)| shape.clone()).collect();
        let dtypes = ports
            .iter()
            .map(|(_, dtype, _)| neff_dtype_name(*dtype).to_owned())
            .collect();
        Self {
            nodes,
            arg_nodes: (0..inputs.len() as u32).collect(),
            heads,
            attrs: GraphAttrs {
                shape: Some(("list_shape".into(), shapes)),
                storage_id: Some(("list_int".into(), (0..ports.len() as i64).collect())),
                dltype: Some(("list_str".into(), dtypes)),
                other: Default::default(),
            },
            node_row_ptr,
            metadata: Metadata {
                signatures: Table(vec![("default".into(), signature)]),
                other: Default::default(),
            },
            other: Default::default(),
        }
    }

    /// The inputs: name, data type and shape.
    pub fn inputs(&self) -> Vec<PortType> {
        let outputs = self.arg_nodes.iter().map(|&node| (node, 0));
        self.ports(outputs)
    }

    /// The outputs. A name that is listed for each physical core is returned once (neff 1.5).
    pub fn outputs(&self) -> Vec<PortType> {
        self.ports(self.heads.iter().map(|&[node, output, _]| (node, output)))
    }

    fn ports(&self, outputs: impl Iterator<Item = (u32, u32)>) -> Vec<PortType> {
        let mut names = HashSet::new();
        let mut ports: Vec<PortType> = Vec::new();
        for (node, output) in outputs {
            if let Some(port) = self.port(node as usize, output as usize)
                && names.insert(port.name.clone())
            {
                ports.push(port);
            }
        }
        ports
    }

    /// Name, data type and shape of an output of a node.
    pub fn port(&self, node: usize, output: usize) -> Option<PortType> {
        let names = &self.nodes.get(node)?.output_names;
        let name = names.get(output).or(names.first())?.to_string();
        let row = (*self.node_row_ptr.get(node)? as usize).checked_add(output)?;
        let shapes = self.attrs.shape.as_ref().map(|(_, list)| list.as_slice());
        let dtypes = self.attrs.dltype.as_ref().map(|(_, list)| list.as_slice());
        Some(PortType {
            name,
            dtype: dtypes
                .unwrap_or_default()
                .get(row)
                .cloned()
                .unwrap_or_default(),
            shape: shapes
                .unwrap_or_default()
                .get(row)
                .cloned()
                .unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graph_of_one_subgraph_round_trips() {
        let graph = NeffGraph::of_one(
            &[
                ("x", DataType::F32, vec![1, 3]),
                ("y", DataType::I64, vec![]),
            ],
            &[("z", DataType::F16, vec![2])],
            "kelf-0.json",
        );
        let text = serde_json::to_string(&graph).unwrap();
        assert_eq!(serde_json::from_str::<NeffGraph>(&text).unwrap(), graph);
        assert_eq!(graph.nodes[2].kelf(), Some("kelf-0.json"));
        assert_eq!(graph.node_row_ptr, [0, 1, 2, 3]);
        let port = |name: &str, dtype: &str, shape: &[i64]| PortType {
            name: name.into(),
            dtype: dtype.into(),
            shape: shape.into(),
        };
        assert_eq!(
            graph.inputs(),
            [port("x", "float32", &[1, 3]), port("y", "int64", &[])]
        );
        assert_eq!(graph.outputs(), [port("z", "float16", &[2])]);
    }

    #[test]
    fn indices_past_the_end_are_skipped() {
        let text = r#"{"nodes":[],"arg_nodes":[7],"heads":[[1,4294967295,0]],"node_row_ptr":[9]}"#;
        let graph: NeffGraph = serde_json::from_str(text).unwrap();
        assert!(graph.inputs().is_empty() && graph.outputs().is_empty());
    }
}
