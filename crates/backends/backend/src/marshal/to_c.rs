//! Conversion of Rust values to C structs that borrow from them, in an arena that lives for a call.

use super::dtype_code;
use crate::{
    ExtentRange, NodeRanges, NodeView, OperandRanges, PropertyValue, Reason, Refusal, WorkloadSpec,
};
use std::ptr;
use tenon_backend_abi as abi;
use tenon_backend_abi::Outcome;
use tenon_base::{Error, ErrorKind};
use tenon_graph::{Attribute, Attributes, Graph, OperatorDef, ValueId};
use tenon_tensor::{Buffer, Tensor, TensorType};

/// The C structs of one call. Their pointers are to boxes of this arena, or to values borrowed for
/// `'a`.
#[derive(Default)]
#[allow(
    clippy::vec_box,
    reason = "a boxed struct has a stable address while its list grows"
)]
pub(crate) struct CallArena<'a> {
    tensors: Vec<Box<abi::Tensor>>,
    attributes: Vec<Box<abi::Attribute>>,
    nodes: Vec<Box<abi::Node>>,
    graphs: Vec<Box<abi::Graph>>,
    extents: Vec<Box<[u64]>>,
    ranges: Vec<Box<[abi::ExtentRange]>>,
    tensor_lists: Vec<Box<[*const abi::Tensor]>>,
    attribute_lists: Vec<Box<[*const abi::Attribute]>>,
    node_lists: Vec<Box<[*const abi::Node]>>,
    positions: Vec<Box<[u32]>>,
    texts: Vec<Box<[abi::Text]>>,
    borrowed: std::marker::PhantomData<&'a ()>,
}

/// Stores a value in a list of boxes and returns its address.
fn store<T>(list: &mut Vec<Box<T>>, value: T) -> *const T {
    list.push(Box::new(value));
    list.last().map_or(ptr::null(), |last| &raw const **last)
}

/// Stores a slice in a list of boxes and returns its address.
fn store_all<T>(list: &mut Vec<Box<[T]>>, values: Vec<T>) -> *const T {
    list.push(values.into());
    list.last().map_or(ptr::null(), |last| last.as_ptr())
}

impl<'a> CallArena<'a> {
    /// The node of a support query, with types and constants.
    pub fn view(&mut self, view: &NodeView<'a>) -> *const abi::Node {
        let (given, made) = ranges_of(view.ranges);
        let constants = view.constants.iter().copied();
        let constants = constants.chain(std::iter::repeat(None));
        let inputs = view.inputs.iter().zip(constants).zip(given);
        let inputs = inputs.map(|((ty, constant), ranges)| {
            self.operand(*ty, constant.map(Tensor::buffer), None, ranges)
        });
        let inputs = inputs.collect();
        let outputs = view.outputs.iter().zip(made);
        let outputs = outputs.map(|(ty, ranges)| self.operand(*ty, None, None, ranges));
        let outputs = outputs.collect();
        self.node(view.op, "", view.attributes, [inputs, outputs], None)
    }

    /// The node of a workload, with types, constants and prepared forms.
    pub fn spec(&mut self, spec: &'a WorkloadSpec) -> *const abi::Node {
        let (given, made) = ranges_of(spec.ranges.as_ref());
        let inputs = spec.inputs.iter().zip(given);
        let inputs = inputs.map(|(input, ranges)| {
            let input = input.as_ref();
            self.operand(
                input.map(|input| &input.ty),
                input.and_then(|input| input.constant.as_ref().map(Tensor::buffer)),
                input.and_then(|input| input.prepared.as_ref()),
                ranges,
            )
        });
        let inputs = inputs.collect();
        let outputs = spec.outputs.iter().zip(made);
        let outputs = outputs.map(|(ty, ranges)| self.operand(ty.as_ref(), None, None, ranges));
        let outputs = outputs.collect();
        self.node(spec.op, "", &spec.attributes, [inputs, outputs], None)
    }

    /// A graph, whose operands are indices of values.
    pub fn graph(&mut self, graph: &'a Graph) -> *const abi::Graph {
        let values: Vec<*const abi::Tensor> = graph
            .values
            .iter()
            .map(|value| {
                let constant = value.constant.as_ref().map(Tensor::buffer);
                self.operand(value.ty.as_ref(), constant, None, None)
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
            values: store_all(&mut self.tensor_lists, values),
            node_count: nodes.len(),
            nodes: store_all(&mut self.node_lists, nodes),
            inputs: self.ids(graph.inputs.iter().map(|id| id.0)),
            outputs: self.ids(graph.outputs.iter().map(|id| id.0)),
        };
        store(&mut self.graphs, graph)
    }

    /// A tensor type.
    pub fn ty(&mut self, ty: &'a TensorType) -> *const abi::Tensor {
        self.operand(Some(ty), None, None, None)
    }

    /// A list of ids.
    pub fn ids(&mut self, ids: impl Iterator<Item = u32>) -> abi::Ids {
        let ids: Vec<u32> = ids.collect();
        abi::Ids {
            length: ids.len(),
            start: store_all(&mut self.positions, ids),
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
                store_all(&mut self.positions, ids.iter().map(position).collect())
            })
        });
        let node = abi::Node {
            size: size_of::<abi::Node>(),
            op: abi::Text::of(op.name),
            name: abi::Text::of(name),
            input_count: inputs.len(),
            inputs: store_all(&mut self.tensor_lists, inputs),
            output_count: outputs.len(),
            outputs: store_all(&mut self.tensor_lists, outputs),
            attribute_count: attributes.len(),
            attributes: store_all(&mut self.attribute_lists, attributes),
            input_values,
            output_values,
        };
        store(&mut self.nodes, node)
    }

    fn operand(
        &mut self,
        ty: Option<&'a TensorType>,
        constant: Option<&'a Buffer>,
        prepared: Option<&'a (String, Buffer)>,
        ranges: Option<&OperandRanges>,
    ) -> *const abi::Tensor {
        let Some(ty) = ty else { return ptr::null() };
        let extents: Vec<u64> = ty.shape().iter().map(|&extent| extent as u64).collect();
        let elements_vary = ranges.is_some_and(|ranges| ranges.elements_vary);
        // The other side reads one range for each dimension.
        let ranges = ranges.filter(|ranges| ranges.extents.len() == extents.len());
        let ranges = ranges.map_or(ptr::null(), |ranges| {
            let range = |range: &ExtentRange| abi::ExtentRange {
                min: range.min,
                max: range.max,
            };
            store_all(&mut self.ranges, ranges.extents.iter().map(range).collect())
        });
        let tensor = abi::Tensor {
            size: size_of::<abi::Tensor>(),
            dtype: dtype_code(ty.dtype()),
            rank: extents.len() as u32,
            extents: store_all(&mut self.extents, extents),
            data: constant.map_or(abi::Bytes::NONE, retainable),
            layout: prepared.map_or(abi::Text::EMPTY, |(layout, _)| abi::Text::of(layout)),
            prepared: prepared.map_or(abi::Bytes::NONE, |(_, data)| retainable(data)),
            ranges,
            elements_vary: elements_vary.into(),
        };
        store(&mut self.tensors, tensor)
    }

    fn attribute(&mut self, name: &'a str, value: &'a Attribute) -> *const abi::Attribute {
        use std::slice::from_ref;
        let mut out = abi::Attribute {
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
            store_all(&mut self.texts, texts)
        };
        match value {
            Attribute::Int(value) => (out.kind, out.integers) = (abi::kind::INT, value),
            Attribute::Float(value) => (out.kind, out.floats) = (abi::kind::FLOAT, value),
            Attribute::String(value) => {
                (out.kind, out.texts) = (abi::kind::STRING, texts(from_ref(value)));
            }
            Attribute::Ints(values) => {
                (out.kind, out.integers) = (abi::kind::INTS, values.as_ptr());
                out.count = values.len();
            }
            Attribute::Floats(values) => {
                (out.kind, out.floats) = (abi::kind::FLOATS, values.as_ptr());
                out.count = values.len();
            }
            Attribute::Strings(values) => {
                (out.kind, out.texts) = (abi::kind::STRINGS, texts(values));
                out.count = values.len();
            }
            Attribute::Tensor(tensor) => {
                out.kind = abi::kind::TENSOR;
                out.tensor = self.operand(Some(tensor.ty()), Some(tensor.buffer()), None, None);
            }
        }
        store(&mut self.attributes, out)
    }
}

/// The ranges of inputs and outputs, followed by absent ones.
#[allow(clippy::type_complexity, reason = "two iterators of one node")]
fn ranges_of<'r>(
    ranges: Option<&'r NodeRanges>,
) -> (
    impl Iterator<Item = Option<&'r OperandRanges>>,
    impl Iterator<Item = Option<&'r OperandRanges>>,
) {
    let operands = |list: Option<&'r [Option<OperandRanges>]>| {
        let list = list.unwrap_or_default().iter().map(Option::as_ref);
        list.chain(std::iter::repeat(None))
    };
    (
        operands(ranges.map(|ranges| &*ranges.inputs)),
        operands(ranges.map(|ranges| &*ranges.outputs)),
    )
}

/// The bytes of a buffer, which `tenon_host.retain` can share.
fn retainable(buffer: &Buffer) -> abi::Bytes {
    abi::Bytes {
        start: buffer.as_ptr().cast(),
        length: buffer.len(),
        owner: (&raw const *buffer).cast(),
    }
}

/// Named values, and the list of pointers to them, which is valid while the values live.
pub(crate) fn named_values<'a>(
    all: impl Iterator<Item = (&'a str, &'a PropertyValue)>,
) -> (Box<[abi::PropertyValue]>, Box<[*const abi::PropertyValue]>) {
    let values: Box<[abi::PropertyValue]> = all
        .map(|(name, value)| {
            let (kind, integer, number, text) = match value {
                PropertyValue::Bool(value) => (abi::value::BOOL, i64::from(*value), 0.0, ""),
                PropertyValue::Int(value) => (abi::value::INT, *value, 0.0, ""),
                PropertyValue::Unsigned(value) => (abi::value::UNSIGNED, *value as i64, 0.0, ""),
                PropertyValue::Float(value) => (abi::value::FLOAT, 0, *value, ""),
                PropertyValue::String(value) => (abi::value::STRING, 0, 0.0, &**value),
            };
            abi::PropertyValue {
                size: size_of::<abi::PropertyValue>(),
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
    abi::failure(status_of(error), error.to_string())
}

/// The status of an error.
pub(crate) fn status_of(error: &Error) -> i32 {
    match error.kind() {
        ErrorKind::Unsupported => abi::status::UNSUPPORTED,
        ErrorKind::InvalidArgument | ErrorKind::InvalidModel => abi::status::INVALID,
        ErrorKind::OutOfMemory => abi::status::OUT_OF_MEMORY,
        ErrorKind::Cancelled | ErrorKind::DeadlineExceeded => abi::status::STOPPED,
        ErrorKind::DeviceLost => abi::status::DEVICE_LOST,
        _ => abi::status::FAILED,
    }
}

/// A refusal as a failure.
pub(crate) fn outcome_of_refusal(refusal: &Refusal) -> Outcome {
    let (mut index_and_found, mut name) = ([0, 0], String::new());
    let mut text = refusal.to_string();
    let reason = match &refusal.reason {
        Reason::UnknownOperator => abi::reason::UNKNOWN_OPERATOR,
        Reason::InputType { input, found } => {
            index_and_found = [*input as i64, dtype_code(*found).into()];
            abi::reason::INPUT_TYPE
        }
        Reason::InputRank { input, found } => {
            index_and_found = [*input as i64, *found as i64];
            abi::reason::INPUT_RANK
        }
        Reason::AttributeValue { attribute, found } => {
            name = (*attribute).to_owned();
            text.clone_from(found);
            abi::reason::ATTRIBUTE_VALUE
        }
        Reason::NotConstant { input } => {
            index_and_found[0] = *input as i64;
            abi::reason::NOT_CONSTANT
        }
        _ => abi::reason::OTHER,
    };
    abi::refusal(
        abi::status::UNSUPPORTED,
        reason,
        index_and_found,
        name,
        text,
    )
}
