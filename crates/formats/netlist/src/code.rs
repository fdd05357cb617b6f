//! Programs as indented pseudocode.

use crate::netlist::{Instruction, Operand, Program, QueueSetting};
use crate::source::Spanned;
use std::fmt;

/// Displays a program as pseudocode, one instruction per line, loop bodies indented.
#[derive(Debug, Clone, Copy)]
pub struct ProgramCode<'n>(pub &'n Program);

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Immediate(value) => write!(f, "{value}"),
            Operand::Variable(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for ProgramCode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "program {} {{", self.0.name.value)?;
        let mut depth = 1;
        for instruction in &self.0.instructions {
            if matches!(instruction.value, Instruction::EndLoop) {
                depth = std::cmp::max(1, depth - 1);
            }
            let indent = "  ".repeat(depth);
            match &instruction.value {
                Instruction::Execute { graph, settings } => {
                    writeln!(f, "{indent}execute {}", graph.value)?;
                    settings.iter().try_for_each(|setting| {
                        writeln!(f, "{indent}  {}", SettingCode(setting))
                    })?;
                }
                other => writeln!(f, "{indent}{}", InstructionCode(other))?,
            }
            if matches!(instruction.value, Instruction::Loop(_)) {
                depth += 1;
            }
        }
        write!(f, "}}")
    }
}

/// A queue setting: its fields that are not false.
struct SettingCode<'n>(&'n QueueSetting);

impl fmt::Display for SettingCode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.0.queue.value)?;
        for (key, value) in &self.0.fields {
            match (&value.value, key.name()) {
                (Operand::Immediate(0), "prologue" | "epilogue" | "zero" | "read_only") => {}
                (
                    Operand::Immediate(1),
                    name @ ("prologue" | "epilogue" | "zero" | "read_only"),
                ) => {
                    write!(f, " {name}")?;
                }
                (value, name) => write!(f, " {name}={value}")?,
            }
        }
        Ok(())
    }
}

struct InstructionCode<'n>(&'n Instruction);

impl fmt::Display for InstructionCode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |names: &[Spanned<String>]| {
            names
                .iter()
                .map(|name| name.value.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let variables = |variables: &[(Spanned<String>, Spanned<Operand>)]| {
            let all = variables.iter();
            all.map(|(name, value)| format!("{} = {}", name.value, value.value))
                .collect::<Vec<_>>()
                .join(", ")
        };
        match self.0 {
            Instruction::Var(all) => write!(f, "var {}", variables(all)),
            Instruction::StaticVar(all) => write!(f, "static {}", variables(all)),
            Instruction::Param(all) => write!(f, "param {}", names(all)),
            Instruction::VarInst {
                output,
                operation,
                operands,
            } => {
                use tenon_tile::Operation;
                let output = &output.value;
                let value = |index: usize| {
                    operands
                        .get(index)
                        .map_or(String::new(), |value| value.value.to_string())
                };
                let (a, b) = (value(0), value(1));
                match operation.value {
                    Operation::Set => write!(f, "{output} = {a}"),
                    Operation::Add => write!(f, "{output} = {a} + {b}"),
                    Operation::Mul => write!(f, "{output} = {a} * {b}"),
                    Operation::Inc => write!(f, "{output} += {a}"),
                    Operation::IncWrap => write!(f, "{output} = ({output} + {a}) mod {b}"),
                }
            }
            Instruction::Loop(count) => write!(f, "loop {} {{", count.value),
            Instruction::EndLoop => write!(f, "}}"),
            Instruction::Execute { graph, .. } => write!(f, "execute {}", graph.value),
            Instruction::AllocateQueue(all) => write!(f, "allocate {}", names(all)),
            Instruction::DeallocateQueue(all) => write!(f, "deallocate {}", names(all)),
            Instruction::EndProgram => write!(f, "end"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, read};

    #[test]
    fn loop_bodies_are_indented() {
        let text = "\
devices: {arch: grayskull}
programs:
  - run:
      - param: [$p_n]
      - staticvar: {$g: 0}
      - loop: $p_n
      - execute: {graph_name: fwd, queue_settings: {x: {prologue: false, zero: true, rd_ptr_global: $g}}}
      - varinst: [$g, incwrap, 2, 4]
      - endloop
";
        let netlist = read(&Source::new("n.yaml", text)).netlist;
        assert_eq!(
            ProgramCode(&netlist.programs[0]).to_string(),
            "program run {\n  param $p_n\n  static $g = 0\n  loop $p_n {\n    execute fwd\n      \
             x: zero rd_ptr_global=$g\n    $g = ($g + 2) mod 4\n  }\n}"
        );
    }
}
