//! From a Module to bound functions.

use crate::function::{BoundFunction, BoundKernel};
use crate::site::{place, source};
use crate::{Kernel, Registry, Services, Site};
use std::ops::Range;
use std::sync::OnceLock;
use tenon_base::{Error, ErrorKind, Result, pool};
use tenon_bef::{Function, FunctionKind, Module, Name, RegisterId, verify};

/// A module whose kernels are bound: known, of the right signature, their attributes read.
pub struct Program {
    functions: Vec<BoundFunction>,
}

impl Program {
    /// Binds every kernel of `module`, several at a time on the pool, after verifying it. All
    /// problems are reported together.
    ///
    /// Only synchronous functions run so far; another kind is `Unsupported`.
    pub fn decode(module: &Module, registry: &Registry, services: &Services) -> Result<Self> {
        verify(module)?;
        let mut errors = Vec::new();
        let mut functions = Vec::with_capacity(module.functions.len());
        for function in &module.functions {
            let bound = bind_function(module, function, registry, services);
            bound.map_or_else(
                |all| errors.extend(all),
                |function| functions.push(function),
            );
        }
        Error::from_all(errors).map_or(Ok(Self { functions }), Err)
    }

    /// The function of that name.
    pub fn function(&self, name: &str) -> Result<&BoundFunction> {
        let found = self.functions.iter().find(|function| function.name == name);
        found.ok_or_else(|| {
            let names: Vec<String> = self
                .functions
                .iter()
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

    /// All functions, in the module's order.
    pub fn functions(&self) -> &[BoundFunction] {
        &self.functions
    }
}

fn bind_function(
    module: &Module,
    function: &Function,
    registry: &Registry,
    services: &Services,
) -> Result<BoundFunction, Vec<Error>> {
    if function.kind != FunctionKind::Sync {
        let what = match function.kind {
            FunctionKind::Native => "a native function",
            _ => "asynchronous",
        };
        return Err(vec![
            Error::new(
                ErrorKind::Unsupported,
                format!(
                    "function @{} is {what}; only synchronous ones run here",
                    function.name
                ),
            )
            .at(source(&function.location)),
        ]);
    }
    let kernels = bind_kernels(module, function, registry, services)?;
    let mut numbers = Numbers::default();
    let last_uses = last_uses(function);
    let kernels = kernels
        .into_iter()
        .zip(&function.kernels)
        .enumerate()
        .map(|(index, (kernel, from))| BoundKernel {
            kernel,
            name: from.name.clone(),
            operands: numbers.add(from.operands.iter().map(|register| register.0)),
            results: numbers.add(from.results.iter().map(|register| register.0)),
            dies: numbers.add(dying(function, &last_uses, index)),
            place: place(function, index, from),
        })
        .collect();
    Ok(BoundFunction {
        name: function.name.clone(),
        registers: function.registers.clone(),
        arguments: function.arguments as usize,
        results: function.results.iter().map(|register| register.0).collect(),
        kernels,
        numbers: numbers.0,
    })
}

/// Lists of register numbers, laid end to end.
#[derive(Default)]
struct Numbers(Vec<u32>);

impl Numbers {
    fn add(&mut self, numbers: impl IntoIterator<Item = u32>) -> Range<usize> {
        let start = self.0.len();
        self.0.extend(numbers);
        start..self.0.len()
    }
}

fn bind_kernels(
    module: &Module,
    function: &Function,
    registry: &Registry,
    services: &Services,
) -> Result<Vec<Box<dyn Kernel>>, Vec<Error>> {
    let slots: Vec<OnceLock<Result<Box<dyn Kernel>>>> =
        function.kernels.iter().map(|_| OnceLock::new()).collect();
    pool::for_each(slots.len(), |index| {
        let site = Site {
            module,
            function,
            kernel: &function.kernels[index],
            services,
        };
        let bound =
            bind(&site, registry).map_err(|error| error.at(place(function, index, site.kernel)));
        // Each slot is filled once, so that there is nothing to refuse.
        let _ = slots[index].set(bound);
    });
    let mut errors = Vec::new();
    let mut kernels = Vec::with_capacity(slots.len());
    for bound in slots.into_iter().filter_map(OnceLock::into_inner) {
        bound.map_or_else(|error| errors.push(error), |kernel| kernels.push(kernel));
    }
    if errors.is_empty() {
        Ok(kernels)
    } else {
        Err(errors)
    }
}

fn bind(site: &Site<'_>, registry: &Registry) -> Result<Box<dyn Kernel>> {
    let kernel = site.kernel;
    let def = registry
        .find(&kernel.name)
        .ok_or_else(|| Error::new(ErrorKind::NotFound, "no kernel of this name is known here"))?;
    let types = |registers: &'_ [RegisterId]| -> Vec<&str> {
        let ty = |register: &RegisterId| site.function.registers.get(register.0 as usize);
        registers
            .iter()
            .map(|register| ty(register).map_or("none", Name::as_str))
            .collect()
    };
    def.signature
        .check(&types(&kernel.operands), &types(&kernel.results))
        .and_then(|()| (def.bind)(site))
}

/// For each register the kernel that uses it last; `None` for one that is returned or never used.
fn last_uses(function: &Function) -> Vec<Option<usize>> {
    let mut last = vec![None; function.registers.len()];
    for (index, kernel) in function.kernels.iter().enumerate() {
        // A result that nobody uses dies where it is made.
        for register in kernel.results.iter().chain(&kernel.operands) {
            last[register.0 as usize] = Some(index);
        }
    }
    for register in &function.results {
        last[register.0 as usize] = None;
    }
    last
}

/// The registers that die after kernel `index`.
fn dying<'a>(
    function: &'a Function,
    last_uses: &'a [Option<usize>],
    index: usize,
) -> impl Iterator<Item = u32> + 'a {
    let kernel = &function.kernels[index];
    let mut registers: Vec<u32> = kernel
        .operands
        .iter()
        .chain(&kernel.results)
        .map(|register| register.0)
        .collect();
    registers.sort_unstable();
    registers.dedup();
    registers
        .into_iter()
        .filter(move |&register| last_uses[register as usize] == Some(index))
}
