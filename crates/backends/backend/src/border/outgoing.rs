//! What goes out over the border: structs that borrow from Rust values, kept in one place for the
//! time of a call.

use super::dtype_code;
use crate::{NamedValue, NodeView, Reason, Refusal, WorkloadSpec};
use std::ptr;
use tenon_backend_abi as abi;
use tenon_backend_abi::Outcome;
use tenon_base::{Error, ErrorKind};
use tenon_graph::{Attribute, Attributes, Graph, OperatorDef, ValueId};
use tenon_tensor::{Buffer, Tensor, TensorType};

/// Structs for one call. What they point to lies in boxes of this value, or is borrowed for `'a`.
#[derive(Default)]
#[allow(
    clippy::vec_box,
    reason = "a struct stays where it is while its list grows"
)]
pub(crate) struct Outgoing<'a> {
    tensors: Vec<Box<abi::Tensor>>,
    attributes: Vec<Box<abi::Attribute>>,
    nodes: Vec<Box<abi::Node>>,
    graphs: Vec<Box<abi::Graph>>,
    extents: Vec<Box<[u64]>>,
    tensor_lists: Vec<Box<[*const abi::Tensor]>>,
    attribute_lists: Vec<Box<[*const abi::Attribute]>>,
    node_lists: Vec<Box<[*const abi::Node]>>,
    positions: Vec<Box<[u32]>>,
    texts: Vec<Box<[abi::Text]>>,
    borrowed: std::marker::PhantomData<&'a ()>,
}

/// Keeps a value in a list of boxes and answers where it is.
fn keep<T>(list: &mut Vec<Box<T>>, value: T) -> *const T {
    list.push(Box::new(value));
    list.last().map_or(ptr::null(), |last| &raw const **last)
}

/// The same for slices.
fn keep_all<T>(list: &mut Vec<Box<[T]>>, values: Vec<T>) -> *const T {
    list.push(values.into());
    list.last().map_or(ptr::null(), |last| last.as_ptr())
}

impl<'a> Outgoing<'a> {
    /// A node with the types and constants that a backend is asked about.
    pub fn view(&mut self, view: &NodeView<'a>) -> *const abi::Node {
        let constants = view
            .constants
            .iter()
            .copied()
            .chain(std::iter::repeat(None));
        let inputs = view
            .inputs
            .iter()
            .zip(constants)
            .map(|(ty, constant)| self.operand(*ty, constant.map(Tensor::buffer), None))
            .collect();
        let outputs = view
            .outputs
            .iter()
            .map(|ty| self.operand(*ty, None, None))
            .collect();
        self.node(view.op, "", view.attributes, [inputs, outputs], None)
    }

    /// A node with prepared forms too.
    pub fn spec(&mut self, spec: &'a WorkloadSpec) -> *const abi::Node {
        let inputs = spec
            .inputs
            .iter()
            .map(|input| {
                let input = input.as_ref();
                self.operand(
                    input.map(|input| &input.ty),
                    input.and_then(|input| input.constant.as_ref().map(Tensor::buffer)),
                    input.and_then(|input| input.prepared.as_ref()),
                )
            })
            .collect();
        let outputs = spec
            .outputs
            .iter()
            .map(|ty| self.operand(ty.as_ref(), None, None))
            .collect();
        self.node(spec.op, "", &spec.attributes, [inputs, outputs], None)
    }

    /// A graph, with positions of values for operands.
    pub fn graph(&mut self, graph: &'a Graph) -> *const abi::Graph {
        let values: Vec<*const abi::Tensor> = graph
            .values
            .iter()
            .map(|value| {
                let constant = value.constant.as_ref().map(Tensor::buffer);
                self.operand(value.ty.as_ref(), constant, None)
            })
            .collect();
        let mut nodes = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            let tensors = |ids: &[Option<ValueId>]| {
                let tensor = |id: ValueId| values.get(id.index()).copied();
                ids.iter()
                    .map(|id| id.and_then(tensor).unwrap_or(ptr::null()))
                    .collect::<Vec<_>>()
            };
            let operands = [tensors(&node.inputs), tensors(&node.outputs)];
            let positions = Some([&*node.inputs, &*node.outputs]);
            nodes.push(self.node(node.op, &node.name, &node.attributes, operands, positions));
        }
        let graph = abi::Graph {
            size: size_of::<abi::Graph>(),
            value_count: values.len(),
            values: keep_all(&mut self.tensor_lists, values),
            node_count: nodes.len(),
            nodes: keep_all(&mut self.node_lists, nodes),
            inputs: self.ids(graph.inputs.iter().map(|id| id.0)),
            outputs: self.ids(graph.outputs.iter().map(|id| id.0)),
        };
        keep(&mut self.graphs, graph)
    }

    /// A tensor type.
    pub fn ty(&mut self, ty: &'a TensorType) -> *const abi::Tensor {
        self.operand(Some(ty), None, None)
    }

    /// Positions.
    pub fn ids(&mut self, ids: impl Iterator<Item = u32>) -> abi::Ids {
        let ids: Vec<u32> = ids.collect();
        abi::Ids {
            length: ids.len(),
            start: keep_all(&mut self.positions, ids),
        }
    }

    fn node(
        &mut self,
        op: &'static OperatorDef,
        name: &'a str,
        attributes: &'a Attributes,
        [inputs, outputs]: [Vec<*const abi::Tensor>; 2],
        positions: Option<[&'a [Option<ValueId>]; 2]>,
    ) -> *const abi::Node {
        let attributes: Vec<_> = attributes
            .iter()
            .map(|(name, value)| self.attribute(name, value))
            .collect();
        let [input_values, output_values] = positions.map_or([ptr::null(); 2], |both| {
            both.map(|ids| {
                let position = |id: &Option<ValueId>| id.map_or(abi::NO_VALUE, |id| id.0);
                keep_all(&mut self.positions, ids.iter().map(position).collect())
            })
        });
        let node = abi::Node {
            size: size_of::<abi::Node>(),
            op: abi::Text::of(op.name),
            name: abi::Text::of(name),
            input_count: inputs.len(),
            inputs: keep_all(&mut self.tensor_lists, inputs),
            output_count: outputs.len(),
            outputs: keep_all(&mut self.tensor_lists, outputs),
            attribute_count: attributes.len(),
            attributes: keep_all(&mut self.attribute_lists, attributes),
            input_values,
            output_values,
        };
        keep(&mut self.nodes, node)
    }

    fn operand(
        &mut self,
        ty: Option<&'a TensorType>,
        constant: Option<&'a Buffer>,
        prepared: Option<&'a (String, Buffer)>,
    ) -> *const abi::Tensor {
        let Some(ty) = ty else { return ptr::null() };
        let extents: Vec<u64> = ty.shape().iter().map(|&extent| extent as u64).collect();
        let tensor = abi::Tensor {
            size: size_of::<abi::Tensor>(),
            dtype: dtype_code(ty.dtype()),
            rank: extents.len() as u32,
            extents: keep_all(&mut self.extents, extents),
            data: constant.map_or(abi::Bytes::NONE, kept),
            layout: prepared.map_or(abi::Text::EMPTY, |(layout, _)| abi::Text::of(layout)),
            prepared: prepared.map_or(abi::Bytes::NONE, |(_, data)| kept(data)),
        };
        keep(&mut self.tensors, tensor)
    }

    fn attribute(&mut self, name: &'a str, value: &'a Attribute) -> *const abi::Attribute {
        use std::slice::from_ref;
        let mut told = abi::Attribute {
            size: size_of::<abi::Attribute>(),
            name: abi::Text::of(name),
            kind: 0,
            count: 1,
            integers: ptr::null(),
            floats: ptr::null(),
            texts: ptr::null(),
            tensor: ptr::null(),
        };
        let mut texts = |texts: &'a [String]| {
            let texts = texts.iter().map(|text| abi::Text::of(text)).collect();
            keep_all(&mut self.texts, texts)
        };
        match value {
            Attribute::Int(value) => (told.kind, told.integers) = (abi::kind::INT, value),
            Attribute::Float(value) => (told.kind, told.floats) = (abi::kind::FLOAT, value),
            Attribute::String(value) => {
                (told.kind, told.texts) = (abi::kind::STRING, texts(from_ref(value)));
            }
            Attribute::Ints(values) => {
                (told.kind, told.integers) = (abi::kind::INTS, values.as_ptr());
                told.count = values.len();
            }
            Attribute::Floats(values) => {
                (told.kind, told.floats) = (abi::kind::FLOATS, values.as_ptr());
                told.count = values.len();
            }
            Attribute::Strings(values) => {
                (told.kind, told.texts) = (abi::kind::STRINGS, texts(values));
                told.count = values.len();
            }
            Attribute::Tensor(tensor) => {
                told.kind = abi::kind::TENSOR;
                told.tensor = self.operand(Some(tensor.ty()), Some(tensor.buffer()), None);
            }
        }
        keep(&mut self.attributes, told)
    }
}

/// The bytes of a buffer that `tenon_host.retain` can keep.
fn kept(buffer: &Buffer) -> abi::Bytes {
    abi::Bytes {
        start: buffer.as_ptr().cast(),
        length: buffer.len(),
        owner: (&raw const *buffer).cast(),
    }
}

/// Values with their names, and the list that points to them, which they must stay behind.
pub(crate) fn named_values<'a>(
    all: impl Iterator<Item = (&'a str, &'a NamedValue)>,
) -> (Box<[abi::NamedValue]>, Box<[*const abi::NamedValue]>) {
    let values: Box<[abi::NamedValue]> = all
        .map(|(name, value)| {
            let (kind, integer, number, text) = match value {
                NamedValue::Bool(value) => (abi::value::BOOL, i64::from(*value), 0.0, ""),
                NamedValue::Int(value) => (abi::value::INT, *value, 0.0, ""),
                NamedValue::Unsigned(value) => (abi::value::UNSIGNED, *value as i64, 0.0, ""),
                NamedValue::Float(value) => (abi::value::FLOAT, 0, *value, ""),
                NamedValue::String(value) => (abi::value::STRING, 0, 0.0, &**value),
            };
            abi::NamedValue {
                size: size_of::<abi::NamedValue>(),
                name: abi::Text::of(name),
                kind,
                number,
                integer,
                text: abi::Text::of(text),
            }
        })
        .collect();
    let pointers = values.iter().map(|value| &raw const *value).collect();
    (values, pointers)
}

/// An error as a failure.
pub(crate) fn outcome_of(error: &Error) -> Outcome {
    let status = match error.kind() {
        ErrorKind::Unsupported => abi::status::UNSUPPORTED,
        ErrorKind::InvalidArgument | ErrorKind::InvalidModel => abi::status::INVALID,
        ErrorKind::OutOfMemory => abi::status::OUT_OF_MEMORY,
        ErrorKind::Cancelled | ErrorKind::DeadlineExceeded => abi::status::STOPPED,
        _ => abi::status::FAILED,
    };
    abi::failure(status, error.to_string())
}

/// A refusal as a failure.
pub(crate) fn outcome_of_refusal(refusal: &Refusal) -> Outcome {
    let (mut numbers, mut name) = ([0, 0], String::new());
    let mut text = refusal.to_string();
    let reason = match &refusal.reason {
        Reason::UnknownOperator => abi::reason::UNKNOWN_OPERATOR,
        Reason::InputType { input, found } => {
            numbers = [*input as i64, dtype_code(*found).into()];
            abi::reason::INPUT_TYPE
        }
        Reason::InputRank { input, found } => {
            numbers = [*input as i64, *found as i64];
            abi::reason::INPUT_RANK
        }
        Reason::AttributeValue { attribute, found } => {
            name = (*attribute).to_owned();
            text.clone_from(found);
            abi::reason::ATTRIBUTE_VALUE
        }
        Reason::NotConstant { input } => {
            numbers[0] = *input as i64;
            abi::reason::NOT_CONSTANT
        }
        _ => abi::reason::OTHER,
    };
    abi::refusal(abi::status::UNSUPPORTED, reason, numbers, name, text)
}
