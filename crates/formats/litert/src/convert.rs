//! Conversion of a model's subgraphs to an ONNX graph.
//!
//! Subgraphs are converted operator by operator, in the order of the file, which is the order of execution. Values have
//! names of their nodes at first; at the end they get the names of their tensors.

use crate::interface::{self, Interface};
use crate::model::invalid;
use crate::names::{Names, rename};
use crate::node::Operation;
use crate::operators;
use crate::problems::Problems;
use crate::proto::{Attributes, value, versions};
use crate::schema::tflite as schema;
use crate::tensor::TensorInfo;
use bytes::Bytes;
use schema::BuiltinOperator;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_onnx::proto::*;

/// The key of a converted model's metadata that lists the names of all signatures.
pub const SIGNATURES: &str = "litert.signatures";

/// The maximum number of nodes, for subgraphs that are used several times.
const MAX_NODES: usize = 1 << 18;

/// The least limit of bytes for the constants and tables of subgraphs, which are copied for each use.
const MAX_COPIES: usize = 256 << 20;

/// The bytes of sparse tensors that may be decoded: this many, or for larger files a multiple of their size.
const MAX_DECODED: usize = 256 << 20;
const MAX_DECODED_RATIO: usize = 64;

/// The maximum nesting depth of subgraphs.
const MAX_DEPTH: usize = 16;

/// The bytes of a file.
#[derive(Clone, Copy)]
pub(crate) struct Data<'m> {
    /// The part that was verified.
    pub flatbuffer: &'m Bytes,
    pub file: &'m Bytes,
}

/// The state of a conversion.
pub(crate) struct Conversion<'m> {
    pub model: schema::Model<'m>,
    data: Data<'m>,
    control: &'m Control,
    /// The graphs under construction, outermost first.
    graphs: Vec<GraphProto>,
    nodes: usize,
    /// Those of ONNX's operator set and of its files, for all nodes.
    versions: (i64, i64),
    names: Names,
    /// The names of tensors for values that were named after their node.
    renamed: HashMap<String, String>,
    /// Values that nodes of the outermost graph produce.
    produced: HashSet<String>,
    depth: usize,
    copied: usize,
    /// The bytes of sparse tensors that may still be decoded.
    decoded: usize,
    problems: Problems,
}

/// A subgraph while it is converted.
pub(crate) struct Scope<'m> {
    pub subgraph: schema::SubGraph<'m>,
    /// Before the names of its nodes.
    prefix: String,
    tensors: Vec<Option<Rc<TensorInfo>>>,
    /// The values of tensors.
    values: Vec<Option<String>>,
    /// Values that are derived from those of tensors, so that each is computed once.
    pub derived: HashMap<(usize, Form), String>,
}

/// A form of a tensor's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// Real values of quantised ones.
    Real,
    /// The channels of an image first.
    ChannelsFirst,
    /// Both.
    RealChannelsFirst,
}

/// The ONNX model of a signature.
pub(crate) fn model(
    model: schema::Model<'_>,
    data: Data<'_>,
    name: Option<&str>,
    control: &Control,
) -> Result<ModelProto> {
    let interface = Interface::new(model, name)?;
    let names: Vec<&str> = interface::names(model).collect();
    let mut conversion = Conversion::new(model, data, control);
    let own = interface.subgraph.name().filter(|name| !name.is_empty());
    conversion.begin_graph(own.unwrap_or("main"));
    conversion.main(&interface)?;
    let (version, ir_version) = conversion.versions;
    let graph = conversion.finish()?;
    Ok(ModelProto {
        ir_version,
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version,
        }],
        producer_name: model.description().unwrap_or_default().to_owned(),
        graph: Some(Box::new(graph)),
        metadata_props: vec![StringStringEntryProto {
            key: SIGNATURES.to_owned(),
            value: names.join(", "),
        }],
        ..Default::default()
    })
}

impl<'m> Conversion<'m> {
    fn new(model: schema::Model<'m>, data: Data<'m>, control: &'m Control) -> Self {
        Self {
            model,
            data,
            control,
            graphs: Vec::new(),
            nodes: 0,
            versions: versions(""),
            names: Names::default(),
            renamed: HashMap::new(),
            produced: HashSet::new(),
            depth: 0,
            copied: 0,
            decoded: data
                .file
                .len()
                .saturating_mul(MAX_DECODED_RATIO)
                .max(MAX_DECODED),
            problems: Problems::default(),
        }
    }

    /// Converts the subgraph of a signature.
    fn main(&mut self, interface: &Interface<'m>) -> Result<()> {
        let mut scope = self.scope(interface.subgraph, String::new())?;
        let mut used = HashSet::new();
        for (tensor, name) in &interface.inputs {
            let Some(index) = self.checked(&scope, *tensor) else {
                continue;
            };
            let info = match self.info(&mut scope, index) {
                Ok(info) => info,
                Err(error) => {
                    self.problems.add(error);
                    continue;
                }
            };
            if !used.insert(index) {
                self.problems
                    .add(invalid("a tensor is an input twice").at(place(&info.name)));
                continue;
            }
            let name = self.names.unique(first_filled([name, &info.name], "input"));
            let declared = value(&name, info.dtype, Some(&info.shape));
            self.graph().input.push(declared);
            scope.values[index] = Some(name);
        }
        // Reserved, so that no inner value gets one of these names.
        let mut outputs = Vec::new();
        for (tensor, name) in &interface.outputs {
            if let Some(index) = self.checked(&scope, *tensor) {
                let info = self.info(&mut scope, index);
                let own = info.map(|info| info.name.clone()).unwrap_or_default();
                outputs.push((
                    index,
                    self.names.unique(first_filled([name, &own], "output")),
                ));
            }
        }
        if outputs.is_empty() {
            self.problems.add(invalid("the subgraph has no outputs"));
        }
        self.subgraph(&mut scope)?;
        for (index, name) in outputs {
            let found = self.value(&mut scope, index);
            let info = self.info(&mut scope, index);
            let (found, info) = match found.and_then(|found| Ok((found, info?))) {
                Ok(found) => found,
                Err(error) => {
                    self.problems.add(error);
                    continue;
                }
            };
            // The value has the name of the output, if it is not an input, constant or another output.
            if self.produced.remove(&found) {
                self.renamed.insert(found, name.clone());
            } else {
                self.emit_to(
                    &name.clone(),
                    "Identity",
                    &[&found],
                    Vec::new(),
                    vec![name.clone()],
                )?;
            }
            // Converters write the shape of a scalar for results of custom operators, whose shapes they do not know.
            let shape = (info.rank() > 0).then_some(info.shape.as_slice());
            let declared = value(&name, info.dtype, shape);
            self.graph().output.push(declared);
        }
        Ok(())
    }

    /// A scope for a subgraph.
    pub fn scope(&mut self, subgraph: schema::SubGraph<'m>, prefix: String) -> Result<Scope<'m>> {
        let tensors = subgraph.tensors().map_or(0, |list| list.len());
        if self.depth > 0 {
            self.copied = self.copied.saturating_add(tensors.saturating_mul(64));
            self.check_copies()?;
        }
        Ok(Scope {
            subgraph,
            prefix,
            tensors: vec![None; tensors],
            values: vec![None; tensors],
            derived: HashMap::new(),
        })
    }

    /// Converts the operators of a scope whose inputs have values.
    pub fn subgraph(&mut self, scope: &mut Scope<'m>) -> Result<()> {
        if self.depth >= MAX_DEPTH {
            return Err(
                invalid("subgraphs are nested too deeply, or contain themselves")
                    .expected(format_args!("at most {MAX_DEPTH} levels")),
            );
        }
        self.depth += 1;
        for (index, operator) in scope.subgraph.operators().into_iter().flatten().enumerate() {
            if index % 256 == 0 {
                self.control.check()?;
            }
            let code = match self.code(operator) {
                Ok(code) => code,
                Err(error) => {
                    self.problems
                        .add(error.at(Location::node(format!("{}{index}", scope.prefix))));
                    continue;
                }
            };
            self.check_copies()?;
            let label = format!("{}{}_{index}", scope.prefix, code.name());
            if let Err(error) = self.operator(scope, operator, &code, &label) {
                if is_stop(&error) {
                    return Err(error);
                }
                self.problems.add(error.at(Location::node(&label)));
            }
            // Consumers of a refused operator are not reported.
            for output in operator.outputs().into_iter().flatten() {
                if let Some(value) = scope.values.get_mut(output as usize) {
                    value.get_or_insert_with(String::new);
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn operator(
        &mut self,
        scope: &mut Scope<'m>,
        operator: schema::Operator<'m>,
        code: &Code<'m>,
        label: &str,
    ) -> Result<()> {
        let Some(convert) = operators::converter(code.operator, code.custom) else {
            self.problems.refuse(code.refusal(), label);
            return Ok(());
        };
        let place = |index: i32, tensors: usize| {
            usize::try_from(index)
                .ok()
                .filter(|&index| index < tensors)
                .ok_or_else(|| {
                    invalid("a tensor does not exist")
                        .expected(format_args!("an index below {tensors}"))
                        .found(index)
                })
        };
        let count = scope.values.len();
        let operand = |index: i32| match index {
            -1 => Ok(None),
            index => place(index, count).map(Some),
        };
        let inputs = operator.inputs().into_iter().flatten().map(operand);
        let outputs = operator.outputs().into_iter().flatten();
        let mut operation = Operation {
            inputs: inputs.collect::<Result<Vec<_>>>()?,
            outputs: outputs
                .map(|index| place(index, count))
                .collect::<Result<Vec<_>>>()?,
            operator,
            label: label.to_owned(),
            conversion: self,
            scope,
        };
        match convert(&mut operation) {
            Err(error)
                if error.kind() == ErrorKind::Unsupported
                    && error.location() == &Location::default() =>
            {
                let reason = format!("operator {}: {}", code.name(), error.without_location());
                self.problems.refuse(reason, label);
                Ok(())
            }
            result => result,
        }
    }

    /// The operator of a node.
    fn code(&self, operator: schema::Operator<'m>) -> Result<Code<'m>> {
        let codes = self.model.operator_codes();
        let (count, index) = (
            codes.map_or(0, |codes| codes.len()),
            operator.opcode_index() as usize,
        );
        let code = codes
            .filter(|_| index < count)
            .map(|codes| codes.get(index))
            .ok_or_else(|| {
                invalid("an operator code does not exist")
                    .expected(format_args!("an index below {count}"))
                    .found(index)
            })?;
        // Codes up to 127 are in the old field, of a byte; newer writers have them in both.
        let old = i32::from(code.deprecated_builtin_code());
        Ok(Code {
            operator: BuiltinOperator(old.max(code.builtin_code().0)),
            custom: code.custom_code(),
        })
    }

    /// The index of a tensor of the interface; others are reported.
    fn checked(&mut self, scope: &Scope<'m>, tensor: i32) -> Option<usize> {
        let count = scope.values.len();
        let index = usize::try_from(tensor).ok().filter(|&index| index < count);
        if index.is_none() {
            self.problems.add(
                invalid("an input or output of the subgraph does not exist")
                    .expected(format_args!("an index below {count}"))
                    .found(tensor),
            );
        }
        index
    }

    /// A tensor of a scope.
    pub fn info(&mut self, scope: &mut Scope<'m>, index: usize) -> Result<Rc<TensorInfo>> {
        if let Some(Some(info)) = scope.tensors.get(index) {
            return Ok(info.clone());
        }
        let tensors = scope.subgraph.tensors();
        let tensor = tensors.filter(|tensors| index < tensors.len());
        let tensor = tensor
            .ok_or_else(|| invalid("a tensor does not exist"))?
            .get(index);
        let info = Rc::new(TensorInfo::read(
            tensor,
            self.model,
            self.data,
            &mut self.decoded,
        )?);
        scope.tensors[index] = Some(info.clone());
        Ok(info)
    }

    /// The value of a tensor as it is stored: the output of a node, an input or a constant.
    pub fn value(&mut self, scope: &mut Scope<'m>, index: usize) -> Result<String> {
        if let Some(Some(name)) = scope.values.get(index) {
            return Ok(name.clone());
        }
        let info = self.info(scope, index)?;
        let Some(data) = info.data.clone() else {
            return Err(invalid(
                "a tensor is read, but has no data and no operator computes it before",
            )
            .at(place(&info.name)));
        };
        let proto = crate::proto::constant(info.dtype, &info.shape, data);
        let name = self.constant(&info.name, proto);
        scope.values[index] = Some(name.clone());
        Ok(name)
    }

    /// Whether a tensor has a value.
    pub fn is_set(&self, scope: &Scope<'m>, index: usize) -> bool {
        matches!(scope.values.get(index), Some(Some(_)))
    }

    /// Sets the value of a tensor. It gets the tensor's name if it has no other name.
    pub fn bind(&mut self, scope: &mut Scope<'m>, index: usize, value: String) {
        let name = scope
            .tensors
            .get(index)
            .and_then(|info| Some(info.as_ref()?.name.clone()));
        if let Some(name) = name.filter(|name| !name.is_empty())
            && self.produced.contains(&value)
            && !self.renamed.contains_key(&value)
        {
            let unique = self.names.unique(&name);
            self.renamed.insert(value.clone(), unique);
        }
        scope.values[index] = Some(value);
    }

    /// Sets the value of an input of a subgraph that is not the main one.
    pub fn set_input(&mut self, scope: &mut Scope<'m>, index: usize, value: String) -> Result<()> {
        let slot = scope
            .values
            .get_mut(index)
            .ok_or_else(|| invalid("an input of a subgraph does not exist"))?;
        *slot = Some(value);
        Ok(())
    }

    /// The graph under construction.
    pub fn graph(&mut self) -> &mut GraphProto {
        if self.graphs.is_empty() {
            self.graphs.push(GraphProto::default());
        }
        let last = self.graphs.len() - 1;
        &mut self.graphs[last]
    }

    /// Begins the graph of a body.
    pub fn begin_graph(&mut self, name: &str) {
        self.graphs.push(GraphProto {
            name: name.to_owned(),
            ..Default::default()
        });
    }

    /// Ends the graph of a body.
    pub fn end_graph(&mut self) -> GraphProto {
        self.graphs.pop().unwrap_or_default()
    }

    /// A name that no value has yet.
    pub fn unique(&mut self, stem: &str) -> String {
        self.names.unique(stem)
    }

    /// An error when the copies of subgraphs take too much memory.
    fn check_copies(&self) -> Result<()> {
        let limit = self.data.file.len().saturating_mul(4).max(MAX_COPIES);
        if self.copied <= limit {
            return Ok(());
        }
        let text = "the constants of subgraphs, copied for each use, are too large";
        let error = Error::new(ErrorKind::OutOfMemory, text);
        Err(error.expected(format_args!("at most {limit} bytes")))
    }

    /// Adds a constant, and returns its name.
    pub fn constant(&mut self, stem: &str, tensor: TensorProto) -> String {
        // The depth of the main subgraph is 1.
        if self.depth > 1 {
            let bytes = tensor.raw_data.as_ref().map_or(0, Bytes::len);
            self.copied = self.copied.saturating_add(bytes);
        }
        let stem = if stem.is_empty() { "constant" } else { stem };
        let name = self.names.unique(stem);
        self.graph().initializer.push(TensorProto {
            name: name.clone(),
            ..tensor
        });
        name
    }

    /// Adds a node with these outputs.
    pub fn emit_to(
        &mut self,
        label: &str,
        operator: &str,
        inputs: &[&str],
        attribute: Attributes,
        output: Vec<String>,
    ) -> Result<()> {
        self.nodes += 1;
        self.versions = self.versions.max(versions(operator));
        if self.nodes > MAX_NODES {
            let text =
                format!("the model has more than {MAX_NODES} nodes after subgraphs are expanded");
            return Err(Error::new(ErrorKind::OutOfMemory, text));
        }
        if self.graphs.len() == 1 {
            self.produced.extend(output.iter().cloned());
        }
        self.graph().node.push(NodeProto {
            input: inputs.iter().map(|&name| name.to_owned()).collect(),
            output,
            name: label.to_owned(),
            op_type: operator.to_owned(),
            attribute,
            ..Default::default()
        });
        Ok(())
    }

    /// The graph, or all problems.
    fn finish(mut self) -> Result<GraphProto> {
        if let Some(error) = std::mem::take(&mut self.problems).into_error() {
            return Err(error);
        }
        let mut graph = self.end_graph();
        rename(&mut graph, &self.renamed);
        Ok(graph)
    }
}

/// The operator of a node: built in, or of another library.
struct Code<'m> {
    operator: BuiltinOperator,
    custom: Option<&'m str>,
}

impl Code<'_> {
    fn name(&self) -> String {
        match self.operator.variant_name() {
            Some(name) => name.to_owned(),
            None => format!("operator{}", self.operator.0),
        }
    }

    /// Why the operator is refused.
    fn refusal(&self) -> String {
        match (self.operator, self.custom) {
            (BuiltinOperator::CUSTOM, name) => format!(
                "custom operator '{}' is not supported",
                name.unwrap_or_default().escape_debug()
            ),
            (operator, _) if operator.variant_name().is_none() => {
                format!("operator code {} does not exist", operator.0)
            }
            _ => format!("operator {} is not supported", self.name()),
        }
    }
}

/// The location of a tensor in errors.
pub(crate) fn place(name: &str) -> Location {
    Location::field(format!("tensor '{name}'"))
}

/// Whether an error ends the conversion: cancellation, deadline or exhausted memory.
fn is_stop(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Cancelled | ErrorKind::DeadlineExceeded | ErrorKind::OutOfMemory
    )
}

/// The first name that is not empty.
fn first_filled<'a>(names: [&'a str; 2], or: &'a str) -> &'a str {
    names
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or(or)
}
