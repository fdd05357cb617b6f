//! The rules for programs: variables, loops, and queue settings (netlist 6.3, 6.4).

use super::Rule;
use super::check::Checker;
use super::names::unknown;
use crate::Finding;
use crate::links::Node;
use crate::netlist::{Graph, Instruction, Operand, Program, Queue, QueueSetting};
use crate::source::{Span, Spanned};
use crate::words::QueueKind;
use std::collections::{HashMap, HashSet};
use tenon_tile::SettingKey;

pub(super) fn check(checker: &mut Checker<'_>) {
    for program in &checker.netlist.programs {
        flow(checker, program);
        variables(checker, program);
        for instruction in &program.instructions {
            match &instruction.value {
                Instruction::Execute { graph, settings } => {
                    execute(checker, graph, settings, instruction.span);
                }
                Instruction::AllocateQueue(queues) | Instruction::DeallocateQueue(queues) => {
                    for queue in queues {
                        if checker.links.queue(&queue.value).is_none() {
                            unknown(checker, queue, "queue");
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

/// The nesting of loops and the position of params.
fn flow(checker: &mut Checker<'_>, program: &Program) {
    let mut open: Vec<Span> = Vec::new();
    for (index, instruction) in program.instructions.iter().enumerate() {
        let span = instruction.span;
        match &instruction.value {
            Instruction::Loop(count) => {
                open.push(span);
                if let Operand::Immediate(count_value) = count.value
                    && count_value < 1
                {
                    let finding = Finding::new(Rule::LoopCount, count.span, "invalid trip count");
                    checker.report(finding.expected("at least 1").found(count_value));
                }
            }
            Instruction::EndLoop if open.pop().is_none() => {
                let message = "endloop without a loop";
                checker.report(Finding::new(Rule::LoopNesting, span, message));
            }
            Instruction::Param(_) if index > 0 => {
                let message = "param must be the first instruction";
                let help = "declare all params in one instruction at the start";
                checker.report(Finding::new(Rule::ParamFirst, span, message).help(help));
            }
            Instruction::EndProgram => {
                let message = "endprogram has no effect, and the original rejects it";
                checker.report(Finding::new(Rule::EndProgram, span, message).help("remove it"));
            }
            _ => {}
        }
    }
    for span in open {
        let finding = Finding::new(Rule::LoopNesting, span, "loop without endloop");
        checker.report(finding.help("add endloop after its body"));
    }
}

/// The kind of a variable.
#[derive(Clone, Copy, PartialEq)]
enum VariableKind {
    Local,
    Static,
    Param,
}

fn variables(checker: &mut Checker<'_>, program: &Program) {
    let mut known: HashMap<&str, VariableKind> = HashMap::new();
    for instruction in &program.instructions {
        match &instruction.value {
            Instruction::Var(variables) => {
                for (name, value) in variables {
                    used(checker, &known, value);
                    declare(checker, &mut known, name, VariableKind::Local);
                }
            }
            Instruction::StaticVar(variables) => {
                for (name, value) in variables {
                    used(checker, &known, value);
                    declare(checker, &mut known, name, VariableKind::Static);
                }
            }
            Instruction::Param(names) => {
                names
                    .iter()
                    .for_each(|name| declare(checker, &mut known, name, VariableKind::Param));
            }
            Instruction::VarInst {
                output, operands, ..
            } => {
                operands
                    .iter()
                    .for_each(|value| used(checker, &known, value));
                if !known.contains_key(output.value.as_str()) {
                    let message =
                        format!("'{}' is not declared: varinst declares it", output.value);
                    checker.report(Finding::new(Rule::VariableImplicit, output.span, message));
                    known.insert(&output.value, VariableKind::Local);
                }
            }
            Instruction::Loop(count) => used(checker, &known, count),
            Instruction::Execute { settings, .. } => {
                let values = settings.iter().flat_map(|setting| &setting.fields);
                values.for_each(|(_, value)| used(checker, &known, value));
                settings
                    .iter()
                    .for_each(|setting| statics(checker, &known, setting));
            }
            _ => {}
        }
    }
}

fn declare<'n>(
    checker: &mut Checker<'_>,
    known: &mut HashMap<&'n str, VariableKind>,
    name: &'n Spanned<String>,
    kind: VariableKind,
) {
    let before = known.insert(&name.value, kind);
    // A repeated declaration of a static variable keeps its value (netlist 6.4).
    if before.is_some_and(|before| before != kind || kind != VariableKind::Static) {
        let message = format!("'{}' is already declared", name.value);
        checker.report(Finding::new(Rule::Variable, name.span, message));
    }
}

fn used(checker: &mut Checker<'_>, known: &HashMap<&str, VariableKind>, value: &Spanned<Operand>) {
    let Operand::Variable(name) = &value.value else {
        return;
    };
    if !known.contains_key(name.as_str()) {
        let message = format!("'{name}' is not declared");
        let finding = Finding::new(Rule::Variable, value.span, message);
        checker.report(finding.help("declare it with var, staticvar or param"));
    }
}

/// Prologue and epilogue are compile-time constants: they cannot be params (netlist 6.3).
fn statics(checker: &mut Checker<'_>, known: &HashMap<&str, VariableKind>, setting: &QueueSetting) {
    for key in [SettingKey::Prologue, SettingKey::Epilogue] {
        let Some(value) = setting.find(key) else {
            continue;
        };
        if let Operand::Variable(name) = &value.value
            && known.get(name.as_str()) == Some(&VariableKind::Param)
        {
            let message = format!("{key} cannot be a param");
            let finding = Finding::new(Rule::SettingForbidden, value.span, message);
            checker.report(finding.expected("true, false or a variable").found(name));
        }
    }
}

fn execute(
    checker: &mut Checker<'_>,
    name: &Spanned<String>,
    settings: &[QueueSetting],
    span: Span,
) {
    let Some(graph) = checker.links.graph(&name.value) else {
        return unknown(checker, name, "graph");
    };
    for setting in settings {
        let Some(queue) = checker.links.queue(&setting.queue.value) else {
            unknown(checker, &setting.queue, "queue");
            continue;
        };
        check_setting(checker, graph, queue, setting);
    }
    let mut reported = HashSet::new();
    for op in &graph.ops {
        for input in &op.inputs {
            let Some(Node::Queue(queue)) = checker.links.find(&input.name.value) else {
                continue;
            };
            let is_required = queue.is_host_fed() && queue.kind.value == QueueKind::Queue;
            let is_set = settings.iter().any(|setting| is_setting_of(setting, queue));
            if is_required && !is_set && reported.insert(&queue.name.value) {
                let name = &queue.name.value;
                let message = format!("missing settings of '{name}', which the host writes");
                let finding = Finding::new(Rule::SettingMissing, span.first(), message);
                let help = format!(
                    "op '{}' of graph '{}' reads it",
                    op.name.value, graph.name.value
                );
                checker.report(finding.help(help));
            }
        }
    }
}

/// Whether a setting is for `queue` or for its replica on one device.
fn is_setting_of(setting: &QueueSetting, queue: &Queue) -> bool {
    let name = setting.queue.value.as_str();
    let rest = name.strip_prefix(queue.name.value.as_str());
    rest.is_some_and(|rest| {
        rest.is_empty()
            || rest
                .strip_prefix('.')
                .is_some_and(|device| device.parse::<u32>().is_ok())
    })
}

fn check_setting(checker: &mut Checker<'_>, graph: &Graph, queue: &Queue, setting: &QueueSetting) {
    let name = &setting.queue;
    let reads = checker
        .links
        .readers(&queue.name.value)
        .iter()
        .any(|(g, ..)| g.name == graph.name);
    let writes = graph
        .ops
        .iter()
        .any(|op| op.name.value == queue.input.value);
    if !reads && !writes {
        let message = format!("graph '{}' does not use '{}'", graph.name.value, name.value);
        checker.report(Finding::new(Rule::SettingUnused, name.span, message));
    }
    let (required, forbidden) = match queue.kind.value {
        QueueKind::Queue => (
            [SettingKey::RdPtrLocal, SettingKey::RdPtrGlobal],
            SettingKey::WrPtrGlobal,
        ),
        QueueKind::Ram => (
            [SettingKey::RdPtrGlobal, SettingKey::WrPtrGlobal],
            SettingKey::RdPtrLocal,
        ),
    };
    for key in required {
        if setting.find(key).is_none() {
            let message = format!(
                "the settings of {} '{}' require {key}",
                queue.kind.value, name.value
            );
            checker.report(Finding::new(Rule::SettingMissing, name.span, message));
        }
    }
    if let Some(value) = setting.find(forbidden) {
        let message = format!("a {} does not support {forbidden}", queue.kind.value);
        checker.report(Finding::new(Rule::SettingForbidden, value.span, message));
    }
    let step = |key| {
        setting
            .find(key)
            .filter(|value| value.value != Operand::Immediate(0))
    };
    let steps = step(SettingKey::GlobalRdptrAutoinc).zip(step(SettingKey::RdPtrAutoinc));
    if let Some((global, local)) = steps
        && global.value != local.value
    {
        let message = "rd_ptr_autoinc and global_rdptr_autoinc differ";
        let finding = Finding::new(Rule::SettingForbidden, global.span, message);
        checker.report(finding.expected("the same step, or one of them 0"));
    }
    let is_true = |key| {
        setting
            .find(key)
            .is_some_and(|value| matches!(value.value, Operand::Immediate(1)))
    };
    if queue.kind.value == QueueKind::Queue
        && !queue.is_host_fed()
        && is_true(SettingKey::Epilogue)
        && writes
    {
        let name = &name.value;
        let message = format!("queue '{name}', which an op writes, does not support epilogue");
        checker.report(Finding::new(
            Rule::QueueEpilogue,
            setting.queue.span,
            message,
        ));
    }
}
