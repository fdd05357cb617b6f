//! Programs: Modules or files bound to kernels.

use crate::bind::Binder;
use crate::function::{BoundFunction, FunctionBody, FunctionHeader};
use crate::{FunctionHandle, Registry, Services};
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_bef::{
    File, Function, FunctionId, FunctionKind, Module, StreamOptions, Streams, assign_streams,
    verify,
};

/// A program whose kernels are known. Each function is bound once: its signatures are checked and
/// its attributes read. Clones share it.
#[derive(Clone)]
pub struct Program(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) functions: Vec<BoundFunction>,
    /// The source of functions that are bound on first use.
    source: Option<Source>,
}

struct Source {
    file: File<'static>,
    heads: Vec<FunctionHeader>,
    registry: Registry,
    services: Services,
}

impl Program {
    /// Verifies `module` and binds all its kernels, in parallel on the thread pool. All problems
    /// are reported together.
    pub fn decode(module: &Module, registry: &Registry, services: &Services) -> Result<Self> {
        verify(module)?;
        let heads: Vec<FunctionHeader> = (0u32..).zip(&module.functions).map(head).collect();
        let binder = Binder {
            heads: &heads,
            registry,
            services,
            untyped: None,
        };
        let mut errors = Vec::new();
        let mut bodies = Vec::with_capacity(module.functions.len());
        for function in &module.functions {
            let options = StreamOptions::of(module, function);
            let streams = || assign_streams(function, options);
            match binder.body(function, is_dataflow(function).then(streams)) {
                Ok(body) => bodies.push(body),
                Err(all) => errors.extend(all),
            }
        }
        if let Some(error) = Error::from_all(errors) {
            return Err(error);
        }
        let inner = Arc::new_cyclic(|program| {
            let functions = heads.into_iter().zip(bodies);
            let bound = |(head, body)| BoundFunction::bound(head, body, program.clone());
            Inner {
                functions: functions.map(bound).collect(),
                source: None,
            }
        });
        Ok(Self(inner))
    }

    /// Loads a file. The names of its kernels and native functions are looked up; its functions are
    /// decoded and bound on first use.
    ///
    /// # Errors
    /// A malformed function index; all unknown kernels.
    pub fn load(file: File<'static>, registry: &Registry, services: &Services) -> Result<Self> {
        let heads: Vec<FunctionHeader> = file.functions()?.into_iter().map(entry_head).collect();
        let kernels = file.kernel_names()?.iter();
        let unknown_kernels = kernels
            .filter(|name| registry.find(name).is_none())
            .map(|name| unknown("kernel", name));
        let natives = heads
            .iter()
            .filter(|head| head.kind == FunctionKind::Native);
        let unknown_natives = natives
            .filter(|head| registry.find_native(&head.name).is_none())
            .map(|head| unknown("native function", &head.name));
        if let Some(error) = Error::from_all(unknown_kernels.chain(unknown_natives)) {
            return Err(error);
        }
        let inner = Arc::new_cyclic(|program| {
            let unbound =
                |head: &FunctionHeader| BoundFunction::unbound(head.clone(), program.clone());
            Inner {
                functions: heads.iter().map(unbound).collect(),
                source: Some(Source {
                    file,
                    heads,
                    registry: registry.clone(),
                    services: services.clone(),
                }),
            }
        });
        Ok(Self(inner))
    }

    /// The function of that name.
    pub fn function(&self, name: &str) -> Result<&BoundFunction> {
        Ok(&self.functions()[self.find(name)?])
    }

    /// The function of that name, to be executed.
    pub fn handle(&self, name: &str) -> Result<FunctionHandle> {
        Ok(self.handle_at(self.find(name)?))
    }

    /// All functions, in the module's order.
    pub fn functions(&self) -> &[BoundFunction] {
        &self.0.functions
    }

    /// The function at a position of [`Program::functions`], to be executed.
    ///
    /// # Panics
    /// When there are not as many.
    pub fn handle_at(&self, position: usize) -> FunctionHandle {
        assert!(position < self.functions().len(), "function {position}");
        FunctionHandle {
            program: self.0.clone(),
            id: FunctionId(position as u32),
        }
    }

    fn find(&self, name: &str) -> Result<usize> {
        let named = |function: &&BoundFunction| !function.name().is_empty();
        let mut functions = self.functions().iter();
        let found = functions.position(|function| function.name() == name && !name.is_empty());
        found.ok_or_else(|| {
            let names: Vec<String> = self
                .functions()
                .iter()
                .filter(named)
                .map(|function| format!("@{}", function.name()))
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

impl Inner {
    /// Decodes and binds a function of the file.
    pub(crate) fn bind(&self, id: FunctionId) -> Result<FunctionBody> {
        let Some(source) = &self.source else {
            return Err(Error::new(ErrorKind::Internal, "a function without a body"));
        };
        let function = source.file.function(id)?;
        let untyped = if source.file.has_attribute_types() || function.is_native() {
            None
        } else {
            Some((&source.file, source.file.attribute_offsets(id)?))
        };
        let streams: Option<Streams> = if is_dataflow(&function) {
            Some(source.file.streams(id)?)
        } else {
            None
        };
        let binder = Binder {
            heads: &source.heads,
            registry: &source.registry,
            services: &source.services,
            untyped,
        };
        binder.body(&function, streams).map_err(|errors| {
            Error::from_all(errors)
                .unwrap_or_else(|| Error::new(ErrorKind::Internal, "a function without a body"))
        })
    }
}

fn is_dataflow(function: &Function) -> bool {
    function.kind == FunctionKind::Async
}

fn head((id, function): (u32, &Function)) -> FunctionHeader {
    FunctionHeader {
        id: FunctionId(id),
        name: function.name.as_str().into(),
        kind: function.kind,
        argument_types: function.argument_types().to_vec(),
        result_types: function.result_types.clone(),
    }
}

fn entry_head(entry: tenon_bef::FunctionEntry) -> FunctionHeader {
    FunctionHeader {
        id: entry.id,
        name: entry.name,
        kind: entry.kind,
        argument_types: entry.argument_types,
        result_types: entry.result_types,
    }
}

fn unknown(what: &str, name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("unknown {what} name '{name}'"))
}
