//! The writer of the text form.

use super::elements::{ElementsText, elements, hash};
use crate::{Attribute, Attributes, Graph, Node, ValueId};
use std::fmt::{self, Display, Formatter};
use tenon_tensor::Tensor;

/// `Display` writes a hash for constants with more elements.
const SHOWN_ELEMENTS: usize = 32;

impl Graph {
    /// The text form with all elements of all constants; parsing it gives an equal graph.
    pub fn full_text(&self) -> String {
        Text {
            graph: self,
            full: true,
        }
        .to_string()
    }
}

impl Display for Graph {
    /// The text form, with hashes of large constants.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Text {
            graph: self,
            full: false,
        }
        .fmt(f)
    }
}

/// The statement of a node of `graph`.
pub(crate) fn node_text(graph: &Graph, node: &Node) -> String {
    struct Statement<'a>(Text<'a>, &'a Node);
    impl Display for Statement<'_> {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            self.0.node(f, self.1)
        }
    }
    Statement(Text { graph, full: true }, node).to_string()
}

struct Text<'a> {
    graph: &'a Graph,
    full: bool,
}

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let graph = self.graph;
        write!(f, "graph {:?} (", graph.name)?;
        list(f, &graph.inputs, |f, &id| self.typed(f, id))?;
        f.write_str(") -> (")?;
        list(f, &graph.outputs, |f, &id| self.typed(f, id))?;
        f.write_str(") {\n")?;
        for (key, value) in &graph.metadata {
            writeln!(f, "  metadata {key:?} = {value:?}")?;
        }
        self.values(f)?;
        for node in &graph.nodes {
            f.write_str("  ")?;
            self.node(f, node)?;
            f.write_str("\n")?;
        }
        f.write_str("}\n")
    }
}

impl Text<'_> {
    /// Constants, and values without a producer.
    fn values(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let graph = self.graph;
        let producers = graph.producers();
        for (index, value) in graph.values.iter().enumerate() {
            let id = ValueId(index as u32);
            if let Some(tensor) = &value.constant {
                f.write_str("  const ")?;
                self.typed(f, id)?;
                f.write_str(" = ")?;
                self.tensor(f, tensor)?;
                f.write_str("\n")?;
            } else if producers[index].is_none() && !graph.inputs.contains(&id) {
                f.write_str("  value ")?;
                self.typed(f, id)?;
                f.write_str("\n")?;
            }
        }
        Ok(())
    }

    fn node(&self, f: &mut Formatter<'_>, node: &Node) -> fmt::Result {
        if !node.outputs.is_empty() {
            list(f, &node.outputs, |f, output| match output {
                Some(id) => self.typed(f, *id),
                None => f.write_str("_"),
            })?;
            f.write_str(" = ")?;
        }
        write!(f, "{}(", node.op.name)?;
        list(f, &node.inputs, |f, input| match input {
            Some(id) => self.value(f, *id),
            None => f.write_str("_"),
        })?;
        f.write_str(")")?;
        self.attributes(f, &node.attributes)?;
        if !node.name.is_empty() {
            write!(f, " @{}", Name(&node.name))?;
        }
        Ok(())
    }

    fn attributes(&self, f: &mut Formatter<'_>, attributes: &Attributes) -> fmt::Result {
        if attributes.is_empty() {
            return Ok(());
        }
        f.write_str(" {")?;
        let all: Vec<_> = attributes.iter().collect();
        list(f, &all, |f, (name, value)| {
            let plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if plain {
                write!(f, "{name} = ")?;
            } else {
                write!(f, "{name:?} = ")?;
            }
            self.attribute(f, value)
        })?;
        f.write_str("}")
    }

    fn attribute(&self, f: &mut Formatter<'_>, value: &Attribute) -> fmt::Result {
        match value {
            Attribute::Int(value) => write!(f, "{value}"),
            Attribute::Float(value) => number(f, *value),
            Attribute::String(value) => write!(f, "{value:?}"),
            Attribute::Floats(values) if values.is_empty() => f.write_str("floats[]"),
            Attribute::Strings(values) if values.is_empty() => f.write_str("strings[]"),
            Attribute::Ints(values) => write!(f, "{values:?}"),
            Attribute::Strings(values) => write!(f, "{values:?}"),
            Attribute::Floats(values) => {
                f.write_str("[")?;
                list(f, values, |f, value| number(f, *value))?;
                f.write_str("]")
            }
            Attribute::Tensor(tensor) => {
                write!(f, "{} ", tensor.ty())?;
                self.tensor(f, tensor)
            }
        }
    }

    fn tensor(&self, f: &mut Formatter<'_>, tensor: &Tensor) -> fmt::Result {
        match elements(tensor) {
            ElementsText::Fill(text) => write!(f, "fill {text}"),
            _ if !self.full && tensor.ty().elements() > SHOWN_ELEMENTS => {
                write!(f, "hash \"{:016x}\"", hash(tensor.bytes()))
            }
            ElementsText::List(texts) => {
                f.write_str("[")?;
                list(f, &texts, |f, text| f.write_str(text))?;
                f.write_str("]")
            }
            ElementsText::Hex(text) => write!(f, "hex \"{text}\""),
        }
    }

    fn typed(&self, f: &mut Formatter<'_>, id: ValueId) -> fmt::Result {
        self.value(f, id)?;
        match self
            .graph
            .values
            .get(id.index())
            .and_then(|value| value.ty.as_ref())
        {
            Some(ty) => write!(f, ": {ty}"),
            None => Ok(()),
        }
    }

    fn value(&self, f: &mut Formatter<'_>, id: ValueId) -> fmt::Result {
        match self.graph.values.get(id.index()) {
            Some(value) => write!(f, "%{}", Name(&value.name)),
            // A dangling id, which the verifier reports.
            None => write!(f, "%\"no value {}\"", id.0),
        }
    }
}

/// A name, quoted where it must be.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plain = !self.0.is_empty() && self.0.bytes().all(super::lex::is_plain);
        if plain {
            f.write_str(self.0)
        } else {
            write!(f, "{:?}", self.0)
        }
    }
}

fn number(f: &mut Formatter<'_>, value: f32) -> fmt::Result {
    if value.is_nan() {
        f.write_str("nan")
    } else {
        write!(f, "{value:?}")
    }
}

fn list<T>(
    f: &mut Formatter<'_>,
    items: &[T],
    each: impl Fn(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        each(f, item)?;
    }
    Ok(())
}
