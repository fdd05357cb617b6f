//! Operators on sequences, optional values and strings. The host program computes them and no backend does, so that
//! they are not in the operator table.

use crate::operator::{Arity, AttributeDef, Inference, OperandDef, OperatorClass, Types};
use crate::{AttributeKind, Graph, Node, OperatorDef, ValueId};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{DataType, TensorType};

/// Operators on sequences and optional values.
static LISTS: [OperatorDef; 12] = [
    list(
        "SequenceEmpty",
        "An empty sequence.",
        &[],
        &[attribute("dtype", AttributeKind::String)],
    ),
    list(
        "SequenceConstruct",
        "A sequence of the inputs.",
        &[operand("inputs", Arity::Variadic)],
        &[],
    ),
    list(
        "SequenceInsert",
        "The sequence with one more tensor before `position`, by default at its end.",
        &[
            operand("sequence", Arity::Required),
            operand("tensor", Arity::Required),
            operand("position", Arity::Optional),
        ],
        &[],
    ),
    list(
        "SequenceErase",
        "The sequence without the tensor at `position`, by default the last.",
        &[
            operand("sequence", Arity::Required),
            operand("position", Arity::Optional),
        ],
        &[],
    ),
    list(
        "SequenceAt",
        "The tensor at `position`.",
        &[
            operand("sequence", Arity::Required),
            operand("position", Arity::Required),
        ],
        &[],
    ),
    list(
        "tenon.MapOperand",
        "The tensor at `position` of a sequence, or the tensor that it is: an input of the body of SequenceMap.",
        &[
            operand("value", Arity::Required),
            operand("position", Arity::Required),
        ],
        &[],
    ),
    list(
        "SequenceLength",
        "The number of tensors.",
        &[operand("sequence", Arity::Required)],
        &[],
    ),
    list(
        "SplitToSequence",
        "The parts of a tensor along `axis`: of these sizes, of one size, or single.",
        &[
            operand("input", Arity::Required),
            operand("split", Arity::Optional),
        ],
        &[
            attribute("axis", AttributeKind::Int),
            attribute("keepdims", AttributeKind::Int),
        ],
    ),
    list(
        "ConcatFromSequence",
        "The tensors along `axis`, which is new if `new_axis` is 1.",
        &[operand("sequence", Arity::Required)],
        &[
            attribute("axis", AttributeKind::Int),
            attribute("new_axis", AttributeKind::Int),
        ],
    ),
    list(
        "Optional",
        "An optional value: the input, or an absent value of the kind and data type of the attributes.",
        &[operand("input", Arity::Optional)],
        &[
            attribute("kind", AttributeKind::String),
            attribute("dtype", AttributeKind::String),
        ],
    ),
    list(
        "OptionalHasElement",
        "Whether a value is present.",
        &[operand("input", Arity::Optional)],
        &[],
    ),
    list(
        "OptionalGetElement",
        "The value that is present: a tensor if that is its `kind`.",
        &[operand("input", Arity::Required)],
        &[attribute("kind", AttributeKind::String)],
    ),
];

/// Operators on strings.
static STRINGS: [OperatorDef; 5] = [
    strings(
        "StringConcat",
        "The strings of the first input, each followed by that of the second.",
        &[text("X"), text("Y")],
        &[operand("Z", Arity::Required)],
        &[],
    ),
    strings(
        "StringSplit",
        "The parts of each string in a new last dimension, filled up with empty strings, and the count of parts of each string.",
        &[text("X")],
        &[operand("Y", Arity::Required), operand("Z", Arity::Required)],
        &[
            attribute("delimiter", AttributeKind::String),
            attribute("maxsplit", AttributeKind::Int),
        ],
    ),
    strings(
        "RegexFullMatch",
        "Whether a regular expression matches each whole string.",
        &[text("X")],
        &[operand("Y", Arity::Required)],
        &[attribute("pattern", AttributeKind::String)],
    ),
    strings(
        "StringNormalizer",
        "The strings without stop words, in lower or upper case.",
        &[text("X")],
        &[operand("Y", Arity::Required)],
        &[
            attribute("case_change_action", AttributeKind::String),
            attribute("is_case_sensitive", AttributeKind::Int),
            attribute("locale", AttributeKind::String),
            attribute("stopwords", AttributeKind::Strings),
        ],
    ),
    strings(
        "tenon.Tokenizer",
        "The tokens of each string in a new last dimension, filled up with `pad_value`: the matches of `tokenexp`, the text between the matches of `separators`, or characters.",
        &[text("X")],
        &[operand("Y", Arity::Required)],
        &[
            attribute("mark", AttributeKind::Int),
            attribute("mincharnum", AttributeKind::Int),
            attribute("pad_value", AttributeKind::String),
            attribute("separators", AttributeKind::Strings),
            attribute("tokenexp", AttributeKind::String),
        ],
    ),
];

/// Operators of the table that take strings: they move, compare or count elements.
const TAKE_STRINGS: &[&str] = &[
    "Cast",
    "Compress",
    "Concat",
    "Equal",
    "Expand",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Identity",
    "Reshape",
    "Shape",
    "Size",
    "Slice",
    "Split",
    "Squeeze",
    "TfIdfVectorizer",
    "Tile",
    "Transpose",
    "Unique",
    "Unsqueeze",
    "Where",
    "tenon.LookUp",
];

const OUTPUT: &[OperandDef] = &[operand("output", Arity::Required)];

const fn list(
    name: &'static str,
    doc: &'static str,
    inputs: &'static [OperandDef],
    attributes: &'static [AttributeDef],
) -> OperatorDef {
    OperatorDef {
        name,
        family: "sequences",
        doc,
        class: OperatorClass::Compute,
        inputs,
        outputs: OUTPUT,
        attributes,
        infer,
    }
}

const fn strings(
    name: &'static str,
    doc: &'static str,
    inputs: &'static [OperandDef],
    outputs: &'static [OperandDef],
    attributes: &'static [AttributeDef],
) -> OperatorDef {
    OperatorDef {
        name,
        family: "strings",
        doc,
        class: OperatorClass::Compute,
        inputs,
        outputs,
        attributes,
        infer,
    }
}

const fn operand(name: &'static str, arity: Arity) -> OperandDef {
    OperandDef {
        name,
        arity,
        types: Types::Any,
        compile_time: false,
    }
}

const fn text(name: &'static str) -> OperandDef {
    OperandDef {
        types: Types::Only(&[DataType::String]),
        ..operand(name, Arity::Required)
    }
}

const fn attribute(name: &'static str, kind: AttributeKind) -> AttributeDef {
    AttributeDef {
        name,
        kind,
        required: false,
        doc: "as in ONNX",
    }
}

fn infer(_: &Inference<'_>) -> Result<Vec<TensorType>> {
    let text = "the types of sequences and strings are not inferred by the operator table";
    Err(Error::new(ErrorKind::Unsupported, text))
}

/// The operators that are not in the operator table.
pub fn host_operators() -> impl Iterator<Item = &'static OperatorDef> {
    LISTS.iter().chain(&STRINGS)
}

/// The definition of an operator that is not in the operator table.
pub fn host_operator(name: &str) -> Option<&'static OperatorDef> {
    host_operators().find(|op| op.name == name)
}

impl OperatorDef {
    /// Whether it takes or makes sequences or optional values.
    pub fn is_list_operator(&self) -> bool {
        LISTS.contains(self)
    }

    /// Whether it takes strings.
    pub fn takes_strings(&self) -> bool {
        STRINGS.contains(self) || TAKE_STRINGS.contains(&self.name)
    }
}

impl Graph {
    /// Whether the host program must compute a node: one on sequences, optional values or strings.
    pub fn is_on_host(&self, node: &Node) -> bool {
        let mut values = node.inputs.iter().chain(&node.outputs).flatten();
        host_operator(node.op.name).is_some() || values.any(|&id| self.is_host_value(id))
    }

    /// Whether a value exists in the host program only: a sequence, an optional value or strings.
    pub fn is_host_value(&self, id: ValueId) -> bool {
        let value = self.value(id);
        let dtype = value.ty.as_ref().map(TensorType::dtype);
        value.list.is_some() || dtype == Some(DataType::String)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::operator;

    #[test]
    fn operators_are_defined_once() {
        for op in host_operators() {
            assert!(operator(op.name).is_none(), "{}", op.name);
            assert_eq!(host_operator(op.name), Some(op));
        }
        for name in TAKE_STRINGS {
            assert!(operator(name).is_some(), "{name}");
        }
    }
}
