//! The host program of a package: calls of subgraphs, operators with results of unknown extents, and sizes.

use super::{Captured, FunctionBody, definition};
use crate::lower::lower_attribute;
use std::collections::HashMap;
use tenon_base::{Error, ErrorKind, Result};
use tenon_bef::{
    Attribute, EncodeOptions, Function, FunctionBuilder, FunctionId, FunctionKind, KernelBuilder,
    Module, RegisterId, encode,
};
use tenon_graph::control::Body;
use tenon_graph::{DataSizeSource, ElementShape, Graph, Node, ValueId};
use tenon_neff::{Extent, GraphPort, HostFunction, ModelInfo, PortShape, SymbolInfo, TenonMember};
use tenon_tensor::size::{SizeExpr, SymbolId};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType, ValueKind};

/// The types of registers.
const TENSOR: &str = "!tenon.tensor";
const SIZE: &str = "i64";
const LIST: &str = "!tenon.list";

/// Constants that operators of the host program read have at most this size; larger ones belong into subgraphs.
const MAX_CONSTANT: usize = 1 << 20;

/// A function of the host program under construction.
pub(super) struct HostProgram<'a> {
    graph: &'a Graph,
    function: FunctionBuilder,
    tensors: HashMap<ValueId, RegisterId>,
    sizes: HashMap<SymbolId, RegisterId>,
    by_name: HashMap<&'a str, ValueId>,
    /// Arguments of a loop's body besides tensors and sizes of values.
    iteration: Option<Iteration>,
    /// Whether it calls functions, which may return later.
    calls: bool,
}

/// The registers of an iteration.
struct Iteration {
    number: RegisterId,
    limit: RegisterId,
    /// The lists of the results that are stacked.
    lists: Vec<RegisterId>,
}

impl<'a> HostProgram<'a> {
    /// An empty function with its arguments: tensors, then sizes.
    pub fn new(graph: &'a Graph, body: &FunctionBody<'_, '_>) -> Self {
        let mut program = Self::empty(graph, body.name);
        program.add_arguments(body.tensors, body.sizes);
        program
    }

    /// The body of a loop. Its arguments: the number of the iteration, their limit, the states, a list for each stacked
    /// result, then what it captures.
    pub fn iteration(graph: &'a Graph, name: &str, body: &Body, captured: &Captured) -> Self {
        let mut program = Self::empty(graph, name);
        let (number, limit) = (
            program.function.argument(SIZE),
            program.function.argument(SIZE),
        );
        let states = body.inputs.get(2..).unwrap_or_default();
        for &state in states {
            let register = program.function.argument(register_type(graph, state));
            program.tensors.insert(state, register);
        }
        let lists = body.outputs.len().saturating_sub(1 + states.len());
        let lists = (0..lists).map(|_| program.function.argument(LIST));
        let lists = lists.collect();
        program.add_arguments(&captured.tensors, &captured.sizes);
        let scalar = |program: &mut Self, name: &str, operand: Option<RegisterId>| {
            let kernel = program.function.kernel(name.to_owned()).operands(operand);
            kernel.result(TENSOR)
        };
        if let Some(&id) = body.inputs.first() {
            let register = scalar(&mut program, "tenon.number", Some(number));
            program.tensors.insert(id, register);
        }
        if let Some(&id) = body.inputs.get(1) {
            // An iteration begins only when its condition is true.
            let register = scalar(&mut program, "tenon.true", None);
            program.tensors.insert(id, register);
        }
        program.iteration = Some(Iteration {
            number,
            limit,
            lists,
        });
        program
    }

    fn empty(graph: &'a Graph, name: &str) -> Self {
        let values = graph.values.iter().enumerate();
        let by_name = values.map(|(id, value)| (value.name.as_str(), ValueId(id as u32)));
        Self {
            graph,
            function: FunctionBuilder::new(name, FunctionKind::Sync),
            tensors: HashMap::new(),
            sizes: HashMap::new(),
            by_name: by_name.collect(),
            iteration: None,
            calls: false,
        }
    }

    fn add_arguments(&mut self, tensors: &[ValueId], sizes: &[SymbolId]) {
        for &id in tensors {
            let register = self.function.argument(register_type(self.graph, id));
            self.tensors.insert(id, register);
        }
        for &symbol in sizes {
            let register = self.function.argument(SIZE);
            self.sizes.insert(symbol, register);
        }
    }

    /// Adds an If that calls one of two functions.
    pub fn branch(
        &mut self,
        node: &Node,
        captured: &Captured,
        functions: &[FunctionId],
    ) -> Result<()> {
        let (condition, functions) = match (node.inputs.first(), functions) {
            (Some(&Some(condition)), &[then, otherwise]) => (condition, [then, otherwise]),
            _ => {
                return Err(Error::new(
                    ErrorKind::Internal,
                    "an If without two branches",
                ));
            }
        };
        let condition = self.tensor(condition)?;
        let truth = self.function.kernel("tenon.truth").operands([condition]);
        let truth = truth.result("i1");
        let captured = self.captured(captured)?;
        let operands = [truth].into_iter().chain(captured);
        let kernel = self.function.kernel("tfrt.cond").operands(operands);
        let kernel = kernel.function("a_true_fn", functions[0]);
        let kernel = kernel.function("b_false_fn", functions[1]);
        let types = node.outputs.iter();
        let types = types.map(|output| output.map_or(TENSOR, |id| register_type(self.graph, id)));
        let registers = kernel.result_types(&types.collect::<Vec<_>>());
        self.set_outputs(node, registers);
        self.calls = true;
        Ok(())
    }

    /// Adds a Loop whose body is a function.
    pub fn repeat(&mut self, node: &Node, captured: &Captured, body: FunctionId) -> Result<()> {
        let input = |index: usize| node.inputs.get(index).copied().flatten();
        let states = usize::try_from(node.attributes.int("states", 0)?).unwrap_or(0);
        let limit = match input(0) {
            Some(limit) => {
                let limit = self.tensor(limit)?;
                let kernel = self.function.kernel("tenon.element").operands([limit]);
                let kernel = kernel.attribute("index", Attribute::I64(0));
                kernel.attribute("name", "iterations").result(SIZE)
            }
            None => self.integer(i64::MAX),
        };
        let number = self.integer(0);
        let condition = match input(1) {
            Some(condition) => vec![self.tensor(condition)?],
            None => Vec::new(),
        };
        let begins = self.function.kernel("tenon.continue");
        let begins = begins.operands([number, limit].into_iter().chain(condition));
        let begins = begins.result("i1");
        let mut operands = vec![begins, number, limit];
        let mut types = vec![SIZE, SIZE];
        for state in 0..states {
            let state = input(2 + state);
            let state = state.ok_or_else(|| Error::new(ErrorKind::Internal, "a missing state"))?;
            operands.push(self.tensor(state)?);
            types.push(register_type(self.graph, state));
        }
        let lists = node.outputs.len().saturating_sub(states);
        for _ in 0..lists {
            operands.push(self.function.kernel("tenon.list").result(LIST));
            types.push(LIST);
        }
        let tensors = captured.tensors.iter();
        types.extend(tensors.map(|&id| register_type(self.graph, id)));
        types.extend(captured.sizes.iter().map(|_| SIZE));
        operands.extend(self.captured(captured)?);
        let kernel = self.function.kernel("tfrt.while").operands(operands);
        let kernel = kernel.attribute("parallel_iterations", Attribute::I64(1));
        let registers = kernel.function("body_fn", body).result_types(&types);
        self.calls = true;
        let mut results = registers[2..2 + states].to_vec();
        for (list, output) in node.outputs.iter().enumerate().skip(states) {
            let list = registers[2 + list];
            let ty = output.and_then(|id| self.graph.value(id).ty.clone());
            let Some((output, ty)) = output.zip(ty) else {
                results.push(list);
                continue;
            };
            let row = self.row_sizes(output)?;
            let kernel = self.function.kernel("tenon.stack");
            let kernel = kernel.operands([list].into_iter().chain(row));
            results.push(
                kernel
                    .attribute("dtype", ty.dtype().to_string())
                    .result(TENSOR),
            );
        }
        self.set_outputs(node, results);
        Ok(())
    }

    /// The extents of one result of those that are stacked into `output`: needed if there are none. Extents that depend
    /// on the results themselves are 0 then.
    fn row_sizes(&mut self, output: ValueId) -> Result<Vec<RegisterId>> {
        let extents = self.graph.value(output).extents.clone().unwrap_or_default();
        let mut registers = Vec::new();
        for extent in extents.iter().skip(1) {
            let own = extent.symbols().into_iter().any(|symbol| {
                definition(self.graph, symbol).is_some_and(|(value, _)| value == output)
            });
            registers.push(match extent.constant() {
                Some(size) => self.integer(size),
                None if own => self.integer(0),
                None => {
                    let ty = TensorType::new(DataType::I64, [])?;
                    let list = self.size_list(&ty, std::slice::from_ref(extent))?;
                    let kernel = self.function.kernel("tenon.element").operands([list]);
                    let kernel = kernel.attribute("index", Attribute::I64(0));
                    kernel.attribute("name", "extent").result(SIZE)
                }
            });
        }
        Ok(registers)
    }

    /// Ends the body of a loop: the arguments of the next iteration, and whether there is one.
    pub fn end_of_iteration(mut self, body: &Body, captured: &Captured) -> Result<Function> {
        let Some(Iteration {
            number,
            limit,
            lists,
        }) = self.iteration.take()
        else {
            return Err(Error::new(
                ErrorKind::Internal,
                "a function that is no body of a loop",
            ));
        };
        let one = self.integer(1);
        let next = self.function.kernel("tfrt.add.i64").operands([number, one]);
        let next = next.result(SIZE);
        let mut results = vec![next, limit];
        let (condition, values) = match body.outputs.split_first() {
            Some((&condition, values)) => (self.tensor(condition)?, values),
            None => {
                return Err(Error::new(
                    ErrorKind::Internal,
                    "a body without a condition",
                ));
            }
        };
        let states = values.len() - lists.len();
        for &state in &values[..states] {
            results.push(self.tensor(state)?);
        }
        for (&value, list) in values[states..].iter().zip(lists) {
            let value = self.tensor(value)?;
            let kernel = self.function.kernel("tenon.append");
            results.push(kernel.operands([list, value]).result(LIST));
        }
        results.extend(self.captured(captured)?);
        let kernel = self.function.kernel("tenon.continue");
        results.push(kernel.operands([next, limit, condition]).result("i1"));
        Ok(self.finish(results))
    }

    /// The registers of what the bodies of a node read.
    fn captured(&mut self, captured: &Captured) -> Result<Vec<RegisterId>> {
        let mut registers = Vec::new();
        for &id in &captured.tensors {
            registers.push(self.tensor(id)?);
        }
        for &symbol in &captured.sizes {
            registers.push(self.size(symbol)?);
        }
        Ok(registers)
    }

    fn set_outputs(&mut self, node: &Node, registers: Vec<RegisterId>) {
        let outputs = node.outputs.iter().zip(registers);
        self.tensors
            .extend(outputs.filter_map(|(output, register)| Some(((*output)?, register))));
    }

    fn integer(&mut self, value: i64) -> RegisterId {
        let kernel = self.function.kernel("tfrt.constant.i64");
        kernel
            .attribute("value", Attribute::I64(value))
            .result(SIZE)
    }

    /// Ends the function with these values.
    pub fn returns(mut self, values: &[ValueId]) -> Result<Function> {
        let registers = values.iter().map(|&id| self.tensor(id));
        let registers = registers.collect::<Result<Vec<RegisterId>>>()?;
        Ok(self.finish(registers))
    }

    /// A function that calls others runs by dataflow, since they may return later; and one that returns an argument,
    /// which synchronous functions cannot.
    fn finish(self, results: Vec<RegisterId>) -> Function {
        let mut function = self.function.returns(results);
        let arguments = function.arguments;
        if self.calls || function.results.iter().any(|result| result.0 < arguments) {
            function.kind = FunctionKind::Async;
        }
        function
    }

    /// Adds the call of a subgraph, which uses these symbols.
    pub fn call(&mut self, index: usize, member: &TenonMember, symbols: &[SymbolId]) -> Result<()> {
        let mut operands = Vec::new();
        for port in &member.inputs {
            let id = self.value(&port.name)?;
            operands.push(self.tensor(id)?);
        }
        for &symbol in symbols {
            operands.push(self.size(symbol)?);
        }
        let names: Vec<&str> = symbols.iter().map(|&id| self.name(id)).collect();
        let outputs = member.outputs.iter().map(|port| self.value(&port.name));
        let outputs = outputs.collect::<Result<Vec<ValueId>>>()?;
        let call = self
            .function
            .kernel("tenon.call")
            .operands(operands)
            .attribute("subgraph", Attribute::I32(index as i32))
            .attribute("symbols", names);
        let registers = call.result_list(TENSOR, outputs.len());
        self.tensors.extend(outputs.into_iter().zip(registers));
        Ok(())
    }

    /// Adds an operator whose results have unknown extents, or one on sequences or strings.
    pub fn operator(&mut self, node: &Node) -> Result<()> {
        if let ("Identity", [Some(from)], [Some(to)]) =
            (node.op.name, &node.inputs[..], &node.outputs[..])
        {
            let register = self.tensor(*from)?;
            self.tensors.insert(*to, register);
            return Ok(());
        }
        let mut operands = Vec::new();
        let mut inputs = Vec::new();
        for input in &node.inputs {
            inputs.push(match input {
                None => Attribute::I32(-1),
                Some(id) => {
                    operands.push(self.tensor(*id)?);
                    Attribute::I32(operands.len() as i32 - 1)
                }
            });
        }
        let attributes = node.attributes.iter().map(|(name, value)| {
            let value = lower_attribute(name, value)?;
            Ok((format!("op.{name}"), value))
        });
        let attributes = attributes.collect::<Result<Vec<_>>>()?;
        let present = node.outputs.iter();
        let outputs = present.map(|output| Attribute::I1(output.is_some()));
        let results: Vec<ValueId> = node.outputs.iter().flatten().copied().collect();
        let names: Vec<&str> = results
            .iter()
            .map(|&id| &*self.graph.value(id).name)
            .collect();
        let kernel = self
            .function
            .kernel("tenon.operator")
            .operands(operands)
            .attributes(attributes)
            .attribute("inputs", Attribute::list(inputs))
            .attribute("node", node.name.as_str())
            .attribute("operator", node.op.name)
            .attribute("outputs", Attribute::list(outputs.collect()))
            .attribute("values", names);
        let types = results.iter().map(|&id| register_type(self.graph, id));
        let registers = kernel.result_types(&types.collect::<Vec<_>>());
        self.tensors.extend(results.into_iter().zip(registers));
        Ok(())
    }

    /// The register of a value.
    fn tensor(&mut self, id: ValueId) -> Result<RegisterId> {
        if let Some(&register) = self.tensors.get(&id) {
            return Ok(register);
        }
        let value = self.graph.value(id);
        let register = if let Some(constant) = &value.constant {
            self.constant(constant.ty(), constant.bytes())?
        } else if let Some(sizes) = &value.sizes {
            self.size_list(sizes.example.ty(), &sizes.elements)?
        } else {
            let text = format!("value '{}' has no register", value.name);
            return Err(Error::new(ErrorKind::Internal, text));
        };
        self.tensors.insert(id, register);
        Ok(register)
    }

    fn constant(&mut self, ty: &TensorType, bytes: &[u8]) -> Result<RegisterId> {
        if bytes.len() > MAX_CONSTANT {
            let text = "a constant is too large for an operator of the host program";
            let error = Error::new(ErrorKind::Unsupported, text);
            return Err(error
                .expected(format_args!("at most {MAX_CONSTANT} bytes"))
                .found(ty));
        }
        let data = bytes.iter().map(|&byte| Attribute::UI8(byte)).collect();
        let kernel = self.function.kernel("tenon.constant");
        Ok(with_type(kernel, ty)
            .attribute("data", Attribute::list(data))
            .result(TENSOR))
    }

    /// A tensor of sizes.
    fn size_list(&mut self, ty: &TensorType, elements: &[SizeExpr]) -> Result<RegisterId> {
        let mut symbols: Vec<SymbolId> = elements.iter().flat_map(SizeExpr::symbols).collect();
        symbols.sort();
        symbols.dedup();
        let mut operands = Vec::new();
        for &symbol in &symbols {
            operands.push(self.size(symbol)?);
        }
        let names: Vec<&str> = symbols.iter().map(|&id| self.name(id)).collect();
        let table = &self.graph.symbols;
        let elements: Vec<String> = elements.iter().map(|element| table.text(element)).collect();
        let elements: Vec<&str> = elements.iter().map(String::as_str).collect();
        let kernel = self.function.kernel("tenon.sizes").operands(operands);
        Ok(with_type(kernel, ty)
            .attribute("elements", elements)
            .attribute("symbols", names)
            .result(TENSOR))
    }

    /// The register of a symbol's size.
    fn size(&mut self, symbol: SymbolId) -> Result<RegisterId> {
        if let Some(&register) = self.sizes.get(&symbol) {
            return Ok(register);
        }
        let Some((value, source)) = definition(self.graph, symbol) else {
            let text = format!("size '{}' has no definition", self.name(symbol));
            return Err(Error::new(ErrorKind::Internal, text));
        };
        let tensor = self.tensor(value)?;
        let (name, key, index) = match source {
            DataSizeSource::Extent(axis) => ("tenon.extent", "dimension", axis),
            DataSizeSource::Element(index) => ("tenon.element", "index", index),
        };
        let kernel = self.function.kernel(name).operands([tensor]);
        let register = kernel
            .attribute(key, Attribute::I64(index as i64))
            .attribute(
                "name",
                self.graph.symbols.symbol(symbol).map_or("", |s| &s.name),
            )
            .result(SIZE);
        self.sizes.insert(symbol, register);
        Ok(register)
    }

    fn value(&self, name: &str) -> Result<ValueId> {
        let id = self.by_name.get(name).copied();
        id.ok_or_else(|| Error::new(ErrorKind::Internal, format!("value '{name}' is unknown")))
    }

    fn name(&self, symbol: SymbolId) -> &'a str {
        let symbol = self.graph.symbols.symbol(symbol);
        symbol.map_or("", |symbol| &symbol.name)
    }
}

/// The host function of a package: its program, ports and symbols.
pub(super) fn host_function(
    graph: &Graph,
    module: &Module,
    model: ModelInfo,
    input_symbols: usize,
) -> Result<HostFunction> {
    let port = |&id: &ValueId| {
        let value = graph.value(id);
        if let Some(list) = &value.list {
            return Ok(GraphPort {
                name: value.name.clone(),
                kind: list.ty.kind,
                dtype: list.ty.dtype,
                shape: element_shape(&list.ty.elements),
            });
        }
        let constant = value.constant.as_ref().map(Tensor::ty);
        let ty = value.ty.as_ref().or(constant);
        let ty = ty.ok_or_else(|| Error::new(ErrorKind::Internal, "a value without a type"))?;
        let shape = match &value.extents {
            Some(extents) => PortShape::new(&graph.symbols, extents),
            None => (&**ty.shape()).into(),
        };
        Ok(GraphPort {
            name: value.name.clone(),
            kind: ValueKind::Tensor,
            dtype: ty.dtype(),
            shape,
        })
    };
    let ports = |ids: &[ValueId]| ids.iter().map(port).collect::<Result<Vec<_>>>();
    let bytes = encode(module, &EncodeOptions::default())?;
    Ok(HostFunction {
        model,
        program: BufferMut::copy_of(&bytes)?.freeze(),
        inputs: ports(&graph.inputs)?,
        outputs: ports(&graph.outputs)?,
        symbols: SymbolInfo::list(&graph.symbols),
        input_symbols,
    })
}

/// The shapes of the tensors of a list; extents that differ have no size.
fn element_shape(shape: &ElementShape) -> PortShape {
    let ElementShape::Extents(extents) = shape else {
        return PortShape::any_rank();
    };
    let extent = |extent: &Option<SizeExpr>| {
        let size = extent.as_ref().and_then(SizeExpr::constant);
        size.map_or_else(Extent::unknown, Extent::Fixed)
    };
    PortShape(extents.iter().map(extent).collect())
}

/// The type of the register of a value.
fn register_type(graph: &Graph, id: ValueId) -> &'static str {
    match graph.value(id).list {
        Some(_) => LIST,
        None => TENSOR,
    }
}

/// Adds the attributes of a tensor's type.
fn with_type<'b>(kernel: KernelBuilder<'b>, ty: &TensorType) -> KernelBuilder<'b> {
    let shape = ty.shape().iter();
    let shape = shape.map(|&extent| Attribute::I64(extent as i64)).collect();
    kernel
        .attribute("dtype", ty.dtype().to_string())
        .attribute("shape", Attribute::list(shape))
}
