//! A bound kernel, and what it sees while it runs.

use crate::Value;
use std::any::{Any, type_name};
use tenon_base::{Control, Error, ErrorKind, Result};

/// A kernel bound to its attributes and services; shared by concurrent executions.
pub trait Kernel: Send + Sync {
    /// Runs once: reads operands, sets every result.
    fn run(&self, frame: &mut Frame<'_>) -> Result<()>;

    /// What a profile shows besides the kernel's name.
    fn label(&self) -> Label<'_> {
        Label::default()
    }
}

/// How a profile shows a kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Label<'a> {
    /// The graph node that it executes.
    pub node: &'a str,
    /// What it applies.
    pub operator: &'a str,
    /// Who computes it.
    pub backend: &'a str,
    /// Bytes that it writes.
    pub bytes: u64,
}

/// One run of one kernel: its operands and results, and the execution that it is part of.
pub struct Frame<'a> {
    pub(crate) registers: &'a mut [Value],
    pub(crate) operands: &'a [u32],
    pub(crate) results: &'a [u32],
    pub(crate) context: &'a dyn Any,
    pub(crate) control: &'a Control,
}

impl Frame<'_> {
    /// Number of operands, those of a variadic kernel included.
    pub fn operands(&self) -> usize {
        self.operands.len()
    }

    /// An operand; empty when there are not as many.
    pub fn operand(&self, index: usize) -> &Value {
        const EMPTY: &Value = &Value::Empty;
        let register = self.operands.get(index).map(|&register| register as usize);
        register
            .and_then(|register| self.registers.get(register))
            .unwrap_or(EMPTY)
    }

    /// Sets a result; one that the kernel does not have is dropped.
    pub fn set(&mut self, index: usize, value: Value) {
        let register = self.results.get(index).map(|&register| register as usize);
        if let Some(register) = register.and_then(|register| self.registers.get_mut(register)) {
            *register = value;
        }
    }

    /// What the caller handed to this execution, such as its memory.
    pub fn context<T: 'static>(&self) -> Result<&T> {
        self.context.downcast_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                format!("the execution does not have {}", type_name::<T>()),
            )
        })
    }

    /// Cancel and deadline, for a kernel that runs long.
    pub fn control(&self) -> &Control {
        self.control
    }
}
