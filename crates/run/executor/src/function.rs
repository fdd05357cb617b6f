//! Bound functions, and the execution of synchronous ones (bef 2.7).

use crate::code::Code;
use crate::execution::{Execution, Run};
use crate::handle::wrong_count;
use crate::kernel::{Call, Frame, Label, run_kernel};
use crate::program::Inner;
use crate::slots::Registers;
use crate::value::Value;
use crate::{Diagnostic, FunctionHandle, Request, depth};
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_bef::{FunctionId, FunctionKind, KernelLocation, Name};

/// A function of a program; shared by concurrent executions, each with separate [`Registers`].
pub struct BoundFunction {
    /// The part that is available before binding.
    pub(crate) head: FunctionHeader,
    /// Bound when the program is loaded, or when the function is first used.
    body: OnceLock<FunctionBody>,
    program: Weak<Inner>,
    /// Registers and executions for reuse.
    free: FreeLists,
}

/// Name, kind and types of a function.
#[derive(Debug, Clone)]
pub(crate) struct FunctionHeader {
    pub id: FunctionId,
    pub name: Name,
    pub kind: FunctionKind,
    pub argument_types: Vec<Name>,
    pub result_types: Vec<Name>,
}

/// The executable part of a bound function.
pub(crate) struct FunctionBody {
    pub code: Code,
    /// The number of slots of its registers.
    pub slots: usize,
    /// Name and location of each kernel, for messages.
    pub details: Vec<KernelInfo>,
    /// The slots of the results.
    pub results: Vec<u32>,
    pub flow: Dataflow,
    pub location: KernelLocation,
}

/// A kernel's name and location, and the functions it refers to.
pub(crate) struct KernelInfo {
    pub(crate) name: Name,
    pub(crate) place: Location,
    pub(crate) location: KernelLocation,
    pub(crate) functions: Vec<FunctionId>,
}

/// The start and the results of an asynchronous function.
#[derive(Default)]
pub(crate) struct Dataflow {
    pub(crate) root: u32,
    /// Kernels without operands.
    pub(crate) entry: Vec<u32>,
    /// The position in the code of each argument's group.
    pub(crate) argument_groups: Vec<u32>,
    /// The number of operands of each kernel; 1 for a kernel without.
    pub(crate) counts: Vec<u32>,
    /// The cell of each result.
    pub(crate) result_cells: Vec<u32>,
    /// For each cell its slot, and the number of results that read it.
    pub(crate) cells: Vec<(u32, u32)>,
}

#[derive(Default)]
pub(crate) struct FreeLists {
    executions: Mutex<Vec<Arc<Execution>>>,
    registers: Mutex<Vec<Registers>>,
}

/// The maximum number of executions, and of registers, kept for reuse per function.
const MAX_FREE: usize = 64;

/// Observes the progress of a run. `()` observes nothing and costs nothing.
pub trait Observer {
    /// Kernel `index` starts.
    fn start(&mut self, index: usize);
    /// Kernel `index` has ended without an error. An error ends the run before the next one.
    fn end(&mut self, index: usize) -> Result<()>;
}

impl Observer for () {
    #[inline(always)]
    fn start(&mut self, _: usize) {}
    #[inline(always)]
    fn end(&mut self, _: usize) -> Result<()> {
        Ok(())
    }
}

impl BoundFunction {
    /// A function whose body is bound when it is first used.
    pub(crate) fn unbound(head: FunctionHeader, program: Weak<Inner>) -> Self {
        Self {
            head,
            body: OnceLock::new(),
            program,
            free: FreeLists::default(),
        }
    }

    /// A function bound already.
    pub(crate) fn bound(head: FunctionHeader, body: FunctionBody, program: Weak<Inner>) -> Self {
        Self {
            body: body.into(),
            ..Self::unbound(head, program)
        }
    }

    /// The name; empty for a region.
    pub fn name(&self) -> &str {
        &self.head.name
    }

    /// The kind: how it executes.
    pub fn kind(&self) -> FunctionKind {
        self.head.kind
    }

    /// The number of arguments.
    pub fn arguments(&self) -> usize {
        self.head.argument_types.len()
    }

    /// The printed types of the arguments.
    pub fn argument_types(&self) -> &[Name] {
        &self.head.argument_types
    }

    /// The printed types of the results.
    pub fn result_types(&self) -> &[Name] {
        &self.head.result_types
    }

    /// Binds the kernels if they are not bound yet.
    ///
    /// # Errors
    /// All problems of the function: malformed bytes, calls that do not match a kernel's signature.
    pub fn bind(&self) -> Result<()> {
        self.body().map(|_| ())
    }

    /// The number of kernels; 0 for a function that cannot be bound.
    pub fn len(&self) -> usize {
        self.body().map_or(0, |body| body.code.len())
    }

    /// Whether it has no kernels.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Name and label of each kernel, in order.
    pub fn kernels(&self) -> impl Iterator<Item = (&str, Label<'_>)> {
        (0..self.len()).map_while(|index| self.kernel(index))
    }

    /// Name and label of one kernel.
    pub fn kernel(&self, index: usize) -> Option<(&str, Label<'_>)> {
        let body = self.body().ok()?;
        let (kernel, detail) = (body.code.kernel(index)?, body.details.get(index)?);
        Some((&detail.name, kernel.label()))
    }

    /// Types of the tensors that one kernel reads and writes, for traces.
    pub fn shapes(&self, index: usize) -> String {
        let kernel = self.body().ok().and_then(|body| body.code.kernel(index));
        kernel.map_or_else(String::new, |kernel| kernel.shapes())
    }

    /// The body, bound on first use.
    #[inline]
    pub(crate) fn body(&self) -> Result<&FunctionBody> {
        match self.body.get() {
            Some(body) => Ok(body),
            None => self.first_use(),
        }
    }

    /// The body of a running execution, which exists because an execution starts only with a bound
    /// body.
    #[inline]
    pub(crate) fn running(&self) -> &FunctionBody {
        self.body.get().expect("an execution starts with a body")
    }

    #[cold]
    fn first_use(&self) -> Result<&FunctionBody> {
        let gone = || Error::new(ErrorKind::Internal, "the program is gone");
        let program = self.program.upgrade().ok_or_else(gone)?;
        let body = program.bind(self.head.id)?;
        Ok(self.body.get_or_init(|| body))
    }

    /// Registers for one execution at a time.
    pub fn registers(&self) -> Registers {
        Registers::new(self.body().map_or(0, |body| body.slots))
    }

    /// The results of the last run.
    pub fn results<'a>(&'a self, registers: &'a Registers) -> impl Iterator<Item = &'a Value> {
        let results = self.body.get().map_or(&[][..], |body| &body.results);
        results.iter().map(|&slot| registers.value(slot))
    }

    /// Runs the kernels of a synchronous function in order. The first error ends the run; it
    /// carries the kernel's location. Cancellation and deadline of `control` are checked before
    /// each kernel. Does not allocate.
    pub fn run<O: Observer>(
        &self,
        registers: &mut Registers,
        arguments: &[Value],
        context: &dyn Any,
        control: &Control,
        observer: &mut O,
    ) -> Result<()> {
        let body = self.body()?;
        self.enter(registers, body, arguments)?;
        let call = Call {
            function: self,
            body,
            context,
            control,
            request: None,
            trace: None,
        };
        self.run_kernels(registers, &call, observer)
    }

    fn run_kernels<O: Observer>(
        &self,
        registers: &mut Registers,
        call: &Call<'_>,
        observer: &mut O,
    ) -> Result<()> {
        if self.head.kind == FunctionKind::Async {
            let name = &self.head.name;
            let text = format!("@{name} is asynchronous: run it with FunctionHandle::execute");
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        let body = call.body;
        for index in 0..body.code.len() {
            match call.request {
                Some(request) => request.check()?,
                None => call.control.check()?,
            }
            observer.start(index);
            let instruction = body.code.instruction(index);
            let mut frame = Frame {
                view: registers.view(instruction.operands, instruction.results),
                call,
                kernel: index,
            };
            if let Err(error) = run_kernel(instruction.kernel, &mut frame) {
                return Err(error.at(body.details[index].place.clone()));
            }
            observer.end(index)?;
            let (&dying, slots) = instruction.rest.split_first().unwrap_or((&0, &[]));
            for &slot in &slots[..dying as usize] {
                registers.release(slot);
            }
        }
        Ok(())
    }

    /// Runs a synchronous or native function on separate registers.
    pub(crate) fn run_once(&self, request: &Request, arguments: Vec<Value>) -> Result<Vec<Value>> {
        let body = self.body()?;
        self.check_count(arguments.len())?;
        let Some(_level) = depth::enter_call() else {
            return Err(Error::new(
                ErrorKind::ExecutionFailed,
                format!("calls are nested too deep at @{}", self.head.name),
            ));
        };
        let spare = lock(&self.free.registers).pop();
        let mut registers = spare.unwrap_or_else(|| self.registers());
        for (register, argument) in (0u32..).zip(arguments) {
            registers.set(register, argument);
        }
        let call = Call {
            function: self,
            body,
            context: &(),
            control: request.control(),
            request: Some(request),
            trace: request.host().kernel_trace(),
        };
        let done = self.run_kernels(&mut registers, &call, &mut ());
        let results = done.map(|()| self.results(&registers).cloned().collect());
        registers.clear();
        recycle(&self.free.registers, registers);
        results
    }

    pub(crate) fn check_count(&self, found: usize) -> Result<()> {
        if found == self.arguments() {
            Ok(())
        } else {
            Err(wrong_count(self.name(), self.arguments(), found))
        }
    }

    /// Checks the arguments and sets their registers.
    fn enter(
        &self,
        registers: &mut Registers,
        body: &FunctionBody,
        arguments: &[Value],
    ) -> Result<()> {
        if registers.len() != body.slots {
            return Err(Error::new(
                ErrorKind::Internal,
                "registers of another function",
            ));
        }
        self.check_count(arguments.len())?;
        for (index, (argument, ty)) in arguments.iter().zip(self.argument_types()).enumerate() {
            if !argument.fits(ty) {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!("wrong type of argument {index} of @{}", self.name()),
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
        let body = match self.body() {
            Ok(body) => body,
            Err(error) => {
                let error = self.report(request, error);
                return vec![error; self.result_types().len()];
            }
        };
        let spare = lock(&self.free.executions).pop();
        let execution = spare.unwrap_or_else(|| Arc::new(Execution::new(body)));
        let run = Run {
            program: program.clone(),
            function: self.head.id,
            request: request.clone(),
        };
        Execution::start(execution, run, body, arguments)
    }

    /// Keeps a finished execution for reuse.
    pub(crate) fn recycle(&self, execution: Arc<Execution>) {
        recycle(&self.free.executions, execution);
    }

    /// Reports an error of the function itself, not of one kernel.
    pub(crate) fn report(&self, request: &Request, error: Error) -> Value {
        let unknown = &KernelLocation::Unknown;
        request.host().diagnose(&Diagnostic {
            location: self.body.get().map_or(unknown, |body| &body.location),
            kernel: self.name(),
            error: &error,
        });
        Value::error(error)
    }

    pub(crate) fn callee(&self, id: FunctionId) -> Option<FunctionHandle> {
        let program = self.program.upgrade()?;
        Some(FunctionHandle { program, id })
    }
}

fn recycle<T>(spare: &Mutex<Vec<T>>, one: T) {
    let mut spare = lock(spare);
    if spare.len() < MAX_FREE {
        spare.push(one);
    }
}

/// Locks, ignoring poison: a push or pop leaves the list consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
