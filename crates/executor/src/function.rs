//! A function bound to its kernels, and the run of a synchronous one (facts 2.7).

use crate::code::Code;
use crate::execution::Execution;
use crate::handle::wrong_count;
use crate::kernel::{Call, Frame, Label};
use crate::program::Inner;
use crate::slots::Registers;
use crate::value::Value;
use crate::{Diagnostic, FunctionHandle, Request, depth};
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_bef::{FunctionId, FunctionKind, KernelLocation, Name};

/// A function ready to run; shared by concurrent executions, each with its own [`Registers`].
pub struct BoundFunction {
    /// Its position in the program.
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) kind: FunctionKind,
    /// Printed types of all registers; the arguments come first.
    pub(crate) registers: Vec<Name>,
    pub(crate) arguments: usize,
    pub(crate) result_types: Vec<Name>,
    pub(crate) location: KernelLocation,
    pub(crate) code: Code,
    /// What is only wanted in messages, for each kernel.
    pub(crate) details: Vec<Detail>,
    /// The slots of the results.
    pub(crate) results: Vec<u32>,
    pub(crate) flow: Flow,
    pub(crate) program: Weak<Inner>,
    /// Registers and executions to be used again.
    pub(crate) spare: Spare,
}

/// A kernel's name and place.
pub(crate) struct Detail {
    pub(crate) name: Name,
    pub(crate) place: Location,
    pub(crate) location: KernelLocation,
    pub(crate) functions: Vec<FunctionId>,
    /// Its number in the whole program.
    pub(crate) number: u64,
}

/// How an asynchronous function starts and ends.
#[derive(Default)]
pub(crate) struct Flow {
    pub(crate) root: u32,
    /// Kernels without operands.
    pub(crate) entry: Vec<u32>,
    /// Where the group of each argument stands in the code.
    pub(crate) argument_groups: Vec<u32>,
    /// How many operands each kernel waits for.
    pub(crate) counts: Vec<u32>,
    /// The cell of each result.
    pub(crate) result_cells: Vec<u32>,
    /// For each cell its slot, and how many results are taken from it.
    pub(crate) cells: Vec<(u32, u32)>,
}

#[derive(Default)]
pub(crate) struct Spare {
    executions: Mutex<Vec<Arc<Execution>>>,
    registers: Mutex<Vec<Registers>>,
}

/// As many executions and registers of a function are kept for the next ones.
const MAX_SPARE: usize = 64;

/// Hears where a run is. `()` hears nothing and costs nothing.
pub trait Observer {
    /// Kernel `index` starts.
    fn start(&mut self, index: usize);
    /// Kernel `index` has ended without an error.
    fn end(&mut self, index: usize);
}

impl Observer for () {
    #[inline(always)]
    fn start(&mut self, _: usize) {}
    #[inline(always)]
    fn end(&mut self, _: usize) {}
}

impl BoundFunction {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it executes.
    pub fn kind(&self) -> FunctionKind {
        self.kind
    }

    /// Number of its arguments.
    pub fn arguments(&self) -> usize {
        self.arguments
    }

    /// The printed types of its arguments.
    pub fn argument_types(&self) -> &[Name] {
        &self.registers[..self.arguments]
    }

    /// The printed types of its results.
    pub fn result_types(&self) -> &[Name] {
        &self.result_types
    }

    /// Number of its kernels.
    pub fn len(&self) -> usize {
        self.code.len()
    }

    /// Whether it has no kernels.
    pub fn is_empty(&self) -> bool {
        self.code.len() == 0
    }

    /// Name and label of each kernel, in order.
    pub fn kernels(&self) -> impl Iterator<Item = (&str, Label<'_>)> {
        (0..self.len()).map_while(|index| self.kernel(index))
    }

    /// Name and label of one kernel.
    pub fn kernel(&self, index: usize) -> Option<(&str, Label<'_>)> {
        let (kernel, detail) = (self.code.kernel(index)?, self.details.get(index)?);
        Some((&detail.name, kernel.label()))
    }

    /// Registers for one execution at a time.
    pub fn registers(&self) -> Registers {
        Registers::new(self.registers.len())
    }

    /// The results of the last run.
    pub fn results<'a>(&'a self, registers: &'a Registers) -> impl Iterator<Item = &'a Value> {
        self.results
            .iter()
            .map(|&register| registers.value(register))
    }

    /// Runs the kernels of a synchronous function in order. The first error ends the run; it has
    /// the kernel's place. Cancel and deadline of `control` are looked at before each kernel.
    /// Allocates nothing itself.
    pub fn run<O: Observer>(
        &self,
        registers: &mut Registers,
        arguments: &[Value],
        context: &dyn Any,
        control: &Control,
        observer: &mut O,
    ) -> Result<()> {
        self.enter(registers, arguments)?;
        let call = Call {
            function: self,
            context,
            control,
            request: None,
        };
        self.run_kernels(registers, &call, observer)
    }

    fn run_kernels<O: Observer>(
        &self,
        registers: &mut Registers,
        call: &Call<'_>,
        observer: &mut O,
    ) -> Result<()> {
        if self.kind == FunctionKind::Async {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "@{} is asynchronous: it has no end to wait for here",
                    self.name
                ),
            ));
        }
        for index in 0..self.code.len() {
            call.control.check()?;
            observer.start(index);
            let instruction = self.code.instruction(index);
            let mut frame = Frame {
                view: registers.view(instruction.operands, instruction.results),
                call,
                kernel: index,
            };
            if let Err(error) = instruction.kernel.run(&mut frame) {
                return Err(error.at(self.details[index].place.clone()));
            }
            observer.end(index);
            let (&dying, slots) = instruction.rest.split_first().unwrap_or((&0, &[]));
            for &slot in &slots[..dying as usize] {
                registers.release(slot);
            }
        }
        Ok(())
    }

    /// Runs a synchronous or native function on registers of its own.
    pub(crate) fn run_once(&self, request: &Request, arguments: Vec<Value>) -> Result<Vec<Value>> {
        self.check_count(arguments.len())?;
        if depth::is_deep() {
            return Err(Error::new(
                ErrorKind::ExecutionFailed,
                format!("calls are nested too deep at @{}", self.name),
            ));
        }
        let _level = depth::enter();
        let spare = lock(&self.spare.registers).pop();
        let mut registers = spare.unwrap_or_else(|| self.registers());
        for (register, argument) in (0u32..).zip(arguments) {
            registers.set(register, argument);
        }
        let call = Call {
            function: self,
            context: &(),
            control: request.control(),
            request: Some(request),
        };
        let done = self.run_kernels(&mut registers, &call, &mut ());
        let results = done.map(|()| self.results(&registers).cloned().collect());
        registers.clear();
        keep(&self.spare.registers, registers);
        results
    }

    pub(crate) fn check_count(&self, found: usize) -> Result<()> {
        match found == self.arguments {
            true => Ok(()),
            false => Err(wrong_count(&self.name, self.arguments, found)),
        }
    }

    /// Sets the argument registers, after checking them.
    fn enter(&self, registers: &mut Registers, arguments: &[Value]) -> Result<()> {
        if registers.len() != self.registers.len() {
            return Err(Error::new(
                ErrorKind::Internal,
                "registers of another function",
            ));
        }
        self.check_count(arguments.len())?;
        for (index, (argument, ty)) in arguments.iter().zip(&self.registers).enumerate() {
            if !argument.fits(ty) {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!("wrong type of argument {index} of @{}", self.name),
                )
                .expected(ty)
                .found(argument.type_name()));
            }
            registers.set(index as u32, argument.clone());
        }
        Ok(())
    }

    /// Executes an asynchronous function.
    pub(crate) fn start(
        &self,
        program: &Arc<Inner>,
        request: &Request,
        arguments: Vec<Value>,
    ) -> Vec<Value> {
        let spare = lock(&self.spare.executions).pop();
        let execution = spare.unwrap_or_else(|| Arc::new(Execution::new(self)));
        Execution::start(execution, program, self, request, arguments)
    }

    /// Keeps an execution that nobody uses any more.
    pub(crate) fn keep(&self, execution: Arc<Execution>) {
        keep(&self.spare.executions, execution);
    }

    /// Tells of an error of this function as a whole.
    pub(crate) fn report(&self, request: &Request, error: Error) -> Value {
        request.host().diagnose(&Diagnostic {
            location: &self.location,
            kernel: &self.name,
            error: &error,
        });
        Value::error(error)
    }

    pub(crate) fn callee(&self, id: FunctionId) -> Option<FunctionHandle> {
        let program = self.program.upgrade()?;
        Some(FunctionHandle { program, id })
    }

    pub(crate) fn kernel_functions(&self, kernel: usize) -> &[FunctionId] {
        &self.details[kernel].functions
    }

    pub(crate) fn kernel_location(&self, kernel: usize) -> &KernelLocation {
        &self.details[kernel].location
    }

    pub(crate) fn kernel_name(&self, kernel: usize) -> &str {
        &self.details[kernel].name
    }

    pub(crate) fn kernel_place(&self, kernel: usize) -> u64 {
        self.details[kernel].number
    }
}

fn keep<T>(spare: &Mutex<Vec<T>>, one: T) {
    let mut spare = lock(spare);
    if spare.len() < MAX_SPARE {
        spare.push(one);
    }
}

/// Locks even if a holder panicked: the lists stay whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
