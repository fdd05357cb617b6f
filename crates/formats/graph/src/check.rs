//! Checks of a node against its operator definition, and shape inference.

use crate::operator::{Arity, Inference, OperandDef};
use crate::{Attributes, Graph, Node, NodeId, OperatorDef, Value, ValueId};
use smallvec::SmallVec;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::{DataType, Tensor, TensorType};

/// All violations of the operator definition: attributes that are unknown, missing or of the wrong
/// kind; inputs that are missing, too many or of an unsupported type.
///
/// `types` has the types of the inputs, `None` for an omitted one. For inputs of unknown type call
/// [`check_attributes`] and [`check_inputs`] separately.
pub fn check_node(
    def: &OperatorDef,
    attributes: &Attributes,
    n_inputs: usize,
    types: &[Option<&TensorType>],
) -> Vec<Error> {
    let mut errors = check_attributes(def, attributes);
    let present: SmallVec<[bool; 8]> = (0..n_inputs)
        .map(|index| types.get(index).is_some_and(Option::is_some))
        .collect();
    errors.extend(check_inputs(def, &present));
    errors.extend(check_types(def, types));
    errors
}

/// The attributes that are unknown, of the wrong kind or missing.
pub fn check_attributes(def: &OperatorDef, attributes: &Attributes) -> Vec<Error> {
    let mut errors = Vec::new();
    for (name, value) in attributes.iter() {
        match def.attribute(name) {
            None => errors.push(
                problem(
                    ErrorKind::Unsupported,
                    format!("{} has no attribute '{name}'", def.name),
                )
                .expected(names(def.attributes.iter().map(|attribute| attribute.name)))
                .found(format_args!("{name} = {value}")),
            ),
            Some(row) if row.kind != value.kind() => errors.push(
                problem(
                    ErrorKind::InvalidModel,
                    format!("attribute '{name}' is of the wrong kind"),
                )
                .expected(row.kind)
                .found(value.kind()),
            ),
            Some(_) => {}
        }
    }
    for row in def.attributes {
        if row.required && attributes.value(row.name).is_none() {
            errors.push(problem(
                ErrorKind::InvalidModel,
                format!("{} needs attribute '{}'", def.name, row.name),
            ));
        }
    }
    errors
}

/// Missing and excess inputs; `present` is whether each listed one is present.
pub fn check_inputs(def: &OperatorDef, present: &[bool]) -> Vec<Error> {
    check_operands(def, "input", def.inputs, present)
}

/// Missing and excess outputs; `present` is whether each listed one is present.
pub fn check_outputs(def: &OperatorDef, present: &[bool]) -> Vec<Error> {
    check_operands(def, "output", def.outputs, present)
}

fn check_operands(
    def: &OperatorDef,
    what: &str,
    rows: &[OperandDef],
    present: &[bool],
) -> Vec<Error> {
    let mut errors = Vec::new();
    let open_ended = rows.last().is_some_and(|row| row.arity == Arity::Variadic);
    if present.len() > rows.len() && !open_ended {
        errors.push(
            problem(
                ErrorKind::Unsupported,
                format!("{} has too many {what}s", def.name),
            )
            .expected(format_args!("at most {}", rows.len()))
            .found(present.len()),
        );
    }
    for (index, row) in rows.iter().enumerate() {
        let there = present.get(index).copied().unwrap_or(false);
        // Every output may be omitted, except for the last one present.
        let needed = match row.arity {
            Arity::Optional => false,
            Arity::Required => what == "input",
            Arity::Variadic => true,
        };
        if needed && !there {
            errors.push(problem(
                ErrorKind::InvalidModel,
                format!("{} needs {what} '{}'", def.name, row.name),
            ));
        }
    }
    errors
}

/// The inputs of an unsupported type.
pub fn check_types(def: &OperatorDef, types: &[Option<&TensorType>]) -> Vec<Error> {
    let mut errors = Vec::new();
    for (index, ty) in types.iter().enumerate() {
        let (Some(ty), Some(row)) = (ty, def.input(index)) else {
            continue;
        };
        let strings = ty.dtype() == DataType::String && def.takes_strings();
        if !row.types.contains(ty.dtype()) && !strings {
            errors.push(
                problem(
                    ErrorKind::Unsupported,
                    format!(
                        "{} does not take input '{}' of this type",
                        def.name, row.name
                    ),
                )
                .expected(row.types)
                .found(ty.dtype()),
            );
        }
    }
    errors
}

/// Shape inference: checks the node against its operator definition, then runs the shape function.
/// Returns one type for each listed output.
pub fn infer(
    def: &OperatorDef,
    attributes: &Attributes,
    inputs: &[Option<&TensorType>],
    constants: &[Option<&Tensor>],
    outputs: usize,
) -> Result<Vec<TensorType>> {
    let errors = check_node(def, attributes, inputs.len(), inputs);
    if let Some(error) = Error::from_all(errors) {
        return Err(error);
    }
    let node = Inference {
        attributes,
        inputs,
        constants,
        outputs,
    };
    let mut types = (def.infer)(&node).map_err(|error| match error.kind() {
        // The shape function knows only the positions of inputs.
        ErrorKind::Unsupported => Error::from_all(unknown_inputs(def, &node)).unwrap_or(error),
        _ => error,
    })?;
    if types.len() < outputs {
        return Err(problem(
            ErrorKind::Unsupported,
            format!("{} has too many outputs", def.name),
        )
        .expected(format_args!("at most {}", types.len()))
        .found(outputs));
    }
    types.truncate(outputs);
    Ok(types)
}

/// The shape-determining inputs that are not constant.
fn unknown_inputs(def: &OperatorDef, node: &Inference<'_>) -> Vec<Error> {
    let unknown = def.inputs.iter().enumerate().filter(|(index, row)| {
        row.compile_time && node.optional(*index).is_some() && node.constant(*index).is_none()
    });
    let error = |(_, row): (usize, &OperandDef)| {
        problem(
            ErrorKind::Unsupported,
            format!(
                "input '{}' decides the output's shape, but its value is not known when compiling",
                row.name
            ),
        )
        .help("give it with --const NAME=FILE if it is an input of the model")
    };
    unknown.map(error).collect()
}

/// The types of the outputs of a node in its graph. Errors name the node.
pub fn infer_node(graph: &Graph, id: NodeId) -> Result<Vec<TensorType>> {
    let node = graph
        .nodes
        .get(id.index())
        .ok_or_else(|| problem(ErrorKind::NotFound, format!("the graph has no {id}")))?;
    infer_in(graph, node).map_err(|error| error.at(Location::node(node.label(id))))
}

fn infer_in(graph: &Graph, node: &Node) -> Result<Vec<TensorType>> {
    let mut types = Vec::with_capacity(node.inputs.len());
    let mut constants = Vec::with_capacity(node.inputs.len());
    for input in &node.inputs {
        let value = match input {
            None => None,
            Some(id) => Some(
                graph
                    .values
                    .get(id.index())
                    .ok_or_else(|| unknown_value(*id))?,
            ),
        };
        let ty = match value {
            None => None,
            Some(value) => Some(value.ty.as_ref().ok_or_else(|| {
                problem(
                    ErrorKind::InvalidModel,
                    format!("the type of input '{}' is not known", value.name),
                )
            })?),
        };
        types.push(ty);
        constants.push(value.and_then(Value::known));
    }
    let present: Vec<bool> = node.outputs.iter().map(Option::is_some).collect();
    if let Some(error) = Error::from_all(check_outputs(node.op, &present)) {
        return Err(error);
    }
    infer(
        node.op,
        &node.attributes,
        &types,
        &constants,
        node.outputs.len(),
    )
}

pub(crate) fn unknown_value(id: ValueId) -> Error {
    problem(
        ErrorKind::InvalidModel,
        format!("the graph has no value {id}"),
    )
}

fn problem(kind: ErrorKind, message: String) -> Error {
    Error::new(kind, message)
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

impl Graph {
    /// Infers the types of all values, in topological order. A declared type must agree with the
    /// inferred one. All problems are reported together; nodes that depend on a failed one are
    /// skipped.
    pub fn infer_types(&mut self) -> Result<()> {
        let mut errors = Vec::new();
        for index in 0..self.nodes.len() {
            let id = NodeId(index as u32);
            if self.has_untyped_input(id) {
                continue;
            }
            match infer_node(self, id) {
                Ok(types) => errors.extend(self.set_types(id, types)),
                Err(error) => errors.push(error),
            }
        }
        Error::from_all(errors).map_or(Ok(()), Err)
    }

    /// Whether an input of the node exists and is of unknown type.
    fn has_untyped_input(&self, id: NodeId) -> bool {
        let inputs = self.nodes[id.index()].inputs.iter().flatten();
        inputs
            .filter_map(|input| self.values.get(input.index()))
            .any(|value| value.ty.is_none())
    }

    fn set_types(&mut self, id: NodeId, types: Vec<TensorType>) -> Vec<Error> {
        let node = &self.nodes[id.index()];
        let mut errors = Vec::new();
        for (output, ty) in node.outputs.iter().zip(types) {
            let Some(output) = output else { continue };
            let Some(value) = self.values.get_mut(output.index()) else {
                errors.push(unknown_value(*output).at(Location::node(node.label(id))));
                continue;
            };
            match &value.ty {
                Some(known) if *known != ty => {
                    errors.push(
                        problem(
                            ErrorKind::InvalidModel,
                            format!("output '{}' has another type than it is given", value.name),
                        )
                        .expected(&ty)
                        .found(known)
                        .at(Location::node(node.label(id))),
                    );
                }
                _ => value.ty = Some(ty),
            }
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attribute, DataType, operator::operator};

    fn ty(dtype: DataType, shape: &[usize]) -> TensorType {
        TensorType::new(dtype, shape).unwrap()
    }

    #[test]
    fn every_problem_of_a_node_is_found() {
        let concat = operator("Concat").unwrap();
        let attributes = Attributes::new().with("axes", Attribute::Int(0));
        let texts: Vec<String> = check_node(concat, &attributes, 0, &[])
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            texts,
            [
                "Concat has no attribute 'axes': expected axis, found axes = 0",
                "Concat needs attribute 'axis'",
                "Concat needs input 'inputs'",
            ]
        );
        let relu = operator("Relu").unwrap();
        let bool = ty(DataType::Bool, &[2]);
        let texts: Vec<String> =
            check_node(relu, &Attributes::new(), 2, &[Some(&bool), Some(&bool)])
                .iter()
                .map(ToString::to_string)
                .collect();
        assert_eq!(
            texts,
            [
                "Relu has too many inputs: expected at most 1, found 2",
                "Relu does not take input 'X' of this type: \
                 expected f32, f64, f16, bf16, i8, i16, i32 or i64, found bool",
            ]
        );
    }

    #[test]
    fn inference_names_the_node() {
        let mut graph = Graph::new("g");
        let x = graph.add_input("x", ty(DataType::F32, &[2, 3]));
        let y = graph.add_value("y", None);
        graph.nodes.push(Node {
            name: "product".into(),
            op: operator("MatMul").unwrap(),
            attributes: Attributes::new(),
            inputs: vec![Some(x), Some(x)],
            outputs: vec![Some(y)],
        });
        assert_eq!(
            graph.infer_types().unwrap_err().to_string(),
            "node 'product': inputs 'A' and 'B' do not multiply: expected 3 rows, found 2 in [2, 3]"
        );
        graph.nodes[0].op = operator("Reshape").unwrap();
        graph.nodes[0].inputs[1] = Some(graph.add_input("s", ty(DataType::I64, &[2])));
        assert_eq!(
            infer_node(&graph, NodeId(0)).unwrap_err().to_string(),
            "node 'product': input 'shape' decides the output's shape, but its value is not known \
             when compiling; give it with --const NAME=FILE if it is an input of the model"
        );
        assert!(infer_node(&graph, NodeId(7)).is_err());
        graph.nodes[0].inputs[1] = Some(ValueId(9));
        assert_eq!(
            infer_node(&graph, NodeId(0)).unwrap_err().to_string(),
            "node 'product': the graph has no value %9"
        );
    }
}
