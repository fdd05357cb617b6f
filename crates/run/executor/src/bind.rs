//! Binds one function: binds its kernels and lays out its code, registers and users.

use crate::code::{Code, CodeBuilder, SINGLE_OPERAND, Slice};
use crate::function::{Dataflow, FunctionBody, FunctionHeader, KernelInfo};
use crate::site::{UntypedAttributes, no_types, place, source};
use crate::{Kernel, KernelDef, Registry, Services, Site};
use std::collections::HashMap;
use std::sync::OnceLock;
use tenon_base::{Error, ErrorKind, Result, pool};
use tenon_bef::{File, Function, FunctionKind, RegisterId, Streams, Uses};

/// The inputs of binding.
pub(crate) struct Binder<'a> {
    /// All functions of the program.
    pub heads: &'a [FunctionHeader],
    pub registry: &'a Registry,
    pub services: &'a Services,
    /// For a file without attribute types: the file, and the attribute offsets of each kernel of
    /// the function.
    pub untyped: Option<(&'a File<'static>, Vec<Vec<u32>>)>,
}

type Errors = Vec<Error>;

/// The result of binding one kernel: `None` for one that shares the binding of the first kernel of
/// its name.
type KernelBinding = Result<Option<Box<dyn Kernel>>>;

/// The bound kernels of a function, and for each instruction the position of its kernel.
struct Kernels {
    bound: Vec<Box<dyn Kernel>>,
    positions: Vec<u32>,
}

impl Binder<'_> {
    /// Binds a function; `streams` are those of an asynchronous function.
    pub(crate) fn body(
        &self,
        function: &Function,
        streams: Option<Streams>,
    ) -> Result<FunctionBody, Errors> {
        let native = || self.native_body(function).map_err(|error| vec![error]);
        let whole = match function.kind {
            FunctionKind::Native => &native()?,
            _ => function,
        };
        let kernels = self.kernels(whole)?;
        let layout = match streams {
            Some(streams) => Layout::dataflow(whole, kernels, &streams),
            None => Layout::in_order(whole, kernels),
        };
        let layout = layout.map_err(|error| vec![error.at(source(&function.location))])?;
        Ok(FunctionBody {
            code: layout.code,
            slots: whole.registers.len(),
            details: details(whole),
            results: layout.results,
            flow: layout.flow,
            location: function.location.clone(),
        })
    }

    /// A native function as a function with one kernel of its name.
    fn native_body(&self, function: &Function) -> Result<Function> {
        if self.registry.find_native(&function.name).is_none() {
            let text = format!("unknown native function @{}", function.name);
            let error = Error::new(ErrorKind::NotFound, text);
            return Err(error.at(source(&function.location)));
        }
        let arguments = function.arguments;
        let results = arguments..arguments + function.result_types.len() as u32;
        let registers = function
            .argument_types()
            .iter()
            .chain(&function.result_types);
        Ok(Function {
            registers: registers.cloned().collect(),
            results: results.clone().map(RegisterId).collect(),
            kernels: vec![tenon_bef::Kernel {
                name: function.name.as_str().into(),
                operands: (0..arguments).map(RegisterId).collect(),
                results: results.map(RegisterId).collect(),
                location: function.location.clone(),
                ..tenon_bef::Kernel::default()
            }],
            ..function.clone()
        })
    }

    /// Binds all kernels in parallel. Kernels that do not depend on their site are bound once per
    /// name.
    fn kernels(&self, function: &Function) -> Result<Kernels, Errors> {
        let slots: Vec<OnceLock<KernelBinding>> =
            function.kernels.iter().map(|_| OnceLock::new()).collect();
        let first = first_of_name(function);
        pool::for_each(slots.len(), |index| {
            let site = self.site(function, index);
            let bound = self
                .find(&site)
                .and_then(|def| {
                    check(&site, def)?;
                    if def.is_site_independent() && first[index] != index {
                        return Ok(None);
                    }
                    if site.untyped.is_some_and(|at| !at.offsets.is_empty()) && !def.is_typed() {
                        return Err(no_types());
                    }
                    def.bind(&site).map(Some)
                })
                .map_err(|error| error.at(place(function, index, site.kernel)));
            // Each index is visited once, so the slot is empty.
            let _ = slots[index].set(bound);
        });
        let mut errors = Vec::new();
        let mut kernels = Kernels {
            bound: Vec::new(),
            positions: Vec::with_capacity(slots.len()),
        };
        for (index, (slot, first)) in slots.into_iter().zip(first).enumerate() {
            match slot.into_inner() {
                Some(Ok(Some(mut kernel))) => {
                    let settled = kernel.finish_binding();
                    let settled = settled.map_err(|error| {
                        error.at(place(function, index, &function.kernels[index]))
                    });
                    errors.extend(settled.err());
                    kernels.positions.push(kernels.bound.len() as u32);
                    kernels.bound.push(kernel);
                }
                Some(Err(error)) => {
                    kernels.positions.push(0);
                    errors.push(error);
                }
                Some(Ok(None)) | None => kernels.positions.push(kernels.positions[first]),
            }
        }
        if errors.is_empty() {
            Ok(kernels)
        } else {
            Err(errors)
        }
    }

    fn site<'s>(&'s self, function: &'s Function, index: usize) -> Site<'s> {
        Site {
            heads: self.heads,
            function,
            kernel: &function.kernels[index],
            index,
            services: self.services,
            untyped: self
                .untyped
                .as_ref()
                .map(|(file, offsets)| UntypedAttributes {
                    file,
                    offsets: offsets.get(index).map_or(&[], |offsets| offsets),
                }),
        }
    }

    fn find(&self, site: &Site<'_>) -> Result<&KernelDef> {
        let name = &site.kernel.name;
        let found = match site.function.kind {
            FunctionKind::Native => self.registry.find_native(name),
            _ => self.registry.find(name),
        };
        found
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("unknown kernel name '{name}'")))
    }
}

/// For each kernel the position of the first kernel of its name.
fn first_of_name(function: &Function) -> Vec<usize> {
    let mut first = HashMap::new();
    let kernels = function.kernels.iter().enumerate();
    kernels
        .map(|(index, kernel)| *first.entry(&*kernel.name).or_insert(index))
        .collect()
}

/// Checks the operand types, result types and functions of a kernel against its signature.
fn check(site: &Site<'_>, def: &KernelDef) -> Result<()> {
    let types = |registers: &'_ [RegisterId]| -> Vec<&str> {
        let ty = |register: &RegisterId| site.function.registers.get(register.0 as usize);
        registers
            .iter()
            .map(|register| ty(register).map_or("none", |ty| ty))
            .collect()
    };
    let kernel = site.kernel;
    def.signature().check(
        &types(&kernel.operands),
        &types(&kernel.results),
        kernel.functions.len(),
    )
}

fn details(function: &Function) -> Vec<KernelInfo> {
    let detail = |(index, kernel): (usize, &tenon_bef::Kernel)| KernelInfo {
        name: kernel.name.clone(),
        place: place(function, index, kernel),
        location: kernel.location.clone(),
        functions: kernel.functions.iter().map(|(_, id)| *id).collect(),
    };
    function.kernels.iter().enumerate().map(detail).collect()
}

/// The code of a function, its results and its dataflow.
struct Layout {
    code: Code,
    results: Vec<u32>,
    flow: Dataflow,
}

/// The slot of each register: arguments, then results in block order.
fn slots(function: &Function) -> Vec<u32> {
    let mut slots = vec![0; function.registers.len()];
    let arguments = (0..function.arguments).map(RegisterId);
    let results = function
        .kernels
        .iter()
        .flat_map(|kernel| kernel.results.iter().copied());
    for (slot, register) in (0u32..).zip(arguments.chain(results)) {
        slots[register.0 as usize] = slot;
    }
    slots
}

impl Layout {
    /// The layout of a synchronous function: after each kernel, the slots whose lifetime ends.
    fn in_order(function: &Function, kernels: Kernels) -> Result<Self> {
        let slots = slots(function);
        let last_uses = last_uses(function);
        let mut code = CodeBuilder::new(kernels.bound, function.kernels.len());
        for (index, kernel) in function.kernels.iter().enumerate() {
            instruction(&mut code, kernel, kernels.positions[index], 0, &slots)?;
            code.dying(&dying(kernel, index, &last_uses, &slots));
        }
        Ok(Self {
            code: code.finish(),
            results: slots_of(&function.results, &slots).collect(),
            flow: Dataflow::default(),
        })
    }

    /// The layout of an asynchronous function: for each result, its users.
    fn dataflow(function: &Function, kernels: Kernels, streams: &Streams) -> Result<Self> {
        let slots = slots(function);
        let uses = Uses::of(function);
        let counts = function
            .kernels
            .iter()
            .map(|kernel| kernel.operands.len().max(1) as u32);
        let mut flow = Dataflow {
            root: streams.root,
            entry: uses.without_operands().to_vec(),
            counts: counts.collect(),
            ..Dataflow::default()
        };
        let cells = cells(function, &slots, &mut flow);
        let mut code = CodeBuilder::new(kernels.bound, function.kernels.len());
        let counts = &flow.counts;
        let group = |code: &mut CodeBuilder, register: RegisterId| {
            let user = |&user: &u32| match counts[user as usize] {
                1 => user | SINGLE_OPERAND,
                _ => user,
            };
            code.group(
                cells[register.0 as usize],
                uses.users(register).iter().map(user),
            );
        };
        for (index, kernel) in function.kernels.iter().enumerate() {
            let (position, stream) = (kernels.positions[index], streams.kernels[index]);
            instruction(&mut code, kernel, position, stream, &slots)?;
            kernel
                .results
                .iter()
                .for_each(|&result| group(&mut code, result));
        }
        let mut argument_groups = Vec::new();
        for argument in 0..function.arguments {
            argument_groups.push(code.position()?);
            group(&mut code, RegisterId(argument));
        }
        code.position()?;
        Ok(Self {
            code: code.finish(),
            results: slots_of(&function.results, &slots).collect(),
            flow: Dataflow {
                argument_groups,
                ..flow
            },
        })
    }
}

fn instruction(
    code: &mut CodeBuilder,
    kernel: &tenon_bef::Kernel,
    position: u32,
    stream: u32,
    slots: &[u32],
) -> Result<()> {
    let first = kernel
        .results
        .first()
        .map_or(0, |first| slots[first.0 as usize]);
    let count = kernel.results.len() as u32;
    let operands = slots_of(&kernel.operands, slots);
    code.instruction(position, stream, Slice { first, count }, operands)
}

fn slots_of<'a>(
    registers: &'a [RegisterId],
    slots: &'a [u32],
) -> impl ExactSizeIterator<Item = u32> {
    registers.iter().map(|register| slots[register.0 as usize])
}

/// The cell of each register that the function returns.
fn cells(function: &Function, slots: &[u32], flow: &mut Dataflow) -> Vec<Option<u32>> {
    let mut cells = vec![None; function.registers.len()];
    for register in &function.results {
        let cell = *cells[register.0 as usize].get_or_insert_with(|| {
            flow.cells.push((slots[register.0 as usize], 0));
            flow.cells.len() as u32 - 1
        });
        flow.cells[cell as usize].1 += 1;
        flow.result_cells.push(cell);
    }
    cells
}

/// Liveness analysis: for each register the kernel of its last use; `None` for one that is returned
/// or never used.
fn last_uses(function: &Function) -> Vec<Option<usize>> {
    let mut last = vec![None; function.registers.len()];
    for (index, kernel) in function.kernels.iter().enumerate() {
        // The lifetime of an unused result ends at its kernel.
        for register in kernel.results.iter().chain(&kernel.operands) {
            last[register.0 as usize] = Some(index);
        }
    }
    for register in &function.results {
        last[register.0 as usize] = None;
    }
    last
}

/// The slots whose lifetime ends after a kernel.
fn dying(
    kernel: &tenon_bef::Kernel,
    index: usize,
    last_uses: &[Option<usize>],
    slots: &[u32],
) -> Vec<u32> {
    let registers = kernel.operands.iter().chain(&kernel.results);
    let mut dying: Vec<u32> = registers
        .map(|register| register.0 as usize)
        .filter(|&register| last_uses[register] == Some(index))
        .map(|register| slots[register])
        .collect();
    dying.sort_unstable();
    dying.dedup();
    dying
}
