//! Packages with a host function, which calls the subgraphs: models with sizes that depend on data (docs/package.md,
//! "Host functions").

mod call;
mod watch;

use self::call::{Subgraph, Subgraphs};
use crate::core_node::CoreNode;
use crate::inputs::InputValue;
use crate::model::ModelContext;
use crate::profile::ExecutionObserver;
use crate::symbolic::{SymbolicCore, SymbolicPort, solve_sizes};
use crate::{Dimension, LoadOptions, Runtime, Signature};
use std::sync::Arc;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_bef::{FunctionKind, decode};
use tenon_executor::{FunctionHandle, Host, Program, Registry, Request, Services, Value};
use tenon_kernels::{HostTensor, TensorList, host_function_kernels, host_library};
use tenon_neff::{GraphPort, HostFunction, NodeGraph, NodeWork};
use tenon_tensor::size::Symbols;
use tenon_tensor::{ModelValue, TensorType, ValueKind};

/// The members with the host function.
const PROGRAM: &str = "host.bef";
const MEMBER: &str = "host.json";

/// A host function and the subgraphs that it calls.
pub(crate) struct HostCore {
    main: FunctionHandle,
    host: Host,
    inputs: Vec<HostPort>,
    outputs: Vec<HostPort>,
    /// The symbols of the inputs.
    symbols: Symbols,
    /// These and the symbols of sizes that depend on data.
    all: Symbols,
    subgraphs: Arc<Subgraphs>,
}

/// An input or output of the host function.
enum HostPort {
    Tensor(SymbolicPort),
    /// A sequence or an optional value.
    List(Signature),
}

impl HostPort {
    fn new(port: &GraphPort, symbols: &Symbols) -> Result<Self> {
        if port.kind.is_tensor() {
            return SymbolicPort::new(port, symbols).map(Self::Tensor);
        }
        let symbolic = |expression: &str| Dimension::Symbolic {
            expression: expression.to_owned(),
            min: 0,
            max: u64::MAX,
        };
        let shape = match port.shape.of_elements()? {
            Some(extents) => {
                let extents = extents.into_iter();
                extents
                    .map(|extent| extent.map_or_else(|| symbolic("?"), Dimension::Fixed))
                    .collect()
            }
            None => vec![symbolic("...")],
        };
        let smallest = shape.iter().map(|dimension| match dimension {
            Dimension::Fixed(size) => *size,
            Dimension::Symbolic { .. } => 0,
        });
        Ok(Self::List(Signature {
            name: port.name.clone(),
            kind: port.kind,
            ty: TensorType::new(port.dtype, smallest.collect::<Vec<_>>())?,
            shape,
            keys: None,
        }))
    }

    fn tensor(&self) -> Option<&SymbolicPort> {
        match self {
            Self::Tensor(port) => Some(port),
            Self::List(_) => None,
        }
    }

    fn signature(&self, symbols: &Symbols) -> Result<Signature> {
        match self {
            Self::Tensor(port) => port.signature(symbols),
            Self::List(signature) => Ok(signature.clone()),
        }
    }
}

impl HostCore {
    /// Loads the function and every subgraph; all problems of subgraphs together.
    pub fn load(graph: NodeGraph, runtime: &Runtime, options: &LoadOptions) -> Result<Self> {
        let mut subgraphs = Vec::new();
        let mut function = None;
        let mut problems = Vec::new();
        for node in graph.nodes {
            let loaded = match node.work {
                NodeWork::Host(found) => {
                    function = Some(found);
                    continue;
                }
                NodeWork::Core(contents) if contents.tenon.is_symbolic() => {
                    SymbolicCore::load(&node.name, *contents, runtime, options)
                        .map(|core| Subgraph::Symbolic(Box::new(core)))
                }
                NodeWork::Core(contents) => CoreNode::load(&node.name, *contents, runtime, options)
                    .map(|core| Subgraph::Fixed(Box::new(core))),
                NodeWork::Cpu(_) => Err(invalid("a CPU node in a package with host functions")),
            };
            match loaded {
                Ok(subgraph) => subgraphs.push(subgraph),
                Err(error) => problems.push(error),
            }
        }
        if let Some(error) = Error::from_all(problems) {
            return Err(error);
        }
        let function = function.ok_or_else(|| invalid("no host function"))?;
        let subgraphs = Arc::new(Subgraphs::new(subgraphs));
        Self::bind(function, subgraphs, runtime)
    }

    fn bind(function: HostFunction, subgraphs: Arc<Subgraphs>, runtime: &Runtime) -> Result<Self> {
        let in_member = |error: Error| error.at(Location::member(MEMBER));
        let ports = |ports: &[GraphPort], symbols: &Symbols| {
            let port = |port: &GraphPort| HostPort::new(port, symbols);
            ports.iter().map(port).collect::<Result<Vec<_>>>()
        };
        let read = || -> Result<_> {
            let symbols = function.symbols(function.input_symbols)?;
            let all = function.symbols(usize::MAX)?;
            let inputs = ports(&function.inputs, &symbols)?;
            let outputs = ports(&function.outputs, &all)?;
            Ok((symbols, all, inputs, outputs))
        };
        let (symbols, all, inputs, outputs) = read().map_err(in_member)?;
        let bound = || -> Result<FunctionHandle> {
            let mut registry = Registry::new();
            registry.register_all(host_library())?;
            let kernels = host_function_kernels().into_iter();
            registry.register_all(kernels.map(watch::observable))?;
            registry.register_all([call::definition()])?;
            let services = Services::new()
                .with(subgraphs.clone())
                .with(runtime.backends.clone());
            let module = decode(&function.program)?;
            let main = Program::decode(&module, &registry, &services)?.handle("main")?;
            let arguments = inputs.len() + symbols.len();
            let (taken, returned) = (main.argument_types().len(), main.result_types().len());
            if (taken, returned) != (arguments, outputs.len()) {
                let error = invalid("@main has other arguments or results than the package");
                return Err(error
                    .expected(format_args!("{arguments} and {}", outputs.len()))
                    .found(format_args!("{taken} and {returned}")));
            }
            Ok(main)
        };
        Ok(Self {
            main: bound().map_err(|error| error.at(Location::member(PROGRAM)))?,
            host: Host::new(),
            inputs,
            outputs,
            symbols,
            all,
            subgraphs,
        })
    }

    /// Sets what the instances of subgraphs share with the model.
    pub fn set_context(&self, context: ModelContext) {
        self.subgraphs.set_context(context);
    }

    /// The subgraphs of which all sizes are known.
    pub fn cores(&self) -> impl Iterator<Item = &CoreNode> {
        self.subgraphs.fixed()
    }

    /// The symbols of the inputs.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// The inputs that are tensors.
    pub fn input_ports(&self) -> Vec<&SymbolicPort> {
        self.inputs.iter().filter_map(HostPort::tensor).collect()
    }

    pub fn inputs(&self) -> Result<Vec<Signature>> {
        let ports = self.inputs.iter();
        ports.map(|port| port.signature(&self.symbols)).collect()
    }

    pub fn outputs(&self) -> Result<Vec<Signature>> {
        let ports = self.outputs.iter();
        ports.map(|port| port.signature(&self.all)).collect()
    }

    /// The inputs for these sizes, and the outputs as far as they do not depend on data.
    pub fn signatures_at(&self, sizes: &[i64]) -> Result<[Vec<Signature>; 2]> {
        let inputs = self.inputs.iter().map(|port| match port {
            HostPort::Tensor(port) => port.fixed(sizes),
            HostPort::List(signature) => Ok(signature.clone()),
        });
        let outputs = self.outputs.iter().map(|port| {
            let HostPort::Tensor(port) = port else {
                return port.signature(&self.all);
            };
            let mut symbols = port.symbols();
            match symbols.all(|symbol| symbol.index() < sizes.len()) {
                true => port.fixed(sizes),
                false => port.signature(&self.all),
            }
        });
        Ok([
            inputs.collect::<Result<_>>()?,
            outputs.collect::<Result<_>>()?,
        ])
    }

    /// Bytes of memory held for executions that are not running.
    pub fn idle_bytes(&self) -> usize {
        self.subgraphs.idle_bytes()
    }

    /// Executes on values in the order of the inputs, which have their types, observed by `watch`.
    pub fn run(
        &self,
        inputs: &[&ModelValue],
        control: &Control,
        mut watch: Option<&mut ExecutionObserver<'_>>,
    ) -> Result<Vec<ModelValue>> {
        let tensors = inputs.iter().zip(&self.inputs);
        let types = tensors.filter_map(|(value, port)| match (value, port) {
            (ModelValue::Tensor(tensor), HostPort::Tensor(_)) => Some(tensor.ty()),
            _ => None,
        });
        let types: Vec<&TensorType> = types.collect();
        let sizes = solve_sizes(&self.input_ports(), &self.symbols, &types)?;
        let values = inputs.iter().zip(&self.inputs);
        let values = values.map(|(value, port)| argument(value, port));
        let arguments = values.chain(sizes.into_iter().map(Value::I64)).collect();
        let execute = || match self.main.kind() {
            FunctionKind::Async => {
                // A queue for this execution alone, which this thread runs.
                let host = Host::new();
                let request = Request::with(&host, control.clone(), false);
                Ok(host.wait(self.main.execute(&request, arguments)))
            }
            FunctionKind::Sync | FunctionKind::Native => {
                let request = Request::with(&self.host, control.clone(), false);
                self.main.execute_sync(&request, arguments)
            }
        };
        let results = watch::with_watch(watch.as_deref_mut(), execute);
        if let Some(error) = watch.and_then(ExecutionObserver::take_error) {
            return Err(error);
        }
        let results = results?;
        let outputs = results.iter().zip(&self.outputs);
        outputs.map(|(value, port)| output(value, port)).collect()
    }
}

/// The argument for an input.
fn argument(value: &ModelValue, port: &HostPort) -> Value {
    match (value, port) {
        (ModelValue::Tensor(tensor), HostPort::Tensor(_)) => {
            Value::opaque(HostTensor(tensor.clone()))
        }
        (ModelValue::Tensor(tensor), HostPort::List(_)) => {
            Value::opaque(TensorList::new(vec![tensor.clone()]))
        }
        (ModelValue::Sequence(tensors), _) => Value::opaque(TensorList::new(tensors.clone())),
        (ModelValue::None, _) => Value::opaque(TensorList::absent()),
    }
}

/// The value of a result.
fn output(value: &Value, port: &HostPort) -> Result<ModelValue> {
    let value = value.clone().resolved();
    if let Value::Error(error) = &value {
        return Err(Error::new(error.kind(), error.to_string()));
    }
    let found = match port {
        HostPort::Tensor(port) => {
            let tensor = value.downcast::<HostTensor>().map(|tensor| &tensor.0);
            let tensor = tensor.filter(|tensor| port.fits(tensor.ty()));
            tensor.cloned().map(ModelValue::Tensor).ok_or(port.name())
        }
        HostPort::List(signature) => {
            let list = value.downcast::<TensorList>();
            let value = list.map(|list| list_value(list, signature.kind));
            value
                .filter(|value| value.check(signature).is_ok())
                .ok_or(signature.name.as_str())
        }
    };
    found.map_err(|name| {
        invalid(format!(
            "output '{name}' of the host function has another type"
        ))
    })
}

/// The value that a list is.
fn list_value(list: &TensorList, kind: ValueKind) -> ModelValue {
    if !list.is_present() {
        return ModelValue::None;
    }
    let mut tensors = list.tensors();
    match tensors.pop() {
        Some(tensor) if !kind.is_sequence() => ModelValue::Tensor(tensor),
        last => {
            tensors.extend(last);
            ModelValue::Sequence(tensors)
        }
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidPackage, message)
}
