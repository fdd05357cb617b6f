//! Printing of operations of any dialect, the inverse of `foreign`.

use super::foreign::{Block, Entry, Operation};
use super::print_attributes::{print_symbol_name, separate};
use crate::syntax::Cursor;

/// Appends `operation`, in the custom form if it has one and in the generic form otherwise.
pub(super) fn print_operation(
    out: &mut String,
    operation: &Operation<'_>,
    is_generic: bool,
    depth: usize,
) {
    if !operation.results.is_empty() {
        out.push_str(operation.results);
        out.push_str(" = ");
    }
    let custom = !is_generic && custom(out, operation, depth);
    if !custom {
        generic(out, operation, is_generic, depth);
    }
    if !operation.location.is_empty() {
        out.push(' ');
        out.push_str(operation.location);
    }
}

/// Inherent attributes, as opposed to discardable ones.
fn inherent(name: &str) -> &'static [&'static str] {
    match name {
        "func.func" => &["function_type", "sym_name", "sym_visibility"],
        "func.call" => &["callee"],
        "builtin.module" => &["sym_name", "sym_visibility"],
        _ => &[],
    }
}

fn generic(out: &mut String, operation: &Operation<'_>, is_generic: bool, depth: usize) {
    super::print_attributes::print_string(out, &operation.name);
    uses(out, &operation.operands);
    out.push_str(operation.successors);
    let known = inherent(&operation.name);
    let (own, attached): (Vec<&Entry<'_>>, Vec<_>) = operation
        .entries
        .iter()
        .partition(|(name, _)| known.contains(name));
    if !own.is_empty() {
        out.push_str(" <");
        dictionary(out, own);
        out.push('>');
    }
    if !operation.regions.is_empty() {
        out.push_str(" (");
        for (index, blocks) in operation.regions.iter().enumerate() {
            separate(out, index);
            region(out, blocks, is_generic, depth);
        }
        out.push(')');
    }
    if !attached.is_empty() {
        out.push(' ');
        dictionary(out, attached);
    }
    out.push_str(" : ");
    let r#type =
        crate::syntax::print_function_type(&operation.operand_types, &operation.result_types);
    out.push_str(&r#type);
}

/// Prints the custom form, if the operation has one that represents it completely.
fn custom(out: &mut String, operation: &Operation<'_>, depth: usize) -> bool {
    let plain = operation.successors.is_empty() && operation.results.is_empty();
    match (operation.name.as_str(), &operation.regions[..]) {
        ("builtin.module", [blocks]) if plain && is_unlabelled(blocks) => {
            out.push_str("module ");
            if let Some(name) = operation.string("sym_name") {
                print_symbol_name(out, &name);
                out.push(' ');
            }
            attributes(out, operation, &["sym_name"], " ");
            region(out, blocks, false, depth);
            true
        }
        ("func.func", [blocks]) if plain => function(out, operation, blocks, depth),
        ("func.return", []) if plain && operation.entries.is_empty() => {
            out.push_str("func.return");
            if !operation.operands.is_empty() {
                out.push_str(" %");
                out.push_str(&operation.operands.join(", %"));
                out.push_str(" : ");
                out.push_str(&operation.operand_types.join(", "));
            }
            true
        }
        _ => false,
    }
}

fn function(
    out: &mut String,
    operation: &Operation<'_>,
    blocks: &[Block<'_>],
    depth: usize,
) -> bool {
    let r#type = operation.text("function_type").unwrap_or_default();
    let mut cursor = Cursor::of(r#type);
    let (Some(name), Ok((arguments, results))) =
        (operation.string("sym_name"), cursor.function_type())
    else {
        return false;
    };
    let named = blocks
        .first()
        .map(|block| &block.arguments[..])
        .unwrap_or_default();
    let same = named.iter().map(|(_, r#type)| r#type).eq(&arguments);
    let visibility = operation.string("sym_visibility");
    let known = visibility
        .as_deref()
        .is_none_or(|word| ["private", "nested", "public"].contains(&word));
    if !known || !(same || blocks.is_empty()) {
        return false;
    }
    out.push_str("func.func ");
    if let Some(word) = &visibility {
        out.push_str(word);
        out.push(' ');
    }
    print_symbol_name(out, &name);
    out.push('(');
    for (index, r#type) in arguments.iter().enumerate() {
        separate(out, index);
        if let Some((name, _)) = named.get(index) {
            out.push('%');
            out.push_str(name);
            out.push_str(": ");
        }
        out.push_str(r#type);
    }
    out.push(')');
    if !results.is_empty() {
        let printed = crate::syntax::print_function_type(&[], &results);
        out.push_str(printed.trim_start_matches("()"));
    }
    attributes(out, operation, inherent("func.func"), "");
    if !blocks.is_empty() {
        out.push_str(" {\n");
        for (index, inside) in blocks.iter().enumerate() {
            block(out, inside, index > 0, false, depth);
        }
        indent(out, depth);
        out.push('}');
    }
    true
}

/// `attributes {..}` without the `known` ones, followed by `after`. A space precedes it unless
/// there is one.
fn attributes(out: &mut String, operation: &Operation<'_>, known: &[&str], after: &str) {
    let rest = operation
        .entries
        .iter()
        .filter(|(name, _)| !known.contains(name));
    let rest: Vec<&Entry<'_>> = rest.collect();
    if rest.is_empty() {
        return;
    }
    if !out.ends_with(' ') {
        out.push(' ');
    }
    out.push_str("attributes ");
    dictionary(out, rest);
    out.push_str(after);
}

fn is_unlabelled(blocks: &[Block<'_>]) -> bool {
    matches!(blocks, [] | [Block { label: "", .. }])
}

fn region(out: &mut String, blocks: &[Block<'_>], is_generic: bool, depth: usize) {
    out.push_str("{\n");
    for inside in blocks {
        block(out, inside, true, is_generic, depth);
    }
    indent(out, depth);
    out.push('}');
}

fn block(out: &mut String, block: &Block<'_>, labelled: bool, is_generic: bool, depth: usize) {
    if labelled && !block.label.is_empty() {
        indent(out, depth);
        out.push_str(block.label);
        if !block.arguments.is_empty() {
            let argument = |(name, r#type): &(&str, _)| format!("%{name}: {type}");
            let arguments: Vec<String> = block.arguments.iter().map(argument).collect();
            out.push_str(&format!("({})", arguments.join(", ")));
        }
        out.push_str(":\n");
    }
    for inside in &block.operations {
        indent(out, depth + 1);
        print_operation(out, inside, is_generic, depth + 1);
        out.push('\n');
    }
}

fn uses(out: &mut String, names: &[&str]) {
    out.push('(');
    for (index, name) in names.iter().enumerate() {
        separate(out, index);
        out.push('%');
        out.push_str(name);
    }
    out.push(')');
}

fn dictionary(out: &mut String, entries: Vec<&Entry<'_>>) {
    out.push('{');
    for (index, (name, value)) in entries.into_iter().enumerate() {
        separate(out, index);
        out.push_str(name);
        if let Some(value) = value {
            out.push_str(" = ");
            out.push_str(value);
        }
    }
    out.push('}');
}

fn indent(out: &mut String, depth: usize) {
    (0..depth).for_each(|_| out.push_str("  "));
}
