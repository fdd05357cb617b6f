//! The section of programs (netlist 6.3, 6.4).

use super::fields::Fields;
use super::reader::Reader;
use crate::netlist::{Instruction, Operand, Program, QueueSetting};
use crate::source::{Span, Spanned};
use crate::yaml::{Node, NodeKind};
use crate::yaml_scalar::{parse_bool, parse_integer};
use crate::{Finding, Rule};
use tenon_tile::{Operation, SettingKey, Word};

/// The names of instructions, for messages.
const NAMES: &[&str] = &[
    "var",
    "staticvar",
    "param",
    "varinst",
    "loop",
    "endloop",
    "execute",
    "allocate_queue",
    "deallocate_queue",
    "endprogram",
];

/// Reads the section: a list of maps from the name of a program to its instructions.
pub(super) fn read_programs(reader: &mut Reader, node: &Node) -> Vec<Program> {
    let mut programs = Vec::new();
    for element in reader.list(node, "programs") {
        let Some((key, body)) = single(reader, element, "a program's name to its instructions")
        else {
            continue;
        };
        let Some(name) = reader.text(key) else {
            continue;
        };
        let instructions = reader.list(body, "instructions");
        let instructions = instructions
            .iter()
            .filter_map(|node| read_instruction(reader, node))
            .collect();
        programs.push(Program { name, instructions });
    }
    programs
}

/// The one entry of a map.
fn single<'n>(reader: &mut Reader, node: &'n Node, what: &str) -> Option<(&'n Node, &'n Node)> {
    match reader.map(node, what) {
        [(key, value)] => Some((key, value)),
        entries if matches!(node.kind, NodeKind::Map(_)) => {
            let finding = Finding::new(Rule::Structure, node.span, "wrong number of keys");
            let found = entries.len();
            reader.report(finding.expected(format!("one: {what}")).found(found));
            None
        }
        _ => None,
    }
}

fn read_instruction(reader: &mut Reader, node: &Node) -> Option<Spanned<Instruction>> {
    let spanned = |instruction| Some(Spanned::new(instruction, node.span));
    match node.text() {
        Some("endloop") => return spanned(Instruction::EndLoop),
        // In the specification, but rejected by the original (netlist 2.5). It has no effect.
        Some("endprogram") => return spanned(Instruction::EndProgram),
        Some(_) => {
            unknown(reader, node);
            return None;
        }
        None => {}
    }
    let (key, value) = single(reader, node, "an instruction to its arguments")?;
    let span = key.span.to(value.span);
    let instruction = match key.text().unwrap_or_default() {
        "var" => Instruction::Var(read_variables(reader, value)?),
        "staticvar" => Instruction::StaticVar(read_variables(reader, value)?),
        "param" => Instruction::Param(read_names(reader, value)?),
        "varinst" => read_varinst(reader, value, span)?,
        "loop" => Instruction::Loop(read_operand(reader, value)?),
        "endloop" => Instruction::EndLoop,
        "execute" => read_execute(reader, key, value)?,
        "allocate_queue" => Instruction::AllocateQueue(read_names(reader, value)?),
        "deallocate_queue" => Instruction::DeallocateQueue(read_names(reader, value)?),
        "endprogram" => Instruction::EndProgram,
        _ => {
            unknown(reader, key);
            return None;
        }
    };
    Some(Spanned::new(instruction, span))
}

fn unknown(reader: &mut Reader, node: &Node) {
    let finding = Finding::new(Rule::ValueWord, node.span, "unknown instruction");
    let found = node.text().unwrap_or(node.kind_name());
    let expected = format!("one of {}", NAMES.join(", "));
    reader.report(finding.expected(expected).found(found));
}

fn read_names(reader: &mut Reader, node: &Node) -> Option<Vec<Spanned<String>>> {
    let nodes = reader.one_or_list(node, "names");
    nodes.iter().map(|node| reader.text(node)).collect()
}

/// A list of names, with initial value 0, or a map of names to initial values.
#[allow(clippy::type_complexity, reason = "a pair list, used once")]
fn read_variables(
    reader: &mut Reader,
    node: &Node,
) -> Option<Vec<(Spanned<String>, Spanned<Operand>)>> {
    if let NodeKind::Map(entries) = &node.kind {
        let pair = |(key, value): &(Node, Node)| {
            let name = read_variable(reader, key);
            let value = read_operand(reader, value);
            Some((name?, value?))
        };
        return entries.iter().map(pair).collect();
    }
    let nodes = reader.one_or_list(node, "variables");
    let zero = |name: Spanned<String>| {
        let span = name.span;
        (name, Spanned::new(Operand::Immediate(0), span))
    };
    nodes
        .iter()
        .map(|node| read_variable(reader, node).map(zero))
        .collect()
}

/// A variable's name: it starts with `$`.
fn read_variable(reader: &mut Reader, node: &Node) -> Option<Spanned<String>> {
    let name = reader.text(node)?;
    if name.value.starts_with('$') {
        return Some(name);
    }
    let finding = Finding::new(Rule::ValueWord, node.span, "a variable starts with '$'");
    let help = format!("write ${}", name.value);
    reader.report(finding.found(format!("'{}'", name.value)).help(help));
    None
}

/// An integer, true or false, or a variable.
fn read_operand(reader: &mut Reader, node: &Node) -> Option<Spanned<Operand>> {
    let text = node.text().unwrap_or_default();
    if text.starts_with('$') {
        return Some(Spanned::new(Operand::Variable(text.to_owned()), node.span));
    }
    let Some(value) = parse_integer(text).or_else(|| parse_bool(text).map(i64::from)) else {
        return reader.wrong_type(node, "an integer, true, false or a $variable");
    };
    if i32::try_from(value).is_err() {
        // Operands are 32-bit integers (netlist 6.4).
        let finding = Finding::new(Rule::ValueRange, node.span, "number out of range");
        reader.report(finding.expected("a 32-bit integer").found(value));
        return None;
    }
    Some(Spanned::new(Operand::Immediate(value), node.span))
}

/// `[out, operation, operands…]`.
fn read_varinst(reader: &mut Reader, node: &Node, span: Span) -> Option<Instruction> {
    let nodes = reader.list(node, "an output, an operation and its operands");
    let [output, operation, operands @ ..] = nodes else {
        let finding = Finding::new(Rule::Structure, span, "too few arguments of varinst");
        let found = nodes.len();
        reader.report(finding.expected("[out, operation, operands]").found(found));
        return None;
    };
    let output = read_variable(reader, output);
    let operation: Option<Spanned<Operation>> = reader.word(operation);
    let operands: Option<Vec<_>> = operands
        .iter()
        .map(|node| read_operand(reader, node))
        .collect();
    let (output, operation, operands) = (output?, operation?, operands?);
    if operands.len() != operation.operands() {
        let message = format!("wrong number of operands of {}", operation.value);
        let finding = Finding::new(Rule::Structure, span, message);
        reader.report(finding.expected(operation.operands()).found(operands.len()));
        return None;
    }
    if let (Operation::IncWrap, [_, wrap]) = (operation.value, operands.as_slice())
        && let Operand::Immediate(at @ ..=0) = wrap.value
    {
        let message = "the modulus of incwrap must be positive";
        let finding = Finding::new(Rule::ValueRange, wrap.span, message);
        reader.report(finding.expected("at least 1").found(at));
        return None;
    }
    Some(Instruction::VarInst {
        output,
        operation,
        operands,
    })
}

/// `{graph_name, queue_settings}`.
fn read_execute(reader: &mut Reader, key: &Node, node: &Node) -> Option<Instruction> {
    let owner = Spanned::new("execute".to_owned(), key.span);
    let mut fields = Fields::new(reader, node, "execute");
    let graph = fields.require(reader, "graph_name", &owner, Reader::text);
    let settings = fields.optional(reader, "queue_settings", |reader, node| {
        let queues = reader.map(node, "queues to their settings");
        Some(
            queues
                .iter()
                .filter_map(|(key, node)| read_setting(reader, key, node))
                .collect(),
        )
    });
    fields.finish(reader);
    Some(Instruction::Execute {
        graph: graph?,
        settings: settings.unwrap_or_default(),
    })
}

fn read_setting(reader: &mut Reader, key: &Node, node: &Node) -> Option<QueueSetting> {
    let queue = reader.text(key)?;
    let known: Vec<&str> = SettingKey::ALL.iter().map(|key| key.name()).collect();
    let mut setting = QueueSetting {
        queue,
        fields: Vec::new(),
    };
    for (name, value) in reader.map(node, "settings") {
        let key = name.text().and_then(SettingKey::from_word);
        let Some(key) = key else {
            let owner = format!("the settings of '{}'", setting.queue.value);
            reader.unknown(name, &owner, &known);
            continue;
        };
        if setting.find(key).is_some() {
            reader.duplicate(name);
        }
        if let Some(value) = read_operand(reader, value) {
            setting.fields.push((Spanned::new(key, name.span), value));
        }
    }
    Some(setting)
}
