//! Verification of redundant tables: use counts and used-by lists.
//!
//! Tenon ignores these tables when decoding; other executors rely on them.

use super::body::{Body, KernelRow};
use super::file::File;
use super::lookup::MAX_PROBLEMS;
use crate::{Function, FunctionId, RegisterId, Uses};
use tenon_base::{Error, Result};

impl File<'_> {
    /// Checks the whole file: the checks of [`module`](Self::module), and that use counts and
    /// used-by lists match the operands. With wrong ones another executor could wait forever.
    ///
    /// # Errors
    /// All problems, as far as the structure allows finding them.
    pub fn verify(&self) -> Result<()> {
        let module = self.module()?;
        let mut problems = Vec::new();
        for (id, function) in (0u32..).zip(&module.functions) {
            if !function.is_native() && problems.len() < MAX_PROBLEMS {
                let mut table = Vec::new();
                let body = self.body_of(FunctionId(id), &mut table)?;
                check_tables(function, &body, &table, &mut problems)?;
            }
        }
        Error::from_all(problems).map_or(Ok(()), Err)
    }
}

fn check_tables(
    function: &Function,
    body: &Body<'_>,
    table: &[KernelRow],
    problems: &mut Vec<Error>,
) -> Result<()> {
    let uses = Uses::of(function);
    let mut counts = body.use_counts;
    for register in (0..).map(RegisterId).take(function.registers.len()) {
        if problems.len() >= MAX_PROBLEMS {
            return Ok(());
        }
        let place = counts;
        let (found, expected) = (counts.vbr()?, uses.count(register));
        if found != u64::from(expected) {
            let error = place.error(format!("another use count of {register}"));
            problems.push(error.expected(expected).found(found));
        }
    }
    for row in table {
        let record = body.record(row)?;
        for (register, found) in record.results().zip(record.users()) {
            if problems.len() >= MAX_PROBLEMS {
                return Ok(());
            }
            let users = if register as usize == function.registers.len() {
                uses.without_operands()
            } else {
                uses.users(RegisterId(register))
            };
            // In the file, kernels are numbered from 1, and the order is the writer's.
            let mut expected: Vec<u32> = users.iter().map(|user| user + 1).collect();
            let mut sorted = found.clone();
            expected.sort_unstable();
            sorted.sort_unstable();
            if sorted != expected {
                let register = RegisterId(register);
                let error = (body.place(row)).error(format!("another list of users of {register}"));
                let error = error.expected(format!("{expected:?}"));
                problems.push(error.found(format!("{found:?}")));
            }
        }
    }
    Ok(())
}
