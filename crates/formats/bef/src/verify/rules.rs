//! Rules for parts of functions, shared by the verifier of Modules and the decoder of bytes.

use crate::streams::COST_ATTRIBUTE;
use crate::{
    Dictionary, Function, FunctionId, FunctionKind, KernelLocation, MAX_LOCATION_NESTING, Name,
};
use std::collections::HashSet;

/// Attributes must be sorted by name, unique and valid.
pub(crate) fn dictionary_problems(attributes: &Dictionary) -> Vec<String> {
    let mut problems = Vec::new();
    let mut last = None;
    for (name, attribute) in attributes {
        problems.extend(attribute_name_problem(last, name));
        if let Some(problem) = attribute.problem() {
            problems.push(format!("attribute '{name}': {problem}"));
        }
        last = Some(name);
    }
    problems
}

/// The reason why `name` is invalid as the name of an attribute that follows `last`, if it is.
pub(crate) fn attribute_name_problem(last: Option<&Name>, name: &str) -> Option<String> {
    if let Some(problem) = name_problem(name) {
        return Some(format!("an attribute name {problem}"));
    }
    let last = last?.as_str();
    if last == name {
        Some(format!("attribute '{name}' occurs twice"))
    } else if last > name {
        Some(format!("attribute '{name}' is not in order of names"))
    } else {
        None
    }
}

/// The reason why the cost attribute is invalid, if it is.
pub(crate) fn cost_problem(attributes: &Dictionary) -> Option<&'static str> {
    let (_, cost) = attributes
        .iter()
        .find(|(name, _)| *name == COST_ATTRIBUTE)?;
    let positive = cost.as_i64().is_some_and(|cost| cost > 0);
    (!positive).then_some("op cost value must be larger than 0")
}

/// The reason why a reference (to a region or not) called `name` is invalid after those `before`,
/// if it is: references are sorted by name, elements of a list adjacent, regions last.
pub(crate) fn reference_problem(
    before: &[(Name, FunctionId)],
    name: &str,
    region: bool,
    attributes: &Dictionary,
) -> Option<String> {
    if region != name.is_empty() {
        return Some("a region has no name, and a function reference has one".into());
    }
    if region {
        return None;
    }
    let base = name.strip_suffix("[]");
    if let Some(problem) = name_problem(base.unwrap_or(name)) {
        return Some(format!("a reference name {problem}"));
    }
    let key = |name: &'_ str| -> String { name.trim_end_matches("[]").to_owned() };
    let ordered = before.last().is_none_or(|(last, _)| {
        !last.is_empty() && (key(last) < key(name) || (*last == *name && base.is_some()))
    });
    if !ordered {
        return Some(format!("reference '{name}' is not in order of names"));
    }
    let twin = attributes.iter().any(|(other, _)| *other == *key(name));
    twin.then(|| format!("attribute '{name}' occurs twice"))
}

/// Problems of the results of a function.
pub(crate) fn result_problems(function: &Function) -> Vec<String> {
    let mut problems = Vec::new();
    let (found, expected) = (function.results.len(), function.result_types.len());
    if found != expected {
        problems.push(format!(
            "'tfrt.return' op has {found} operands, but enclosing function returns {expected}"
        ));
    }
    for (index, register) in function.results.iter().enumerate() {
        let Some(r#type) = function.registers.get(register.0 as usize) else {
            let registers = function.registers.len();
            problems.push(format!(
                "returned {register} is not one of the {registers} registers"
            ));
            continue;
        };
        if let Some(expected) = function.result_types.get(index)
            && r#type != expected
        {
            problems.push(format!(
                "type of return operand {index} ('{type}') doesn't match function result type \
                 ('{expected}')"
            ));
        }
    }
    if function.kind == FunctionKind::Sync {
        sync_results(function, &mut problems);
    }
    problems
}

/// A sync function moves its results out, so each result must be a distinct register (bef 2.7).
fn sync_results(function: &Function, problems: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for (index, register) in function.results.iter().enumerate() {
        if register.0 < function.arguments {
            problems.push(format!(
                "return value {index} is an argument in a sync function"
            ));
        } else if !seen.insert(register) {
            problems.push(format!(
                "return value {index} is duplicated in a sync function"
            ));
        }
    }
}

/// The reason why a location is invalid, if it is.
pub(crate) fn location_problem(location: &KernelLocation) -> Option<String> {
    if location.depth() > MAX_LOCATION_NESTING {
        return Some(format!(
            "a location is nested deeper than {MAX_LOCATION_NESTING}"
        ));
    }
    location_text_problem(location).map(|problem| format!("a location {problem}"))
}

fn location_text_problem(location: &KernelLocation) -> Option<&'static str> {
    match location {
        KernelLocation::Unknown => None,
        KernelLocation::FileLineCol { file, .. } => text_problem(file),
        KernelLocation::Name { name, child } => {
            text_problem(name).or_else(|| location_text_problem(child))
        }
        KernelLocation::CallSite { callee, caller } => {
            location_text_problem(callee).or_else(|| location_text_problem(caller))
        }
        KernelLocation::Fused(parts) => parts.iter().find_map(location_text_problem),
    }
}

/// The reason why a text cannot be stored in the Strings section, if it cannot.
pub(crate) fn text_problem(text: &str) -> Option<&'static str> {
    text.contains('\0').then_some("with a NUL character")
}

/// The reason why a text is invalid as the name of an attribute, if it is.
fn name_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("that is empty");
    }
    if name.ends_with("[]") {
        return Some("that ends in [], which marks lists of functions");
    }
    text_problem(name)
}
