//! `neff.json`: the graph of subgraph nodes, and the types of the package's inputs and outputs.

use crate::{Table, neff_dtype_name};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tenon_tensor::DataType;

/// The name of the member.
pub const NEFF_JSON: &str = "neff.json";

/// The function of a node that runs a kelf.
const KELF_FUNCTION: &str = "__kelf";

/// The whole member. Unknown keys are kept, here and in all parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NeffGraph {
    /// Inputs and subgraphs.
    pub nodes: Vec<GraphNode>,
    /// The nodes that are inputs.
    #[serde(default)]
    pub arg_nodes: Vec<u32>,
    /// The outputs: node, output of it, version.
    #[serde(default)]
    pub heads: Vec<[u32; 3]>,
    /// Shapes and types of the outputs of all nodes, one after the other.
    #[serde(default)]
    pub attrs: GraphAttrs,
    /// Where the outputs of each node start in those lists.
    #[serde(default)]
    pub node_row_ptr: Vec<u32>,
    /// Signatures.
    #[serde(default)]
    pub metadata: Metadata,
    /// Keys unknown here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A node of the graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphNode {
    /// `null` for an input, `tvm_op` for a subgraph or a function of the host.
    pub op: String,
    /// Its name.
    pub name: String,
    /// Attributes, all texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attrs: Option<Table<Value>>,
    /// What it reads: node, output of it, version.
    #[serde(default)]
    pub inputs: Vec<[u32; 3]>,
    /// Names of its outputs; one a physical core, so that a name may occur twice.
    #[serde(default)]
    pub output_names: Vec<String>,
    /// Keys unknown here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl GraphNode {
    /// The kelf member that this node runs.
    pub fn kelf(&self) -> Option<&str> {
        let text = |name: &str| self.attrs.as_ref()?.find(name)?.as_str();
        if text("func_name") == Some(KELF_FUNCTION) {
            text("kelf")
        } else {
            None
        }
    }
}

/// Lists over the outputs of all nodes, each with the name of its type before it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GraphAttrs {
    /// Shapes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<(String, Vec<Vec<i64>>)>,
    /// Storage ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_id: Option<(String, Vec<i64>)>,
    /// Data types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dltype: Option<(String, Vec<String>)>,
    /// Keys unknown here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Signatures by name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Metadata {
    /// One is called `default`.
    #[serde(default)]
    pub signatures: Table<Signature>,
    /// Keys unknown here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Inputs and outputs by name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Signature {
    /// The inputs.
    #[serde(default)]
    pub inputs: Table<SignaturePort>,
    /// The outputs; empty in files of other compilers.
    #[serde(default)]
    pub outputs: Table<SignaturePort>,
    /// Keys unknown here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// An input or output of a signature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SignaturePort {
    /// Its position.
    pub id: u32,
    /// NEFF's name of its data type.
    pub dtype: String,
    /// Its shape, outermost first.
    pub shape: Vec<i64>,
    /// Keys unknown here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// An input or output of a package, whoever made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortType {
    /// Its name.
    pub name: String,
    /// NEFF's name of its data type; empty when the file does not tell.
    pub dtype: String,
    /// Its shape, outermost first.
    pub shape: Vec<i64>,
}

impl NeffGraph {
    /// The graph of one subgraph with these inputs and outputs: name, data type, shape.
    pub fn of_one(
        inputs: &[(&str, DataType, &[usize])],
        outputs: &[(&str, DataType, &[usize])],
        kelf: &str,
    ) -> Self {
        let text = |text: &str| Value::String(text.to_owned());
        let node = |name: &str, op: &str| GraphNode {
            op: op.to_owned(),
            name: name.to_owned(),
            attrs: None,
            inputs: Vec::new(),
            output_names: vec![name.to_owned()],
            other: Map::new(),
        };
        let mut nodes: Vec<GraphNode> = inputs
            .iter()
            .map(|(name, ..)| {
                let mut input = node(name, "null");
                input.other.insert("is_param".to_owned(), text("0"));
                input
            })
            .collect();
        let count = nodes.len() as u32;
        let attrs = [
            ("func_name", text(KELF_FUNCTION)),
            ("flatten_data", text("0")),
            ("num_inputs", text(&inputs.len().to_string())),
            ("kelf", text(kelf)),
            ("num_outputs", text(&outputs.len().to_string())),
        ];
        nodes.push(GraphNode {
            attrs: Some(Table(
                attrs.map(|(name, value)| (name.to_owned(), value)).into(),
            )),
            inputs: (0..count).map(|index| [index, 0, 0]).collect(),
            output_names: outputs
                .iter()
                .map(|(name, ..)| (*name).to_owned())
                .collect(),
            ..node("sg00", "tvm_op")
        });
        let all = || inputs.iter().chain(outputs);
        let shape = |shape: &[usize]| shape.iter().map(|&extent| extent as i64).collect();
        let signature = |ports: &[(&str, DataType, &[usize])]| {
            let port = |(id, &(name, dtype, extents)): (usize, &(&str, DataType, &[usize]))| {
                let dtype = neff_dtype_name(dtype).to_owned();
                let port = SignaturePort {
                    id: id as u32,
                    dtype,
                    shape: shape(extents),
                    other: Map::new(),
                };
                (name.to_owned(), port)
            };
            Table(ports.iter().enumerate().map(port).collect())
        };
        let signature = Signature {
            inputs: signature(inputs),
            outputs: signature(outputs),
            other: Map::new(),
        };
        let dtypes = all()
            .map(|(_, dtype, _)| neff_dtype_name(*dtype).to_owned())
            .collect();
        let mut node_row_ptr: Vec<u32> = (0..=count).collect();
        node_row_ptr.push(count + outputs.len() as u32);
        Self {
            nodes,
            arg_nodes: (0..count).collect(),
            heads: (0..outputs.len() as u32)
                .map(|output| [count, output, 0])
                .collect(),
            attrs: GraphAttrs {
                shape: Some(("list_shape".into(), all().map(|(.., s)| shape(s)).collect())),
                storage_id: Some(("list_int".into(), (0..all().count() as i64).collect())),
                dltype: Some(("list_str".into(), dtypes)),
                other: Map::new(),
            },
            node_row_ptr,
            metadata: Metadata {
                signatures: Table(vec![("default".into(), signature)]),
                other: Map::new(),
            },
            other: Map::new(),
        }
    }

    /// The inputs: name, data type and shape.
    pub fn inputs(&self) -> Vec<PortType> {
        let outputs = self.arg_nodes.iter().map(|&node| (node, 0));
        self.ports(outputs)
    }

    /// The outputs. A name that is listed once for each physical core counts once (facts, 2.9).
    pub fn outputs(&self) -> Vec<PortType> {
        self.ports(self.heads.iter().map(|&[node, output, _]| (node, output)))
    }

    fn ports(&self, outputs: impl Iterator<Item = (u32, u32)>) -> Vec<PortType> {
        let mut ports: Vec<PortType> = Vec::new();
        for (node, output) in outputs {
            if let Some(port) = self.port(node as usize, output as usize)
                && !ports.iter().any(|known| known.name == port.name)
            {
                ports.push(port);
            }
        }
        ports
    }

    fn port(&self, node: usize, output: usize) -> Option<PortType> {
        let names = &self.nodes.get(node)?.output_names;
        let name = names.get(output).or(names.first())?.clone();
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
    fn the_graph_of_one_subgraph() {
        let graph = NeffGraph::of_one(
            &[("x", DataType::F32, &[1, 3]), ("y", DataType::I64, &[])],
            &[("z", DataType::F16, &[2])],
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
    fn indices_past_the_end_are_left_out() {
        let text = r#"{"nodes":[],"arg_nodes":[7],"heads":[[1,4294967295,0]],"node_row_ptr":[9]}"#;
        let graph: NeffGraph = serde_json::from_str(text).unwrap();
        assert!(graph.inputs().is_empty() && graph.outputs().is_empty());
    }
}
