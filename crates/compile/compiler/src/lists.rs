//! Sequences and optional values. Where the tensors of a sequence are known when compiling, operators on it become
//! operators on its tensors; others are kernels of the host program.

use crate::control::set_type;
use crate::data_sizes::extents;
use crate::specialise::{Specialiser, identity};
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::host::host_operator;
use tenon_graph::operator::operator;
use tenon_graph::{
    Attribute, Attributes, ElementShape, Graph, List, ListType, Node, OperatorDef, UniqueNames,
    ValueId,
};
use tenon_tensor::size::SizeExpr;
use tenon_tensor::{DataType, Tensor, TensorType, ValueKind};

/// A tensor is split into at most this number of parts when compiling.
const MAX_PARTS: usize = 1024;

/// What remains of a node: whether it is kept, and the nodes that replace it.
type Remains = (bool, Vec<Node>);

/// Whether an operator takes or makes sequences or optional values here.
pub(crate) fn is_list_node(graph: &Graph, node: &Node) -> bool {
    let mut inputs = node.inputs.iter().flatten();
    node.op.is_list_operator() || inputs.any(|&id| graph.value(id).list.is_some())
}

impl Specialiser<'_> {
    /// Infers the types of the outputs of an operator on sequences or optional values.
    pub(crate) fn list_node(&mut self, graph: &mut Graph, node: &mut Node) -> Result<Remains> {
        let output = node.outputs.first().copied().flatten();
        let output = output.ok_or_else(|| invalid("a node without an output"))?;
        let kept = (true, Vec::new());
        match node.op.name {
            "Identity" => {
                let list = list(graph, node, 0)?.clone();
                graph.value_mut(output).list = Some(list);
                Ok(kept)
            }
            "SequenceEmpty" => {
                let ty = ListType {
                    kind: ValueKind::Sequence,
                    dtype: dtype_attribute(node)?.unwrap_or(DataType::F32),
                    elements: ElementShape::Empty,
                };
                set_list(graph, output, ty, Some(Vec::new()));
                Ok(kept)
            }
            "SequenceConstruct" => {
                let items: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
                let mut ty: Option<ListType> = None;
                for &item in &items {
                    let (dtype, shape) = tensor(graph, item)?;
                    let before = ty.unwrap_or(ListType {
                        kind: ValueKind::Sequence,
                        dtype,
                        elements: ElementShape::Empty,
                    });
                    ty = Some(before.with_element(dtype, &shape)?);
                }
                let ty = ty.ok_or_else(|| invalid("a SequenceConstruct without inputs"))?;
                set_list(graph, output, ty, Some(items));
                Ok(kept)
            }
            "SequenceInsert" => {
                let list = list(graph, node, 0)?.clone();
                let item = input(node, 1)?;
                let (dtype, shape) = tensor(graph, item)?;
                let ty = list.ty.with_element(dtype, &shape)?;
                let length = list.items.as_ref().map(Vec::len);
                let position = position(graph, node, 2, length, 1, length)?;
                let items = list.items.zip(position).map(|(mut items, position)| {
                    items.insert(position, item);
                    items
                });
                if let Some(items) = &items {
                    construct(node, items, ty.dtype)?;
                }
                set_list(graph, output, ty, items);
                Ok(kept)
            }
            "SequenceErase" => {
                let list = list(graph, node, 0)?.clone();
                let length = list.items.as_ref().map(Vec::len);
                let last = length.and_then(|length| length.checked_sub(1));
                let position = position(graph, node, 1, length, 0, last)?;
                let items = list.items.zip(position).map(|(mut items, position)| {
                    items.remove(position);
                    items
                });
                if let Some(items) = &items {
                    construct(node, items, list.ty.dtype)?;
                }
                set_list(graph, output, list.ty, items);
                Ok(kept)
            }
            "tenon.MapOperand" if graph.value(input(node, 0)?).list.is_none() => {
                self.copy(graph, input(node, 0)?, output)
            }
            "SequenceAt" | "tenon.MapOperand" => {
                let list = list(graph, node, 0)?.clone();
                let length = list.items.as_ref().map(Vec::len);
                let position = position(graph, node, 1, length, 0, None)?;
                match list.items.zip(position) {
                    Some((items, position)) => self.copy(graph, items[position], output),
                    None => open_element(graph, output, &list.ty),
                }
            }
            "SequenceLength" => match &list(graph, node, 0)?.items {
                Some(items) => {
                    let length = Tensor::scalar(items.len() as i64)?;
                    set_constant(graph, output, length)
                }
                None => {
                    set_type(graph, output, DataType::I64, Vec::new(), (usize::MAX, &[]))?;
                    Ok(kept)
                }
            },
            "SplitToSequence" => self.split(graph, node, output),
            "ConcatFromSequence" => self.concat(graph, node, output),
            "Optional" => {
                match node.inputs.first().copied().flatten() {
                    Some(id) => wrap(graph, id, output)?,
                    None => {
                        let kind = node.attributes.value("kind");
                        let kind = match kind {
                            Some(Attribute::String(kind)) => kind.parse()?,
                            _ => return Err(invalid("an Optional without an input or a type")),
                        };
                        let ty = ListType {
                            kind,
                            dtype: dtype_attribute(node)?.unwrap_or(DataType::F32),
                            elements: ElementShape::Empty,
                        };
                        graph.value_mut(output).list = Some(List {
                            ty,
                            present: Some(false),
                            items: Some(Vec::new()),
                        });
                    }
                }
                Ok(kept)
            }
            "OptionalHasElement" => {
                let id = node.inputs.first().copied().flatten();
                let present = match id.map(|id| &graph.value(id).list) {
                    None => Some(false),
                    Some(None) => Some(true),
                    Some(Some(list)) => list.present,
                };
                match present {
                    Some(present) => {
                        set_constant(graph, output, Tensor::from_bools([], &[present])?)
                    }
                    None => {
                        set_type(graph, output, DataType::Bool, Vec::new(), (usize::MAX, &[]))?;
                        Ok(kept)
                    }
                }
            }
            "OptionalGetElement" => self.present_value(graph, node, output),
            name => {
                let text = format!("{name} does not take a sequence or an optional value");
                Err(Error::new(ErrorKind::Unsupported, text))
            }
        }
    }

    /// OptionalGetElement: the tensor or sequence that is present.
    fn present_value(
        &mut self,
        graph: &mut Graph,
        node: &mut Node,
        output: ValueId,
    ) -> Result<Remains> {
        let id = input(node, 0)?;
        let Some(list) = graph.value(id).list.clone() else {
            return self.copy(graph, id, output);
        };
        if list.present == Some(false) {
            return Err(invalid("an optional value that is absent"));
        }
        if list.ty.kind.is_sequence() {
            let ty = ListType {
                kind: ValueKind::Sequence,
                ..list.ty
            };
            set_list(graph, output, ty, list.items);
            return Ok((true, Vec::new()));
        }
        match list.items.as_deref() {
            Some(&[item]) => self.copy(graph, item, output),
            _ => {
                let kind = Attribute::String(ValueKind::Tensor.to_string());
                node.attributes.set("kind", kind);
                open_element(graph, output, &list.ty)
            }
        }
    }

    /// SplitToSequence: with a known number of parts, a Split and a sequence of its results.
    fn split(&mut self, graph: &mut Graph, node: &mut Node, output: ValueId) -> Result<Remains> {
        let data = input(node, 0)?;
        let (dtype, shape) = tensor(graph, data)?;
        let axis = axis(node, shape.len())?;
        let keep = node.attributes.flag("keepdims", true)?;
        let given = node.inputs.get(1).copied().flatten();
        let squeeze = given.is_none() && !keep;
        let extent = shape[axis].constant();
        let extent = extent.and_then(|extent| usize::try_from(extent).ok());
        let sizes = match given {
            Some(given) => {
                let value = graph.value(given);
                let rank = value.ty.as_ref().map(|ty| ty.shape().len());
                let sizes = value.constant.as_ref().and_then(Tensor::to_i64s);
                match (sizes.as_deref(), rank, extent) {
                    (Some(&[size]), Some(0), Some(extent)) => Some(parts(extent, size)?),
                    (Some(sizes), Some(1), Some(_)) => Some(sizes.to_vec()),
                    _ => None,
                }
            }
            None => extent
                .filter(|&extent| extent <= MAX_PARTS)
                .map(|extent| vec![1; extent]),
        };
        let Some(sizes) = sizes.filter(|sizes| sizes.len() <= MAX_PARTS) else {
            let mut extents: Vec<Option<SizeExpr>> = shape.into_iter().map(Some).collect();
            match squeeze {
                true => drop(extents.remove(axis)),
                false => extents[axis] = given.is_none().then(|| 1.into()),
            }
            let ty = ListType {
                kind: ValueKind::Sequence,
                dtype,
                elements: ElementShape::Extents(extents),
            };
            set_list(graph, output, ty, None);
            return Ok((true, Vec::new()));
        };
        let mut nodes = Vec::new();
        let mut items = Vec::with_capacity(sizes.len());
        let mut names = UniqueNames::of(graph);
        let mut new_value = |graph: &mut Graph, what: &str| {
            let name = names.value(&format!("{}.{what}", node.name));
            graph.add_value(name, None)
        };
        if !sizes.is_empty() {
            let sizes = Tensor::from_slice([sizes.len()], &sizes)?;
            let list = new_value(graph, "sizes");
            constant(graph, list, sizes.clone());
            items.extend((0..sizes.ty().elements()).map(|_| new_value(graph, "part")));
            let attributes = Attributes::new().with("axis", Attribute::Int(axis as i64));
            let outputs = items.iter().copied().map(Some).collect();
            nodes.push(Node {
                name: format!("{}/Split", node.name),
                op: table("Split")?,
                attributes,
                inputs: vec![Some(data), Some(list)],
                outputs,
            });
        }
        if squeeze && !items.is_empty() {
            let axes = new_value(graph, "axes");
            constant(graph, axes, Tensor::from_slice([1], &[axis as i64])?);
            for (index, item) in items.iter_mut().enumerate() {
                let part = new_value(graph, "part");
                nodes.push(Node {
                    name: format!("{}/Squeeze.{index}", node.name),
                    op: table("Squeeze")?,
                    attributes: Attributes::new(),
                    inputs: vec![Some(*item), Some(axes)],
                    outputs: vec![Some(part)],
                });
                *item = part;
            }
        }
        construct(node, &items, dtype)?;
        nodes.push(node.clone());
        Ok((false, self.visit_all(graph, nodes)?))
    }

    /// ConcatFromSequence: with known tensors, a Concat of them.
    fn concat(&mut self, graph: &mut Graph, node: &Node, output: ValueId) -> Result<Remains> {
        let list = list(graph, node, 0)?.clone();
        let new_axis = node.attributes.flag("new_axis", false)?;
        if let Some(items) = list.items.filter(|items| !items.is_empty()) {
            return self.concat_items(graph, node, items, new_axis);
        }
        let ElementShape::Extents(mut extents) = list.ty.elements.clone() else {
            return Err(unknown_rank(&list.ty));
        };
        let axis = axis(node, extents.len() + usize::from(new_axis))?;
        match new_axis {
            true => extents.insert(axis, None),
            false => extents[axis] = None,
        }
        set_type(graph, output, list.ty.dtype, extents, (usize::MAX, &[]))?;
        Ok((true, Vec::new()))
    }

    fn concat_items(
        &mut self,
        graph: &mut Graph,
        node: &Node,
        items: Vec<ValueId>,
        new_axis: bool,
    ) -> Result<Remains> {
        let rank = tensor(graph, items[0])?.1.len();
        let axis = axis(node, rank + usize::from(new_axis))?;
        let mut nodes = Vec::new();
        let mut operands = items;
        if new_axis {
            let mut names = UniqueNames::of(graph);
            let axes = names.value(&format!("{}.axes", node.name));
            let axes = graph.add_constant(axes, Tensor::from_slice([1], &[axis as i64])?);
            for (index, operand) in operands.iter_mut().enumerate() {
                let name = names.value(&format!("{}.part", node.name));
                let part = graph.add_value(name, None);
                nodes.push(Node {
                    name: format!("{}/Unsqueeze.{index}", node.name),
                    op: table("Unsqueeze")?,
                    attributes: Attributes::new(),
                    inputs: vec![Some(*operand), Some(axes)],
                    outputs: vec![Some(part)],
                });
                *operand = part;
            }
        }
        nodes.push(Node {
            name: node.name.clone(),
            op: table("Concat")?,
            attributes: Attributes::new().with("axis", Attribute::Int(axis as i64)),
            inputs: operands.into_iter().map(Some).collect(),
            outputs: node.outputs.clone(),
        });
        Ok((false, self.visit_all(graph, nodes)?))
    }

    /// A copy of a tensor in place of a node.
    fn copy(&mut self, graph: &mut Graph, from: ValueId, to: ValueId) -> Result<Remains> {
        let copy = identity(graph, from, to).into_iter().collect();
        Ok((false, self.visit_all(graph, copy)?))
    }
}

/// The optional value that is present and holds `id`.
fn wrap(graph: &mut Graph, id: ValueId, output: ValueId) -> Result<()> {
    let list = match graph.value(id).list.clone() {
        Some(list) if list.ty.kind.is_optional() => {
            return Err(invalid("an optional value in an optional value"));
        }
        Some(list) => list,
        None => {
            let (dtype, shape) = tensor(graph, id)?;
            let ty = ListType {
                kind: ValueKind::Optional,
                dtype,
                elements: ElementShape::Extents(shape.into_iter().map(Some).collect()),
            };
            List {
                ty,
                present: Some(true),
                items: Some(vec![id]),
            }
        }
    };
    let ty = ListType {
        kind: list.ty.kind.optional(),
        ..list.ty
    };
    graph.value_mut(output).list = Some(List {
        ty,
        present: Some(true),
        items: list.items,
    });
    Ok(())
}

/// The sizes of parts of `size` elements; the last one may be smaller.
fn parts(extent: usize, size: i64) -> Result<Vec<i64>> {
    let size = usize::try_from(size).ok().filter(|&size| size > 0);
    let size = size.ok_or_else(|| invalid("the size of the parts is not positive"))?;
    let starts = (0..extent).step_by(size).take(MAX_PARTS + 1);
    Ok(starts
        .map(|start| size.min(extent - start) as i64)
        .collect())
}

/// The position that an input gives, from 0 to the length plus `beyond`, without 0 to -length counted from the end;
/// `default` without the input. `None` if it is unknown.
fn position(
    graph: &Graph,
    node: &Node,
    index: usize,
    length: Option<usize>,
    beyond: usize,
    default: Option<usize>,
) -> Result<Option<usize>> {
    let Some(id) = node.inputs.get(index).copied().flatten() else {
        return match (length, default) {
            (Some(_), None) => Err(invalid("the sequence is empty")),
            (_, default) => Ok(default),
        };
    };
    let given = graph.value(id).constant.as_ref().and_then(Tensor::to_i64s);
    let given = given.and_then(|given| given.first().copied());
    let Some((given, length)) = given.zip(length) else {
        return Ok(None);
    };
    let from_start = if given < 0 {
        given + length as i64
    } else {
        given
    };
    let position = usize::try_from(from_start).ok();
    let position = position.filter(|&position| position < length + beyond);
    position.map(Some).ok_or_else(|| {
        invalid("a position that the sequence does not have")
            .expected(format_args!("a position in {length} tensors"))
            .found(given)
    })
}

/// Makes a node one that makes a sequence of these tensors.
fn construct(node: &mut Node, items: &[ValueId], dtype: DataType) -> Result<()> {
    let name = if items.is_empty() {
        "SequenceEmpty"
    } else {
        "SequenceConstruct"
    };
    let op = host_operator(name);
    node.op = op.ok_or_else(|| Error::new(ErrorKind::Internal, "an unknown operator"))?;
    node.attributes = Attributes::new();
    if items.is_empty() {
        let dtype = Attribute::String(dtype.name().to_owned());
        node.attributes.set("dtype", dtype);
    }
    node.inputs = items.iter().copied().map(Some).collect();
    Ok(())
}

/// Sets the type of a tensor of a sequence that is known only when the model runs.
fn open_element(graph: &mut Graph, output: ValueId, ty: &ListType) -> Result<Remains> {
    let ElementShape::Extents(extents) = ty.elements.clone() else {
        return Err(unknown_rank(ty));
    };
    set_type(graph, output, ty.dtype, extents, (usize::MAX, &[]))?;
    Ok((true, Vec::new()))
}

fn unknown_rank(ty: &ListType) -> Error {
    let text = "the number of dimensions of the tensors of a sequence is not known when compiling";
    Error::new(ErrorKind::Unsupported, text).found(ty)
}

fn set_list(graph: &mut Graph, id: ValueId, ty: ListType, items: Option<Vec<ValueId>>) {
    graph.value_mut(id).list = Some(List {
        items,
        ..List::of_type(ty)
    });
}

fn set_constant(graph: &mut Graph, id: ValueId, tensor: Tensor) -> Result<Remains> {
    constant(graph, id, tensor);
    Ok((false, Vec::new()))
}

fn constant(graph: &mut Graph, id: ValueId, tensor: Tensor) {
    let value = graph.value_mut(id);
    value.ty = Some(tensor.ty().clone());
    value.constant = Some(tensor);
}

fn table(name: &str) -> Result<&'static OperatorDef> {
    operator(name).ok_or_else(|| Error::new(ErrorKind::Internal, "an unknown operator"))
}

/// The attribute `axis`, counted from the start.
fn axis(node: &Node, rank: usize) -> Result<usize> {
    let given = node.attributes.int("axis", 0)?;
    let axis = if given < 0 {
        given + rank as i64
    } else {
        given
    };
    let axis = usize::try_from(axis).ok().filter(|&axis| axis < rank);
    axis.ok_or_else(|| {
        invalid("attribute 'axis' is no dimension")
            .expected(format_args!("one of {rank} dimensions"))
            .found(given)
    })
}

fn dtype_attribute(node: &Node) -> Result<Option<DataType>> {
    match node.attributes.value("dtype") {
        Some(Attribute::String(dtype)) => dtype.parse().map(Some),
        _ => Ok(None),
    }
}

fn input(node: &Node, index: usize) -> Result<ValueId> {
    let input = node.inputs.get(index).copied().flatten();
    input.ok_or_else(|| invalid(format!("input {index} is missing")))
}

/// The sequence or optional value that is an input.
fn list<'g>(graph: &'g Graph, node: &Node, index: usize) -> Result<&'g List> {
    let list = graph.value(input(node, index)?).list.as_ref();
    list.ok_or_else(|| invalid(format!("input {index} is no sequence")))
}

/// The data type and extents of a tensor.
fn tensor(graph: &Graph, id: ValueId) -> Result<(DataType, Vec<SizeExpr>)> {
    let value = graph.value(id);
    let constant = value.constant.as_ref().map(Tensor::ty);
    let ty: Option<&TensorType> = value.ty.as_ref().or(constant);
    let found = ty.map(TensorType::dtype).zip(extents(value));
    found.ok_or_else(|| invalid(format!("'{}' is no tensor", value.name)))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidModel, message)
}
