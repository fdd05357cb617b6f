//! Lower precision: weights of matrix products, convolutions and recurrent layers of f32, and tables of embeddings, in f16
//! or bf16.
//!
//! All other tensors stay f32, and so do sums. A backend may round the other operand to the type of the weights
//! (`tenon.Conv`, `tenon.MatMul` and `LSTM` in docs/operators.md).

use crate::place::{Assignment, BackendSelector};
use crate::rewrite::operator_of;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use tenon_base::{CpuLevel, Error, ErrorKind, Pattern, Result};
use tenon_graph::{
    Attribute, Attributes, DataType, Graph, Node, OperatorDef, Tensor, TensorType, UniqueNames,
    ValueId,
};
use tenon_tensor::convert;

/// Least filters of a group whose weights are converted: backends compute others directly, in f32.
const LEAST_FILTERS: usize = 16;

/// Least elements of a table that is converted.
const LEAST_TABLE: usize = 1 << 16;

/// The type in which products of f32 are computed.
///
/// ```
/// use tenon_compiler::Precision;
///
/// assert_eq!("bf16".parse::<Precision>().unwrap(), Precision::Bf16);
/// assert_eq!(Precision::default().to_string(), "f32");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// As in the model.
    #[default]
    F32,
    /// Weights of f16, products of f32.
    F16,
    /// Weights of bf16; products of bf16 where the CPU has instructions for them, else of f32.
    Bf16,
    /// bf16 if the CPU that compiles has instructions for it, else f32.
    Fast,
}

impl Precision {
    /// Every precision.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Bf16, Self::Fast];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Fast => "fast",
        }
    }

    /// The type of weights; `None` for that of the model.
    fn narrow(self) -> Option<DataType> {
        match self {
            Self::F32 => None,
            Self::F16 => Some(DataType::F16),
            Self::Bf16 => Some(DataType::BF16),
            Self::Fast => CpuLevel::has_bf16().then_some(DataType::BF16),
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let precision = Self::ALL.into_iter().find(|it| it.name() == text);
        precision.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::new(ErrorKind::InvalidArgument, "this is no precision")
                .expected(names)
                .found(format_args!("'{text}'"))
        })
    }
}

/// The precision of all nodes, `bf16`, or of those whose names match a pattern, `head*=f32`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrecisionRule {
    /// The names; `None` for all nodes that no other rule matches.
    pub pattern: Option<Pattern>,
    /// Their precision.
    pub precision: Precision,
}

impl FromStr for PrecisionRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // The name of a node may have '='.
        let (pattern, name) = match text.rsplit_once('=') {
            Some((pattern, name)) => (Some(Pattern::new(pattern)), name),
            None => (None, text),
        };
        let precision = name.parse()?;
        Ok(Self { pattern, precision })
    }
}

/// The precision of each node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Precisions {
    /// That of nodes without an exception.
    pub all: Precision,
    /// Those of nodes whose names match; the first match counts.
    pub exceptions: Vec<(Pattern, Precision)>,
}

impl Precisions {
    /// Adds a rule.
    pub fn add(&mut self, rule: PrecisionRule) {
        match rule.pattern {
            Some(pattern) => self.exceptions.push((pattern, rule.precision)),
            None => self.all = rule.precision,
        }
    }

    fn of(&self, node: &Node) -> Precision {
        let mut exceptions = self.exceptions.iter();
        let exception = exceptions.find(|(pattern, _)| pattern.matches(&node.name));
        exception.map_or(self.all, |(_, precision)| *precision)
    }

    fn all(&self) -> impl Iterator<Item = Precision> {
        let exceptions = self.exceptions.iter().map(|(_, precision)| *precision);
        exceptions.chain([self.all])
    }

    /// Checks that every exception matches a node of a graph, so that a misspelt name is reported.
    pub(crate) fn check<'a>(&self, graphs: impl Iterator<Item = &'a Graph> + Clone) -> Result<()> {
        let unmatched = self.exceptions.iter().filter(|(pattern, _)| {
            let mut nodes = graphs.clone().flat_map(|graph| &graph.nodes);
            !nodes.any(|node| pattern.matches(&node.name))
        });
        let problems = unmatched.map(|(pattern, precision)| {
            let text = format!("no node of the precision {precision} is called like '{pattern}'");
            Error::new(ErrorKind::Usage, text)
                .help("the names of the nodes that are left after optimising: --emit-graph")
        });
        Error::from_all(problems).map_or(Ok(()), Err)
    }
}

/// The type of the weights of a product, if it is narrower than that of the other operand.
pub fn narrow_weights<'a>(
    op: &OperatorDef,
    inputs: impl IntoIterator<Item = Option<&'a TensorType>>,
) -> Option<DataType> {
    let mut types = inputs.into_iter().map(|ty| ty.map(TensorType::dtype));
    let (x, weights) = (types.next()??, types.next()??);
    let is_narrow = has_weights(op) && x == DataType::F32 && weights != DataType::F32;
    is_narrow.then_some(weights)
}

/// The inputs with the weights of products.
fn weights_of(op: &OperatorDef) -> &'static [usize] {
    match op.name {
        "tenon.Conv" | "tenon.MatMul" => &[1],
        "LSTM" | "GRU" | "RNN" => &[1, 2],
        _ => &[],
    }
}

fn has_weights(op: &OperatorDef) -> bool {
    !weights_of(op).is_empty()
}

/// What [`apply`] changed.
#[derive(Default)]
pub(crate) struct Applied {
    /// What is not as the precisions would suggest.
    pub notes: Vec<String>,
    /// For each product with narrower weights its graph with those of f32, by its name.
    pub originals: HashMap<String, Arc<Graph>>,
}

/// Converts the weights of nodes of a lower precision whose backend stays the same.
pub(crate) fn apply(
    graph: &mut Graph,
    selector: &BackendSelector<'_>,
    precisions: &Precisions,
) -> Result<Applied> {
    let mut applied = Applied::default();
    let notes = &mut applied.notes;
    if precisions.all().all(|it| it == Precision::F32) {
        return Ok(applied);
    }
    if !CpuLevel::has_bf16() {
        let mut all = precisions.all();
        if precisions.all().any(|it| it == Precision::Fast) {
            notes.push("precision fast: f32, since the CPU has no instructions for bf16".into());
        }
        if all.any(|it| it == Precision::Bf16) {
            let text = "precision bf16: products of f32 with weights of bf16, since the CPU has no \
                        instructions for bf16";
            notes.push(text.into());
        }
    }
    let mut weights = NarrowWeights {
        names: UniqueNames::of(graph),
        converted: HashMap::new(),
    };
    for node in std::mem::take(&mut graph.nodes) {
        let narrow = precisions.of(&node).narrow();
        let Some((narrow, positions)) = narrow.zip(positions(graph, &node)) else {
            graph.nodes.push(node);
            continue;
        };
        let values = positions.iter();
        let values = values.map(|&it| weights.narrow(graph, node.inputs[it], narrow));
        let Some(values) = values.collect::<Result<Option<Vec<_>>>>()? else {
            notes.push(format!(
                "node '{}' stays in f32: it has weights beyond the range of {narrow}",
                node.name
            ));
            graph.nodes.push(node);
            continue;
        };
        let new = weights.with(graph, &node, (positions, &values))?;
        let before = Assignment::rank(selector.assignment(graph, &node));
        // A Cast is data movement, which any executor does.
        let after = new.first().and_then(|new| selector.assignment(graph, new));
        let is_reference = after.is_some_and(Assignment::is_reference);
        let is_kept = Assignment::rank(after) <= before && !is_reference;
        if is_kept {
            if has_weights(node.op) {
                let original = Arc::new(single(graph, &node));
                applied.originals.insert(node.name, original);
            }
            graph.nodes.extend(new);
        } else {
            graph.nodes.push(node);
        }
    }
    Ok(applied)
}

/// A graph of one node, with its constants.
fn single(graph: &Graph, node: &Node) -> Graph {
    let mut new = Graph::new(node.name.clone());
    let mut of = |id: &Option<ValueId>| {
        id.map(|id| {
            new.values.push(graph.value(id).clone());
            ValueId(new.values.len() as u32 - 1)
        })
    };
    let node = Node {
        inputs: node.inputs.iter().map(&mut of).collect(),
        outputs: node.outputs.iter().map(of).collect(),
        ..node.clone()
    };
    new.nodes.push(node);
    new
}

/// The positions of the inputs of a node that can be narrower: constants of f32.
fn positions(graph: &Graph, node: &Node) -> Option<&'static [usize]> {
    let constant = |position: usize| {
        let value = graph.value(node.inputs.get(position).copied()??);
        value
            .constant
            .as_ref()
            .filter(|it| it.dtype() == DataType::F32)
    };
    if node.op.name == "Gather" {
        let table = constant(0)?;
        let by_rows = table.shape().len() == 2 && node.attributes.int("axis", 0).ok()? == 0;
        return (by_rows && table.ty().elements() >= LEAST_TABLE).then_some(&[0]);
    }
    let positions = weights_of(node.op);
    let weights = constant(*positions.first()?)?;
    if !positions.iter().all(|&it| constant(it).is_some()) {
        return None;
    }
    let groups = node.attributes.int("group", 1).ok()?.max(1) as usize;
    let filters = weights.shape().first()? / groups;
    let is_f32 = node.inputs.first().copied()?.is_some_and(|x| {
        let ty = graph.value(x).ty.as_ref();
        ty.is_some_and(|ty| ty.dtype() == DataType::F32)
    });
    (is_f32 && (groups == 1 || filters >= LEAST_FILTERS)).then_some(positions)
}

/// The converted constants of a graph.
struct NarrowWeights {
    names: UniqueNames,
    /// `None` where elements are beyond the range.
    converted: HashMap<(ValueId, DataType), Option<ValueId>>,
}

impl NarrowWeights {
    /// The constant `value` in a narrower type; `None` where elements are beyond its range.
    fn narrow(
        &mut self,
        graph: &mut Graph,
        value: Option<ValueId>,
        narrow: DataType,
    ) -> Result<Option<ValueId>> {
        let Some(value) = value else {
            return Ok(None);
        };
        if let Some(known) = self.converted.get(&(value, narrow)) {
            return Ok(*known);
        }
        let from = graph.value(value);
        let (name, constant) = (format!("{}.{narrow}", from.name), from.constant.clone());
        let tensor = constant.map(|from| narrowed(&from, narrow)).transpose()?;
        let new = tensor
            .flatten()
            .map(|tensor| graph.add_constant(self.names.value(&name), tensor));
        self.converted.insert((value, narrow), new);
        Ok(new)
    }

    /// A node with narrower constants as inputs; behind a Gather a Cast.
    fn with(
        &mut self,
        graph: &mut Graph,
        node: &Node,
        (positions, values): (&[usize], &[ValueId]),
    ) -> Result<Vec<Node>> {
        let mut new = node.clone();
        for (&position, &value) in positions.iter().zip(values) {
            new.inputs[position] = Some(value);
        }
        let narrow = values
            .first()
            .and_then(|&value| graph.value(value).ty.as_ref());
        let narrow = narrow.map(TensorType::dtype);
        let output = node.outputs.first().copied().flatten();
        let Some((narrow, output)) = narrow.zip(output).filter(|_| !has_weights(node.op)) else {
            return Ok(vec![new]);
        };
        let of = graph.value(output).clone();
        let ty = of.ty.as_ref();
        let ty = ty.map(|ty| TensorType::new(narrow, ty.shape().clone()));
        let rows = graph.add_value(
            self.names.value(&format!("{}.{narrow}", of.name)),
            ty.transpose()?,
        );
        graph.value_mut(rows).extents = of.extents;
        new.outputs = vec![Some(rows)];
        let mut attributes = Attributes::new();
        attributes.set("to", Attribute::String(DataType::F32.to_string()));
        let cast = Node {
            name: self.names.node(&format!("{}.f32", node.name)),
            op: operator_of("Cast")?,
            attributes,
            inputs: vec![Some(rows)],
            outputs: vec![Some(output)],
        };
        Ok(vec![new, cast])
    }
}

/// The elements rounded to `narrow`; `None` where finite ones become infinite.
fn narrowed(from: &Tensor, narrow: DataType) -> Result<Option<Tensor>> {
    let to = convert(from, narrow)?;
    let back = convert(&to, DataType::F32)?;
    let pairs = [from, &back].map(|tensor| tensor.as_slice::<f32>().unwrap_or_default());
    let mut pairs = pairs[0].iter().zip(pairs[1]);
    let overflows = pairs.any(|(from, to)| from.is_finite() && !to.is_finite());
    Ok((!overflows).then_some(to))
}
