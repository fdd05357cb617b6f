//! One run of a program: its variables, and the queue fields that are bound to them (netlist 6.3, 6.4).

use super::attributes::Operand;
use super::machine::Machine;
use super::queue::QueueSetting;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tenon_base::{Error, ErrorKind, Result};
use tenon_executor::Opaque;
use tenon_tile::{Operation, SettingKey};

/// The state of one run of a program.
pub(super) struct ProgramRun {
    machine: Machine,
    program: String,
    state: Mutex<State>,
}

impl Opaque for ProgramRun {
    const TYPE: &'static str = "!netlist.run";
}

#[derive(Default)]
struct State {
    /// Variables of this run, including parameters.
    locals: HashMap<String, i32>,
    /// Static variables that this run has declared.
    statics: HashSet<String>,
    /// Settings that are not applied yet: those of graphs that wait for others of their epoch.
    pending: Vec<QueueFields>,
    /// The fields of queues that are bound to each variable.
    bound_fields: HashMap<String, Vec<(String, SettingKey)>>,
    /// Queues that this run has set.
    set: HashSet<String>,
    steps: u64,
}

/// The setting of one queue in the execute of a graph.
#[derive(Debug, Clone)]
pub(super) struct QueueFields {
    pub graph: String,
    pub queue: String,
    pub fields: Vec<(SettingKey, Operand)>,
}

impl ProgramRun {
    /// A run of `program` with its parameters.
    pub(super) fn new(machine: Machine, program: String, params: HashMap<String, i32>) -> Self {
        let state = State {
            locals: params,
            ..State::default()
        };
        Self {
            machine,
            program,
            state: Mutex::new(state),
        }
    }

    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a step; an error beyond the limit.
    pub(super) fn step(&self) -> Result<()> {
        let mut state = self.state();
        state.steps += 1;
        let limit = self.machine.limits().steps;
        if state.steps > limit {
            let text = format!("program '{}' does not end", self.program);
            return Err(Error::new(ErrorKind::ExecutionFailed, text)
                .expected(format_args!("at most {limit} steps"))
                .help("give smaller loop counts, or raise the limit"));
        }
        Ok(())
    }

    /// Declares a variable of this run.
    pub(super) fn declare(&self, name: &str, value: &Operand) -> Result<()> {
        let value = self.value(value)?;
        let mut state = self.state();
        if state.locals.contains_key(name) || state.statics.contains(name) {
            return Err(invalid(format!("variable '{name}' is declared already")));
        }
        state.locals.insert(name.to_owned(), value);
        Ok(())
    }

    /// Declares a static variable; one of an earlier run keeps its value.
    pub(super) fn declare_static(&self, name: &str, value: &Operand) -> Result<()> {
        let value = self.value(value)?;
        let mut state = self.state();
        if state.locals.contains_key(name) {
            return Err(invalid(format!("variable '{name}' is declared already")));
        }
        state.statics.insert(name.to_owned());
        if self.machine.static_variable(&self.program, name).is_none() {
            self.machine.set_static(&self.program, name, value);
        }
        Ok(())
    }

    /// The value of a literal or a variable.
    pub(super) fn value(&self, operand: &Operand) -> Result<i32> {
        match operand {
            Operand::Number(number) => i32::try_from(*number)
                .map_err(|_| invalid("a number does not fit 32 bits".to_owned()).found(number)),
            Operand::Variable(name) => self.variable(name),
        }
    }

    fn variable(&self, name: &str) -> Result<i32> {
        let state = self.state();
        if let Some(value) = state.locals.get(name) {
            return Ok(*value);
        }
        let known = state.statics.contains(name);
        let value = known.then(|| self.machine.static_variable(&self.program, name));
        value
            .flatten()
            .ok_or_else(|| invalid(format!("variable '{name}' has no value")))
    }

    /// Computes a variable, and updates the queue fields that are bound to it.
    pub(super) fn compute(
        &self,
        output: &str,
        operation: Operation,
        operands: &[Operand],
    ) -> Result<()> {
        let values: Vec<i32> = operands
            .iter()
            .map(|operand| self.value(operand))
            .collect::<Result<_>>()?;
        let old = || self.variable(output).unwrap_or(0);
        let value = match (operation, &values[..]) {
            (Operation::Set, &[a]) => a,
            (Operation::Add, &[a, b]) => a.wrapping_add(b),
            (Operation::Mul, &[a, b]) => a.wrapping_mul(b),
            (Operation::Inc, &[a]) => old().wrapping_add(a),
            (Operation::IncWrap, &[_, b]) if b <= 0 => {
                return Err(invalid("incwrap requires an upper bound above 0".to_owned()).found(b));
            }
            (Operation::IncWrap, &[a, b]) => {
                // In 64 bits, so that the sum does not overflow before it wraps.
                (i64::from(old()) + i64::from(a)).rem_euclid(i64::from(b)) as i32
            }
            _ => return Err(invalid(format!("wrong number of operands of {operation}"))),
        };
        self.set(output, value)
    }

    fn set(&self, name: &str, value: i32) -> Result<()> {
        let bound_fields = {
            let mut state = self.state();
            if state.statics.contains(name) {
                self.machine.set_static(&self.program, name, value);
            } else {
                // An undeclared name is a new variable of this run (netlist 6.4).
                state.locals.insert(name.to_owned(), value);
            }
            state.bound_fields.get(name).cloned().unwrap_or_default()
        };
        let value = i64::from(value);
        for (queue, key) in bound_fields {
            self.machine.with(&queue, |queue| {
                match key {
                    SettingKey::RdPtrGlobal => queue.set_rd(value, false),
                    SettingKey::WrPtrGlobal => queue.set_wr(value),
                    SettingKey::RdPtrLocal => queue.set_local(value),
                    _ => {}
                }
                if let Some(setting) = queue.setting_mut() {
                    match key {
                        SettingKey::RdPtrAutoinc => setting.rd_autoinc = Some(value),
                        SettingKey::GlobalRdptrAutoinc => setting.global_rd_autoinc = value,
                        SettingKey::GlobalWrptrAutoinc => setting.global_wr_autoinc = Some(value),
                        _ => {}
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Stores a setting until its execute.
    pub(super) fn setting(&self, fields: QueueFields) {
        self.state().pending.push(fields);
    }

    /// Removes and returns the settings that are not applied yet.
    pub(super) fn take_settings(&self) -> Vec<QueueFields> {
        std::mem::take(&mut self.state().pending)
    }

    /// Applies settings.
    pub(super) fn apply(&self, settings: &[QueueFields]) -> Result<()> {
        for QueueFields { queue, fields, .. } in settings {
            let setting = self.read(queue, fields)?;
            let is_first = {
                let mut state = self.state();
                for bound_fields in state.bound_fields.values_mut() {
                    bound_fields.retain(|(other, _)| other != queue);
                }
                for (key, operand) in fields {
                    if let Operand::Variable(name) = operand {
                        let bound_fields = state.bound_fields.entry(name.clone()).or_default();
                        bound_fields.push((queue.clone(), *key));
                    }
                }
                state.set.insert(queue.clone())
            };
            self.machine.apply(queue, setting, is_first)?;
        }
        Ok(())
    }

    /// The queues that this run has set, to be restored when an epoch is undone.
    pub(super) fn set_queues(&self) -> HashSet<String> {
        self.state().set.clone()
    }

    /// Restores the queues that this run has set.
    pub(super) fn restore_set_queues(&self, set: HashSet<String>) {
        self.state().set = set;
    }

    fn read(&self, queue: &str, fields: &[(SettingKey, Operand)]) -> Result<QueueSetting> {
        let mut setting = QueueSetting::default();
        for (key, operand) in fields {
            let value = i64::from(self.value(operand)?);
            match key {
                SettingKey::Prologue => setting.prologue = value != 0,
                SettingKey::Epilogue => setting.epilogue = value != 0,
                SettingKey::Zero => setting.zero = value != 0,
                SettingKey::ReadOnly => {}
                SettingKey::RdPtrLocal => setting.rd_local = Some(value),
                SettingKey::RdPtrGlobal => setting.rd_global = Some(value),
                SettingKey::WrPtrGlobal => setting.wr_global = Some(value),
                SettingKey::RdPtrAutoinc => setting.rd_autoinc = Some(value),
                SettingKey::GlobalRdptrAutoinc => setting.global_rd_autoinc = value,
                SettingKey::GlobalWrptrAutoinc => setting.global_wr_autoinc = Some(value),
            }
        }
        let pointers = [setting.rd_local, setting.rd_global, setting.wr_global];
        if let Some(negative) = pointers.into_iter().flatten().find(|pointer| *pointer < 0) {
            return Err(
                invalid(format!("a pointer of queue '{queue}' is negative")).found(negative)
            );
        }
        Ok(setting)
    }

    /// Clears queues at their allocation.
    pub(super) fn allocate(&self, queues: &[String]) -> Result<()> {
        for queue in queues {
            self.machine.with(queue, |queue| {
                queue.clear();
                Ok(())
            })?;
            self.state().set.remove(queue);
        }
        Ok(())
    }

    /// Unbinds the fields of deallocated queues from all variables.
    pub(super) fn deallocate(&self, queues: &[String]) {
        for bound_fields in self.state().bound_fields.values_mut() {
            bound_fields.retain(|(queue, _)| !queues.contains(queue));
        }
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidModel, message)
}

#[cfg(test)]
mod tests {
    use super::super::machine::MachineLimits;
    use super::*;

    fn run() -> ProgramRun {
        let machine = Machine::new(MachineLimits::default());
        ProgramRun::new(machine, "p".into(), HashMap::from([("$p".into(), 4)]))
    }

    fn number(value: i64) -> Operand {
        Operand::Number(value)
    }

    fn variable(name: &str) -> Operand {
        Operand::Variable(name.into())
    }

    #[test]
    fn each_operation_equals_its_definition() {
        let run = run();
        run.declare("$a", &number(7)).unwrap();
        let compute = |operation, operands: &[Operand]| {
            run.compute("$a", operation, operands).unwrap();
            run.value(&variable("$a")).unwrap()
        };
        assert_eq!(compute(Operation::IncWrap, &[variable("$p"), number(8)]), 3);
        assert_eq!(compute(Operation::IncWrap, &[number(-5), number(8)]), 6);
        assert_eq!(compute(Operation::Inc, &[number(2)]), 8);
        assert_eq!(compute(Operation::Mul, &[variable("$a"), number(3)]), 24);
        assert_eq!(compute(Operation::Add, &[number(1), number(2)]), 3);
        assert_eq!(compute(Operation::Set, &[variable("$p")]), 4);
        assert!(
            run.compute("$a", Operation::IncWrap, &[number(1), number(0)])
                .is_err()
        );
    }

    #[test]
    fn static_variables_outlive_a_run_and_names_are_declared_once() {
        let first = run();
        first.declare_static("$s", &number(1)).unwrap();
        first.compute("$s", Operation::Inc, &[number(4)]).unwrap();
        let machine = first.machine().clone();
        let second = ProgramRun::new(machine, "p".into(), HashMap::new());
        assert!(second.value(&variable("$s")).is_err());
        second.declare_static("$s", &number(1)).unwrap();
        assert_eq!(second.value(&variable("$s")).unwrap(), 5);
        assert!(second.declare("$s", &number(0)).is_err());
        assert!(first.declare("$p", &number(0)).is_err());
        second
            .compute("$new", Operation::Set, &[number(3)])
            .unwrap();
        assert_eq!(second.value(&variable("$new")).unwrap(), 3);
    }

    #[test]
    fn steps_are_counted() {
        let limits = MachineLimits {
            steps: 2,
            ..MachineLimits::default()
        };
        let run = ProgramRun::new(Machine::new(limits), "p".into(), HashMap::new());
        run.step().unwrap();
        run.step().unwrap();
        let error = run.step().unwrap_err();
        assert!(
            error.to_string().starts_with("program 'p' does not end"),
            "{error}"
        );
    }
}
