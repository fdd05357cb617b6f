//! Binding one function: its kernels made, its registers and users laid out flat.

use crate::execution::ALONE;
use crate::function::{BoundFunction, BoundKernel, Detail, Flow, Spare};
use crate::program::Inner;
use crate::site::{place, source};
use crate::{Kernel, KernelDef, Registry, Services, Site};
use std::sync::{OnceLock, Weak};
use tenon_base::{Error, ErrorKind, Result, pool};
use tenon_bef::{Function, FunctionKind, Module, RegisterId, StreamOptions, Uses, assign_streams};

/// What binding needs.
pub(crate) struct Binder<'a> {
    pub module: &'a Module,
    pub registry: &'a Registry,
    pub services: &'a Services,
    pub program: &'a Weak<Inner>,
}

type Errors = Vec<Error>;

impl Binder<'_> {
    /// Binds a function; its first kernel is number `number` of the program.
    pub(crate) fn function(
        &self,
        id: u32,
        function: &Function,
        number: u64,
    ) -> Result<BoundFunction, Errors> {
        match function.kind {
            FunctionKind::Native => self.native(id, function, number).map_err(|e| vec![e]),
            FunctionKind::Sync => self.with_kernels(id, function, number, Layout::in_order),
            FunctionKind::Async => self.with_kernels(id, function, number, Layout::dataflow),
        }
    }

    fn with_kernels(
        &self,
        id: u32,
        function: &Function,
        number: u64,
        lay_out: impl FnOnce(&Function) -> Result<Layout>,
    ) -> Result<BoundFunction, Errors> {
        let kernels = self.kernels(function)?;
        let layout = lay_out(function).map_err(|e| vec![e.at(source(&function.location))])?;
        let placed = kernels.into_iter().zip(layout.places);
        let bound = function.kernels.iter().zip(placed);
        Ok(BoundFunction {
            name: function.name.clone(),
            kind: function.kind,
            registers: function.registers.clone(),
            arguments: function.arguments as usize,
            result_types: function.result_types.clone(),
            location: function.location.clone(),
            kernels: bound
                .map(|(from, (kernel, (start, stream)))| BoundKernel {
                    kernel,
                    start,
                    operands: from.operands.len() as u32,
                    results: from.results.len() as u32,
                    stream,
                })
                .collect(),
            details: details(function, number),
            numbers: layout.numbers,
            results: numbers(&function.results).collect(),
            flow: layout.flow,
            program: self.program.clone(),
            spare: Spare::default(),
            id,
        })
    }

    /// A native function is bound like a function of one kernel that has its name.
    fn native(&self, id: u32, function: &Function, number: u64) -> Result<BoundFunction> {
        let whole = |error: Error| error.at(source(&function.location));
        let def = self.registry.find_native(&function.name).ok_or_else(|| {
            let text = format!("no native function @{} is known here", function.name);
            whole(Error::new(ErrorKind::NotFound, text))
        })?;
        let arguments = function.arguments;
        let results = arguments..arguments + function.result_types.len() as u32;
        let registers = function
            .argument_types()
            .iter()
            .chain(&function.result_types);
        let body = Function {
            registers: registers.cloned().collect(),
            results: results.clone().map(RegisterId).collect(),
            kernels: vec![tenon_bef::Kernel {
                name: function.name.as_str().into(),
                operands: (0..arguments).map(RegisterId).collect(),
                results: results.map(RegisterId).collect(),
                ..tenon_bef::Kernel::default()
            }],
            ..function.clone()
        };
        let site = self.site(&body, 0);
        let kernel = check_and_bind(&site, def).map_err(whole)?;
        let layout = Layout::in_order(&body)?;
        Ok(BoundFunction {
            kernels: vec![BoundKernel {
                kernel,
                start: 0,
                operands: arguments,
                results: body.results.len() as u32,
                stream: 0,
            }],
            details: details(&body, number),
            numbers: layout.numbers,
            results: numbers(&body.results).collect(),
            flow: Flow::default(),
            program: self.program.clone(),
            spare: Spare::default(),
            id,
            name: body.name,
            kind: body.kind,
            registers: body.registers,
            arguments: arguments as usize,
            result_types: body.result_types,
            location: body.location,
        })
    }

    fn kernels(&self, function: &Function) -> Result<Vec<Box<dyn Kernel>>, Errors> {
        let slots: Vec<OnceLock<Result<Box<dyn Kernel>>>> =
            function.kernels.iter().map(|_| OnceLock::new()).collect();
        pool::for_each(slots.len(), |index| {
            let site = self.site(function, index);
            let bound = self
                .find(&site)
                .and_then(|def| check_and_bind(&site, def))
                .map_err(|error| error.at(place(function, index, site.kernel)));
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

    fn site<'s>(&'s self, function: &'s Function, index: usize) -> Site<'s> {
        Site {
            module: self.module,
            function,
            kernel: &function.kernels[index],
            services: self.services,
        }
    }

    fn find(&self, site: &Site<'_>) -> Result<&KernelDef> {
        let found = self.registry.find(&site.kernel.name);
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, "no kernel of this name is known here"))
    }
}

fn check_and_bind(site: &Site<'_>, def: &KernelDef) -> Result<Box<dyn Kernel>> {
    let types = |registers: &'_ [RegisterId]| -> Vec<&str> {
        let ty = |register: &RegisterId| site.function.registers.get(register.0 as usize);
        registers
            .iter()
            .map(|register| ty(register).map_or("none", |ty| ty))
            .collect()
    };
    let kernel = site.kernel;
    def.signature()
        .check(&types(&kernel.operands), &types(&kernel.results))
        .and_then(|()| def.bind(site))
}

fn details(function: &Function, number: u64) -> Vec<Detail> {
    let detail = |(index, kernel): (usize, &tenon_bef::Kernel)| Detail {
        name: kernel.name.clone(),
        place: place(function, index, kernel),
        location: kernel.location.clone(),
        functions: kernel.functions.iter().map(|(_, id)| *id).collect(),
        number: number + index as u64,
    };
    function.kernels.iter().enumerate().map(detail).collect()
}

fn numbers(registers: &[RegisterId]) -> impl Iterator<Item = u32> {
    registers.iter().map(|register| register.0)
}

/// Where the numbers of kernels stand, and the numbers.
struct Layout {
    numbers: Vec<u32>,
    /// Start and stream of each kernel.
    places: Vec<(u32, u32)>,
    flow: Flow,
}

impl Layout {
    fn new(function: &Function) -> Self {
        Self {
            numbers: Vec::new(),
            places: Vec::with_capacity(function.kernels.len()),
            flow: Flow::default(),
        }
    }

    /// Adds what both kinds of functions have of a kernel.
    fn kernel(&mut self, kernel: &tenon_bef::Kernel, stream: u32) -> Result<()> {
        self.places.push((self.position()?, stream));
        self.numbers.extend(numbers(&kernel.operands));
        self.numbers.extend(numbers(&kernel.results));
        Ok(())
    }

    fn position(&self) -> Result<u32> {
        u32::try_from(self.numbers.len()).map_err(|_| {
            Error::new(
                ErrorKind::Unsupported,
                "the function has too many registers",
            )
        })
    }

    /// For a function whose kernels run in order: the registers that die after each.
    fn in_order(function: &Function) -> Result<Self> {
        let mut layout = Self::new(function);
        let last_uses = last_uses(function);
        for (index, kernel) in function.kernels.iter().enumerate() {
            layout.kernel(kernel, 0)?;
            let count = layout.numbers.len();
            layout.numbers.push(0);
            layout.numbers.extend(dying(function, &last_uses, index));
            layout.numbers[count] = (layout.numbers.len() - count - 1) as u32;
        }
        Ok(layout)
    }

    /// For a function whose kernels run when they are ready: the users of each result.
    fn dataflow(function: &Function) -> Result<Self> {
        let uses = Uses::of(function);
        let streams = assign_streams(function, StreamOptions::default());
        let mut layout = Self::new(function);
        let cells = layout.cells(function);
        layout.flow.root = streams.root;
        layout.flow.entry = uses.without_operands().to_vec();
        let counts = function
            .kernels
            .iter()
            .map(|kernel| kernel.operands.len().max(1) as u32);
        layout.flow.counts = counts.collect();
        for (kernel, &stream) in function.kernels.iter().zip(&streams.kernels) {
            layout.kernel(kernel, stream)?;
            for &result in &kernel.results {
                layout.group(result, &uses, &cells);
            }
        }
        for argument in 0..function.arguments {
            let position = layout.position()?;
            layout.flow.argument_groups.push(position);
            layout.group(RegisterId(argument), &uses, &cells);
        }
        layout.position()?;
        Ok(layout)
    }

    /// A cell for each register that the function returns: one more than its position, 0 for none.
    fn cells(&mut self, function: &Function) -> Vec<u32> {
        let mut cells = vec![0; function.registers.len()];
        for register in numbers(&function.results) {
            let cell = &mut cells[register as usize];
            if *cell == 0 {
                self.flow.cells.push((register, 0));
                *cell = self.flow.cells.len() as u32;
            }
            self.flow.cells[*cell as usize - 1].1 += 1;
            self.flow.result_cells.push(*cell - 1);
        }
        cells
    }

    fn group(&mut self, register: RegisterId, uses: &Uses, cells: &[u32]) {
        let users = uses.users(register);
        let cell = cells[register.0 as usize];
        self.numbers.extend([register.0, users.len() as u32, cell]);
        let counts = &self.flow.counts;
        let user = |&user: &u32| match counts[user as usize] {
            1 => user | ALONE,
            _ => user,
        };
        self.numbers.extend(users.iter().map(user));
    }
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
    let mut registers: Vec<u32> = numbers(&kernel.operands)
        .chain(numbers(&kernel.results))
        .collect();
    registers.sort_unstable();
    registers.dedup();
    registers
        .into_iter()
        .filter(move |&register| last_uses[register as usize] == Some(index))
}
