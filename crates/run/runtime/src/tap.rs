//! Taps: callbacks for intermediate tensors.

use std::fmt;
use std::sync::Arc;
use tenon_backend::WorkloadPart;
use tenon_base::Result;
use tenon_bef::Function;
use tenon_kernels::{Memory, Movements, VariableId, Variables, written_variables};
use tenon_tensor::TensorType;

/// A value that a kernel, or a CPU node, has just written.
#[derive(Clone, Copy)]
pub struct TapValue<'a> {
    /// The subgraph of the node; a CPU node is its own subgraph, operators of a host function are in `host`.
    pub subgraph: &'a str,
    /// How often the subgraph ran before in this execution of the model: the iteration of a loop's body. Of an
    /// operator of a host function the number of the operator's earlier runs.
    pub run: u64,
    /// The graph node; empty for an input of the subgraph.
    pub node: &'a str,
    /// The value's name in the model.
    pub value: &'a str,
    /// The type; `None` for a value that only descriptors access.
    pub ty: Option<&'a TensorType>,
    /// The bytes, row-major.
    pub bytes: &'a [u8],
}

/// The parts of a workload that has just been executed, with their times by the backend's clock.
#[derive(Debug, Clone, Copy)]
pub struct TapParts<'a> {
    /// The subgraph of the node.
    pub subgraph: &'a str,
    /// As [`TapValue::run`].
    pub run: u64,
    /// The graph node.
    pub node: &'a str,
    /// The parts.
    pub parts: &'a [WorkloadPart],
    /// The time of each part.
    pub nanoseconds: &'a [u64],
}

/// A callback for intermediate tensors, called between kernels on the executing thread. An error
/// ends the execution before the next kernel.
pub trait Tap: Send + Sync {
    /// Whether to observe the values of a node; unselected nodes cost nothing.
    fn selects(&self, node: &str) -> bool {
        let _ = node;
        true
    }

    /// Called before a subgraph starts, with its variables for the sizes of this run.
    fn on_subgraph(&self, name: &str, variables: &Arc<Variables>) -> Result<()> {
        let _ = (name, variables);
        Ok(())
    }

    /// Called with each input of a subgraph before it starts.
    fn on_input(&self, tapped: TapValue<'_>) -> Result<()> {
        let _ = tapped;
        Ok(())
    }

    /// Called when a value was written; a value written in several steps is reported after each.
    fn on_value(&self, tapped: TapValue<'_>) -> Result<()>;

    /// Called with the parts of a workload that has some, before its values.
    fn on_parts(&self, tapped: TapParts<'_>) -> Result<()> {
        let _ = tapped;
        Ok(())
    }
}

impl fmt::Debug for TapValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TapValue")
            .field("subgraph", &self.subgraph)
            .field("run", &self.run)
            .field("node", &self.node)
            .field("value", &self.value)
            .field("ty", &self.ty)
            .finish_non_exhaustive()
    }
}

/// The variables that each kernel of a function writes.
pub(crate) struct KernelOutputs {
    subgraph: String,
    by_kernel: Vec<Vec<VariableId>>,
}

impl KernelOutputs {
    /// The outputs of the kernels of a subgraph's function.
    pub fn of(subgraph: &str, function: &Function, movements: &Movements) -> Result<Self> {
        let kernels = function.kernels.iter();
        let by_kernel = kernels
            .map(|kernel| written_variables(kernel, movements))
            .collect::<Result<_>>()?;
        Ok(Self {
            subgraph: subgraph.to_owned(),
            by_kernel,
        })
    }

    /// Reports the values that kernel `index` has written to `tap`.
    pub fn report(
        &self,
        index: usize,
        (node, run): (&str, u64),
        memory: &Memory,
        tap: &dyn Tap,
    ) -> Result<()> {
        if !tap.selects(node) {
            return Ok(());
        }
        for &id in self.by_kernel.get(index).into_iter().flatten() {
            self.with_value(id, (node, run), memory, |tapped| tap.on_value(tapped))?;
        }
        Ok(())
    }

    /// Reports the subgraph and its inputs to `tap`.
    pub fn report_start(&self, run: u64, memory: &Memory, tap: &dyn Tap) -> Result<()> {
        let table = memory.variables();
        tap.on_subgraph(&self.subgraph, table)?;
        for id in table.inputs() {
            self.with_value(id, ("", run), memory, |tapped| tap.on_input(tapped))?;
        }
        Ok(())
    }

    fn with_value(
        &self,
        id: VariableId,
        (node, run): (&str, u64),
        memory: &Memory,
        report: impl FnOnce(TapValue<'_>) -> Result<()>,
    ) -> Result<()> {
        let variable = memory.variables().variable(id)?;
        memory.inspect(id, |bytes| {
            report(TapValue {
                subgraph: &self.subgraph,
                run,
                node,
                value: &variable.name,
                ty: variable.ty.as_ref(),
                bytes,
            })
        })?
    }
}
