//! Taps: intermediate tensors as they are made.

use std::fmt;
use std::sync::Arc;
use tenon_base::Result;
use tenon_bef::Function;
use tenon_kernels::{Memory, Movements, VariableId, Variables, written_variables};
use tenon_tensor::TensorType;

/// What one kernel, or CPU node, has just made.
#[derive(Clone, Copy)]
pub struct TapValue<'a> {
    /// The subgraph that the node belongs to; a CPU node is one by itself.
    pub subgraph: &'a str,
    /// The graph node; empty for an input of the subgraph.
    pub node: &'a str,
    /// The value's name in the model.
    pub value: &'a str,
    /// Its type; `None` where only descriptors touch it.
    pub ty: Option<&'a TensorType>,
    /// Its bytes, row-major.
    pub bytes: &'a [u8],
}

/// Hears of intermediate tensors, in the thread that executes, between kernels. An error ends the
/// execution: no kernel behind runs.
pub trait Tap: Send + Sync {
    /// Whether it wants the values of a node; the others cost nothing.
    fn selects(&self, node: &str) -> bool {
        let _ = node;
        true
    }

    /// A subgraph is about to start with this input.
    fn on_input(&self, tapped: TapValue<'_>) -> Result<()> {
        let _ = tapped;
        Ok(())
    }

    /// A value was made. A value that is made in several steps is told after each.
    fn on_value(&self, tapped: TapValue<'_>) -> Result<()>;
}

impl fmt::Debug for TapValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TapValue")
            .field("subgraph", &self.subgraph)
            .field("node", &self.node)
            .field("value", &self.value)
            .field("ty", &self.ty)
            .finish_non_exhaustive()
    }
}

/// What each kernel of a function writes.
pub(crate) struct KernelOutputs {
    subgraph: String,
    table: Arc<Variables>,
    by_kernel: Vec<Vec<VariableId>>,
}

impl KernelOutputs {
    /// That of the function of a subgraph.
    pub fn of(
        subgraph: &str,
        function: &Function,
        table: Arc<Variables>,
        movements: &Movements,
    ) -> Result<Self> {
        let kernels = function.kernels.iter();
        let by_kernel = kernels
            .map(|kernel| written_variables(kernel, movements))
            .collect::<Result<_>>()?;
        Ok(Self {
            subgraph: subgraph.to_owned(),
            table,
            by_kernel,
        })
    }

    /// The variables.
    pub fn table(&self) -> &Variables {
        &self.table
    }

    /// Tells `tap` what kernel `index` has made.
    pub fn report(&self, index: usize, node: &str, memory: &Memory, tap: &dyn Tap) -> Result<()> {
        if !tap.selects(node) {
            return Ok(());
        }
        for &id in self.by_kernel.get(index).into_iter().flatten() {
            self.with_value(id, node, memory, |tapped| tap.on_value(tapped))?;
        }
        Ok(())
    }

    /// Tells `tap` what the subgraph is given.
    pub fn report_inputs(&self, memory: &Memory, tap: &dyn Tap) -> Result<()> {
        for id in self.table.inputs() {
            self.with_value(id, "", memory, |tapped| tap.on_input(tapped))?;
        }
        Ok(())
    }

    fn with_value(
        &self,
        id: VariableId,
        node: &str,
        memory: &Memory,
        report: impl FnOnce(TapValue<'_>) -> Result<()>,
    ) -> Result<()> {
        let variable = self.table.variable(id)?;
        memory.inspect(id, |bytes| {
            report(TapValue {
                subgraph: &self.subgraph,
                node,
                value: &variable.name,
                ty: variable.ty.as_ref(),
                bytes,
            })
        })?
    }
}
