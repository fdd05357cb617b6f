//! The choices of a node.

use crate::shapes::Shapes;
use crate::values::{self, Values};
use crate::{Choices, Input, RandomNode, known_to_compiler, trees};
use tenon_graph::operator::{Arity, AttributeDef, Types};
use tenon_graph::{Attribute, AttributeKind, Attributes, OperatorDef, infer, operator};
use tenon_tensor::{DataType, TensorType};

/// Most elements of an input and of an output.
const ELEMENTS: usize = 1 << 14;

/// The types that are generated; f32 is the most frequent.
const TYPES: [DataType; 18] = {
    use DataType::*;
    [
        F32, F32, F32, F32, F32, F16, BF16, F64, I64, I32, I16, I8, U8, U16, U32, U64, Bool, F32,
    ]
};

pub(crate) fn node(
    choices: &mut Choices<'_>,
    op: Option<&'static OperatorDef>,
    preferred: Option<DataType>,
) -> Option<RandomNode> {
    let op = op.unwrap_or_else(|| {
        let all: Vec<_> = operator::all().collect();
        choices.pick(&all)
    });
    let count = input_count(op, choices);
    let shapes = Shapes::new(op.name, count, choices);
    let count = count.max(op.inputs.len().min(shapes.inputs.len()));
    // NaN or infinity times a weight that one backend rounds to zero, or omits, differs.
    let is_weighted = op.name.ends_with("Attention")
        || matches!(
            op.name,
            "DFT"
                | "STFT"
                | "RoiAlign"
                | "GridSample"
                | "Resize"
                | "SwiGLU"
                | "DeformConv"
                | "Det"
                | "tenon.Inverse"
        );
    let is_quantized =
        op.name.starts_with("tenon.Quantized") || op.name == "tenon.WeightOnlyMatMul";
    // Padding times an infinite weight is NaN or omitted; either is right.
    let has_weights = op.name.contains("Conv");
    let values = if choices.one_in(4) && !is_weighted {
        Values::Special
    } else {
        Values::Small
    };
    let mut attributes = attributes(op, &shapes, choices);
    let mut dtype = preferred.unwrap_or_else(|| choices.pick(&TYPES));
    if op.name == "tenon.Elementwise" {
        if preferred.is_none() {
            // Roundings to 16 bits between the operators are not defined.
            dtype = DataType::F32;
        }
        attributes.set("program", Attribute::Strings(program(count, choices)));
    }
    let mut inputs = Vec::new();
    for index in 0..count {
        let def = op.input(index)?;
        if def.arity == Arity::Optional && choices.one_in(4) {
            inputs.push(None);
            continue;
        }
        let shape = shapes.inputs.get(index)?;
        let dtype = type_of(def.types, dtype, choices)?;
        let ty = TensorType::new(dtype, &shape[..]).ok()?;
        if ty.elements() > ELEMENTS {
            return None;
        }
        let has_positions = dtype.is_integer() && index > 0;
        let is_recurrence = index == 2 && matches!(op.name, "RNN" | "GRU" | "LSTM");
        let values = if def.name.ends_with("_scale") {
            Values::Scales
        } else if is_recurrence {
            Values::Contracting
        } else if has_positions && !choices.one_in(16) {
            let first = shapes.inputs.first()?;
            let axis = choices.below(first.len().max(1));
            Values::Positions(first.get(axis).copied().unwrap_or(1))
        } else if index == 0 || (shapes.inputs.first() == Some(shape) && !has_weights) {
            values
        } else {
            Values::Small
        };
        inputs.push(Some(Input {
            tensor: values::tensor(&ty, values, choices)?.ok()?,
            // Quantization parameters are constants in most models.
            is_constant: def.compile_time
                || choices.one_in(3)
                || (is_quantized && index > 0 && !choices.one_in(4)),
        }));
    }
    while inputs.last().is_some_and(Option::is_none) {
        inputs.pop();
    }
    if op.name == "tenon.TreeEnsemble"
        && let Some(&[_, features]) = shapes.inputs.first().map(Vec::as_slice)
    {
        let targets = 1 + choices.below(4);
        attributes.set("targets", Attribute::Int(targets as i64));
        let dtype = inputs.first()?.as_ref()?.tensor.dtype();
        inputs.truncate(1);
        inputs.extend(trees::constants(features.max(1), targets, dtype, choices).ok()?);
    }
    let outputs = output_types(op, &attributes, &inputs, choices)?;
    Some(RandomNode {
        op,
        attributes,
        inputs,
        outputs,
    })
}

/// The number of inputs: all, or some of the optional ones; several of a variadic one.
fn input_count(op: &OperatorDef, choices: &mut Choices<'_>) -> usize {
    let required = op.inputs.iter().filter(|def| def.arity == Arity::Required);
    let required = required.count();
    let variadic = op.inputs.iter().any(|def| def.arity == Arity::Variadic);
    if variadic {
        return required + 1 + choices.below(3);
    }
    required + choices.below(op.inputs.len() - required + 1)
}

/// The type of an input: `preferred` where the operator takes it.
fn type_of(types: Types, preferred: DataType, choices: &mut Choices<'_>) -> Option<DataType> {
    if types.contains(preferred) {
        return Some(preferred);
    }
    let mut list: Vec<DataType> = TYPES
        .into_iter()
        .filter(|&dtype| types.contains(dtype))
        .collect();
    list.dedup();
    (!list.is_empty()).then(|| choices.pick(&list))
}

fn attributes(op: &OperatorDef, shapes: &Shapes, choices: &mut Choices<'_>) -> Attributes {
    let mut attributes = Attributes::new();
    let rank = shapes.inputs.first().map_or(0, Vec::len);
    for def in op.attributes {
        // Extents that the shapes determine.
        let known = match def.name {
            "group" | "num_groups" => shapes.extent('g'),
            "hidden_size" => shapes.extent('h'),
            "rotary_embedding_dim" => Some(0),
            _ => None,
        };
        if let Some(value) = known.filter(|_| !choices.one_in(32)) {
            attributes.set(def.name, Attribute::Int(value as i64));
            continue;
        }
        if def.name == "direction" {
            let names: &[&str] = match shapes.extent('d') {
                Some(2) => &["bidirectional"],
                Some(_) => &["forward", "reverse"],
                None => &["LEFT", "RIGHT"],
            };
            attributes.set(def.name, Attribute::String(choices.pick(names).into()));
            continue;
        }
        if (def.required || choices.one_in(3))
            && let Some(value) = value(def, rank, choices)
        {
            // LRN divides by a sum of squares and the bias, which without or with a negative one may be nearly zero.
            let may_divide_by_zero = op.name == "LRN"
                && def.name == "bias"
                && matches!(value, Attribute::Float(bias) if bias <= 0.0);
            if !may_divide_by_zero {
                attributes.set(def.name, value);
            }
        }
    }
    attributes
}

/// A program of elementwise operators that reads `inputs` inputs. Its results have the shape of the first
/// where the others broadcast to it. Functions with steps read inputs alone, which are exact.
fn program(inputs: usize, choices: &mut Choices<'_>) -> Vec<String> {
    let mut results = vec!["%0".to_owned()];
    let mut statements = Vec::new();
    for index in 0..1 + choices.below(8) {
        let x = results[choices.below(results.len())].clone();
        let y = match choices.below(2) {
            0 => results[choices.below(results.len())].clone(),
            _ => format!("%{}", choices.below(inputs)),
        };
        let text = match choices.below(3) {
            0 => {
                let op = choices.pick(&["Tanh", "Sigmoid", "Relu", "Abs", "Neg", "HardSwish"]);
                format!("{op}({x})")
            }
            1 => {
                let op = choices.pick(&["Add", "Sub", "Mul", "Min", "Max", "PRelu", "Mean"]);
                format!("{op}({x}, {y})")
            }
            _ => {
                let op = choices.pick(&["Greater", "LessOrEqual", "Equal"]);
                let input = choices.below(inputs);
                statements.push(format!("%c{index} = {op}(%0, %{input})"));
                format!("Where(%c{index}, {x}, {y})")
            }
        };
        results.push(format!("%t{index}"));
        statements.push(format!("%t{index} = {text}"));
    }
    statements
}

fn value(def: &AttributeDef, rank: usize, choices: &mut Choices<'_>) -> Option<Attribute> {
    Some(match def.kind {
        AttributeKind::Int => Attribute::Int(int(choices)),
        AttributeKind::Float => {
            Attribute::Float(choices.pick(&[0.0, 0.5, 1.0, -1.0, 2.0, 0.01, 1e-5, 3.0]))
        }
        AttributeKind::String if matches!(def.name, "to" | "output_dtype" | "precision") => {
            Attribute::String(choices.pick(&TYPES).name().into())
        }
        AttributeKind::String => Attribute::String(choices.pick(&words(def)).into()),
        AttributeKind::Ints => {
            let spatial = rank.saturating_sub(2);
            let len = match def.name {
                "pads" => 2 * spatial,
                "perm" => rank,
                "axes" => 1 + choices.below(rank.max(1)),
                _ => spatial,
            };
            let len = if choices.one_in(16) {
                choices.below(8)
            } else {
                len
            };
            Attribute::Ints((0..len).map(|_| int(choices)).collect())
        }
        AttributeKind::Floats => {
            let len = choices.below(4);
            Attribute::Floats((0..len).map(|_| choices.pick(&[0.0, 0.5, 1.0])).collect())
        }
        AttributeKind::Strings | AttributeKind::Tensor => return None,
    })
}

/// A small integer, rarely one at the edges of its type.
fn int(choices: &mut Choices<'_>) -> i64 {
    if choices.one_in(64) {
        return choices.pick(&[i64::MIN, i64::MAX, 1 << 31, 1 << 40, -100, 1 << 16]);
    }
    choices.pick(&[0, 1, 2, 3, 1, 2, -1, -2])
}

/// The words of an attribute's description, among which are its values.
fn words(def: &AttributeDef) -> Vec<&'static str> {
    def.doc
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect()
}

/// The inferred types of the outputs; some that are optional are left out.
fn output_types(
    op: &'static OperatorDef,
    attributes: &Attributes,
    inputs: &[Option<Input>],
    choices: &mut Choices<'_>,
) -> Option<Vec<Option<TensorType>>> {
    let (types, constants) = known_to_compiler(inputs);
    let most = match op.outputs.last()?.arity {
        Arity::Variadic => op.outputs.len() + choices.below(3),
        _ => op.outputs.len(),
    };
    let count = 1 + choices.below(most);
    let found = infer(op, attributes, &types, &constants, count).ok()?;
    if found.iter().any(|ty| ty.elements() > ELEMENTS) {
        return None;
    }
    Some(found.into_iter().map(Some).collect())
}
