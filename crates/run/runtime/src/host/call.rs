//! `tenon.call`: a subgraph, called by a host function.

use super::watch;
use crate::core_node::CoreNode;
use crate::model::{Caller, ModelContext};
use crate::symbolic::SymbolicCore;
use std::sync::{Arc, OnceLock};
use tenon_base::{Error, ErrorKind, Result};
use tenon_executor::{Frame, Kernel, KernelDef, Signature, Site, Value};
use tenon_kernels::{HostTensor, size_names};
use tenon_tensor::{BufferMut, Tensor};

/// The subgraphs of a package.
pub(super) struct Subgraphs {
    list: Vec<Subgraph>,
    /// Set when the model is complete.
    context: OnceLock<ModelContext>,
}

/// A subgraph.
pub(super) enum Subgraph {
    /// All its sizes are known.
    Fixed(Box<CoreNode>),
    /// It has symbols.
    Symbolic(Box<SymbolicCore>),
}

impl Subgraphs {
    pub fn new(list: Vec<Subgraph>) -> Self {
        Self {
            list,
            context: OnceLock::new(),
        }
    }

    pub fn set_context(&self, context: ModelContext) {
        self.context.get_or_init(|| context);
    }

    /// The subgraphs of which all sizes are known.
    pub fn fixed(&self) -> impl Iterator<Item = &CoreNode> {
        self.list.iter().filter_map(|subgraph| match subgraph {
            Subgraph::Fixed(core) => Some(&**core),
            Subgraph::Symbolic(_) => None,
        })
    }

    /// Bytes of memory held for executions that are not running.
    pub fn idle_bytes(&self) -> usize {
        let bytes = |subgraph: &Subgraph| match subgraph {
            Subgraph::Fixed(core) => core.arenas.free_bytes(),
            Subgraph::Symbolic(core) => core.idle_bytes(),
        };
        self.list.iter().map(bytes).sum()
    }
}

/// The kernel that calls a subgraph: its operands are the inputs, then a size for each of its attribute `symbols`.
pub(super) fn definition() -> KernelDef {
    let signature = Signature {
        variadic: true,
        variadic_results: true,
        functions: Some(0),
        ..Signature::default()
    };
    KernelDef::new("tenon.call", signature, |site| {
        Ok(Box::new(Call::bind(site)?))
    })
    .doc("Calls a subgraph of the package.")
}

struct Call {
    subgraphs: Arc<Subgraphs>,
    subgraph: usize,
    /// The number of tensors that it takes.
    inputs: usize,
    /// For each operand that is a size the position of its symbol.
    symbols: Vec<usize>,
    /// The sizes of symbols that are no operands: their smallest.
    others: Vec<i64>,
}

impl Call {
    fn bind(site: &Site<'_>) -> Result<Self> {
        let subgraphs = site.service::<Subgraphs>()?;
        let attributes = site.attributes();
        let index = attributes.i32("subgraph")?;
        let subgraph = usize::try_from(index).unwrap_or(usize::MAX);
        let names = size_names(attributes)?;
        let (inputs, outputs, symbols, others) = match subgraphs.list.get(subgraph) {
            Some(Subgraph::Fixed(core)) => (
                core.inputs.len(),
                core.outputs.len(),
                Vec::new(),
                Vec::new(),
            ),
            Some(Subgraph::Symbolic(core)) => {
                let table = core.symbols();
                let position = |name: &&str| table.find(name).map(|id| id.index());
                let known = names.iter().filter_map(position).collect();
                let others = table.iter().map(|(_, symbol)| symbol.min as i64).collect();
                let [inputs, outputs] = core.port_counts();
                (inputs, outputs, known, others)
            }
            None => return Err(invalid("the package has no such subgraph").found(index)),
        };
        let kernel = site.kernel();
        let expected = (inputs + names.len(), outputs, names.len());
        let found = (kernel.operands.len(), kernel.results.len(), symbols.len());
        if found != expected {
            let shown = |(operands, results, symbols): (usize, usize, usize)| {
                format!("{operands} operands, {results} results and {symbols} symbols")
            };
            let error = invalid("a call that does not fit its subgraph");
            return Err(error.expected(shown(expected)).found(shown(found)));
        }
        Ok(Self {
            subgraphs,
            subgraph,
            inputs,
            symbols,
            others,
        })
    }

    fn outputs(&self, frame: &Frame<'_>) -> Result<Vec<Tensor>> {
        let tensors = (0..self.inputs).map(|index| frame.object::<HostTensor>(index));
        let tensors: Vec<&Tensor> = tensors
            .map(|tensor| tensor.map(|tensor| &tensor.0))
            .collect::<Result<_>>()?;
        let unknown = || Error::new(ErrorKind::Internal, "a subgraph of an incomplete model");
        match self.subgraphs.list.get(self.subgraph) {
            Some(Subgraph::Fixed(core)) => execute(core, &tensors, frame),
            Some(Subgraph::Symbolic(core)) => {
                let mut sizes = self.others.clone();
                for (operand, &symbol) in self.symbols.iter().enumerate() {
                    sizes[symbol] = frame.read(self.inputs + operand)?;
                }
                core.symbols().check(&sizes)?;
                let context = self.subgraphs.context.get().ok_or_else(unknown)?;
                let model = core.model_at(context, &sizes)?;
                let mut cores = model.0.nodes.cores();
                let core = cores.next().ok_or_else(unknown)?;
                execute(core, &tensors, frame)
            }
            None => Err(unknown()),
        }
    }
}

impl Kernel for Call {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        for (index, tensor) in self.outputs(frame)?.into_iter().enumerate() {
            frame.set(index, Value::opaque(HostTensor(tensor)));
        }
        Ok(())
    }
}

/// Executes a subgraph on new memory for its outputs.
fn execute(core: &CoreNode, inputs: &[&Tensor], frame: &Frame<'_>) -> Result<Vec<Tensor>> {
    for (signature, tensor) in core.inputs.iter().zip(inputs) {
        if signature.ty != *tensor.ty() {
            let text = format!(
                "input '{}' of subgraph {} has another type",
                signature.name,
                core.name()
            );
            let error = Error::new(ErrorKind::InvalidArgument, text);
            return Err(error.expected(&signature.ty).found(tensor.ty()));
        }
    }
    let buffers = core.outputs.iter();
    let buffers = buffers.map(|signature| BufferMut::zeroed(signature.ty.bytes()));
    let mut buffers = buffers.collect::<Result<Vec<BufferMut>>>()?;
    let caller = Caller::Lists(
        inputs.iter().map(|tensor| tensor.bytes()),
        buffers.iter_mut().map(|buffer| &mut buffer[..]),
    );
    watch::observed(frame, |watch| core.execute(caller, frame.control(), watch))?;
    let outputs = buffers.into_iter().zip(&core.outputs);
    outputs
        .map(|(buffer, signature)| Tensor::new(signature.ty.clone(), buffer.freeze()))
        .collect()
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidProgram, message)
}
