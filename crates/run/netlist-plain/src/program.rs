//! The interpreter of programs: variables, loops, executes (netlist 6.3, 6.4).

use crate::epoch::{QueuedExecute, ResolvedSetting};
use crate::machine::Machine;
use std::collections::HashMap;
use tenon_base::{Error, ErrorKind, Result};
use tenon_netlist::{
    Instruction, Operand, Operation, Program, QueueKind, QueueSetting, SettingKey, Spanned,
};

/// The state of a run of a program.
struct ProgramRun<'m, 'n> {
    machine: &'m mut Machine<'n>,
    program: &'n str,
    variables: HashMap<String, i64>,
    /// Pointers that are bound to a variable by an execute: queue, field, variable.
    bound: Vec<(&'n str, SettingKey, &'n str)>,
    /// Active loops: index of the first instruction of the body, and remaining iterations.
    loops: Vec<(usize, i64)>,
}

/// Runs a program once.
pub(crate) fn run<'n>(machine: &mut Machine<'n>, program: &'n Program) -> Result<()> {
    let name = program.name.value.as_str();
    let mut run = ProgramRun {
        machine,
        program: name,
        variables: HashMap::new(),
        bound: Vec::new(),
        loops: Vec::new(),
    };
    let mut next = 0;
    while let Some(instruction) = program.instructions.get(next) {
        run.machine.control.check()?;
        run.machine.instructions += 1;
        let limit = run.machine.options.limits.instructions;
        if run.machine.instructions > limit {
            let error = Error::new(
                ErrorKind::ExecutionFailed,
                format!("program '{name}' exceeds the limit of instructions"),
            );
            return Err(error.expected(format!("at most {limit} instructions")));
        }
        next = run.step(&instruction.value, next)?;
    }
    run.machine.flush()
}

impl<'n> ProgramRun<'_, 'n> {
    /// Runs one instruction; returns the index of the next one.
    fn step(&mut self, instruction: &'n Instruction, at: usize) -> Result<usize> {
        if !matches!(instruction, Instruction::Execute { .. }) && !self.machine.awaits_more() {
            self.flush()?;
        }
        match instruction {
            Instruction::Var(variables) => {
                for (name, value) in variables {
                    let value = self.value(value)?;
                    self.variables.insert(name.value.clone(), value);
                }
            }
            Instruction::StaticVar(variables) => {
                for (name, value) in variables {
                    let value = self.value(value)?;
                    let statics = self.machine.statics.entry(self.program).or_default();
                    statics.entry(name.value.clone()).or_insert(value);
                }
            }
            Instruction::Param(names) => names.iter().for_each(|name| self.param(name)),
            Instruction::VarInst {
                output,
                operation,
                operands,
            } => {
                self.arithmetic(&output.value, operation.value, operands)?;
            }
            Instruction::Loop(count) => {
                let rounds = self.value(count)?;
                if rounds < 1 {
                    let error = Error::new(ErrorKind::InvalidModel, "invalid trip count of a loop");
                    return Err(error.expected("at least 1").found(rounds));
                }
                self.loops.push((at + 1, rounds));
            }
            Instruction::EndLoop => {
                self.flush()?;
                if let Some((start, rounds)) = self.loops.last_mut() {
                    *rounds -= 1;
                    if *rounds > 0 {
                        return Ok(*start);
                    }
                    self.loops.pop();
                }
            }
            Instruction::Execute { graph, settings } => self.execute(&graph.value, settings)?,
            Instruction::AllocateQueue(names) => {
                for name in names {
                    if let Some(store) = self.machine.stores.get_mut(name.value.as_str()) {
                        store.clear();
                    }
                }
            }
            // The pointers of a freed queue are unbound (netlist 6.6).
            Instruction::DeallocateQueue(names) => {
                self.bound
                    .retain(|(queue, ..)| names.iter().all(|name| name.value != *queue));
            }
            Instruction::EndProgram => {}
        }
        Ok(at + 1)
    }

    fn flush(&mut self) -> Result<()> {
        for pending in &self.machine.pending {
            for (queue, key, variable) in &pending.bound {
                if !self.bound.contains(&(*queue, *key, *variable)) {
                    self.bound.push((*queue, *key, *variable));
                }
            }
        }
        self.machine.flush()
    }

    fn param(&mut self, name: &Spanned<String>) {
        let found = self
            .machine
            .options
            .params
            .iter()
            .rev()
            .find(|(param, _)| *param == name.value);
        let value = match found {
            Some((_, value)) => *value,
            None => self.machine.config.param(self.machine.netlist, &name.value),
        };
        self.variables.insert(name.value.clone(), value);
    }

    fn variable(&self, name: &str) -> Option<i64> {
        let statics = self.machine.statics.get(self.program);
        let of_program = statics.and_then(|statics| statics.get(name));
        self.variables.get(name).or(of_program).copied()
    }

    fn value(&self, operand: &Operand) -> Result<i64> {
        match operand {
            Operand::Immediate(value) => Ok(*value),
            Operand::Variable(name) => self.variable(name).ok_or_else(|| {
                let message = format!("program '{}' has no variable '{name}'", self.program);
                Error::new(ErrorKind::InvalidModel, message)
            }),
        }
    }

    /// Arithmetic on 32-bit variables, modulo 2^32.
    fn arithmetic(
        &mut self,
        output: &str,
        operation: Operation,
        operands: &[Spanned<Operand>],
    ) -> Result<()> {
        let values: Vec<i64> = operands
            .iter()
            .map(|operand| self.value(operand))
            .collect::<Result<_>>()?;
        let old = self.variable(output).unwrap_or(0);
        let argument = |index: usize| values.get(index).copied().unwrap_or(0);
        let value = match operation {
            Operation::Set => argument(0),
            Operation::Add => argument(0).wrapping_add(argument(1)),
            Operation::Mul => argument(0).wrapping_mul(argument(1)),
            Operation::Inc => old.wrapping_add(argument(0)),
            Operation::IncWrap => {
                let wrap = argument(1);
                if wrap < 1 {
                    let error = Error::new(
                        ErrorKind::InvalidModel,
                        format!("invalid modulus of incwrap on '{output}'"),
                    );
                    return Err(error.expected("at least 1").found(wrap.to_string()));
                }
                old.wrapping_add(argument(0)).rem_euclid(wrap)
            }
        };
        let value = i64::from(value as i32);
        let statics = self.machine.statics.get_mut(self.program);
        match statics.and_then(|statics| statics.get_mut(output)) {
            Some(variable) => *variable = value,
            None => {
                self.variables.insert(output.to_owned(), value);
            }
        }
        self.update_pointers(output, value);
        Ok(())
    }

    /// Sets the pointers that are bound to a variable.
    fn update_pointers(&mut self, variable: &str, value: i64) {
        for (queue, key, name) in &self.bound {
            let Some(store) = self
                .machine
                .stores
                .get_mut(queue)
                .filter(|_| *name == variable)
            else {
                continue;
            };
            match key {
                SettingKey::RdPtrGlobal => store.set_read(value),
                _ => store.set_write(value),
            }
        }
    }

    fn execute(&mut self, graph: &'n str, settings: &'n [QueueSetting]) -> Result<()> {
        let graph = self.machine.graphs.get(graph).copied().ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidModel,
                format!("there is no graph '{graph}'"),
            )
        })?;
        let mut pending = QueuedExecute {
            graph,
            settings: HashMap::new(),
            bound: Vec::new(),
        };
        for setting in settings {
            let name = setting.queue.value.as_str();
            let Some(queue) = self.machine.queues.get(name).copied() else {
                continue;
            };
            let read = self.setting(setting, queue.kind.value)?;
            pending.settings.insert(name, read);
            let write = (queue.kind.value == QueueKind::Ram).then_some(SettingKey::WrPtrGlobal);
            for key in [Some(SettingKey::RdPtrGlobal), write].into_iter().flatten() {
                if let Some(Operand::Variable(variable)) =
                    setting.find(key).map(|value| &value.value)
                {
                    pending.bound.push((name, key, variable.as_str()));
                }
            }
        }
        if !self.machine.joins(&pending) {
            self.flush()?;
        }
        self.machine.pending.push(pending);
        Ok(())
    }

    fn setting(&self, setting: &QueueSetting, kind: QueueKind) -> Result<ResolvedSetting> {
        let value = |key| {
            setting
                .find(key)
                .map(|value| self.value(&value.value))
                .transpose()
        };
        let flag = |key| Ok::<bool, Error>(value(key)?.unwrap_or(0) != 0);
        let is_queue = kind == QueueKind::Queue;
        let read_only = flag(SettingKey::ReadOnly)?;
        Ok(ResolvedSetting {
            loads_once: flag(SettingKey::Prologue)? || flag(SettingKey::Epilogue)?,
            zero: flag(SettingKey::Zero)?,
            local: value(SettingKey::RdPtrLocal)?.filter(|_| is_queue),
            read: value(SettingKey::RdPtrGlobal)?,
            write: value(SettingKey::WrPtrGlobal)?.filter(|_| !is_queue && !read_only),
            local_step: value(SettingKey::RdPtrAutoinc)?.unwrap_or(i64::from(is_queue)),
            read_step: value(SettingKey::GlobalRdptrAutoinc)?.unwrap_or(0),
            write_step: value(SettingKey::GlobalWrptrAutoinc)?.unwrap_or(0),
        })
    }
}
