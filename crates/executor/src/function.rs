//! A synchronous function bound to its kernels, and its run (facts 2.7).

use crate::kernel::{Frame, Kernel, Label};
use crate::value::Value;
use std::any::Any;
use std::ops::Range;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_bef::Name;

/// A function ready to run; shared by concurrent executions, each with its own [`Registers`].
pub struct BoundFunction {
    pub(crate) name: String,
    /// Printed types of all registers; the arguments come first.
    pub(crate) registers: Vec<Name>,
    pub(crate) arguments: usize,
    pub(crate) results: Vec<u32>,
    pub(crate) kernels: Vec<BoundKernel>,
    /// Operands, results and dying registers of all kernels, one after the other.
    pub(crate) numbers: Vec<u32>,
}

/// A kernel of a bound function; the ranges are of [`BoundFunction::numbers`].
pub(crate) struct BoundKernel {
    pub(crate) kernel: Box<dyn Kernel>,
    pub(crate) name: Name,
    pub(crate) operands: Range<usize>,
    pub(crate) results: Range<usize>,
    /// Registers that nobody uses after this kernel.
    pub(crate) dies: Range<usize>,
    pub(crate) place: Location,
}

/// The registers of one execution of one function, used again by the next.
pub struct Registers(Vec<Value>);

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

    /// Number of its arguments.
    pub fn arguments(&self) -> usize {
        self.arguments
    }

    /// Number of its kernels.
    pub fn len(&self) -> usize {
        self.kernels.len()
    }

    /// Whether it has no kernels.
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty()
    }

    /// Name and label of each kernel, in order.
    pub fn kernels(&self) -> impl ExactSizeIterator<Item = (&str, Label<'_>)> {
        self.kernels
            .iter()
            .map(|bound| (bound.name.as_str(), bound.kernel.label()))
    }

    /// Name and label of one kernel.
    pub fn kernel(&self, index: usize) -> Option<(&str, Label<'_>)> {
        self.kernels
            .get(index)
            .map(|bound| (bound.name.as_str(), bound.kernel.label()))
    }

    /// Registers for one execution at a time.
    pub fn registers(&self) -> Registers {
        Registers(vec![Value::Empty; self.registers.len()])
    }

    /// The results of the last run.
    pub fn results<'a>(&'a self, registers: &'a Registers) -> impl Iterator<Item = &'a Value> {
        self.results
            .iter()
            .map(|&register| registers.0.get(register as usize).unwrap_or(&Value::Empty))
    }

    /// Runs the kernels in order. The first error ends the run; it has the kernel's place. Cancel
    /// and deadline of `control` are looked at before each kernel. Allocates nothing itself.
    pub fn run<O: Observer>(
        &self,
        registers: &mut Registers,
        arguments: &[Value],
        context: &dyn Any,
        control: &Control,
        observer: &mut O,
    ) -> Result<()> {
        self.enter(registers, arguments)?;
        for (index, bound) in self.kernels.iter().enumerate() {
            control.check()?;
            observer.start(index);
            let mut frame = Frame {
                registers: &mut registers.0,
                operands: &self.numbers[bound.operands.clone()],
                results: &self.numbers[bound.results.clone()],
                context,
                control,
            };
            bound
                .kernel
                .run(&mut frame)
                .map_err(|error| error.at(bound.place.clone()))?;
            observer.end(index);
            for &register in &self.numbers[bound.dies.clone()] {
                registers.0[register as usize] = Value::Empty;
            }
        }
        Ok(())
    }

    /// Sets the argument registers, after checking them.
    fn enter(&self, registers: &mut Registers, arguments: &[Value]) -> Result<()> {
        if registers.0.len() != self.registers.len() {
            return Err(Error::new(
                ErrorKind::Internal,
                "registers of another function",
            ));
        }
        if arguments.len() != self.arguments {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("wrong number of arguments of @{}", self.name),
            )
            .expected(self.arguments)
            .found(arguments.len()));
        }
        for (index, (argument, ty)) in arguments.iter().zip(&self.registers).enumerate() {
            if !argument.fits(ty) {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!("wrong type of argument {index} of @{}", self.name),
                )
                .expected(ty)
                .found(argument.type_name()));
            }
            registers.0[index] = argument.clone();
        }
        Ok(())
    }
}
