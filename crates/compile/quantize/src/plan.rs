//! What is quantised, and the quantised model.

use crate::edit::Edit;
use crate::index::Index;
use crate::int8::{self, SharedWeights};
use crate::parameters::Parameters;
use crate::products::{Product, node_name, product};
use crate::range::Range;
use crate::regions::Regions;
use crate::{half, int4, operator_sets, unread};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use tenon_base::{Error, ErrorKind, Pattern, Result};
use tenon_onnx::proto::{
    GraphProto, ModelProto, NodeProto, TensorTypeProto, TypeProto, TypeValue, ValueInfoProto,
    data_type,
};

/// What becomes integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Weights in i8 and activations in u8.
    Int8,
    /// Weights of matrix products in u4, in blocks of some elements along the axis that is summed over.
    Int4 {
        /// Elements of a block.
        block: usize,
    },
    /// All values of floating point in f16, between inputs and outputs of f32.
    F16,
}

/// Nodes that are not quantised.
#[derive(Debug, Clone, Default)]
pub struct Exclusions {
    /// Patterns of names.
    pub patterns: Vec<Pattern>,
    /// Names, each with the reason.
    pub nodes: BTreeMap<String, String>,
}

/// A node that is a product of weights, and whether it is quantised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedNode {
    /// Its name; of a node without a name that of its first output.
    pub name: String,
    /// Its operator.
    pub operator: String,
    /// Whether it is quantised.
    pub state: NodeState,
}

/// Whether a node is quantised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeState {
    /// It is.
    Quantized,
    /// It is computed in f32, for this reason.
    Kept(String),
}

/// A node that [`Plan::isolated_model`] computes twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsolatedNode {
    /// Its name.
    pub name: String,
    /// The output of the f32 node.
    pub output: String,
    /// The output of the quantised node on the same input.
    pub quantized: String,
}

/// What of a model is quantised.
pub struct Plan {
    model: ModelProto,
    scheme: Scheme,
    nodes: Vec<PlannedNode>,
    /// Positions of the nodes that are quantised.
    products: BTreeSet<usize>,
    regions: Regions,
}

impl Plan {
    /// Plans the quantisation of a model with its data inside.
    ///
    /// # Errors
    /// A model of an operator set before 13, or with values or attributes that are not read as a whole and cannot be
    /// written again.
    pub fn new(model: ModelProto, scheme: Scheme, exclusions: &Exclusions) -> Result<Self> {
        operator_sets::check(&model)?;
        unread::check(&model)?;
        let no_graph = || Error::new(ErrorKind::InvalidModel, "the model has no graph");
        let index = Index::new(model.graph.as_deref().ok_or_else(no_graph)?);
        let (mut nodes, mut products) = (Vec::new(), BTreeMap::new());
        for (position, node) in index.graph.node.iter().enumerate() {
            let Some(found) = product(&index, node) else {
                continue;
            };
            let name = node_name(node);
            let excluded = || match exclusions.nodes.get(name) {
                Some(reason) => Err(reason.clone()),
                None if exclusions
                    .patterns
                    .iter()
                    .any(|pattern| pattern.matches(name)) =>
                {
                    Err("excluded by name".to_owned())
                }
                None => Ok(()),
            };
            let usable = match scheme {
                // Whatever its weights.
                Scheme::F16 => Ok(node.input[0].as_str()),
                Scheme::Int8 => found.map(|product| product.input),
                Scheme::Int4 { .. } => found.and_then(|product| match product.inner_axis {
                    Some(_) => Ok(product.input),
                    None => Err("weights of convolutions keep f32".to_owned()),
                }),
            };
            let state = match usable.and_then(|input| excluded().map(|()| input)) {
                Ok(input) => {
                    products.insert(position, input.to_owned());
                    NodeState::Quantized
                }
                Err(reason) => NodeState::Kept(reason),
            };
            nodes.push(PlannedNode {
                name: name.to_owned(),
                operator: node.op_type.clone(),
                state,
            });
        }
        let regions = match scheme {
            Scheme::Int8 => Regions::new(&index, &products),
            Scheme::Int4 { .. } | Scheme::F16 => Regions::default(),
        };
        Ok(Self {
            products: products.into_keys().collect(),
            model,
            scheme,
            nodes,
            regions,
        })
    }

    /// The products of the model, in order.
    pub fn nodes(&self) -> &[PlannedNode] {
        &self.nodes
    }

    /// Names of the activations whose ranges [`Self::quantized_model`] needs.
    pub fn observed(&self) -> impl Iterator<Item = &str> {
        self.regions.activations.keys().map(String::as_str)
    }

    /// The model with the observed activations as further outputs, behind its own. Those that are inputs or outputs of
    /// the model are not added.
    pub fn observed_model(&self) -> ModelProto {
        let mut model = self.model.clone();
        if let Some(graph) = model.graph.as_deref_mut() {
            add_outputs(graph, self.observed());
        }
        model
    }

    /// The model with a second, quantised node beside each node that is quantised, and the outputs of both behind its own.
    ///
    /// # Errors
    /// As [`Self::quantized_model`].
    pub fn isolated_model(
        &self,
        ranges: &BTreeMap<String, Range>,
    ) -> Result<(ModelProto, Vec<IsolatedNode>)> {
        let index = Index::new(graph(&self.model)?);
        let mut builder = Builder::new(&index, self, ranges)?;
        let mut isolated = Vec::new();
        for &position in &self.products {
            let node = &index.graph.node[position];
            let Some(Ok(product)) = product(&index, node) else {
                continue;
            };
            let Some(output) = node.output.first() else {
                continue;
            };
            let input = builder.activation(product.input);
            let mut second = builder.quantized_node(&product, input)?;
            let quantized = builder.edit.name(output, "isolated");
            second.name.clone_from(&quantized);
            second.output = vec![quantized.clone()];
            builder.edit.nodes.push(second);
            isolated.push(IsolatedNode {
                name: node_name(node).to_owned(),
                output: output.clone(),
                quantized,
            });
        }
        let (nodes, constants) = (builder.edit.nodes, builder.edit.constants);
        let mut model = self.model.clone();
        if let Some(graph) = model.graph.as_deref_mut() {
            graph.node.extend(nodes);
            graph.initializer.extend(constants);
            let outputs = isolated
                .iter()
                .flat_map(|node| [&node.output, &node.quantized]);
            add_outputs(graph, outputs.map(String::as_str));
        }
        self.raise(&mut model)?;
        Ok((model, isolated))
    }

    /// The quantised model, for activations of these ranges.
    ///
    /// # Errors
    /// An activation without a range; weights that are malformed or not finite; with [`Scheme::Int4`] a model that cannot
    /// be changed to operator set 21; with [`Scheme::F16`] operators without f16.
    pub fn quantized_model(&self, ranges: &BTreeMap<String, Range>) -> Result<ModelProto> {
        let index = Index::new(graph(&self.model)?);
        if self.scheme == Scheme::F16 {
            let mut model = half::model(&self.model, &self.kept(&index))?;
            if let Some(graph) = model.graph.as_deref_mut() {
                remove_unused(graph);
            }
            return Ok(model);
        }
        let mut builder = Builder::new(&index, self, ranges)?;
        for input in &index.graph.input {
            builder.quantize(&input.name);
        }
        for (position, node) in index.graph.node.iter().enumerate() {
            let in_region = self.regions.nodes.contains(&position);
            let mut node = match product(&index, node) {
                Some(Ok(product)) if self.products.contains(&position) => {
                    let input = builder.dequantized(product.input, in_region);
                    builder.quantized_node(&product, input)?
                }
                _ => node.clone(),
            };
            for input in &mut node.input {
                *input = builder.dequantized(input, in_region);
            }
            let outputs = node.output.clone();
            builder.edit.nodes.push(node);
            outputs.iter().for_each(|output| builder.quantize(output));
        }
        let (nodes, constants) = (builder.edit.nodes, builder.edit.constants);
        let mut model = self.model.clone();
        if let Some(graph) = model.graph.as_deref_mut() {
            graph.node = nodes;
            graph.initializer.extend(constants);
            remove_unused(graph);
        }
        self.raise(&mut model)?;
        Ok(model)
    }

    /// Positions of the products that are not quantised.
    fn kept(&self, index: &Index<'_>) -> BTreeSet<usize> {
        let nodes = index.graph.node.iter().enumerate();
        let products = nodes.filter(|(_, node)| product(index, node).is_some());
        let products = products.map(|(position, _)| position);
        products.filter(|it| !self.products.contains(it)).collect()
    }

    fn raise(&self, model: &mut ModelProto) -> Result<()> {
        match self.scheme {
            Scheme::Int8 | Scheme::F16 => Ok(()),
            Scheme::Int4 { .. } => operator_sets::raise(model),
        }
    }
}

/// A quantised graph under construction.
struct Builder<'a> {
    edit: Edit<'a>,
    plan: &'a Plan,
    /// By group of activations.
    parameters: HashMap<&'a str, Parameters>,
    constants: HashMap<&'a str, (String, String)>,
    /// The dequantised values of activations.
    dequantized: HashMap<String, String>,
    weights: SharedWeights,
    blocks: HashMap<(String, usize), String>,
}

impl<'a> Builder<'a> {
    fn new(index: &'a Index<'a>, plan: &'a Plan, ranges: &BTreeMap<String, Range>) -> Result<Self> {
        let mut groups: HashMap<&str, Range> = HashMap::new();
        let mut missing = Vec::new();
        for (activation, group) in &plan.regions.activations {
            match ranges.get(activation).filter(|range| !range.is_empty()) {
                Some(&range) => {
                    let joined = groups.entry(group).or_insert(Range::EMPTY);
                    *joined = joined.union(range);
                }
                None => missing.push(activation.as_str()),
            }
        }
        if !missing.is_empty() {
            let text = format!("activations without a range: {}", missing.join(", "));
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        let parameters = groups
            .into_iter()
            .map(|(group, range)| (group, Parameters::of(range)));
        Ok(Self {
            parameters: parameters.collect(),
            edit: Edit::new(index),
            plan,
            constants: HashMap::new(),
            dequantized: HashMap::new(),
            weights: SharedWeights::default(),
            blocks: HashMap::new(),
        })
    }

    /// Quantises a value, if it is one of the activations.
    fn quantize(&mut self, name: &str) {
        if self.plan.regions.activations.contains_key(name) {
            self.activation(name);
        }
    }

    /// The dequantised value of an activation; the value itself where it is not quantised.
    fn activation(&mut self, name: &str) -> String {
        if let Some(output) = self.dequantized.get(name) {
            return output.clone();
        }
        let group = self.plan.regions.activations.get(name);
        let Some((group, &parameters)) = group.and_then(|group| {
            let group = group.as_str();
            Some((group, self.parameters.get(group)?))
        }) else {
            return name.to_owned();
        };
        let edit = &mut self.edit;
        let constants = self.constants.entry(group);
        let constants =
            constants.or_insert_with(|| int8::parameter_constants(edit, group, parameters));
        let output = int8::quantize_activation(edit, name, constants);
        self.dequantized.insert(name.to_owned(), output.clone());
        output
    }

    /// What a node reads for a value. An activation that was computed in f32 stays so for nodes outside of the regions.
    fn dequantized(&self, name: &str, in_region: bool) -> String {
        let computed = self.edit.index.producer(name);
        let from_region =
            computed.is_some_and(|(position, _)| self.plan.regions.nodes.contains(&position));
        match self.dequantized.get(name) {
            Some(output) if in_region || from_region => output.clone(),
            _ => name.to_owned(),
        }
    }

    /// The node of a product that reads `input` and dequantised weights.
    fn quantized_node(&mut self, product: &Product<'_>, input: String) -> Result<NodeProto> {
        let mut node = product.node.clone();
        node.input[0] = input;
        match (self.plan.scheme, product.inner_axis) {
            (Scheme::Int4 { block }, Some(axis)) => {
                let (edit, shared) = (&mut self.edit, &mut self.blocks);
                node.input[1] = int4::dequantized_weights(edit, product, (axis, block), shared)?;
            }
            _ => {
                let group = self.plan.regions.activations.get(product.input);
                let parameters = group.and_then(|group| self.parameters.get(group.as_str()));
                let parameters = *parameters.ok_or_else(|| {
                    Error::new(ErrorKind::Internal, "a product of an unknown activation")
                })?;
                let (edit, shared) = (&mut self.edit, &mut self.weights);
                let (weights, bias) = int8::dequantized_weights(edit, product, parameters, shared)?;
                node.input[1] = weights;
                if let Some(bias) = bias {
                    node.input[2] = bias;
                }
            }
        }
        Ok(node)
    }
}

fn graph(model: &ModelProto) -> Result<&GraphProto> {
    let graph = model.graph.as_deref();
    graph.ok_or_else(|| Error::new(ErrorKind::Internal, "the model has no graph"))
}

/// Adds f32 values to the outputs of a graph, each once; inputs and outputs of the graph are not added.
fn add_outputs<'a>(graph: &mut GraphProto, names: impl Iterator<Item = &'a str>) {
    let present = graph.input.iter().chain(&graph.output);
    let mut present: HashSet<String> = present.map(|it| it.name.clone()).collect();
    let float = TypeProto {
        value: Some(TypeValue::Tensor(TensorTypeProto {
            elem_type: data_type::FLOAT,
            shape: None,
        })),
    };
    for name in names {
        if present.insert(name.to_owned()) {
            graph.output.push(ValueInfoProto {
                name: name.to_owned(),
                r#type: Some(Box::new(float.clone())),
            });
        }
    }
}

/// Removes constants that no node reads any more, and the types of values that are gone.
fn remove_unused(graph: &mut GraphProto) {
    let index = Index::new(graph);
    let unused = |name: &str| index.consumers(name).is_empty() && !index.escapes(name);
    let mut removed: HashSet<String> = HashSet::new();
    for constant in &graph.initializer {
        if unused(&constant.name) {
            removed.insert(constant.name.clone());
        }
    }
    for node in &graph.node {
        let outputs = node.output.iter();
        let all = outputs
            .clone()
            .all(|output| index.constant(output).is_some() && unused(output));
        removed.extend(outputs.filter(|_| all).cloned());
    }
    graph.initializer.retain(|it| !removed.contains(&it.name));
    graph.input.retain(|it| !removed.contains(&it.name));
    graph.value_info.retain(|it| !removed.contains(&it.name));
    graph.node.retain(|node| {
        node.output.is_empty() || !node.output.iter().all(|it| removed.contains(it))
    });
}
