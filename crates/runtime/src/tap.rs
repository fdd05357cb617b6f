//! Taps: intermediate tensors as they are made.

use std::fmt;
use std::sync::Arc;
use tenon_base::Result;
use tenon_bef::Function;
use tenon_kernels::{Memory, Movements, VariableId, Variables, written};
use tenon_tensor::TensorType;

/// What one kernel, or CPU node, has just made.
#[derive(Clone, Copy)]
pub struct Tapped<'a> {
    /// The graph node.
    pub node: &'a str,
    /// The value's name in the model.
    pub value: &'a str,
    /// Its type; `None` where only descriptors touch it.
    pub ty: Option<&'a TensorType>,
    /// Its bytes, row-major.
    pub bytes: &'a [u8],
}

/// Hears of intermediate tensors, in the thread that executes, between kernels. An error ends the
/// execution.
pub trait Tap: Send + Sync {
    /// Whether it wants the values of a node; the others cost nothing.
    fn wants(&self, node: &str) -> bool {
        let _ = node;
        true
    }

    /// A value was made. A value that is made in several steps is told after each.
    fn made(&self, tapped: Tapped<'_>) -> Result<()>;
}

impl fmt::Debug for Tapped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tapped")
            .field("node", &self.node)
            .field("value", &self.value)
            .field("ty", &self.ty)
            .finish_non_exhaustive()
    }
}

/// What each kernel of a function writes.
pub(crate) struct Written {
    table: Arc<Variables>,
    by_kernel: Vec<Vec<VariableId>>,
}

impl Written {
    /// That of `function`.
    pub fn of(function: &Function, table: Arc<Variables>, movements: &Movements) -> Result<Self> {
        let kernels = function.kernels.iter();
        let by_kernel = kernels
            .map(|kernel| written(kernel, movements))
            .collect::<Result<_>>()?;
        Ok(Self { table, by_kernel })
    }

    /// The variables.
    pub fn table(&self) -> &Variables {
        &self.table
    }

    /// Tells `tap` what kernel `index` has made.
    pub fn tell(&self, index: usize, node: &str, memory: &Memory, tap: &dyn Tap) -> Result<()> {
        if !tap.wants(node) {
            return Ok(());
        }
        for &id in self.by_kernel.get(index).into_iter().flatten() {
            let variable = self.table.variable(id)?;
            memory.look(id, |bytes| {
                tap.made(Tapped {
                    node,
                    value: &variable.name,
                    ty: variable.ty.as_ref(),
                    bytes,
                })
            })??;
        }
        Ok(())
    }
}
