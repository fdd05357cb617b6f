//! The attributes of an op.

use super::fields::Fields;
use super::reader::Reader;
use crate::attributes::{AttributeKey, AttributeType, AttributeValue, Attributes};
use crate::source::Spanned;
use crate::yaml::Node;
use crate::{Finding, Rule};

/// Reads a map of attributes; the key determines the type of the value.
pub(super) fn read_attributes(
    reader: &mut Reader,
    node: &Node,
    owner: &Spanned<String>,
) -> Attributes {
    let known: Vec<&str> = AttributeKey::ALL.iter().map(|key| key.name()).collect();
    let mut attributes = Attributes::default();
    for (name, value) in reader.map(node, "attributes") {
        let key = AttributeKey::ALL
            .iter()
            .find(|key| Some(key.name()) == name.text());
        let Some(&key) = key else {
            reader.unknown(
                name,
                &format!("the attributes of '{}'", owner.value),
                &known,
            );
            continue;
        };
        if attributes.find(key).is_some() {
            reader.duplicate(name);
        }
        if let Some(value) = read_value(reader, key, value) {
            attributes.0.push((key, value));
        }
    }
    attributes
}

fn read_value(
    reader: &mut Reader,
    key: AttributeKey,
    node: &Node,
) -> Option<Spanned<AttributeValue>> {
    let value = match key.value_type() {
        AttributeType::Count => {
            let count = reader.count(node, 0)?;
            AttributeValue::Integer(i64::from(count.value))
        }
        AttributeType::Integer => AttributeValue::Integer(reader.integer(node)?.value),
        AttributeType::Bool => AttributeValue::Bool(reader.boolean(node)?.value),
        AttributeType::Number => AttributeValue::Number(reader.number(node)?.value),
        AttributeType::Word(choices) => AttributeValue::Word(read_word(reader, node, choices)?),
        AttributeType::List => {
            let nodes = reader.one_or_list(node, "integers");
            let values = nodes
                .iter()
                .map(|node| reader.integer(node).map(|value| value.value));
            AttributeValue::List(values.collect::<Option<_>>()?)
        }
        AttributeType::PerInput => AttributeValue::PerInput(read_per_input(reader, node)?),
    };
    Some(Spanned::new(value, node.span))
}

/// Reads a word. The choices list the spellings that the original accepts.
fn read_word(reader: &mut Reader, node: &Node, choices: &[&str]) -> Option<String> {
    let text = reader.text(node)?.value;
    if choices.is_empty() || choices.contains(&text.as_str()) {
        return Some(text);
    }
    let finding = Finding::new(Rule::ValueWord, node.span, "unknown value");
    let expected = format!("one of {}", choices.join(", "));
    reader.report(finding.expected(expected).found(format!("'{text}'")));
    None
}

fn read_per_input(reader: &mut Reader, node: &Node) -> Option<Vec<(u32, i64)>> {
    let mut values = Vec::new();
    for (key, value) in reader.map(node, "inputs") {
        let number = key
            .text()
            .and_then(|text| text.strip_prefix("input_")?.parse().ok());
        let Some(number) = number else {
            let finding = Finding::new(Rule::UnknownField, key.span, "unknown input");
            let found = key.text().unwrap_or(key.kind_name());
            reader.report(finding.expected("input_0, input_1, …").found(found));
            return None;
        };
        values.push((number, reader.integer(value)?.value));
    }
    Some(values)
}

/// Reads an attribute of a scheduled op that is a field of the op instead of an entry of `attributes`.
pub(super) fn take_attribute(
    reader: &mut Reader,
    fields: &mut Fields<'_>,
    key: AttributeKey,
    attributes: &mut Attributes,
) {
    let value = fields.optional(reader, key.name(), |reader, node| {
        read_value(reader, key, node)
    });
    attributes.0.extend(value.map(|value| (key, value)));
}
