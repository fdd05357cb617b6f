//! Programs: variables, loops, and the settings of queues (facts 6.3 and 6.4).

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

/// Loops and ends, and where params stand.
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
                    let finding =
                        Finding::new(Rule::LoopCount, count.span, "wrong number of rounds");
                    checker.report(finding.expected("at least 1").found(count_value));
                }
            }
            Instruction::EndLoop if open.pop().is_none() => {
                checker.report(Finding::new(
                    Rule::LoopNesting,
                    span,
                    "no loop is open here",
                ));
            }
            Instruction::Param(_) if index > 0 => {
                let message = "params are not the first instruction";
                let help = "move it to the start, and list all params there";
                checker.report(Finding::new(Rule::ParamFirst, span, message).help(help));
            }
            Instruction::EndProgram => {
                let message = "endprogram does nothing, and the original refuses it";
                checker.report(Finding::new(Rule::EndProgram, span, message).help("leave it out"));
            }
            _ => {}
        }
    }
    for span in open {
        let finding = Finding::new(Rule::LoopNesting, span, "this loop does not end");
        checker.report(finding.help("add endloop after its body"));
    }
}

/// How a variable came to be.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Local,
    Static,
    Param,
}

fn variables(checker: &mut Checker<'_>, program: &Program) {
    let mut known: HashMap<&str, Kind> = HashMap::new();
    for instruction in &program.instructions {
        match &instruction.value {
            Instruction::Var(variables) => {
                for (name, value) in variables {
                    used(checker, &known, value);
                    declare(checker, &mut known, name, Kind::Local);
                }
            }
            Instruction::StaticVar(variables) => {
                for (name, value) in variables {
                    used(checker, &known, value);
                    declare(checker, &mut known, name, Kind::Static);
                }
            }
            Instruction::Param(names) => {
                names
                    .iter()
                    .for_each(|name| declare(checker, &mut known, name, Kind::Param));
            }
            Instruction::VarInst {
                output, operands, ..
            } => {
                operands
                    .iter()
                    .for_each(|value| used(checker, &known, value));
                if !known.contains_key(output.value.as_str()) {
                    let message = format!("'{}' is not declared; it becomes local", output.value);
                    checker.report(Finding::new(Rule::VariableImplicit, output.span, message));
                    known.insert(&output.value, Kind::Local);
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
    known: &mut HashMap<&'n str, Kind>,
    name: &'n Spanned<String>,
    kind: Kind,
) {
    let before = known.insert(&name.value, kind);
    // A static variable that is declared again keeps its value (facts 6.4).
    if before.is_some_and(|before| before != kind || kind != Kind::Static) {
        let message = format!("'{}' is declared already", name.value);
        checker.report(Finding::new(Rule::Variable, name.span, message));
    }
}

fn used(checker: &mut Checker<'_>, known: &HashMap<&str, Kind>, value: &Spanned<Operand>) {
    let Operand::Variable(name) = &value.value else {
        return;
    };
    if !known.contains_key(name.as_str()) {
        let message = format!("'{name}' is not declared");
        let finding = Finding::new(Rule::Variable, value.span, message);
        checker.report(finding.help("declare it with var, staticvar or param"));
    }
}

/// Prologue and epilogue are decided when compiling: no param (facts 6.3).
fn statics(checker: &mut Checker<'_>, known: &HashMap<&str, Kind>, setting: &QueueSetting) {
    for key in [SettingKey::Prologue, SettingKey::Epilogue] {
        let Some(value) = setting.find(key) else {
            continue;
        };
        if let Operand::Variable(name) = &value.value
            && known.get(name.as_str()) == Some(&Kind::Param)
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
        one(checker, graph, queue, setting);
    }
    let mut told = HashSet::new();
    for op in &graph.ops {
        for input in &op.inputs {
            let Some(Node::Queue(queue)) = checker.links.find(&input.name.value) else {
                continue;
            };
            let needs = queue.is_host_fed() && queue.kind.value == QueueKind::Queue;
            let has = settings.iter().any(|setting| names(setting, queue));
            if needs && !has && told.insert(&queue.name.value) {
                let message = format!(
                    "no settings for '{}', which the host fills",
                    queue.name.value
                );
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

/// Whether a setting is of `queue`, or of its replica on one device.
fn names(setting: &QueueSetting, queue: &Queue) -> bool {
    let name = setting.queue.value.as_str();
    let rest = name.strip_prefix(queue.name.value.as_str());
    rest.is_some_and(|rest| {
        rest.is_empty()
            || rest
                .strip_prefix('.')
                .is_some_and(|device| device.parse::<u32>().is_ok())
    })
}

fn one(checker: &mut Checker<'_>, graph: &Graph, queue: &Queue, setting: &QueueSetting) {
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
    let (needed, forbidden) = match queue.kind.value {
        QueueKind::Queue => (
            [SettingKey::RdPtrLocal, SettingKey::RdPtrGlobal],
            SettingKey::WrPtrGlobal,
        ),
        QueueKind::Ram => (
            [SettingKey::RdPtrGlobal, SettingKey::WrPtrGlobal],
            SettingKey::RdPtrLocal,
        ),
    };
    for key in needed {
        if setting.find(key).is_none() {
            let message = format!(
                "the settings of {} '{}' lack {key}",
                queue.kind.value, name.value
            );
            checker.report(Finding::new(Rule::SettingMissing, name.span, message));
        }
    }
    if let Some(value) = setting.find(forbidden) {
        let message = format!("a {} has no {forbidden}", queue.kind.value);
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
        let message = format!(
            "queue '{}' is filled by an op: it has no epilogue",
            name.value
        );
        checker.report(Finding::new(Rule::QueueEpilogue, name.span, message));
    }
}
