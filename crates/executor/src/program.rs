//! From a Module to bound functions.

use crate::bind;
use crate::function::BoundFunction;
use crate::{FunctionHandle, Registry, Services};
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_bef::{FunctionId, Module, verify};

/// A module whose kernels are bound: known, of the right signature, their attributes read.
pub struct Program(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) functions: Vec<BoundFunction>,
}

impl Program {
    /// Binds every kernel of `module`, several at a time on the pool, after verifying it. All
    /// problems are reported together.
    pub fn decode(module: &Module, registry: &Registry, services: &Services) -> Result<Self> {
        verify(module)?;
        let mut errors = Vec::new();
        let inner = Arc::new_cyclic(|program| {
            let binder = bind::Binder {
                module,
                registry,
                services,
                program,
            };
            let mut number = 0;
            let mut functions = Vec::with_capacity(module.functions.len());
            for (id, function) in (0u32..).zip(&module.functions) {
                match binder.function(id, function, number) {
                    Ok(bound) => functions.push(bound),
                    Err(all) => errors.extend(all),
                }
                number += function.kernels.len() as u64;
            }
            Inner { functions }
        });
        Error::from_all(errors).map_or(Ok(Self(inner)), Err)
    }

    /// The function of that name.
    pub fn function(&self, name: &str) -> Result<&BoundFunction> {
        Ok(&self.functions()[self.find(name)?])
    }

    /// The function of that name, to be executed.
    pub fn handle(&self, name: &str) -> Result<FunctionHandle> {
        Ok(self.handles(self.find(name)?))
    }

    /// All functions, in the module's order.
    pub fn functions(&self) -> &[BoundFunction] {
        &self.0.functions
    }

    /// The function at a position of [`Program::functions`], to be executed.
    ///
    /// # Panics
    /// When there are not as many.
    pub fn handles(&self, position: usize) -> FunctionHandle {
        assert!(position < self.functions().len(), "function {position}");
        FunctionHandle {
            program: self.0.clone(),
            id: FunctionId(position as u32),
        }
    }

    fn find(&self, name: &str) -> Result<usize> {
        let named = |function: &&BoundFunction| !function.name.is_empty();
        let found = self
            .functions()
            .iter()
            .position(|f| f.name == name && !name.is_empty());
        found.ok_or_else(|| {
            let names: Vec<String> = self
                .functions()
                .iter()
                .filter(named)
                .map(|function| format!("@{}", function.name))
                .collect();
            Error::new(
                ErrorKind::NotFound,
                format!("the program has no function @{name}"),
            )
            .found(if names.is_empty() {
                "no functions".into()
            } else {
                names.join(", ")
            })
        })
    }
}
