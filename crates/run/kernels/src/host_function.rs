//! Kernels of host functions: operators whose results have extents that only an execution knows, the sizes that are read
//! from their results, conditions and lists (docs/package.md, "Host functions").

mod control;
mod counting;
mod list;
mod strings;

pub use control::TensorList;

use crate::attributes::operator_attributes;
use regex_lite::Regex;
use std::sync::{Arc, OnceLock};
use tenon_backend::{NodeView, Registry, evaluate};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::Attribute;
use tenon_executor::{
    Frame, Kernel, KernelAttributes, KernelDef, Label, Opaque, Signature, Site, Value,
};
use tenon_graph::host::host_operator;
use tenon_graph::operator::operator;
use tenon_graph::{Attributes, Inference, OperatorDef, infer, size_tensor};
use tenon_tensor::size::{SizeExpr, Symbols};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType};

/// A tensor in a register of a host function.
pub struct HostTensor(pub Tensor);

impl Opaque for HostTensor {
    const TYPE: &'static str = "!tenon.tensor";
}

/// The kernels of host functions, except calls of subgraphs.
pub fn host_function_kernels() -> Vec<KernelDef> {
    let signature = |operands: &[&'static str], results: &[&'static str]| Signature {
        operands: operands.to_vec(),
        results: results.to_vec(),
        functions: Some(0),
        ..Signature::default()
    };
    let tensor = HostTensor::TYPE;
    let variadic = |signature: Signature| Signature {
        variadic: true,
        ..signature
    };
    let mut kernels = control::kernels();
    kernels.extend([
        KernelDef::new("tenon.extent", signature(&[tensor], &["i64"]), |site| {
            let dimension = position(site.attributes(), "dimension")?;
            Ok(Box::new(Extent(dimension)))
        })
        .doc("The extent of a dimension."),
        KernelDef::new("tenon.element", signature(&[tensor], &["i64"]), |site| {
            let index = position(site.attributes(), "index")?;
            Ok(Box::new(Element(index)))
        })
        .doc("An element of a tensor of integers."),
        KernelDef::new("tenon.constant", signature(&[], &[tensor]), |site| {
            Ok(Box::new(constant(site.attributes())?))
        })
        .doc("A constant tensor."),
        KernelDef::new("tenon.sizes", variadic(signature(&[], &[tensor])), |site| {
            Ok(Box::new(SizeList::bind(site)?))
        })
        .doc("A tensor whose elements are expressions of the operands."),
        KernelDef::new(
            "tenon.operator",
            Signature {
                variadic_results: true,
                ..variadic(signature(&[], &[]))
            },
            |site| Ok(Box::new(HostOperator::bind(site)?)),
        )
        .doc("An operator, whose results get the extents that it finds."),
    ]);
    kernels
}

/// An attribute that is a position.
fn position(attributes: KernelAttributes<'_>, name: &str) -> Result<usize> {
    let value = attributes.i64(name)?;
    usize::try_from(value).map_err(|_| invalid(format!("'{name}' is negative")).found(value))
}

/// `tenon.extent`
struct Extent(usize);

impl Kernel for Extent {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let HostTensor(tensor) = frame.object(0)?;
        let extent = tensor.shape().get(self.0).copied();
        let extent = extent.ok_or_else(|| {
            let error = invalid("the tensor has fewer dimensions");
            error.expected(self.0 + 1).found(tensor.ty())
        })?;
        frame.set(0, Value::I64(extent as i64));
        Ok(())
    }
}

/// `tenon.element`
struct Element(usize);

impl Kernel for Element {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let HostTensor(tensor) = frame.object(0)?;
        let elements = tensor.to_i64s();
        let element = elements.as_ref().and_then(|elements| elements.get(self.0));
        let element = *element.ok_or_else(|| {
            let error = invalid("the tensor has no such integer");
            error
                .expected(format_args!("element {}", self.0))
                .found(tensor.ty())
        })?;
        frame.set(0, Value::I64(element));
        Ok(())
    }
}

/// `tenon.constant`
struct Constant(Value);

impl Kernel for Constant {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        frame.set(0, self.0.clone());
        Ok(())
    }
}

fn constant(attributes: KernelAttributes<'_>) -> Result<Constant> {
    let ty = tensor_type(attributes)?;
    let data = attributes.attribute("data")?.as_list().unwrap_or_default();
    let byte = |item: &Attribute| match item {
        Attribute::UI8(byte) => Some(*byte),
        _ => None,
    };
    let bytes: Vec<u8> = data.iter().filter_map(byte).collect();
    if ty.dtype() != DataType::String && bytes.len() != ty.bytes() {
        let error = invalid("the constant has another number of bytes than its type");
        return Err(error.expected(ty.bytes()).found(bytes.len()));
    }
    let tensor = Tensor::new(ty, BufferMut::copy_of(&bytes)?.freeze())?;
    Ok(Constant(Value::opaque(HostTensor(tensor))))
}

/// The type that the attributes `dtype` and `shape` give.
fn tensor_type(attributes: KernelAttributes<'_>) -> Result<TensorType> {
    let dtype = attributes.string("dtype")?;
    let dtype = dtype
        .parse::<DataType>()
        .map_err(|_| invalid("an unknown data type").found(format!("'{dtype}'")))?;
    let shape = attributes.attribute("shape")?.as_list().unwrap_or_default();
    let extent = |extent: &Attribute| usize::try_from(extent.as_i64()?).ok();
    let shape = shape.iter().map(extent).collect::<Option<Vec<usize>>>();
    let shape = shape.ok_or_else(|| invalid("an extent is negative or not an integer"))?;
    TensorType::new(dtype, shape)
}

/// The texts of a list.
fn texts<'a>(attributes: KernelAttributes<'a>, name: &str) -> Result<Vec<&'a str>> {
    let list = attributes.attribute(name)?.as_list().unwrap_or_default();
    let texts = list.iter().map(Attribute::as_str).collect::<Option<_>>();
    texts.ok_or_else(|| invalid(format!("'{name}' is not a list of texts")))
}

/// The names of the sizes that a kernel takes.
///
/// # Errors
/// No list of texts.
pub fn size_names<'a>(attributes: KernelAttributes<'a>) -> Result<Vec<&'a str>> {
    texts(attributes, "symbols")
}

/// The names of the values that an operator's results are in the model; none in packages of older versions.
pub fn value_names<'a>(attributes: KernelAttributes<'a>) -> Vec<&'a str> {
    texts(attributes, "values").unwrap_or_default()
}

/// `tenon.sizes`
struct SizeList {
    ty: TensorType,
    elements: Vec<SizeExpr>,
}

impl SizeList {
    fn bind(site: &Site<'_>) -> Result<Self> {
        let attributes = site.attributes();
        let names = size_names(attributes)?;
        let mut symbols = Symbols::default();
        for name in &names {
            symbols.add(name, 0..=*Symbols::any_size().end())?;
        }
        if site.kernel().operands.len() != names.len() {
            let error = invalid("not one operand for each symbol");
            return Err(error
                .expected(names.len())
                .found(site.kernel().operands.len()));
        }
        let ty = tensor_type(attributes)?;
        let elements = texts(attributes, "elements")?.into_iter();
        let elements = elements.map(|element| symbols.parse(element));
        let elements = elements.collect::<Result<Vec<SizeExpr>>>()?;
        if elements.len() != ty.elements() {
            let error = invalid("not one expression for each element");
            return Err(error.expected(ty.elements()).found(elements.len()));
        }
        Ok(Self { ty, elements })
    }
}

impl Kernel for SizeList {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let sizes = (0..frame.operands()).map(|index| frame.read::<i64>(index));
        let sizes = sizes.collect::<Result<Vec<i64>>>()?;
        let tensor = size_tensor(&self.ty, &self.elements, &sizes)?;
        frame.set(0, Value::opaque(HostTensor(tensor)));
        Ok(())
    }
}

/// `tenon.operator`
struct HostOperator {
    op: &'static OperatorDef,
    attributes: Attributes,
    node: String,
    /// The operand of each input.
    inputs: Vec<Option<usize>>,
    /// Whether each output is a result.
    outputs: Vec<bool>,
    backends: Arc<Registry>,
    /// The regular expressions of RegexFullMatch and tenon.Tokenizer.
    patterns: Vec<Regex>,
    /// The keys of tenon.LookUp, made by its first execution on strings.
    keys: OnceLock<strings::KeyTable>,
}

impl HostOperator {
    fn bind(site: &Site<'_>) -> Result<Self> {
        let attributes = site.attributes();
        let node = attributes.string("node")?.to_owned();
        let name = attributes.string("operator")?;
        let read = || -> Result<Self> {
            let op = operator(name)
                .or_else(|| host_operator(name))
                .ok_or_else(|| invalid("an unknown operator").found(format!("'{name}'")))?;
            let inputs = attributes.i32s("inputs")?;
            let operands = site.kernel().operands.len();
            let input = |input: &i32| match usize::try_from(*input) {
                Ok(index) if index < operands => Ok(Some(index)),
                Err(_) if *input == -1 => Ok(None),
                _ => Err(invalid("an input is no operand").found(input)),
            };
            let outputs = attributes.attribute("outputs")?.as_list();
            let outputs = outputs.unwrap_or_default().iter();
            let outputs: Vec<bool> = outputs.map(|item| *item == Attribute::I1(true)).collect();
            let results = outputs.iter().filter(|requested| **requested).count();
            if site.kernel().results.len() != results {
                let error = invalid("not one result for each output");
                return Err(error.expected(results).found(site.kernel().results.len()));
            }
            let operator_attributes = operator_attributes(op, attributes)?;
            Ok(Self {
                op,
                patterns: strings::patterns(op, &operator_attributes)?,
                attributes: operator_attributes,
                node: node.clone(),
                inputs: inputs.iter().map(input).collect::<Result<_>>()?,
                outputs,
                backends: site.service::<Registry>()?,
                keys: OnceLock::new(),
            })
        };
        read().map_err(|error| error.at(Location::node(node.as_str())))
    }

    fn results(&self, frame: &Frame<'_>) -> Result<Vec<Value>> {
        if self.op.is_list_operator() {
            return Ok(vec![self.list_result(frame)?]);
        }
        let input = |input: &Option<usize>| match input {
            Some(index) => frame
                .object::<HostTensor>(*index)
                .map(|tensor| Some(&tensor.0)),
            None => Ok(None),
        };
        let inputs = self.inputs.iter().map(input);
        let inputs = inputs.collect::<Result<Vec<Option<&Tensor>>>>()?;
        let results = match self.op.family {
            "strings" => self.string_results(&inputs)?,
            _ if self.looks_up_strings(&inputs) => vec![self.look_up(&inputs)?],
            _ => self.compute(self.op, &self.attributes, &inputs, &self.outputs)?,
        };
        let values = results.into_iter();
        Ok(values
            .map(|tensor| Value::opaque(HostTensor(tensor)))
            .collect())
    }

    /// The results of an operator of the table that are requested.
    fn compute(
        &self,
        op: &'static OperatorDef,
        attributes: &Attributes,
        inputs: &[Option<&Tensor>],
        requested: &[bool],
    ) -> Result<Vec<Tensor>> {
        let is_string = |tensor: &&Tensor| tensor.dtype() == DataType::String;
        if op.name == "Cast" {
            if let Some(cast) = strings::cast(attributes, inputs)? {
                return Ok(vec![cast]);
            }
        } else if op.name == "TfIdfVectorizer" && inputs.iter().flatten().any(is_string) {
            return strings::by_pool(attributes, inputs, |attributes, inputs| {
                self.compute(op, attributes, inputs, requested)
            });
        } else if inputs.iter().flatten().any(is_string) {
            return strings::by_position(op, inputs, requested, |inputs| {
                self.compute(op, attributes, inputs, requested)
            });
        }
        let types: Vec<_> = inputs.iter().map(|input| input.map(Tensor::ty)).collect();
        let node = Inference {
            attributes,
            inputs: &types,
            constants: inputs,
            outputs: requested.len(),
        };
        if let Some(result) = counting::result(op, &node)? {
            return Ok(vec![result]);
        }
        let found = infer(op, attributes, &types, inputs, requested.len())?;
        let outputs = found.into_iter().zip(requested);
        let outputs: Vec<Option<TensorType>> = outputs
            .map(|(ty, requested)| requested.then_some(ty))
            .collect();
        let view_outputs: Vec<_> = outputs.iter().map(Option::as_ref).collect();
        let view = NodeView {
            op,
            attributes,
            inputs: &types,
            constants: inputs,
            outputs: &view_outputs,
            ranges: None,
        };
        let mut backends = self.backends.iter();
        let backend = backends.find(|backend| backend.supports(&view).is_ok());
        let backend = backend.ok_or_else(|| {
            let text = format!("no backend computes {} for these types", op.name);
            Error::new(ErrorKind::Unsupported, text)
        })?;
        let results = evaluate(&**backend, op, attributes, inputs, &outputs)?;
        Ok(results.into_iter().flatten().collect())
    }
}

impl Kernel for HostOperator {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let results = frame
            .control()
            .run(|| self.results(frame))
            .map_err(|error| error.at(Location::node(self.node.as_str())))?;
        for (index, value) in results.into_iter().enumerate() {
            frame.set(index, value);
        }
        Ok(())
    }

    fn label(&self) -> Label<'_> {
        Label {
            node: &self.node,
            operator: self.op.name,
            backend: "host",
            bytes: 0,
        }
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidProgram, message)
}
