//! CPU nodes, which are computed outside of the graph: their outputs become inputs of the graph, their
//! inputs outputs.

use super::{Import, invalid};
use crate::proto::{GraphProto, NodeProto, ValueInfoProto};
use crate::scope::Scope;
use crate::signature::{Dimension, ValueSignature, qualified};
use crate::{CpuCall, ImportOptions};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::ValueId;
use tenon_tensor::TensorType;

/// The CPU nodes of the options, and their calls.
#[derive(Default)]
pub(super) struct CpuNodes<'m> {
    pub calls: Vec<CpuCall>,
    names: BTreeSet<String>,
    /// Values that calls read.
    read: Vec<ValueId>,
    declared: HashMap<&'m str, &'m ValueInfoProto>,
    dims: BTreeMap<String, usize>,
}

impl<'m> CpuNodes<'m> {
    pub fn new(graph: &'m GraphProto, options: &ImportOptions) -> Self {
        if options.cpu_nodes.is_empty() {
            return Self::default();
        }
        let declared = graph.value_info.iter().chain(&graph.output);
        Self {
            names: options.cpu_nodes.clone(),
            declared: declared.map(|info| (info.name.as_str(), info)).collect(),
            dims: options.dims.clone(),
            ..Self::default()
        }
    }

    /// Binds named dimensions to the extents of an input.
    pub fn size_dimensions(&mut self, input: &ValueSignature, ty: &TensorType) {
        let shape = input.shape.iter().flatten().zip(ty.shape().iter());
        for (dimension, &extent) in shape {
            if let Dimension::Named(name) = dimension {
                self.dims.entry(name.clone()).or_insert(extent);
            }
        }
    }

    /// Whether the node `label` is a CPU node.
    pub fn contains(&self, label: &str) -> bool {
        self.names.contains(label)
    }

    /// The declared type of a value.
    fn ty(&self, name: &str) -> Result<TensorType> {
        let unknown = |what: &str| {
            Error::new(
                ErrorKind::InvalidModel,
                format!("its output '{name}' has no {what} in the model"),
            )
            .help("declare the types of values of unknown operators (value_info)")
        };
        let declared = self.declared.get(name).ok_or_else(|| unknown("type"))?;
        let declared = ValueSignature::new(declared);
        let dtype = declared.dtype.ok_or_else(|| unknown("known data type"))?;
        let shape = declared.shape.ok_or_else(|| unknown("shape"))?;
        let extents = shape.iter().map(|dimension| match dimension {
            Dimension::Fixed(extent) => Ok(*extent),
            Dimension::Named(name) => self.dims.get(name).copied().ok_or_else(|| {
                Error::new(ErrorKind::Usage, format!("dimension '{name}' has no size"))
                    .help(format!("give it with --dim {name}=N"))
            }),
            Dimension::Unnamed => Err(unknown("fixed shape")),
        });
        TensorType::new(dtype, extents.collect::<Result<Vec<_>>>()?.as_slice())
    }
}

impl<'m> Import<'m> {
    /// Removes a node: its outputs become inputs of the graph.
    pub(super) fn cpu_node(
        &mut self,
        node: &'m NodeProto,
        inputs: &[Option<ValueId>],
        label: &str,
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        let read = inputs.iter().copied().collect::<Option<Vec<_>>>();
        let read = read.ok_or_else(|| invalid("a CPU node cannot leave an input out"))?;
        if node.output.iter().any(String::is_empty) {
            return Err(invalid("a CPU node cannot leave an output out"));
        }
        let types = node.output.iter().map(|name| self.cpu_nodes.ty(name));
        let types = types.collect::<Result<Vec<_>>>()?;
        let attributes = self.attributes(node, scope)?;
        let made = self.outputs_of(node, scope);
        for (value, ty) in made.iter().flatten().zip(types) {
            self.draft.graph.value_mut(*value).ty = Some(ty);
            self.draft.graph.inputs.push(*value);
        }
        let name = |value: &ValueId| self.draft.graph.value(*value).name.clone();
        let call = CpuCall {
            node: label.to_owned(),
            operator: qualified(&node.domain, &node.op_type),
            attributes,
            inputs: read.iter().map(name).collect(),
            outputs: made.iter().flatten().map(name).collect(),
        };
        self.cpu_nodes.read.extend(read);
        self.cpu_nodes.calls.push(call);
        Ok(())
    }

    /// Makes the inputs of CPU nodes outputs of the graph; names of no node are reported.
    pub(super) fn cut_cpu_nodes(&mut self) {
        for value in std::mem::take(&mut self.cpu_nodes.read) {
            let (inputs, outputs) = (&self.draft.graph.inputs, &self.draft.graph.outputs);
            if !outputs.contains(&value) && !inputs.contains(&value) {
                self.draft.graph.outputs.push(value);
            }
        }
        let calls = &self.cpu_nodes.calls;
        let found = |name: &String| calls.iter().any(|call| call.node == *name);
        let unmatched = self.cpu_nodes.names.iter().filter(|name| !found(name));
        for name in unmatched.cloned().collect::<Vec<_>>() {
            // A node that could not be removed is reported already.
            if self
                .errors
                .iter()
                .all(|error| error.location().node.as_ref() != Some(&name))
            {
                let error = Error::new(
                    ErrorKind::InvalidArgument,
                    "the model has no such node to be a CPU node",
                );
                self.report(error.at(Location::node(name)));
            }
        }
    }
}
